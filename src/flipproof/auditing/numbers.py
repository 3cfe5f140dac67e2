"""`flipproof.audit_numbers`: certified intervals, requirements and a report for numeric targets, in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.auditing.audit_result import PROOF_ENDING
from flipproof.auditing.provenance import Provenance, provenance_of_numbers
from flipproof.auditing.row_groups import groups_of_test_rows
from flipproof.core.rounding import Floats
from flipproof.errors import InputError, Parameter
from flipproof.fitting import Fitted, as_step, require_pyarrow
from flipproof.fitting.regressor import NumberChoice, fit_numbers, number_choices
from flipproof.fitting.sources import Estimator, Source, comes_in_blocks
from flipproof.intervals import CertifiedIntervals
from flipproof.learners.numeric_targets import is_range
from flipproof.origins import Origin, frame_library
from flipproof.requirements import Judgement, Requirement, ShiftRequirement

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.learners.regression import CertifiedRegressor
    from flipproof.tables import TableEncoder, TextLayout
    from flipproof.tables.roles import Rows

#: Numbers of changes of which intervals are shown by default, up to the number of targets.
USUAL_FLIPS = (1, 5, 10, 50, 100)


def audit_numbers(
    train: Source,
    test: Source | None = None,
    *,
    target: str | None = None,
    target_range: object = None,
    learner: str | Estimator = "ridge",
    parameters: Mapping[str, object] | None = None,
    flips: int | Sequence[int] | None = None,
    tolerance: float | None = None,
    threshold: float | None = None,
    by: str | Any = None,
    coefficients: bool = False,
    adversary: Adversary | None = None,
    max_change: float | None = None,
    trusted: str | None = None,
    annotator: str | None = None,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    categories: Sequence[str] = (),
    id: str | None = None,
    scale: str = "auto",
    text_dimensions: int = 200,
    layout: TextLayout | None = None,
    holdout: float | None = None,
    seed: int = 0,
    requirements: Iterable[str | Requirement | ShiftRequirement] = (),
    title: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> NumberAudit:
    """Fit a regressor, certify how far changed training targets can move its predictions, and check requirements.

    The command ``flipproof certify --target COL`` calls this function.

    Parameters
    ----------
    train : path, data frame, pair (X, y), or RowBlocks
        Training rows, as for :func:`flipproof.audit`. Folders and patterns of Parquet files, and RowBlocks, are read in
        blocks, by ridge regression, with `test`; `by` and proofs need rows in memory.
    test : path, data frame, array, or pair (X, y), optional
        Test rows. Targets are optional.
    target : str
        Column of numeric targets. Not for pairs of arrays.
    target_range : pair of numbers, optional
        The lowest and highest possible target. Default: read from the training targets, which is then an assumption.
    learner : str or regressor, default="ridge"
        "ridge", "kernel", "neighbors" or "forest"; or a flipproof regressor, which is cloned.
    parameters : mapping, optional
        Parameters of the regressor, for example ``{"average": "median"}``.
    flips : int, or several, optional
        Numbers of changed targets, or of malicious annotators, of which intervals are computed. Default: 1, 5, 10, 50
        and 100, up to all that can be changed.
    tolerance, threshold : float, optional
        What the radius is about; give one of them. `tolerance`: how far a prediction may move. `threshold`: the number
        that it may not cross.
    by : str, or array of shape (m,), optional
        Column of the test rows, or an array, that divides them into groups. The mean prediction of each group and the
        gaps between groups are then also certified.
    coefficients : bool, default=False
        Whether to certify the coefficients of ridge regression: the interval of each, and how many changes can reverse
        its sign. They are in units of the columns of the table, where these are numbers that are standardised.
    adversary : Adversary, optional
        Adversary for the rows of `train` as given. Default: any target may be changed within the range.
    max_change : float, optional
        How far each target can be moved.
    trusted, annotator : str, optional
        Column that is true for targets that cannot be changed; and column with the annotator of each target. With
        `annotator`, radii count annotators.
    features, drop, text, categories, id, scale, text_dimensions, layout, holdout, seed
        As for :func:`flipproof.audit`.
    requirements : sequence of str, optional
        ``"shift <= 5000 @ 10"``: no prediction moves by more than 5,000 after any 10 changes. ``"shift <= 5000 @ 10 @
        0.95"``: 95 % of predictions do not. ``"radius >= 3 @ 0.95"``: 95 % of the radii are at least 3.
    title : str, optional
        Title of a report.
    progress : callable, optional
        Called with the name of each step before it begins.

    Returns
    -------
    NumberAudit
        Intervals, requirements and whether they are met; `save` writes a report.

    Raises
    ------
    ValueError, OSError
        If any input is invalid. The message is one line.

    See Also
    --------
    flipproof.audit : The same for classes.
    flipproof.CertifiedRidgeRegressor : Ridge regression for numbers.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_diabetes
    >>> rows = load_diabetes(return_X_y=True)
    >>> found = flipproof.audit_numbers(
    ...     rows, holdout=0.2, target_range=(25, 350), tolerance=20, requirements=["shift <= 20 @ 3 @ 0.9"]
    ... )
    >>> found.passed
    True
    """
    require_pyarrow("audit_numbers")
    began = time.perf_counter()
    step = as_step(progress)
    wanted = as_number_requirements(requirements)
    if any(isinstance(one, Requirement) for one in wanted) and tolerance is None and threshold is None:
        raise InputError(
            "a requirement on radii needs ", Parameter("tolerance"), " or ", Parameter("threshold"), " of a radius."
        )
    if target_range is not None and not is_range(target_range):
        raise InputError(
            Parameter("target_range"),
            f": it must be two finite numbers, the lower one first. Got {target_range!r} instead.",
        )
    data, choice = number_choices(
        train,
        test,
        target,
        adversary,
        trusted=trusted,
        annotator=annotator,
        features=features,
        drop=drop,
        text=text,
        categories=categories,
        id=id,
        scale=scale,
        text_dimensions=text_dimensions,
        layout=layout,
        holdout=holdout,
        seed=seed,
        by=by if isinstance(by, str) else None,
    )
    numbers = NumberChoice(learner, parameters, target_range, max_change)
    if comes_in_blocks(train) and by is not None:
        raise InputError(
            Parameter("by"),
            ": means of groups need training rows in memory, but folders, patterns and RowBlocks are "
            "read in blocks. Give a file, or leave it out.",
        )
    if coefficients and not comes_in_blocks(train) and not hasattr(numbers.regressor(), "certify_coefficients"):
        raise InputError(
            Parameter("coefficients"), f": {numbers.name} has none. Use ", Parameter("learner", "ridge"), "."
        )
    fitted = fit_numbers(data, choice, numbers, step)
    groups = groups_of_test_rows(by, fitted.test)
    model: CertifiedRegressor = fitted.model
    step(f"Certifying {len(fitted.test)} predictions")
    asked: dict[str, Any] = {"tolerance": tolerance, "threshold": threshold, "adversary": fitted.adversary}
    number_of_flips = _usual_flips(fitted) if flips is None else flips
    found = model.certify(fitted.X_test, number_of_flips, **asked)
    if found.origin is not None:
        found = replace(found, origin=replace(found.origin, names=fitted.test.ids, library=frame_library(train)))
    means, gaps = None, None
    if groups is not None:
        step("Certifying the means of groups")
        means = model.certify_means(fitted.X_test, groups, number_of_flips, **asked)
        if len(means) > 1:
            gaps = model.certify_gaps(fitted.X_test, groups, number_of_flips, **asked)
    lines = None
    if coefficients:
        step("Certifying the coefficients")
        lines = _in_units_of_columns(
            model.certify_coefficients(number_of_flips, adversary=fitted.adversary),
            fitted,
        )
    judged = tuple(_judge(one, found, fitted) for one in wanted)
    return NumberAudit(
        intervals=found,
        means=means,
        gaps=gaps,
        coefficients=lines,
        requirements=judged,
        model=model,
        encoder=fitted.encoder,
        X_test=fitted.X_test,
        train=fitted.train,
        test=fitted.test,
        adversary=fitted.adversary,
        provenance=provenance_of_numbers(data, numbers, fitted, began),
        title=title,
    )


@dataclass(frozen=True, repr=False, eq=False)
class NumberAudit:
    """Result of :func:`flipproof.audit_numbers`.

    Attributes
    ----------
    intervals : CertifiedIntervals
        One interval per test row.
    means, gaps : CertifiedIntervals or None
        Mean predictions of groups of test rows, and gaps between groups, if `by` was given.
    coefficients : CertifiedIntervals or None
        Coefficients of the columns, if they were asked for.
    requirements : tuple of Judgement
        For each requirement, the share found and whether it `passed`.
    model : CertifiedRegressor
        The fitted regressor. Its input is the output of `encoder`.
    encoder : TableEncoder or None
        Encoder of the columns; None if the rows were given as numbers.
    X_test : array of shape (m, k)
        Features of the test rows, as input of `model`.
    train, test : Rows
        Rows, with their targets as `labels`, and `ids`.
    adversary : Adversary or None
        The adversary of the certificates.
    provenance : Provenance
        Data, learner, checksums and versions.
    title : str or None
        Title of a report.

    See Also
    --------
    flipproof.audit_numbers : From a table to certified intervals and a report.
    flipproof.CertifiedIntervals : Exact intervals of regressors.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> result = flipproof.audit_numbers((X, y), holdout=0.25, target_range=(25, 350), flips=5)
    >>> result.passed, len(result.intervals)
    (True, 110)
    """

    intervals: CertifiedIntervals
    means: CertifiedIntervals | None
    gaps: CertifiedIntervals | None
    coefficients: CertifiedIntervals | None
    requirements: tuple[Judgement, ...]
    model: Any
    encoder: TableEncoder | None
    X_test: NDArray[Any]
    train: Rows | None
    test: Rows
    adversary: Adversary | None
    provenance: Provenance
    title: str | None = None

    @property
    def passed(self) -> bool:
        """Whether all requirements are met; True if there are none."""
        return all(one.passed for one in self.requirements)

    def __repr__(self) -> str:
        source = self.provenance
        lines = [
            f"<NumberAudit: {source.learner['name']}, {source.n_train:,} training rows, {source.n_test:,} test rows",
            f"  {self.intervals!r}",
        ]
        lines += [f"  {'met' if one.passed else 'NOT MET'}: {one.text}" for one in self.requirements]
        return "\n".join(lines) + ">"

    def to_arrow(self) -> pa.Table:
        """Return a table with one line per test row; it has a column ``target`` if targets of test rows are known.

        Returns
        -------
        pyarrow.Table
            Intervals, with the ids of the test rows.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [float(i % 20) for i in range(80)]
        >>> result = flipproof.audit_numbers((X, y), holdout=0.25, target_range=(0, 20), flips=2)
        >>> result.to_arrow().num_rows
        20
        """
        return self.intervals.to_arrow(ids=self.test.ids, y_true=self._targets())

    def to_frame(self) -> Any:
        """Return a data frame with one line per test row, as :meth:`CertifiedIntervals.to_frame`.

        Returns
        -------
        data frame
            Of the same library as the training rows.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [float(i % 20) for i in range(80)]
        >>> result = flipproof.audit_numbers((X, y), holdout=0.25, target_range=(0, 20), flips=2)
        >>> result.to_frame().shape[0]
        20
        """
        return self.intervals.to_frame(self._targets())

    def _targets(self) -> Floats | None:
        """Return the targets of the test rows; None if they are not known."""
        return None if self.test.labels is None else np.asarray(self.test.labels, dtype=np.float64)

    def summary(self, **facts: object) -> dict[str, Any]:
        """Return the content of a report, in JSON types only.

        Parameters
        ----------
        **facts
            Further facts, for example ``command="make audit"``.

        Returns
        -------
        dict
            What ``save`` writes to a .json file.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [float(i % 20) for i in range(80)]
        >>> result = flipproof.audit_numbers((X, y), holdout=0.25, target_range=(0, 20), flips=2)
        >>> sorted(result.summary(command="make audit"))[:3]
        ['assumptions', 'coefficients', 'created']
        """
        from flipproof.report.interval_report import summarize_numbers

        return summarize_numbers(
            self.intervals,
            y_true=self._targets(),
            means=self.means,
            gaps=self.gaps,
            coefficients=self.coefficients,
            requirement=[one.facts for one in self.requirements],
            facts=self.provenance.facts(**facts),
            title=self.title,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a report: .html, .md, or .json (which `flipproof report` converts); or a proof, .flipproof.

        Parameters
        ----------
        path : path
            The file to write.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [float(i % 20) for i in range(80)]
        >>> result = flipproof.audit_numbers((X, y), holdout=0.25, target_range=(0, 20), flips=2)
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.save(os.path.join(folder, "report.html"))
        ...     print(os.listdir(folder))
        ['report.html']
        """
        from flipproof.report.rendering import save_report

        if Path(path).suffix.lower() == PROOF_ENDING:
            self.save_proof(path)
            return
        save_report(self.summary, path)

    def save_proof(self, path: str | os.PathLike[str], outputs: Mapping[str, str] | None = None) -> None:
        """Write the intervals of the predictions and their proof, with the digests of data files.

        Parameters
        ----------
        path : path
            The file, usually named ``*.flipproof``, which ``flipproof verify`` checks.
        outputs : mapping of str to str, optional
            SHA-256 digests of files that were written with the intervals, by name, for the record.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [float(i % 20) for i in range(80)]
        >>> result = flipproof.audit_numbers((X, y), holdout=0.25, target_range=(0, 20), flips=2)
        >>> import os, tempfile
        >>> import flipproof_verify
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "proof.flipproof")
        ...     result.save_proof(path)
        ...     print(flipproof_verify.verify(path).verdict)
        VERIFIED
        """
        from flipproof import save_certificates

        save_certificates(
            self.intervals,
            path,
            model=self.model,
            X_test=self.X_test,
            files=self.provenance.digests,
            outputs=outputs,
        )


def as_number_requirements(
    given: Iterable[str | Requirement | ShiftRequirement],
) -> tuple[Requirement | ShiftRequirement, ...]:
    """Return requirements on numbers; parse those given as text."""
    listed = (given,) if isinstance(given, str | Requirement | ShiftRequirement) else tuple(given)
    found: list[Requirement | ShiftRequirement] = []
    for one in listed:
        if not isinstance(one, str):
            found.append(one)
        elif one.strip().lower().startswith("radius"):
            found.append(Requirement.parse(one))
        else:
            found.append(ShiftRequirement.parse(one))
    for one in found:
        if one.measure not in ("shift", "radius"):
            raise InputError(f"{one.text} is about classes: numeric targets have requirements on shifts and radii.")
    return tuple(found)


def _judge(one: Requirement | ShiftRequirement, found: CertifiedIntervals, fitted: Fitted) -> Judgement:
    """Compare a requirement with exact radii."""
    if isinstance(one, ShiftRequirement):
        return one.judge(fitted.model.certify(fitted.X_test, tolerance=one.tolerance, adversary=fitted.adversary))
    share = float(np.count_nonzero(found.certified_at(one.flips)) / len(found))
    return Judgement(one, share, share >= one.share)


def _usual_flips(fitted: Fitted) -> list[int]:
    """Return the usual numbers of changes, up to what the adversary can change."""
    n_touchable = fitted.model.certify(fitted.X_test[:1], 0, adversary=fitted.adversary).n_touchable
    return [one for one in USUAL_FLIPS if one <= n_touchable] or [n_touchable]


def _in_units_of_columns(found: CertifiedIntervals, fitted: Fitted) -> CertifiedIntervals:
    """Return coefficients of encoded columns as those of the columns of the table, with their names.

    Soundness: scales are positive and read no target, so that multiplication by them keeps the order of numbers.
    """
    if fitted.encoder is None or fitted.model.features_ is not None:
        return found
    features = fitted.encoder.encoded_features()
    scales = np.array([one.scale for one in features])
    ends = scales.reshape(-1, *(1,) * (found.low.ndim - 1))
    return replace(
        found,
        prediction=found.prediction * scales,
        low=found.low * ends,
        high=found.high * ends,
        origin=Origin(np.arange(len(features)), names=[one.name for one in features]),
    )
