"""`flipproof.audit` gives the same results for frames, arrays, files, blocks and the command line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof import (
    Adversary,
    Certificates,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
    FeatureNoise,
    LabelLinearClassifier,
    SmoothedClassifier,
    StreamingRidgeClassifier,
    certified_accuracy,
    certified_recall,
)
from flipproof.attacks import labels_to_audit, worst_flips
from flipproof.cli.group import run
from flipproof.errors import InputError
from flipproof.requirements import Requirement
from flipproof.streaming import RowBlocks

N_TRAIN, N_TEST = 80, 20
FEATURES = ["length", "country", "answered"]


def emails(n, seed):
    """Emails by length, sender and kind; spam is longer and from other countries."""
    rng = np.random.default_rng(seed)
    spam = rng.random(n) < 0.5
    return pa.table(
        {
            "key": [f"mail-{seed}-{i}" for i in range(n)],
            "length": rng.normal(size=n) + 2 * spam,
            "country": np.where(rng.random(n) < 0.3 + 0.5 * spam, "elsewhere", "here"),
            "answered": (rng.random(n) < 0.7) & ~spam,
            "kind": np.where(spam, "spam", "ham"),
        }
    )


TRAIN, TEST = emails(N_TRAIN, 1), emails(N_TEST, 2)
WHO = np.array(["ann", "bob", "eve", "joe"])[np.arange(N_TRAIN) % 4]
CHECKED = np.arange(N_TRAIN) % 3 == 0


def vectors(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 2 * np.eye(4)[y], y


@pytest.fixture
def files(tmp_path):
    for name, table in (("train", TRAIN), ("test", TEST)):
        csv.write_csv(table, tmp_path / f"{name}.csv")
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def same(one, other):
    """Return whether two audits have the same certificates."""
    for name, of_one in one.certificates.items():
        of_other = other.certificates[name]
        for part in ("prediction", "radius", "rival", "margin"):
            if getattr(of_one, part).tolist() != getattr(of_other, part).tolist():
                return False
    return list(one.certificates) == list(other.certificates)


@pytest.fixture(scope="module")
def wanted():
    return flipproof.audit(TRAIN, TEST, label="kind", id="key")


@pytest.mark.slow
def test_the_function_is_not_hidden_by_a_module():
    code = (
        "import flipproof.auditing.classes, flipproof; assert callable(flipproof.audit); "
        "from flipproof import audit, Audit; assert callable(audit); assert isinstance(Audit, type)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_data_frame_library_gives_the_same_results(wanted):
    frames = {
        "pandas": (TRAIN.to_pandas(), TEST.to_pandas()),
        "polars": (polars.from_arrow(TRAIN), polars.from_arrow(TEST)),
    }
    for make, (train, test) in frames.items():
        found = flipproof.audit(train, test, label="kind", id="key")
        assert same(found, wanted)
        assert type(found.to_frame()).__module__.partition(".")[0] == make
        assert list(found.to_frame()["id"]) == TEST["key"].to_pylist()
    assert isinstance(wanted.to_frame(), pa.Table)
    assert wanted.to_frame()["radius"].to_pylist() == wanted.main.radius.tolist()


def test_files_give_the_same_results_as_frames(files, wanted):
    for ending in (".csv", ".parquet"):
        train, test = files / f"train{ending}", files / f"test{ending}"
        found = flipproof.audit(train, str(test), label="kind", id="key")
        assert same(found, wanted)
        assert set(found.provenance.digests) == {str(train), str(test)}
        assert found.provenance.columns == tuple(FEATURES)
    assert not wanted.provenance.digests
    assert "numpy" in wanted.provenance.versions


def test_labels_may_be_passed_separately_from_a_frame(wanted):
    X, y = TRAIN.to_pandas().drop(columns="kind"), TRAIN.to_pandas()["kind"]
    for test in (TEST.to_pandas(), (TEST.to_pandas().drop(columns="kind"), TEST.to_pandas()["kind"])):
        found = flipproof.audit((X, y), test, id="key")
        assert same(found, wanted)
        assert found.test.labels.tolist() == wanted.test.labels.tolist()


def test_the_pandas_index_is_not_a_feature(wanted):
    found = flipproof.audit(TRAIN.to_pandas().set_index("key"), TEST.to_pandas().set_index("key"), label="kind")
    assert same(found, wanted)
    assert found.provenance.columns == tuple(FEATURES)


def test_arrays_are_used_without_encoding():
    (X, y), (Z, truth) = vectors(60, 0), vectors(15, 1)
    found = flipproof.audit((X, y), (Z, truth), methods=("exact", "kl"), noise=0.2)
    model = CertifiedRidgeClassifier(noise=0.2).fit(X, y)
    for method in ("exact", "kl"):
        assert found.certificates[method].radius.tolist() == model.certify(Z, method).radius.tolist()
    assert found.encoder is None
    assert found.to_frame()["label"].tolist() == 2 * truth.tolist()
    without = flipproof.audit((X.tolist(), y.tolist()), Z)
    assert without.main.radius.tolist() == found.main.radius.tolist()
    assert "label" not in without.to_frame()


@pytest.mark.parametrize("labels", [np.array([7, 9]), np.array([True, False]), np.array(["no", "yes"])])
def test_labels_keep_their_values(labels):
    X, y = vectors(60, 0)
    y = labels[(y > 0).astype(int)]
    for found in (
        flipproof.audit((X, y), holdout=0.25, classes=labels.tolist()),
        flipproof.audit(pa.table({"v": list(X), "y": y}), holdout=0.25, label="y", classes=labels.tolist()),
        flipproof.audit(
            pa.table({"v": list(X), "y": y}), holdout=0.25, label="y", classes=[str(one) for one in labels]
        ),
    ):
        assert set(found.main.prediction.tolist()) <= set(labels.tolist())
        assert found.train.labels.tolist() == np.delete(y, found.test.ids).tolist()
        recall = certified_recall(found.test.labels, found.main, [2])[0]
        [judged] = [
            one.judge(found.main, found.test.labels)
            for one in [Requirement.parse(f"recall {found.main.classes[1]} >= 0 @ 2")]
        ]
        assert judged.found == recall[1]


def test_blocks_give_the_same_results_as_memory(tmp_path, wanted):
    (tmp_path / "parts").mkdir()
    for number in range(4):
        parquet.write_table(TRAIN.slice(20 * number, 20), tmp_path / "parts" / f"{number}.parquet")
    for train in (tmp_path / "parts", str(tmp_path / "parts" / "*.parquet")):
        found = flipproof.audit(train, TEST, label="kind", id="key")
        assert same(found, wanted)
        assert found.attacks is None
        assert found.train is None
        assert found.provenance.n_files == 4
        assert "read in blocks" in found.summary()["without_attack"]


def test_row_blocks_can_be_audited():
    (X, y), (Z, truth) = vectors(60, 0), vectors(15, 1)
    rows = RowBlocks.from_arrays(X, y, trusted=np.arange(60) % 2 == 0)
    for learner in ("ridge", StreamingRidgeClassifier()):
        found = flipproof.audit(rows, (Z, truth), learner=learner, requirements="radius >= 0")
        expected = StreamingRidgeClassifier().fit(rows).certify(Z)
        assert found.main.radius.tolist() == expected.radius.tolist()
        assert found.passed
        assert found.provenance.n_train == 60
    with pytest.raises(InputError, match="needs all training rows in memory"):
        flipproof.audit(rows, Z, learner="forest")
    with pytest.raises(InputError, match="needs all training rows in memory"):
        flipproof.audit(rows, Z, learner=CertifiedRidgeClassifier())
    with pytest.raises(InputError, match="'test'"):
        flipproof.audit(rows, holdout=0.2)


def test_the_audit_matches_the_command_line(files, capfd, monkeypatch):
    monkeypatch.chdir(files)
    command = ["certify", "--train", "train.csv", "--test", "test.csv", "--label", "kind", "--id", "key", "--quiet"]
    more = ["--method", "exact", "--method", "tight", "--noise", "0.2", "--classes", "ham,spam", "--allow", "ham:spam"]
    required = ["--min-certified-accuracy", "0.5@2"]
    code = run([*command, *more, *required, "-o", "out.parquet", "--report", "report.json"])
    found = flipproof.audit(
        *("train.csv", "test.csv"),
        label="kind",
        id="key",
        methods=["exact", "tight"],
        noise=0.2,
        classes=["ham", "spam"],
        allowed=[("ham", "spam")],
        requirements=["accuracy >= 0.5 @ 2"],
    )
    assert code == (0 if found.passed else 1)
    assert found.to_arrow().equals(parquet.read_table("out.parquet").replace_schema_metadata(None))
    found.save("ours.json")
    theirs, ours = (json.loads(Path(name).read_text()) for name in ("report.json", "ours.json"))
    assert theirs["requirement"].pop("text").startswith("--min-certified-accuracy")
    ours["requirement"].pop("text")
    for summary in (theirs, ours):
        for differs in ("created", "checksum"):
            summary.pop(differs)
        for differs in ("seconds", "command"):
            summary["facts"].pop(differs, None)
    assert ours == theirs


@pytest.mark.parametrize("methods", [None, ["exact"], ["exact", "tight", "kl"], ["kl", "exact"]])
def test_rows_are_certified_once_per_method(monkeypatch, tmp_path, methods):
    certify, seen = LabelLinearClassifier.certify, []

    def counted(self, X, method=None, adversary=None):
        seen.append((len(X), method))
        return certify(self, X, method, adversary)

    monkeypatch.setattr(LabelLinearClassifier, "certify", counted)
    found = flipproof.audit(TRAIN, TEST, label="kind", id="key", methods=methods, requirements=["radius >= 1"])
    found.save(tmp_path / "report.html")
    found.to_frame()
    repr(found)
    assert seen == [(N_TEST, method) for method in methods or [None]]
    assert (found.attacks is None) == (methods == ["kl", "exact"])


def test_attacks_and_labels_to_audit_match_the_library(wanted):
    attack, audit = worst_flips(wanted.model, wanted.X_test), labels_to_audit(wanted.model, wanted.X_test)
    assert wanted.attacks.flips_needed.tolist() == attack.flips_needed.tolist()
    assert [rows.tolist() for rows in wanted.attacks.rows] == [rows.tolist() for rows in attack.rows]
    assert wanted.labels_to_audit.n_attacks.tolist() == audit.n_attacks.tolist()
    assert flipproof.audit(TRAIN, TEST, label="kind", id="key", attack=False).attacks is None


def test_only_the_most_fragile_are_attacked(monkeypatch, wanted):
    monkeypatch.setattr("flipproof.attacks.label_audit.MOST_ATTACKED", 5)
    found = flipproof.audit(TRAIN, TEST, label="kind", id="key")
    assert found.attacks.attempted.sum() == 5
    assert found.main.radius[found.attacks.attempted].max() <= found.main.radius[~found.attacks.attempted].min()
    assert found.attacks.flips_needed[found.attacks.attempted].tolist() == (
        wanted.attacks.flips_needed[found.attacks.attempted].tolist()
    )


def test_requirements_are_judged(wanted):
    truth, main = wanted.test.labels, wanted.main
    accuracy = float(certified_accuracy(truth, main, [3])[0])
    recall = float(certified_recall(truth, main, [1])[0, 1])
    worst = float(certified_recall(truth, main, [1])[0].min())
    least = int(main.radius.min())
    share = float(np.mean(main.radius >= least + 1))
    for text, found, passed in (
        (f"accuracy >= {accuracy} @ 3", accuracy, True),
        (f"accuracy>={accuracy + 0.01}@3", accuracy, False),
        (f"recall spam >= {recall} @ 1", recall, True),
        (f"recall >= {worst} @ 1", worst, True),
        (f"recall>={worst + 0.01} @ 1", worst, False),
        (f"radius >= {least}", 1.0, True),
        (f"radius >= {least + 1}", share, False),
        (f" radius >= {least + 1} @ {share} ", share, True),
    ):
        judged = flipproof.audit(TRAIN, TEST, label="kind", id="key", attack=False, requirements=[text])
        assert judged.passed is passed, text
        assert judged.requirements[0].found == found
        assert judged.requirements[0].required == judged.requirements[0].requirement.share
        assert ("NOT MET" in repr(judged)) is not passed


def test_a_report_may_have_several_requirements(tmp_path):
    asked = ["radius >= 0", "accuracy >= 1 @ 79", "recall ham >= 0 @ 0"]
    found = flipproof.audit(TRAIN, TEST, label="kind", id="key", requirements=asked, flips=[0, 1, 7])
    assert not found.passed
    assert [one.passed for one in found.requirements] == [True, False, True]
    for ending in ("html", "md"):
        found.save(tmp_path / f"report.{ending}")
        text = (tmp_path / f"report.{ending}").read_text()
        assert (text.count("Requirement met"), text.count("Requirement not met")) == (2, 1)
    summary = found.summary(command="make audit")
    assert not summary["requirement"]["met"]
    assert [one["text"] for one in summary["requirement"]["parts"]] == asked
    assert summary["table_flips"] == [0, 1, 7]
    assert summary["facts"]["command"] == "make audit"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accuracy > 0.9 @ 3", "must be a requirement"),
        ("accuracy >= 0.9", "must be a requirement"),
        ("accuracy >= 90 @ 3", "between 0 and 1"),
        ("recall >= 0.9", "must be a requirement"),
        ("recall >= 90 @ 3", "between 0 and 1"),
        ("radius >= 1.5", "must be a requirement"),
        ("nonsense", "must be a requirement"),
    ],
)
def test_invalid_requirements_are_refused(text, words):
    with pytest.raises(InputError, match="'requirements': ") as error:
        flipproof.audit(TRAIN, TEST, label="kind", id="key", requirements=[text])
    assert words in str(error.value)


def test_a_recall_of_an_unknown_class_is_refused():
    with pytest.raises(InputError, match=r"Got 'spams' instead. Did you mean 'spam'"):
        flipproof.audit(TRAIN, TEST, label="kind", id="key", attack=False, requirements=["recall spams >= 0.9 @ 3"])


def test_adversary_columns_and_objects_give_the_same_results():
    table = TRAIN.append_column("checked", [CHECKED]).append_column("who", [WHO])
    by_columns = flipproof.audit(table, TEST, label="kind", id="key", trusted="checked", annotator="who")
    adversary = Adversary(trusted=CHECKED, groups=WHO)
    as_object = flipproof.audit(TRAIN, TEST, label="kind", id="key", adversary=adversary)
    assert same(by_columns, as_object)
    assert by_columns.main.unit == "annotators"
    assert by_columns.attacks.unit == "annotators"
    with pytest.raises(InputError, match="give 'annotator' only once: it is also set in 'adversary'"):
        flipproof.audit(table, TEST, label="kind", id="key", drop="checked", annotator="who", adversary=adversary)


def test_the_adversary_is_restricted_to_rows_that_are_not_held_out():
    table = TRAIN.append_column("checked", [CHECKED]).append_column("who", [WHO])
    chosen = {"label": "kind", "id": "key", "holdout": 0.3, "seed": 4}
    by_columns = flipproof.audit(table, trusted="checked", annotator="who", **chosen)
    as_object = flipproof.audit(
        table, adversary=Adversary(trusted=CHECKED, groups=WHO), drop=["checked", "who"], **chosen
    )
    assert same(by_columns, as_object)
    X, y = vectors(60, 0)
    for trusted in (np.arange(60) < 30, np.arange(60) >= 30):
        found = flipproof.audit((X, y), holdout=0.25, adversary=Adversary(trusted=trusted))
        assert found.adversary.trusted.tolist() == np.delete(trusted, found.test.ids).tolist()
    with pytest.raises(ValueError, match="one entry per training row, 60"):
        flipproof.audit((X, y), holdout=0.25, adversary=Adversary(trusted=trusted[:45]))


def test_estimators_are_cloned_before_setting_parameters():
    learner = CertifiedNeighborsClassifier(9)
    found = flipproof.audit(TRAIN, TEST, label="kind", id="key", learner=learner, parameters={"n_neighbors": 7})
    assert not hasattr(learner, "classes_")
    assert learner.n_neighbors == 9
    by_name = flipproof.audit(TRAIN, TEST, label="kind", id="key", learner="neighbors", parameters={"n_neighbors": 7})
    assert same(found, by_name)
    assert found.provenance.learner["n_neighbors"] == 7
    (X, y), (Z, _) = vectors(60, 0), vectors(15, 1)
    in_pipeline = flipproof.audit((X, y), Z, learner=make_pipeline(StandardScaler(), CertifiedRidgeClassifier()))
    assert in_pipeline.attacks.flips_needed.tolist() == (in_pipeline.main.radius + 1).tolist()
    assert any("StandardScaler" in str(one) for one in in_pipeline.main.assumptions)


def test_the_encoding_is_a_stated_assumption(wanted):
    said = [str(one) for one in wanted.main.assumptions]
    again = wanted.model.certify(wanted.encoder.transform(TEST.select(FEATURES)))
    assert [str(one) for one in again.assumptions] == said
    arrays = flipproof.audit(vectors(60, 0), vectors(15, 1)[0])
    assert len(arrays.main.assumptions) == len(said) - 1


def test_feature_certificates_of_encoded_columns_are_refused():
    learner = SmoothedClassifier(CertifiedRidgeClassifier(), FeatureNoise(0.5), n_samples=100)
    with pytest.raises(InputError, match="'learner': certificates against changed features"):
        flipproof.audit(TRAIN, TEST, label="kind", id="key", learner=learner)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"label": "kynd"}, "'label': the training table has no column 'kynd'. Did you mean 'kind'?"),
        ({"label": None}, "'label': it must name the label column"),
        ({"label": "length"}, "For a numeric target, use flipproof.audit_numbers(target='length')."),
        ({"test": None, "holdout": 25}, "'holdout': it must be a share between 0 and 1, for example 0.25. Got 25"),
        ({"test": None, "holdout": 1}, "'holdout': it must be a share between 0 and 1"),
        ({"id": "kind"}, "column 'kind' cannot be both 'label' and 'id'"),
        ({"drop": "lenqth"}, "'drop': the training table has no column 'lenqth'. Did you mean 'length'?"),
        ({"learner": "bayes"}, "'learner': 'bayes' must be one of"),
        ({"learner": 3}, "'learner': it must be one of"),
        ({"learner": StandardScaler()}, "'learner': it must be a flipproof learner"),
        ({"learner": "partition", "noise": 0.1}, "'noise': the learner 'partition' has no noise"),
        ({"parameters": {"n_neighbours": 3}, "learner": "neighbors"}, "Did you mean 'n_neighbors'?"),
        ({"holdout": 0.5}, "give either 'test' or 'holdout'"),
        ({"allowed": ["spam:eggs"]}, "'allowed': the class must be one of ham, spam. Got 'eggs'"),
        ({"methods": ["best"]}, "'method'"),
        ({"test": np.zeros((3, 3))}, "'test': it must be a path or a data frame. Got ndarray instead"),
        ({"train": TRAIN.slice(0, 0)}, "'train': it has no rows"),
        ({"train": TRAIN.set_column(4, "kind", [["ham"] * N_TRAIN])}, "list all classes with 'classes'"),
        ({"train": (TRAIN, np.zeros(N_TRAIN))}, "'label': 'kind' is already a column"),
        ({"train": (vectors(5, 0)[0], np.zeros(4))}, "'label': it requires a file or a data frame"),
        ({"train": (vectors(5, 0)[0], np.zeros(4)), "label": None, "id": None}, "Got 5 rows and 4 labels"),
        ({"train": np.zeros((3, 3)), "label": None, "id": None}, "'train': it must be a path, a data frame"),
        ({"train": vectors(9, 0), "label": None, "id": None}, "'test': it must be an array or a pair"),
    ],
)
def test_errors_name_the_argument_in_one_line(arguments, words):
    given = {"train": TRAIN, "test": TEST, "label": "kind", "id": "key", **arguments}
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are what is tested
        flipproof.audit(**given)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert "--" not in str(error.value)


def test_unknown_report_formats_are_refused(wanted, tmp_path):
    with pytest.raises(InputError, match=r"must end in \.html, \.md or \.json"):
        wanted.save(tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())


def test_the_documentation_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    code = re.search(r"```python\n(import flipproof\n.*?)```", text, re.DOTALL).group(1)
    names = {"train": TRAIN.append_column("who", [WHO]), "test": TEST}
    exec(compile(code, "report.md", "exec"), names)
    assert len(names["result"].requirements) == 3
    assert (tmp_path / "report.html").exists()


def test_progress_reports_each_step():
    steps = []
    flipproof.audit(TRAIN, TEST, label="kind", id="key", progress=steps.append)
    assert [one.partition(" ")[0] for one in steps] == ["Reading", "Encoding", "Fitting", "Certifying", "Attacking"]


def test_the_repr_is_short(wanted):
    said = repr(wanted)
    assert f"{N_TRAIN} training rows, {N_TEST} test rows" in said
    assert "median radius" in said
    assert max(map(len, said.splitlines())) <= 100


def test_certificates_can_be_indexed_by_rows(wanted):
    main = wanted.main
    mask = main.radius > 5
    for rows in (slice(3, 9), mask, [4, 1, 1], np.array([], dtype=int)):
        some = main[rows]
        assert isinstance(some, Certificates)
        for name in ("prediction", "radius", "rival", "margin", "abstained"):
            assert getattr(some, name).tolist() == getattr(main, name)[rows].tolist()
        assert (some.n_train, some.classes.tolist()) == (main.n_train, main.classes.tolist())
        assert some.assumptions == main.assumptions
    with pytest.raises(IndexError):
        main[len(main)]


@pytest.mark.parametrize("attack", [worst_flips, labels_to_audit])
def test_given_certificates_are_used_and_checked(wanted, attack):
    model, X, main = wanted.model, wanted.X_test, wanted.main
    assert repr(attack(model, X, certificates=main)) == repr(attack(model, X))
    for wrong in (main[:5], main[::-1], model.certify(X, "kl")):
        with pytest.raises(ValueError, match="The 'certificates' of an attack must be"):
            attack(model, X, certificates=wrong)
    with pytest.raises(ValueError, match="against its adversary"):
        attack(model, X, Adversary(allowed=[("ham", "spam")]), certificates=main)


def test_given_certificates_work_for_many_rows():
    """More test rows than are attacked at a time."""
    (X, y), (Z, _) = vectors(60, 0), vectors(300, 1)
    model = CertifiedRidgeClassifier().fit(X, y)
    adversary = Adversary(groups=np.arange(60) % 11)
    known = model.certify(Z, "exact", adversary)
    one, other = worst_flips(model, Z, adversary), worst_flips(model, Z, certificates=known)
    assert one.flips_needed.tolist() == other.flips_needed.tolist()
    assert [rows.tolist() for rows in one.rows] == [rows.tolist() for rows in other.rows]
