"""`import flipproof` is light, and every public name can be imported."""

import importlib.metadata
import re
import subprocess
import sys
import textwrap
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


def test_the_mathematics_needs_numpy_and_scipy_alone():
    missing = [
        "sklearn",
        "joblib",
        "threadpoolctl",
        "safetensors",
        "pyarrow",
        "narwhals",
        "pandas",
        "matplotlib",
        "click",
        "rich",
    ]
    code = f"""
        import importlib, pkgutil, sys
        sys.modules.update(dict.fromkeys({missing}))  # an import of these fails
        import flipproof.core
        for module in pkgutil.iter_modules(flipproof.core.__path__):
            importlib.import_module(f"flipproof.core.{{module.name}}")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", flipproof.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(flipproof, name) is not None
    assert name in dir(flipproof)


def test_unknown_names_raise_an_error():
    with pytest.raises(AttributeError, match="module 'flipproof' has no attribute 'certfy'"):
        flipproof.certfy  # noqa: B018


def test_the_version_matches_the_package():
    try:
        installed = importlib.metadata.version("flipproof")
    except importlib.metadata.PackageNotFoundError:
        installed = "0+unknown"
    assert flipproof.__version__ == installed


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
