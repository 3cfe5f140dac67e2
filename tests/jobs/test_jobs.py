"""Five jobs of new users on real files, each a few lines that use only what the README and the docs show."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

JOBS = Path(__file__).parent

pytestmark = pytest.mark.slow


def run_job(name, folder, out):
    """Run a script in a folder, with the command of this environment; `OUT` names the folder of its results."""
    script = JOBS / name
    assert len([line for line in script.read_text().splitlines() if line.strip()]) < 10
    program = [sys.executable, str(script)] if script.suffix == ".py" else ["bash", "-e", str(script)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        program, cwd=folder, env={**os.environ, "OUT": str(out), "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_adult_in_a_notebook(data_dir, tmp_path):
    printed = run_job("adult_in_a_notebook.py", data_dir, tmp_path)
    assert "16281" in printed.replace(",", "")
    assert "education" in printed


def test_spambase_in_ci(data_dir, tmp_path):
    printed = run_job("spambase_in_ci.sh", data_dir, tmp_path)
    assert printed.count("Met:") == 2
    assert "VERIFIED: 1,150 of 1,150 rows checked" in printed


def test_sms_with_a_report(data_dir, tmp_path):
    run_job("sms_with_a_report.sh", data_dir, tmp_path)
    page = (tmp_path / "sms.html").read_text()
    assert "<title>SMS spam filter" in page
    assert str(Path.cwd()) not in page


def test_enron_json_lines(data_dir, tmp_path):
    run_job("enron_json_lines.sh", data_dir, tmp_path)
    written = parquet.read_table(tmp_path / "enron.parquet")
    assert written.num_rows == 200
    assert "correct" in written.column_names


def test_two_million_rows(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "rows").mkdir()
    centers = rng.normal(size=(2, 10))

    def rows(n):
        y = rng.integers(2, size=n)
        X = (rng.normal(size=(n, 10)) + centers[y]).astype(np.float32)
        return pa.table({f"x{column}": X[:, column] for column in range(10)} | {"label": y})

    for number in range(4):
        parquet.write_table(rows(500_000), tmp_path / "rows" / f"part-{number}.parquet")
    parquet.write_table(rows(300), tmp_path / "test.parquet")
    run_job("two_million_rows.sh", tmp_path, tmp_path)
    written = parquet.read_table(tmp_path / "certificates.parquet")
    assert written.num_rows == 300
    assert np.median(written["radius"]) > 10_000
