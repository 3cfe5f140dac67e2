"""Certificates: frozen results, one per test row."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption, check_assumptions
from flipproof.certificate_words import COUNTED_UNITS, ROW_UNITS, certificate_sentence
from flipproof.core.rounding import Floats, Integers
from flipproof.origins import Origin, make_frame
from flipproof.parameters import check_parameter, integer
from flipproof.readable import significant
from flipproof.values import check_nothing_masked, column_of

if TYPE_CHECKING:
    from flipproof import Explanation

METHODS = ("exact", "tight", "kl")

#: Methods that put noise on labels.
NOISY_METHODS = ("tight", "kl")

#: Assumptions of certificates of items that have several labels each.
SEVERAL_LABELS = ("annotations", "majority-first")

#: Assumptions that make radii lower bounds, although the method is exact.
LOWER_BOUNDS = ("majority-lower-bound", "rows-lower-bound", "annotators-bounded", "sources-bounded")


@dataclass(frozen=True)
class Certificate:
    """The certificate of one test row, as plain values; ``str`` returns it as a sentence.

    Attributes
    ----------
    id : object
        Name of the test row: its entry in the pandas index, or its number.
    prediction, radius, rival, margin, abstained, unlimited, method, unit
        As in :class:`Certificates`.
    sentence : str
        What is guaranteed, in plain English.

    See Also
    --------
    flipproof.Certificates : One certificate per test row.
    flipproof.explain : Explain one certificate.

    Examples
    --------
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> certificate = model.certify(X[400:])[0]
    >>> certificate.prediction, certificate.radius, certificate.rival
    (0, 24, 1)
    >>> print(str(certificate)[:92])
    Test row 0 is predicted as 0. The prediction is guaranteed unchanged even if an attacker who
    """

    id: Any
    prediction: Any
    radius: int | float
    rival: Any
    margin: float
    abstained: bool
    unlimited: bool
    method: str
    unit: str
    sentence: str = field(repr=False)

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, repr=False, eq=False)
class Certificates:
    """One certificate per test row: `prediction` is unchanged under any `radius` changed training labels.

    Attributes
    ----------
    prediction : array of shape (m,)
        What `predict` returns.
    radius : integers of shape (m,), or floats where `unit` is not a count
        How many training labels an attacker who targets this row may change, to any class, without changing the
        prediction.
    rival : array of shape (m,)
        The class that limits the radius.
    margin : floats of shape (m,)
        Lead of the predicted class over `rival` in the learner's scores.
    log_failure : floats of shape (m,)
        Upper bound on log P(the noise changes the prediction); NaN for the exact method, which needs no noise.
    abstained : booleans of shape (m,)
        True where the prediction is not certified at all; counts as wrong in :func:`flipproof.certified_accuracy`.
    witness : floats of shape (m, K)
        The Chernoff parameter t against each class, which proves `log_failure`; NaN where there is no proof by noise.
    method : {"exact", "tight", "kl", "gap", "gaussian"}
        How the radius was computed. "gap": from the votes of partitions; "gaussian": from noise on the features.
    noise : float or floats of shape (m,)
        The noise q of the measure, or sigma of noise on features; one per row with ``noise="auto"``. The
        exact method does not use it.
    n_train : int
        Number of training labels: the denominator of "share of labels poisoned".
    classes : array of shape (K,)
        The classes, in the order of `witness`.
    assumptions : tuple of Assumption
        The assumptions under which the certificates hold; ``str`` returns the sentence of each.
    unit : {"labels", "annotators", "windows", "rows", "sources", "l2", "divergence"}
        What the radius counts or measures. "windows": windows of time, all of whose
        labels may be changed. "rows": rows that are added, removed or replaced; "sources": sources whose
        rows are replaced or removed. "l2": the norm of the change of the whole training matrix; "divergence":
        the divergence of the noise, in nats, for a custom measure.
    n_touchable : int
        How many labels (or annotators) the adversary can change, or how many rows (or sources) can be removed. Radii in
        rows may be larger, since rows can be added.
    unlimited : booleans of shape (m,)
        True where no attack can change the prediction. The radius there is `n_touchable`, or the number of rows that
        are not trusted if rows can be added.
    adversary : Adversary or None
        The adversary as given to `certify`. None: any label may be changed to any class, except that a learner fitted
        to rows in blocks uses the trusted labels and annotators of its `fit`, as listed in `assumptions`.
    origin : Origin or None
        The model and the test rows, with their names and data frame library, from which `to_frame` and `explain` get
        what they need.

    See Also
    --------
    flipproof.certified_accuracy : Share of rows that are correct and certified.
    flipproof.certified_recall : Certified accuracy per class.
    flipproof.explain : Explain one certificate.
    flipproof.save_certificates : Write certificates and their proof.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from flipproof import CertifiedRidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> certificates = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400]).certify(X[400:])
    >>> certificates
    <Certificates: 169 predictions, method 'exact', median radius 64 of 400 labels>
    >>> print(certificates[0])
    Test row 400 is predicted as 0. The prediction is guaranteed unchanged even if an attacker who targets this row \
changes any 24 of the 400 training labels (6.0%) to any class. The rival class is 1.
    >>> certificates.most_fragile(2).to_frame(y)
         label  prediction  correct  radius  rival    margin    unit
    479      0           1    False       7      0  0.056519  labels
    489      0           0     True       7      1  0.098541  labels
    """

    prediction: NDArray[Any]
    radius: Integers
    rival: NDArray[Any]
    margin: Floats
    log_failure: Floats
    abstained: NDArray[np.bool_]
    witness: Floats
    method: str
    noise: float | Floats
    n_train: int
    classes: NDArray[Any]
    assumptions: tuple[Assumption, ...]
    unit: str = "labels"
    n_touchable: int = -1
    unlimited: NDArray[np.bool_] | None = None
    adversary: Adversary | None = None
    origin: Origin | None = None

    #: Whether predictions can abstain, so that tables have a column for it.
    can_abstain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", check_assumptions(self.assumptions, type(self).__name__))
        if self.n_touchable < 0:  # not given: every label can be changed
            object.__setattr__(self, "n_touchable", self.n_train)
        if self.unlimited is None or self.unit not in ROW_UNITS:  # follows from the radius, unless rows can be added
            reached = self.radius >= self.n_touchable if self.unit in COUNTED_UNITS else np.isinf(self.radius)
            object.__setattr__(self, "unlimited", np.asarray(reached) & ~self.abstained)
        if self.origin is not None and len(self.origin) != len(self.prediction):  # other rows were put in their place
            object.__setattr__(self, "origin", None)
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> Any:
        """Return the certificates of some test rows by position, as :class:`Certificates`; of one row as `Certificate`.

        Parameters
        ----------
        rows : int, slice, mask, or integers
            Positions among these certificates, as for an array.
        """
        chosen = np.arange(len(self))[rows]
        if chosen.ndim == 0:
            return self._one(int(chosen))
        if chosen.ndim != 1:
            raise IndexError(
                f"Certificates[...] must name rows by a number, a slice, a mask or a list. Got {rows!r} instead."
            )
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        taken: dict[str, Any] = {name: value[chosen] for name, value in arrays.items() if name != "classes"}
        return replace(self, origin=None if self.origin is None else self.origin.take(chosen), **taken)

    def _one(self, position: int) -> Certificate:
        assert self.unlimited is not None
        return Certificate(
            id=self.id_at(position),
            method=self.method,
            unit=self.unit,
            sentence=certificate_sentence(self, position),
            **{
                name: getattr(self, name)[position : position + 1].tolist()[0]
                for name in ("prediction", "radius", "rival", "margin", "abstained", "unlimited")
            },
        )

    @property
    def ids(self) -> list[Any]:
        """The names of the test rows: the index of the pandas frame that was certified, else their numbers in it."""
        return list(range(len(self))) if self.origin is None else self.origin.name_list

    def id_at(self, position: int) -> Any:
        """Return the name of the test row at a position."""
        return position if self.origin is None else self.origin.name_at(position)

    @property
    def radius_limit(self) -> int | None:
        """The limit up to which radii were computed, ``certify(X, at_least=limit)``; None if all radii are complete.

        Where the radius is the limit, the exact radius may be larger; the rival is then the prediction itself, and the
        margin NaN, because neither was computed.
        """
        limits = [int(one.values["limit"]) for one in self.assumptions if one.code == "radii-limited"]
        return min(limits, default=None)

    @property
    def may_be_larger(self) -> NDArray[np.bool_]:
        """Where the exact radius may be larger than `radius`, because it was computed only up to a limit."""
        limit = self.radius_limit
        if limit is None:
            return np.zeros(len(self), dtype=bool)
        return np.asarray((self.radius >= limit) & ~np.asarray(self.unlimited))

    @property
    def labels_name(self) -> str:
        """What to call the training labels: "annotations" if items have several labels each, else "labels"."""
        return "annotations" if any(one.code in SEVERAL_LABELS for one in self.assumptions) else "labels"

    @property
    def is_exact(self) -> bool:
        """Whether each radius is the true one: with one more change, an attack exists. Else it is a lower bound."""
        return self.method == "exact" and all(one.code not in LOWER_BOUNDS for one in self.assumptions)

    @property
    def n_units(self) -> int:
        """The total that a radius is a share of: all training labels, or all annotators who can change any."""
        return self.n_train if self.unit in ("labels", "rows") else self.n_touchable

    @property
    def changes(self) -> str:
        """What the adversary may change: "labels", "rows", "insertions" or "removals"."""
        return "labels" if self.adversary is None else self.adversary.changes

    @property
    def rows_can_be_added(self) -> bool:
        """Whether the adversary may add training rows, so that radii may exceed the number of rows."""
        return self.unit == "rows" and self.changes != "removals"

    def __repr__(self) -> str:
        median = np.median(self.radius) if len(self) else 0
        if self.unit in COUNTED_UNITS:
            middle = f", median radius {int(median)}" if len(self) else ""
            middle += " or more" if len(self) and np.median(self.may_be_larger) else ""
            counted = self.labels_name if self.unit == "labels" else self.unit
            middle += f" of {self.n_train if self.unit == 'rows' else self.n_touchable} {counted}"
        else:
            middle = f", median radius {significant(median)} ({self.unit})" if len(self) else f" ({self.unit})"
        abstained = f", {np.count_nonzero(self.abstained)} abstained" if self.abstained.any() else ""
        return f"<Certificates: {len(self)} predictions, method {self.method!r}{middle}{abstained}>"

    def _repr_html_(self) -> str:
        """Return the view for notebooks: curve, histogram, the most fragile rows, assumptions and what to call next."""
        from flipproof import notebook_view  # defined in a higher layer: imported by its public name

        return notebook_view(self)

    def most_fragile(self, n: int = 10) -> Certificates:
        """Return the `n` certificates that are easiest to break: abstentions, then by radius and margin.

        Parameters
        ----------
        n : int, default=10
            How many.

        Returns
        -------
        Certificates
            The most fragile first.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> certificates.most_fragile(2).radius
        array([2, 7])
        """
        check_parameter("most_fragile", "n", n, integer(0))
        return self[self.fragile_order()[:n]]  # type: ignore[no-any-return]

    def fragile_order(self) -> Integers:
        """Return the positions of all certificates, the most fragile first, as `most_fragile` sorts them."""
        return np.lexsort((self.margin, self.radius, np.asarray(self.unlimited), ~self.abstained))

    def true_classes(self, y_true: object) -> NDArray[Any]:
        """Return the true classes of the test rows as an array, one for each.

        Parameters
        ----------
        y_true : array of shape (m,), or pandas Series
            In the order of the test rows. If the test rows were a pandas frame, a Series is read by its index, so
            that it may also contain other rows.

        Returns
        -------
        array of shape (m,)
            In the order of the certificates.

        Raises
        ------
        ValueError
            If there is not one class for each test row, or if classes are strings and labels numbers, or vice versa.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> certificates.true_classes(["ham", "ham", "spam"]).tolist()
        ['ham', 'ham', 'spam']
        """
        check_nothing_masked(y_true, "y_true")
        truth = np.asarray(y_true) if self.origin is None else self.origin.labels_in_order(y_true, "y_true")
        if truth.shape != self.prediction.shape:
            raise ValueError(
                f"y_true must have one label per certificate, shape {self.prediction.shape}. "
                f"Got shape {truth.shape} instead."
            )
        if truth.size and isinstance(truth.tolist()[0], str) != isinstance(self.classes.tolist()[0], str):
            raise ValueError(
                f"y_true must be of the type of the training labels, such as {self.classes.tolist()[0]!r}. "
                f"Got {truth.tolist()[0]!r} instead."
            )
        return truth

    def to_frame(self, y_true: Any = None, *, index: Any = None) -> Any:
        """Return a data frame with one line per test row.

        Parameters
        ----------
        y_true : array or Series of shape (m,), optional
            The true classes, for the columns ``label`` and ``correct``. See :meth:`true_classes`.
        index : sequence of m names, optional
            Names of the test rows. Default: the index of the pandas frame that was certified, else row numbers.

        Returns
        -------
        data frame of pandas, polars or pyarrow
            Of the library of the data frame that was certified; for arrays of the first of these that is installed.
            Names are the index of a pandas frame, and the column ``id`` of others. The other columns are ``label``,
            ``prediction``, ``correct``, ``radius``, ``rival``, ``margin`` and ``unit``; and ``abstained`` or
            ``unlimited`` where the method uses them, and ``may_be_larger`` if radii were computed up to a limit.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> certificates.to_frame(["ham", "ham", "spam"], index=["a", "b", "c"])[["label", "prediction", "radius"]]
          label prediction  radius
        a   ham        ham       7
        b   ham        ham       2
        c  spam       spam       7
        """
        columns: dict[str, Any] = {"prediction": self.prediction, **self._columns()}
        if y_true is not None:
            truth = self.true_classes(y_true)
            columns = {"label": truth, "prediction": self.prediction, "correct": self.prediction == truth, **columns}
        columns["unit"] = np.full(len(self), self.unit)
        columns |= self._flags()
        library = None if self.origin is None else self.origin.library
        names = index if index is not None else self._names()
        if len(names) != len(self):
            raise ValueError(f"index must have one name per certificate, {len(self)}. Got {len(names)} instead.")
        frame = make_frame({"id": names if hasattr(names, "dtype") else list(names), **columns}, library)
        if not hasattr(frame, "iloc"):
            return frame
        frame = frame.drop(columns="id")
        frame.index = names
        return frame

    def _names(self) -> Any:
        """Return the names of the test rows, as a pandas index if they have one."""
        if self.origin is None:
            return np.arange(len(self))
        return self.origin.numbers if self.origin.names is None else self.origin.names

    def _columns(self) -> dict[str, Any]:
        return {"radius": self.radius, "rival": self.rival, "margin": self.margin}

    def _flags(self) -> dict[str, Any]:
        """Return the columns that only some certificates have."""
        flags: dict[str, Any] = {}
        if self.can_abstain:
            flags["abstained"] = self.abstained
        if self.unit in ROW_UNITS:  # elsewhere the radius itself shows it
            flags["unlimited"] = self.unlimited
        if self.radius_limit is not None:
            flags["may_be_larger"] = self.may_be_larger
        return flags

    def explain(
        self, row: Any = None, *, X_train: Any = None, columns: Any = None, model: Any = None, X_test: Any = None
    ) -> Explanation:
        """Explain one prediction: what is guaranteed, and the smallest attack that changes it.

        Parameters
        ----------
        row : name of a test row, optional
            As in the index or the column ``id`` of :meth:`to_frame`. Default: the most fragile row.
        X_train : array or data frame, optional
            Training rows as given to `fit`, to show the contents of those whose labels the attack changes, side by side
            with the test row.
        columns : sequence of str, optional
            Columns to show. Default: the first 20.
        model, X_test : optional
            The fitted model and the test rows, for certificates that do not know them because they were pickled.

        Returns
        -------
        Explanation
            It prints as a table; `to_frame` returns the table.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> print(str(certificates.explain(1)).splitlines()[1])
        The smallest attack changes 3 labels; the prediction is then spam.
        """
        from flipproof import explain  # defined in a higher layer: imported by its public name

        return explain(self, row, X_train=X_train, columns=columns, model=model, X_test=X_test)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        model: object = None,
        X_test: object = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        """Write the certificates and their proof to a file, which ``flipproof verify`` checks.

        Parameters
        ----------
        path : path
            The file to write, usually named ``*.flipproof``. Its format is documented in docs/certificate-format.md.
        model, X_test : optional
            The fitted model and the test rows, for certificates that do not know them because they were pickled. The
            model must not have been fitted again since.
        files : mapping of str to str, optional
            SHA-256 digests of the data files, by name, for the record.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> import tempfile
        >>> from pathlib import Path
        >>> from flipproof import Certificates
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     certificates.save(Path(folder, "proof.flipproof"))
        ...     Certificates.load(Path(folder, "proof.flipproof"))
        <Certificates: 3 predictions, method 'exact', median radius 7 of 40 labels>
        """
        from flipproof import save_certificates  # defined in a higher layer: imported by its public name

        save_certificates(self, path, model=model, X_test=X_test, files=files)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Certificates:
        """Return the certificates in a file that :meth:`save` wrote.

        The digests of the file are checked, but not the proof: ``flipproof verify`` does that.

        Parameters
        ----------
        path : path
            The file to read.

        Returns
        -------
        Certificates
            Without the model: `explain` needs it as an argument.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> import tempfile
        >>> from pathlib import Path
        >>> from flipproof import Certificates
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     certificates.save(Path(folder, "proof.flipproof"))
        ...     Certificates.load(Path(folder, "proof.flipproof")).radius
        array([7, 2, 7])
        """
        from flipproof import load_certificates  # defined in a higher layer: imported by its public name

        found = load_certificates(path)
        if not isinstance(found, Certificates):
            raise ValueError(f"{os.fspath(path)!r} contains intervals of numbers: use CertifiedIntervals.load.")
        return found

    def to_arrow(
        self, *, ids: Sequence[object] | None = None, y_true: ArrayLike | None = None, details: bool = True
    ) -> Any:
        """Return a pyarrow table with one row per test row; facts about all rows are in the schema's metadata.

        Parameters
        ----------
        ids : sequence of m names, optional
            Names of the test rows, for the column ``id``. Default: the index of the pandas frame that was certified.
        y_true : array of shape (m,), optional
            The true classes, for the columns ``label`` and ``correct``.
        details : bool, default=True
            Whether to add the columns that prove the radius, if the method uses noise: ``log_failure``, ``noise`` and a
            ``witness_`` column for each class. Without them, this is the table that ``flipproof certify -o`` writes.
            A column ``unlimited`` is present if `unit` is "rows" or "sources". If radii were computed up to a limit,
            there is a column ``may_be_larger``, and rival and margin are null where the radius reaches the limit.

        Returns
        -------
        pyarrow.Table

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> certificates.to_arrow(ids=["a", "b", "c"]).select(["id", "prediction", "radius"]).to_pydict()
        {'id': ['a', 'b', 'c'], 'prediction': ['ham', 'ham', 'spam'], 'radius': [7, 2, 7]}
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("to_arrow needs pyarrow: pip install 'flipproof[cli]'") from error
        if ids is None and self.origin is not None and self.origin.names is not None:
            ids = self.ids
        columns: dict[str, Any] = {} if ids is None else {"id": column_of(ids)}
        columns |= {"prediction": self.prediction, **self._columns()}
        if y_true is not None:
            truth = self.true_classes(y_true)
            columns |= {"label": truth, "correct": self.prediction == truth}
        columns |= {"method": pa.repeat(self.method, len(self)), "unit": pa.repeat(self.unit, len(self))}
        columns |= self._flags()
        if self.radius_limit is not None:  # not computed
            missing = np.isnan(self.margin)
            columns |= {name: pa.array(getattr(self, name), mask=missing) for name in ("rival", "margin")}
        if details:
            columns |= self.proof_columns()
        about = {
            "method": self.method,
            "n_train": str(self.n_train),
            "unit": self.unit,
            **({"changes": self.changes} if self.unit in ROW_UNITS else {}),
            "n_touchable": str(self.n_touchable),
            "classes": json.dumps(self.classes.tolist()),
            "assumptions": json.dumps([one.to_dict() for one in self.assumptions]),
        }
        return pa.table(columns, metadata=about)

    def proof_columns(self) -> dict[str, Any]:
        """Return the columns that prove the radius; the other methods prove it by the votes."""
        if self.method not in NOISY_METHODS:
            return {}
        witness = {f"witness_{name}": self.witness[:, k] for k, name in enumerate(self.classes)}
        return {"log_failure": self.log_failure, "noise": self.noise_of_rows, **witness}

    @property
    def noise_of_rows(self) -> Floats:
        """The noise of each certificate."""
        return np.broadcast_to(np.asarray(self.noise, dtype=np.float64), len(self))
