"""docs/architecture.md names the rooms of the package, in the order in which they may import each other."""

import re
import tomllib

from documentation.pages import ROOT

import flipproof

PACKAGE = ROOT / "src" / "flipproof"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TABLE = [
    (re.findall(r"`(\w+)`", rooms), set(re.findall(r"`([a-z_]+)`", described)))
    for rooms, described in re.findall(r"^\| (`.+?`) \| (.+) \|$", PAGE, re.MULTILINE)
]
ROOMS = [room for rooms, _ in TABLE for room in rooms]


def test_the_table_names_every_room_once():
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert sorted(ROOMS) == sorted(modules - {"__init__"})


def test_rooms_are_in_the_order_of_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    depth_of = {room: depth for depth, layer in enumerate(layers) for room in layer.split(" | ")}
    depths = [depth_of[room] for room in ROOMS]
    assert depths == sorted(depths)


def test_modules_that_the_table_describes_exist():
    for rooms, described in TABLE:
        modules = {path.stem for room in rooms for path in (PACKAGE / room).glob("*.py")}
        strange = described - modules - set(ROOMS) - set(dir(flipproof)) - set(dir(flipproof.checks))
        assert not strange, f"{rooms}: {strange}"
