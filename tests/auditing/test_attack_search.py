"""`flipproof.find_attacks`: facts about attacks from arrays, frames and files, as `flipproof attack` prints them."""

import numpy as np
import pytest

import flipproof
from flipproof.cli.group import run
from flipproof.errors import InputError
from flipproof.streaming import RowBlocks

pd = pytest.importorskip("pandas")

N_TRAIN = 90
RNG = np.random.default_rng(3)
X = RNG.normal(size=(130, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=130) > 0, "spam", "ham")
TRAIN, TEST = (X[:N_TRAIN], Y[:N_TRAIN]), X[N_TRAIN:]


def frame(part):
    """Rows with ids, annotators and labels; the id of the third test row looks like a count of annotators."""
    ids = [f"m{row}" for row in range(130)]
    ids[N_TRAIN + 2] = "1 annotator"
    rows = pd.DataFrame(X, columns=list("pqr")).assign(kind=Y, key=ids, who=[f"a{row % 7}" for row in range(130)])
    return rows[part]


COLUMNS = {"label": "kind", "id": "key", "features": list("pqr")}


def words(text):
    """Return the words of a printed text, without lines of tables."""
    return text.replace("─", " ").split()


def test_the_changed_labels_overturn_the_prediction_and_one_fewer_does_not():
    found = flipproof.find_attacks(TRAIN, TEST, rows=[4, "7", 4], learner="cluster")
    model = flipproof.CertifiedClusterClassifier().fit(*TRAIN)
    assert [one.id for one in found.predictions] == [4, 7]
    for one in found.predictions:
        row = TEST[[one.id]]
        assert one.prediction == model.predict(row)[0]
        assert one.needed == model.certify(row).radius[0] + 1 == len(one.train_ids)
        for n_changed, is_other in ((one.needed, True), (one.needed - 1, False)):
            poisoned = Y[:N_TRAIN].copy()
            poisoned[list(one.train_ids[:n_changed])] = one.new_labels[:n_changed]
            refitted = flipproof.CertifiedClusterClassifier(classes=["ham", "spam"]).fit(X[:N_TRAIN], poisoned)
            assert (refitted.predict(row)[0] != one.prediction) == is_other
        assert Y[list(one.train_ids)].tolist() == list(one.old_labels)
    lines = found.to_frame()
    assert lines["train_id"].tolist() == [row for one in found.predictions for row in one.train_ids]
    assert lines["order"].tolist() == [place for one in found.predictions for place in range(1, one.needed + 1)]


def test_a_row_is_named_as_it_is_in_sentences_about_annotators():
    given = {**COLUMNS, "annotator": "who", "rows": ["m95", "1 annotator"]}
    found = flipproof.find_attacks(frame(slice(0, N_TRAIN)), frame(slice(N_TRAIN, None)), **given)
    for one in found.predictions:
        assert f"Test row {one.id} is predicted as {one.prediction}. It takes {one.needed} of 7 annotators" in str(one)
        assert len(one.who) == one.needed
        assert sum(one.who.values()) == len(one.train_ids)
    assert found.unit == "annotators"


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["--row", "m95,m101"], {"rows": ["m95", "m101"]}),
        (["--row", "m95", "--max-flips", "1"], {"rows": "m95", "max_changes": 1}),
        (["--top", "30"], {"top": 30}),
        (["--annotator", "who"], {"annotator": "who"}),
        (["--annotator", "who", "--row", "m95"], {"annotator": "who", "rows": "m95"}),
        (["--reference", "REF", "--changes", "rows", "--top", "3"], {"changes": "rows", "top": 3}),
    ],
)
def test_it_prints_what_the_command_prints(options, arguments, tmp_path, capfd):
    frame(slice(0, N_TRAIN)).to_csv(tmp_path / "train.csv", index=False)
    frame(slice(N_TRAIN, None)).to_csv(tmp_path / "test.csv", index=False)
    pd.DataFrame(X[:40], columns=list("pqr")).to_csv(tmp_path / "ref.csv", index=False)
    options = [str(tmp_path / "ref.csv") if one == "REF" else one for one in options]
    train, test = str(tmp_path / "train.csv"), str(tmp_path / "test.csv")
    given = ["--train", train, "--test", test, "--label", "kind", "--id", "key", "--features", "p,q,r"]
    if "changes" in arguments:
        arguments = {**arguments, "reference": tmp_path / "ref.csv"}
    found = flipproof.find_attacks(train, test, **COLUMNS, **arguments)
    assert run(["attack", *given, *options]) == 0
    printed = words(capfd.readouterr().out)
    shown = words(repr(found).replace(": see .to_frame()", ". Use -o FILE to write all."))
    assert printed == shown


def test_attacks_by_rows_are_facts_too():
    reference = X[:40]
    found = flipproof.find_attacks(TRAIN, TEST, changes="rows", reference=reference, rows=[0, 3], learner="forest")
    model = flipproof.CertifiedForestClassifier().fit(*TRAIN, reference=reference)
    known = model.certify(TEST[[0, 3]], "exact", flipproof.Adversary(changes="rows"))
    assert [one.radius for one in found.predictions] == known.radius.tolist()
    assert found.n_confirmed == sum(one.needed is not None for one in found.predictions) > 0
    for one in found.predictions:
        assert max(one.removed, one.added) == one.needed
        removed = [change.train_id for change in one.changes if change.change == "remove"]
        kept = np.delete(np.arange(N_TRAIN), removed)
        rows, labels = X[kept], Y[kept]
        for change in one.changes:
            if change.change == "add":
                rows = np.concatenate([rows, np.tile(change.features, (change.copies, 1))])
                labels = np.append(labels, [change.label] * change.copies)
        refitted = flipproof.CertifiedForestClassifier(classes=["ham", "spam"]).fit(rows, labels, reference=reference)
        assert refitted.predict(TEST[[one.id]])[0] != one.prediction
    assert len(found.to_frame()) == sum(len(one.changes) for one in found.predictions)


def test_rankings_are_those_of_the_library():
    found = flipproof.find_attacks(TRAIN, TEST, top=4)
    model = flipproof.CertifiedRidgeClassifier().fit(*TRAIN)
    wanted = flipproof.attacks.labels_to_audit(model, TEST, top=4)
    assert found.predictions == ()
    assert found.to_frame()["train_id"].tolist() == wanted.rows.tolist()
    adversary = flipproof.Adversary(groups=np.arange(N_TRAIN) % 7)
    by_annotators = flipproof.find_attacks(TRAIN, TEST, adversary=adversary)
    wanted = flipproof.attacks.annotators_to_check(model, TEST, adversary, top=20)
    assert by_annotators.to_frame()["annotator"].tolist() == wanted.names.tolist()


def test_invalid_arguments_are_refused_with_a_remedy():
    with pytest.raises(
        TypeError, match=r"find_attacks\(\) got an unexpected argument 'max_change'. Did you mean 'max_changes'"
    ):
        flipproof.find_attacks(TRAIN, TEST, max_change=3)
    with pytest.raises(InputError, match="no test row '99'"):
        flipproof.find_attacks(TRAIN, TEST, rows=[1, 99])
    with pytest.raises(InputError, match="at least one test row"):
        flipproof.find_attacks(TRAIN, TEST, rows=[])
    with pytest.raises(InputError, match="RowBlocks are read in blocks"):
        flipproof.find_attacks(RowBlocks(*TRAIN), TEST)
    with pytest.raises(ValueError, match="'top' parameter of find_attacks"):
        flipproof.find_attacks(TRAIN, TEST, top=0)
    for learner in ("partition", flipproof.CertifiedPartitionClassifier()):
        with pytest.raises(InputError, match="no attack by rows"):
            flipproof.find_attacks(TRAIN, TEST, changes="rows", reference=X[:9], learner=learner)
    with pytest.raises(InputError, match="Did you mean 'ridge'"):
        flipproof.find_attacks(TRAIN, TEST, changes="rows", reference=X[:9], learner="rigde")
