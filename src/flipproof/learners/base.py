"""What all label-linear learners share: fit, predict, certify."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight

from flipproof.adversary import Adversary, adversary_assumptions, powers_of, refuse_windows
from flipproof.annotations import Annotations
from flipproof.assumptions import Assumption, as_assumption
from flipproof.certificates import METHODS, Certificates, check_method
from flipproof.core.ballots import Ballots, cast, relative
from flipproof.core.engine import (
    CertifiedBlock,
    certify_counted,
    certify_groups_exactly,
    certify_majorities,
    certify_rows,
    certify_sources,
    certify_windows,
    check_blocks,
    estimated_winners,
    grid_offsets,
    predicted_codes,
)
from flipproof.core.histograms import block_rows, changeable_histogram, clip_levels
from flipproof.core.majority import ItemVotes, MajorityPowers, majority_powers
from flipproof.core.noise import LabelFlip
from flipproof.core.powers import Powers, Scope
from flipproof.core.rounding import Floats, Integers, scale
from flipproof.core.votes import (
    LARGEST_PRECISION,
    EstimatedScores,
    VoteSource,
    all_votes,
    class_scores,
    clipped,
    group_cells,
    group_votes,
    vote_totals,
    with_prior,
)
from flipproof.determinism import single_threaded
from flipproof.learners.certified import CertifiedClassifier
from flipproof.learners.in_memory import LabelsInMemory, all_or_nothing
from flipproof.learners.prior import (
    PRIOR_CONSTRAINTS,
    RowsWithPrior,
    features_in,
)
from flipproof.learners.row_by_row import votes_pair_by_pair, votes_row_by_row
from flipproof.learners.statements import (
    Statement,
    assumptions_against,
    attained_by_reference,
    checked_rates,
    class_values,
    noises_to_try,
    random_error_bounds,
    refuse_noise_against_rows,
    resolve_noise,
    vote_limits,
)
from flipproof.origins import Origin
from flipproof.parameters import (
    NONE,
    Constraints,
    check_parameters,
    instance,
    integer,
    number,
    one_of,
    share,
)
from flipproof.progress import RowProgress
from flipproof.values import encode_labels

Result = TypeVar("Result")

#: Memory that `certify` and `predict` may use on top of the data.
MEMORY_BUDGET = 256 * 2**20

SMALLEST_PRECISION = 2

#: More training rows than this have no exact sums of votes; offsets that this many votes cannot make up are clipped.
MOST_ROWS = 2**29


class LabelLinearParameters(CertifiedClassifier):
    """A certified classifier with the parameters of all label-linear learners, in memory and in blocks."""

    parameter_constraints: ClassVar[Constraints] = {
        "noise": number(closed="both") | instance(LabelFlip, "a LabelFlip") | one_of("auto"),
        "method": one_of(*METHODS),
        "precision": integer(SMALLEST_PRECISION, LARGEST_PRECISION, "the bits per vote"),
        "clip": NONE | one_of("sign") | share(includes_all=True),
        "block_size": NONE | integer(1),
        **PRIOR_CONSTRAINTS,
    }

    # defaults for custom learners with an `__init__` that does not set them
    clip: str | float | None = None
    prior: Any = None
    prior_weight: float = 1.0

    def __init__(
        self,
        noise: Any = 0.1,
        *,
        clip: str | float | None = None,
        prior: Any = None,
        prior_weight: float = 1.0,
        method: str = "exact",
        precision: int = 10,
        features: Any = None,
        classes: ArrayLike | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.noise = noise
        self.clip = clip
        self.prior = prior
        self.prior_weight = prior_weight
        self.method = method
        self.precision = precision
        self.features = features
        self.classes = classes
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.verbose = verbose


class LabelLinearClassifier(LabelLinearParameters, LabelsInMemory):
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
        Limits the votes on each test row, so that no row is much louder than others. A share in (0, 1]: votes are
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

    _ballots: Ballots | None = None  # of labels with weights, or of several labels per row
    _votes_are = ""
    _majority: ItemVotes | None = None  # annotations whose majorities vote

    #: Whether `fit_without_labels` gets a copy of the rows. Needed by learners that keep the rows: later changes to the
    #: original array must not change any vote.
    _gets_a_copy = True

    def fit_without_labels(self, X: Floats) -> Any:
        """Learn what the weights need from features alone: of the training rows, or of the reference.

        It may return what :meth:`place` returns for these rows, if that is known already.
        """
        raise NotImplementedError(f"{type(self).__name__} must define fit_without_labels(X).")

    def label_free_weights(self, Z: Floats) -> Any:
        """Return the weights of all training rows for test rows: a dense or sparse array of shape (m, n).

        It may also return a pair: the weights, and offsets of shape (m, K) that are added to the scores. It is called
        with one row at a time and on one thread, so that the weights for a row are bit-identical in any batch.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define label_free_weights(Z), which returns weights of shape (m, n)."
        )

    def weight_of_row(self, x: Floats, z: Floats) -> float:
        """Return the weight of one training row for one test row, both of shape (k,), given the reference.

        Only for fits with ``reference=...``. It is called for every pair of rows. It must not depend on other training
        rows, nor on labels.
        """
        raise NotImplementedError(f"{type(self).__name__} must define weight_of_row(x, z) to support reference=....")

    def place(self, X: Floats) -> NDArray[Any]:
        """Return what the votes of training rows depend on, one line per row, given the reference (M12).

        A line must depend on its own row only, bit by bit. By default, it is the row itself.
        """
        if type(self).weight_of_row is LabelLinearClassifier.weight_of_row:
            raise ValueError(
                f"{type(self).__name__} does not support reference=...: its weights depend on all training rows. Use "
                "another learner, for example CertifiedRidgeClassifier, or define weight_of_row(x, z)."
            )
        return np.array(X, dtype=np.float64)

    def hold(self, placed: Any) -> Any:
        """Return what `label_free_votes` needs to let the placed rows vote: an index, or the lines themselves."""
        return placed

    def hold_more(self, held: Any, placed: Any, n_before: int) -> Any:
        """Return what `hold` returns for placed rows, given what it returned for the first `n_before` of them.

        For `partial_fit`. By default this calls :meth:`hold`; override it if that takes long.
        """
        return self.hold(placed)

    def label_free_votes(self, Z: Floats, held: Any) -> VoteSource:
        """Return the votes of training rows on a block of test rows, given as `test_features` returned them.

        This calls `label_free_weights` with one row at a time. Override it for speed: round the weights to `precision_`
        bits by :func:`~flipproof.core.votes.dense_votes` or :func:`~flipproof.core.votes.sparse_votes`. The votes on a
        row must be bit-identical in any block, and must not depend on any label. `held` is what :meth:`hold` returned
        for the rows that vote; None if the learner does not place rows.
        """
        if self.n_reference_ is not None:
            return votes_pair_by_pair(self.weight_of_row, Z, held, self._reference_held, self.precision_)
        n_train, n_classes = self.n_rows_, len(self.classes_)
        return votes_row_by_row(self.label_free_weights, Z, n_train, n_classes, self.precision_)

    def test_rows(self, X: Any) -> Any:
        """Return all that the prediction of test rows depends on: their features, and what the prior says, if any."""
        Z = self.test_features(X)
        return Z if self._prior is None else RowsWithPrior(Z, self._prior.shares(X))

    def votes_on(self, Z: Any) -> VoteSource:
        """Return the votes of all training rows on a block of test rows, clipped to their limit, if any.

        `Z` is what `test_rows` returns. If there is a prior, the votes carry its offsets.
        """
        if self._majority is None:
            return self._votes_with_prior(Z, self._ballots)
        assert self._ballots is not None
        return cast(self._votes_with_prior(Z, None), self._ballots, self.precision_)

    def _votes_with_prior(self, Z: Any, ballots: Ballots | None) -> VoteSource:
        """Return the votes on a block of test rows, of rows or of ballots.

        Soundness: which items have a majority depends on labels. So limits and the prior's scale are taken from the
        votes of all items, and only then do the items without a majority drop out.
        """
        features = features_in(Z)
        source = self.label_free_votes(features, self._held)
        if ballots is not None and self.n_reference_ is None:
            source = cast(source, ballots, self.precision_)
        limit = self._vote_limits(features, source)
        source = source if limit is None else clipped(source, limit)
        if ballots is not None and self.n_reference_ is not None:  # limits are in units of the reference's votes
            source = cast(source, ballots, self.precision_)
        if self._prior is None:
            return source
        if not isinstance(Z, RowsWithPrior):
            raise TypeError("A learner with a prior needs test rows as test_rows(X) returns them.")
        return with_prior(source, self._prior.offsets(self.total_votes(features, source), Z.shares))

    def total_votes(self, Z: Floats, source: VoteSource) -> Integers:
        """Return the sum of the absolute votes on each test row of the rows that the geometry was learned from (M15).

        Soundness: these are the training rows if only labels can be changed, else the rows of the reference. So the sum
        depends on nothing that an adversary can change, and is an integer that is exact in any order of summation.
        """
        if self.n_reference_ is None or self._ballots is not None:  # with weights, rows cannot be changed
            return vote_totals(source)
        of_reference = self.label_free_votes(Z, self._reference_held)
        return vote_totals(of_reference if source.limit is None else clipped(of_reference, source.limit))

    def _vote_limits(self, Z: Floats, source: VoteSource) -> Integers | None:
        """Return the largest vote of any possible row on each test row, by `clip` and by a frozen geometry."""
        largest = None if self.n_reference_ is None else self.largest_votes(Z, source)

        def levels(share: float) -> Integers:
            all_rows = source if self.n_reference_ is None else self.label_free_votes(Z, self._reference_held)
            return clip_levels(all_rows, share, self.precision_)

        return vote_limits(self._clip, len(source.exponent), largest, levels)

    def largest_votes(self, Z: Floats, source: VoteSource) -> Integers:
        """Return a bound on the vote of any possible row on each test row: V in M12. By default the end of the grid."""
        return np.full(len(source.exponent), 2**self.precision_ - 1, dtype=np.int64)

    def attains_largest_votes(self, Z: Floats, limit: Integers) -> bool:
        """Tell whether on every test row of a block, some row that could be added is known to have a vote of this size.

        By default, this is known only for votes that are clipped: a row of the reference may have such a vote.
        """
        return bool(self._attained_by_reference(Z, limit).all())

    def _attained_by_reference(self, Z: Floats, limit: Integers) -> NDArray[np.bool_]:
        """Tell on which test rows some row of the reference is known to have a clipped vote of this size."""
        return attained_by_reference(
            self._clip, limit, lambda rows: self.label_free_votes(Z[rows], self._reference_held)
        )

    #: Whether the vote of a row never depends on other training rows, given a reference; not so for neighbours.
    rows_vote_separately = True

    def votes_of(self, X: Any, Z: Any) -> Integers:
        """Return the votes that rows would have on a block of test rows if they were training rows, shape (m, rows).

        Needs a fit with ``reference=...``: the vote of a row then does not depend on other training rows.

        Parameters
        ----------
        X : array or data frame of shape (rows, k)
            Rows as `fit` takes them.
        Z : array
            Test rows as `test_rows` returns them.
        """
        Z = features_in(Z)
        source = self.label_free_votes(Z, self.hold(self.place(self._rows_in_geometry(X))))
        limit = self._vote_limits(Z, source)
        return all_votes(source if limit is None else clipped(source, limit)).astype(np.int64)

    def loudest_rows(self, X: Any) -> Any:
        """Return, for each test row, a row whose vote on it is probably large, as `fit` takes rows.

        By default, these are the test rows themselves. Attacks add these rows; no certificate depends on them.
        """
        return X

    def _fit_with_labels(self, codes: Integers) -> None:
        """Compute what needs the labels. If a vote depends on it, `learner_assumptions` must say so."""

    def _fit_with_more_labels(self, codes: Integers, n_before: int) -> None:
        """Compute what needs the labels again after all but the first `n_before` have joined."""
        self._fit_with_labels(codes)

    def rule_depends_on_noise(self) -> bool:
        """Tell whether the deployed rule depends on the noise (M5)."""
        return False

    def _deployed_offsets(self, votes: Integers | Floats, exponent: Integers) -> Floats | None:
        """Return the offsets of the deployed rule in grid units, given the sum of all votes on each test row."""
        return None

    def _estimated_scores(self, Z: Floats) -> EstimatedScores | None:
        """Return cheap estimates of the scores without offsets, with proven error bounds; None by default."""
        return None

    def _without_repeats(self, Z: Floats) -> tuple[Floats, Integers]:
        """Return test rows with distinct votes, and for each test row the index of the one that has its votes."""
        return Z, np.arange(len(Z))

    def _different(self, Z: Any) -> tuple[Any, Integers]:
        """Return test rows without repeats; a prior may say something else about each row."""
        return self._without_repeats(Z) if self._prior is None else (Z, np.arange(len(Z)))

    def _votes_per_row(self) -> int:
        """Return how many votes on a test row can differ from 0."""
        return self.n_rows_

    def _numbers_per_row(self) -> int:
        """Return how many numbers `label_free_votes` holds in memory per test row, besides the votes themselves."""
        return 3 * self.n_rows_

    def learner_assumptions(self) -> Iterable[Assumption | str]:
        """Return the assumptions of this learner, besides those common to all learners, as objects or as sentences."""
        return []

    def learn_from_trusted(self, X: Floats, codes: Integers) -> Iterable[str]:
        """Learn from trusted rows and their labels, before `fit_without_labels`; return what has read these labels.

        Called with the features of trusted rows and their labels as positions in `classes_`, if the fit got any (M15).
        By default, nothing is learned. A learner that learns from them names the part that did, for instance "the
        trees": certificates list it among their assumptions.
        """
        return ()

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        reference: Any = None,
        reference_labels: Any = None,
        trusted: Any = None,
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
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        unlabeled: Any = None,
        reference: Any = None,
        reference_labels: Any = None,
        trusted: Any = None,
    ) -> LabelLinearClassifier:
        with all_or_nothing(self):
            given = X
            for name in ("_ballots", "_votes_are", "_majority"):  # of an earlier fit
                self.__dict__.pop(name, None)
            annotations = y if isinstance(y, Annotations) else None
            if annotations is not None:
                y = self._one_label_per_item(X, annotations, sample_weight, unlabeled, trusted)
            X, reference = self._read_training_rows(X, y, unlabeled, reference, reference_labels, trusted)
            if annotations is None and sample_weight is not None:
                self._weigh_labels(X, sample_weight)
            self._learn_from_trusted(X, reference)
            self._prior = self._prepare_prior(given)
            self.precision_, self._clip = int(self.precision), self.clip
            self._placed: Any = None  # what the votes of training rows depend on; kept if rows can join or leave
            self._reference_held: Any = None
            learned_from = X if reference is None else reference
            placed = self.fit_without_labels(learned_from.copy() if self._gets_a_copy else learned_from)
            if reference is not None:
                self._reference_held = self.hold(self.place(reference) if placed is None else placed)
                placed = self._placed = self.place(X)
            self._held: Any = None if placed is None else self.hold(placed)
            self.noise_ = resolve_noise(self.noise, len(self.classes_), self.rule_depends_on_noise())
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
            self._forget_trusted_part()
        return self

    def _one_label_per_item(
        self, X: Any, annotations: Annotations, sample_weight: Any, unlabeled: Any, trusted: Any
    ) -> NDArray[Any]:
        """Return placeholders with the class set of all annotations, one per item; refuse what does not fit them."""
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows != annotations.n_items:
            raise ValueError(f"Annotations of {annotations.n_items} items need as many rows in X. Got {n_rows} rows.")
        for name, given in (("sample_weight", sample_weight), ("unlabeled", unlabeled), ("trusted", trusted)):
            if given is not None:
                raise ValueError(
                    f"fit(X, annotations) cannot be combined with {name}=...: annotations have their own weights, and "
                    "Adversary(trusted=...) has an entry per annotation."
                )
        if getattr(self, "regularization", None) == "paper":
            raise ValueError("regularization='paper' reads one label per row: use another value with Annotations.")
        classes, _ = encode_labels(annotations.label, self.classes)
        if len(classes) > n_rows and self.classes is None:
            raise ValueError("There are fewer items than classes: give classes=... to the learner.")
        return np.asarray(classes[np.arange(n_rows) % len(classes)])

    def _keep_annotations(self, annotations: Annotations) -> None:
        """Let annotations vote instead of rows; rows are items."""
        _, codes = encode_labels(annotations.label, self.classes_)
        n_items, names = self.n_rows_, self.row_names_
        self._keep_labels(codes, np.ones(len(codes), dtype=bool), np.zeros(len(codes), dtype=bool))
        self.n_rows_ = n_items
        self._votes_are = "Annotations"
        if annotations.aggregate == "majority":
            self._let_majorities_vote(ItemVotes(annotations.item.copy(), codes.copy(), n_items, len(self.classes_)))
            return
        self._ballots = Ballots(n_items, annotations.item.copy(), relative(annotations.weight))
        items = annotations.item if names is None else names[annotations.item]
        who = annotations.annotator
        self.row_names_ = np.array([f"{item} by {name}" for item, name in zip(items, who, strict=True)], dtype=object)

    def _let_majorities_vote(self, votes: ItemVotes) -> None:
        """Let the items vote that have a majority; radii count annotations, of which all are kept."""
        decided = np.flatnonzero(votes.states < len(self.classes_))
        self.row_names_ = None if self.row_names_ is None else self.row_names_[decided]
        n_items, n_labels = self.n_rows_, self.n_labels_
        self._keep_labels(
            votes.states[decided].astype(np.int64),
            np.ones(len(decided), dtype=bool),
            np.zeros(len(decided), dtype=bool),
        )
        self.n_rows_, self.n_labels_ = n_items, n_labels
        self._majority, self._ballots = votes, Ballots(n_items, decided, None)

    @property
    def rows_of_labels(self) -> Integers | None:
        """The row of each label; None if each row has one label."""
        return None if self._ballots is None else self._ballots.row

    @property
    def given_codes_(self) -> Integers:
        """All labels that were given to the fit, as positions in `classes_`; annotations if their majorities vote."""
        return self.label_codes_ if self._majority is None else self._majority.codes

    @property
    def majority_first(self) -> bool:
        """Whether items vote, each for the majority of its annotations."""
        return self._majority is not None

    def powers(self, adversary: Adversary | None) -> Powers:
        """Return what an adversary can do to the rows of this fit; by default, change any label to any class.

        If majorities vote, these are powers over the annotations, not over the labels of items.
        """
        if self._majority is None:
            return super().powers(adversary)
        self.refuse_unless_frozen(adversary)
        refuse_windows(adversary, "A model of majorities, Annotations(..., aggregate='majority'),")
        codes = self._majority.codes
        found = powers_of(adversary, codes, self.classes_, np.ones(len(codes), dtype=bool))
        return majority_powers(found, self._majority)

    def _weigh_labels(self, X: Floats, sample_weight: Any) -> None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("sample_weight must not be 0 for all rows: no label would vote.")
        found = relative(weights)
        if found is not None:
            self._ballots, self._votes_are = Ballots(self.n_rows_, None, found), "sample_weight"

    def _n_unlabelled(self) -> int:
        if self._ballots is None or self._ballots.row is None:
            return super()._n_unlabelled()
        row = self._ballots.row if self._majority is None else self._majority.item
        return self.n_rows_ - len(np.unique(row))

    def _ballot_assumptions(self) -> list[Assumption]:
        if self._ballots is None:
            return []
        if self._ballots.row is None:
            return [Assumption("sample-weights")]
        if self._majority is not None:
            n_labelled = len(np.unique(self._majority.item))
            n_tied = n_labelled - len(self._ballots)
            values = {"n_labels": self.n_labels_, "n_labelled": n_labelled, "n_tied": n_tied}
            return [Assumption("majority-first", values)]
        n_labelled = len(np.unique(self._ballots.row))
        return [Assumption("annotations", {"n_labels": self.n_labels_, "n_labelled": n_labelled})]

    @property
    def covers_rows(self) -> bool:
        """Whether this fit can be certified against changed rows; not with weights or several labels per row."""
        return super().covers_rows and self._ballots is None

    def _refuse_ballots(self, what: str) -> None:
        if self._ballots is not None:
            raise ValueError(
                f"{what} cannot be combined with {self._votes_are}: fit with one label of weight 1 per row."
            )

    def _learn_from_trusted(self, X: Floats, reference: Floats | None) -> None:
        """Let the learner read trusted labels, if there are any: those of the reference, or of training rows."""
        found = self._trusted_codes()
        if found is None:
            return
        trusted, codes = found
        rows = reference if trusted.numbers is None else X[trusted.numbers]
        assert rows is not None
        self._label_readers = (*self._label_readers, *self.learn_from_trusted(rows.copy(), codes))

    def _vote_too(self, rows: Floats) -> None:
        self._refuse_ballots("partial_fit")
        n_before = len(self._placed)
        self._placed = np.concatenate([self._placed, self.place(rows)])
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

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted classes; ties go to the class that sorts lowest.

        Rows whose estimated lead exceeds the proven error of the estimate are decided by the estimate, all others by
        counting votes. The result is always the same as by counting votes.
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
        if self._clip is not None or self.n_reference_ is not None or self._prior is not None:
            return None
        if self._ballots is not None:  # the estimate knows one label of weight 1 per row
            return None
        estimate = self._estimated_scores(Z)
        if estimate is None or self.noise_ is None:
            return estimate
        offsets = self._deployed_offsets(estimate.scores.sum(axis=1), estimate.exponent)
        return estimate if offsets is None else estimate.with_offsets(offsets, self.noise_.signal)

    def decision_function(self, X: Any) -> Floats:
        """Return the class scores of the deployed rule, shape (m, K); with two classes their difference, shape (m,)."""
        parts = self._in_pieces(self.test_rows(X), self._scores)
        return class_values(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def vote_weights(self, X: Any) -> tuple[Floats, Floats]:
        """Return the weights alpha (m, n) and offsets (m, K) of the prediction, in the paper's notation.

        ``argmax(alpha @ onehot(y) + offsets)`` is the prediction for any labels y. The result is a dense array of m
        times n numbers: call this on a few rows.
        """
        source = self.votes_on(self.test_rows(X))
        votes = all_votes(source)
        offsets = self.offsets_on(source, votes.sum(axis=1).astype(np.int64))
        down = -source.exponent[:, None]
        return scale(votes, down), scale(offsets.astype(np.float64), down)

    def certify(self, X: Any, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        method : {"exact", "tight", "kl"}, optional
            ``"exact"``: the largest radius that holds. ``"kl"`` and ``"tight"``: by noise on the labels, as in the
            paper. All three certify what :meth:`predict` returns. Default: the learner's `method`.
        adversary : Adversary, optional
            What an attacker can do to the labels, or to whole rows. Default: change any label to any class.

        Returns
        -------
        Certificates
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
        n_jobs = effective_n_jobs(self.n_jobs)
        n_alike = np.bincount(like, minlength=len(Z))
        with RowProgress(len(like), self.verbose) as progress:

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
        return statement.certificates(parts, Origin.of(self, X, len(like)), like)

    def random_error_bound(
        self, X: Any, rate: Any = 0.05, direction: str = "worst", trusted: ArrayLike | None = None
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

    def _certify_block(self, Z: Any, method: str, powers: Powers) -> CertifiedBlock:
        if powers.changes != "labels":
            return self._certify_rows(Z, powers)
        source, n_classes = self.votes_on(Z), len(self.classes_)
        if isinstance(powers, MajorityPowers):
            votes = class_scores(source, self.label_codes_, n_classes)
            scores = votes + self.offsets_on(source, votes.sum(axis=1))
            of_items = all_votes(self._votes_with_prior(Z, None)).astype(np.int64)
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
        free, fixed = changeable_histogram(source, self.label_codes_, n_classes, self.precision_, powers.changeable)
        offsets = fixed + self.offsets_on(source, (free.scores + fixed).sum(axis=1))
        noises = noises_to_try(self.noise_, n_classes)
        return CertifiedBlock(certify_counted(free, offsets, method, noises, powers.scope), source.exponent)

    def _certify_rows(self, Z: Any, powers: Powers) -> CertifiedBlock:
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
        """Yield blocks of test rows, as large as memory allows."""
        check_parameters(self, "block_size")
        n_classes, held, n_votes = len(self.classes_), self._numbers_per_row(), self._votes_per_row()
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
        for start in range(0, n_rows, size):
            yield slice(start, min(start + size, n_rows))
