"""SmoothedClassifier: a vote of any classifier over noisy copies of its training data."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import assert_all_finite, check_array, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from flipproof.adversary import Adversary, refuse_row_changes
from flipproof.assumptions import Assumption
from flipproof.core.noise import FeatureNoise, JointNoise
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers
from flipproof.learners.base_learners import BASE_LEARNER
from flipproof.learners.clones import assumptions_about, fresh, unshared_clone
from flipproof.learners.in_memory import LabelsInMemory
from flipproof.origins import Origin
from flipproof.parameters import BOOLEAN, NONE, Constraints, instance, integer, one_of
from flipproof.runtime.progress import CountedProgress
from flipproof.smoothing.bounds import (
    CONFIDENCE,
    GUARANTEES,
    MEASURE,
    NUMBER,
    VoteBounds,
    bound_votes,
    certified_radius,
    error_rate,
    noise_level,
    radius_unit,
    resolved_guarantee,
    resolved_noise,
    selected_classes,
)
from flipproof.smoothing.fits import NoisyFits, all_models, count_votes, draws_of, seed_from
from flipproof.smoothing.smoothed_certificates import (
    SmoothedCertificates,
    abstention_reasons,
    assumptions,
    limits_under_noise,
    reach,
)
from flipproof.values import check_nothing_masked, encode_labels, label_values

#: What the confidence may apply to.
SCOPES = ("prediction", "batch")


class SmoothedClassifier(LabelsInMemory):
    """Certify any classifier: fit it to many noisy copies of the training data, and let these models vote.

    The paper's Algorithm 2, with a training procedure as the function that is smoothed. The *smoothed decision* g is
    the class that the base learner predicts most often when it is fitted to noisy training data. A sample of
    `n_select` models selects a class, which is the prediction; a separate sample of `n_samples` models bounds how often
    it is predicted (Clopper and Pearson). The larger the bound, the more of the training data may be changed without
    changing g. Where the bounds do not prove that the prediction is g, the row is marked as abstained.

    The base learner may be anything: trees, networks, pipelines with steps that use labels, searches. The price is
    `n_select + n_samples` fits for each batch of test rows, and a certificate that holds with a stated confidence
    instead of always. For label-linear learners, flipproof's other classifiers give larger certificates without this
    cost.

    Parameters
    ----------
    estimator : classifier, optional
        The base learner; it is cloned. By default logistic regression on standardised features. Random states that are
        not numbers, including those of its steps and folds, are set from the seed of each draw.
    noise : float, LabelFlip, FeatureNoise, JointNoise or Measure, default=0.3
        The noise. A number q means ``LabelFlip(q)``; below 0.2, samples certify little. `FeatureNoise` and
        `JointNoise` need dense numeric features.
    n_select : int, default=100
        Number of models that vote on the prediction.
    n_samples : int, default=1000
        Number of models for the certificate. :func:`flipproof.smoothing.largest_certifiable` returns the largest
        radius they can certify.
    confidence : float, default=0.999
        Probability that a certificate is true.
    method : {"tight", "kl", "gaussian"}, default="tight"
        How votes become a radius. ``"tight"``: the best possible for label noise and for feature noise, where it
        equals ``"gaussian"``. ``"kl"``: the paper's generic bound, for any measure.
    confidence_over : {"prediction", "batch"}, default="prediction"
        ``"prediction"``: each certificate is true with `confidence`. ``"batch"``: all certificates of one call of
        :meth:`certify` are true at once (union bound).
    classes : array of shape (K,), optional
        The class set. By default it is read from the labels and assumed to be fixed.
    keep_models : bool, default=False
        Whether to fit all models in :meth:`fit` and keep them. Otherwise :meth:`fit` only stores the data, and
        :meth:`predict` and :meth:`certify` fit models, let them vote on the test rows, and discard them.
    n_jobs : int, optional
        Number of parallel processes, as in joblib, whose ``parallel_config`` chooses threads, Dask or Ray. Results do
        not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of all draws. None: a new seed for each :meth:`fit`. An attacker should not know it.
    verbose : int, default=0
        Above 0, report on stderr the number of fits, the largest radius they can certify, and progress.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    noise_ : Measure
        The noise, with the number of classes.
    models_ : list of classifiers or None
        With `keep_models`, the models of the selection sample, then those of the estimation sample.
    seed_ : int
        The seed of all draws.
    n_features_in_ : int
        Number of features seen in `fit`, if the data has columns.

    See Also
    --------
    flipproof.CertifiedPartitionClassifier : Certifies any classifier, by votes of disjoint parts.
    flipproof.LabelFlip : Noise on labels.
    flipproof.FeatureNoise : Gaussian noise on features.
    flipproof.smoothing.SmoothedCertificates : Certificates with a confidence.

    Notes
    -----
    *What is certified.* With probability `confidence` over the draws: the prediction is g, and g is unchanged under any
    change of the training data within `radius`. `predict` estimates g from `n_select` models: with another seed, or
    with changed data within the radius, the estimate may be wrong where the vote is close. No adversary can change g
    itself within the radius.

    *Randomised learners.* The learner's random numbers are drawn independently of the data. Averaged over them, its
    vote for a class is a function of the noisy data with values in [0, 1]. All bounds hold for such functions: those of
    Neyman and Pearson cover randomised tests, and independent randomness increases no divergence.

    *Missing classes.* If all labels of a draw are equal, the model predicts that class, without a fit. If only some
    classes remain, the learner is fitted to those. Any other failure of the base learner raises an error that names the
    draw: leaving draws out would bias the votes.

    *Reproducibility.* Each draw has its own seed, so the votes do not depend on `n_jobs`. The learner runs on one BLAS
    and OpenMP thread. `predict` and `certify` agree on the same test rows.

    *Interrupts.* A KeyboardInterrupt ends the run. There is no partial result: the sample sizes are fixed in advance.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from flipproof.smoothing import SmoothedClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> tree = DecisionTreeClassifier(max_leaf_nodes=2)
    >>> model = SmoothedClassifier(tree, 0.3, n_select=20, n_samples=200, classes=["left", "right"], random_state=0)
    >>> certificates = model.fit(X, y).certify([[-1.0, 0.0], [0.005, 0.0], [1.0, 0.0]])
    >>> certificates.prediction
    array(['left', 'left', 'right'], dtype='<U5')
    >>> certificates.radius
    array([4, 0, 4])
    >>> certificates.abstained
    array([False,  True, False])
    """

    parameter_constraints: ClassVar[Constraints] = {
        "estimator": NONE | BASE_LEARNER,
        "noise": NUMBER | MEASURE,
        "n_select": integer(1),
        "n_samples": integer(1),
        "confidence": CONFIDENCE,
        "method": one_of(*GUARANTEES),
        "confidence_over": one_of(*SCOPES),
        "keep_models": BOOLEAN,
        "random_state": NONE | integer(0) | instance(np.random.RandomState, "a RandomState"),
    }

    features: Any = None  # use a Pipeline instead: its steps that use labels are smoothed too

    step_remedy = "smoothing"

    @property
    def covers_features(self) -> bool:
        """Whether certificates cover, or may cover, changed training features."""
        check_is_fitted(self)
        return getattr(self.noise_, "part", "both") != "labels"

    def __init__(
        self,
        estimator: object = None,
        noise: object = 0.3,
        n_select: int = 100,
        n_samples: int = 1000,
        confidence: float = 0.999,
        method: str = "tight",
        *,
        confidence_over: str = "prediction",
        classes: ArrayLike | None = None,
        keep_models: bool = False,
        n_jobs: int | None = None,
        random_state: object = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.noise = noise
        self.n_select = n_select
        self.n_samples = n_samples
        self.confidence = confidence
        self.method = method
        self.confidence_over = confidence_over
        self.classes = classes
        self.keep_models = keep_models
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: object, y: object) -> SmoothedClassifier:
        """Store the training data; with `keep_models`, fit all models.

        The base learner is first fitted once to the data without noise, so that unsuitable data fail immediately.

        Parameters
        ----------
        X : array, data frame, sparse matrix or any other input of the base learner
            Training features; dense numbers if the noise is on features.
        y : array of shape (n,)
            Training labels: numbers, strings or booleans.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import SmoothedClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> tree = DecisionTreeClassifier(max_leaf_nodes=2)
        >>> model = SmoothedClassifier(tree, 0.3, n_select=10, n_samples=20, classes=["ham", "spam"], random_state=0)
        >>> model.fit(X, y).predict([[5.0]])
        array(['ham'], dtype='<U4')
        """
        self.validate_parameters()
        check_nothing_masked(X, "X")
        X, labels = self._read_features(X, label_values(y))
        self.classes_, self.label_codes_ = encode_labels(labels, self.classes)
        self.is_labeled_ = np.ones(len(self.label_codes_), dtype=bool)
        self.is_trusted_ = ~self.is_labeled_
        # copies: later changes of the data, the noise or the learner must not change the draws
        self.noise_ = deepcopy(resolved_noise(self.noise, len(self.classes_), type(self).__name__))
        resolved_guarantee(self.method, self.noise_, type(self).__name__)
        self.seed_ = seed_from(self.random_state)
        base = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        base = base if self.estimator is None else self.estimator
        codes = self.label_codes_
        self._fits = NoisyFits(unshared_clone(base), self.noise_, fresh(X), codes, self.classes_, self.seed_)
        self._fits.try_once()
        self._class_set_was_read = self.classes is None
        is_noised = "labels" if getattr(self.noise_, "part", "both") == "labels" else "training data"
        self.assumptions_ = tuple(assumptions_about(base, "base learner", is_noised))
        self._n_select, self._n_samples = int(self.n_select), int(self.n_samples)
        self.models_ = self._fitted_models() if self.keep_models else None
        return self

    def predict(self, X: object) -> NDArray[Any]:
        """Return the classes with the most votes in the selection sample; ties go to the class that sorts first.

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
        >>> from flipproof import SmoothedClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> tree = DecisionTreeClassifier(max_leaf_nodes=2)
        >>> model = SmoothedClassifier(tree, 0.3, n_select=10, n_samples=20, classes=["ham", "spam"], random_state=0)
        >>> model.fit(X, y).predict([[5.0], [30.0]])
        array(['ham', 'spam'], dtype='<U4')
        """
        selected = selected_classes(self._selection(X))
        return np.asarray(self.classes_[selected])

    def predict_proba(self, X: object) -> Floats:
        """Return the share of each class in the votes of the selection sample, shape (m, K).

        Parameters
        ----------
        X : array or data frame of shape (m, k)
            Test rows.

        Returns
        -------
        floats of shape (m, K)
            Shares of the votes.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import SmoothedClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> tree = DecisionTreeClassifier(max_leaf_nodes=2)
        >>> model = SmoothedClassifier(tree, 0.3, n_select=10, n_samples=20, classes=["ham", "spam"], random_state=0)
        >>> model.fit(X, y).predict_proba([[5.0], [30.0]])
        array([[1. , 0. ],
               [0.1, 0.9]])
        """
        votes = self._selection(X)
        return np.asarray(votes / votes.sum(axis=1, keepdims=True), dtype=np.float64)

    def certify(self, X: object, method: str | None = None, adversary: Adversary | None = None) -> SmoothedCertificates:
        """Predict, and certify every prediction by its votes.

        Parameters
        ----------
        X : as in fit
            Test rows.
        method : {"tight", "kl", "gaussian"}, optional
            Default: the parameter `method`. The votes do not depend on it.
        adversary : Adversary, optional
            Which labels can be changed, and to what. The noise is on all labels, so limits on the adversary do not
            increase the radius, but it can count annotators.

        Returns
        -------
        SmoothedCertificates

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import SmoothedClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> tree = DecisionTreeClassifier(max_leaf_nodes=2)
        >>> model = SmoothedClassifier(tree, 0.3, n_select=10, n_samples=200, classes=["ham", "spam"], random_state=0)
        >>> model.fit(X, y).certify([[5.0], [30.0]]).radius
        array([2, 1])
        """
        check_is_fitted(self)
        self.validate_parameters()
        name = type(self).__name__
        refuse_row_changes(adversary, f"A {name}", "use a learner that can be fitted with reference=...")
        powers = self.powers(adversary)
        if adversary is not None and radius_unit(self.noise_) != "labels":
            raise ValueError(f"An adversary who changes labels needs noise on labels. Got {self.noise_!r} instead.")
        guarantee = resolved_guarantee(self.method if method is None else method, self.noise_, name)
        Z = self.test_features(X)
        n_rows = _num_samples(Z)
        n_statements = max(n_rows, 1) if self.confidence_over == "batch" else 1
        alpha = error_rate(self.confidence, n_statements, name)
        selection, estimation = self._votes(Z, self._n_samples, self._reach(guarantee, n_statements))
        found = self._certificates(bound_votes(selection, estimation, alpha), guarantee, adversary, powers)
        origin = Origin.of(self, X, n_rows)
        return replace(found, origin=origin, selection=selection, estimation=estimation, alpha=alpha)

    def test_features(self, X: object) -> Any:
        """Return test rows as the models that vote on them get them: checked, and as floats if the noise needs them."""
        check_is_fitted(self)
        if not _noises_features(self.noise_):
            if hasattr(self, "n_features_in_") and not hasattr(X, "iloc") and getattr(X, "ndim", 0) != 2:
                X = check_array(X, dtype=None, ensure_all_finite=False, estimator=self)  # a single row must be 2-D
            validate_data(self, X, skip_check_array=True, reset=False)
            if _num_samples(X) == 0:
                raise ValueError("X must have at least one test row. Got 0 rows instead.")
            return X
        self._refuse_sparse(X)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _certificates(
        self, found: VoteBounds, guarantee: str, adversary: Adversary | None, powers: Powers
    ) -> SmoothedCertificates:
        n_train, unit = len(self.label_codes_), radius_unit(self.noise_)
        decided = found.decided
        radius = certified_radius(found.log_failure, found.log_rival, self.noise_, guarantee, n_train)
        if unit == "labels":  # a guarantee against any changed labels covers those that this adversary can change
            radius = np.minimum(powers.scope.groups_within(radius), powers.scope.n_touchable)
        return SmoothedCertificates(
            prediction=self.classes_[found.winner],
            radius=np.where(decided, radius, 0).astype(np.int64 if unit == "labels" else np.float64),
            rival=self.classes_[found.rival],
            margin=found.margin,
            log_failure=found.log_failure,
            abstained=~decided,
            witness=np.full((len(decided), len(self.classes_)), np.nan),
            method=guarantee,
            noise=noise_level(self.noise_),
            n_train=n_train,
            classes=self.classes_.copy(),
            assumptions=(*self._own_assumptions(), *self.assumptions_, *limits_under_noise(adversary, powers)),
            unit=unit if powers.groups is None else "annotators",
            n_touchable=powers.scope.n_touchable,
            adversary=adversary,
            log_rival=found.log_rival,
            abstention_reason=abstention_reasons(found, decided, self.classes_),
            confidence=float(self.confidence),
            confidence_over=self.confidence_over,
            n_select=self._n_select,
            n_samples=self._n_samples,
            measure=self.noise_,
            split=found.split,
        )

    def _selection(self, X: object) -> Integers:
        votes, _ = self._votes(self.test_features(X), n_samples=0)
        return votes

    def _votes(self, Z: object, n_samples: int, reach_text: str = "") -> tuple[Integers, Integers]:
        """Return the votes of both samples on test rows, without an estimation sample if `n_samples` is 0."""
        draws = draws_of(self._n_select, n_samples)
        if self.models_ is None:
            return count_votes(self._fits, draws, Z, self.n_jobs, self._announced(n_samples, reach_text))
        return self._fits.votes_of(self.models_, draws, Z)

    def _fitted_models(self) -> list[Any]:
        guarantee = resolved_guarantee(self.method, self.noise_, type(self).__name__)
        progress = self._announced(self._n_samples, self._reach(guarantee, 1))
        return all_models(self._fits, draws_of(self._n_select, self._n_samples), self.n_jobs, progress)

    def _announced(self, n_samples: int, reach_text: str) -> CountedProgress:
        """Announce the number of fits and the largest radius they can certify; return the progress reporter."""
        n_fits, n_workers = self._n_select + n_samples, effective_n_jobs(self.n_jobs)
        progress = CountedProgress(n_fits, "fits", int(self.verbose))
        purpose = f"{self._n_select} to select" + (f" and {n_samples} to estimate" if n_samples else "")
        workers = f" on {n_workers} workers" if n_workers > 1 else ""
        base = type(self._fits.estimator).__name__
        progress.announce(f"{type(self).__name__}: {n_fits} fits of {base}, {purpose}{workers}. {reach_text}".rstrip())
        return progress

    def _own_assumptions(self) -> list[Assumption]:
        base = type(self._fits.estimator).__name__
        n_classes_read = len(self.classes_) if self._class_set_was_read else None
        return assumptions(self.noise_, base, self.confidence, self.confidence_over, n_classes_read)

    def _reach(self, guarantee: str, n_predictions: int) -> str:
        n_train = len(self.label_codes_)
        return reach(self._n_samples, self.confidence, self.noise_, guarantee, n_train, n_predictions)

    def _read_features(self, X: object, y: object) -> tuple[Any, NDArray[Any]]:
        if _noises_features(self.noise):
            self._refuse_sparse(X)
            X, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        else:
            X, labels = validate_data(self, X, y, skip_check_array=True)
            labels = column_or_1d(labels, warn=True)
            assert_all_finite(labels, input_name="y")
            check_consistent_length(X, labels)
            if len(labels) < 2:
                raise ValueError(f"At least two training rows are needed. Got n_samples={len(labels)} instead.")
        check_classification_targets(labels)
        return X, labels

    def _refuse_sparse(self, X: object) -> None:
        if issparse(X):
            raise TypeError(
                "Noise cannot be added to sparse features: no zero would remain zero. Pass X.toarray(), or use a "
                "Pipeline that produces few dense features."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None and hasattr(self.estimator, "__sklearn_tags__"):
            base = get_tags(self.estimator).input_tags
            tags.input_tags.sparse = base.sparse and not _noises_features(self.noise)
            tags.input_tags.allow_nan = base.allow_nan and not _noises_features(self.noise)
        return tags


def _noises_features(noise: object) -> bool:
    return isinstance(noise, (FeatureNoise, JointNoise))
