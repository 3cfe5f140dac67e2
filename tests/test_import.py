"""`import flipproof` is light, and every public name can be imported."""

import importlib.metadata
import subprocess
import sys

import pytest

import flipproof


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
