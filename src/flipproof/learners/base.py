"""What all label-linear learners in memory share: fit, predict, certify."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import ceil
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from flipproof.adversary import Adversary, adversary_assumptions
from flipproof.annotations import Annotations
from flipproof.assumptions import Assumption, as_assumption
from flipproof.certificates import Certificates
from flipproof.core.engine import (
    ESTIMATED_ROWS,
    CertifiedBlock,
    certify_counted,
    certify_groups_exactly,
    certify_majorities,
    certify_many_bits,
    certify_rows,
    certify_sources,
    certify_windows,
    check_blocks,
    estimated_winners,
    grid_offsets,
    predicted_codes,
    unvisited,
)
from flipproof.core.gains import withstands
from flipproof.core.growth import appended
from flipproof.core.histograms import block_rows, changeable_histogram
from flipproof.core.majority import MajorityPowers
from flipproof.core.many_bits import can_count_leading_bits, count_leading_bits
from flipproof.core.powers import Powers, Scope
from flipproof.core.rounding import Floats, Integers, scale
from flipproof.core.votes import (
    EstimatedScores,
    VoteSource,
    all_votes,
    class_scores,
    group_cells,
    group_votes,
    tiles,
)
from flipproof.learners.geometry import LabelFreeVotes
from flipproof.learners.in_memory import all_or_nothing
from flipproof.learners.label_linear import MEMORY_BUDGET, MOST_ROWS, LabelLinearParameters
from flipproof.learners.prior import (
    features_in,
)
from flipproof.learners.statements import (
    Statement,
    assumptions_against,
    check_limit,
    check_method,
    checked_rates,
    class_values,
    noises_to_try,
    random_error_bounds,
    refuse_noise_against_rows,
    resolve_noise,
    up_to,
)
from flipproof.origins import Origin
from flipproof.parameters import (
    check_parameters,
)
from flipproof.runtime.determinism import single_threaded
from flipproof.runtime.progress import RowProgress

Result = TypeVar("Result")


class LabelLinearClassifier(LabelLinearParameters, LabelFreeVotes):
    """A classifier whose class scores are sums of label-free votes of the training labels; subclass it to add one.

    A subclass defines the weight of every training row for a test row: `fit_without_labels` gets the training features,
    `label_free_weights` the test features, and neither gets a label. Predictions, certificates and attacks are derived
    from these weights. :func:`flipproof.checks.check_certifier` tries every attack on small problems.

    To support ``fit(X, y, reference=...)``, and so certificates against added, removed and replaced rows, a subclass
    also defines `weight_of_row`: the weight of one training row for one test row. `fit_without_labels` then gets the
    reference.

    `label_free_weights` is called with one test row at a time. For speed, override :meth:`label_free_votes` instead, as
    the learners in flipproof do. In both cases, attacks and collective certificates get the votes through the methods
    of :class:`flipproof.core.provider.VoteProvider`.

    Parameters
    ----------
    noise : float, LabelFlip or "auto", default=0.1
        Noise q of the certificates ``"kl"`` and ``"tight"``; 0 < q < (K - 1) / K. The exact certificate needs no noise.
        ``"auto"``: the best of a grid of q for each test row.
    clip : "sign" or float, optional
        Limits the votes on each test row, so that no row has a much larger vote. A share in (0, 1]: votes are
        clipped to the size that this share of all votes other than 0 do not exceed. ``"sign"``: every vote is -1, 0 or
        1. Clipping usually increases radii; see `docs/poisoned-rows.md`.
    prior : classifier, optional
        A classifier that votes beside the training labels. If it is fitted, on data that nobody can change, it is used
        as it is; otherwise it is cloned and fitted to the trusted rows and labels of :meth:`fit`. It gets rows as they
        are given, before `features`. See `docs/trusted-labels.md`.
    prior_weight : float, default=1.0
        Weight of the prior. With 1, it counts as much as the votes of all rows that the geometry was learned from.
    method : {"exact", "tight", "kl"}, default="exact"
        Default of :meth:`certify`.
    precision : int, default=10
        Bits per vote, 2 to 24. Weights are rounded to integer votes; predictions and certificates both use these votes.
    features : transformer, optional
        Cloned and fitted on the training features *without* labels; a step that needs labels gets trusted ones only,
        see :meth:`fit`. Random states that are not integers are set to 0.
    classes : array of shape (K,), optional
        The class set. If omitted, it is read from the labels, and certificates assume that it is fixed.
    block_size : int, optional
        Test rows certified at a time; by default as many as fit in 256 MiB. It does not affect results.
    n_jobs : int, optional
        Threads over blocks of test rows, as in joblib. It does not affect results.
    verbose : int, default=0
        1: show progress and the time left on stderr in `fit`, `predict` and `certify`. It does not affect results.

    See Also
    --------
    flipproof.checks.check_certifier : Try every attack on small problems.
    flipproof.CertifiedRidgeClassifier : Ridge regression, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof import LabelLinearClassifier
    >>> class ParzenWindow(LabelLinearClassifier):
    ...     def fit_without_labels(self, X):
    ...         self.rows_ = X
    ...     def label_free_weights(self, Z):
    ...         return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))
    ...     def weight_of_row(self, x, z):
    ...         return np.exp(-np.abs(z - x).sum())
    >>> model = ParzenWindow(classes=[0, 1]).fit([[0.0], [0.2], [0.4], [3.0]], [0, 0, 0, 1])
    >>> model.certify([[0.1]]).radius
    array([1])
    """

    covers_windows = True

    def fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        reference: object = None,
        reference_labels: object = None,
        trusted: object = None,
    ) -> LabelLinearClassifier:
        """Fit to training features and labels; labels that are not trusted enter only as votes.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            Training features, or the input of `features`.
        y : array of shape (n,), or Annotations
            Training labels: numbers, strings or booleans. :class:`flipproof.Annotations`: several labels per row.
        sample_weight : array of shape (n,), optional
            Weights of the labels, finite and not negative: a label has the vote of its row times its weight, rounded
            to the grid. Only the ratios of weights matter. They must have been chosen without labels; the geometry
            does not depend on them. Not against changed rows.
        reference : array or data frame of shape (r, k), optional
            Rows that nobody may have changed; their labels are not needed. If given, everything but the votes is
            learned from them, the `features` step included, and nothing from the training rows: certificates against
            added, removed and replaced rows, ``Adversary(changes="rows")``, are then possible. With a pretrained
            encoder as `features`, a few rows are enough.
        reference_labels : array of shape (r,), optional
            Trusted labels of the reference: nobody may have changed them. A `features` step that needs labels, an
            unfitted `prior` and trees with ``grow="supervised"`` are fitted to the reference and these labels.
        trusted : booleans of shape (n,), optional
            True for training rows whose labels nobody can change: they are trusted in every certificate of this model.
            Without `reference_labels`, what needs trusted labels is fitted to these rows. If rows can be changed, these
            rows cannot be removed or replaced.

        Returns
        -------
        self

        Examples
        --------
        >>> from flipproof import CertifiedRidgeClassifier
        >>> model = CertifiedRidgeClassifier(classes=["ham", "spam"])
        >>> model.fit([[0.0], [0.2], [3.0], [3.1]], ["ham", "ham", "spam", "spam"]).predict([[0.1]])
        array(['ham'], dtype='<U4')
        """
        return self._fit(
            X,
            y,
            sample_weight=sample_weight,
            reference=reference,
            reference_labels=reference_labels,
            trusted=trusted,
        )

    def _fit(
        self,
        X: object,
        y: object,
        *,
        sample_weight: object = None,
        unlabeled: object = None,
        reference: object = None,
        reference_labels: object = None,
        trusted: object = None,
    ) -> LabelLinearClassifier:
        with all_or_nothing(self):
            given, given_reference = X, reference
            for name in ("_ballots", "_votes_are", "_majority"):  # of an earlier fit
                self.__dict__.pop(name, None)
            annotations = y if isinstance(y, Annotations) else None
            if annotations is not None:
                y = self._one_label_per_item(X, annotations, sample_weight, unlabeled, trusted)
            X, reference = self._read_training_rows(X, y, unlabeled, reference, reference_labels, trusted)
            if annotations is None and sample_weight is not None:
                self._weigh_labels(X, sample_weight)
            self._learn_from_trusted(X, reference)
            self.weighted_prior_ = self.prepare_prior(given, given_reference)
            self.precision_, self._clip = int(self.precision), self.clip
            self._placed: Any = None  # what the votes of training rows depend on; kept if rows can join or leave
            self._reference_held: Any = None
            learned_from = X if reference is None else reference
            placed = self.fit_without_labels(learned_from.copy() if self._gets_a_copy else learned_from)
            if reference is not None:
                self._reference_held = self.hold(self.place(reference) if placed is None else placed)
                placed = self._placed = self.place(X)
            self._held: Any = None if placed is None else self.hold(placed)
            self.noise_ = resolve_noise(
                self.noise, len(self.classes_), self.rule_depends_on_noise(), type(self).__name__
            )
            self._fit_with_labels(self.label_codes_)
            if annotations is not None:
                self._keep_annotations(annotations)
            if self._ballots is not None and self._ballots.weight is not None:
                self.precision_ = max(self.precision_, int(self.precision))  # votes of uniform learners have fewer bits
            if self._ballots is not None and self.rule_depends_on_noise():
                raise ValueError(
                    f"{type(self).__name__} without an intercept adds up the votes of all rows, so {self._votes_are} "
                    "would move its threshold. Set fit_intercept=True."
                )
            own = map(as_assumption, self.learner_assumptions())
            self.assumptions_ = (*self.common_assumptions(), *self._ballot_assumptions(), *own)
            self.forget_trusted_part()
        return self

    def _learn_from_trusted(self, X: Floats, reference: Floats | None) -> None:
        """Let the learner read trusted labels, if there are any: those of the reference, or of training rows."""
        found = self._trusted_codes()
        if found is None:
            return
        trusted, codes = found
        rows = reference if trusted.numbers is None else X[trusted.numbers]
        assert rows is not None
        self.label_readers_ = (*self.label_readers_, *self.learn_from_trusted(rows.copy(), codes))

    def _vote_too(self, rows: Floats) -> None:
        self._refuse_ballots("partial_fit")
        n_before = len(self._placed)
        self._placed = appended(self._placed, self.place(rows))
        self._held = self.hold_more(self._held, self._placed, n_before)
        self._fit_with_more_labels(self.label_codes_, n_before)

    def _vote_only(self, kept: Integers) -> None:
        self._refuse_ballots("forget")
        self._placed = self._placed[kept]
        self._held = self.hold(self._placed)
        self._fit_with_labels(self.label_codes_)

    def recount(self) -> None:
        """Compute again what follows from geometry, rows and labels: for a model that was read from a file."""
        if self._placed is not None:
            self._held = self.hold(self._placed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit has shown them
            has_annotations = self._ballots is not None and self._ballots.row is not None
            codes = np.arange(self.n_rows_) % len(self.classes_) if has_annotations else self.label_codes_
            self._fit_with_labels(codes)

    def predict(self, X: object) -> NDArray[Any]:
        """Return the predicted classes; ties go to the class that sorts lowest.

        Rows whose estimated lead exceeds the proven error of the estimate are decided by the estimate, all others by
        counting votes. The result is always the same as by counting votes.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        array of shape (m,)
            A class for each test row.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> model.predict([[5.0], [30.0]])
        array(['ham', 'spam'], dtype='<U4')
        """
        Z = self.test_rows(X)
        codes = self._in_pieces(Z, lambda rows: predicted_codes(rows, self._estimate, self._scores))
        return np.asarray(self.classes_[np.concatenate(codes)])

    def _in_pieces(self, Z: Any, compute: Callable[[Any], Result]) -> list[Result]:
        """Return what `compute` returns for all test rows, one after another; in pieces if progress is shown."""
        with RowProgress(len(Z), self.verbose) as progress:
            parts = []
            for rows in progress.pieces([slice(0, len(Z))]):
                with progress.piece(rows.stop - rows.start):
                    parts.append(compute(Z[rows]))
            return parts

    def _estimate(self, Z: Any) -> EstimatedScores | None:
        """Return the estimated scores of the deployed rule, or None.

        Where votes have a limit, the estimate does not know which of them are clipped. It does not know the total of
        all votes either, which a prior needs.
        """
        if self._clip is not None or self.n_reference_ is not None or self.weighted_prior_ is not None:
            return None
        if self._ballots is not None:  # the estimate knows one label of weight 1 per row
            return None
        estimate = self._estimated_scores(Z)
        if estimate is None or self.noise_ is None:
            return estimate
        offsets = self._deployed_offsets(estimate.scores.sum(axis=1), estimate.exponent)
        return estimate if offsets is None else estimate.with_offsets(offsets, self.noise_.signal)

    def decision_function(self, X: object) -> Floats:
        """Return the class scores of the deployed rule, shape (m, K); with two classes their difference, shape (m,).

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        floats of shape (m, K), or (m,) for two classes
            The scores. The class with the highest one is predicted.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> model.decision_function([[5.0], [19.6]])
        array([-15.,   1.])
        """
        parts = self._in_pieces(self.test_rows(X), self._scores)
        return class_values(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def vote_weights(self, X: object) -> tuple[Floats, Floats]:
        """Return the weights alpha (m, n) and offsets (m, K) of the prediction, in the paper's notation.

        ``argmax(alpha @ onehot(y) + offsets)`` is the prediction for any labels y. The result is a dense array of m
        times n numbers: call this on a few rows.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        pair of arrays
            Weights of shape (m, n), and offsets of shape (m, K).

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> alpha, offsets = model.vote_weights([[5.0], [17.4]])
        >>> alpha.shape, offsets.shape
        ((2, 40), (2, 2))
        >>> onehot = np.array(y)[:, None] == model.classes_
        >>> model.classes_[np.argmax(alpha @ onehot + offsets, axis=1)]
        array(['ham', 'ham'], dtype='<U4')
        """
        source = self.votes_on(self.test_rows(X))
        votes = all_votes(source)
        offsets = self.offsets_on(source, votes.sum(axis=1).astype(np.int64))
        down = -source.exponent[:, None]
        return scale(votes, down), scale(offsets.astype(np.float64), down)

    def certify(
        self, X: object, method: str | None = None, adversary: Adversary | None = None, at_least: int | None = None
    ) -> Certificates:
        """Predict, and certify every prediction.

        With `at_least`, a radius is the smaller of the exact radius and this limit: never another number. Where bounds
        suffice, the votes of the training rows are not computed at all. This is much faster if most radii are far above
        the limit.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        method : {"exact", "tight", "kl"}, optional
            ``"exact"``: the largest radius that holds. ``"kl"`` and ``"tight"``: by noise on the labels, as in the
            paper. All three certify what :meth:`predict` returns. Default: the learner's `method`.
        adversary : Adversary, optional
            What an attacker can do to the labels, or to whole rows. Default: change any label to any class.
        at_least : int, optional
            Compute radii only up to this limit: a radius that reaches it may be larger in truth, and its row has no
            rival and no margin. See :attr:`Certificates.radius_limit`.

        Returns
        -------
        Certificates

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import Adversary
        >>> model.certify([[5.0], [17.4]]).radius
        array([7, 2])
        >>> model.certify([[5.0], [17.4]], adversary=Adversary(allowed=[("ham", "spam")])).radius
        array([7, 2])
        """
        method = check_method(self.method if method is None else method, type(self).__name__)
        Z, like = self._different(self.test_rows(X))
        powers = self.powers(adversary)
        if powers.changes != "labels":
            self._check_row_changes(method, powers)
        if isinstance(powers, MajorityPowers) and method != "exact":
            raise ValueError(
                f"The method {method!r} does not cover majorities, Annotations(..., aggregate='majority'): use "
                "method='exact'."
            )
        if powers.window_ends is not None and method != "exact":
            raise ValueError(f"The method {method!r} does not cover Adversary(window=...): use method='exact'.")
        check_limit(type(self).__name__, at_least, method)
        n_jobs = effective_n_jobs(self.n_jobs)
        decided, like, Z = self._decided_up_to(Z, like, at_least, powers)
        n_alike = np.bincount(like, minlength=len(Z))
        with RowProgress(int(n_alike[: len(Z)].sum()), self.verbose) as progress:

            def certified(rows: slice) -> CertifiedBlock:
                with progress.piece(rows.stop - rows.start, int(n_alike[rows].sum())):
                    found = self._certify_block(Z[rows], method, powers)
                    check_blocks([found], powers.scope, *estimated_winners(Z[rows], self._estimate))
                    return found

            pieces = progress.pieces(self.blocks(len(Z), n_jobs, powers))
            if n_jobs == 1:
                parts = [certified(rows) for rows in pieces]
            else:
                with single_threaded("blas"):
                    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(certified)(rows) for rows in pieces)
        parts += decided
        limits = adversary_assumptions(adversary, powers.scope, method)
        statement = Statement(
            method=method,
            noise=self.noise_,
            classes=self.classes_,
            n_labels=self.n_labels_,
            assumptions=(*self._assumptions_against(powers.scope, parts), *limits),
            adversary=adversary,
            scope=powers.scope,
        )
        found = statement.certificates(parts, Origin.of(self, X, len(like)), like)
        return found if at_least is None else up_to(found, at_least)

    def _decided_up_to(
        self, Z: Any, like: Integers, at_least: int | None, powers: Powers
    ) -> tuple[list[CertifiedBlock], Integers, Any]:
        """Decide the test rows whose radii provably reach the limit without visiting training rows.

        Returns their certificates, the index of each test row's certificates if those are placed behind the ones of the
        open rows, and the open rows.

        Soundness: :func:`flipproof.core.gains.withstands`. Any groups have at most as many labels as the largest ones.
        """
        is_plain = powers.changes == "labels" and powers.window_ends is None and not isinstance(powers, MajorityPowers)
        if at_least is None or not is_plain or not len(Z) or self._estimate(Z[:1]) is None:
            return [], like, Z
        held = self._products_held()
        if held is None:
            return [], like, Z
        products, bounds = held
        radius = min(at_least, powers.scope.n_touchable)
        flips = int(powers.scope.rows_of_groups(np.array([radius]))[0])
        winner, exponent = np.zeros((2, len(Z)), dtype=np.int64)
        is_decided = np.zeros(len(Z), dtype=bool)
        for start, stop in tiles(len(Z), ESTIMATED_ROWS):
            estimated = self._estimate(Z[start:stop])
            assert estimated is not None
            exponent[start:stop] = estimated.exponent
            winner[start:stop], is_decided[start:stop] = withstands(estimated, products(Z[start:stop]), bounds, flips)
        order = np.concatenate([np.flatnonzero(~is_decided), np.flatnonzero(is_decided)])
        place = np.empty(len(Z), dtype=np.int64)
        place[order] = np.arange(len(Z))
        n_classes = len(self.classes_)
        decided = unvisited(winner[is_decided], exponent[is_decided], n_classes, radius, powers.scope)
        return [decided], place[like], Z[~is_decided]

    def random_error_bound(
        self, X: object, rate: Any = 0.05, direction: str = "worst", trusted: ArrayLike | None = None
    ) -> Floats:
        """Bound the probability that random errors in the training labels change each prediction.

        If each of these labels, except trusted ones, were changed independently at random, the classifier trained on
        the result would predict another class with at most this probability. It is about random changes of the labels
        as given: it does not say what follows if a share of them is wrong. For errors that depend on each other, such
        as the habits of an annotator, certify against annotators instead.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        rate : float, or several, default=0.05
            Probability that a label is changed, 0 to 1.
        direction : {"worst", "uniform"}, default="worst"
            ``"worst"``: every label has its own probability, of at most `rate`, and may be changed to any class.
            ``"uniform"``: every label is changed with probability `rate`, neither more nor less, to each other class
            with the same probability. That bound is smaller, but errors of one direction can exceed it.
        trusted : booleans of shape (n,), optional
            True for training labels without errors.

        Returns
        -------
        floats of shape (m,), or (m, r) for r rates
            Upper bounds, rounded up.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], [0] * 20 + [1] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=[0, 1]).fit(X, y)
        >>> model.random_error_bound([[5.0], [19.4]], rate=[0.01, 0.05], direction="uniform").round(4)
        array([[0.    , 0.    ],
               [0.1779, 0.5633]])
        """
        rates = checked_rates(type(self).__name__, rate, direction)
        if self._majority is not None:
            raise ValueError(
                "random_error_bound does not cover majorities, Annotations(..., aggregate='majority'): use "
                "aggregate='votes'."
            )
        powers = self.powers(None if trusted is None else Adversary(trusted=trusted))
        Z, like = self._different(self.test_rows(X))
        parts = []
        for rows in self.blocks(len(Z), powers=powers):
            source, n_classes = self.votes_on(Z[rows]), len(self.classes_)
            free, fixed = changeable_histogram(source, self.label_codes_, n_classes, self.precision_, powers.changeable)
            offsets = fixed + self.offsets_on(source, (free.scores + fixed).sum(axis=1))
            parts.append(random_error_bounds(free, offsets, rates, direction))
        return np.concatenate(parts)[like].reshape(-1, *np.shape(rate))

    def _check_row_changes(self, method: str, powers: Powers) -> None:
        """Refuse what has no certificate against changed rows."""
        refuse_noise_against_rows(method)
        self._refuse_ballots("Certificates against changed rows")

    def _assumptions_against(self, scope: Scope, blocks: Sequence[CertifiedBlock]) -> tuple[Assumption, ...]:
        """Return the assumptions of certificates against these changes; those of the fit are about labels."""
        return assumptions_against(scope, self.assumptions_, blocks)

    def _certify_block(self, Z: object, method: str, powers: Powers) -> CertifiedBlock:
        if powers.changes != "labels":
            return self._certify_rows(Z, powers)
        source, n_classes = self.votes_on(Z), len(self.classes_)
        if isinstance(powers, MajorityPowers):
            votes = class_scores(source, self.label_codes_, n_classes)
            scores = votes + self.offsets_on(source, votes.sum(axis=1))
            of_items = all_votes(self.votes_of_items(Z)).astype(np.int64)
            found, is_attained = certify_majorities(of_items, scores, powers)
            return CertifiedBlock(found, source.exponent, is_attained)
        if method == "exact" and powers.groups is not None:
            votes = class_scores(source, self.label_codes_, n_classes)
            scores = votes + self.offsets_on(source, votes.sum(axis=1))
            by_group = group_votes(source, self.label_codes_, n_classes, powers.groups, powers.changeable)
            if powers.window_ends is not None:
                found = certify_windows(by_group, powers.changeable_window_ends, scores, powers.scope)
                return CertifiedBlock(found, source.exponent)
            return CertifiedBlock(certify_groups_exactly(by_group, scores, powers.scope), source.exponent)
        is_plain = method == "exact" and powers.scope.can_change_to_anything
        if is_plain and can_count_leading_bits(source, self.precision_):
            changeable, codes = powers.changeable, self.label_codes_
            codes = codes if changeable.all() else np.where(changeable, codes, codes + n_classes)
            n_counted = n_classes if changeable.all() else 2 * n_classes
            counted = count_leading_bits(source, codes, n_counted, self.precision_)
            found = certify_many_bits(counted, partial(self.offsets_on, source), n_classes, powers.scope)
            return CertifiedBlock(found, source.exponent)
        free, fixed = changeable_histogram(source, self.label_codes_, n_classes, self.precision_, powers.changeable)
        offsets = fixed + self.offsets_on(source, (free.scores + fixed).sum(axis=1))
        noises = noises_to_try(self.noise_, n_classes)
        return CertifiedBlock(certify_counted(free, offsets, method, noises, powers.scope), source.exponent)

    def _certify_rows(self, Z: object, powers: Powers) -> CertifiedBlock:
        """Certify a block against changed rows: votes of training rows, and the largest vote of any row (M12)."""
        source, n_classes, codes = self.votes_on(Z), len(self.classes_), self.label_codes_
        assert source.limit is not None
        is_attained = powers.changes == "removals" or self.attains_largest_votes(features_in(Z), source.limit)
        if powers.groups is not None:
            votes = class_scores(source, codes, n_classes)
            scores = votes + self.offsets_on(source, votes.sum(axis=1))
            by_source = group_votes(source, codes, n_classes, powers.groups, powers.changeable)
            _, cell_of_row = group_cells(codes, n_classes, powers.groups, powers.changeable)
            found = certify_sources(by_source, np.bincount(cell_of_row), scores, source.limit, powers.scope)
            return CertifiedBlock(found, source.exponent, is_attained)
        free, fixed = changeable_histogram(source, codes, n_classes, self.precision_, powers.changeable)
        offsets = fixed + self.offsets_on(source, (free.scores + fixed).sum(axis=1))
        return CertifiedBlock(certify_rows(free, offsets, source.limit, powers.scope), source.exponent, is_attained)

    def _scores(self, Z: Any) -> tuple[Integers, Integers]:
        """Return the scores of the deployed rule, counted vote by vote, and the grid exponent of each row."""
        Z, like = self._different(Z)
        scores, exponents = [], []
        for rows in self.blocks(len(Z)):
            source = self.votes_on(Z[rows])
            votes = class_scores(source, self.label_codes_, len(self.classes_))
            scores.append(votes + self.offsets_on(source, votes.sum(axis=1)))
            exponents.append(source.exponent)
        return np.concatenate(scores)[like], np.concatenate(exponents)[like]

    def offsets_on(self, source: VoteSource, sums: Integers) -> Integers:
        """Return the offsets of the deployed rule on the grid, given the sum of all votes on each test row."""
        offsets = getattr(source, "offsets", None)
        if offsets is None:
            offsets = self._deployed_offsets(sums, source.exponent)
        prior = getattr(source, "prior", None)
        if prior is not None:
            offsets = prior if offsets is None else offsets + prior
        n_rows = self.n_rows_ if self.n_reference_ is None else MOST_ROWS  # else a floor would change with the rows
        return grid_offsets(offsets, (len(sums), len(self.classes_)), n_rows, self.precision_)

    def blocks(self, n_rows: int, n_jobs: int = 1, powers: Powers | None = None) -> Iterator[slice]:
        """Yield blocks of test rows, as large as memory allows, and as many for each thread."""
        check_parameters(self, "block_size")
        n_classes, held, n_votes = len(self.classes_), self.numbers_per_row(), self.votes_per_row()
        if self._ballots is not None:
            n_votes = self._ballots.most_votes(n_votes)
            held += 3 * n_votes
        if powers is not None and not powers.changeable.all():
            n_classes *= 2  # votes that cannot be changed are counted separately
        if isinstance(powers, MajorityPowers):
            held += 16 * self.n_rows_ + 4 * len(powers.votes.item)
        if powers is not None and powers.groups is not None:
            n_groups = powers.scope.n_touchable if powers.window_ends is None else len(powers.window_ends)
            held += 8 * min(self.n_rows_, n_groups * len(self.classes_))
        budget = MEMORY_BUDGET // n_jobs
        size = self.block_size or block_rows(n_votes, n_classes, self.precision_, budget, held)
        if n_jobs > 1 and not self.block_size:
            rounds = ceil(n_rows / (size * n_jobs))
            size = ceil(n_rows / max(rounds * n_jobs, 1))
        for start in range(0, n_rows, max(size, 1)):
            yield slice(start, min(start + size, n_rows))
