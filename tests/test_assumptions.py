"""Assumptions are objects: compared by code and values, worded in one place, and never parsed from text."""

import copy
import json
import pickle
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.tree import DecisionTreeClassifier

import flipproof
from flipproof import Adversary, Assumption
from flipproof.assumptions import MOST_CHANGES, STEP_REMEDIES, WORDINGS, as_assumption, change_values
from flipproof.streaming import StreamingKernelClassifier, StreamingRidgeClassifier
from flipproof_verify.assumed import CODES

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 3)) + 2 * np.eye(3)[Y]

#: An example of every assumption, and of every variant of its wording.
EXAMPLES = [
    *(Assumption(code) for code in ("labels-only", "features-only", "divergence-only", "noise-on-all-labels")),
    *(Assumption(code) for code in ("annotators-bounded", "partitions-chosen", "auxiliary-labels", "one-attack")),
    Assumption(
        "pretrained-encoder", {"step": "SentenceEncoder", "encoder": "e5-small", "digest": "0a1b", "has_cache": True}
    ),
    Assumption("rules-counted", {"n_decided": 5, "n_rows": 9, "n_conflicts": 1}),
    *(Assumption(code) for code in ("pretrained-weights", "test-rows-together", "smoothed-decision")),
    Assumption("labels-or-features"),
    Assumption("trusted-labels", {"n_trusted": 2, "n_labels": 5}),
    Assumption("trusted-at-fit", {"n_trusted": 3, "n_labels": 7, "readers": ["the trees", "the prior"]}),
    Assumption(
        "reference-labels-read",
        {"n_reference": 40, "n_labels": 6, "of_reference": False, "readers": ["the features step LDA"]},
    ),
    Assumption("fitted-on-trusted", {"role": "features step", "step": "LDA", "n_trusted": 12}),
    Assumption("trees-on-trusted", {"n_trees": 100, "n_trusted": 12, "random_state": 0}),
    Assumption("prior-weight", {"step": "RandomForestClassifier", "weight": 2.0}),
    Assumption("changes-allowed", {"changes": [["ham", "spam"], [0, 1]], "n_changes": 2}),
    Assumption("changes-allowed", {"changes": [("ham", "spam")], "n_changes": 3}),
    *(Assumption("changes-partly-used", {"method": method}) for method in ("kl", "tight", "gap")),
    Assumption("annotators", {"n_annotators": 3}),
    *(Assumption(code) for code in ("targets-only", "target-range-read", "target-rows-bounded")),
    *(
        Assumption("target-rows-changed", {"changes": changes, "by_sources": by_sources})
        for changes, by_sources in (("rows", False), ("rows", True), ("insertions", False))
    ),
    Assumption("trusted-targets", {"n_trusted": 2, "n_targets": 5}),
    Assumption("target-annotators", {"n_annotators": 3}),
    Assumption("target-weights"),
    Assumption("targets-moved", {"max_change": 0.5}),
    Assumption("target-range", {"low": 0.0, "high": 1e6, "step": 1.0}),
    Assumption("windows", {"length": "7d", "n_windows": 4}),
    Assumption("annotations", {"n_labels": 30, "n_labelled": 12}),
    Assumption("sample-weights"),
    Assumption("classes-read", {"n_classes": 3}),
    Assumption("unlabelled-rows", {"n_unlabelled": 2, "n_rows": 5}),
    Assumption("equal-rows-by-order", {"n_equal": 2, "n_rows": 5}),
    Assumption("columns-encoded-by-reference", {"n_reference": 40}),
    *(Assumption("columns-encoded", {"n_encoded": n, "n_rows": 5}) for n in (2, 5)),
    *(
        Assumption("fitted-without-labels", {"role": "features step", "step": "PCA", "but": but})
        for but in ((), ("scaler", "encoder"))
    ),
    *(
        Assumption(
            "fitted-elsewhere", {"role": "features step", "step": "PCA", "path": path, "part": "PCA", "data": data}
        )
        for path, data in product(("", "whitener"), ("labels", "training data"))
    ),
    Assumption(
        "used-as-given",
        {
            "role": "features step",
            "step": "Mapped",
            "parts": [("table", "a dict"), ("f", "a function")],
            "data": "labels",
        },
    ),
    Assumption("clustered-without-labels", {"step": "KMeans", "n_clusters": 4}),
    Assumption("trees-without-labels", {"n_trees": 5, "random_state": 0}),
    Assumption("custom-function", {"parameter": "metric", "function": "function f"}),
    Assumption("lambda-from-labels", {"regularization": 0.25}),
    Assumption("base-learner-reproducible", {"step": "SVC"}),
    Assumption("base-learner-any-rows", {"step": "SVC"}),
    Assumption("base-learner-chosen", {"step": "SVC"}),
    *(Assumption("pipeline-steps", {"steps": [("a", "PCA")], "remedy": remedy}) for remedy in STEP_REMEDIES),
    Assumption("chosen-by-search", {"search": "GridSearchCV", "parameters": [("k", "3")]}),
    Assumption("chosen-on-trusted", {"parameters": [("k", "3")], "n_trusted": 7}),
    Assumption("learner-chosen-on-trusted", {"learner": "forest", "parameters": [("k", "3")], "n_trusted": 7}),
    *(Assumption("confidence", {"confidence": 0.9, "over": over}) for over in ("prediction", "batch")),
    Assumption("solver-claim", {"most_changed": 3}),
    *(Assumption("solver-stopped", {"n_changed": 3, "ran_out_of_time": late}) for late in (True, False)),
    *(Assumption("rows-changed", {"changes": one, "by_sources": False}) for one in ("rows", "insertions", "removals")),
    *(Assumption("rows-changed", {"changes": one, "by_sources": True}) for one in ("rows", "removals")),
    Assumption("reference-fixed", {"n_reference": 71}),
    Assumption("reference-shared", {"n_shared": 5, "n_rows": 72}),
    Assumption("features-separately", {"step": "PCA"}),
    Assumption("features-any-rows", {"step": "PCA"}),
    Assumption("truth-from-annotations", {"n_test": 123}),
    Assumption("graph-fixed", {"n_nodes": 30, "n_edges": 41}),
    Assumption("rows-lower-bound"),
    Assumption("majority-first", {"n_labels": 30, "n_labelled": 10, "n_tied": 2}),
    Assumption("majority-lower-bound"),
    Assumption("radii-limited", {"limit": 20}),
    Assumption("sources-bounded"),
    Assumption("trusted-rows", {"n_trusted": 6, "n_rows": 73, "can_add": False}),
    Assumption("trusted-rows", {"n_trusted": 6, "n_rows": 73, "can_add": True}),
    *(Assumption("sources", {"n_sources": 7, "changes": changes}) for changes in ("rows", "removals")),
    Assumption("stated", {"text": "The sensors were calibrated."}),
]


def test_every_code_has_its_distinct_wording():
    assert {one.code for one in EXAMPLES} == set(WORDINGS)
    sentences = [str(one) for one in EXAMPLES]
    assert len(set(sentences)) == len(sentences)
    for sentence in sentences:
        assert sentence.endswith(".")
        assert not any(mark in sentence for mark in ("{", "}", "  "))


def test_numbers_and_names_are_in_the_sentence():
    for one in EXAMPLES:
        for value in one.values.values():
            if isinstance(value, int) and not isinstance(value, bool) and one.values.get("n_rows") != value:
                assert f"{value}" in str(one) or one.code == "changes-allowed"


@pytest.mark.parametrize("one", EXAMPLES, ids=lambda one: one.code)
def test_equal_by_code_and_values_after_every_copy(one):
    stored = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert stored["sentence"] == str(one)
    for again in (
        Assumption(one.code, dict(one.values)),
        Assumption.from_dict(stored),
        Assumption.from_dict({**stored, "sentence": "Something else."}),
        pickle.loads(pickle.dumps(one)),
        copy.deepcopy(one),
    ):
        assert again == one
        assert hash(again) == hash(one)
        assert str(again) == str(one)
        assert again.to_dict() == one.to_dict()
    assert [other for other in EXAMPLES if other == one] == [one]


def test_assumptions_are_frozen():
    one = Assumption("changes-allowed", {"changes": [["a", "b"]], "n_changes": 1})
    with pytest.raises(AttributeError):
        one.code = "stated"
    with pytest.raises(TypeError):
        one.values["n_changes"] = 2
    assert one.values["changes"] == (("a", "b"),)


def test_numpy_values_become_plain_python():
    one = Assumption("trusted-labels", {"n_trusted": np.int64(2), "n_labels": np.int32(5)})
    assert [type(value) for value in one.values.values()] == [int, int]
    assert repr(one) == "Assumption('trusted-labels', {'n_trusted': 2, 'n_labels': 5})"


@pytest.mark.parametrize(
    ("code", "values", "message"),
    [
        ("no-such-thing", {}, "'code' parameter of Assumption must be one of 'labels-only', .* Got 'no-such-thing'"),
        (None, {}, "'code' parameter of Assumption must be one of .* Got None"),
        ("labels-only", [], "must be a mapping. Got list"),
        ("labels-only", {"n": 1}, "the names none. Got 'n' instead"),
        ("trusted-labels", {"n_trusted": 1}, "the names 'n_trusted', 'n_labels'. Got 'n_trusted' instead"),
        ("classes-read", {"n_classes": np.nan}, "must be texts, finite numbers, .* Got nan"),
        ("classes-read", {"n_classes": None}, "must be texts, finite numbers, .* Got None"),
        ("stated", {"text": b"bytes"}, "must be texts, finite numbers"),
        ("stated", {"text": {"a": 1}}, "must be texts, finite numbers"),
        ("annotators", {"n_annotators": "many"}, "cannot have these values"),
        ("pipeline-steps", {"steps": [("a", "PCA")], "remedy": "prayer"}, "cannot have these values"),
        ("used-as-given", {"role": "r", "step": "s", "parts": [3], "data": "labels"}, "cannot have these values"),
    ],
)
def test_invalid_assumptions_are_refused(code, values, message):
    with pytest.raises(ValueError, match=message):
        Assumption(code, values)


def test_files_without_assumptions_are_refused():
    with pytest.raises(ValueError, match="must be an object with a 'code'"):
        Assumption.from_dict({"sentence": "Only training labels may be changed."})
    with pytest.raises(ValueError, match="must be one of"):
        Assumption.from_dict({"code": "unheard-of", "values": {}})


def test_a_custom_sentence_is_a_stated_assumption():
    one = as_assumption("The {sensors} were calibrated.")
    assert one == Assumption("stated", {"text": "The {sensors} were calibrated."})
    assert str(one) == "The {sensors} were calibrated."
    assert as_assumption(one) is one
    with pytest.raises(ValueError, match=r"must be a flipproof.Assumption or a sentence. Got"):
        as_assumption(3)


@pytest.mark.parametrize("pair", [(b"a", b"b"), (1.5, np.inf), (True, False), (np.int64(1), np.str_("x"))])
def test_classes_of_any_type_can_be_named(pair):
    one = Assumption("changes-allowed", change_values([pair]))
    assert Assumption.from_dict(json.loads(json.dumps(one.to_dict(), allow_nan=False))) == one
    assert f"{pair[0]} -> {pair[1]}" in str(one)


def test_long_lists_of_changes_are_counted_and_truncated():
    pairs = list(product(range(10), range(10, 20)))
    labels = np.arange(20)
    model = flipproof.CertifiedRidgeClassifier(classes=labels).fit(RNG.normal(size=(20, 2)), labels)
    certificates = model.certify(np.zeros((1, 2)), adversary=Adversary(allowed=pairs))
    [one] = [one for one in certificates.assumptions if one.code == "changes-allowed"]
    assert one.values["n_changes"] == 100
    assert one.values["changes"] == tuple(pairs[:MOST_CHANGES])
    assert "and 80 more" in str(one)


def learners():
    return [
        flipproof.CertifiedRidgeClassifier(),
        flipproof.CertifiedKernelClassifier(n_components=20),
        flipproof.CertifiedNeighborsClassifier(5),
        flipproof.CertifiedClusterClassifier(KMeans(4, n_init=1, random_state=0)),
        flipproof.CertifiedForestClassifier(3),
        flipproof.CertifiedPropagationClassifier(5),
        flipproof.CertifiedPartitionClassifier(DecisionTreeClassifier(), 5),
        StreamingRidgeClassifier(),
        StreamingKernelClassifier(n_components=20),
        flipproof.SmoothedClassifier(DecisionTreeClassifier(), 0.2, 5, 20, random_state=0),
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("learner", learners(), ids=lambda one: type(one).__name__)
def test_every_learner_and_adversary_has_assumptions_that_survive_a_file(learner):
    given = {"trusted": np.arange(60) < 10, "groups": np.arange(60) % 9, "allowed": [(0, 1), (1, 0), (2, 0)]}
    learner.fit(X, Y)
    plain = learner.certify(X[:2]).assumptions
    assert {"labels-only", "classes-read"} <= {one.code for one in plain}
    limits = {"trusted": "trusted-labels", "groups": "annotators", "allowed": "changes-allowed"}
    for chosen in product((False, True), repeat=3):
        named = [name for name, is_chosen in zip(given, chosen, strict=True) if is_chosen]
        certificates = learner.certify(X[:2], adversary=Adversary(**{name: given[name] for name in named}))
        assert certificates.assumptions[: len(plain)] == plain
        found = {one.code for one in certificates.assumptions}
        assert found <= set(WORDINGS)
        assert found & set(limits.values()) == {limits[name] for name in named}
        stored = json.loads(json.dumps([one.to_dict() for one in certificates.assumptions], allow_nan=False))
        assert tuple(map(Assumption.from_dict, stored)) == certificates.assumptions


class Stated(TransformerMixin, BaseEstimator):
    """A features step that a user might write."""

    def __init__(self, rests_on=None):
        self.rests_on = rests_on

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


@pytest.mark.parametrize(
    "given", ["The ruler was straight.", Assumption("stated", {"text": "The ruler was straight."})]
)
def test_a_features_step_can_state_an_assumption(given):
    model = flipproof.CertifiedRidgeClassifier(features=Stated(given)).fit(X, Y)
    assert Assumption("stated", {"text": "The ruler was straight."}) in model.certify(X[:1]).assumptions
    silent = flipproof.CertifiedRidgeClassifier(features=Stated()).fit(X, Y)
    assert all(one.code != "stated" for one in silent.certify(X[:1]).assumptions)


def test_a_custom_learner_can_state_assumptions():
    class Own(flipproof.LabelLinearClassifier):
        def fit_without_labels(self, X):
            self.rows_ = X

        def label_free_weights(self, Z):
            return np.exp(-((Z[:, None, :] - self.rows_) ** 2).sum(axis=2)), np.zeros((1, len(self.classes_)))

        def learner_assumptions(self):
            return ["The width was chosen beforehand.", Assumption("one-attack")]

    *_, first, second = Own().fit(X, Y).certify(X[:1]).assumptions
    assert first == Assumption("stated", {"text": "The width was chosen beforehand."})
    assert second == Assumption("one-attack")


def test_the_page_for_receivers_lists_every_code_with_its_sentence():
    """A file has only codes and values: the page says what they mean, and which of them no proof decides."""
    page = (Path(__file__).parents[1] / "docs" / "verifying.md").read_text()
    _, stated, compared = page.split("| code | for example |\n|---|---|\n")
    first = {one.code: str(one) for one in reversed(EXAMPLES)}
    for table, is_checked in ((stated, False), (compared, True)):
        lines = table.partition("\n\n")[0].strip().splitlines()
        codes = [code for code in WORDINGS if code in CODES and CODES[code].is_checked is is_checked]
        assert lines == [f"| `{code}` | {first[code]} |" for code in codes]
