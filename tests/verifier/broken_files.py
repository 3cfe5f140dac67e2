"""A corpus of broken certificate files, for any checker; each must be refuted or refused for its own reason.

Record it again with ``PYTHONPATH=tests python -m verifier.broken_files``.
"""

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from flipproof import Adversary, CertifiedNeighborsClassifier, CertifiedPartitionClassifier, CertifiedRidgeClassifier
from verifier.proof_boxes import Box

CORPUS = Path(__file__).parent / "corpus"


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
        "partitions": (partitions, None, None),
    }
    for name, (learner, method, adversary) in cases.items():
        reference = X[70:100] if adversary is not None and adversary.changes_rows else None
        learner.fit(train, labels, reference=reference)
        certificates = learner.certify(test, method=method, adversary=adversary)
        certificates.save(Path(folder) / f"{name}.flipproof")
    return list(cases)


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


#: Name of the broken file: the honest file, the edit, and the reason for which it is refuted or refused.
BROKEN = {
    "radius-plus-one": ("exact", _changed("claim.radius", _more), "radius"),
    "radius-beyond-all-labels": ("exact", _changed("claim.radius", _at(0, 10**6)), "radius"),
    "radius-plus-one-trusted": ("trusted", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-annotators": ("annotators", _changed("claim.radius", _more), "radius"),
    "radius-plus-one-windows": ("windows", _changed("claim.radius", _more), "radius"),
    "longer-windows": ("windows", _changed("window.end", lambda old: np.minimum(old + 6, len(old))), "radius"),
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
    "more-trusted-labels": ("trusted", _without_assumption("trusted-labels"), "assumptions"),
    "untouchable-without-reason": ("exact", _changed("train.changeable", lambda old: old & False), "assumptions"),
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
    "changed-digest": ("exact", _wrong_digest("claim.radius"), "tensor-digest"),
    "changed-document": ("exact", _wrong_document_digest, "document-digest"),
    "missing-tensor": ("exact", _drop("test.offset"), "missing-tensor"),
    "another-version": ("exact", _document(version=2), "version"),
    "another-format": ("exact", _document(format="something"), "version"),
    "unknown-method": ("exact", _document(method="guess"), "document"),
    "one-class": ("exact", _document(classes=[0]), "document"),
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
    "path-as-name": (
        "exact",
        lambda b: b.tensors.update({"../../etc/passwd": b.tensors["claim.radius"]}),
        "tensor-name",
    ),
}

#: Files that are broken as bytes.
BROKEN_BYTES = {
    "truncated": ("exact", lambda content: content[:-5], "truncated"),
    "longer": ("exact", lambda content: content + b"12345678", "truncated"),
    "empty": ("exact", lambda content: b"", "truncated"),
    "header-longer-than-file": ("exact", lambda content: (2**50).to_bytes(8, "little") + content[8:], "header-length"),
    "not-json": ("exact", lambda content: content[:8] + b"x" + content[9:], "json"),
    "deep-json": ("exact", lambda content: _nested(), "json"),
    "huge-integer": ("exact", lambda content: _header(b'{"__metadata__": 1' + b"0" * 5000 + b"}"), "json"),
    "duplicate-key": ("exact", lambda content: _header(b'{"__metadata__": {}, "__metadata__": {}}'), "json"),
    "other-safetensors": ("exact", lambda content: _header(b'{"__metadata__": {"format": "pt"}}'), "not-certificates"),
}


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
