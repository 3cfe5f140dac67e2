"""`import flipproof` is light, and every public name can be imported."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flipproof


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("statement", "foreign"),
    [
        ("import flipproof", "click rich matplotlib pyarrow pandas sklearn scipy"),
        ("from flipproof import CertifiedRidgeClassifier", "click rich matplotlib"),
    ],
)
def test_import_is_light(statement, foreign):
    code = f"{statement}; import sys; print([name for name in {foreign.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", flipproof.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(flipproof, name) is not None
    assert name in dir(flipproof)


def test_unknown_names_raise_an_error():
    with pytest.raises(AttributeError, match="module 'flipproof' has no attribute 'certfy'"):
        flipproof.certfy  # noqa: B018


def test_the_version_matches_the_package():
    assert flipproof.__version__ == importlib.metadata.version("flipproof")


@pytest.mark.deep("mypy")
def test_type_checkers_know_every_public_name(tmp_path):
    code = tmp_path / "reveal.py"
    code.write_text("\n".join(["import flipproof", *(f"reveal_type(flipproof.{name})" for name in flipproof.__all__)]))
    # in the folder of pyproject.toml: its settings and cache
    command = [sys.executable, "-m", "mypy", "--no-pretty", str(code)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stdout + done.stderr
    types = re.findall(r'note: Revealed type is "(.*)"', done.stdout)
    assert "Any" not in types
    assert len(types) == len(flipproof.__all__)
