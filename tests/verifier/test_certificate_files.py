"""Certificates are the same after saving and loading; files of other kinds are refused in one line."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof import (
    Adversary,
    Assumption,
    Certificates,
    CertifiedIntervals,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
    CertifiedRidgeRegressor,
    SmoothedClassifier,
)
from flipproof.cli.group import run as in_process
from flipproof_verify import VERIFIED, verify
from verifier.broken_files import BROKEN, BROKEN_BYTES, CORPUS
from verifier.proof_boxes import Box

X, Y = load_digits(n_class=3, return_X_y=True)
TRAIN, LABELS, TEST = X[:90], Y[:90], X[90:110]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "proof.flipproof"


def same(one, other):
    for name in (
        "prediction",
        "radius",
        "rival",
        "margin",
        "log_failure",
        "abstained",
        "unlimited",
        "witness",
        "classes",
    ):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("method", "n_train", "assumptions", "unit", "n_touchable", "changes"):
        assert getattr(one, name) == getattr(other, name), name
    if one.method != "exact":
        np.testing.assert_array_equal(one.noise, other.noise)


@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
@pytest.mark.parametrize(
    "adversary",
    [None, Adversary(trusted=np.arange(90) % 3 == 0, groups=np.arange(90) % 20, allowed=[("1", "0"), ("2", "1")])],
)
def test_certificates_survive_a_file(method, adversary, path):
    model = CertifiedRidgeClassifier(classes=["0", "1", "2"]).fit(TRAIN, LABELS.astype(str))
    certificates = model.certify(TEST, method, adversary)
    certificates.save(path)
    loaded = Certificates.load(path)
    same(certificates, loaded)
    assert str(loaded[0]) == str(certificates[0])
    assert verify(path).verdict == VERIFIED


@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
def test_certificates_about_rows_survive_a_file(changes, path):
    model = CertifiedRidgeClassifier(classes=range(3)).fit(TRAIN, LABELS, reference=X[110:200])
    certificates = model.certify(TEST, adversary=Adversary(changes=changes))
    certificates.save(path)
    same(certificates, Certificates.load(path))


@pytest.mark.slow
def test_certificates_from_samples_survive_a_file(path):
    model = SmoothedClassifier(LogisticRegression(), 0.2, 20, 60, 0.9, keep_models=True, random_state=0)
    certificates = model.fit(StandardScaler().fit_transform(TRAIN), LABELS).certify(TEST[:5])
    certificates.save(path)
    loaded = Certificates.load(path)
    same(certificates, loaded)
    np.testing.assert_array_equal(loaded.divergence_budget, certificates.divergence_budget)
    assert (loaded.confidence, loaded.n_samples) == (0.9, 60)
    assert verify(path).verdict == VERIFIED


def test_some_rows_of_a_frame_behind_a_pipeline(path):
    frame = pd.DataFrame(X).rename(columns=str)
    model = make_pipeline(StandardScaler(), CertifiedRidgeClassifier(classes=range(3))).fit(frame[:90], LABELS)
    certificates = flipproof.certify(model, frame[90:110])
    certificates.most_fragile(4).save(path)
    assert verify(path).n_rows == 4
    same(certificates.most_fragile(4), Certificates.load(path))


def test_certificates_without_a_model_are_refused(path):
    certificates = CertifiedRidgeClassifier(classes=range(3)).fit(TRAIN, LABELS).certify(TEST)
    certificates.save(path)
    loaded = Certificates.load(path)
    with pytest.raises(ValueError, match="give model="):
        loaded.save(path)


def test_intervals_of_means_gaps_and_coefficients_have_no_proof_format(path):
    model = CertifiedRidgeRegressor(target_range=(0, 2)).fit(TRAIN, LABELS)
    halves = np.arange(len(TEST)) % 2
    for found in (model.certify_means(TEST), model.certify_gaps(TEST, halves), model.certify_coefficients()):
        with pytest.raises(ValueError, match=f"no proof format for intervals of a {found.about}"):
            found.save(path)
    assert not path.exists()


def test_intervals_are_loaded_as_they_were_saved(path):
    model = CertifiedRidgeRegressor(target_range=(0, 2)).fit(TRAIN, LABELS, trusted=np.arange(len(TRAIN)) % 4 == 0)
    adversary = Adversary(groups=np.arange(len(TRAIN)) % 7, max_change=0.5)
    for flips in (3, [1, 2]):
        found = model.certify(TEST, flips, threshold=1.0, adversary=adversary)[3:9]
        found.save(path)
        assert verify(path).verdict == VERIFIED
        loaded = CertifiedIntervals.load(path)
        for name in ("prediction", "low", "high", "radius", "unlimited"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(found, name))
        for name in (
            "flips",
            "tolerance",
            "threshold",
            "target_range",
            "n_train",
            "n_touchable",
            "unit",
            "assumptions",
        ):
            assert getattr(loaded, name) == getattr(found, name), name
        assert loaded.adversary.max_change == 0.5
    with pytest.raises(ValueError, match="intervals of numbers"):
        Certificates.load(path)
    with pytest.raises(ValueError, match="give model="):
        loaded.save(path)
    model.fit(TRAIN + 1, LABELS)
    with pytest.raises(ValueError, match="Certify again"):
        found.save(path)


def test_certificates_of_classes_are_no_intervals():
    with pytest.raises(ValueError, match="certificates of classes"):
        CertifiedIntervals.load(CORPUS / "exact.flipproof")


def test_a_changed_tensor_is_noticed(path):
    box = Box.read(CORPUS / "exact.flipproof")
    box.digests["claim.radius"] = "0" * 64
    with pytest.raises(ValueError, match="cannot load certificates"):
        Certificates.load(box.write(path))


#: Reasons for which a file is refused because it would be shown with a false meaning.
FALSE_MEANING = {
    *(
        "assumption-lies",
        "assumption-code",
        "assumption-values",
        "assumption-twice",
        "adversary",
        "classes",
        "producer",
    ),
    *("metadata", "fixed"),
}

#: Loading does not need the votes, and so it does not notice these; nor does it limit the length of a class.
LEFT_TO_VERIFY = {
    "unlabelled-rows-that-vote",
    "labelled-rows-called-unlabelled",
    "labels-that-are-none",
    "class-of-a-million-letters",
}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (_, _, reason) in (BROKEN | BROKEN_BYTES).items()
        if reason in FALSE_MEANING and name not in LEFT_TO_VERIFY
    ],
)
def test_files_with_a_false_meaning_are_not_loaded(name):
    path = CORPUS / f"broken-{name}.flipproof"
    with pytest.raises(ValueError, match="cannot load certificates"):
        Certificates.load(path)


def test_honest_files_are_loaded():
    for name in json.loads((CORPUS / "index.json").read_text())["honest"]:
        loaded = flipproof.load_certificates(CORPUS / f"{name}.flipproof")
        assert len(loaded) == Box.read(CORPUS / f"{name}.flipproof").document["n_test"]


@pytest.mark.parametrize("content", [b"", b"hello", b"\x02\0\0\0\0\0\0\0{}"])
def test_other_files_are_refused_in_one_line(content, path):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="cannot load certificates") as error:
        Certificates.load(path)
    assert "\n" not in str(error.value)


class TestCommand:
    @pytest.fixture
    def table(self, tmp_path):
        file = tmp_path / "digits.csv"
        pd.DataFrame(X[:150]).assign(digit=Y[:150]).to_csv(file, index=False)
        return file

    def test_numbers_have_a_proof_that_verify_accepts(self, table, path, capfd):
        given = ["certify", "--train", str(table), "--holdout", "0.2", "--target", "digit", "--range", "0:9", "-q"]
        given += ["--tolerance", "1", "--max-change", "2", "--proof", str(path)]
        assert in_process(given) == 0
        assert in_process(["verify", str(path), "--data", str(table), "--json"]) == 0
        printed = json.loads(capfd.readouterr().out.partition(f"Written: {path}")[2])
        assert printed[str(path)]["verdict"] == VERIFIED
        assert printed[str(path)]["unit"] == "targets"

    def test_certify_writes_a_proof_that_verify_accepts(self, table, path, capfd):
        given = ["certify", "--train", str(table), "--holdout", "0.2", "--label", "digit", "--proof", str(path), "-q"]
        assert in_process(given) == 0
        assert str(path) in capfd.readouterr().out
        assert in_process(["verify", str(path)]) == 0
        assert "VERIFIED" in capfd.readouterr().out

    def test_exit_codes(self, capfd, path):
        broken, short = CORPUS / "broken-radius-plus-one.flipproof", CORPUS / "broken-shorter-list.flipproof"
        assert in_process(["verify", str(broken), "-q"]) == 1
        assert in_process(["verify", str(short), "-q"]) == 3
        assert in_process(["verify", str(CORPUS / "broken-truncated.flipproof"), "-q"]) == 2
        assert in_process(["verify", str(path), "-q"]) == 2
        said = capfd.readouterr().err.splitlines()
        assert len(said) == 2
        assert all(line.startswith("flipproof: error:") for line in said)

    def test_what_is_taken_as_stated_is_printed(self, capfd, path):
        assert in_process(["verify", str(CORPUS / "partitions.flipproof"), "-q"]) == 0
        said = capfd.readouterr().out
        sentences = [
            str(Assumption("base-learner-reproducible", {"step": "LogisticRegression"})),
            str(Assumption("partitions-chosen")),
        ]
        assert " ".join(said.split()).endswith(
            f"- base-learner-reproducible: {sentences[0]} - partitions-chosen: {sentences[1]}"
        )

    def test_a_file_cannot_control_the_terminal(self, capfd, table, path):
        """Whoever wrote the file chose its values."""
        X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        certificates = model.certify([[5.0]])
        evil = Assumption("stated", {"text": "a\x1b[2Jb\x07\u202ec" + "x" * 5000})
        dataclasses.replace(certificates, assumptions=(*certificates.assumptions, evil)).save(path)
        assert in_process(["verify", str(path), "-q"]) == 0
        said = capfd.readouterr().out
        assert "stated: a?[2Jb??cxxx" in said
        assert len(said) < 2000

    @pytest.mark.parametrize("kept", [5, 200, -7])
    def test_a_part_of_a_file_is_said_to_be_incomplete(self, capfd, path, kept):
        path.write_bytes((CORPUS / "exact.flipproof").read_bytes()[:kept])
        assert in_process(["verify", str(path), "-q"]) == 2
        assert "The file is incomplete or damaged: it" in capfd.readouterr().err

    def test_verdicts_as_json(self, capfd):
        assert in_process(["verify", str(CORPUS / "exact.flipproof"), "--json", "--rows", "2", "-q"]) == 0
        assert '"n_checked": 2' in capfd.readouterr().out

    def test_a_file_that_cannot_be_read_hides_no_other_result(self, path, tmp_path, capfd):
        exact, broken = CORPUS / "exact.flipproof", CORPUS / "broken-radius-plus-one.flipproof"
        short, folder = CORPUS / "broken-shorter-list.flipproof", tmp_path
        for files, code in (
            ((exact, path), 2),
            ((folder, path, broken, short), 1),
            ((short, path), 2),
            ((exact, short), 3),
        ):
            assert in_process(["verify", *map(str, files), "--json", "-q"]) == code
            said = capfd.readouterr()
            found = json.loads(said.out)
            assert list(found) == [str(file) for file in files]
            missing = [one for one in (folder, path) if one in files]
            assert all(
                (found[str(one)]["verdict"], found[str(one)]["reason"]) == (None, "unreadable") for one in missing
            )
            assert len(said.err.splitlines()) == len(missing)

    def test_files_that_the_certificates_are_about(self, table, path, tmp_path, capfd):
        model, out, other = tmp_path / "m.flipproof", tmp_path / "out.csv", tmp_path / "other.csv"
        other.write_text("digit\n1\n")
        assert in_process(["fit", "--train", str(table), "--label", "digit", "--model", str(model), "-q"]) == 0
        given = ["certify", "--model", str(model), "--test", str(table), "--proof", str(path), "-o", str(out), "-q"]
        assert in_process(given) == 0
        files = ["--data", str(table), "--data", str(out), "--model", str(model)]
        assert in_process(["verify", str(path), *files, "-q"]) == 0
        capfd.readouterr()
        assert in_process(["verify", str(path), *files, "--data", str(other), "-q"]) == 1
        assert "not about" in capfd.readouterr().out

    def test_rows_in_blocks(self, tmp_path, path, capfd):
        frame = pd.DataFrame(X[:150]).rename(columns=lambda name: f"p{name}").assign(digit=Y[:150])
        for number in range(2):
            frame[number * 60 : number * 60 + 60].to_parquet(tmp_path / f"rows-{number}.parquet")
        frame[120:].to_parquet(tmp_path / "test.parquet")
        rows, test = str(tmp_path / "rows-*.parquet"), str(tmp_path / "test.parquet")
        given = ["certify", "--train", rows, "--test", test, "--label", "digit", "--proof", str(path), "-q"]
        assert in_process(given) == 0
        assert in_process(["verify", str(path), "--data", test, "-q"]) == 0
