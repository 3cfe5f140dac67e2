"""Deep partition aggregation: base learners are fitted to disjoint parts of the training rows, and vote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flipproof.adversary import Adversary, adversary_assumptions
from flipproof.assumptions import Assumption
from flipproof.certificates import Certificates
from flipproof.core.contents import order_by_content, partition_numbers, row_hashes
from flipproof.core.engine import (
    BlockCertificates,
    certify_exact,
    certify_groups_exactly,
    certify_partition_sources,
    certify_partitions,
    winners,
)
from flipproof.core.histograms import NUMBERS_AT_A_TIME, VoteHistogram
from flipproof.core.partitions import PartitionVotes, SourceVotes
from flipproof.core.powers import Powers, Scope
from flipproof.core.rounding import Floats, Integers, Values
from flipproof.core.votes import GroupVotes, tiles
from flipproof.learners.base_learners import (
    BASE_LEARNER,
    ask_base_learners,
    check_reproducible,
    fit_base_learners,
)
from flipproof.learners.clones import assumptions_about, own_clone
from flipproof.learners.in_memory import LabelsInMemory, all_or_nothing, assumptions_about_rows
from flipproof.learners.prior import PRIOR_CONSTRAINTS
from flipproof.learners.statements import check_limit, up_to
from flipproof.origins import Origin
from flipproof.parameters import NONE, Constraints, check_parameter, integer, one_of, parameter_error
from flipproof.runtime.determinism import on_one_core
from flipproof.runtime.progress import CountedProgress, RowProgress

METHOD = "gap"

#: Methods that `certify` accepts.
ONLY_METHOD = (NONE | one_of(METHOD)).explained(
    "other methods need a label-linear learner, for example CertifiedRidgeClassifier."
)

#: Numbers in memory per annotator (or source), class and test row during certification.
HELD_PER_CELL = 8


class CertifiedPartitionClassifier(LabelsInMemory):
    """Certifies any classifier: clones are fitted to disjoint parts of the training rows, and vote.

    Deep partition aggregation (Levine and Feizi 2021, there SS-DPA for changed labels). The training rows are assigned
    to `n_partitions` partitions by their features alone, a clone of `estimator` is fitted to each partition, and the
    class that most of them predict wins; ties go to the class that sorts lowest. A changed label changes a single base
    learner, and thus at most one vote; a vote that moves from the predicted class to a rival class changes the lead by
    2. So with two classes and a lead of `gap` votes, any ``floor(gap / 2)`` labels may be changed if the predicted
    class sorts first and wins ties, and ``ceil(gap / 2) - 1`` if it does not.

    Fitted with a reference, it also certifies against whole rows that are added, removed or replaced (there DPA): see
    `reference` in :meth:`fit`, and the notes.

    The base learner must be reproducible: the same rows and labels must always give the same predictions. It may use
    labels in any way, even tune itself on its partition (GridSearchCV). So this learner is often the most accurate one,
    but its radii cannot exceed ``n_partitions / 2``. Choose it where a label-linear learner is not accurate enough and
    you expect at most a few dozen changed labels. Set `n_partitions` to about five times the radius that you want, as
    long as each partition still has enough rows to learn from. `docs/learners.md` compares it with the other learners
    on real data.

    Parameters
    ----------
    estimator : classifier, optional
        The base learner; it is cloned. Default: logistic regression on standardised features. Random states that are
        not integers are set to 0, also those of steps, folds and lists among its parameters; global random generators
        are seeded during each fit. One of the partitions is fitted twice, and a base learner that is not reproducible
        is refused. Trees, forests and linear models of scikit-learn (also behind its scalers) predict all test rows in
        one batch; any other base learner predicts one row at a time, which takes a quarter of a millisecond or more for
        each of its `n_partitions` clones.
    n_partitions : int, default=50
        Number of partitions. More partitions allow larger radii, but each base learner has fewer rows to learn from. At
        most the number of training rows; with a reference there is no limit, and partitions may be empty.
    prior : classifier, optional
        A classifier with votes of its own. If it is fitted, on data that nobody can change, it is used as it is;
        otherwise it is cloned and fitted to the trusted rows and labels of :meth:`fit`. It gets rows as they are given,
        before `features`. See `docs/trusted-labels.md`.
    prior_weight : float, default=1.0
        Weight of the prior: it has ``prior_weight * n_partitions`` votes, shared out to the classes by its
        probabilities.
    features : transformer, optional
        Cloned and fitted on *all* training features *without* labels, or on the reference; a step that needs labels
        gets trusted ones only, see :meth:`fit`. Random states that are not integers are set to 0.
    classes : array of shape (K,), optional
        The class set. If omitted, it is read from the labels, and certificates assume that it is fixed.
    n_jobs : int, optional
        Processes over partitions in `fit`, as in joblib. It does not affect results.
    verbose : int, default=0
        1: show progress and the time left on stderr in `fit`, `predict` and `certify`. It does not affect results.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    partition_ : integers of shape (n,)
        The partition of each training row, from 0 on.
    estimators_ : list of n_partitions classifiers
        The base learners; a DummyClassifier where all labels of a partition are the same, None where a partition is
        empty.
    features_ : transformer or None
        The fitted `features`.
    prior_ : classifier or None
        The fitted `prior`.
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    flipproof.SmoothedClassifier : Certifies any classifier, by votes of noisy copies.

    Notes
    -----
    *Partitions.* The rows are sorted by a 64-bit hash of their features and assigned in turn, so that the sizes of the
    partitions differ by at most one. The hash reads no label, so changed labels move no row: the certificate needs
    nothing more. The hash does not read the position of a row either, so that rows sorted by label do not carry labels
    into the partitions. Only rows with equal features are assigned by their order, and `assumptions` says so if there
    are any.

    *With a reference*, the partition of a row is the remainder of its hash, and depends on no other row. Sizes differ
    more than without a reference, since rows are not assigned in turn, and equal rows are in the same partition. Each
    base learner gets its rows in an order by content, so neither the order of the training rows nor other partitions
    affect it. An empty partition votes for nobody. One changed row then changes one partition, or two if it is
    replaced: ``"insertions"`` can change any partition, ``"removals"`` those with a row that is not trusted, and
    ``"rows"`` as many of each kind. The base learner may respond in any way, so the radius is a lower bound; with two
    classes and a lead of `gap` votes it is about ``gap / 4`` for ``"rows"`` and ``gap / 2`` for the other two.
    `partial_fit` and `forget` refit only the partitions that change.
    A fit that fails because of an added row is not covered: trees, for example, refuse numbers above 1e38.
    ``features=MinMaxScaler(clip=True)`` keeps all rows within the range of the reference.

    *Sources* (``Adversary(changes="rows", groups=...)``) can change every partition in which they have a row, and as
    many others as they have rows. The bound adds up what each of them could change.

    *Annotators* (``Adversary(groups=...)``) control every partition in which they have a label. The bound adds up what
    each of them could change, and counts a partition once for every annotator: the radius is sound, but smaller than
    necessary where annotators share partitions. An annotator with labels in all partitions decides alone, so this is
    for annotators with few labels each.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from flipproof import CertifiedPartitionClassifier
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> y = (X[:, 0] ** 2 + X[:, 1] ** 2 > 1).astype(int)
    >>> model = CertifiedPartitionClassifier(DecisionTreeClassifier(), n_partitions=15, classes=[0, 1]).fit(X, y)
    >>> certificates = model.certify([[0.0, 0.0], [0.6, 0.6], [2.0, 2.0]])
    >>> certificates.prediction
    array([0, 0, 1])
    >>> certificates.margin
    array([15., 11., 15.])
    >>> certificates.radius
    array([7, 5, 7])
    """

    parameter_constraints: ClassVar[Constraints] = {
        "estimator": NONE | BASE_LEARNER,
        "n_partitions": integer(1),
        **PRIOR_CONSTRAINTS,
    }

    def __init__(
        self,
        estimator: object = None,
        n_partitions: int = 50,
        *,
        prior: object = None,
        prior_weight: float = 1.0,
        features: object = None,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.n_partitions = n_partitions
        self.prior = prior
        self.prior_weight = prior_weight
        self.features = features
        self.classes = classes
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: object, y: object, reference: object = None, reference_labels: object = None, trusted: object = None
    ) -> CertifiedPartitionClassifier:
        """Assign the training rows to partitions, and fit a base learner to each.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            Training features, or the input of `features`.
        y : array of shape (n,)
            Training labels: numbers, strings or booleans.
        reference : array or data frame of shape (r, k), optional
            Rows that nobody may have changed; their labels are not needed. If given, the `features` step is fitted on
            them, and the partition of a row depends on no other training row: certificates against added, removed and
            replaced rows, ``Adversary(changes="rows")``, are then possible. Without a `features` step, nothing but the
            number of columns is learned from them, so a few rows are enough.
        reference_labels : array of shape (r,), optional
            Trusted labels of the reference: nobody may have changed them. A `features` step that needs labels and an
            unfitted `prior` are fitted to the reference and these labels.
        trusted : booleans of shape (n,), optional
            True for training rows whose labels nobody can change: they are trusted in every certificate of this model.
            Without `reference_labels`, what needs trusted labels is fitted to these rows. If rows can be changed, these
            rows cannot be removed or replaced.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import CertifiedPartitionClassifier
        >>> X, y = [[float(i)] for i in range(60)], ["ham"] * 30 + ["spam"] * 30
        >>> model = CertifiedPartitionClassifier(DecisionTreeClassifier(), 5, classes=["ham", "spam"]).fit(X, y)
        >>> model.predict([[5.0]])
        array(['ham'], dtype='<U4')
        """
        with all_or_nothing(self):
            # on one core, since the last bits of features decide the partition of a row
            rows, _ = on_one_core(
                lambda: self._read_training_rows(
                    X, y, reference=reference, reference_labels=reference_labels, trusted=trusted
                )
            )
            self.weighted_prior_ = self.prepare_prior(X, reference)
            self._learn(rows, reference)
            self.forget_trusted_part()
        return self

    def _learn(self, rows: Floats, reference: object) -> None:
        self._frozen_rows: Floats | None = None  # kept if rows can join or leave
        self._base_learner, self._base_learner_name = self._base()
        if reference is None:
            self._deal(rows)
        else:
            self._base_learner = own_clone(self._base_learner)
            self.estimators_: list[Any] = [None] * int(self.n_partitions)
            self._assign(rows, list(range(len(self.estimators_))))
            self._list_assumptions(n_alike=0)

    def _base(self) -> tuple[Any, str]:
        """Return the base learner and the name by which assumptions refer to it."""
        if self.estimator is not None:
            return self.estimator, type(self.estimator).__name__
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), LogisticRegression.__name__

    def _deal(self, rows: Floats) -> None:
        """Assign the rows to partitions in turn, sorted by hash, and fit a base learner to each."""
        n_partitions = int(self.n_partitions)
        if len(rows) < n_partitions:
            wanted = f"at most the number of training rows, {len(rows)}"
            remedy = "with fit(X, y, reference=...) there may be more."
            raise parameter_error(type(self).__name__, "n_partitions", wanted, n_partitions, remedy)
        hashes = row_hashes(rows)
        in_order = np.argsort(hashes, kind="stable")
        self.partition_ = np.empty(len(rows), dtype=np.int64)
        self.partition_[in_order] = np.arange(len(rows)) % n_partitions
        members = [in_order[number::n_partitions] for number in range(n_partitions)]
        labels = self.classes_[self.label_codes_]
        with self._fit_progress(n_partitions) as progress:
            self.estimators_ = fit_base_learners(self._base_learner, rows, labels, members, self.n_jobs, progress)
        check_reproducible(self._base_learner, rows, labels, members, self.estimators_)
        self._list_assumptions(n_alike=len(hashes) - len(np.unique(hashes)))

    def _assign(self, rows: Floats, changed: list[int]) -> None:
        """Assign each row to a partition by its hash alone, and fit the base learners of the changed partitions (M13).

        Soundness: a base learner gets the rows of its partition sorted by content and label, so it is a function of
        the multiset of these rows, not on the order of the file or on the rows of other partitions.
        """
        self._frozen_rows = rows + 0.0  # turns -0.0 into 0.0: equal rows have equal bits
        self.partition_ = partition_numbers(self._row_hashes, len(self.estimators_))
        members = self._members(changed)
        labels = self.classes_[self.label_codes_]
        with self._fit_progress(len(changed)) as progress:
            fitted = fit_base_learners(
                self._base_learner, self._frozen_rows, labels, members, self.n_jobs, progress, changed
            )
        for number, model in zip(changed, fitted, strict=True):
            self.estimators_[number] = model
        check_reproducible(self._base_learner, self._frozen_rows, labels, members, self.estimators_, changed)

    def _fit_progress(self, n_fits: int) -> CountedProgress:
        return CountedProgress(n_fits, "base learners fitted", self.verbose)

    def _members(self, wanted: list[int]) -> list[Integers]:
        """Return the rows of the wanted partitions, by content; those of others are left out."""
        assert self._frozen_rows is not None
        rows = np.flatnonzero(np.isin(self.partition_, wanted))
        rows = rows[order_by_content(self._frozen_rows[rows], self._row_hashes[rows], self.label_codes_[rows])]
        rows = rows[np.argsort(self.partition_[rows], kind="stable")]
        ends = np.searchsorted(self.partition_[rows], np.arange(1, len(self.estimators_)))
        return np.split(rows, ends)

    def _vote_too(self, rows: Floats) -> None:
        assert self._frozen_rows is not None
        hashes = self._row_hashes[len(self._frozen_rows) :]
        changed = np.unique(partition_numbers(hashes, len(self.estimators_)))
        self._refit(np.concatenate([self._frozen_rows, rows]), changed)

    def _vote_only(self, kept: Integers) -> None:
        assert self._frozen_rows is not None
        is_gone = ~np.isin(np.arange(len(self._frozen_rows)), kept)
        self._refit(self._frozen_rows[kept], np.unique(self.partition_[is_gone]))

    def _refit(self, rows: Floats, changed: Integers) -> None:
        self.estimators_ = list(self.estimators_)  # a list of its own, so that a fit that fails changes nothing
        self._assign(rows, changed.tolist())

    def _list_assumptions(self, n_alike: int) -> None:
        self.assumptions_ = (*self.common_assumptions(), *self.learner_assumptions(n_alike))

    def _rows_in_geometry(self, X: object, least: int = 0) -> Floats:
        # on one core, since the last bits of features decide the partition of a row
        return on_one_core(lambda: super(CertifiedPartitionClassifier, self)._rows_in_geometry(X, least))

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class that most base learners predict; ties go to the class that sorts lowest.

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
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import CertifiedPartitionClassifier
        >>> X, y = [[float(i)] for i in range(60)], ["ham"] * 30 + ["spam"] * 30
        >>> model = CertifiedPartitionClassifier(DecisionTreeClassifier(), 5, classes=["ham", "spam"]).fit(X, y)
        >>> model.predict([[5.0], [50.0]])
        array(['ham', 'spam'], dtype='<U4')
        """
        votes = self._counted(self.partition_votes(self.test_features(X)))
        return np.asarray(self.classes_[winners(votes + self.prior_votes(X, len(votes)))])

    def decision_function(self, X: object) -> Floats:
        """Return the share of base learners that predict each class, shape (m, K); with two classes the difference.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        floats of shape (m, K), or (m,) for two classes
            Shares of the votes.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import CertifiedPartitionClassifier
        >>> X, y = [[float(i)] for i in range(60)], ["ham"] * 30 + ["spam"] * 30
        >>> model = CertifiedPartitionClassifier(DecisionTreeClassifier(), 5, classes=["ham", "spam"]).fit(X, y)
        >>> model.decision_function([[5.0], [30.0]])
        array([-1. ,  0.2])
        """
        votes = self._counted(self.partition_votes(self.test_features(X)))
        shares = (votes + self.prior_votes(X, len(votes))) / len(self.estimators_)
        return shares[:, 1] - shares[:, 0] if len(self.classes_) == 2 else shares

    def prior_votes(self, X: object, n_rows: int) -> Integers:
        """Return the votes of the prior for each class, which nobody can change (M15); 0 without a prior."""
        if self.weighted_prior_ is None:
            return np.zeros((n_rows, len(self.classes_)), dtype=np.int64)
        totals = np.full(n_rows, len(self.estimators_), dtype=np.int64)
        return np.rint(self.weighted_prior_.offsets(totals, self.weighted_prior_.shares(X))).astype(np.int64)

    def certify(
        self, X: object, method: str | None = None, adversary: Adversary | None = None, at_least: int | None = None
    ) -> Certificates:
        """Predict, and certify every prediction by its lead in votes.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        method : {"gap"}, optional
            The only method: others need a label-linear learner.
        adversary : Adversary, optional
            What an attacker can do to the labels, or to whole rows. Default: change any label to any class.
        at_least : int, optional
            Return radii only up to this limit, see :attr:`Certificates.radius_limit`.

        Returns
        -------
        Certificates
            `margin` is the lead in votes. There is no noise, hence no `log_failure` and no `witness`.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import CertifiedPartitionClassifier
        >>> X, y = [[float(i)] for i in range(60)], ["ham"] * 30 + ["spam"] * 30
        >>> model = CertifiedPartitionClassifier(DecisionTreeClassifier(), 5, classes=["ham", "spam"]).fit(X, y)
        >>> model.certify([[5.0], [30.0]]).radius
        array([2, 0])
        """
        check_parameter(type(self).__name__, "method", method, ONLY_METHOD)
        check_limit(type(self).__name__, at_least, METHOD)
        Z = self.test_features(X)
        powers = self.powers(adversary)
        votes = self.partition_votes(Z)
        offsets = self.prior_votes(X, len(votes))
        certify_changes = self._certify_labels if powers.changes == "labels" else self._certify_rows
        found = certify_changes(votes, powers, offsets)
        if powers.groups is not None:
            # a radius of R labels (or rows) also holds against groups that together have at most R labels (or rows)
            within, is_unlimited = powers.scope.groups_within(found.radius), found.unlimited
            found = self._certify_groups(votes, powers, powers.groups, offsets)
            radius, unlimited = np.maximum(found.radius, within), found.unlimited | is_unlimited
            found = replace(found, radius=radius, unlimited=unlimited)
        found.check(powers.scope)
        certificates = Certificates(
            prediction=self.classes_[found.winner],
            radius=found.radius,
            rival=self.classes_[found.rival],
            margin=found.margin.astype(np.float64),
            log_failure=found.log_failure,
            abstained=np.zeros(len(votes), dtype=bool),
            witness=found.witness,
            method=METHOD,
            noise=np.nan,
            n_train=self.n_rows_,
            classes=self.classes_.copy(),
            assumptions=self._assumptions_against(adversary, powers),
            unit=powers.scope.unit,
            n_touchable=powers.scope.n_touchable,
            unlimited=found.unlimited,
            adversary=adversary,
            origin=Origin.of(self, X, len(votes)),
        )
        return certificates if at_least is None else up_to(certificates, at_least)

    def partition_votes(self, Z: Floats) -> NDArray[Any]:
        """Return the class code that each base learner predicts, shape (m, n_partitions), in one or two bytes each.

        An empty partition votes for nobody: its code is the number of classes.
        """
        with RowProgress(len(Z), self.verbose) as progress:
            return ask_base_learners(self.estimators_, self.classes_, Z, progress)

    def _counted(self, votes: Values) -> Integers:
        """Count the votes for each class, shape (m, K)."""
        counts = [np.count_nonzero(votes == code, axis=1) for code in range(len(self.classes_))]
        return np.stack(counts, axis=1).astype(np.int64)

    def _certify_labels(self, votes: Values, powers: Powers, offsets: Integers) -> BlockCertificates:
        """Certify against changed labels, each of which may change the vote of its base learner to any class.

        Soundness: the votes take the place of labels with a weight of 1 each (M6). To change r votes, at least r labels
        must be changed. A base learner without a changeable label never changes: its vote is an offset, as are those
        of the prior.
        """
        can_change = np.isin(np.arange(len(self.estimators_)), self.partition_[powers.changeable])
        free, fixed = self._counted(votes[:, can_change]), self._counted(votes[:, ~can_change])
        histogram = VoteHistogram(np.ones((1, 1), dtype=np.int64), free[:, :, None], n_levels=1)
        return certify_exact(histogram, fixed + offsets, _to_any_class(replace(powers, groups=None)).scope)

    def _certify_rows(self, votes: Values, powers: Powers, offsets: Integers) -> BlockCertificates:
        """Certify against changed rows: an added row may change any partition, a removed one its own (M13)."""
        has_removable = np.isin(np.arange(len(self.estimators_)), self.partition_[powers.changeable])
        removable, others = self._counted(votes[:, has_removable]), self._counted(votes[:, ~has_removable])
        counted = PartitionVotes(removable, others, len(self.estimators_), offsets)
        return certify_partitions(counted, replace(powers, groups=None).scope)

    def _certify_groups(self, votes: Values, powers: Powers, groups: Integers, offsets: Integers) -> BlockCertificates:
        """Certify against annotators, who may change every base learner that has a changeable label of theirs.

        Sources of rows may change every base learner that has a row of theirs and, if they can replace rows, others.

        Soundness: the most that several annotators can take off a lead is at most the sum of what each can take off.
        """
        n_partitions, n_classes = len(self.estimators_), len(self.classes_)
        owners, owner = np.unique(groups[powers.changeable], return_inverse=True)
        owned = np.unique(owner * n_partitions + self.partition_[powers.changeable])
        ones = np.ones(len(owned), dtype=np.int64)
        owns = csr_array((ones, (owned // n_partitions, owned % n_partitions)), shape=(len(owners), n_partitions))
        n_owned, n_rows = np.bincount(owned // n_partitions, minlength=len(owners)), np.bincount(owner)
        parts, n_cells = [], len(owners) * n_classes
        for start, stop in tiles(len(votes), max(1, NUMBERS_AT_A_TIME // (HELD_PER_CELL * max(1, n_cells)))):
            block = votes[start:stop]
            cells = np.stack([(owns @ (block == code).T.astype(np.int64)).T for code in range(n_classes)], axis=2)
            if powers.changes == "labels":
                scores = self._counted(block) + offsets[start:stop]
                parts.append(_against_annotators(cells, scores, _to_any_class(powers).scope))
            else:
                counted, constant = self._counted(block), offsets[start:stop]
                by_source = SourceVotes(cells, n_owned, n_rows, counted, n_partitions, constant)
                parts.append(certify_partition_sources(by_source, powers.scope))
        names = vars(parts[0])
        return BlockCertificates(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def learner_assumptions(self, n_alike: int) -> list[Assumption]:
        """Return what certificates of this learner assume beyond what is common to all learners."""
        found = [
            Assumption("base-learner-reproducible", {"step": self._base_learner_name}),
            Assumption("partitions-chosen"),
        ]
        if self.estimator is not None:
            found += assumptions_about(self.estimator, "base learner")
        if n_alike:
            found.append(Assumption("equal-rows-by-order", {"n_equal": n_alike, "n_rows": self.n_rows_}))
        return found

    def _assumptions_against(self, adversary: Adversary | None, powers: Powers) -> tuple[Assumption, ...]:
        """Return the assumptions of certificates against this adversary; those of the fit are about labels."""
        limits = adversary_assumptions(adversary, powers.scope, METHOD)
        if powers.changes == "labels":
            bounded = [] if powers.groups is None else [Assumption("annotators-bounded")]
            return (*self.assumptions_, *limits, *bounded)
        of_fit = assumptions_about_rows(self.assumptions_, powers.scope)
        bounded = [] if powers.groups is None else [Assumption("sources-bounded")]
        any_rows = Assumption("base-learner-any-rows", {"step": self._base_learner_name})
        return (*of_fit, any_rows, Assumption("rows-lower-bound"), *limits, *bounded)


def _against_annotators(cells: Integers, scores: Integers, scope: Scope) -> BlockCertificates:
    """Certify by the votes that each annotator can change, of shape (rows, annotators, classes)."""
    n_rows, n_owners, n_classes = cells.shape
    label, first_cell = np.tile(np.arange(n_classes), n_owners), np.arange(n_owners) * n_classes
    cells = cells.reshape(n_rows, n_owners * n_classes)
    return certify_groups_exactly(GroupVotes(cells, np.zeros_like(cells), label, first_cell), scores, scope)


def _to_any_class(powers: Powers) -> Powers:
    """Return the powers over votes: a base learner that can change may predict any class."""
    return replace(powers, transitions=~np.eye(len(powers.transitions), dtype=bool))
