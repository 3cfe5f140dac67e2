"""Certificates are frozen, readable, and unchanged by conversion to a table and back."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flipproof import Adversary, Assumption, Certificates, CertifiedRidgeClassifier
from flipproof.certificate_words import certificate_sentence

ROWS = ("prediction", "radius", "rival", "margin", "log_failure", "abstained")


def make(method="exact", words=True):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    X = rng.normal(size=(90, 2)) + 2 * np.eye(3, 2)[y]
    labels = np.array(["cod", "eel", "ray"])[y] if words else y
    return CertifiedRidgeClassifier(0.2).fit(X, labels).certify(X[:7], method=method)


def empty():
    cert = make()
    return dataclasses.replace(cert, witness=cert.witness[:0], **{name: getattr(cert, name)[:0] for name in ROWS})


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Certificates)])
def test_no_attribute_can_be_assigned(field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(make(), field, None)


@pytest.mark.parametrize("method", ["exact", "kl"])
@pytest.mark.parametrize("field", [*ROWS, "witness", "classes"])
def test_no_array_can_be_written(field, method):
    array = getattr(make(method), field)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = array[-1]


def test_a_result_has_one_entry_per_test_row():
    cert = make("kl")
    assert len(cert) == 7
    for name in ROWS:
        assert getattr(cert, name).shape == (7,)
    assert cert.witness.shape == (7, 3)
    assert cert.radius.dtype == np.int64
    assert cert.n_train == 90
    assert cert.unit == "labels"
    assert cert.noise == 0.2
    assert len(empty()) == 0


def test_the_exact_method_needs_no_witness_and_the_smoothed_ones_have_one_per_rival():
    exact, kl = make(), make("kl")
    assert np.isnan(exact.log_failure).all()
    assert np.isnan(exact.witness).all()
    assert (kl.log_failure <= 0).all()
    is_winner = kl.prediction[:, None] == kl.classes
    np.testing.assert_array_equal(np.isnan(kl.witness), is_winner)
    assert (kl.witness[~is_winner] >= 0).all()


def test_repr_states_the_number_of_rows_and_the_radii():
    cert = make()
    assert repr(cert) == (
        f"<Certificates: 7 predictions, method 'exact', median radius {int(np.median(cert.radius))} of 90 labels>"
    )
    assert repr(empty()) == "<Certificates: 0 predictions, method 'exact' of 90 labels>"


@pytest.mark.parametrize("method", ["exact", "tight"])
@pytest.mark.parametrize("words", [True, False])
def test_a_table_is_complete_and_unchanged_by_a_file(words, method, tmp_path):
    cert = make(method, words)
    pq.write_table(cert.to_arrow(), tmp_path / "certificates.parquet")
    table = pq.read_table(tmp_path / "certificates.parquet")
    assert table.num_rows == 7
    for name in ("prediction", "radius", "rival", "margin"):
        np.testing.assert_array_equal(table[name].to_numpy(), getattr(cert, name))
    if method == "exact":  # no columns that it does not use
        assert table.column_names == ["prediction", "radius", "rival", "margin", "method", "unit"]
    else:
        np.testing.assert_array_equal(table["log_failure"].to_numpy(), cert.log_failure)
        np.testing.assert_array_equal(table["noise"].to_numpy(), np.full(7, 0.2))
        witness = np.column_stack([table[f"witness_{name}"].to_numpy() for name in cert.classes])
        np.testing.assert_array_equal(witness, cert.witness)
    about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert about["method"] == method
    assert about["unit"] == "labels"
    assert int(about["n_train"]) == 90
    assert json.loads(about["classes"]) == cert.classes.tolist()
    stored = json.loads(about["assumptions"])
    assert tuple(map(Assumption.from_dict, stored)) == cert.assumptions
    assert [one["sentence"] for one in stored] == [str(one) for one in cert.assumptions]


def test_a_table_holds_names_and_labels_on_request():
    cert = make()
    names, truth = [f"row {number}" for number in range(7)], cert.classes[[0, 1, 2, 0, 1, 2, 0]]
    table = cert.to_arrow(ids=names, y_true=truth, details=False)
    expected = ["id", "prediction", "radius", "rival", "margin", "label", "correct", "method", "unit"]
    assert table.column_names == expected
    assert table["id"].to_pylist() == names
    np.testing.assert_array_equal(table["label"].to_numpy(), truth)
    np.testing.assert_array_equal(table["correct"].to_numpy(), truth == cert.prediction)
    assert set(table["method"].to_pylist()) == {"exact"}
    more = {"log_failure", "noise", "witness_cod", "witness_eel", "witness_ray"}
    assert set(make("kl").to_arrow().column_names) - set(expected) == more
    with pytest.raises(ValueError, match="length"):
        cert.to_arrow(ids=names[:3])


def test_a_table_holds_the_noise_of_each_row():
    cert = dataclasses.replace(make("kl"), noise=np.linspace(0.1, 0.4, 7))
    np.testing.assert_array_equal(cert.to_arrow()["noise"].to_numpy(), cert.noise)


def test_an_empty_table_has_the_same_columns():
    assert empty().to_arrow().schema.equals(make().to_arrow().schema)
    assert dataclasses.replace(empty(), method="kl").to_arrow().schema.names == make("kl").to_arrow().schema.names
    assert isinstance(empty().to_arrow(), pa.Table)


def test_assumptions_state_what_is_never_covered():
    assert make().assumptions == (Assumption("labels-only"), Assumption("classes-read", {"n_classes": 3}))


@pytest.mark.parametrize("wrong", [("a sentence",), "a sentence", (Assumption("labels-only"), 3), None])
def test_assumptions_must_be_assumption_objects(wrong):
    with pytest.raises(ValueError, match="'assumptions' of Certificates must be"):
        dataclasses.replace(make(), assumptions=wrong)


def test_a_certificate_can_be_explained_in_words():
    cert = dataclasses.replace(make(), radius=np.array([9, 90, 0, 0, 0, 0, 0]))
    said = certificate_sentence(cert, 0, names=["a cod", "an eel", "a ray"])
    names = dict(zip(cert.classes.tolist(), ["a cod", "an eel", "a ray"], strict=True))
    assert f"Test row 0 is predicted as {names[cert.prediction[0]]}. " in said
    assert "any 9 of the 90 training labels (10.0%)" in said
    assert f"rival class is {names[cert.rival[0]]}" in said
    always = certificate_sentence(cert, 1)
    assert f"Test row 1 is predicted as {cert.prediction[1]}. " in always
    assert "No change to the 90 training labels" in always
    trusted = dataclasses.replace(cert, n_touchable=80)
    assert "any 9 of the 80 changeable training labels" in certificate_sentence(trusted, 0)


def test_annotators_and_restricted_changes_are_explained():
    cert = dataclasses.replace(make(), radius=np.array([2, 5, 0, 0, 0, 0, 0]), unit="annotators", n_touchable=5)
    assert "any 2 of the 5 annotators" in certificate_sentence(cert, 0)
    assert "No attack by the 5 annotators" in certificate_sentence(cert, 1)
    assert repr(cert) == "<Certificates: 7 predictions, method 'exact', median radius 0 of 5 annotators>"
    restricted = dataclasses.replace(make(), adversary=Adversary(allowed=[("cod", "eel")]))
    assert "in any allowed way. " in certificate_sentence(restricted, 0)
    assert "to any class. " in certificate_sentence(make(), 0)


@pytest.mark.parametrize(
    ("unit", "changes", "least"),
    [
        ("labels", "labels", "one changed label"),
        ("annotators", "labels", "one malicious annotator"),
        ("windows", "labels", "one poisoned window"),
        ("rows", "rows", "one changed row"),
        ("rows", "insertions", "one added row"),
        ("rows", "removals", "one removed row"),
        ("sources", "rows", "one malicious source"),
    ],
)
def test_a_radius_of_0_is_not_worded_as_a_guarantee(unit, changes, least):
    adversary = None if changes == "labels" else Adversary(changes=changes)
    cert = dataclasses.replace(make(), radius=np.zeros(7, dtype=np.int64), unit=unit, adversary=adversary)
    cert = dataclasses.replace(cert, n_touchable=9, unlimited=np.zeros(7, dtype=bool))
    said = certificate_sentence(cert, 0)
    assert f"It is not certified: {least} may overturn this prediction. The rival class is" in said
    assert "guaranteed" not in said
    bound = dataclasses.replace(cert, assumptions=(*cert.assumptions, Assumption("majority-lower-bound")))
    assert "No change is certified for this prediction: a lower bound of its radius is 0." in (
        certificate_sentence(bound, 0)
    )
    limited = dataclasses.replace(cert, assumptions=(Assumption("radii-limited", {"limit": 0}),))
    assert "Radii were computed only up to 0" in certificate_sentence(limited, 0)


@pytest.mark.parametrize("method", ["tight", "kl", "gap"])
def test_a_bound_of_0_does_not_say_that_an_attack_exists(method):
    cert = dataclasses.replace(make("kl"), radius=np.zeros(7, dtype=np.int64), method=method)
    assert "No change is certified" in certificate_sentence(cert, 0)
    assert "overturn" not in certificate_sentence(cert, 0)


def test_labels_of_items_with_several_are_called_annotations():
    of_items = Assumption("annotations", {"n_labels": 90, "n_labelled": 40})
    cert = dataclasses.replace(make(), radius=np.array([9, 90, 0, 0, 0, 0, 0]), assumptions=(of_items,))
    assert cert.unit == "labels"
    assert "any 9 of the 90 annotations" in certificate_sentence(cert, 0)
    assert "No change to the 90 annotations" in certificate_sentence(cert, 1)
    assert "one changed annotation may overturn" in certificate_sentence(cert, 2)
    assert repr(cert).endswith("of 90 annotations>")
