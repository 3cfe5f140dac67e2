"""Certified intervals: how far changed training targets can move each number that a regressor reports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption, check_assumptions
from flipproof.core.rounding import Floats, Integers
from flipproof.origins import Origin, make_frame
from flipproof.readable import significant
from flipproof.values import check_nothing_masked, column_of

#: What numbers of changes count, by unit.
CHANGED = {
    "targets": "changed targets",
    "annotators": "malicious annotators",
    "rows": "changed rows",
    "sources": "malicious sources",
}


@dataclass(frozen=True, repr=False, eq=False)
class CertifiedIntervals:
    """One exact interval per test row, coefficient or group: where the number can be after changes of training targets.

    Attributes
    ----------
    prediction : floats of shape (m,)
        What `predict` returns; or coefficients, means of groups, or gaps between them.
    flips : int or tuple of int
        Numbers of changed targets that `low` and `high` are about.
    low, high : floats of shape (m,), or (m, r) for r numbers of flips
        After this number of changes, of any targets, each value is from `low` to `high`, and both ends are attained.
    radius : integers of shape (m,) or None
        The largest number of changes that cannot move the number by more than `tolerance`, or to the other side of
        `threshold`; all that can be changed, if no number of changes does. None if neither was asked for.
    unlimited : booleans of shape (m,) or None
        Where no number of changes does. None if there is no radius.
    tolerance, threshold : float or None
        What `radius` is about.
    target_range : pair of floats
        The range of training targets, changed or not.
    n_train : int
        Number of training targets.
    n_touchable : int
        How many targets (or annotators, rows, sources) the adversary can change; more rows may be added.
    unit : {"targets", "annotators", "rows", "sources"}
        What `flips` and `radius` count. A radius in rows may exceed `n_touchable`, as rows can be added.
    assumptions : tuple of Assumption
        The assumptions under which the intervals hold; ``str`` returns the sentence of each.
    method : str
        Always "exact".
    about : {"prediction", "coefficient", "mean", "gap"}
        What the numbers are.
    adversary : Adversary or None
        The adversary as given. None: any target may be changed to any number in the range.
    origin : Origin or None
        The test rows, with their names and data frame library.

    See Also
    --------
    flipproof.CertifiedRidgeRegressor : Ridge regression for numbers.
    flipproof.WorstChanges : The attack that attains the end of an interval.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from flipproof import CertifiedRidgeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
    >>> model.certify(X[300:], flips=[1, 5], tolerance=20)
    <CertifiedIntervals: 142 predictions, median widths 7.9 at 1, 33.2 at 5 changed targets, median radius 5 of 300 \
targets>
    """

    prediction: Floats
    flips: int | tuple[int, ...]
    low: Floats
    high: Floats
    radius: Integers | None
    tolerance: float | None
    threshold: float | None
    target_range: tuple[float, float]
    n_train: int
    n_touchable: int
    unit: str
    assumptions: tuple[Assumption, ...]
    method: str = "exact"
    about: str = "prediction"
    adversary: Adversary | None = None
    origin: Origin | None = None
    unlimited: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", check_assumptions(self.assumptions, type(self).__name__))
        if self.unlimited is None and self.radius is not None:
            object.__setattr__(self, "unlimited", np.asarray(self.radius >= self.n_touchable))
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> CertifiedIntervals:
        """Return the intervals of some rows, by a slice, a mask or positions."""
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        return replace(
            self,
            prediction=self.prediction[chosen],
            low=self.low[chosen],
            high=self.high[chosen],
            radius=None if self.radius is None else self.radius[chosen],
            unlimited=None if self.unlimited is None else self.unlimited[chosen],
            origin=None if self.origin is None else self.origin.take(chosen),
        )

    @property
    def width(self) -> Floats:
        """``high - low``."""
        return self.high - self.low

    def certified_at(self, flips: int) -> NDArray[np.bool_]:
        """Tell which numbers hold after any `flips` changes, by their radius; shape (m,).

        A number that no change can break holds at any number of changes, also at more than there are targets.

        Parameters
        ----------
        flips : int
            Number of changed targets.

        Returns
        -------
        booleans of shape (m,)
            True where the radius is at least `flips`.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> model.certify([[5.0], [17.4]], tolerance=10).certified_at(1).tolist()
        [True, True]
        """
        if self.radius is None or self.unlimited is None:
            raise ValueError(
                "Without a radius, nothing is certified: call certify with tolerance=... or threshold=...."
            )
        return np.asarray((self.radius >= flips) | self.unlimited)

    @property
    def ids(self) -> list[Any]:
        """The names of the rows: the index of the pandas frame that was certified, or column names; else numbers."""
        return list(range(len(self))) if self.origin is None else self.origin.name_list

    def __repr__(self) -> str:
        numbers = np.atleast_1d(self.flips).tolist()
        widths = np.median(self.width.reshape(len(self), -1), axis=0) if len(self) else np.zeros(len(numbers))
        listed = ", ".join(f"{significant(width)} at {flips}" for width, flips in zip(widths, numbers, strict=True))
        what = CHANGED[self.unit]
        middle = f", median widths {listed} {what}" if len(self) else ""
        end = "" if self.radius is None or not len(self) else f", median radius {int(np.median(self.radius))}"
        of_all = "" if self.unit == "rows" else f" of {self.n_touchable}"
        end += f"{of_all} {self.unit}" if end else ""
        return f"<CertifiedIntervals: {len(self)} {self.about}s{middle}{end}>"

    def _columns(self, y_true: object = None) -> dict[str, Any]:
        columns: dict[str, Any] = {} if y_true is None else {"target": self.true_targets(y_true)}
        columns |= {self.about: self.prediction}
        if isinstance(self.flips, tuple):
            for place, flips in enumerate(self.flips):
                columns |= {f"low_{flips}": self.low[:, place], f"high_{flips}": self.high[:, place]}
        else:
            columns |= {"low": self.low, "high": self.high}
        return columns if self.radius is None else {**columns, "radius": self.radius}

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        model: object = None,
        X_test: object = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        """Write intervals of predictions and their proof to a file, which ``flipproof verify`` checks.

        Parameters
        ----------
        path : path
            The file to write, usually named ``*.flipproof``. Its format is documented in docs/certificate-format.md.
        model, X_test : optional
            The fitted model and the test rows, for intervals that do not know them because they were pickled. The model
            must not have been fitted again since.
        files : mapping of str to str, optional
            SHA-256 digests of the data files, by name, for the record.

        Examples
        --------
        >>> from flipproof import CertifiedIntervals, CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i % 7) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(5, average="median", target_range=(0, 10)).fit(X, y)
        >>> intervals = model.certify([[5.0], [17.4]], flips=[1, 2])
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     intervals.save(Path(folder, "proof.flipproof"))
        ...     CertifiedIntervals.load(Path(folder, "proof.flipproof"))
        <CertifiedIntervals: 2 predictions, median widths 2 at 1, 5 at 2 changed targets>
        """
        from flipproof import save_certificates  # defined in a higher layer: imported by its public name

        save_certificates(self, path, model=model, X_test=X_test, files=files)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> CertifiedIntervals:
        """Return the intervals in a file that :meth:`save` wrote.

        The digests of the file are checked, but not the proof: ``flipproof verify`` does that.

        Parameters
        ----------
        path : path
            The file to read.

        Returns
        -------
        CertifiedIntervals
            Without the model.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> from flipproof import CertifiedIntervals
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "proof.flipproof")
        ...     model.certify([[5.0], [17.4]], flips=1).save(path)
        ...     print(CertifiedIntervals.load(path))
        <CertifiedIntervals: 2 predictions, median widths 8.8 at 1 changed targets>
        """
        from flipproof import load_certificates  # defined in a higher layer: imported by its public name

        found = load_certificates(path)
        if not isinstance(found, CertifiedIntervals):
            raise ValueError(f"{os.fspath(path)!r} contains certificates of classes: use Certificates.load.")
        return found

    def true_targets(self, y_true: object) -> Floats:
        """Return the true targets of the test rows as an array, one for each.

        Parameters
        ----------
        y_true : array of shape (m,), or pandas Series
            In the order of the test rows. If the test rows were a pandas frame, a Series is read by its index, so
            that it may also contain other rows.

        Returns
        -------
        floats of shape (m,)
            In the order of the intervals.

        Raises
        ------
        ValueError
            If there is not one number for each test row, or if the intervals are not about predictions.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> model.certify([[5.0], [17.4]], flips=1).true_targets([5, 17]).tolist()
        [5.0, 17.0]
        """
        if self.about != "prediction":
            raise ValueError(f"y_true requires intervals of predictions, but these are about {self.about}s: omit it.")
        check_nothing_masked(y_true, "y_true")
        truth = np.asarray(y_true) if self.origin is None else self.origin.labels_in_order(y_true, "y_true")
        if truth.shape != self.prediction.shape:
            raise ValueError(
                f"y_true must have one target per prediction, shape {self.prediction.shape}. Got shape {truth.shape} "
                "instead."
            )
        if truth.dtype.kind not in "biuf":
            raise ValueError(
                f"y_true must be numbers. Got {truth.dtype} instead; names of rows are given as index=...."
            )
        return np.asarray(truth, dtype=np.float64)

    def to_frame(self, y_true: object = None, *, index: Any = None) -> Any:
        """Return a data frame with one line per row.

        Parameters
        ----------
        y_true : array or Series of shape (m,), optional
            The true targets, for the column ``target``. See :meth:`true_targets`.
        index : sequence of m names, optional
            Names of the rows. Default: the index of the pandas frame that was certified, else row numbers.

        Returns
        -------
        data frame of pandas, polars or pyarrow
            Of the library of the data frame that was certified; for arrays of the first of these that is installed. The
            columns are ``target``, ``prediction``, ``low``, ``high`` (``low_5`` and so on for several numbers of
            flips), ``radius`` if there is one, and ``unit``. Names are the index of a pandas frame, and the column
            ``id`` of others.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from flipproof import CertifiedRidgeRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
        >>> model.certify(X[300:302], flips=5).to_frame(y).round(1)
             target  prediction    low   high     unit
        300   275.0       191.2  171.5  204.9  targets
        301    65.0       142.0  131.1  158.4  targets
        """
        names = self.ids if index is None else list(index)
        if len(names) != len(self):
            raise ValueError(f"index must have one name per row, {len(self)}. Got {len(names)} instead.")
        columns = {"id": names, **self._columns(y_true), "unit": np.full(len(self), self.unit)}
        frame = make_frame(columns, None if self.origin is None else self.origin.library)
        if not hasattr(frame, "iloc"):
            return frame
        frame = frame.drop(columns="id")
        frame.index = names
        return frame

    def to_arrow(self, *, ids: Sequence[object] | None = None, y_true: object = None) -> Any:
        """Return a pyarrow table with one row per row; facts about all rows are in the schema's metadata.

        Parameters
        ----------
        ids : sequence of m names, optional
            Names of the rows, for the column ``id``. Default: the index of the pandas frame that was certified, else
            row numbers.
        y_true : array or Series of shape (m,), optional
            The true targets, for the column ``target``. See :meth:`true_targets`.

        Returns
        -------
        pyarrow.Table

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> model.certify([[5.0], [17.4]], flips=1).to_arrow().column_names
        ['id', 'prediction', 'low', 'high', 'method', 'unit']
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("to_arrow needs pyarrow: pip install 'flipproof[cli]'") from error
        names = self.ids if ids is None else ids
        columns = {"id": column_of(names), **self._columns(y_true)}
        columns |= {"method": pa.repeat(self.method, len(self)), "unit": pa.repeat(self.unit, len(self))}
        about = {
            "method": self.method,
            "unit": self.unit,
            "n_train": str(self.n_train),
            "n_touchable": str(self.n_touchable),
            "flips": json.dumps(self.flips),
            "tolerance": json.dumps(self.tolerance),
            "threshold": json.dumps(self.threshold),
            "target_range": json.dumps(self.target_range),
            "assumptions": json.dumps([one.to_dict() for one in self.assumptions]),
        }
        return pa.table(columns, metadata=about)


@dataclass(frozen=True, eq=False)
class WorstChanges:
    """The changes of training targets that move one prediction farthest; a refit to them attains that end.

    Attributes
    ----------
    rows : integers
        Training rows whose targets change.
    targets : floats
        Their targets after the attack.
    before, after : float
        The prediction before and after the attack.

    See Also
    --------
    flipproof.CertifiedIntervals : Exact intervals of regressors.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from flipproof import CertifiedRidgeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
    >>> (changes,) = model.worst_changes(X[300:301], flips=5)
    >>> len(changes.rows), bool(changes.after > changes.before)
    (5, True)
    """

    rows: Integers
    targets: Floats
    before: float
    after: float

    def applied_to(self, y: object) -> Floats:
        """Return a copy of the training targets with these changes.

        Parameters
        ----------
        y : array of shape (n,)
            The training targets.

        Returns
        -------
        floats of shape (n,)
            The targets after the attack.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> (changes,) = model.worst_changes([[5.0]], flips=1)
        >>> changes.rows.tolist(), changes.applied_to(y)[changes.rows].tolist()
        ([3], [40.0])
        """
        changed = np.array(y, dtype=np.float64)
        changed[self.rows] = self.targets
        return changed
