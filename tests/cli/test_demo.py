"""`flipproof demo` as a user runs it: a new process, real files, real exit codes."""

import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from patience import SECONDS
from terminal import signalled

from flipproof.cli.group import run as in_process

FIGURE = Path("flipproof-demo") / "certified-accuracy.png"
PROOF = FIGURE.parent / "digits.flipproof"
COMMAND = [sys.executable, "-c", "from flipproof.cli import main; main()"]

#: Run in the command's process before it starts: the named module cannot be imported.
BLOCKED = "import sys; sys.modules[{module!r}] = None; from flipproof.cli import main; main()"


def run(folder, *arguments, command=COMMAND, **environment):
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def png_size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert content[12:16] == b"IHDR"
    assert content[-8:-4] == b"IEND"
    return struct.unpack(">II", content[16:24])


def assert_refused(result, *words):
    """Check that the only output is one clear line."""
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("flipproof: ")
    for word in words:
        assert word in result.stderr


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The default run: (its result, its folder)."""
    folder = tmp_path_factory.mktemp("demo")
    result = run(folder, "demo")
    assert result.returncode == 0, result.stderr
    return result, folder


def test_demo_prints_both_problems(demo):
    result, _ = demo
    for expected in (
        "n = 270 training labels, 91 test rows, K = 2 classes",
        "n = 1347 training labels, 450 test rows, K = 10 classes",
        "constant classifier: ",
        "lambda = ",
        "q = 0.0001",
        "Assumptions:",
    ):
        assert expected in result.stdout
    for method in ("exact", r"  worst class", r"tight \(q = 0.0001\)", r"kl \(q = 0.0001\)"):
        assert len(re.findall(rf"^{method}(?: +\d+\.\d%){{6}}$", result.stdout, flags=re.MULTILINE)) == 2
    assert re.search(r"Test row \d+ is predicted as a [17]\. ", result.stdout)
    assert re.search(r"any\s+\d+\s+of\s+the\s+270\s+training\s+labels", result.stdout)


def test_demo_tables_are_ordered_as_the_theory_says(demo):
    rows = [list(map(float, re.findall(r"(\d+\.\d)%", line))) for line in demo[0].stdout.splitlines()]
    rows = [row for row in rows if len(row) == 6]
    for _shares, exact, _worst, tight, kl in (rows[:5], rows[5:]):
        assert exact[0] == tight[0] == kl[0]
        assert all(e >= t >= k for e, t, k in zip(exact, tight, kl, strict=True))
        assert exact == sorted(exact, reverse=True)
        assert exact[2] > 70


def test_demo_writes_no_messages_to_stdout_and_no_data_to_stderr(demo):
    result, _ = demo
    # progress is for terminals; elsewhere, a step that takes ten seconds or more is named
    assert all(line.startswith("flipproof: ") for line in result.stderr.splitlines())
    assert "certificates for 91 test rows" not in result.stdout


def test_demo_json_output_is_only_json(demo, tmp_path, capfd):
    assert in_process(["demo", "--json", "--quiet", "--out", str(tmp_path)]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    stored = json.loads(captured.out)
    assert [problem["n_test"] for problem in stored["problems"]] == [91, 450]
    exact = stored["problems"][0]["methods"][0]["certified"]
    assert f"{math.floor(exact[2] * 1000) / 10:.1f}%" in demo[0].stdout
    assert stored["curves"] == str(tmp_path / FIGURE.name)


def test_demo_is_plain_text_of_80_columns_when_piped(demo):
    result, _ = demo
    assert "\x1b" not in result.stdout + result.stderr
    assert "…" not in result.stdout
    assert max(map(len, (result.stdout + result.stderr).splitlines())) <= 80


def test_demo_saves_the_figure_and_names_it(demo):
    result, folder = demo
    *_, curves, proof, verdict = result.stdout.splitlines()
    assert curves == f"Curves: {FIGURE}"
    assert proof == f"Proof:  {PROOF}"
    assert "verified by a second program" in verdict
    width, height = png_size(folder / FIGURE)
    assert width > height > 400
    assert {path.name for path in (folder / FIGURE).parent.iterdir()} == {FIGURE.name, PROOF.name}


@pytest.mark.slow
def test_the_seed_decides_everything(demo, tmp_path):
    result, _ = demo
    # neither the terminal width nor the number of threads changes the output
    same = run(tmp_path, "demo", "--seed", "0", COLUMNS="40", OPENBLAS_NUM_THREADS="1")
    assert same.stdout == result.stdout
    deep = tmp_path / "not" / "there yet"
    other = run(tmp_path, "demo", "--seed", "1", "--out", str(deep))
    assert other.returncode == 0
    assert other.stdout.splitlines()[:-3] != result.stdout.splitlines()[:-3]
    assert other.stdout.splitlines()[-3] == f"Curves: {deep / FIGURE.name}"
    png_size(deep / FIGURE.name)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", ["-1", "4294967296", "1.5", "seven", ""])
def test_a_bad_seed_is_refused(tmp_path, seed):
    assert_refused(run(tmp_path, "demo", "--seed", seed), "error", "--seed")
    assert not list(tmp_path.iterdir())


@pytest.mark.few(1)
@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_folder_that_is_a_file_is_refused_before_the_work(tmp_path, out):
    (tmp_path / "file").write_text("mine")
    assert_refused(run(tmp_path, "demo", "--out", out), "error", f"'{out}'", "not a folder")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_named_like_the_figure_is_refused_before_the_work(tmp_path):
    (tmp_path / FIGURE).mkdir(parents=True)
    assert_refused(run(tmp_path, "demo"), "error", FIGURE.name, "it is a folder")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that not even root can write to")
def test_an_unwritable_folder_is_refused_before_the_work(tmp_path):
    assert_refused(run(tmp_path, "demo", "--out", "/proc/self"), "error", "cannot write to '/proc/self'")


@pytest.mark.parametrize("arguments", [["bogus"], ["demo", "--bogus"], ["demo", "extra"]])
def test_wrong_usage_points_to_the_help(tmp_path, arguments):
    assert_refused(run(tmp_path, *arguments), "error", arguments[-1], "--help")


@pytest.mark.parametrize("module", ["click", "rich"])
def test_without_click_or_rich_the_error_says_what_to_install(tmp_path, module):
    result = run(tmp_path, "demo", command=[sys.executable, "-c", BLOCKED.format(module=module)])
    assert_refused(result)
    assert result.stderr == "flipproof: the command line needs click and rich: pip install 'flipproof[cli]'\n"


def test_without_matplotlib_the_error_comes_before_the_work(tmp_path):
    result = run(tmp_path, "demo", command=[sys.executable, "-c", BLOCKED.format(module="matplotlib")])
    assert_refused(result, "pip install 'flipproof[cli,plot]'")
    assert not list(tmp_path.iterdir())


@pytest.mark.few(1)
@pytest.mark.parametrize("arguments", [["--help"], ["-h"], [], ["demo", "--help"]])
def test_help_fits_80_columns(tmp_path, arguments):
    result = run(tmp_path, *arguments, COLUMNS="80")
    assert result.returncode == 0
    assert result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "flipproof demo" in result.stdout


def test_help_and_version_do_not_load_scikit_learn(tmp_path):
    script = (
        "import sys\nfrom flipproof.cli import main\ntry:\n    main()\n"
        "finally:\n    print(sorted({'numpy', 'sklearn', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    for argument in ("--help", "--version"):
        result = run(tmp_path, argument, command=[sys.executable, "-c", script])
        assert result.stdout.splitlines()[-1] == "[]"


def test_version_is_printed(tmp_path):
    from flipproof import __version__

    assert run(tmp_path, "--version").stdout == f"flipproof {__version__}\n"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_prints_one_line_and_leaves_no_figure(tmp_path):
    code, data, talk = signalled(tmp_path, ["demo"], "certificates", signal.SIGINT)
    assert code == 130
    assert data == ""
    assert talk.splitlines()[-1] == "flipproof: interrupted"
    assert "Traceback" not in talk
    assert not list((tmp_path / FIGURE).parent.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_terminated_run_leaves_no_figure(tmp_path):
    code, data, talk = signalled(tmp_path, ["demo"], "certificates", signal.SIGTERM)
    assert code == 143
    assert data == ""
    assert "Traceback" not in talk
    assert not list((tmp_path / FIGURE).parent.iterdir())


@pytest.mark.slow
def test_a_closed_pipe_is_not_a_failed_requirement(tmp_path):
    command = f"{sys.executable} -m flipproof demo --out {tmp_path} 2>/dev/null | head -1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.stdout.splitlines()[-1] in ("0", "141")  # 0 if everything was written before the pipe closed
