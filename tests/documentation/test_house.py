"""Rules of the house that linters do not know: names of modules, and private names across rooms."""

import ast
from collections import Counter, defaultdict

from documentation.pages import ROOT

PACKAGE = ROOT / "src" / "flipproof"
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_each_module_has_a_name_of_its_own():
    names = Counter(path.name for path in [*MODULES, *(ROOT / "src" / "flipproof_verify").rglob("*.py")])
    assert [name for name, times in names.items() if times > 1] == ["__init__.py"]


def private(name):
    return name.startswith("_") and not name.startswith("__")


class Class:
    """A class: its room, its bases, and the private names that it defines and uses."""

    def __init__(self, path, node):
        self.name, self.path = node.name, path.relative_to(PACKAGE)
        self.room = self.path.parts[0].removesuffix(".py")
        self.bases = [getattr(base, "id", None) for base in node.bases]
        self.defined, self.used = set(), set()
        for one in node.body:
            if isinstance(one, ast.FunctionDef):
                self.defined.add(one.name)
            elif isinstance(one, ast.AnnAssign):
                self.defined.add(one.target.id)
        for one in ast.walk(node):
            if isinstance(one, ast.Attribute):
                (self.defined if isinstance(one.ctx, ast.Store) else self.used).add(one.attr)
        self.defined, self.used = set(filter(private, self.defined)), set(filter(private, self.used))


CLASSES = {
    node.name: Class(path, node)
    for path in MODULES
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.ClassDef)
}


def ancestors(one):
    for base in one.bases:
        if base in CLASSES:
            yield CLASSES[base]
            yield from ancestors(CLASSES[base])


def test_subclasses_in_other_rooms_use_public_names():
    found = defaultdict(set)
    for one in CLASSES.values():
        for base in ancestors(one):
            if base.room != one.room:
                found[f"{one.path} {one.name}"] |= base.defined & (one.used | one.defined)
    assert {name: names for name, names in found.items() if names} == {}


def test_private_names_of_other_objects_are_of_the_same_room():
    found, of_room = [], defaultdict(set)
    for one in CLASSES.values():
        of_room[one.room] |= one.defined
    ours = set().union(*of_room.values())
    for path in MODULES:
        foreign = ours - of_room[path.relative_to(PACKAGE).parts[0].removesuffix(".py")]
        for one in ast.walk(ast.parse(path.read_text())):
            if isinstance(one, ast.Attribute) and one.attr in foreign:
                on_itself = isinstance(one.value, ast.Name) and one.value.id in ("self", "cls")
                if not on_itself and not isinstance(one.value, ast.Call):  # super()
                    found.append(f"{path.relative_to(PACKAGE)}:{one.lineno}: {one.attr}")
    assert found == []
