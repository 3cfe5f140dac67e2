"""A corpus of broken certificate files, for any checker; each must be refuted or refused for its own reason.

Record it again with ``PYTHONPATH=tests python -m verifier.broken_files``.
"""

import hashlib
import json
from copy import deepcopy
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression

from flipproof import (
    Adversary,
    Annotations,
    CertifiedForestRegressor,
    CertifiedNeighborsClassifier,
    CertifiedNeighborsRegressor,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    CertifiedRidgeRegressor,
    FeatureNoise,
    SmoothedClassifier,
)
from flipproof.streaming import StreamingRidgeClassifier
from verifier.proof_boxes import Box

CORPUS = Path(__file__).parent / "corpus"

#: Honest files about assumptions and their values.
MORE = ["unlabelled", "days", "all-allowed", "replaced"]

#: Honest files about numbers.
NUMBERS = ["numbers", "numbers-annotators", "numbers-moved", "numbers-median", "numbers-rows", "numbers-sources"]
NUMBERS += ["numbers-nearest"]


def honest_files(folder):
    """Write small honest files: one for each rule, and some adversaries."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X = X[:, 19:45:3]  # a few pixels: the files are small
    train, test, labels = X[:60], X[60:66], y[:60]
    groups, trusted = np.arange(60) % 12, np.arange(60) % 5 == 0
    ridge, neighbors = CertifiedRidgeClassifier(classes=[0, 1, 2]), CertifiedNeighborsClassifier(9, classes=[0, 1, 2])
    partitions = CertifiedPartitionClassifier(n_partitions=7, classes=[0, 1, 2])
    cases = {
        "exact": (ridge, "exact", None),
        "trusted": (ridge, "exact", Adversary(trusted=trusted)),
        "annotators": (ridge, "exact", Adversary(groups=groups)),
        "windows": (ridge, "exact", Adversary(window=np.arange(60) // 2, length=3)),
        "sparse": (neighbors, "exact", None),
        "tight": (ridge, "tight", None),
        "kl": (ridge, "kl", None),
        "rows": (ridge, "exact", Adversary(changes="rows")),
        "sources": (ridge, "exact", Adversary(changes="removals", groups=groups)),
        "neighbors": (neighbors, "exact", Adversary(changes="rows")),
        "insertions": (neighbors, "exact", Adversary(changes="insertions")),
        "allowed": (ridge, "exact", Adversary(allowed=[(0, 1), (1, 0)])),
        "partitions": (partitions, None, None),
    }
    for name, (learner, method, adversary) in cases.items():
        reference = X[70:100] if adversary is not None and adversary.changes_rows else None
        learner.fit(train, labels, reference=reference)
        certificates = learner.certify(test, method=method, adversary=adversary)
        certificates.save(Path(folder) / f"{name}.flipproof")
    blocks = [(train[i : i + 25], labels[i : i + 25]) for i in range(0, 60, 25)]
    StreamingRidgeClassifier(classes=[0, 1, 2]).fit(blocks).certify(test).save(Path(folder) / "blocks.flipproof")
    weighted = ridge.fit(train, labels, sample_weight=1.0 + np.arange(60) % 3)
    weighted.certify(test).save(Path(folder) / "weights.flipproof")
    item, who = np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30) + 3 * (np.arange(90) % 4)
    given = np.where(np.arange(90) % 7 == 0, (labels[item] + 1) % 3, labels[item])
    crowd = Annotations.from_long(item, who, given, items=np.arange(30), aggregate="majority")
    majorities = ridge.fit(train[:30], crowd)
    majorities.certify(test).save(Path(folder) / "majority.flipproof")
    groups = Adversary(groups=who, trusted=np.arange(90) % 10 == 0)
    majorities.certify(test, adversary=groups).save(Path(folder) / "majority-annotators.flipproof")
    graph = CertifiedPropagationClassifier(classes=[0, 1, 2]).fit(train, labels, np.arange(60) % 3 == 0)
    graph.certify(test).save(Path(folder) / "unlabelled.flipproof")
    days = Adversary(window=np.datetime64("2026-01-01") + np.arange(60) // 2 * 3, length="1 week")
    ridge.fit(train, labels).certify(test, adversary=days).save(Path(folder) / "days.flipproof")
    many = Adversary(allowed=[(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)], trusted=trusted)
    ridge.certify(test, "kl", adversary=many).save(Path(folder) / "all-allowed.flipproof")
    replaced = Adversary(changes="rows", groups=np.arange(60) % 12, trusted=trusted)
    ridge.fit(train, labels, reference=X[70:100])
    ridge.certify(test, adversary=replaced).save(Path(folder) / "replaced.flipproof")
    digests = {"data.csv": hashlib.sha256(b"data").hexdigest()}
    ridge.fit(train, labels).certify(test[:2]).save(Path(folder) / "digests.flipproof", files=digests)
    for name, noise, method in (("samples", 0.2, "tight"), ("distances", FeatureNoise(0.5), "gaussian")):
        model = SmoothedClassifier(LogisticRegression(), noise, 20, 60, 0.9, random_state=0)
        model.fit(train / 16, labels).certify(test / 16, method).save(Path(folder) / f"{name}.flipproof")
    save_numbers(folder)
    more = ["blocks", "weights", "majority", "majority-annotators", *MORE, "digests", "samples", "distances"]
    return [*cases, *more, *NUMBERS]


def save_numbers(folder):
    """Write honest files about numbers."""
    X, y = load_diabetes(return_X_y=True)
    X = X[:, 2:5]
    train, targets, test, reference = X[:40], y[:40], X[60:65], X[80:110]
    groups, trusted, common = np.arange(40) % 9, np.arange(40) % 5 == 0, {"target_range": (0.0, 400.0)}
    ridge, forest = CertifiedRidgeRegressor(**common), CertifiedForestRegressor(5, **common)
    mean, median = (CertifiedNeighborsRegressor(7, average=one, **common) for one in ("mean", "median"))
    cases = {
        "numbers": (ridge, None, None),
        "numbers-annotators": (ridge, None, Adversary(groups=groups, trusted=trusted)),
        "numbers-moved": (forest, None, Adversary(max_change=5.0)),
        "numbers-median": (median, None, None),
        "numbers-rows": (ridge, reference, Adversary(changes="rows", trusted=trusted)),
        "numbers-sources": (forest, reference, Adversary(changes="removals", groups=groups)),
        "numbers-nearest": (mean, reference, Adversary(changes="rows")),
    }
    for name, (regressor, given, adversary) in cases.items():
        asked = {"threshold": 150.0} if name == "numbers-rows" else {"tolerance": 30.0}
        found = regressor.fit(train, targets, reference=given).certify(test, [1, 4], adversary=adversary, **asked)
        found.save(Path(folder) / f"{name}.flipproof")


def _changed(name, change):
    def edit(box):
        box.tensors[name] = change(box.tensors[name].copy())

    return edit


def _at(index, value):
    def change(array):
        array[index] = value(array[index]) if callable(value) else value
        return array

    return change


def _swap(array):
    array[[0, 1]] = array[[1, 0]]
    return array


def _more(array):
    return array + 1


def _document(**values):
    return lambda box: box.document.update(values)


def _without_assumption(code):
    def edit(box):
        box.document["assumptions"] = [one for one in box.document["assumptions"] if one["code"] != code]

    return edit


def _drop(name):
    return lambda box: box.tensors.pop(name)


def _place(name, **values):
    return lambda box: box.places.update({name: values})


def _wrong_digest(name):
    return lambda box: box.digests.update({name: "0" * 64})


def _wrong_document_digest(box):
    box.document_digest = "0" * 64


def _longer(array):
    return array * (1 + 2.0**-51)


def _twice(array):
    array[0, 1] = array[0, 0]
    return array


def _rival_as_prediction(box):
    box.tensors["claim.prediction"], box.tensors["claim.rival"] = (
        box.tensors["claim.rival"],
        box.tensors["claim.prediction"],
    )


def _offset_of_prediction(box):
    box.tensors["test.offset"][0, box.tensors["claim.prediction"][0]] += 1


def _other_rival(box):
    claimed, predicted = box.tensors["claim.rival"], box.tensors["claim.prediction"]
    box.tensors["claim.rival"] = (3 - claimed - predicted).astype(np.int32)
    # the margin fits the other rival, so that only the rival is wrong
    votes = np.rint(box.tensors["votes.coefficients.0"] @ box.tensors["votes.basis"].T)
    scores = np.stack([votes[:, box.tensors["train.label"] == code].sum(axis=1) for code in range(3)], axis=1)
    at = np.arange(len(claimed))
    margin = scores[at, predicted] - scores[at, box.tensors["claim.rival"]]
    box.tensors["claim.margin"] = np.ldexp(margin, -box.tensors["test.exponent"].astype(np.int32))


def _offsets_that_overflow(box):
    """The rival's offset is so large that its score wraps around, and the prediction seems beyond any attack."""
    rival = box.tensors["claim.rival"][0]
    box.tensors["test.offset"][0, rival] = 2**63 - 1
    box.tensors["claim.unlimited"][0], box.tensors["claim.radius"][0] = True, box.document["n_touchable"]


def _labelled_called_unlabelled(box):
    """All rows vote, and all labels can be changed, but most rows are said to have none."""
    box.document["n_train"] = 10
    box.document["assumptions"].append({"code": "unlabelled-rows", "values": {"n_unlabelled": 50, "n_rows": 60}})


def _exponents_of_8_bits(box):
    """The smallest integer of 8 bits is its own opposite: a program that computes with it finds these margins."""
    exponents = np.full(len(box.tensors["test.exponent"]), -128, dtype=np.int8)
    score = np.ldexp(box.tensors["claim.margin"], box.tensors["test.exponent"].astype(np.int32))
    box.tensors["test.exponent"], box.tensors["claim.margin"] = exponents, np.ldexp(score, -128)


def _huge_width(box):
    """A basis of no rows takes no space in the file, however wide it is."""
    box.document.update(n_rows=0, n_train=0, n_touchable=0)
    box.tensors |= {name: array[:0] for name, array in box.tensors.items() if name.startswith("train.")}
    box.tensors["votes.basis"] = box.tensors["votes.basis"][:0]
    box.places["votes.basis"] = {"shape": [0, 2**47]}


def _changes_that_overflow(box):
    """More added rows than an integer of 64 bits counts, all of them at the test row, or behind its equals."""
    box.document["targets"]["flips"] = [1, 10**19]
    box.tensors["test.is_hit"][:] = True


def _unlimited(box):
    box.tensors["claim.unlimited"][:] = True


def _fewer_transitions(box):
    """The adversary can do nothing, but no assumption says so."""
    box.tensors["transitions"][:] = False
    box.tensors["claim.unlimited"][:] = True
    box.tensors["claim.radius"][:] = box.document["n_touchable"]


def _fewer_transitions_than_stated(box):
    box.tensors["transitions"][1, 0] = False


def _more_trusted_than_stated(box):
    box.tensors["train.changeable"][:40] = False
    box.document["n_touchable"] = int(box.tensors["train.changeable"].sum())


def _no_pile_ends(box):
    """A list in which nothing votes: the lowest class wins, and no insertion reaches the cut."""
    n_rows = len(box.tensors["near.row.0"])
    box.tensors["near.row.0"] = box.tensors["near.row.0"][:, :9]
    box.tensors["near.ends_pile.0"] = np.zeros((n_rows, 9), dtype=bool)
    box.tensors["claim.prediction"][:], box.tensors["claim.rival"][:] = 0, 1
    box.tensors["claim.margin"][:], box.tensors["claim.radius"][:] = 0, 8


def _distances_as_divergence(box):
    """A distance that is stated as a divergence, with a noise that makes every distance small."""
    box.document["unit"], box.document["sampling"]["level"] = "divergence", 1e300
    box.document["assumptions"] = [
        {**one, "code": "divergence-only"} if one["code"] == "features-only" else one
        for one in box.document["assumptions"]
    ]


def _labels_as_distances(box):
    """Votes of labels that are stated to certify distances of features; the fraction is cut off."""
    box.document["unit"] = "l2"
    box.document["assumptions"] = [{"code": "features-only", "values": {}}]
    box.tensors["claim.radius"] = box.tensors["claim.radius"] + 0.9


def _sampling(**values):
    return lambda box: box.document["sampling"].update(values)


def _more_confidence(box):
    _sampling(confidence=0.999999)(box)
    for one in box.document["assumptions"]:
        if one["code"] == "confidence":
            one["values"]["confidence"] = 0.999999


def _no_rows(box):
    box.document.update(n_test=0, blocks=[])
    for name in list(box.tensors):
        if name.startswith(("claim.", "test.", "votes.coefficients")):
            box.tensors[name] = box.tensors[name][:0]


def _other_claims(box):
    box.tensors["claim.log_failure"] = np.full(6, -1e9)


def _digest(**values):
    return lambda box: box.document["digests"].update(values)


def _longer_windows(box):
    ends = box.tensors["window.end"]
    box.tensors["window.end"] = np.minimum(ends + 1, len(ends)).astype(np.int32)
    needed, covered = 0, 0
    for stamp in range(len(ends)):
        if stamp >= covered:
            needed, covered = needed + 1, box.tensors["window.end"][stamp]
    _state_touchable(box, needed)


def _state_touchable(box, count):
    box.document["n_touchable"] = int(count)
    for one in box.document["assumptions"]:
        one["values"] = {k: int(count) if k == f"n_{one['code']}" else v for k, v in one["values"].items()}


def _claims(box, prediction, rival, margin, radius):
    for name, value in (("prediction", prediction), ("rival", rival), ("margin", margin), ("radius", radius)):
        box.tensors[f"claim.{name}"][:] = value


def _no_training_rows(box):
    """No training rows, but one that equals the test row: no list has a pile that an added row could join."""
    box.document.update(n_rows=0, n_train=0)
    for name in list(box.tensors):
        if name.startswith("train."):
            box.tensors[name] = box.tensors[name][:0]
        elif name.startswith("near."):
            box.tensors[name] = box.tensors[name][:, :0]
    box.tensors["test.is_hit"][:] = True
    box.tensors["claim.unlimited"][:] = True
    _claims(box, 0, 1, 0, 10**9)


def _rival_beyond_the_list(box):
    """The lists decide the radius 0, but not which class wins with the fewest changes."""
    labels, ends = box.tensors["train.label"], box.tensors["near.ends_pile.0"]
    box.tensors["claim.rival"] = (3 - box.tensors["claim.rival"] - box.tensors["claim.prediction"]).astype(np.int32)
    for row, order in enumerate(box.tensors["near.row.0"]):
        voting = 9 + int(np.argmax(ends[row, 8:]))
        counts = np.bincount(labels[order[:voting]], minlength=3)
        best, rival = box.tensors["claim.prediction"][row], box.tensors["claim.rival"][row]
        box.tensors["claim.margin"][row] = counts[best] - counts[rival]
    box.tensors["claim.radius"][:] = 0
    for name in ("near.row.0", "near.ends_pile.0"):
        box.tensors[name] = box.tensors[name][:, :9]


def _products_that_overflow(box):
    """Products of infinite size with both signs: votes that are not numbers."""
    box.tensors["votes.coefficients.0"][:] = 0
    box.tensors["votes.coefficients.0"][:, :2] = 2.0**1023
    box.tensors["votes.basis"][:, 0], box.tensors["votes.basis"][:, 1] = 2**20, -(2**20)


def _starts_that_wrap(box):
    """Differences of starts that are positive only because 64-bit integers wrap around."""
    n_votes = len(box.tensors["votes.row.0"])
    box.tensors["votes.start.0"][:] = [0, 2**62, 2**63 - 1, -(2**63), -(2**62), -1, n_votes]


def _rows_that_wrap(box):
    rows = box.tensors["votes.row.0"].astype(np.int64)
    rows[1:5] = [2**62, 2**63 - 1, -(2**63), -(2**62)]
    box.tensors["votes.row.0"] = rows


def _more_unlabelled(box):
    """No label can be changed, since no row has one, it is said; but all rows vote, and the document counts labels."""
    box.document["assumptions"].append({"code": "unlabelled-rows", "values": {"n_unlabelled": 60, "n_rows": 60}})
    box.tensors["train.changeable"][:] = False
    box.tensors["claim.unlimited"][:] = True
    box.tensors["claim.radius"][:] = box.document["n_touchable"] = 0


def _assumption(code, **values):
    return lambda box: box.document["assumptions"].append({"code": code, "values": values})


def _sentence(box):
    box.document["assumptions"][0]["sentence"] = "All of these certificates also cover changed features."


def _state(code, **values):
    def edit(box):
        for one in box.document["assumptions"]:
            if one["code"] == code:
                one["values"].update(values)

    return edit


def _replaced(code, **values):
    def edit(box):
        for one in box.document["assumptions"]:
            if one["code"] == code:
                one["values"] = values

    return edit


def _without_key(key):
    return lambda box: box.document.pop(key)


def _infinite_margin(box):
    box.tensors["test.exponent"][:] = -4000
    box.tensors["claim.margin"][:] = np.inf


def _unlabelled_that_vote(box):
    """40 labels are said to be missing, but they vote, and nobody is said to have fixed them."""
    n_free = len(box.tensors["train.label"]) - 40
    box.document["assumptions"].append({"code": "unlabelled-rows", "values": {"n_unlabelled": 40, "n_rows": 60}})
    box.document["n_train"] = box.document["n_touchable"] = n_free
    box.tensors["train.changeable"][:40] = False


def _trusted_twice(box):
    """20 labels, listed twice, for 40 fixed ones."""
    box.document["assumptions"] += [
        {"code": "trusted-labels", "values": {"n_trusted": 20, "n_labels": 60}} for _ in range(2)
    ]
    box.document["has_adversary"] = True
    box.tensors["train.changeable"][:40] = False
    box.document["n_touchable"] = 20


def _labels_called_trusted_rows(box):
    _assumption("trusted-rows", n_trusted=0, n_rows=60, can_add=True)(box)
    box.document["has_adversary"] = True


def _trusted_labels_of_distances(box):
    _assumption("trusted-labels", n_trusted=0, n_labels=60)(box)
    box.document["has_adversary"] = True


def _other_times(box):
    box.tensors["window.time"][5:] += 1


def _producer(**values):
    return lambda box: box.document["producer"].update(values)


def _extra(name):
    return lambda box: box.tensors.update({name: box.tensors["claim.radius"] + 100})


def _infinite_failure(box):
    for name in ("claim.log_failure", "claim.log_rival"):
        box.tensors[name][:] = np.inf
    box.tensors["claim.abstained"][:] = False


def _no_annotations_can_be_changed(box):
    box.tensors["train.changeable"][:] = False
    box.tensors["claim.unlimited"][:] = True
    box.tensors["claim.radius"][:] = box.document["n_touchable"] = 0


def _targets(**values):
    return lambda box: box.document["targets"].update(values)


def _other_range(box):
    """The same targets in a wider range: an attacker could move them farther."""
    _targets(high=800.0, step=2.0**-10)(box)
    _state("target-range", high=800.0, step=2.0**-10)(box)


def _state_touchable_annotators(box):
    box.document["n_touchable"] = 10
    _state("target-annotators", n_annotators=10)(box)


def _inwards(name, to):
    return _changed(name, lambda old: np.nextafter(old, to))


def _no_targets_can_be_changed(box):
    box.tensors["train.changeable"][:] = False
    box.document["n_touchable"] = 0


#: Name of the broken file: the honest file, the edit, and the reason for which it is refuted or refused.
BROKEN = {
    "radius-plus-one": ("exact", _changed("claim.radius", _more), "radius"),
    "radius-beyond-all-labels": ("exact", _changed("claim.radius", _at(0, 10**6)), "radius"),
    "radius-plus-one-trusted": ("trusted", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-annotators": ("annotators", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-windows": ("windows", _changed("claim.radius", _more), "radius"),
    "longer-windows": ("windows", _longer_windows, "windows"),
    "windows-that-end-before-they-begin": ("windows", _changed("window.end", lambda old: old * 0), "windows"),
    "radius-plus-one-sparse": ("sparse", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-tight": ("tight", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-kl": ("kl", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-rows": ("rows", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-sources": ("sources", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-neighbors": ("neighbors", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-partitions": ("partitions", _changed("claim.radius", _more), "radius"),
    "negative-radius": ("exact", _changed("claim.radius", _at(0, -1)), "tensor-values"),
    "unlimited": ("exact", _changed("claim.unlimited", _at(0, True)), "unlimited"),
    "flipped-label": ("exact", _changed("train.label", _at(slice(0, 40), lambda old: (old + 1) % 3)), "prediction"),
    "one-label-flipped": ("exact", _changed("train.label", _at(3, lambda old: (old + 1) % 3)), "margin"),
    "another-prediction": ("exact", _rival_as_prediction, "prediction"),
    "wrong-rival": ("exact", _other_rival, "rival"),
    "rival-is-prediction": (
        "exact",
        lambda b: b.tensors.update({"claim.rival": b.tensors["claim.prediction"]}),
        "tensor-values",
    ),
    "swapped-rows": ("exact", _changed("votes.coefficients.0", _swap), "prediction"),
    "swapped-claims": ("sparse", _changed("claim.radius", lambda old: old[::-1].copy() + 1), "radius"),
    "offset-one-step-off": ("exact", _offset_of_prediction, "margin"),
    "vote-one-step-off": ("sparse", _changed("votes.value.0", _at(0, lambda old: old + 1)), "margin"),
    "another-grid": ("exact", _changed("test.exponent", _more), "margin"),
    "more-trusted-labels": ("trusted", _without_assumption("trusted-labels"), "adversary"),
    "untouchable-without-reason": ("exact", _changed("train.changeable", lambda old: old & False), "fixed"),
    "dropped-assumption-labels": ("exact", _without_assumption("labels-only"), "assumptions"),
    "dropped-assumption-annotators": ("annotators", _without_assumption("annotators"), "assumptions"),
    "dropped-assumption-reference": ("rows", _without_assumption("reference-fixed"), "assumptions"),
    "rows-called-labels": ("rows", _document(changes="labels", unit="labels"), "assumptions"),
    "another-witness": ("tight", _changed("proof.witness", lambda old: old * 3), "log_failure"),
    "no-witness": ("kl", _changed("proof.witness", lambda old: old * 0), "log_failure"),
    "smaller-failure": ("kl", _changed("claim.log_failure", lambda old: old * 2), "log_failure"),
    "another-noise": ("tight", _changed("proof.q", lambda old: old / 2), "radius"),
    "noise-too-large": ("tight", _changed("proof.q", lambda old: old * 0 + 0.9), "noise"),
    "nan-witness": ("tight", _changed("proof.witness", lambda old: old * np.nan), "log_failure"),
    "nan-failure": ("tight", _changed("claim.log_failure", lambda old: old * np.nan), "tensor-values"),
    "nan-coefficient": ("exact", _changed("votes.coefficients.0", _at((0, 0), np.nan)), "coefficients"),
    "coefficients-that-round": (
        "exact",
        _changed("votes.coefficients.0", _longer),
        "coefficients",
    ),
    "smaller-limit": ("rows", _changed("test.limit", lambda old: old // 2), "margin"),
    "limit-beyond-the-grid": ("rows", _changed("test.limit", lambda old: old * 0 + 2**30), "limit"),
    "shorter-list": (
        "neighbors",
        lambda b: b.tensors.update({k: v[:, :9] for k, v in b.tensors.items() if k.startswith("near.")}),
        "depth",
    ),
    "row-listed-twice": ("neighbors", _changed("near.row.0", _twice), "near"),
    "k-plus-one": ("neighbors", _document(k=10), "margin"),
    "vote-for-no-class": ("partitions", _changed("votes.partition", _at((0, 0), 7)), "tensor-values"),
    "offsets-that-overflow": ("exact", _offsets_that_overflow, "offset"),
    "exponent-that-wraps-around-8-bits": ("exact", _exponents_of_8_bits, "margin"),
    "empty-tensor-of-huge-width": ("exact", _huge_width, "tensor-size"),
    "changes-that-overflow": ("numbers-nearest", _changes_that_overflow, "sums"),
    "exponent-that-wraps": ("exact", _changed("test.exponent", lambda old: old + 2**32), "exponent"),
    "unlimited-by-noise": ("tight", _unlimited, "unlimited"),
    "huge-radius-by-noise": ("tight", _changed("claim.radius", _at(0, 2**62)), "radius"),
    "unlimited-by-samples": ("samples", _unlimited, "unlimited"),
    "huge-radius-neighbors": ("neighbors", _changed("claim.radius", _at(0, 2**63 - 1)), "radius"),
    "fewer-changes-possible": ("exact", _fewer_transitions, "assumptions"),
    "fewer-changes-than-stated": ("allowed", _fewer_transitions_than_stated, "assumption-lies"),
    "more-trusted-than-stated": ("trusted", _more_trusted_than_stated, "fixed"),
    "radius-plus-one-allowed": ("allowed", _changed("claim.radius", _more), "radius"),
    "no-pile-ends": ("insertions", _no_pile_ends, "near"),
    "distances-as-divergence": ("distances", _distances_as_divergence, "document"),
    "labels-as-distances": ("exact", _labels_as_distances, "document"),
    "infinite-distance": ("distances", _changed("claim.radius", _at(0, np.inf)), "tensor-values"),
    "longer-distance": ("distances", _changed("claim.radius", lambda old: old * 3), "radius"),
    "radius-plus-one-samples": ("samples", _changed("claim.radius", _more), "radius"),
    "more-votes": ("samples", _changed("votes.estimation", lambda old: old[:, ::-1].copy()), "margin"),
    "votes-that-overflow": ("samples", _changed("votes.estimation", _at((0, 0), 2**62)), "tensor-values"),
    "negative-votes": ("samples", _changed("votes.estimation", _at((0, 0), -1)), "tensor-values"),
    "more-confidence": ("samples", _more_confidence, "confidence"),
    "other-confidence-stated": ("samples", _sampling(confidence=0.5), "assumptions"),
    "noise-of-samples-too-large": ("samples", _sampling(level=0.7), "noise"),
    "no-test-rows": ("exact", _no_rows, "document"),
    "class-twice": ("exact", _document(classes=[0, 1, 1]), "classes"),
    "more-touchable": ("exact", _document(n_touchable=61), "touchable"),
    "claim-that-nobody-checks": ("exact", _other_claims, "unused-tensor"),
    "abstained-with-radius": ("exact", _changed("claim.abstained", lambda old: ~old), "abstained"),
    "radius-plus-one-blocks": ("blocks", _changed("claim.radius", _more), "radius"),
    "label-flipped-in-a-block": ("blocks", _changed("train.label", _at(30, lambda old: (old + 1) % 3)), "margin"),
    "basis-one-step-off": ("blocks", _changed("votes.basis", lambda old: old + 1000), "margin"),
    "radius-plus-one-weights": ("weights", _changed("claim.radius", _more), "radius"),
    "other-weights": ("weights", _changed("train.weight", lambda old: old[::-1].copy()), "margin"),
    "weight-above-one": ("weights", _changed("train.weight", lambda old: old * 2), "tensor-values"),
    "exponent-without-absolute-value": ("exact", _changed("test.exponent", _at(slice(None), -(2**63))), "exponent"),
    "products-that-overflow": ("exact", _products_that_overflow, "coefficients"),
    "vote-beyond-the-grid": ("exact", _changed("votes.coefficients.0", lambda old: old * 2**25), "limit"),
    "starts-that-wrap": ("sparse", _starts_that_wrap, "sparse"),
    "rows-that-wrap": ("sparse", _rows_that_wrap, "sparse"),
    "equal-to-no-row": ("insertions", _no_training_rows, "near"),
    "rival-beyond-the-list": ("neighbors", _rival_beyond_the_list, "depth"),
    "fewer-labels-than-stated": ("exact", _document(n_train=1), "assumptions"),
    "labels-that-are-none": ("exact", _more_unlabelled, "assumption-lies"),
    "more-trusted-than-fixed": ("trusted", _state("trusted-labels", n_trusted=10**15), "assumption-lies"),
    "negative-trusted": ("trusted", _state("trusted-labels", n_trusted=-1), "assumption-values"),
    "annotators-without-groups": ("exact", _assumption("annotators", n_annotators=1), "assumptions"),
    "majority-without-items": (
        "exact",
        _assumption("majority-first", n_labels=60, n_labelled=60, n_tied=0),
        "assumptions",
    ),
    "sentence-that-nobody-checks": ("exact", _sentence, "assumptions"),
    "key-that-nobody-checks": ("exact", _document(certified_features=True), "document"),
    "block-that-nobody-checks": ("exact", _extra("votes.coefficients.7"), "unused-tensor"),
    "claim-with-a-number": ("exact", _extra("claim.radius.0"), "unused-tensor"),
    "no-blocks": ("exact", lambda box: box.document.pop("blocks"), "document"),
    "votes-that-are-a-list": ("exact", _document(votes=["product"]), "votes"),
    "true-as-version": ("exact", _document(version=True), "version"),
    "infinite-failure": ("samples", _infinite_failure, "abstained"),
    "radius-plus-one-majority": ("majority", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-majority-annotators": ("majority-annotators", _changed("claim.radius", _more), "radius"),
    "annotation-flipped": ("majority", _changed("train.label", _at(slice(0, 3), lambda old: (old + 1) % 3)), "margin"),
    "annotation-of-another-item": ("majority", _changed("train.item", lambda old: old[::-1].copy()), "prediction"),
    "item-that-does-not-exist": ("majority", _changed("train.item", _at(0, 30)), "tensor-values"),
    "more-items": ("majority", _document(n_items=31), "tensor-shape"),
    "majority-of-fixed-annotations": ("majority", _no_annotations_can_be_changed, "fixed"),
    "dropped-assumption-majority": ("majority", _without_assumption("majority-first"), "assumptions"),
    "other-number-of-ties": ("majority", _state("majority-first", n_tied=29), "assumptions"),
    "changed-model-digest": ("digests", _digest(model="0" * 63), "file-digest"),
    "changed-file-digest": ("digests", _digest(files={"data.csv": "x" * 64}), "file-digest"),
    "changed-digest": ("exact", _wrong_digest("claim.radius"), "tensor-digest"),
    "changed-document": ("exact", _wrong_document_digest, "document-digest"),
    "missing-tensor": ("exact", _drop("test.offset"), "missing-tensor"),
    "another-version": ("exact", _document(version=2), "version"),
    "another-format": ("exact", _document(format="something"), "version"),
    "unknown-method": ("exact", _document(method="guess"), "document"),
    "one-class": ("exact", _document(classes=[0]), "classes"),
    "blocks-that-end-early": ("exact", _document(blocks=[3]), "document"),
    "huge-shape": ("exact", _place("claim.radius", shape=[2**40]), "tensor-size"),
    "overflowing-shape": ("exact", _place("claim.radius", shape=[2**33, 2**33]), "tensor-size"),
    "overlapping-tensors": ("exact", _place("claim.radius", data_offsets=[0, 48]), "tensor-place"),
    "unknown-type": ("exact", _place("claim.radius", dtype="BF16"), "tensor-type"),
    "other-type": (
        "exact",
        lambda b: b.tensors.update({"claim.radius": b.tensors["claim.radius"].astype(float)}),
        "tensor-type",
    ),
    "other-shape": (
        "exact",
        lambda b: b.tensors.update({"claim.radius": b.tensors["claim.radius"][:3]}),
        "tensor-shape",
    ),
    "sources-called-rows": ("sources", _state("rows-changed", by_sources=False), "assumption-lies"),
    "rows-called-removals": ("rows", _state("rows-changed", changes="removals"), "assumption-lies"),
    "sources-that-replace": ("sources", _state("sources", changes="rows"), "assumption-lies"),
    "other-number-of-sources": ("replaced", _state("sources", n_sources=13), "assumption-lies"),
    "other-number-of-annotators": ("annotators", _state("annotators", n_annotators=60), "assumption-lies"),
    "windows-of-another-length": ("windows", _state("windows", length="1000000"), "windows"),
    "windows-of-another-unit": ("days", _state("windows", length="7min"), "windows"),
    "windows-without-a-unit": ("days", _state("windows", length="7"), "windows"),
    "windows-of-a-week-in-hours": ("days", _document(tick="h"), "windows"),
    "windows-of-a-number": ("windows", _state("windows", length=3), "assumption-values"),
    "windows-at-other-times": ("windows", _other_times, "windows"),
    "windows-without-times": ("windows", _drop("window.time"), "missing-tensor"),
    "other-number-of-labels": ("trusted", _state("trusted-labels", n_labels=10**9), "assumption-lies"),
    "trusted-labels-twice": ("exact", _trusted_twice, "assumption-twice"),
    "other-number-of-rows": ("replaced", _state("trusted-rows", n_rows=61), "assumption-lies"),
    "sources-that-add": ("replaced", _state("trusted-rows", can_add=True), "assumption-lies"),
    "fewer-changes-listed": ("allowed", _state("changes-allowed", changes=[[0, 1]]), "assumption-lies"),
    "no-changes-listed": ("allowed", _state("changes-allowed", changes=[]), "assumption-lies"),
    "changes-listed-twice": ("allowed", _state("changes-allowed", changes=[[0, 1], [0, 1]]), "assumption-lies"),
    "changes-of-no-class": ("allowed", _state("changes-allowed", changes=[[0, 1], [1, 7]]), "assumption-lies"),
    "changes-of-truths": ("allowed", _state("changes-allowed", changes=[[False, True], [1, 0]]), "assumption-lies"),
    "fewer-changes-than-all": (
        "all-allowed",
        _state("changes-allowed", changes=[[0, 1]], n_changes=1),
        "assumption-lies",
    ),
    "used-by-another-method": ("all-allowed", _state("changes-partly-used", method="gap"), "assumption-lies"),
    "used-by-exact": ("allowed", _assumption("changes-partly-used", method="exact"), "assumptions"),
    "noise-with-a-level": ("samples", _assumption("noise-on-all-labels", q=0.9), "assumption-values"),
    "unknown-assumption": ("exact", _assumption("also-against-changed-features"), "assumption-code"),
    "assumption-of-regressors": ("exact", _assumption("targets-only"), "assumptions"),
    "value-that-nobody-checks": ("exact", _state("labels-only", also="features"), "assumption-values"),
    "missing-value": ("trusted", _replaced("trusted-labels", n_trusted=12), "assumption-values"),
    "truth-as-a-number": ("trusted", _state("trusted-labels", n_trusted=True), "assumption-values"),
    "confidence-of-exact": ("exact", _assumption("confidence", confidence=1.0, over="batch"), "assumptions"),
    "trusted-labels-of-distances": ("distances", _trusted_labels_of_distances, "assumptions"),
    "trusted-rows-of-labels": ("exact", _labels_called_trusted_rows, "assumptions"),
    "other-number-of-classes": ("samples", _state("classes-read", n_classes=2), "assumption-lies"),
    "no-smoothed-decision": ("samples", _without_assumption("smoothed-decision"), "assumptions"),
    "adversary-denied": ("trusted", _document(has_adversary=False), "adversary"),
    "adversary-invented": ("exact", _document(has_adversary=True), "adversary"),
    "adversary-as-a-number": ("exact", _document(has_adversary=0), "document"),
    "digest-of-another-kind": ("exact", _digest(audited={"by": "0" * 64}), "file-digest"),
    "sampling-that-nobody-checks": ("samples", _sampling(covers="rows"), "sampling"),
    "level-of-a-divergence": ("samples", _sampling(level=None), "sampling"),
    "producer-missing": ("exact", _without_key("producer"), "document"),
    "producer-that-claims": ("exact", _producer(certified_by="OWASP"), "producer"),
    "k-of-votes": ("exact", _document(k=3), "document"),
    "items-of-votes": ("exact", _document(n_items=3), "document"),
    "sampling-of-votes": ("exact", _document(sampling={"confidence": 1.0}), "document"),
    "votes-of-samples": ("samples", _document(votes="dense"), "document"),
    "tick-without-windows": ("exact", _document(tick="d"), "document"),
    "fewer-labels-of-distances": ("distances", _document(n_train=0), "assumptions"),
    "more-touchable-of-distances": ("distances", _document(n_touchable=10**9), "touchable"),
    "classes-of-two-types": ("exact", _document(classes=[1, "1", "b"]), "classes"),
    "truth-as-a-class": ("exact", _document(classes=[True, "1", "b"]), "classes"),
    "class-of-a-million-letters": ("exact", _document(classes=["a" * 10**6, "b", "c"]), "classes"),
    "infinite-margin": ("exact", _infinite_margin, "margin-size"),
    "labelled-rows-called-unlabelled": ("exact", _labelled_called_unlabelled, "fixed"),
    "unlabelled-rows-that-vote": ("exact", _unlabelled_that_vote, "fixed"),
    "other-number-of-unlabelled": ("unlabelled", _state("unlabelled-rows", n_unlabelled=19), "assumption-lies"),
    "place-that-nobody-checks": ("exact", _place("claim.radius", note="audited"), "tensor-entry"),
    "interval-one-step-too-narrow": ("numbers", _inwards("claim.high", -np.inf), "interval"),
    "low-end-too-high": ("numbers-annotators", _inwards("claim.low", np.inf), "interval"),
    "interval-of-a-median": ("numbers-median", _inwards("claim.low", np.inf), "interval"),
    "interval-of-small-changes": ("numbers-moved", _inwards("claim.high", -np.inf), "interval"),
    "interval-of-rows": ("numbers-rows", _inwards("claim.high", -np.inf), "interval"),
    "interval-of-sources": ("numbers-sources", _inwards("claim.low", np.inf), "interval"),
    "interval-of-nearest-rows": ("numbers-nearest", _inwards("claim.high", -np.inf), "interval"),
    "swapped-intervals": ("numbers", _changed("claim.high", _swap), "interval"),
    "interval-that-is-no-number": ("numbers", _changed("claim.high", _at((0, 0), np.nan)), "tensor-values"),
    "intervals-of-fewer-changes": ("numbers", _targets(flips=[1, 5]), "interval"),
    "intervals-of-one-number": ("numbers", _targets(flips=1), "tensor-shape"),
    "negative-changes": ("numbers", _targets(flips=[-1, 4]), "targets"),
    "radius-plus-one-numbers": ("numbers", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-median": ("numbers-median", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-threshold": ("numbers-rows", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-nearest": ("numbers-nearest", _changed("claim.radius", _more), "radius"),
    "radius-of-another-tolerance": ("numbers", _targets(tolerance=1.0), "radius"),
    "radius-of-tolerance-and-threshold": ("numbers", _targets(threshold=150.0), "targets"),
    "unlimited-numbers": ("numbers", _changed("claim.unlimited", _at(0, True)), "unlimited"),
    "radii-without-a-tolerance": ("numbers", _targets(tolerance=None), "unused-tensor"),
    "another-target": ("numbers", _changed("train.target", _at(3, lambda old: old + 1)), "prediction"),
    "target-outside-the-range": ("numbers", _changed("train.target", _at(3, 401.0)), "tensor-values"),
    "another-range": ("numbers", _other_range, "prediction"),
    "another-range-than-stated": ("numbers", _targets(high=500.0), "assumption-lies"),
    "step-that-is-no-power": ("numbers", _targets(step=0.3), "targets"),
    "another-average": ("numbers-median", _targets(average="mean-of-votes", origin=0), "prediction"),
    "another-factor": ("numbers", _targets(factor=2.0), "prediction"),
    "another-origin": ("numbers", _targets(origin=0), "prediction"),
    "vote-of-a-target-one-step-off": (
        "numbers-moved",
        _changed("votes.value.0", _at(0, lambda v: v + 1)),
        "prediction",
    ),
    "smaller-changes": ("numbers-moved", _targets(max_change=1.0), "assumption-lies"),
    "smaller-changes-than-proved": (
        "numbers-moved",
        lambda b: (_targets(max_change=9.0)(b), _state("targets-moved", max_change=9.0)(b)),
        "interval",
    ),
    "small-changes-unstated": ("numbers-moved", _without_assumption("targets-moved"), "assumptions"),
    "entry-that-nobody-checks": ("numbers", _targets(certified=True), "targets"),
    "fixed-targets-unstated": ("numbers", _no_targets_can_be_changed, "fixed"),
    "more-trusted-targets": ("numbers-annotators", _state("trusted-targets", n_trusted=41), "fixed"),
    "more-annotators-of-targets": ("numbers-annotators", _state_touchable_annotators, "touchable"),
    "targets-called-rows": ("numbers", _document(changes="removals", unit="rows"), "assumptions"),
    "labels-of-numbers": ("numbers", _assumption("labels-only"), "assumptions"),
    "classes-of-numbers": ("numbers", _document(classes=[0, 1]), "document"),
    "smaller-limit-of-rows": ("numbers-rows", _changed("test.limit", lambda old: old // 2), "prediction"),
    "list-without-a-row": (
        "numbers-nearest",
        lambda b: b.tensors.update({k: v[:, :-1] for k, v in b.tensors.items() if k.startswith("near.")}),
        "tensor-shape",
    ),
    "another-k-of-numbers": ("numbers-nearest", _document(k=8), "prediction"),
    "path-as-name": (
        "exact",
        lambda b: b.tensors.update({"../../etc/passwd": b.tensors["claim.radius"]}),
        "tensor-name",
    ),
}

#: Files that are broken as bytes.
BROKEN_BYTES = {
    "metadata-that-nobody-checks": ("exact", lambda content: _more_metadata(content), "metadata"),
    "truncated": ("exact", lambda content: content[:-5], "truncated"),
    "longer": ("exact", lambda content: content + b"12345678", "truncated"),
    "empty": ("exact", lambda content: b"", "truncated"),
    "header-longer-than-file": ("exact", lambda content: (2**50).to_bytes(8, "little") + content[8:], "header-length"),
    "not-json": ("exact", lambda content: content[:8] + b"x" + content[9:], "json"),
    "deep-json": ("exact", lambda content: _nested(), "json"),
    "huge-integer": ("exact", lambda content: _header(b'{"__metadata__": 1' + b"0" * 5000 + b"}"), "json"),
    "infinite-number": ("exact", lambda content: _header(b'{"__metadata__": 1e999}'), "json"),
    "type-that-is-a-list": (
        "exact",
        lambda content: content.replace(b'"dtype": "I64"', b'"dtype": ["64"]', 1),
        "tensor-type",
    ),
    "duplicate-key": ("exact", lambda content: _header(b'{"__metadata__": {}, "__metadata__": {}}'), "json"),
    "other-safetensors": ("exact", lambda content: _header(b'{"__metadata__": {"format": "pt"}}'), "not-certificates"),
}


def _more_metadata(content):
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["claim"] = "also covers changed features"
    return _header(json.dumps(header).encode()) + content[8 + length :]


def _header(text):
    return len(text).to_bytes(8, "little") + text


def _nested():
    return _header(b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}")


def broken_file(name, folder):
    """Return the content of a broken file, made from the honest files in a folder."""
    if name in BROKEN_BYTES:
        honest, edit, _ = BROKEN_BYTES[name]
        return edit((Path(folder) / f"{honest}.flipproof").read_bytes())
    honest, edit, _ = BROKEN[name]
    box = deepcopy(Box.read(Path(folder) / f"{honest}.flipproof"))
    edit(box)
    return box.content()


def record():
    """Write the corpus: honest files, broken files, and an index with the expected reasons."""
    CORPUS.mkdir(exist_ok=True)
    for old in CORPUS.iterdir():
        old.unlink()
    honest = honest_files(CORPUS)
    reasons = {name: case[2] for name, case in (BROKEN | BROKEN_BYTES).items()}
    for name in reasons:
        (CORPUS / f"broken-{name}.flipproof").write_bytes(broken_file(name, CORPUS))
    (CORPUS / "index.json").write_text(json.dumps({"honest": honest, "broken": reasons}, indent=1) + "\n")


if __name__ == "__main__":
    record()
