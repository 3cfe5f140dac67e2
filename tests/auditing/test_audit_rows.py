"""`flipproof.audit` with a reference: it decides how columns are encoded, and certificates can cover whole rows."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof import Adversary, CertifiedRidgeClassifier
from flipproof.certificate_words import certificate_sentence
from flipproof.errors import InputError
from flipproof.report.html import render_html
from flipproof.report.markdown import render_markdown
from flipproof.streaming import RowBlocks
from flipproof.tables import TableEncoder

FEATURES = ["length", "country", "body"]
ROWS = {"label": "kind", "id": "key", "text": ["body"], "changes": "rows", "clip": 0.9}


def emails(n, seed):
    """Emails with a number, a category and a text; spam is longer."""
    rng = np.random.default_rng(seed)
    spam = rng.random(n) < 0.5
    words = np.array(["free", "win", "cash", "lunch", "report", "meeting", "hello"])
    bodies = [" ".join(words[rng.integers(0, 4, 5) + (0 if one else 3)]) for one in spam]
    return pa.table(
        {
            "key": [f"mail-{seed}-{i}" for i in range(n)],
            "length": rng.normal(size=n) + 2 * spam,
            "country": np.where(rng.random(n) < 0.3 + 0.5 * spam, "elsewhere", "here"),
            "body": bodies,
            "kind": np.where(spam, "spam", "ham"),
        }
    )


TRAIN, TEST, REFERENCE = emails(60, 1), emails(15, 2), emails(40, 3).select(FEATURES)


def audited(train=TRAIN, **options):
    return flipproof.audit(train, TEST, **{"reference": REFERENCE, **ROWS, **options})


def test_certificates_are_those_of_the_library_with_an_encoder_fitted_to_the_reference():
    found, encoder = audited(), TableEncoder(["body"]).fit(REFERENCE)
    model = CertifiedRidgeClassifier(clip=0.9)
    X, Z, R = (encoder.transform(one.select(FEATURES)) for one in (TRAIN, TEST, REFERENCE))
    model.fit(X, TRAIN["kind"].to_numpy(zero_copy_only=False), reference=R)
    wanted = model.certify(Z, adversary=Adversary(changes="rows"))
    assert found.main.radius.tolist() == wanted.radius.tolist()
    assert found.main.prediction.tolist() == wanted.prediction.tolist()
    assert (found.main.unit, found.main.changes) == ("rows", "rows")
    codes = {one.code for one in found.main.assumptions}
    assert {"rows-changed", "reference-fixed", "columns-encoded-by-reference"} <= codes
    assert "columns-encoded" not in codes
    assert found.provenance.n_reference == 40


@pytest.mark.parametrize("scale", ["standard", "rank", "none"])
def test_no_training_row_changes_how_another_row_is_encoded(scale):
    encoder = TableEncoder(["body"], scale=scale).fit(REFERENCE)
    rows = TRAIN.select(FEATURES)
    together = encoder.transform(rows)
    strange = pa.table({"length": [1e150, None], "country": ["new", None], "body": ["unheard of", None]})
    with_others = encoder.transform(pa.concat_tables([strange, rows]))[2:]
    alone = np.concatenate([encoder.transform(rows.slice(i, 1)) for i in range(rows.num_rows)])
    order = np.random.default_rng(0).permutation(rows.num_rows)
    shuffled = encoder.transform(rows.take(order))[np.argsort(order)]
    for other in (with_others, alone, shuffled):
        assert together.tobytes() == other.tobytes()


def test_nothing_inside_the_radius_changes_a_prediction():
    rng, found = np.random.default_rng(5), audited().main
    for _ in range(12):
        n_changes = int(rng.integers(1, 6))
        kept = np.sort(rng.permutation(60)[n_changes:])
        strange = pa.table(
            {
                "key": [f"new-{i}" for i in range(n_changes)],
                "length": rng.choice([1e150, -1e150, 1e-150, 0.5], n_changes),
                "country": rng.choice(["here", "unknown"], n_changes),
                "body": rng.choice(["free cash win", "zzz", ""], n_changes),
                "kind": rng.choice(["ham", "spam"], n_changes),
            }
        )
        again = audited(pa.concat_tables([TRAIN.take(kept), strange]), attack=False).main
        certain = found.radius >= n_changes
        assert (again.prediction == found.prediction)[certain].all()


def test_types_of_columns_in_files_are_those_of_the_reference(tmp_path):
    """Words that look like numbers in all training rows are words, and so is a label if the classes say so."""
    reference = pa.table({"code": ["1", "y", "x", "1"], "size": [1.0, 2.0, 3.0, 4.0]})
    train = pa.table({"code": ["1", "2", "1", "2"], "size": [1.0, 2.0, 3.5, 4.0], "y": [1, 1, 1, 1]})
    test = train.set_column(1, "size", [[1.5, 2.5, 3.0, 4.5]])
    for name, table in (("reference", reference), ("train", train), ("test", test)):
        csv.write_csv(table, tmp_path / f"{name}.csv", csv.WriteOptions(quoting_style="none"))
    options = {"label": "y", "reference": tmp_path / "reference.csv", "changes": "rows", "classes": ["1", "no"]}
    found = flipproof.audit(tmp_path / "train.csv", tmp_path / "test.csv", **options)
    assert found.encoder.kinds_ == {"code": "words", "size": "numbers"}
    assert found.main.classes.tolist() == ["1", "no"]
    assert found.main.prediction.tolist() == ["1"] * 4


def test_the_reference_may_have_a_label_and_may_be_the_training_rows():
    wrong_labels = TRAIN.set_column(4, "kind", pa.array(["?"] * 60))
    found = audited(reference=TRAIN)
    assert found.main.radius.tolist() == audited(reference=wrong_labels).main.radius.tolist()
    assert "reference-shared" in {one.code for one in found.main.assumptions}


def test_trusted_rows_and_sources():
    columns = {"who": [f"w{i % 12}" for i in range(60)], "sure": [i % 3 == 0 for i in range(60)]}
    table = TRAIN
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    found = audited(table, trusted="sure", annotator="who")
    assert found.main.unit == "sources"
    assert found.main.n_touchable == 8  # all rows of the other four sources are trusted
    given = Adversary(changes="rows", trusted=columns["sure"], groups=columns["who"])
    again = audited(TRAIN, adversary=given, changes="labels")
    assert again.main.radius.tolist() == found.main.radius.tolist()
    assert "of 8 sources" in found.summary()["headline"]["text"]


def test_arrays_and_their_reports_without_columns():
    X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    X[:, 0] += 2 * y
    found = flipproof.audit((X[:40], y[:40]), (X[40:], y[40:]), reference=X[:20], changes="removals")
    assert found.main.changes == "removals"
    facts = found.summary()["facts"]
    assert not {"label_column", "columns_used", "encoding"} & set(facts)
    assert (facts["reference_file"], facts["reference_rows"]) == ("numpy ndarray", 20)


@pytest.mark.parametrize("changes", ["labels", "rows", "removals"])
def test_rows_in_blocks_give_the_same_certificates_as_in_memory(changes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    X[:, 0] += 2 * y
    options = {"reference": rng.normal(size=(20, 3)), "changes": changes, "clip": 0.9}
    blocks = RowBlocks.from_blocks([(X[:17], y[:17]), (X[17:50], y[17:50])])
    found, wanted = (flipproof.audit(train, (X[50:], y[50:]), **options) for train in (blocks, (X[:50], y[:50])))
    assert found.main.radius.tolist() == wanted.main.radius.tolist()
    assert found.main.assumptions == wanted.main.assumptions
    assert (found.against_rows is None) == (changes != "labels")
    if changes == "labels":
        assert found.against_rows.radius.tolist() == wanted.against_rows.radius.tolist()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (np.ones((4, 2)), "2 columns"),
        (np.array([[1.0, 2, 3], [np.nan, 1, 2]]), "row 1 has missing or infinite"),
        (np.ones((1, 3)), "at least 2"),
        ("reference.npy", "must be an array"),
    ],
)
def test_references_that_do_not_fit_rows_in_blocks_are_refused(reference, said):
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(ValueError, match=said) as refused:
        flipproof.audit(RowBlocks.from_arrays(X, y), X, reference=reference, changes="rows")
    assert "\n" not in str(refused.value)


def test_a_single_training_row_in_a_file_may_vote(tmp_path):
    for name, table in (("train", TRAIN.slice(0, 1)), ("test", TEST), ("reference", REFERENCE)):
        (tmp_path / name).mkdir()
        parquet.write_table(table, tmp_path / name / "0.parquet")
    files = {"test": tmp_path / "test" / "0.parquet", "reference": tmp_path / "reference" / "0.parquet"}
    given = {**ROWS, **files, "classes": ["ham", "spam"]}
    in_blocks, in_memory = (
        flipproof.audit(train, **given) for train in (tmp_path / "train", tmp_path / "train" / "0.parquet")
    )
    assert in_blocks.main.radius.tolist() == in_memory.main.radius.tolist()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("learner", "parameters", "is_covered"),
    [
        ("neighbors", {"n_neighbors": 5}, True),
        ("neighbors", {"n_neighbors": 5, "weights": "distance"}, False),
        ("neighbors", {"n_neighbors": 5, "metric": "manhattan"}, False),
        ("partition", {"n_partitions": 7}, True),
        ("forest", {"n_estimators": 5}, True),
        ("cluster", {}, True),
    ],
)
def test_a_table_against_rows_accompanies_learners_that_cover_them(learner, parameters, is_covered):
    found = audited(changes="labels", clip=None, learner=learner, parameters=parameters, attack=False)
    assert found.model.covers_rows == is_covered
    assert (found.against_rows is not None) == is_covered
    assert (found.summary()["rows"] is not None) == is_covered
    if not is_covered:
        with pytest.raises(ValueError, match="against changed rows"):
            audited(clip=None, learner=learner, parameters=parameters)


def test_errors_in_certificates_against_rows_are_not_hidden(monkeypatch):
    def fail(*_):
        raise ValueError("no memory")

    monkeypatch.setattr(CertifiedRidgeClassifier, "_certify_rows", fail)
    with pytest.raises(ValueError, match="no memory"):
        audited(changes="labels")


def test_certificates_against_labels_are_accompanied_by_those_against_rows():
    found = audited(changes="labels", flips=[0, 1, 2])
    assert (found.main.unit, found.against_rows.unit) == ("labels", "rows")
    assert found.against_rows.radius.tolist() == audited().main.radius.tolist()
    summary = found.summary()
    assert summary["rows"]["title"] == "If rows were added, removed or replaced"
    assert summary["rows"]["also"]["problem"]["flips_name"] == "changed rows"
    for page in (render_html(summary), render_markdown(summary)):
        assert page.count("If rows were added, removed or replaced") >= 1
        assert "reference of 40 rows" in page
    assert flipproof.audit(TRAIN, TEST, label="kind", id="key", text="body").against_rows is None


@pytest.mark.parametrize(("changes", "name"), [("rows", "changed"), ("insertions", "added"), ("removals", "removed")])
def test_reports_about_rows_do_not_speak_of_changed_labels(changes, name):
    found = audited(changes=changes)
    summary = found.summary()
    problem = summary["problem"]
    assert (problem["unit"], problem["changes"], problem["flips_name"]) == ("rows", changes, f"{name} rows")
    assert summary["attack"] is None
    for sentence in (summary["headline"]["text"], *summary["threat"], *summary["rows"]["sentences"]):
        assert "changed label" not in sentence
    assert "training rows" in render_html(summary)
    assert found.to_arrow()["unlimited"].type == pa.bool_()
    for row in range(3):
        assert "row" in certificate_sentence(found.main, row)
        assert "training labels" not in certificate_sentence(found.main, row)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reference": None}, "requires 'reference'"),
        ({"changes": "columns"}, "must be one of labels, rows"),
        ({"methods": ["exact", "tight"]}, "only exact covers changed rows"),
        ({"allowed": ["ham:spam"]}, "cannot be combined"),
        ({"parameters": {"clip": 0.5}}, "only once"),
        ({"adversary": Adversary(changes="removals")}, "only once"),
        ({"learner": "cluster"}, "no votes to clip"),
        ({"learner": make_pipeline(StandardScaler(), CertifiedRidgeClassifier())}, "Pipeline"),
        ({"reference": REFERENCE.slice(0, 1)}, "at least 2"),
        ({"reference": np.zeros((4, 3))}, "path or a data frame"),
        ({"reference": REFERENCE.drop_columns(["length"])}, "no feature column 'length'"),
        ({"reference": REFERENCE.append_column("more", [np.arange(40)])}, "no feature column 'more'"),
    ],
)
def test_what_does_not_fit_together_is_refused(options, said):
    with pytest.raises(InputError, match=said) as refused:
        audited(**options)
    assert "\n" not in str(refused.value)


def test_columns_of_another_kind_than_in_the_reference_are_refused():
    words = TRAIN.set_column(1, "length", pa.array(["long"] * 60))
    with pytest.raises(ValueError, match="holds numbers in the reference"):
        audited(words)
    numbers = TRAIN.set_column(2, "country", pa.array(np.arange(60)))
    with pytest.raises(ValueError, match="holds words in the reference"):
        audited(numbers)


def test_arrays_that_do_not_fit_are_refused():
    X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    options = {"holdout": 0.2, "changes": "rows"}
    with pytest.raises(InputError, match="shape"):
        flipproof.audit((X, y), reference=X[:, :2], **options)
    with pytest.raises(InputError, match="row 1 has missing or infinite"):
        flipproof.audit((X, y), reference=np.array([[1.0, 2, 3], [np.nan, 1, 2]]), **options)


@pytest.mark.data
def test_sms_spam_against_rows(data_dir):
    """A quarter of the messages, without labels, is the reference; the others vote."""
    path = data_dir / "sms_spam" / "SMSSpamCollection.gz"
    layout = flipproof.tables.TextLayout(names=("kind", "text"), quotes=False, kind="tsv")
    table = flipproof.tables.read_table(path, layout, as_words=["text"])
    order = np.random.default_rng(0).permutation(table.num_rows)
    reference, test, train = (table.take(part) for part in np.split(order, [1394, 2188]))
    options = {"label": "kind", "text": "text", "reference": reference, "clip": 0.9, "changes": "rows"}
    found = flipproof.audit(train, test, requirements=["accuracy >= 0.85 @ 5"], **options)
    assert found.main.unit == "rows"
    assert found.passed


def test_clip_is_chosen_on_trusted_rows_like_any_parameter():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % 2
    X[:, 0] += 3 * y
    grid = {"clip": [None, 0.9, "sign"]}
    chosen = flipproof.select_on_trusted(CertifiedRidgeClassifier(), grid, X, y, np.arange(90) < 60, flips=9)
    assert [one.error for one in chosen.candidates] == [None] * 3
    assert chosen.model.clip == chosen.best_params["clip"]


@pytest.mark.parametrize("options", [{}, {"learner": "neighbors", "clip": None, "changes": "removals"}])
def test_reports_show_attacks_by_rows_on_the_most_fragile_predictions(options):
    found = audited(**options)
    attacks, encoder = found.attacks, TableEncoder(["body"]).fit(REFERENCE)
    assert attacks.attempted.sum() == attacks.success.sum() == 10
    assert attacks.is_smallest[attacks.success].all()
    assert found.main.radius[attacks.attempted].max() <= found.main.radius[~attacks.attempted].min()
    X, Z, R = (encoder.transform(one.select(FEATURES)) for one in (TRAIN, TEST, REFERENCE))
    row = int(np.flatnonzero(attacks.success)[0])
    changed = attacks.changed(X, TRAIN["kind"].to_numpy(zero_copy_only=False), row)
    model = type(found.model)(**found.model.get_params()).fit(*changed, reference=R)
    assert model.predict(Z[row : row + 1])[0] != attacks.prediction[row]
    entries = found.summary()["rows"]["attacks"]
    assert [one["needed"] for one in entries] == sorted(attacks.changes_needed[attacks.success].tolist())
    for text in (render_html(found.summary()), render_markdown(found.summary())):
        assert text.count("Confirmed by a refit") == 10
        assert "are in the section about rows" in text


def test_reports_name_the_sources_of_an_attack():
    table = TRAIN.append_column("who", [[f"w{i % 9}" for i in range(len(TRAIN))]])
    found = audited(train=table, annotator="who", clip="sign")
    entries = found.summary()["rows"]["attacks"]
    assert entries
    for entry in entries:
        assert len(entry["sources"]) == entry["needed"]
        changed = "1 changed source" if entry["needed"] == 1 else f"{entry['needed']} changed sources"
        assert f"{changed} ({', '.join(entry['sources'])})" in render_markdown(found.summary())
    assert {one["sources"] is None for one in audited().summary()["rows"]["attacks"]} == {True}


def test_reports_say_where_no_attack_by_rows_is_known():
    assert audited(attack=False).attacks is None
    partitions = audited(learner="partition", clip=None)
    assert partitions.attacks is None
    assert "the smallest attack is not known" in render_markdown(partitions.summary())
    assert "attacks" not in partitions.summary()["rows"]


def test_windows_are_of_labels_with_or_without_a_reference():
    days = pa.array(np.datetime64("2024-01-01") + np.arange(60))
    options = {"window": "day", "length": "7d", "attack": False, "error_rate": 0}
    train = TRAIN.append_column("day", days)
    found = audited(train, **options, changes="labels")
    assert found.main.unit == "windows"
    assert found.against_rows is None
    for changes in ("rows", "insertions", "removals"):
        with pytest.raises(InputError, match=f"changes={changes}|changes='{changes}'"):
            audited(train, **options, changes=changes)
