"""flipproof: a certificate for every prediction against changed training labels."""

import ast
from importlib import import_module

# Public names are listed in __init__.pyi, which type checkers read. They are imported when they are first used, so that
# `import flipproof` is quick.
with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as _stub:
    _imports = [one for one in ast.parse(_stub.read()).body if isinstance(one, ast.ImportFrom)]

PUBLIC_NAMES = {name.name: one.module for one in _imports if one.module for name in one.names}
PUBLIC_SUBPACKAGES = tuple(name.name for one in _imports if not one.module for name in one.names)

__all__ = ["__version__", *PUBLIC_NAMES, *PUBLIC_SUBPACKAGES]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name in PUBLIC_NAMES:
        return getattr(import_module(f"flipproof.{PUBLIC_NAMES[name]}"), name)
    if name in PUBLIC_SUBPACKAGES:
        return import_module(f"flipproof.{name}")
    raise AttributeError(f"module 'flipproof' has no attribute {name!r}")


def _version() -> str:
    """Return the version of the installed package, which the build takes from the latest tag."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("flipproof")
    except PackageNotFoundError:  # source files that were not installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
