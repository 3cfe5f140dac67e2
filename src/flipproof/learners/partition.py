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
from flipproof.core.contents import row_hashes
from flipproof.core.engine import BlockCertificates, certify_exact, certify_groups_exactly, winners
from flipproof.core.histograms import NUMBERS_AT_A_TIME, VoteHistogram
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import GroupVotes, tiles
from flipproof.determinism import on_one_core
from flipproof.learners.base_learners import (
    BASE_LEARNER,
    ask_base_learners,
    check_reproducible,
    fit_base_learners,
)
from flipproof.learners.certified import LabelsInMemory
from flipproof.learners.clones import assumptions_about
from flipproof.parameters import NONE, Constraints, check_parameter, integer, one_of, parameter_error

METHOD = "gap"

#: Methods that `certify` accepts.
ONLY_METHOD = (NONE | one_of(METHOD)).explained(
    "other methods need a label-linear learner, for example CertifiedRidgeClassifier."
)

#: Numbers in memory per annotator, class and test row during certification.
HELD_PER_CELL = 8


class CertifiedPartitionClassifier(LabelsInMemory):
    """Certifies any classifier: clones are fitted to disjoint parts of the training rows, and vote.

    Deep partition aggregation (Levine and Feizi 2021, there SS-DPA for changed labels). The training rows are assigned
    to `n_partitions` partitions by their features alone, a clone of `estimator` is fitted to each partition, and the
    class that most of them predict wins; ties go to the class that sorts lowest. A changed label changes a single base
    learner, and thus at most one vote; a vote that moves from the predicted class to a rival class changes the lead by
    2. So with two classes and a lead of `gap` votes, any ``floor(gap / 2)`` labels may be changed if the predicted
    class sorts first and wins ties, and ``ceil(gap / 2) - 1`` if it does not.

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
        Number of partitions, at most the number of training rows. More partitions allow larger radii, but each base
        learner has fewer rows to learn from.
    features : transformer, optional
        Cloned and fitted on *all* training features *without* labels. Random states that are not integers are set to 0.
    classes : array of shape (K,), optional
        The class set. If omitted, it is read from the labels, and certificates assume that it is fixed.
    n_jobs : int, optional
        Processes over partitions in `fit`, as in joblib. It does not affect results.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    partition_ : integers of shape (n,)
        The partition of each training row, from 0 on.
    estimators_ : list of n_partitions classifiers
        The base learners; a DummyClassifier where all labels of a partition are the same.
    features_ : transformer or None
        The fitted `features`.
    n_features_in_ : int
        Number of features seen in `fit`.

    Notes
    -----
    *Partitions.* The rows are sorted by a 64-bit hash of their features and assigned in turn, so that the sizes of the
    partitions differ by at most one. The hash reads no label, so changed labels move no row: the certificate needs
    nothing more. The hash does not read the position of a row either, so that rows sorted by label do not carry labels
    into the partitions. Only rows with equal features are assigned by their order, and `assumptions` says so if there
    are any.

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

    parameter_constraints: ClassVar[Constraints] = {"estimator": NONE | BASE_LEARNER, "n_partitions": integer(1)}

    def __init__(
        self,
        estimator: Any = None,
        n_partitions: int = 50,
        *,
        features: Any = None,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
    ):
        self.estimator = estimator
        self.n_partitions = n_partitions
        self.features = features
        self.classes = classes
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> CertifiedPartitionClassifier:
        """Assign the training rows to partitions, and fit a base learner to each.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            Training features, or the input of `features`.
        y : array of shape (n,)
            Training labels: numbers, strings or booleans.

        Returns
        -------
        self
        """
        # on one core, since the last bits of features decide the partition of a row
        rows, _ = on_one_core(lambda: self._read_training_rows(X, y))
        n_partitions = int(self.n_partitions)
        if len(rows) < n_partitions:
            wanted = f"at most the number of training rows, {len(rows)}"
            raise parameter_error(type(self).__name__, "n_partitions", wanted, n_partitions)
        hashes = row_hashes(rows)
        in_order = np.argsort(hashes, kind="stable")
        self.partition_ = np.empty(len(rows), dtype=np.int64)
        self.partition_[in_order] = np.arange(len(rows)) % n_partitions
        members = [in_order[number::n_partitions] for number in range(n_partitions)]
        base = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        base = base if self.estimator is None else self.estimator
        labels = self.classes_[self.label_codes_]
        self.estimators_ = fit_base_learners(base, rows, labels, members, self.n_jobs)
        check_reproducible(base, rows, labels, members, self.estimators_)
        n_alike = len(hashes) - len(np.unique(hashes))
        self.assumptions_ = (*self.common_assumptions(), *self.learner_assumptions(n_alike))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that most base learners predict; ties go to the class that sorts lowest."""
        winner = winners(self._counted(self._votes(self.test_features(X))))
        return np.asarray(self.classes_[winner])

    def decision_function(self, X: Any) -> Floats:
        """Return the share of base learners that predict each class, shape (m, K); with two classes the difference."""
        shares = self._counted(self._votes(self.test_features(X))) / len(self.estimators_)
        return shares[:, 1] - shares[:, 0] if len(self.classes_) == 2 else shares

    def certify(self, X: Any, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction by its lead in votes.

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.
        method : {"gap"}, optional
            The only method: others need a label-linear learner.
        adversary : Adversary, optional
            What an attacker can do to the labels. Default: change any label to any class.

        Returns
        -------
        Certificates
            `margin` is the lead in votes. There is no noise, hence no `log_failure` and no `witness`.
        """
        check_parameter(type(self).__name__, "method", method, ONLY_METHOD)
        Z = self.test_features(X)
        powers = self.powers(adversary)
        votes = self._votes(Z)
        found = self._certify_labels(votes, powers)
        if powers.groups is not None:
            # a radius of R labels also holds against annotators who together have at most R labels
            within = powers.scope.groups_within(found.radius)
            found = self._certify_groups(votes, powers, powers.groups)
            found = replace(found, radius=np.maximum(found.radius, within))
        found.check(powers.scope)
        return Certificates(
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
            assumptions=(*self.assumptions_, *self._adversary_assumptions(adversary, powers)),
            unit=powers.scope.unit,
            n_touchable=powers.scope.n_touchable,
            adversary=adversary,
        )

    def _votes(self, Z: Floats) -> NDArray[Any]:
        """Return the class code that each base learner predicts, shape (m, n_partitions), in one or two bytes each."""
        return ask_base_learners(self.estimators_, self.classes_, Z)

    def _counted(self, votes: NDArray[Any]) -> Integers:
        """Count the votes for each class, shape (m, K)."""
        counts = [np.count_nonzero(votes == code, axis=1) for code in range(len(self.classes_))]
        return np.stack(counts, axis=1).astype(np.int64)

    def _certify_labels(self, votes: NDArray[Any], powers: Powers) -> BlockCertificates:
        """Certify against changed labels, each of which may change the vote of its base learner to any class.

        Soundness: the votes take the place of labels with a weight of 1 each (M6). To change r votes, at least r labels
        must be changed. A base learner without a changeable label never changes: its vote is an offset.
        """
        can_change = np.isin(np.arange(len(self.estimators_)), self.partition_[powers.changeable])
        free, fixed = self._counted(votes[:, can_change]), self._counted(votes[:, ~can_change])
        histogram = VoteHistogram(np.ones((1, 1), dtype=np.int64), free[:, :, None], n_levels=1)
        return certify_exact(histogram, fixed, _to_any_class(replace(powers, groups=None)).scope)

    def _certify_groups(self, votes: NDArray[Any], powers: Powers, groups: Integers) -> BlockCertificates:
        """Certify against annotators, who may change every base learner that has a changeable label of theirs.

        Soundness: the most that several annotators can take off a lead is at most the sum of what each can take off.
        """
        n_partitions, n_classes = len(self.estimators_), len(self.classes_)
        owners, owner = np.unique(groups[powers.changeable], return_inverse=True)
        owned = np.unique(owner * n_partitions + self.partition_[powers.changeable])
        ones = np.ones(len(owned), dtype=np.int64)
        owns = csr_array((ones, (owned // n_partitions, owned % n_partitions)), shape=(len(owners), n_partitions))
        label, first_cell = np.tile(np.arange(n_classes), len(owners)), np.arange(len(owners)) * n_classes
        parts = []
        for start, stop in tiles(len(votes), max(1, NUMBERS_AT_A_TIME // (HELD_PER_CELL * max(1, len(label))))):
            block = votes[start:stop]
            cells = np.stack([(owns @ (block == code).T.astype(np.int64)).T for code in range(n_classes)], axis=2)
            cells = cells.reshape(len(block), len(label))
            by_group = GroupVotes(cells, np.zeros_like(cells), label, first_cell)
            parts.append(certify_groups_exactly(by_group, self._counted(block), _to_any_class(powers).scope))
        names = vars(parts[0])
        return BlockCertificates(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def learner_assumptions(self, n_alike: int) -> list[Assumption]:
        """Return what certificates of this learner assume beyond what is common to all learners."""
        named = "LogisticRegression" if self.estimator is None else type(self.estimator).__name__
        found = [Assumption("base-learner-reproducible", {"step": named}), Assumption("partitions-chosen")]
        if self.estimator is not None:
            found += assumptions_about(self.estimator, "base learner")
        if n_alike:
            found.append(Assumption("equal-rows-by-order", {"n_equal": n_alike, "n_rows": self.n_rows_}))
        return found

    def _adversary_assumptions(self, adversary: Adversary | None, powers: Powers) -> list[Assumption]:
        found = adversary_assumptions(adversary, powers.scope, METHOD)
        return found if powers.groups is None else [*found, Assumption("annotators-bounded")]


def _to_any_class(powers: Powers) -> Powers:
    """Return the powers over votes: a base learner that can change may predict any class."""
    return replace(powers, transitions=~np.eye(len(powers.transitions), dtype=bool))
