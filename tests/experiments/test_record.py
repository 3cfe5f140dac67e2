"""The manifest stays correct, and damaged or missing results give a clear one-line error."""

import io
import json
import lzma
import shutil

import numpy as np
import pytest
from toy import IMAGES, N_TEST, SPEC, put_images, toy_experiment

from flipproof import Adversary, CertifiedNeighborsClassifier
from flipproof.cli import reproduce as reproduce_command
from flipproof.cli.group import run as command
from flipproof.experiments import feature_store, read_experiment, reproduce
from flipproof.experiments import manifest as manifests
from flipproof.experiments import spec as specs
from flipproof.experiments.feature_store import (
    FeatureFile,
    FeatureStore,
    load,
    read_features,
    slice_of,
    write_features,
)
from flipproof.experiments.row_files import FINISHED, GROWING, NOTHING, RowFile
from flipproof.experiments.spec import parse_experiment
from flipproof.runtime.files import digest_of_file


def read_manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """The experiment, taken for that of MNIST 1/7 by the command, with its data and its results in two folders."""
    experiment = toy_experiment(monkeypatch)[0]
    monkeypatch.setattr(specs, "read_experiment", lambda name: experiment)
    monkeypatch.setattr(reproduce_command, "DATA_SETS", ("mnist17",))
    monkeypatch.setattr(reproduce_command, "STUDIES", ())
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    put_images(data)
    reproduce(experiment, out / "mnist17", data)
    return experiment, data, out


def refused(arguments, capfd):
    """Run a command that must fail, and return its one line."""
    assert command(arguments) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if " s  " not in line]
    assert len(lines) == 1
    return lines[0]


def test_complete_runs_keep_their_record(toy, monkeypatch):
    experiment, data, out = toy
    before = read_manifest(out / "mnist17")
    assert [len(run["environments"]) for run in before["runs"].values()] == [1, 1, 1]
    assert set(before["features"]) == {"few"}
    (name,) = before["environments"]
    assert before["features"]["few"]["environment"] == name
    assert before["environments"][name]["kernels"]["blas"]
    assert before["n_test"] == N_TEST

    monkeypatch.setattr(manifests, "PACKAGES", ("click",))  # as if everything else had another version
    reproduce(experiment, out / "mnist17", data)
    assert read_manifest(out / "mnist17") == before

    # features whose file is elsewhere, too
    (out / "mnist17" / "features" / "few.npz").unlink()
    reproduce(experiment, out / "mnist17", data)
    assert read_manifest(out / "mnist17") == before


@pytest.mark.slow
def test_recomputed_rows_have_their_own_record(toy, monkeypatch):
    experiment, data, out = toy
    before = read_manifest(out / "mnist17")
    RowFile(out / "mnist17").keep_only(["numbers"])
    monkeypatch.setattr(manifests, "PACKAGES", ("click",))
    reproduce(experiment, out / "mnist17", data)
    after = read_manifest(out / "mnist17")
    assert after["runs"]["numbers"] == before["runs"]["numbers"]
    assert after["features"] == before["features"]
    assert len(after["environments"]) == 2
    (new,) = set(after["environments"]) - set(before["environments"])
    assert after["runs"]["images"]["environments"] == [new]


def changed(content, **new):
    """Return the manifest with other values somewhere."""
    manifest = json.loads(content)
    for path, value in new.items():
        *above, last = path.split("__")
        place = manifest
        for name in above:
            place = next(iter(place.values())) if name == "any" else place[name]
        place[last] = value
    return json.dumps(manifest).encode()


KERNELS = {"blas": ["some"], "variables": {}}
MADE_WITH = {"environment": {"python": "3", "machine": "any", "versions": {}, "kernels": KERNELS}, "data": {}}


def packed(**changes):
    """Return the content of a file of features, some of its arrays changed."""
    file = {"train": np.zeros((60, 2), np.float16), "test": np.zeros((20, 2), np.float16)} | changes
    texts = {"recipe": b"{}", "made_with": json.dumps(MADE_WITH).encode()} | file
    arrays = {name: np.frombuffer(x, np.uint8) if isinstance(x, bytes) else x for name, x in texts.items()}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def damages(whole, manifest, rows, features):
    """Yield files and what becomes of their content."""
    for text in ("", "[]", "{}", "{", "null", '{"runs": {"numbers": {}}}', "\xff", "[" * 100_000):
        yield manifest, text.encode("latin-1")
    for new in (
        {"n_train": None},
        {"n_train": 0},
        {"n_train": 10**400},
        {"data": {}},
        {"data__provenance": None},
        {"quick": 1},
        {"left_out": "numbers"},
        {"runs__any__environments": [1]},
        {"runs__any__environments": ["unknown"]},
        {"runs__any__seconds": "long"},
        {"features__few__environment": [1]},
        {"environments": [["a", 1]]},
        {"environments__any__kernels": None},
    ):
        yield manifest, changed(whole[manifest], **new)
    yield from ((rows, content) for content in (b"", b"text", whole[rows][:-9]))
    lines = lzma.decompress(whole[rows]).splitlines()
    yield rows, lzma.compress(b"\n".join([lines[0], b"numbers,0,0,,,,,,", *lines[2:], b""]))
    yield from ((features, content) for content in (b"", b"text", whole[features][:-99]))
    for bad in (
        {"train": np.zeros(60, np.float16)},
        {"train": np.zeros((60, 3), np.float16)},
        {"test": np.full((20, 2), np.nan, np.float16)},
        {"test": np.zeros((20, 2))},
        {"made_with": b"[]"},
        {"made_with": b"{}"},
        {"made_with": b'{"environment": {}, "data": {}}'},
        {"made_with": json.dumps(MADE_WITH | {"data": {"a": 1}}).encode()},
        {"made_with": b"[" * 100_000},
    ):
        yield features, packed(**bad)


@pytest.mark.slow
def test_damaged_results_give_a_one_line_error_with_the_path(toy, capfd):
    _, data, out = toy
    whole = {path: path.read_bytes() for path in (out / "mnist17").rglob("*") if path.is_file()}
    manifest, rows, features = (out / "mnist17" / name for name in ("manifest.json", FINISHED, "features/few.npz"))
    run_again = ["reproduce", "mnist17", "--data-dir", str(data), "--out", str(out)]
    for path, content in damages(whole, manifest, rows, features):
        for other, before in whole.items():
            other.write_bytes(before)
        path.write_bytes(content)
        said = refused(run_again, capfd)
        assert f"{path} is damaged" in said, content[:200]
        assert "Delete it" in said
        if path is not features:
            assert f"{path} is damaged" in refused(["reproduce", "figures", "--out", str(out)], capfd)
        assert path.read_bytes() == content  # kept for inspection
        path.unlink()
        if path is manifest:
            assert f"their record {manifest} is missing" in refused(run_again, capfd)
            assert rows.read_bytes() == whole[rows]
            rows.unlink()
    assert command(run_again) == 0
    assert rows.read_bytes() == whole[rows]


@pytest.mark.slow
def test_rows_of_other_data_are_refused(toy, capfd):
    _, data, out = toy
    path = out / "mnist17" / FINISHED
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    name, index, label, *rest = lines[1].split(",")
    for other in (
        [name, "77", label, *rest],
        [name, index, str(1 - int(label)), *rest],
        [name, index, "-1", *rest],
        [name, index, label, "0"],
        [name, index, label, str(NOTHING), *rest[1:]],
    ):
        line = ",".join([*other, *[""] * (len(lines[0].split(",")) - len(other))])
        path.write_bytes(lzma.compress("\n".join([lines[0], line, *lines[2:], ""]).encode()))
        said = refused(["reproduce", "mnist17", "--data-dir", str(data), "--out", str(out)], capfd)
        assert f"{path} is damaged: its rows of 'numbers' do not match the data" in said
        refused(["reproduce", "figures", "--out", str(out)], capfd)


@pytest.mark.slow
def test_removed_rows_are_reported(toy):
    experiment, data, out = toy
    said = []
    reproduce(experiment, out / "mnist17", data, seed=1, say=said.append)
    (dropped,) = [text for text in said if text.startswith("Removed the rows")]
    assert all(repr(run.name) in dropped for run in experiment.runs)


@pytest.mark.slow
def test_rows_are_recomputed_if_their_features_change(toy, monkeypatch):
    experiment, data, out = toy
    folder = out / "mnist17"
    before = read_manifest(folder)
    assert before["runs"]["few, of the images"]["features"] == before["features"]["few"]["sha256"]
    assert before["runs"]["numbers"]["features"] == ""

    # a run that was not complete, and features that have to be made again, elsewhere
    rows = RowFile(folder).runs()["few, of the images"]
    RowFile(folder).keep_only(["numbers", "images"])
    few = {column: values[:5] for column, values in rows.columns.items()}
    RowFile(folder).append("few, of the images", rows.index[:5], rows.label[:5], few)
    (folder / "features" / "few.npz").unlink()
    monkeypatch.setattr(manifests, "PACKAGES", ("click",))
    said = []
    reproduce(experiment, folder, data, say=said.append)
    after = read_manifest(folder)
    assert any("few, of the images: 0 of 20" in line for line in said)
    assert after["features"]["few"]["sha256"] != before["features"]["few"]["sha256"]
    assert after["runs"]["few, of the images"]["features"] == after["features"]["few"]["sha256"]
    assert len(after["runs"]["few, of the images"]["environments"]) == 1


@pytest.mark.slow
def test_features_with_missing_rows_are_refused(toy, capfd):
    _, data, out = toy
    path = out / "mnist17" / "features" / "few.npz"
    kept = read_features(path)
    write_features(path, FeatureFile((kept.rows[0], kept.rows[1][:-1]), kept.recipe, kept.made_with))
    said = refused(["reproduce", "mnist17", "--data-dir", str(data), "--out", str(out)], capfd)
    assert f"{path} is damaged" in said


@pytest.mark.slow
def test_complete_rows_are_recomputed_if_their_features_differ(toy):
    experiment, data, out = toy
    path = out / "mnist17" / "features" / "few.npz"
    kept = read_features(path)
    write_features(path, FeatureFile((kept.rows[0][::-1], kept.rows[1]), kept.recipe, kept.made_with))
    before, said = RowFile(out / "mnist17").runs(), []
    reproduce(experiment, out / "mnist17", data, say=said.append)
    assert any("few, of the images: recomputing" in line for line in said)
    after = RowFile(out / "mnist17").runs()
    assert (before["few, of the images"]["exact"] != after["few, of the images"]["exact"]).any()
    manifest = read_manifest(out / "mnist17")
    assert (
        manifest["runs"]["few, of the images"]["features"]
        == manifest["features"]["few"]["sha256"]
        == digest_of_file(path)
    )


@pytest.mark.slow
def test_rows_are_recorded_before_they_are_written(toy, tmp_path, monkeypatch):
    experiment, data, _ = toy
    append = RowFile.append

    def on_record(file, run, *rows):
        assert read_manifest(tmp_path / "new")["runs"][run]["environments"]
        append(file, run, *rows)

    monkeypatch.setattr(RowFile, "append", on_record)
    reproduce(experiment, tmp_path / "new", data)


@pytest.mark.slow
def test_features_that_build_on_kept_ones_need_no_images(toy, tmp_path):
    _, data, out = toy
    fewer = '[features.fewer]\nkind = "pca"\nof = "few"\nn_components = 1\nkeep = true\n'
    more = SPEC.replace("[[figures]]", f"{fewer}[[figures]]")
    more += '[[runs]]\nname = "fewer"\ngroup = "beyond"\nfeatures = "fewer"\nlearner = "ridge"\nmethods = ["exact"]\n'
    (data / IMAGES).unlink()
    reproduce(parse_experiment("toy", more.encode()), out / "mnist17", data)
    assert "fewer" in RowFile(out / "mnist17").runs()
    features = read_manifest(out / "mnist17")["features"]
    assert features["fewer"]["data"] == features["few"]["data"]


@pytest.mark.slow
def test_figures_are_made_of_complete_results_only(toy, tmp_path, monkeypatch, capfd):
    experiment, data, out = toy
    figures = ["reproduce", "figures", "--out", str(out)]
    for file in ("tables.md", "certified.png"):
        (out / "mnist17" / file).unlink()
    whole = tmp_path / "whole"
    shutil.copytree(out, whole)

    RowFile(out / "mnist17").keep_only(["numbers"])
    said = refused(figures, capfd)
    assert "1 of 3 runs are complete" in said
    assert "'flipproof reproduce toy'" in said

    class Stop(Exception):  # noqa: N818 - not an error
        pass

    def stop(text):
        if text.startswith("images"):
            raise Stop

    with pytest.raises(Stop):
        reproduce(experiment, tmp_path / "interrupted" / "mnist17", data, say=stop)
    assert (tmp_path / "interrupted" / "mnist17" / GROWING).exists()
    assert "1 of 3 runs" in refused(["reproduce", "figures", "--out", str(tmp_path / "interrupted")], capfd)

    for name in (FINISHED, "manifest.json"):
        without = tmp_path / f"without {name}"
        shutil.copytree(whole, without)
        (without / "mnist17" / name).unlink()
        assert "0 of 3 runs" in refused(["reproduce", "figures", "--out", str(without)], capfd)

    for change, complete in (
        (("n_components = 2", "n_components = 1"), 2),
        (('kind = "numbers"', 'kind = "others"'), 0),
    ):
        other = parse_experiment("toy", SPEC.replace(*change).encode())
        monkeypatch.setattr(specs, "read_experiment", lambda name, other=other: other)
        assert f"{complete} of 3 runs are complete" in refused(["reproduce", "figures", "--out", str(whole)], capfd)

    # a run that was left out where the spec does not allow it any more
    (data / IMAGES).unlink()
    reproduce(experiment, tmp_path / "left" / "mnist17", data)
    for file in ("tables.md", "certified.png"):
        (tmp_path / "left" / "mnist17" / file).unlink()
    needed = parse_experiment("toy", SPEC.replace('only_with = "the toy images"', "").encode())
    monkeypatch.setattr(specs, "read_experiment", lambda name: needed)
    assert "1 of 3 runs are complete" in refused(["reproduce", "figures", "--out", str(tmp_path / "left")], capfd)
    assert not [*tmp_path.rglob("tables.md"), *tmp_path.rglob("*.png"), *tmp_path.rglob("claims.md")]


@pytest.mark.slow
def test_all_checks_the_data_of_all_experiments_first(toy, tmp_path, monkeypatch, capfd):
    experiment, data, _ = toy
    monkeypatch.setattr(reproduce_command, "DATA_SETS", ("mnist17", "imdb"))
    needed = parse_experiment("imdb", SPEC.replace('only_with = "the toy images"', "").encode())
    monkeypatch.setattr(specs, "read_experiment", lambda name: needed if name == "imdb" else experiment)
    (data / IMAGES).unlink()
    assert f"Put {IMAGES}" in refused(
        ["reproduce", "all", "--data-dir", str(data), "--out", str(tmp_path / "a")], capfd
    )
    assert not (tmp_path / "a").exists()


def test_figures_without_results_are_refused(tmp_path, capfd):
    out = tmp_path / "none"
    for more in ([], ["--quick"]):
        said = refused(["reproduce", "figures", "--out", str(out), *more], capfd)
        assert f"There are no results in '{out}'" in said
    assert not out.exists()


@pytest.mark.slow
def test_quick_results_are_not_used_for_claims(toy, capfd):
    experiment, data, out = toy
    (out / "claims.md").write_text("as it was")
    reproduce(experiment, out / "mnist17-quick", data, quick=True)
    for what in ("figures", "all"):
        (out / "mnist17-quick" / "tables.md").unlink()
        assert command(["reproduce", what, "--quick", "--data-dir", str(data), "--out", str(out)]) == 0
        assert (out / "mnist17-quick" / "tables.md").exists()
    assert (out / "claims.md").read_text() == "as it was"


def test_word_vectors_count_as_data(data_dir, tmp_path, capfd):
    for name in ("imdb", "glove"):
        (tmp_path / name).mkdir()
    for file in (data_dir / "imdb").iterdir():
        (tmp_path / "imdb" / file.name).symlink_to(file.resolve())
    arguments = ["reproduce", "imdb", "--quick", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")]
    said = refused(arguments, capfd)
    assert f"Put glove_6b_100d_subset.npz or glove.6B.100d.txt into {tmp_path / 'glove'}" in said
    assert "glove.6B.zip" in said

    experiment = read_experiment("imdb")
    data = load(experiment, tmp_path)
    store = FeatureStore(experiment, data, slice_of(experiment, data, True, 0), tmp_path, tmp_path, 0, say=print)
    recipes = []
    for name, content in (
        ("glove.6B.100d.txt", "good 1 0\n"),
        ("glove.6B.100d.txt", "good 0 1\n"),
        ("glove_6b_100d_subset.npz", "any"),
    ):
        (tmp_path / "glove" / name).write_text(content)
        recipes.append(store.recipe("words"))
        assert name in store.recipe("words")
        assert name not in store.recipe("tfidf")
        assert list(store.word_vectors("words")) == [name]
    assert len(set(recipes)) == 3


def test_without_a_name_experiments_are_listed(tmp_path, monkeypatch, capfd):
    (tmp_path / "imdb").mkdir()
    (tmp_path / "imdb" / "tables.md").touch()
    assert command(["reproduce", "--out", str(tmp_path), "--json"]) == 0
    listed_as_json = json.loads(capfd.readouterr().out)
    listed = {one["what"]: one["results"] for one in listed_as_json}
    assert list(listed) == [*reproduce_command.DATA_SETS, *reproduce_command.STUDIES]
    assert listed["imdb"] == str(tmp_path / "imdb" / "tables.md")
    assert listed["mnist"] is None
    monkeypatch.chdir(tmp_path.parent)
    assert command(["reproduce", "--out", tmp_path.name]) == 0
    said = capfd.readouterr().out
    assert "Full MNIST" in said
    assert max(map(len, said.splitlines())) <= 80
    assert {one["what"] for one in listed_as_json if one["changed rows"]} == {"mnist", "cifar10", "sms", "enron"}


def test_a_run_whose_data_is_missing_leaves_no_folder(tmp_path, capfd):
    out = tmp_path / "new" / "results"
    for name in ("sms", "graphs"):
        assert command(["reproduce", name, "--data-dir", str(tmp_path), "--out", str(out), "--quiet"]) == 2
        assert "is missing" in capfd.readouterr().err
        assert not (tmp_path / "new").exists()


def test_all_that_is_missing_is_named_at_once(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(reproduce_command, "DATA_SETS", ("cifar10", "dogfish"))
    monkeypatch.setattr(reproduce_command, "STUDIES", ())
    monkeypatch.setattr(feature_store, "find_spec", lambda name: None)
    said = refused(["reproduce", "all", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")], capfd)
    for file in ("cifar10_lite0_pca128.npz", "dogfish_imagenette", "matplotlib", "umap-learn"):
        assert file in said
    one = refused(["reproduce", "cifar10", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")], capfd)
    assert "cifar10_lite0_pca128.npz" in one
    assert "umap-learn" in one


ROWS_SPEC = """
[[runs]]
name = "rows"
group = "rows"
changes = "rows"
one_in = 3
features = "numbers"
learner = "neighbors"
parameters = { n_neighbors = 15 }
methods = ["exact"]
"""


def test_a_run_against_changed_rows(monkeypatch, tmp_path):
    toy_experiment(monkeypatch)
    columns = "flips = [1, 2]\nchanged_rows = [1, 3]"
    experiment = parse_experiment("toy", (SPEC.replace("flips = [1, 2]", columns) + ROWS_SPEC).encode())
    put_images(tmp_path)
    reproduce(experiment, tmp_path / "out", tmp_path)
    data = load(experiment, tmp_path)
    model = CertifiedNeighborsClassifier(15, classes=[0, 1])
    model.fit(data.X_train[20:], data.y_train[20:], reference=data.X_train[:20])
    radius = model.certify(data.X_test, adversary=Adversary(changes="rows")).radius
    rows = RowFile(tmp_path / "out").runs()["rows"]
    np.testing.assert_array_equal(rows["exact"], radius)
    assert "| rows | 20 | 40 |" in (tmp_path / "out" / "tables.md").read_text()
    for change in ("one_in = 3", 'changes = "rows"'):
        with pytest.raises(ValueError, match=r"about rows|against changed rows"):
            parse_experiment("toy", (SPEC + ROWS_SPEC.replace(change, "")).encode())
