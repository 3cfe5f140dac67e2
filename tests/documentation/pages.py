"""Code blocks of docs/: how they are found, run and recorded.

A page is run from top to bottom in an empty folder. Blocks of Python share one namespace; of shell blocks, the commands
that begin with `flipproof` are run in this process. A block of text right after a block is what it must print. A page
may have a setup, which defines the names and writes the files that its text leaves to the reader
(`documentation.setups`).

Not run are blocks after a comment ``<!-- not run: reason -->``, and commands that install packages.

``PYTHONPATH=src:tests python -m documentation.pages docs/results.md`` runs a page and records what it prints.
"""

import contextlib
import io
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

BLOCK = re.compile(
    r"(?P<mark><!--[ ]not[ ]run:(?P<reason>[^>]*)-->\n+)?"
    r"^```(?P<language>\w+)\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)

#: Commands that change the machine; the commands of the README and CONTRIBUTING.md run in continuous integration.
INSTALLS = ("pip ", "apt-get ", "sudo ", "git ", "make ", "python -m venv", "pre-commit ")


@dataclass(frozen=True)
class Block:
    """A block of code: its language, code, expected output, and the reason why it is not run."""

    language: str
    code: str
    output: str | None
    reason: str | None
    line: int
    span: tuple[int, int]  # of the output in the text of the page


def pages():
    """Return all pages that are written by hand; tests/test_readme.py runs the code of the README."""
    made = {"_build", "api", "examples", "project"}
    docs = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.relative_to(ROOT).parts[1] not in made]
    return [ROOT / "CONTRIBUTING.md", *docs]


def blocks(text):
    """Return the blocks of Python and shell commands of a page."""
    return [
        Block(
            language=found["language"],
            code=found["code"],
            output=found["output"],
            reason=None if found["reason"] is None else found["reason"].strip(),
            line=text[: found.start("code")].count("\n") + 1,
            span=found.span("output"),
        )
        for found in BLOCK.finditer(text)
        if found["language"] in {"python", "bash"}
    ]


def commands(code):
    """Return the command lines of a shell block, without comments."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def run(block, names, page):
    """Run a block and return what it prints on stdout."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if block.language == "python":
            code = "\n" * (block.line - 1) + block.code  # so that a traceback names the line of the page
            exec(compile(code, str(page), "exec"), names)
        else:
            from flipproof.cli.group import run as flipproof

            for line in commands(block.code):
                if line.startswith(INSTALLS):
                    continue
                program, *arguments = shlex.split(line, comments=True)
                assert program == "flipproof", f"{page}:{block.line}: mark this block as not run, with the reason"
                code = flipproof(arguments)
                assert code == 0, f"{page}:{block.line}: {line!r} exits with {code}"
    return printed.getvalue()


def run_page(page, check):
    """Run a page in the present folder; `check` gets each block and what it printed."""
    import matplotlib.pyplot as plt
    from documentation.setups import SETUPS

    plt.switch_backend("Agg")
    names = {"__name__": "page"}
    name = page.relative_to(ROOT).as_posix()
    names |= SETUPS[name]() if name in SETUPS else {}
    try:
        for block in blocks(page.read_text()):
            if block.reason is None:
                check(block, run(block, names, name))
    finally:
        plt.close("all")


def record(page):
    """Run a page and write what its blocks print into the blocks of text after them."""
    printed = []
    run_page(page, lambda block, output: printed.append((block, output)))
    text = page.read_text()
    for block, output in reversed(printed):
        if block.output is not None and block.language == "python":
            text = text[: block.span[0]] + output + text[block.span[1] :]
    page.write_text(text)


if __name__ == "__main__":
    for given in [Path(one).resolve() for one in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            record(given)
        sys.stderr.write(f"{given.name}: recorded\n")
