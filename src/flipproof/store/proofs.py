"""Certificate files, format 1: certificates with all that a second program needs to check them.

`docs/certificate-format.md` is the specification. Tensors are appended to an unfinished file block by block, so memory
is bounded by a block of votes, and the finished file replaces the target in one step.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof import __version__
from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption
from flipproof.certificate_words import COUNTED_UNITS
from flipproof.certificates import Certificates
from flipproof.core.rounding import scale
from flipproof.intervals import CertifiedIntervals
from flipproof.learners.pipeline import learner_and_features
from flipproof.learners.row_by_row import rows_at
from flipproof.runtime.files import digest_of
from flipproof.smoothing.smoothed_certificates import SmoothedCertificates
from flipproof.store.archive import ModelFileError
from flipproof.store.model_files import model_digest
from flipproof.store.proof_document import OF_ADVERSARIES, check_document
from flipproof.store.proof_rules import write_proof
from flipproof.store.proof_tensors import Tensors
from flipproof.store.target_proofs import load_intervals, refuse_without_proof, write_intervals
from flipproof.streaming.rows_in_blocks import RowsInBlocks
from flipproof.values import as_values, positions

FORMAT, VERSION = "flipproof-certificates", 1


def save_certificates(
    certificates: Certificates | CertifiedIntervals,
    path: str | os.PathLike[str],
    *,
    model: object = None,
    X_test: object = None,
    files: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    deployed: object = None,
) -> None:
    """Write certificates and their proof to a file, which ``flipproof verify`` checks.

    Parameters
    ----------
    certificates : Certificates or CertifiedIntervals
        What `certify` returned, or some of its rows.
    path : path
        The file to write, usually named ``*.flipproof``.
    model, X_test : optional
        The fitted model and the test rows. Default: those that the certificates know.
    files : mapping of str to str, optional
        SHA-256 digests of the data files, by name, for the record.
    outputs : mapping of str to str, optional
        SHA-256 digests of files that were written with the certificates, by name, for the record.
    deployed : optional
        What `flipproof.save` would store instead of `model`: for example, the model with the encoder of its columns.
        The file contains its digest.

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
    if not isinstance(certificates, Certificates | CertifiedIntervals):
        raise ValueError(
            f"There is no proof format for {type(certificates).__name__}: certificate files hold what certify(X) "
            "returns."
        )
    if isinstance(certificates, CertifiedIntervals):
        refuse_without_proof(certificates)
    elif certificates.radius_limit is not None:
        raise ValueError(
            f"These radii were computed only up to {certificates.radius_limit}, and a proof is about exact radii: "
            "certify without at_least=..."
        )
    if model is None or X_test is None:
        if certificates.origin is None or certificates.origin.model is None:
            raise ValueError("These certificates do not know their model and test rows: give model=... and X_test=....")
        model = certificates.origin.model
        X_test = rows_at(certificates.origin.X, certificates.origin.numbers)
    learner, rows = learner_and_features(model, X_test)
    if not len(certificates):
        raise ValueError("There is nothing to save: these certificates are about no test rows.")
    target = Path(path)
    with tempfile.TemporaryFile(dir=target.parent) as unfinished:
        tensors = Tensors(unfinished)
        document = _document(certificates)
        document["digests"] = {
            "model": _digest_or_none(model if deployed is None else deployed),
            "files": dict(files or {}),
            "outputs": dict(outputs or {}),
        }
        if isinstance(certificates, CertifiedIntervals):
            document |= write_intervals(tensors, certificates, learner, rows)
        else:
            document |= _about_classes(certificates, learner) | write_proof(tensors, certificates, learner, rows)
            _claims(tensors, certificates)
        tensors.finish(target, document)


def _digest_or_none(model: object) -> str | None:
    """Return the digest of a model; None if it cannot be stored in a file."""
    try:
        return model_digest(model)
    except ModelFileError:
        return None


def load_certificates(path: str | os.PathLike[str]) -> Certificates | CertifiedIntervals:
    """Return the certificates in a file that `save_certificates` wrote.

    The digests of the file are checked, and that its assumptions are those of the adversary in the file; but not the
    proof: ``flipproof verify`` does that.

    Parameters
    ----------
    path : path
        A certificate file.

    Returns
    -------
    Certificates or CertifiedIntervals
        As they were saved; intervals if the file is about numbers.

    Raises
    ------
    ValueError
        If the file is not a certificate file of format 1, or is damaged.

    See Also
    --------
    save_certificates : Write certificates and their proof.

    Examples
    --------
    >>> import os, tempfile
    >>> import flipproof
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.certify(X[400:]).save(os.path.join(folder, "proof.flipproof"))
    ...     certificates = flipproof.load_certificates(os.path.join(folder, "proof.flipproof"))
    >>> certificates
    <Certificates: 169 predictions, method 'exact', median radius 64 of 400 labels>
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if set(metadata) != {"flipproof", "flipproof_sha256"}:
                raise ValueError("its metadata must have the document and its digest, and nothing else")
            text = metadata.get("flipproof", "")
            if digest_of(text) != metadata.get("flipproof_sha256"):
                raise ValueError("it is not a certificate file, or its document was changed")
            document = json.loads(text)
            if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
                raise ValueError(f"it is not of format {VERSION} of {FORMAT}")
            stored = _Stored(file, document["digests"]["tensors"])
            if document["rule"] == "targets":
                return load_intervals(document, stored)
            check_document(document, stored)
            return _loaded(document, stored)
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"cannot load certificates from {os.fspath(path)!r}: {reason}.") from None


class _Stored:
    """The tensors of a file; each is compared with its digest when it is read."""

    def __init__(self, file: Any, digests: Mapping[str, str]):
        self._file, self._digests = file, digests

    def __contains__(self, name: str) -> bool:
        return name in self._digests

    def get(self, name: str, otherwise: object = None) -> Any:
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


def _document(certificates: Certificates | CertifiedIntervals) -> dict[str, Any]:
    """Return what the document says of any rule."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "producer": {"name": "flipproof", "version": __version__},
        "method": certificates.method,
        "unit": certificates.unit,
        "n_test": len(certificates),
        "n_train": certificates.n_train,
        "n_touchable": certificates.n_touchable,
        # sentences stay out: nobody could check that they say what the codes mean
        "assumptions": [{name: one.to_dict()[name] for name in ("code", "values")} for one in certificates.assumptions],
    }


def _about_classes(certificates: Certificates, learner: Any) -> dict[str, Any]:
    """Return what the document says of rules about classes."""
    return {
        "changes": certificates.changes,
        "n_rows": learner.n_rows_ if isinstance(learner, RowsInBlocks) else len(learner.label_codes_),
        "classes": certificates.classes.tolist(),
        "has_adversary": any(one.code in OF_ADVERSARIES for one in certificates.assumptions),
    }


def _claims(tensors: Tensors, certificates: Certificates) -> None:
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
