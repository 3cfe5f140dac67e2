"""`flipproof.save` and `flipproof.load`: a fitted model in one file."""

from __future__ import annotations

import os
import platform
import warnings
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from flipproof.learners.certified import CertifiedClassifier
from flipproof.learners.pipeline import learner_in
from flipproof.learners.table_model import TableModel
from flipproof.store.archive import Archive, ModelFileError, read
from flipproof.store.nodes import Packer, Unpacker

#: Learners that cannot be stored, and what to do.
NOT_STORED = {
    "SmoothedClassifier": "it fits its base learner to the training rows again for every prediction. Keep the rows, "
    "and fit it again",
    "StreamingRidgeClassifier": "it reads its training rows again for every certificate. Keep the rows, and fit it "
    "again; or fit CertifiedRidgeClassifier, if they fit in memory",
    "StreamingKernelClassifier": "it reads its training rows again for every certificate. Keep the rows, and fit it "
    "again; or fit CertifiedKernelClassifier, if they fit in memory",
}


class ModelVersionWarning(UserWarning):
    """A model contains steps of another version of scikit-learn, which may transform rows differently.

    See Also
    --------
    flipproof.load : Read a model from a file.
    """


def save(model: object, path: str | os.PathLike[str]) -> str:
    """Write a fitted model to a file, without pickle: :func:`flipproof.load` reads it.

    The file contains everything that predictions and certificates need: geometry, votes, classes, parameters,
    assumptions, and the `features` step. It contains the training labels and, depending on the learner, the training
    features; see `docs/models.md`.

    Parameters
    ----------
    model : learner, Pipeline or TableModel
        A fitted learner of flipproof, a Pipeline that ends in one, or a learner with the encoder of its columns:
        ``flipproof.audit(...).deployed``.
    path : path
        The file, usually named ``*.flipproof``. It is written whole, or not at all.

    Returns
    -------
    str
        SHA-256 of the whole model, which also identifies it in reports. Sign it to protect a file from others.

    Raises
    ------
    ValueError
        If the model, or a part of it, cannot be stored. The message names it and says what to do.

    See Also
    --------
    flipproof.load : Read a model from a file.
    flipproof.save_certificates : Write certificates and their proof.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import flipproof
    >>> X, y = [[0.0], [0.2], [3.0], [3.1]], ["low", "low", "high", "high"]
    >>> model = flipproof.CertifiedRidgeClassifier(classes=["low", "high"]).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     digest = flipproof.save(model, Path(folder) / "m.flipproof")
    ...     loaded = flipproof.load(Path(folder) / "m.flipproof")
    >>> loaded.predict([[0.1], [3.2]])
    array(['low', 'high'], dtype='<U4')
    """
    return _archive_of(model).write(Path(path))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`flipproof.save` wrote; it predicts and certifies the same, to the last bit.

    Loading never runs code from the file, and refuses files that are damaged or contradict themselves. It cannot know
    who wrote a file: one from an attacker can contain any model.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    learner, Pipeline or TableModel
        As it was saved; a TableModel if `flipproof fit` wrote the file.

    Raises
    ------
    ValueError
        If the file is not a model, is damaged, or of an unknown format. The message is one line.
    OSError
        If it cannot be read.

    See Also
    --------
    flipproof.save : Write a model to a file.
    flipproof.store.model_digest : Digest of a model.

    Examples
    --------
    >>> import os, tempfile
    >>> import flipproof
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     digest = flipproof.save(model, os.path.join(folder, "model.flipproof"))
    ...     same = flipproof.load(os.path.join(folder, "model.flipproof"))
    >>> bool((same.certify(X[400:]).radius == model.certify(X[400:]).radius).all())
    True
    """
    file = Path(path)
    archive, _ = read(file)
    unpacker = Unpacker(archive.tensors)
    try:
        model = unpacker.value(archive.document["model"], "")
        unpacker.check_all_used()
        if not isinstance(_learner(model), CertifiedClassifier):
            raise ModelFileError(f"it contains a {type(model).__name__}, which is no learner of flipproof")
        check_is_fitted(_learner(model))
    except ModelFileError as error:
        raise ModelFileError(f"cannot load {str(file)!r}: {error}.{_versions_differ(archive)}") from None
    if any(key.startswith("sklearn.") for key in unpacker.classes):
        _warn_of_other_version(archive)
    return model


def model_digest(model: object) -> str:
    """Return the SHA-256 of a model: a fitted model, or the path of a file, which is checked.

    It is the same for a model, the file that it is saved to, and the model that is loaded from there.

    Parameters
    ----------
    model : learner, Pipeline, TableModel or path
        A fitted model, or its file.

    Returns
    -------
    str
        64 hexadecimal digits.

    See Also
    --------
    flipproof.save : Write a model to a file.
    flipproof_verify.verify : Check a certificate file.

    Examples
    --------
    >>> from flipproof.store import model_digest
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> len(model_digest(model))
    64
    """
    if isinstance(model, (str, os.PathLike)):
        return read(Path(model))[1]
    return _archive_of(model).digest


def _learner(model: object) -> Any:
    return model.learner if isinstance(model, TableModel) else learner_in(model)


def _archive_of(model: object) -> Archive:
    learner = _learner(model)
    name = type(learner).__name__
    if name in NOT_STORED:
        raise ModelFileError(f"{name} cannot be stored: {NOT_STORED[name]}.")
    if getattr(learner, "predicts_numbers", False):
        raise ModelFileError(f"{name} cannot be stored: model files hold classifiers.")
    if not isinstance(learner, CertifiedClassifier):
        raise ModelFileError(
            "model must be a fitted learner of flipproof, a Pipeline that ends in one, or a TableModel. Got "
            f"{type(model).__name__} instead."
        )
    check_is_fitted(learner)
    packer = Packer()
    node = packer.node(model, "")
    return Archive({"model": node, "versions": _versions()}, packer.tensors)


def _versions() -> dict[str, str]:
    import numpy
    import scipy
    import sklearn

    from flipproof import __version__

    found = {"flipproof": __version__, "scikit-learn": sklearn.__version__}
    return {**found, "numpy": numpy.__version__, "scipy": scipy.__version__, "python": platform.python_version()}


def _versions_differ(archive: Archive) -> str:
    """Return a sentence if the file was written by other versions; else nothing."""
    stored, here = archive.document["versions"], _versions()
    stored = stored if isinstance(stored, dict) else {}
    other = [name for name in ("flipproof", "scikit-learn") if str(stored.get(name))[:40] != here[name]]
    if not other:
        return ""
    told = ", ".join(f"{name} {str(stored.get(name))[:40]} (here {here[name]})" for name in other)
    return f" It was written with {told}."


def _warn_of_other_version(archive: Archive) -> None:
    stored, here = archive.document["versions"], _versions()["scikit-learn"]
    found = str(stored.get("scikit-learn"))[:40] if isinstance(stored, dict) else "?"
    if found.split(".")[:2] != here.split(".")[:2]:
        warnings.warn(
            f"The model contains steps of scikit-learn {found}, but scikit-learn {here} is installed: they may "
            "transform rows differently. Install that version, or fit the model again.",
            ModelVersionWarning,
            stacklevel=3,
        )
