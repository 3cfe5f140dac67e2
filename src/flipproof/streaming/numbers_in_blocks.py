"""Ridge regression over rows in blocks, with the same predictions and intervals as in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from flipproof.adversary import Adversary, check_adversary
from flipproof.assumptions import Assumption, as_assumption
from flipproof.core.rounding import Floats, Integers
from flipproof.core.target_sums import MOST_KEPT, PartOfSums, SizesOfMoves, SumsReach, TallyOfMoves
from flipproof.core.targets import USUAL_DEPTH, Units
from flipproof.core.votes import LARGEST_PRECISION, ProductVotes, tiles
from flipproof.intervals import CertifiedIntervals
from flipproof.learners.in_memory import all_or_nothing
from flipproof.learners.label_linear import SMALLEST_PRECISION
from flipproof.learners.number_questions import (
    Answer,
    Question,
    as_question,
    certified_parts,
    limits_of_targets,
    refuse_limits_of_labels,
    turning,
)
from flipproof.learners.numeric_targets import TARGET_RANGE, TargetScale
from flipproof.learners.ridge import RidgeRule, coefficient_products
from flipproof.learners.targets_in_memory import CLIP, PLACEHOLDER_CLASSES, named_after
from flipproof.origins import Origin
from flipproof.parameters import BOOLEAN, N_JOBS, NONE, VERBOSE, Constraints, check_parameters, integer, number, one_of
from flipproof.streaming.blocks import Block
from flipproof.streaming.classifiers import StreamingRidgeClassifier
from flipproof.streaming.passes import Visit
from flipproof.streaming.row_blocks import RowBlocks
from flipproof.streaming.rows_in_blocks import TALLY_BYTES
from flipproof.streaming.target_passes import (
    CountMoves,
    Marked,
    SeeTargets,
    SumTargets,
    TargetRights,
    TargetsSeen,
    VotesOfBlock,
    without_targets,
)

#: Arguments of `fit` that only regressors in memory take.
IN_MEMORY_ONLY = ("sample_weight", "reference")


@named_after("StreamingRidgeRegressor")
class RidgeGeometryInBlocks(StreamingRidgeClassifier):
    """The geometry of ridge regression over rows in blocks; it gets no targets."""

    _labels_are_numbers = True

    def rows_and_targets(self, X: Any, y: Any, trusted: Any, groups: Any) -> RowBlocks:
        """Return rows of any source as row blocks, with their targets."""
        return self._as_rows(X, y, trusted, groups)

    def before_fit(self, summary: Callable[[Block], Any], rows: RowBlocks, client: Any) -> Any:
        """Return the sum of the findings of all blocks, before there is a fit; None if there are no rows."""
        self._client, self._kept = client, None
        self._begin(rows)
        found = self._engine.total(Visit(summary), rows, "Surveying the targets")
        return None if found is None else found.found

    def numbered(self, rows: RowBlocks) -> RowBlocks:
        """Return the rows of the fit with their numbers."""
        return rows.with_columns(self._known.rows_per_part)

    def with_columns(self, rows: RowBlocks, trusted: Any, groups: Any) -> RowBlocks:
        """Return the rows with more trusted rows, or with other annotators."""
        return rows.with_columns(self._known.rows_per_part, trusted, groups, keep_trusted=True)

    def visited(self, summary: Callable[[Block], Any], rows: RowBlocks, says: str) -> Any:
        """Return the sum of the findings of all blocks; refuse rows with other features than in the fit."""
        self._begin()
        return self._total(summary, says, rows)

    def votes_of_blocks(self, products: ProductVotes, rights: TargetRights) -> VotesOfBlock:
        """Return what computes the votes of training rows, block by block."""
        return VotesOfBlock(self._whitening, products, rights)

    def factors(self, Z: Any) -> ProductVotes:
        """Return the factors of the votes on test rows."""
        self._begin()
        return self._products(Z)

    def factors_of_coefficients(self) -> ProductVotes:
        """Return the factors of the votes on coefficients."""
        assert isinstance(self._rule, RidgeRule)
        return coefficient_products(self._rule)

    def _kept_basis(self, rows: RowBlocks) -> RowBlocks | None:
        return None  # blocks that workers keep would have no targets


class StreamingRidgeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Certified ridge regression for training rows that do not fit in memory: in files, blocks or Dask.

    The same learner as :class:`flipproof.CertifiedRidgeRegressor`: predictions, intervals, radii and coefficients are
    identical to the last bit, for any division into blocks and any workers. It keeps only matrices of shape (columns,
    columns). A fit visits the rows seven times, and every few thousand test rows need one more visit; radii beyond 512
    changes, and intervals beyond 4,096, need six to ten more. There are no `worst_changes`, means of groups,
    `reference` and `sample_weight`: these need the rows in memory.

    Parameters
    ----------
    regularization, fit_intercept, clip, target_range, precision
        As in :class:`flipproof.CertifiedRidgeRegressor`.
    features : None
        Must be None: transform the rows first, with :meth:`flipproof.streaming.RowBlocks.map` or Dask's `map_blocks`.
    block_size : int, optional
        Number of test rows certified in one pass; by default as many as fit into 64 MiB of moves.
    n_jobs : int, optional
        Number of threads that visit rows in this process; unused on a cluster. Results do not depend on it.
    verbose : int, default=0
        1: report the progress of each pass over the rows on stderr.

    Attributes
    ----------
    coef_ : floats of shape (k,)
        The coefficients of the columns, as :meth:`certify_coefficients` has them.
    regularization_ : float
        The lambda that was used.
    target_range_ : pair of floats
        The target range that was used.
    n_features_in_ : int
        Number of input columns.

    See Also
    --------
    flipproof.CertifiedRidgeRegressor : Ridge regression for numbers, in memory.
    flipproof.StreamingRidgeClassifier : Ridge regression on more rows than memory.
    flipproof.streaming.RowBlocks : Rows in parts.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from flipproof.streaming import StreamingRidgeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> blocks = [(X[start : start + 100], y[start : start + 100]) for start in range(0, 300, 100)]
    >>> model = StreamingRidgeRegressor(target_range=(25, 350)).fit(blocks)
    >>> found = model.certify(X[300:], flips=5, tolerance=20)
    >>> print(f"{found.prediction[0]:.1f} is between {found.low[0]:.1f} and {found.high[0]:.1f} after any 5 changes")
    191.2 is between 171.5 and 204.9 after any 5 changes
    """

    parameter_constraints: ClassVar[Constraints] = {
        "regularization": one_of("label-free") | number(0, closed="low"),
        "fit_intercept": BOOLEAN,
        "clip": CLIP,
        "target_range": NONE | TARGET_RANGE,
        "precision": integer(SMALLEST_PRECISION, LARGEST_PRECISION, "the bits per vote"),
        "features": NONE.explained("transform the rows first, with RowBlocks.map(f) or map_blocks of a Dask array."),
        "block_size": NONE | integer(1),
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
    }

    #: Functions that are about classes refuse such learners.
    predicts_numbers = True

    holds_training_rows = False

    target_range_: tuple[float, float]
    assumptions_: tuple[Assumption, ...]
    n_rows_: int

    def __init__(
        self,
        *,
        regularization: str | float = "label-free",
        fit_intercept: bool = True,
        clip: str | float | None = None,
        target_range: Any = None,
        precision: int = 16,
        features: None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.target_range = target_range
        self.precision = precision
        self.features = features
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, trusted: Any = None, groups: Any = None, client: Any = None, **unsupported: Any
    ) -> Self:
        """Fit to training rows in blocks, in a few passes over them; targets enter only as what the votes weigh.

        Parameters
        ----------
        X : rows
            As for :meth:`flipproof.StreamingRidgeClassifier.fit`, with numbers instead of labels.
        y : targets
            Array of n numbers; path of NPY files; column of the Parquet files or of the data frame; `dask.array` or
            series. None if the rows include their targets.
        trusted : like `y`, optional
            Booleans: True for rows whose targets nobody can change: they are trusted in every certificate of this
            model.
        groups : like `y`, optional
            The annotator of each row. Radii then count annotators.
        client : distributed.Client, optional
            The cluster that visits the rows, as for the classifier.

        Returns
        -------
        self
        """
        for name in unsupported:
            in_memory = " Use the regressor in memory, which takes it." if name in IN_MEMORY_ONLY else ""
            raise TypeError(f"fit of {type(self).__name__} does not take {name}.{in_memory}")
        with all_or_nothing(self):
            check_parameters(self)
            owner, geometry = type(self).__name__, self._new_geometry()
            given = None if self.target_range is None else (float(self.target_range[0]), float(self.target_range[1]))
            rows = geometry.rows_and_targets(X, y, trusted, groups)
            see = SeeTargets(owner, given)
            seen: TargetsSeen | None = geometry.before_fit(see, rows, client)
            if seen is not None:
                ends = (seen.low, seen.high) if given is None else given
                self._scale = TargetScale.of(owner, ends, given is None, bool(self.fit_intercept))
            self._geometry = geometry.fit(without_targets(rows), client=client)
            self._rows = geometry.numbered(rows)
            self._seen: TargetsSeen = geometry.visited(see, self._rows, "Checking the targets")
            self.n_rows_, self.target_range_ = geometry.n_rows_, self._scale.range
            self._scale.check_sums(owner, self.n_rows_, geometry.precision_, int(self.precision))
            self.n_features_in_, self.regularization_ = geometry.n_features_in_, geometry.regularization_
            self.features_ = None
            self.__dict__.pop("feature_names_in_", None)
            if hasattr(geometry, "feature_names_in_"):
                self.feature_names_in_ = geometry.feature_names_in_
            n_trusted = self.n_rows_ - self._seen.n_free
            self.assumptions_ = self._scale.assumptions(n_trusted, self.n_rows_, geometry.assumptions_, ())
        return self

    def _new_geometry(self) -> RidgeGeometryInBlocks:
        return RidgeGeometryInBlocks(
            regularization=self.regularization,
            fit_intercept=self.fit_intercept,
            clip=self.clip,
            precision=self.precision,
            classes=PLACEHOLDER_CLASSES,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def also_assume(self, assumption: Assumption | str) -> None:
        """Add an assumption to the certificates of this fit."""
        self.assumptions_ = (*self.assumptions_, as_assumption(assumption))

    def predict(self, X: Any) -> Floats:
        """Return the predictions, as floats of shape (m,), in one pass over the training rows.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        floats of shape (m,)
            A number for each test row.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import StreamingRidgeRegressor
        >>> X = np.arange(40.0)[:, None]
        >>> model = StreamingRidgeRegressor(target_range=(0, 80)).fit(X, 2 * X[:, 0])
        >>> model.predict([[5.0], [30.0]]).round()
        array([25., 50.])
        """
        check_is_fitted(self)
        Z, rights = self._geometry.test_rows(X), self._rights(None, self._seen)
        parts = []
        for products in self._factors(Z, None):
            parts.append(
                self._units(products).numbers(self._sums(products, rights, self._rows, self._seen, None).value)
            )
        return np.concatenate(parts)

    def certify(
        self,
        X: Any,
        flips: int | Sequence[int] | None = None,
        *,
        tolerance: float | None = None,
        threshold: float | None = None,
        adversary: Adversary | None = None,
    ) -> CertifiedIntervals:
        """Predict, and certify how far changed training targets can move every prediction.

        Parameters
        ----------
        X : array, data frame, or either in Dask, of shape (m, k)
            Test rows.
        flips, tolerance, threshold
            As for :meth:`flipproof.CertifiedRidgeRegressor.certify`.
        adversary : Adversary, optional
            `trusted`, `groups` and `max_change` limit what an attacker can do. Annotators that it does not give are
            those of `fit`. Default: change any target that is not trusted to any number in the target range.

        Returns
        -------
        CertifiedIntervals

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import StreamingRidgeRegressor
        >>> X = np.arange(40.0)[:, None]
        >>> model = StreamingRidgeRegressor(target_range=(0, 80)).fit(X, 2 * X[:, 0])
        >>> model.certify([[5.0]], flips=[1, 5])
        <CertifiedIntervals: 1 predictions, median widths 5.09 at 1, 23.4 at 5 changed targets>
        """
        check_is_fitted(self)
        question = as_question(type(self).__name__, flips, tolerance, threshold)
        Z = self._geometry.test_rows(X)
        origin = Origin.of(self, X, len(Z))
        return self._certified(partial(self._factors, Z), question, adversary, origin, "prediction")

    @property
    def coef_(self) -> Floats:
        """The coefficients of the columns."""
        return self.certify_coefficients(flips=0).prediction

    def certify_coefficients(
        self, flips: int | Sequence[int] | None = None, *, adversary: Adversary | None = None
    ) -> CertifiedIntervals:
        """Certify how far changed training targets can move each coefficient, and how many reverse its sign.

        As for the regressor in memory: :meth:`flipproof.CertifiedRidgeRegressor.certify_coefficients`.

        Parameters
        ----------
        flips, adversary : optional
            As for :class:`flipproof.CertifiedRidgeRegressor`.

        Returns
        -------
        CertifiedIntervals
            One line per column.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import StreamingRidgeRegressor
        >>> X = np.arange(40.0)[:, None]
        >>> model = StreamingRidgeRegressor(target_range=(0, 80)).fit(X, 2 * X[:, 0])
        >>> model.certify_coefficients(flips=2).low.round(1)
        array([0.7])
        """
        check_is_fitted(self)
        if self.clip is not None:
            raise ValueError("Coefficients need clip=None: clipped votes are not linear in the columns.")
        question, products = (
            as_question(type(self).__name__, flips, None, 0.0),
            self._geometry.factors_of_coefficients(),
        )
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        origin = Origin(np.arange(self.n_features_in_), names=names)

        def in_runs(most: int | None) -> Iterator[ProductVotes]:
            for ends in tiles(len(products.exponent), self._rows_per_pass(most)):
                yield products.on_rows(slice(*ends))

        return self._certified(in_runs, question, adversary, origin, "coefficient")

    def _certified(
        self,
        factors: Callable[[int | None], Iterator[ProductVotes]],
        question: Question,
        adversary: Adversary | None,
        origin: Origin,
        about: str,
    ) -> CertifiedIntervals:
        """Certify all numbers whose votes have some factors, as many in one pass as fit."""
        check_parameters(self, "block_size")
        rows, seen = self._rows_against(adversary)
        rights = self._rights(None if adversary is None else adversary.max_change, seen)
        has_radius = question.tolerance is not None or question.threshold is not None
        most = min(max(*question.flips, USUAL_DEPTH if has_radius else 1), MOST_KEPT)
        if rights.n_groups is not None:
            most = rights.n_groups
        parts: list[tuple[Any, ...]] = []
        for products in factors(most):
            part = self._sums(products, rights, rows, seen, most)
            reach = SumsReach(part, self.n_rows_, partial(self._count, products, rights, rows, seen))
            if about == "coefficient":
                value, low, high, _ = certified_parts(reach, self._units(products, 0.0), question)
                parts.append((value, low, high, turning(reach)))
            else:
                parts.append(certified_parts(reach, self._units(products), question))
        assumptions = (*self.assumptions_, *limits_of_targets(adversary, seen.touchable.n_touchable))
        if seen.names is not None and (adversary is None or adversary.groups is None):
            assumptions += (Assumption("target-annotators", {"n_annotators": len(seen.names)}),)
        answer = Answer(question, seen.touchable, self.target_range_, self.n_rows_, assumptions, adversary, about)
        return answer.intervals(parts, origin)

    def _rows_against(self, adversary: Adversary | None) -> tuple[RowBlocks, TargetsSeen]:
        """Return the rows with the trust and the annotators of an adversary, and what is known of their targets."""
        check_adversary(adversary, self.n_rows_)
        if adversary is None:
            return self._rows, self._seen
        owner = type(self).__name__
        if adversary.changes_rows:
            raise ValueError(
                f"{owner} does not cover Adversary(changes={adversary.changes!r}): use CertifiedRidgeRegressor, which "
                "needs the rows in memory, or omit changes."
            )
        refuse_limits_of_labels(owner, adversary)
        if adversary.trusted is None and adversary.groups is None:
            return self._rows, self._seen
        rows = self._geometry.with_columns(self._rows, adversary.trusted, adversary.groups)
        return rows, self._geometry.visited(SeeTargets(owner, None), rows, "Counting targets")

    def _rights(self, max_change: float | None, seen: TargetsSeen) -> TargetRights:
        return TargetRights(type(self).__name__, self._scale, max_change, seen.names)

    def _factors(self, Z: Any, most: int | None) -> Iterator[ProductVotes]:
        """Yield the factors of the votes on as many test rows as one pass serves."""
        for start, stop in tiles(len(Z), self._rows_per_pass(most)):
            yield self._geometry.factors(Z[start:stop])

    def _rows_per_pass(self, most: int | None) -> int:
        # two sums, and the moves of both directions, of all rows and of a part
        numbers = self.n_features_in_ + 8 + 4 * (most or 0)
        return self.block_size or max(1, TALLY_BYTES // (8 * numbers))

    def _sums(
        self, products: ProductVotes, rights: TargetRights, rows: RowBlocks, seen: TargetsSeen, most: int | None
    ) -> PartOfSums:
        """Return what all training rows contribute to some sums, in one pass over them."""
        work = SumTargets(self._geometry.votes_of_blocks(products, rights), most)
        found: PartOfSums = self._checked(self._geometry.visited(work, rows, "Summing votes"), seen)
        return found

    def _count(
        self,
        products: ProductVotes,
        rights: TargetRights,
        rows: RowBlocks,
        seen: TargetsSeen,
        test_rows: Integers,
        sizes: SizesOfMoves,
    ) -> TallyOfMoves:
        """Count the moves of some of the sums by size, in one pass over the training rows."""
        work = CountMoves(self._geometry.votes_of_blocks(products.on_rows(test_rows), rights), sizes)
        found: TallyOfMoves = self._checked(self._geometry.visited(work, rows, "Counting moves"), seen)
        return found

    def _checked(self, marked: Marked, seen: TargetsSeen) -> Any:
        """Return a finding; refuse that of rows whose targets are not those of the fit."""
        if marked.marks != seen.marks:
            raise ValueError("The training rows have changed since the model was fitted: fit it again.")
        return marked.found

    def _units(self, products: ProductVotes, origin: float | None = None) -> Units:
        """Return how the integers of some test rows become numbers."""
        start = self._scale.origin_value if origin is None else origin
        ones = np.ones(len(products.exponent), dtype=np.int64)
        return Units(start, ones, products.exponent + self._scale.grid.exponent)
