"""`Report`: the report of a fitted model on test rows, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.attacks.label_audit import LabelAudit, attack_most_fragile
from flipproof.attacks.result import AttackResult
from flipproof.certificate_words import ROW_UNITS
from flipproof.certificates import Certificates
from flipproof.core.provider import can_be_attacked
from flipproof.displays.notebook import notebook_view
from flipproof.learners.pipeline import certify, learner_in
from flipproof.report.as_json import plain_value
from flipproof.report.rendering import save_report
from flipproof.report.summary import summarize


@dataclass(frozen=True, repr=False, eq=False)
class Report:
    """The report of a fitted model on test rows: certificates, attacks and labels to check first.

    Make one by ``model.report(X, y)``, or by :meth:`from_estimator` for a Pipeline or a search. `flipproof.audit` also
    reads and encodes files, and checks requirements.

    Attributes
    ----------
    certificates : Certificates
        Certificates of the test rows.
    y_true : array of shape (m,) or None
        True classes of the test rows.
    attacks : AttackResult or None
        The smallest attacks on the most fragile predictions; None if no exact attack is known.
    labels_to_audit : LabelAudit or None
        The training labels that are part of the most attacks.
    title : str or None
        Title of the report.
    flips : tuple of int or None
        Numbers of flips in its tables.

    See Also
    --------
    flipproof.audit : From a table to certificates, attacks and a report.
    flipproof.compare : Several models on the same test rows.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from flipproof import CertifiedRidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> report = model.report(X[400:], y[400:])
    >>> report
    <Report: CertifiedRidgeClassifier, <Certificates: 169 predictions, method 'exact', median radius 64 of 400 labels>>
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.save(os.path.join(folder, "report.html"))
    """

    certificates: Certificates
    y_true: NDArray[Any] | None
    attacks: AttackResult | None
    labels_to_audit: LabelAudit | None
    title: str | None = None
    flips: tuple[int, ...] | None = None
    _learner: Any = field(default=None)

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: object,
        y: object = None,
        *,
        method: str | None = None,
        adversary: Adversary | None = None,
        attack: bool = True,
        title: str | None = None,
        flips: Sequence[int] | None = None,
    ) -> Report:
        """Certify test rows, attack the most fragile predictions, and return the report.

        Parameters
        ----------
        estimator : learner, Pipeline or search
            Fitted.
        X : array or data frame
            Test rows. The index of a pandas frame names them in the report.
        y : array or Series, optional
            Their true classes.
        method : {"exact", "tight", "kl"}, optional
            Default: the learner's `method`.
        adversary : Adversary, optional
            What an attacker can do. Default: change any label to any class.
        attack : bool, default=True
            Whether to attack the most fragile predictions, at most 1,000. This requires a label-linear learner,
            training rows in memory and the method "exact".
        title : str, optional
            Title of the report.
        flips : sequence of int, optional
            Numbers of flips in its tables.

        Returns
        -------
        Report

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import Report
        >>> report = Report.from_estimator(model, [[5.0], [30.0]], ["ham", "spam"], flips=[0, 2])
        >>> report.to_frame().shape[0]
        2
        """
        certificates = certify(estimator, X, method, adversary)
        truth = None if y is None else certificates.true_classes(y)
        learner, attacks, to_audit = learner_in(estimator), None, None
        is_known = can_be_attacked(learner)
        if attack and is_known and certificates.method == "exact" and certificates.unit not in ROW_UNITS:
            attacks, to_audit = attack_most_fragile(estimator, X, certificates=certificates)
        return cls(certificates, truth, attacks, to_audit, title, None if flips is None else tuple(flips), learner)

    def __repr__(self) -> str:
        return f"<Report: {type(self._learner).__name__}, {self.certificates!r}>"

    def _repr_html_(self) -> str:
        """Return the view for notebooks."""
        return notebook_view(self.certificates, self.y_true)

    def to_frame(self) -> Any:
        """Return the certificates as a data frame, as :meth:`flipproof.Certificates.to_frame` does.

        Returns
        -------
        data frame
            One line per test row.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> model.report([[5.0], [30.0]], ["ham", "spam"]).to_frame()[["prediction", "radius"]]
          prediction  radius
        0        ham       7
        1       spam       7
        """
        return self.certificates.to_frame(self.y_true)

    def summary(self, **facts: object) -> dict[str, Any]:
        """Return the content of the report, in JSON types only.

        Parameters
        ----------
        **facts
            Further facts, for example ``data="emails of May"``.

        Returns
        -------
        dict
            What ``save`` writes to a .json file.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> sorted(model.report([[5.0], [30.0]], ["ham", "spam"]).summary())[:3]
        ['assumptions', 'attack', 'audit']
        """
        learner, n_train = self._learner, self.certificates.n_train
        names, codes = getattr(learner, "row_names_", None), getattr(learner, "label_codes_", None)
        return summarize(
            {self.certificates.method: self.certificates},
            y_true=self.y_true,
            train_ids=names if names is not None and len(names) == n_train else None,
            y_train=learner.classes_[codes] if codes is not None and len(codes) == n_train else None,
            attack=self.attacks,
            audit=self.labels_to_audit,
            facts={"learner": _parameters_of(learner), **facts},
            flips=self.flips,
            title=self.title,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report: .html, .md, or .json (which `flipproof report` converts).

        Parameters
        ----------
        path : path
            The file to write.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.report([[5.0], [30.0]], ["ham", "spam"]).save(os.path.join(folder, "report.html"))
        ...     print(os.listdir(folder))
        ['report.html']
        """
        save_report(self.summary, path)


def _parameters_of(learner: Any) -> Mapping[str, Any]:
    """Return the name of a learner and its parameters as plain values."""
    own = {name: value for name, value in learner.get_params(deep=False).items() if name != "verbose"}
    plain = {name: str(value) if hasattr(value, "get_params") else plain_value(value) for name, value in own.items()}
    return {"name": type(learner).__name__, **plain}
