"""Results of attacks: frozen, one entry per test row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.core.rounding import Floats, Integers, Values
from flipproof.metrics import n_reaching

#: Value of `flips_needed` where no attack exists or none was found.
NO_ATTACK = -1


@dataclass(frozen=True, repr=False, eq=False)
class AttackResult:
    """The changed training labels that an attack found against each test row.

    Attributes
    ----------
    flips_needed : integers of shape (m,)
        How many labels (or annotators) the attack changes; -1 where no attack was found. It is 0 where an undefended
        model predicts another class when it is refitted to the same labels.
    rows : tuple of m integer arrays
        The training rows whose labels are changed, in the order of the attack.
    new_labels : tuple of m arrays
        The new labels of these rows.
    success : booleans of shape (m,)
        Whether an attack was found.
    prediction : array of shape (m,)
        The model's predictions before the attack.
    unit : {"labels", "annotators"}
        What `flips_needed` counts.
    attack : str
        Name of the attack.
    n_refits : int
        Number of models fitted to find and to confirm the attacks.
    attempted : booleans of shape (m,)
        False for test rows that the attack did not reach before it was interrupted or its budget was spent.
    annotators : tuple of m arrays, or None
        The annotator of each changed label, if annotators are counted; :meth:`who` lists them.

    See Also
    --------
    flipproof.attacks.worst_flips : Smallest attack by labels.
    flipproof.attacks.RowAttackResult : Changed rows, by test row.

    Examples
    --------
    >>> from flipproof.attacks import worst_flips
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> attack = worst_flips(model, X[400:])
    >>> int(attack.flips_needed[0]), len(attack.rows[0])
    (25, 25)
    """

    flips_needed: Integers
    rows: tuple[Integers, ...]
    new_labels: tuple[NDArray[Any], ...]
    success: NDArray[np.bool_]
    prediction: NDArray[Any]
    unit: str
    attack: str
    n_refits: int = 0
    attempted: NDArray[np.bool_] = None  # type: ignore[assignment]  # None: all rows
    annotators: tuple[NDArray[Any], ...] | None = None

    def __post_init__(self) -> None:
        if self.attempted is None:
            object.__setattr__(self, "attempted", np.ones(len(self.prediction), dtype=bool))
        for field in fields(self):
            value = getattr(self, field.name)
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.prediction)

    def __repr__(self) -> str:
        found = self.flips_needed[self.success]
        middle = f", median {int(np.median(found))} {self.unit}" if found.size else ""
        return f"<AttackResult: {self.attack}, {found.size} of {len(self)} predictions overturned{middle}>"

    def who(self, row: int) -> dict[Any, int]:
        """Return who takes part in the attack on one test row, in its order, and how many labels each changes.

        Parameters
        ----------
        row : int
            Position of the test row.

        Returns
        -------
        dict
            Number of labels by annotator.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import Adversary
        >>> from flipproof.attacks import worst_flips
        >>> who = ["ann", "bob", "eve", "dan"] * 10
        >>> worst_flips(model, [[17.4]], Adversary(groups=who)).who(0)
        {'dan': 3}
        """
        if self.annotators is None:
            raise ValueError("This attack does not count annotators: give Adversary(groups=...) to the attack.")
        return dict(Counter(self.annotators[row].tolist()))

    def poisoned(self, y: ArrayLike, row: int) -> Values:
        """Return the training labels after the attack on one test row.

        Parameters
        ----------
        y : array of shape (n,)
            The training labels.
        row : int
            Position of the test row.

        Returns
        -------
        array of shape (n,)
            The labels after the attack.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof.attacks import worst_flips
        >>> attack = worst_flips(model, [[5.0], [17.4]])
        >>> changed = attack.poisoned(y, 1)
        >>> model.fit(X, changed).predict([[17.4]])
        array(['spam'], dtype='<U4')
        """
        labels = np.array(y)
        wide = np.result_type(labels, self.new_labels[row]) if self.new_labels[row].size else labels.dtype
        labels = labels.astype(wide)
        labels[self.rows[row]] = self.new_labels[row]
        return labels

    def accuracy(self, y_true: ArrayLike, flips: ArrayLike) -> Floats:
        """Share of test rows that are predicted correctly and whose attack needs more than `flips` changes.

        An upper bound on :func:`flipproof.certified_accuracy`; with the exact attack the two are equal.

        Parameters
        ----------
        y_true : array of shape (m,)
            The true classes.
        flips : int, or several
            Numbers of changes.

        Returns
        -------
        floats of shape (r,)
            A share for each number.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof.attacks import worst_flips
        >>> attack = worst_flips(model, [[5.0], [17.4]])
        >>> attack.accuracy(["ham", "ham"], flips=[0, 2, 5])
        array([1. , 1. , 0.5])
        """
        needed = np.where(self.success, self.flips_needed, np.inf)
        return unbroken_share(y_true, self.prediction, needed, flips)


@dataclass(frozen=True, repr=False, eq=False)
class RowAttackResult:
    """The training rows that an attack adds and removes against each test row.

    Attributes
    ----------
    changes_needed : integers of shape (m,)
        How many rows (or sources) the attack changes; -1 where no attack was found. A removed and an added row are one
        change, a replacement.
    removed : tuple of m integer arrays
        Numbers of the training rows to remove, in the order of the attack.
    added : tuple of m arrays or data frames
        Rows to add, as `fit` takes them.
    added_labels : tuple of m arrays
        The labels of these rows.
    success : booleans of shape (m,)
        Whether a refit on the changed rows predicts another class.
    is_smallest : booleans of shape (m,)
        Whether no smaller attack exists: it needs one change more than is certified, or there is none at all. Where
        this is False, the certificate is a lower bound, and it is not known whether a smaller attack exists.
    prediction : array of shape (m,)
        The model's predictions before the attack.
    unit : {"rows", "sources"}
        What `changes_needed` counts.
    attack : str
        Name of the attack.
    n_refits : int
        Number of refits that confirmed attacks.
    attempted : booleans of shape (m,)
        False for test rows that the attack did not reach before it was interrupted.
    sources : tuple of m arrays, or None
        The source of each removed row, if sources are counted; :meth:`who` lists them.

    See Also
    --------
    flipproof.attacks.worst_rows : Smallest attack by rows.

    Examples
    --------
    >>> from flipproof import CertifiedForestClassifier
    >>> from flipproof.attacks import worst_rows
    >>> model = CertifiedForestClassifier(5, min_samples_leaf=2, classes=["ham", "spam"])
    >>> model = model.fit([[0.0], [0.1], [3.0]], ["ham", "ham", "spam"], reference=[[0.0], [1.0], [2.0], [3.0]])
    >>> attack = worst_rows(model, [[0.2]])
    >>> bool(attack.success[0]), bool(attack.is_smallest[0])
    (True, True)
    """

    changes_needed: Integers
    removed: tuple[Integers, ...]
    added: tuple[Any, ...]
    added_labels: tuple[NDArray[Any], ...]
    success: NDArray[np.bool_]
    is_smallest: NDArray[np.bool_]
    prediction: NDArray[Any]
    unit: str
    attack: str
    n_refits: int
    attempted: NDArray[np.bool_]
    sources: tuple[NDArray[Any], ...] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.prediction)

    def __repr__(self) -> str:
        found = self.changes_needed[self.success]
        middle = f", median {int(np.median(found))} {self.unit}" if found.size else ""
        return f"<RowAttackResult: {self.attack}, {found.size} of {len(self)} predictions overturned{middle}>"

    def who(self, row: int) -> dict[Any, int]:
        """Return which sources take part in the attack on one test row, and how many rows of each are removed.

        Where rows are replaced, each adds as many.

        Parameters
        ----------
        row : int
            Position of the test row.

        Returns
        -------
        dict
            Number of rows by source.

        Examples
        --------
        >>> from flipproof import Adversary, CertifiedForestClassifier
        >>> from flipproof.attacks import worst_rows
        >>> model = CertifiedForestClassifier(5, min_samples_leaf=2, classes=["ham", "spam"])
        >>> model = model.fit([[0.0], [0.1], [3.0]], ["ham", "ham", "spam"], reference=[[0.0], [1.0], [2.0], [3.0]])
        >>> worst_rows(model, [[0.2]], Adversary(changes="rows", groups=["a.org", "b.org", "b.org"])).who(0)
        {'b.org': 2}
        """
        if self.sources is None:
            raise ValueError("This attack does not count sources: give Adversary(groups=...) to the attack.")
        return dict(Counter(self.sources[row].tolist()))

    def changed(self, X: ArrayLike, y: ArrayLike, row: int) -> tuple[Values, Values]:
        """Return the training rows and labels after the attack on one test row, given those before it, as arrays.

        Parameters
        ----------
        X : array of shape (n, k)
            The training rows.
        y : array of shape (n,)
            Their labels.
        row : int
            Position of the test row.

        Returns
        -------
        pair of arrays
            Rows and labels after the attack.

        Examples
        --------
        >>> from flipproof import CertifiedForestClassifier
        >>> from flipproof.attacks import worst_rows
        >>> X, y = [[0.0], [0.1], [3.0]], ["ham", "ham", "spam"]
        >>> reference = [[0.0], [1.0], [2.0], [3.0]]
        >>> model = CertifiedForestClassifier(5, min_samples_leaf=2, classes=["ham", "spam"])
        >>> attack = worst_rows(model.fit(X, y, reference=reference), [[0.2]])
        >>> X_bad, y_bad = attack.changed(X, y, 0)
        >>> model.fit(X_bad, y_bad, reference=reference).predict([[0.2]])
        array(['spam'], dtype='<U4')
        """
        kept = np.delete(np.asarray(X), self.removed[row], axis=0)
        labels = np.delete(np.asarray(y), self.removed[row])
        if not len(self.added_labels[row]):
            return kept, labels
        return np.concatenate([kept, np.asarray(self.added[row])]), np.concatenate([labels, self.added_labels[row]])

    def accuracy(self, y_true: ArrayLike, changes: ArrayLike) -> Floats:
        """Share of test rows that are predicted correctly and whose attack needs more than `changes` changes.

        An upper bound on :func:`flipproof.certified_accuracy`; equal where all attacks are the smallest.

        Parameters
        ----------
        y_true : array of shape (m,)
            The true classes.
        changes : int, or several
            Numbers of changes.

        Returns
        -------
        floats of shape (r,)
            A share for each number.

        Examples
        --------
        >>> from flipproof import CertifiedForestClassifier
        >>> from flipproof.attacks import worst_rows
        >>> X, y = [[0.0], [0.1], [3.0]], ["ham", "ham", "spam"]
        >>> reference = [[0.0], [1.0], [2.0], [3.0]]
        >>> model = CertifiedForestClassifier(5, min_samples_leaf=2, classes=["ham", "spam"])
        >>> attack = worst_rows(model.fit(X, y, reference=reference), [[0.2]])
        >>> attack.accuracy(["ham"], changes=[0, 5])
        array([1., 0.])
        """
        needed = np.where(self.success, self.changes_needed, np.inf)
        return unbroken_share(y_true, self.prediction, needed, changes)


def unbroken_share(y_true: ArrayLike, prediction: Values, needed: Floats, flips: ArrayLike) -> Floats:
    """Return the share of test rows that are predicted correctly and need more than `flips` changes to be overturned.

    At 0 flips there is no attack: the prediction counts, even where a refit to the same labels would change it.
    """
    truth = np.asarray(y_true)
    if truth.shape != prediction.shape or truth.size == 0:
        raise ValueError(
            f"y_true must have one label per test row, shape {prediction.shape}, and at least one. "
            f"Got shape {truth.shape} instead."
        )
    wanted = np.atleast_1d(np.asarray(flips))
    if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.number) or not (wanted >= 0).all():
        raise ValueError(f"flips must be numbers of at least 0. Got {flips!r} instead.")
    of_correct = needed[truth == prediction]
    unbroken = n_reaching(of_correct - 1, np.floor(wanted))  # one flip fewer than needed changes nothing
    return np.asarray(np.where(wanted == 0, of_correct.size, unbroken) / truth.size)
