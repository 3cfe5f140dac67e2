"""Studies are defined, run quickly, are resumed, and say what is missing; their committed rows match code and pages."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tiers import mostly_slow

from flipproof.cli import reproduce as reproduce_command
from flipproof.cli.group import run as command
from flipproof.experiments import experiment_names, read_study, reproduce_study, study_names
from flipproof.experiments.row_files import FINISHED, certified
from flipproof.experiments.studies.study import Case, Measured, Problem, Study, StudyRun
from flipproof.experiments.studies.study_runner import rows_of_case, study_results

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "reproduction"

#: The page that shows the tables of a study.
PAGES = {
    "trust": "trusted-labels.md",
    "crowds": "crowd-labels.md",
    "regression": "regression.md",
    "graphs": "graphs.md",
}

#: Test rows of each case.
TEST_ROWS = {
    "trust": {"spambase-draws": 1150, "spambase": 1150, "phishing": 2764, "adult": 2000},
    "crowds": {"cifar10n": 300},
    "regression": {"diabetes": 110, "german-credit": 250, "adult": 300},
    "graphs": dict.fromkeys(("cora", "cora-all", "citeseer", "citeseer-all"), 1000),
}

#: Runs that are computed again: of every case one that takes seconds.
DONE_AGAIN = {
    "trust": ("spambase", ("2 % trusted, trusted labels only: ridge", "5 % trusted, forest, prior of weight 2")),
    "regression": ("diabetes", ("ridge", "neighbours, median", "least squares, solver")),
    "graphs": ("cora", ("ridge on two hops, clip=0.9", "poisson, alpha=0.99")),
}


@cache
def committed(name):
    return study_results(read_study(name), COMMITTED / name)


def test_the_command_knows_all_experiments_and_studies():
    assert sorted(reproduce_command.DATA_SETS) == experiment_names()
    assert list(reproduce_command.STUDIES) == study_names()
    with pytest.raises(ValueError, match="Known: trust, crowds"):
        read_study("imdb")


@pytest.mark.parametrize("name", study_names())
def test_cases_and_runs_have_names_of_their_own(name):
    study = read_study(name)
    assert study.name == name
    assert study.caption.strip()
    assert len({case.name for case in study.cases}) == len(study.cases)
    for case in study.cases:
        assert len({run.name for run in case.runs}) == len(case.runs)
        assert json.loads(json.dumps([dict(run.settings) for run in case.runs]))
        assert set(case.decimals) <= set(case.columns)


@pytest.mark.parametrize("name", study_names())
def test_every_run_has_every_test_row(name):
    rows, records = committed(name)
    study = read_study(name)
    assert {case: {len(run.index) for run in runs.values()} for case, runs in rows.items()} == {
        case: {size} for case, size in TEST_ROWS[name].items()
    }
    for case in study.cases:
        assert list(rows[case.name]) == [run.name for run in case.runs]
        record = records[case.name]
        assert record["spec"] == case.fingerprint
        assert not record["quick"]
        assert record["data"]["checksums"] or case.name == "diabetes"
        first, *others = rows[case.name].values()
        assert all(first.is_of_the_same_test_rows(other) for other in others)
        for environment in record["environments"].values():
            assert {"flipproof", "numpy", "scipy", "scikit-learn"} <= set(environment["versions"])


@pytest.mark.parametrize("name", study_names())
def test_tables_and_pages_show_the_rows(name):
    study, found = read_study(name), committed(name)
    assert (COMMITTED / name / "tables.md").read_text() == study.page(*found)
    page = (ROOT / "docs" / PAGES[name]).read_text()
    for block in study.tables(*found):
        assert f"\n\n{block}\n" in page, block


@pytest.mark.data
@pytest.mark.parametrize("name", DONE_AGAIN)
def test_committed_rows_are_computed_again(name, data_dir):
    case_name, runs = DONE_AGAIN[name]
    case = next(one for one in read_study(name).cases if one.name == case_name)
    problem, rows = case.read(data_dir, False, 0), committed(name)[0][case_name]
    for run in case.runs:
        if run.name in runs:
            again = case.measure(run, problem, 0).columns
            for column in case.columns:
                old, new = rows[run.name][column], again[column]
                if column in case.decimals:  # of floats, the last bits may differ between processors
                    np.testing.assert_allclose(old, new, rtol=1e-9, err_msg=f"{run.name}, {column}")
                else:
                    np.testing.assert_array_equal(old, new, err_msg=f"{run.name}, {column}")


@pytest.mark.data
@pytest.mark.parametrize("name", mostly_slow(study_names(), fast=(2,)))
def test_a_quick_run(name, data_dir, tmp_path, capfd):
    arguments = ["reproduce", name, "--quick", "--data-dir", str(data_dir), "--out", str(tmp_path)]
    assert command(arguments) == 0
    folder = tmp_path / f"{name}-quick"
    assert str(folder / "tables.md") in capfd.readouterr().out
    assert "not a result" in (folder / "tables.md").read_text()
    rows, records = study_results(read_study(name), folder)
    assert set(rows) == set(TEST_ROWS[name])
    assert all(record["quick"] for record in records.values())
    assert max(record["n_test"] for record in records.values()) <= 60
    before = (folder / "tables.md").read_bytes()
    (folder / "tables.md").unlink()
    assert command(["reproduce", "figures", "--quick", "--out", str(tmp_path)]) == 0
    assert (folder / "tables.md").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("trust", ("spambase.data", "phishing_website.csv", "adult.data")),
        ("crowds", ("cifar10_lite2_lite0_pca192.npz", "cifar10_human_labels.npz")),
        ("graphs", ("cora.npz", "citeseer.npz")),
    ],
)
def test_all_missing_data_is_named_at_once(name, named, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("flipproof.datasets.shelf.fetch", _no_network)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", _no_network)
    assert command(["reproduce", name, "--data-dir", str(tmp_path), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    (said,) = capfd.readouterr().err.splitlines()  # quiet: not that it tries to download
    for file in named:
        assert f"Put {file}" in said
    assert not list((tmp_path / "out").rglob("*.*"))


def _no_network(*arguments, **options):
    raise OSError("no network")


# --- a small study


def toy(calls, seed_of_data=0, settings=(1, 2)):
    def read(data_dir, quick, seed):
        rng = np.random.default_rng(seed_of_data)
        n_test = 4 if quick else 8
        return Problem(rng.integers(2, size=20), np.arange(n_test), rng.integers(2, size=8)[:n_test], 20, "Drawn.", {})

    def measure(run, problem, seed):
        calls.append(run.name)
        prediction = np.full(len(problem.index), run.settings["class"])
        return Measured({"prediction": prediction, "width": np.arange(len(prediction)) / 3}, {"sum": 3.0})

    def tables(rows, records):
        shares = [float(np.mean(run["prediction"] == run.label)) for run in rows["toy"].values()]
        return [f"| {shares} | {records['toy']['runs']['run 1']['sum']} |"]

    runs = tuple(StudyRun(f"run {one}", {"class": one}) for one in settings)
    case = Case("toy", "Toy", runs, ("prediction", "width"), read, measure, ("width",))
    return Study("toy", "Toys", "A caption.", (case,), tables)


def test_complete_runs_are_kept_and_decimals_are_read_back_to_the_last_bit(tmp_path):
    calls, said = [], []
    reproduce_study(toy(calls), tmp_path)
    assert calls == ["run 1", "run 2"]
    assert (tmp_path / "toy" / FINISHED).exists()
    rows, records = study_results(toy([]), tmp_path)
    np.testing.assert_array_equal(rows["toy"]["run 1"]["width"], np.arange(8) / 3)
    assert records["toy"]["n_train"] == 20
    before = (tmp_path / "tables.md").read_text()
    reproduce_study(toy(calls), tmp_path, say=said.append)
    assert calls == ["run 1", "run 2"]
    assert said == ["Toys: loading"]
    assert (tmp_path / "tables.md").read_text() == before
    with pytest.raises(OSError, match=r"2 of 3 runs are complete. Run 'flipproof reproduce toy'"):
        study_results(toy([], settings=(1, 2, 3)), tmp_path)
    reproduce_study(toy(calls, settings=(1, 2, 3)), tmp_path)  # one run is new
    assert calls == ["run 1", "run 2", "run 3"]


def test_an_interrupted_study_is_resumed(tmp_path):
    study = toy([])
    case = study.cases[0]

    def interrupted(run, problem, seed):
        if run.name == "run 2":
            raise KeyboardInterrupt
        return case.measure(run, problem, seed)

    with pytest.raises(KeyboardInterrupt):
        reproduce_study(replace(study, cases=(replace(case, measure=interrupted),)), tmp_path)
    assert list(rows_of_case(case, tmp_path / "toy").runs()) == ["run 1"]
    with pytest.raises(OSError, match="1 of 2 runs are complete"):
        study_results(study, tmp_path)
    calls = []
    reproduce_study(toy(calls), tmp_path)
    assert calls == ["run 2"]


@pytest.mark.parametrize("change", [{"seed": 1}, {"quick": True}])
def test_runs_of_another_seed_or_of_other_rows_are_computed_again(change, tmp_path):
    reproduce_study(toy([]), tmp_path)
    calls, said = [], []
    reproduce_study(toy(calls), tmp_path, say=said.append, **change)
    assert calls == ["run 1", "run 2"]
    assert "removed the rows of 'run 1', 'run 2'" in said[1]


def test_rows_that_do_not_belong_to_the_data_are_refused(tmp_path):
    reproduce_study(toy([]), tmp_path)
    file = rows_of_case(toy([]).cases[0], tmp_path / "toy")
    rows = file.runs()["run 1"]
    file.keep_only(["run 2"])
    file.append("run 1", rows.index, 1 - rows.label, rows.columns)
    with pytest.raises(OSError, match=r"rows of 'run 1' do not match the data. Delete it"):
        reproduce_study(toy([]), tmp_path)
    (tmp_path / "toy" / "manifest.json").unlink()
    with pytest.raises(OSError, match="manifest"):
        reproduce_study(toy([]), tmp_path)


@pytest.mark.parametrize("word", ["one", "1e", "--1", "0x1", "nan", "inf", "1e9999"])
def test_decimals_that_are_no_numbers_are_refused(word, tmp_path):
    reproduce_study(toy([]), tmp_path)
    file = rows_of_case(toy([]).cases[0], tmp_path / "toy")
    file.append("run 3", np.arange(1), np.arange(1), {"prediction": np.arange(1), "width": np.full(1, 1e-300)})
    assert file.runs()["run 3"]["width"].tolist() == [1e-300]
    with file.path.open("a") as growing:
        growing.write(f"run 3,1,0,0,{word}\n")
    with pytest.raises(OSError, match="is not a row of results"):
        file.runs()


# --- what the figures must say


def certified_at(name, case, run, flips):
    return certified(committed(name)[0][case][run], "exact", flips)


def test_a_prior_raises_certified_accuracy_at_many_flips():
    for case in ("spambase", "phishing", "adult"):
        for share in (2, 5, 10):
            names = [f"{share} % trusted, forest{more}" for more in (", prior of weight 2", ", prior of weight 1", "")]
            at = [certified_at("trust", case, name, 170)[0] for name in names]
            assert at[0] > at[1] > at[2]


def test_cora_is_certified_as_far_as_the_prototype_was():
    few = certified_at("graphs", "cora", "ridge on two hops", (0, 1, 2, 3))
    assert (few >= [0.814, 0.461, 0.245, 0.110]).all()
    for run in ("spreading, clip=0.9", "poisson, alpha=0.99"):
        assert (certified_at("graphs", "cora-all", run, (0, 1, 5, 12)) >= [0.733, 0.632, 0.502, 0.346]).all()


def test_intervals_of_more_changes_are_wider():
    rows, _ = committed("regression")
    for runs in rows.values():
        for name, of_run in runs.items():
            if "least squares" not in name:
                ends = [of_run[f"{end}_{count}"] for end in ("low", "high") for count in (1, 10, 100)]
                assert (ends[2] <= ends[1]).all()
                assert (ends[1] <= ends[0]).all()
                assert (ends[0] <= of_run["prediction"]).all()
                assert (of_run["prediction"] <= ends[3]).all()
                assert (ends[3] <= ends[4]).all()
                assert (ends[4] <= ends[5]).all()


def test_the_solver_never_finds_an_attack_that_a_certificate_excludes():
    """Rounding of weights to votes can cost a change, where a sum of moves is just above or just below eps."""
    for runs in committed("regression")[0].values():
        ours, solver = (runs[f"least squares, {who}"]["radius"] for who in ("certified", "solver"))
        assert set((ours - solver).tolist()) <= {0, -1}


def test_bounds_on_random_errors_of_any_direction_are_not_below_those_of_uniform_ones():
    of_run = committed("crowds")[0]["cifar10n"]["one label"]
    for percent in (1, 5, 20):
        uniform, worst = (of_run[f"{direction}_{percent}"] for direction in ("uniform", "worst"))
        assert np.isfinite(uniform).sum() == np.isfinite(worst).sum() == 20
        assert (uniform[:20] <= worst[:20]).all()
    assert re.search(r"first 20 of these", " ".join(read_study("crowds").caption.split()))
