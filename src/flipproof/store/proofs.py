"""Certificate files, format 1: certificates with all that a second program needs to check them.

`docs/certificate-format.md` is the specification. Tensors are appended to an unfinished file block by block, so memory
is bounded by a block of votes, and the finished file replaces the target in one step.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from flipproof import __version__
from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption
from flipproof.certificates import COUNTED_UNITS, ROW_UNITS, Certificates
from flipproof.core.powers import Powers
from flipproof.core.provider import provides_votes
from flipproof.core.rounding import Integers, scale
from flipproof.core.votes import ProductVotes, SparseVotes, VoteSource, all_votes, class_scores
from flipproof.files import digest_of, whole_file
from flipproof.learners.neighbors import CertifiedNeighborsClassifier
from flipproof.learners.partition import CertifiedPartitionClassifier
from flipproof.learners.pipeline import learner_and_features
from flipproof.learners.row_by_row import rows_at
from flipproof.smoothing.smoothed_certificates import SmoothedCertificates
from flipproof.values import as_values, positions

FORMAT, VERSION = "flipproof-certificates", 1

#: Names of the types of tensors.
TYPE_NAMES = {"|b1": "BOOL", "|i1": "I8", "<i2": "I16", "<i4": "I32", "<i8": "I64", "<f8": "F64"}

#: Votes of at most this size are stored in two bytes.
SMALL_VOTE = 2**15 - 1

#: Votes that are held in memory at a time.
VOTES_AT_A_TIME = 2**22


def save_certificates(
    certificates: Certificates,
    path: str | os.PathLike[str],
    *,
    model: Any = None,
    X_test: Any = None,
    files: Mapping[str, str] | None = None,
) -> None:
    """Write certificates and their proof to a file, which ``flipproof verify`` checks.

    Parameters
    ----------
    certificates : Certificates
        What `certify` returned, or some of its rows.
    path : path
        The file to write, usually named ``*.flipproof``.
    model, X_test : optional
        The fitted model and the test rows. Default: those that the certificates know.
    files : mapping of str to str, optional
        SHA-256 digests of the data files, by name, for the record.

    Raises
    ------
    ValueError
        If the model does not make these predictions, for example because it was fitted again since, or if there is no
        proof of this kind.

    See Also
    --------
    load_certificates : Read the certificates again.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_digits
    >>> import flipproof, flipproof_verify
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> certificates = flipproof.CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:200], y[:200]).certify(X[200:])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "proof.flipproof")
    ...     certificates.save(path)
    ...     print(flipproof_verify.verify(path))
    VERIFIED: 160 of 160 rows checked
    """
    if model is None or X_test is None:
        if certificates.origin is None or certificates.origin.model is None:
            raise ValueError("These certificates do not know their model and test rows: give model=... and X_test=....")
        model = certificates.origin.model
        X_test = rows_at(certificates.origin.X, certificates.origin.numbers)
    learner, rows = learner_and_features(model, X_test)
    if not getattr(learner, "holds_training_rows", True):
        raise ValueError(
            f"{type(learner).__name__} does not hold its training rows, so there is no proof to save: use the learner "
            "for rows in memory."
        )
    target = Path(path)
    with tempfile.TemporaryFile(dir=target.parent) as unfinished:
        tensors = _Tensors(unfinished)
        document = _document(certificates, learner, dict(files or {}))
        document |= _proof(tensors, certificates, learner, rows)
        _claims(tensors, certificates)
        tensors.finish(target, document)


def load_certificates(path: str | os.PathLike[str]) -> Certificates:
    """Return the certificates in a file that `save_certificates` wrote.

    The digests of the file are checked, but not the proof: ``flipproof verify`` does that.

    Raises
    ------
    ValueError
        If the file is not a certificate file of format 1, or is damaged.

    See Also
    --------
    save_certificates : Write certificates and their proof.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            text = metadata.get("flipproof", "")
            if digest_of(text) != metadata.get("flipproof_sha256"):
                raise ValueError("it is not a certificate file, or its document was changed")
            document = json.loads(text)
            if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
                raise ValueError(f"it is not of format {VERSION} of {FORMAT}")
            return _loaded(document, _Stored(file, document["digests"]["tensors"]))
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"cannot load certificates from {os.fspath(path)!r}: {reason}.") from None


class _Stored:
    """The tensors of a file; each is compared with its digest when it is read."""

    def __init__(self, file: Any, digests: Mapping[str, str]):
        self._file, self._digests = file, digests

    def __contains__(self, name: str) -> bool:
        return name in self._digests

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return a tensor, or something else if there is none of this name."""
        return otherwise if name not in self._digests else self[name]

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = np.asarray(self._file.get_tensor(name))
        if digest_of(array.tobytes()) != self._digests[name]:
            raise ValueError(f"its tensor {name!r} was changed")
        return array


def _loaded(document: Mapping[str, Any], stored: _Stored) -> Certificates:
    classes, method, m = np.array(document["classes"]), document["method"], document["n_test"]
    nothing = np.full(m, np.nan)
    noise: Any = np.nan
    witness = np.full((m, len(classes)), np.nan)
    if "proof.q" in stored:
        noise = stored["proof.q"]
        noise = float(noise[0]) if m and (noise == noise[0]).all() else noise
        witness = scale(stored["proof.witness"], stored["test.exponent"][:, None])
    common: dict[str, Any] = {
        "prediction": classes[stored["claim.prediction"]],
        "radius": stored["claim.radius"],
        "rival": classes[stored["claim.rival"]],
        "margin": stored["claim.margin"],
        "log_failure": stored.get("claim.log_failure", nothing),
        "abstained": stored["claim.abstained"],
        "witness": witness,
        "method": method,
        "noise": noise,
        "n_train": document["n_train"],
        "classes": classes,
        "assumptions": tuple(Assumption.from_dict(one) for one in document["assumptions"]),
        "unit": document["unit"],
        "n_touchable": document["n_touchable"],
        "unlimited": stored["claim.unlimited"],
        "adversary": _adversary(document, stored, classes),
    }
    if document["rule"] != "samples":
        return Certificates(**common)
    sampling = document["sampling"]
    common["noise"] = np.nan if sampling["level"] is None else sampling["level"]
    selection, estimation = stored["votes.selection"], stored["votes.estimation"]
    return SmoothedCertificates(
        **common,
        log_rival=stored["claim.log_rival"],
        abstention_reason=np.full(m, ""),
        confidence=sampling["confidence"],
        confidence_over=sampling["confidence_over"],
        n_select=int(selection[0].sum()) if m else 0,
        n_samples=int(estimation[0].sum()) if m else 0,
        selection=selection,
        estimation=estimation,
        alpha=sampling["alpha"],
        split=stored["proof.split"],
    )


def _adversary(document: Mapping[str, Any], stored: _Stored, classes: NDArray[Any]) -> Adversary | None:
    """Return an adversary with the powers in the file; None if any label may be changed to any class.

    For windows of time, the file has no timestamps: the certificates only know their unit.
    """
    if not document["has_adversary"]:
        return None
    transitions = stored["transitions"]
    everything = ~np.eye(len(classes), dtype=bool)
    pairs = [] if np.array_equal(transitions, everything) else np.argwhere(transitions).tolist()
    can_leave = np.asarray(transitions.any(axis=1) | (not pairs))
    fixed = ~stored["train.changeable"] & can_leave[stored["train.label"]]
    names = classes.tolist()
    return Adversary(
        changes=document["changes"],
        trusted=fixed if fixed.any() else None,
        groups=None if "window.end" in stored else stored.get("train.group"),
        allowed=[(names[old], names[new]) for old, new in pairs] or None,
    )


class _Tensors:
    """Tensors that are appended to a file, each with its place and digest."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._header: dict[str, Any] = {}
        self._digests: dict[str, str] = {}
        self._end = 0

    def add(self, name: str, array: NDArray[Any], kind: type[np.generic]) -> None:
        """Append a tensor as numbers of one type; the values must fit."""
        stored = np.ascontiguousarray(np.asarray(array).astype(np.dtype(kind).newbyteorder("<")))
        content = stored.tobytes()
        self._file.write(content)
        place = [self._end, self._end + len(content)]
        kind_name = TYPE_NAMES[stored.dtype.str.replace("=", "<")]
        self._header[name] = {"dtype": kind_name, "shape": list(stored.shape), "data_offsets": place}
        self._digests[name] = digest_of(content)
        self._end = place[1]

    def finish(self, path: Path, document: dict[str, Any]) -> None:
        """Write the whole file: the header with the document, then the tensors."""
        digests = {"tensors": self._digests, **document.pop("digests")}
        text = json.dumps({**document, "digests": digests}, ensure_ascii=False, allow_nan=False)
        metadata = {"flipproof": text, "flipproof_sha256": digest_of(text)}
        header = json.dumps({"__metadata__": metadata, **self._header}, ensure_ascii=False).encode()
        header += b" " * (-len(header) % 8)
        with whole_file(path) as unfinished, unfinished.open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            self._file.seek(0)
            shutil.copyfileobj(self._file, file, 2**22)


def _document(certificates: Certificates, learner: Any, files: dict[str, str]) -> dict[str, Any]:
    """Return what the document says of any rule."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "producer": {"name": "flipproof", "version": __version__},
        "method": certificates.method,
        "changes": certificates.changes,
        "unit": certificates.unit,
        "n_test": len(certificates),
        "n_train": certificates.n_train,
        "n_touchable": certificates.n_touchable,
        "n_rows": len(learner.label_codes_),
        "classes": certificates.classes.tolist(),
        "assumptions": [one.to_dict() for one in certificates.assumptions],
        "has_adversary": certificates.adversary is not None,
        "digests": {"files": files},
    }


def _claims(tensors: _Tensors, certificates: Certificates) -> None:
    assert certificates.unlimited is not None
    for name, values in (("prediction", certificates.prediction), ("rival", certificates.rival)):
        codes, _ = positions(as_values(certificates.classes, "The classes"), as_values(values, "Predictions"))
        tensors.add(f"claim.{name}", codes, np.int32)
    kind = np.int64 if certificates.unit in COUNTED_UNITS else np.float64
    tensors.add("claim.radius", certificates.radius, kind)
    tensors.add("claim.unlimited", certificates.unlimited, np.bool_)
    tensors.add("claim.abstained", certificates.abstained, np.bool_)
    tensors.add("claim.margin", certificates.margin, np.float64)
    if not np.isnan(certificates.log_failure).all():
        tensors.add("claim.log_failure", certificates.log_failure, np.float64)


def _proof(tensors: _Tensors, certificates: Certificates, learner: Any, X: Any) -> dict[str, Any]:
    """Write the tensors of the proof, and return what the document says of the rule."""
    powers = learner.powers(certificates.adversary)
    if isinstance(certificates, SmoothedCertificates):
        return _sampled(tensors, certificates, learner, powers)
    if isinstance(learner, CertifiedPartitionClassifier):
        return _partitions(tensors, certificates, learner, powers, X)
    if not provides_votes(learner):
        raise ValueError(f"There is no proof format for the certificates of {type(learner).__name__}.")
    if isinstance(learner, CertifiedNeighborsClassifier) and certificates.unit in ROW_UNITS:
        return _neighbors(tensors, certificates, learner, powers, X)
    return _votes(tensors, certificates, learner, powers, X)


def _training(tensors: _Tensors, learner: Any, powers: Powers) -> None:
    tensors.add("train.label", learner.label_codes_, np.int32)
    tensors.add("train.changeable", powers.changeable, np.bool_)
    tensors.add("transitions", powers.transitions, np.bool_)
    if powers.groups is not None:
        tensors.add("train.group", powers.groups, np.int32)
    if powers.window_ends is not None:
        tensors.add("window.end", powers.window_ends, np.int32)


@dataclass
class _PerRow:
    """Arrays with one line per test row, collected block by block."""

    parts: dict[str, list[NDArray[Any]]] = field(default_factory=dict)

    def add(self, **arrays: NDArray[Any]) -> None:
        for name, array in arrays.items():
            self.parts.setdefault(name, []).append(array)

    def joined(self, name: str) -> NDArray[Any]:
        return np.concatenate(self.parts[name])


def _votes(tensors: _Tensors, certificates: Certificates, learner: Any, powers: Powers, X: Any) -> dict[str, Any]:
    """Write integer votes and offsets, block by block."""
    _training(tensors, learner, powers)
    Z, n_classes = learner.test_rows(X), len(learner.classes_)
    found, form = _PerRow(), "dense"
    ends: list[int] = []
    size = max(1, min(VOTES_AT_A_TIME // max(learner.n_rows_, 1), 4096))
    for start in range(0, len(Z), size):
        source = learner.votes_on(Z[start : start + size])
        sums = class_scores(source, learner.label_codes_, n_classes)
        offsets = learner.offsets_on(source, sums.sum(axis=1))
        _refuse_other_predictions(certificates, start, np.argmax(sums + offsets, axis=1))
        form = _write_votes(tensors, source, len(ends))
        found.add(offset=offsets, exponent=source.exponent)
        if source.limit is not None:
            found.add(limit=source.limit)
        ends.append(start + len(sums))
    tensors.add("test.offset", found.joined("offset"), np.int64)
    exponent = found.joined("exponent")
    tensors.add("test.exponent", exponent, np.int64)
    if "limit" in found.parts:
        tensors.add("test.limit", found.joined("limit"), np.int64)
    if certificates.method != "exact":
        q = np.broadcast_to(np.asarray(certificates.noise, dtype=np.float64), len(certificates))
        tensors.add("proof.q", q, np.float64)
        tensors.add("proof.witness", scale(certificates.witness, -exponent[:, None]), np.float64)
    return {"rule": "votes", "votes": form, "blocks": ends}


def _refuse_other_predictions(certificates: Certificates, start: int, codes: Integers) -> None:
    if not np.array_equal(certificates.classes[codes], certificates.prediction[start : start + len(codes)]):
        raise ValueError(
            "The model does not make the predictions of these certificates: it was changed since, or these are other "
            "test rows. Certify again, then save."
        )


def _write_votes(tensors: _Tensors, source: VoteSource, block: int) -> str:
    if isinstance(source, ProductVotes):
        tensors.add(f"votes.coefficients.{block}", source.coefficients, np.float64)
        if block == 0:
            tensors.add("votes.basis", source.basis, np.int32)
        return "product"
    if isinstance(source, SparseVotes):
        votes = source.votes.copy()
        votes.sum_duplicates()
        votes.eliminate_zeros()
        tensors.add(f"votes.start.{block}", votes.indptr, np.int64)
        tensors.add(f"votes.row.{block}", votes.indices, np.int32)
        tensors.add(f"votes.value.{block}", votes.data, _vote_type(votes.data))
        return "sparse"
    votes = all_votes(source)
    tensors.add(f"votes.dense.{block}", votes, _vote_type(votes))
    return "dense"


def _vote_type(votes: NDArray[Any]) -> type[np.generic]:
    return np.int16 if np.abs(votes).max(initial=0) <= SMALL_VOTE else np.int32


def _neighbors(
    tensors: _Tensors,
    certificates: Certificates,
    learner: CertifiedNeighborsClassifier,
    powers: Powers,
    X: Any,
) -> dict[str, Any]:
    """Write the nearest rows in order, as many as the radii need."""
    _training(tensors, learner, powers)
    Z, k, n = learner.test_rows(X), learner.n_neighbors_, learner.n_rows_
    found, unlimited = _PerRow(), np.asarray(certificates.unlimited)
    ends: list[int] = []
    size = max(1, VOTES_AT_A_TIME // max(n, 1))
    for start in range(0, len(Z), size):
        nearest, rows = learner.rows_in_order(Z[start : start + size], powers)
        codes = np.argmax(nearest.scores(k, len(learner.classes_)), axis=1)
        _refuse_other_predictions(certificates, start, codes)
        own = slice(start, start + len(rows))
        changes = np.where(unlimited[own], n, powers.scope.rows_of_groups(certificates.radius[own]) + 1)
        depth = _depth_needed(nearest.ends_pile, np.minimum(k + changes, n))
        tensors.add(f"near.row.{len(ends)}", rows[:, :depth], np.int32)
        tensors.add(f"near.ends_pile.{len(ends)}", nearest.ends_pile[:, :depth], np.bool_)
        found.add(is_hit=nearest.is_hit)
        if nearest.offsets is not None:
            found.add(offset=nearest.offsets)
        ends.append(start + len(rows))
    tensors.add("test.is_hit", found.joined("is_hit"), np.bool_)
    if "offset" in found.parts:
        tensors.add("test.offset", found.joined("offset"), np.int64)
    return {"rule": "neighbors", "k": k, "blocks": ends}


def _depth_needed(ends_pile: NDArray[np.bool_], least: Integers) -> int:
    """Return a number of rows such that on each line, a whole pile ends there or before, but not before `least`."""
    if ends_pile.shape[1] == 0:
        return 0
    upto = np.arange(1, ends_pile.shape[1] + 1)
    ends = ends_pile & (upto >= least[:, None])
    return int(np.where(ends.any(axis=1), np.argmax(ends, axis=1) + 1, ends_pile.shape[1]).max(initial=0))


def _partitions(
    tensors: _Tensors,
    certificates: Certificates,
    learner: CertifiedPartitionClassifier,
    powers: Powers,
    X: Any,
) -> dict[str, Any]:
    """Write the class that each base learner predicts."""
    _training(tensors, learner, powers)
    votes = learner.partition_votes(learner.test_features(X)).astype(np.int16)
    counts = np.stack([(votes == code).sum(axis=1) for code in range(len(learner.classes_))], axis=1)
    offsets = learner.prior_votes(X, len(votes))
    _refuse_other_predictions(certificates, 0, np.argmax(counts + offsets, axis=1))
    tensors.add("test.offset", offsets, np.int64)
    tensors.add("train.partition", learner.partition_, np.int32)
    tensors.add("votes.partition", votes, np.int16)
    return {"rule": "partitions", "n_partitions": votes.shape[1], "blocks": [len(votes)]}


def _sampled(tensors: _Tensors, certificates: SmoothedCertificates, learner: Any, powers: Powers) -> dict[str, Any]:
    """Write the votes of both samples."""
    _training(tensors, learner, powers)
    tensors.add("votes.selection", certificates.selection, np.int64)
    tensors.add("votes.estimation", certificates.estimation, np.int64)
    tensors.add("claim.log_rival", certificates.log_rival, np.float64)
    tensors.add("proof.split", certificates.split, np.bool_)
    sampling = {
        "alpha": certificates.alpha,
        "level": None if np.isnan(certificates.noise) else float(certificates.noise),
        "confidence": certificates.confidence,
        "confidence_over": certificates.confidence_over,
    }
    return {"rule": "samples", "sampling": sampling, "blocks": [len(certificates)]}
