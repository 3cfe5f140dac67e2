"""check_certifier passes sound learners and names the fault of others."""

import ast
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from tiers import mostly_slow

from flipproof import (
    Adversary,
    Certificates,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedRidgeClassifier,
    LabelFlip,
    LabelLinearClassifier,
)
from flipproof.checks import check_certifier
from flipproof.checks.certifier import given_problem, random_problems
from flipproof.core.votes import dense_votes

SMALL = {"n_rows": 4, "n_problems": 4}

#: One problem with two classes and one with three, and so little noise that "tight" can certify something.
TWO = {"n_rows": 4, "n_problems": 2, "random_state": 2}


class Parzen(LabelLinearClassifier):
    def fit_without_labels(self, X):
        self.rows_ = X.copy()

    def label_free_weights(self, Z):
        return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))


class SparseNeighbours(Parzen):
    """The nearest two vote, the second against its own label."""

    def label_free_weights(self, Z):
        nearest = np.argsort(-super().label_free_weights(Z), axis=1, kind="stable")[:, :2]
        weights = np.zeros((len(Z), len(self.rows_)))
        np.put_along_axis(weights, nearest, np.array([[2.0, -1.0]]), axis=1)
        return csr_array(weights)


class WithOffsets(Parzen):
    def label_free_weights(self, Z):
        return super().label_free_weights(Z), 0.3 * np.arange(len(self.classes_))[None, ::-1] * np.abs(Z[:, :1])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "estimator",
    mostly_slow(
        [
            CertifiedRidgeClassifier(fit_intercept=False, noise=0.2),
            CertifiedRidgeClassifier(regularization=0, precision=3, method="tight"),
            CertifiedRidgeClassifier(features=PCA(1), precision=24),
            Parzen(),
            SparseNeighbours(precision=2),
            WithOffsets(block_size=2),
        ],
        fast=(1, 4, 5),
    ),
    ids=str,
)
def test_sound_learners_pass(estimator):
    assert check_certifier(estimator, **TWO) is None


@pytest.mark.slow
def test_the_default_is_four_problems_of_five_rows():
    assert check_certifier(CertifiedRidgeClassifier()) is None


class ReadsClassMean(Parzen):
    def fit(self, X, y):
        super().fit(X, y)
        self.rows_ = self.rows_ - self.rows_[np.asarray(y) == y[0]].mean(axis=0)
        return self


class WeighsByClassBalance(Parzen):
    def _fit_with_labels(self, codes):
        self.share = np.mean(codes == codes[0])

    def label_free_weights(self, Z):
        return super().label_free_weights(Z) * self.share


class OffsetsByClassBalance(Parzen):
    def _fit_with_labels(self, codes):
        self.shares = np.bincount(codes, minlength=len(self.classes_)) / len(codes)

    def label_free_weights(self, Z):
        return super().label_free_weights(Z), self.shares[None]


class DependsOnCompany(Parzen):
    def label_free_votes(self, Z, held):
        return dense_votes(self.label_free_weights(Z - Z.mean(axis=0)), self.precision_)


class DependsOnOrder(Parzen):
    def label_free_votes(self, Z, held):
        return dense_votes(self.label_free_weights(Z - Z[:1]), self.precision_)


class ReadsClassSet(Parzen):
    def fit(self, X, y):
        given, self.classes = self.classes, None
        try:
            return super().fit(X, y)
        finally:
            self.classes = given


class ReadsClassSetOfTwo(Parzen):
    """It could be fitted to a single class, but forgets about the third."""

    def fit(self, X, y):
        given = self.classes
        self.classes = [0, *range(1, max(max(y), 1) + 1)]
        try:
            return super().fit(X, y)
        finally:
            self.classes = given


class HasNoClasses(Parzen):
    def __init__(self):
        super().__init__()


class ModifiesTrainingRows(Parzen):
    def fit(self, X, y):
        super().fit(X, y)
        X -= X.mean(axis=0)
        return self


class ModifiesLabels(Parzen):
    def fit(self, X, y):
        super().fit(X, y)
        y[:] = y[::-1].copy()
        return self


class ModifiesTestRows(Parzen):
    def predict(self, X):
        predicted = super().predict(X)
        X *= 0.5
        return predicted


class IsRandom(Parzen):
    def fit_without_labels(self, X):
        self.rows_ = X + np.random.default_rng().normal(size=X.shape)


class RemembersFits(Parzen):
    def fit_without_labels(self, X):
        self.times = getattr(self, "times", 0) + 1
        self.rows_ = X * self.times


class TiesToHighest(Parzen):
    def predict(self, X):
        alpha, offsets = self.vote_weights(X)
        scores = alpha @ np.eye(len(self.classes_))[self.label_codes_] + offsets
        return self.classes_[len(self.classes_) - 1 - np.argmax(scores[:, ::-1], axis=1)]


class PredictsWithoutItsVotes(Parzen):
    """The weights read no label, but the prediction is the majority class instead of the result of the vote."""

    def predict(self, X):
        return np.full(len(X), self.classes_[np.argmax(np.bincount(self.label_codes_))])


class CertifiesSomethingElse(Parzen):
    def certify(self, X, method=None, adversary=None):
        certificates = super().certify(X, method, adversary)
        return replace(certificates, prediction=certificates.rival)


class RefusesAdversaries(Parzen):
    def certify(self, X, method=None, adversary=None):
        if adversary is not None:
            raise ValueError("not today")
        return super().certify(X, method)


FAULTY = {
    ReadsClassMean: r"has weights that depend on labels: fitted to y = .*, alpha of training row 0 for test row 0 is",
    WeighsByClassBalance: "has weights that depend on labels: .* alpha of training row 0 for test row 0 is",
    OffsetsByClassBalance: "has weights that depend on labels: .* offsets of class . for test row 0 is",
    DependsOnCompany: "treats a test row differently with other rows: asked alone, alpha of training row",
    DependsOnOrder: "treats a test row differently with other rows: asked in reverse order, alpha of training row",
    ReadsClassSet: r"cannot be fitted to y = \[0, 0, 0, 0\], .*the classes \[1\]\. .*only one class",
    ReadsClassSetOfTwo: r"reads its class set from the labels: .*classes_ is \[0, 1\] instead of \[0, 1, 2\]",
    HasNoClasses: r"cannot be fitted to y = \[0, 0, 0, 0\], .* a parameter 'classes'",
    ModifiesTrainingRows: "modifies the training rows",
    ModifiesLabels: r"modifies the labels that it is fitted to: \[.*\] became \[.*\]",
    ModifiesTestRows: "modifies the test rows",
    IsRandom: r"gives different results when fitted twice to y = \[(\d, )*\d\]: alpha of training row",
    RemembersFits: "gives different results when fitted twice to y = .*, the second time after other labels: alpha of",
    TiesToHighest: "does not predict what its weights say: .* predicts . for test row ., but .*ties go to the lowest",
    PredictsWithoutItsVotes: "does not predict what its weights say",
    CertifiesSomethingElse: "certifies . for test row 0, but predicts .",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("learner", FAULTY)
def test_the_error_names_the_fault(learner):
    with pytest.raises(AssertionError, match=FAULTY[learner]) as finding:
        check_certifier(learner(), **SMALL)
    assert str(finding.value).startswith(learner.__name__)
    assert len(str(finding.value).splitlines()) == 2


def test_the_papers_lambda_reads_labels():
    with pytest.raises(AssertionError, match="CertifiedRidgeClassifier has weights that depend on labels"):
        check_certifier(CertifiedRidgeClassifier(regularization="paper"))


class Overstates(Parzen):
    """Adds something to the radii of one method, against adversaries with certain powers."""

    def __init__(self, of="exact", against="", by=1, classes=None, noise=0.1):
        super().__init__(classes=classes, noise=noise)
        self.of = of
        self.against = against
        self.by = by

    def certify(self, X, method=None, adversary=None):
        certificates = super().certify(X, method, adversary)
        names = ("trusted", "groups", "allowed")
        powers = [name for name in names if getattr(adversary, name, None) is not None]
        if certificates.method != self.of or " ".join(powers) != self.against:
            return certificates
        return replace(certificates, radius=np.maximum(certificates.radius + self.by, 0))


@pytest.mark.few(1)
@pytest.mark.parametrize("of", ["exact", "tight", "kl"])
@pytest.mark.parametrize("against", ["", "trusted", "groups", "allowed", "trusted groups allowed"])
def test_an_attack_refutes_a_radius_that_is_too_large(of, against):
    unit = "annotators" if "groups" in against else "labels"
    claim = rf"breaks a certificate: test row \d is predicted as \d with a radius of \d {unit}, but fitted to \[.*\]"
    claim = rf"{claim}, \d away, it predicts \d"
    if of == "exact":
        claim = rf"{claim}|has an exact radius that is too large: \d for test row \d, which should be \d"
    # the smoothing certificates leave room to the exact radius, which is at most the number of labels, 4
    overstating = Overstates(of, against, by=1 if of == "exact" else 4)
    with pytest.raises(AssertionError, match=rf"({claim}) \(method '{of}'") as finding:
        check_certifier(overstating, **SMALL)
    for power in against.split():
        assert f"{power}=[" in str(finding.value)


def test_an_exact_radius_that_is_too_small_is_refused():
    with pytest.raises(AssertionError, match=r"exact radius that is not attained: 0 for test row ., which should be 1"):
        check_certifier(Overstates(by=-1), **SMALL)


def test_an_exact_radius_that_stops_at_a_tie_is_refused():
    """Two rows of equal weight: one flip makes a tie, which goes to class 0, the prediction."""
    with pytest.raises(AssertionError, match="exact radius that is not attained: 0 for test row 0, which should be 1"):
        check_certifier(Overstates(by=-1, classes=[0, 1]), [[-1.0], [1.0]], [0, 0], [[0.0]])


def test_a_radius_above_the_number_of_labels_is_refused():
    """No label votes on the row, so nothing can overturn it; there are two labels."""
    with pytest.raises(AssertionError, match="exact radius that is too large: 3 for test row 0, which should be 2"):
        check_certifier(Overstates(classes=[0, 1]), [[-1.0], [1.0]], [0, 0], [[1e9]])


@pytest.mark.parametrize("method", ["kl", "tight"])
def test_smoothing_certificates_have_positive_radii(method):
    """With the noise that half of the default problems set, some radii are positive even with five labels."""
    largest = 0
    for problem in random_problems(5, 2, 4, [2, 3], 0):
        model = CertifiedRidgeClassifier(problem.noise or 0.1, classes=problem.classes)
        for codes in problem.some_labellings(7):
            largest = max(largest, model.fit(problem.X, codes).certify(problem.Z, method).radius.max())
    assert largest >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "expected"), [(0.2, {0.2, 1e-6}), (LabelFlip(0.2), {LabelFlip(0.2)})])
def test_half_of_the_problems_have_a_small_noise(noise, expected):
    seen = set()

    class Spy(Parzen):
        def fit(self, X, y):
            seen.add(self.noise)
            return super().fit(X, y)

    check_certifier(Spy(noise), n_rows=2, n_problems=4, n_classes=[2])
    assert seen == expected


def test_a_label_linear_learner_must_accept_adversaries():
    with pytest.raises(ValueError, match="not today"):
        check_certifier(RefusesAdversaries(), **SMALL)


def test_a_finding_is_reproducible():
    with pytest.raises(AssertionError) as finding:
        check_certifier(Overstates("tight", "groups", by=4), n_rows=4, random_state=7)
    call = re.search(r"Found with (.*); training rows (\[\[.*\]\]), test row (\[.*\])$", str(finding.value))
    arguments = dict(one.split("=") for one in call[1].split(", "))
    with pytest.raises(AssertionError) as again:
        check_certifier(
            Overstates("tight", "groups", by=4), **{name: ast.literal_eval(value) for name, value in arguments.items()}
        )
    assert str(again.value) == str(finding.value)
    # and on the rows that it names, by hand
    y = ast.literal_eval(re.search(r"fitted to y = (\[.*?\])", str(finding.value))[1])
    X, z = ast.literal_eval(call[2]), ast.literal_eval(call[3])
    attacked = ast.literal_eval(re.search(r"but fitted to (\[.*?\])", str(finding.value))[1])
    classes = range(ast.literal_eval(arguments["n_classes"])[0])
    before, after = (Parzen(classes=classes).fit(X, labels).predict([z]) for labels in (y, attacked))
    assert before != after


class Majority(ClassifierMixin, BaseEstimator):
    """Not label-linear, no weights, no parameter except the classes: always predicts the most frequent class."""

    def __init__(self, classes=None, generous=0, abstains=False):
        self.classes = classes
        self.generous = generous
        self.abstains = abstains

    def fit(self, X, y):
        self.classes_ = np.asarray(self.classes)
        self.counts_ = (np.asarray(y)[:, None] == self.classes_).sum(axis=0)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[np.argmax(self.counts_)])

    def certify(self, X, method=None, adversary=None):
        if method not in (None, "gap") or adversary is not None:
            raise ValueError("only the gap, against anybody")
        m, K = len(X), len(self.classes_)
        lowest, second = np.sort(self.counts_)[::-1][:2]
        radius = max(lowest - second - 1, 0) // 2 + self.generous
        nan = np.full((m, K), np.nan)
        return Certificates(
            prediction=self.predict(X),
            radius=np.full(m, radius),
            rival=np.full(m, self.classes_[0]),
            margin=nan[:, 0],
            log_failure=nan[:, 0],
            abstained=np.full(m, self.abstains),
            witness=nan,
            method="gap",
            noise=np.nan,
            n_train=int(self.counts_.sum()),
            classes=self.classes_,
            assumptions=(),
        )


def test_a_learner_without_weights_is_checked_by_refitting():
    check_certifier(Majority(), n_rows=6, n_problems=2)
    with pytest.raises(AssertionError, match=r"Majority breaks a certificate: .* \(method 'gap'"):
        check_certifier(Majority(generous=1), n_rows=6, n_problems=2)
    check_certifier(Majority(generous=1, abstains=True), n_rows=6, n_problems=2)


@pytest.mark.slow
def test_given_rows_are_used():
    X = pd.DataFrame({"a": [0.0, 0.1, 1.0, 1.1], "b": [1.0, 2.0, 1.0, 2.0]})
    y = ["ham", "ham", "spam", "spam"]
    check_certifier(CertifiedRidgeClassifier(), X, y)
    check_certifier(Parzen(classes=["ham", "none", "spam"]), X.to_numpy(), y, X_test=[[0.0, 0.0], [1.0, 1.0]])
    with pytest.raises(AssertionError, match=r"fitted to y = \['ham', .*\nFound with the given X, y and X_test"):
        check_certifier(WeighsByClassBalance(), X.to_numpy(), y)


def test_costs_of_attacks_depend_on_the_adversary():
    problem = given_problem(np.zeros((3, 1)), [0, 1, 2], None, None)
    base = problem.first

    def priced(**powers):
        prices = problem.prices(base, Adversary(**powers) if powers else None)
        return {tuple(codes): price for codes, price in zip(problem.labellings.tolist(), prices, strict=True)}

    assert priced()[(1, 1, 0)] == 2
    trusted = priced(trusted=[True, False, False])
    assert trusted[(0, 0, 0)] == 2
    assert trusted[(1, 1, 2)] == np.inf
    groups = priced(groups=["a", "a", "b"])
    assert groups[(1, 0, 2)] == 1
    assert groups[(1, 1, 1)] == 2
    allowed = priced(allowed=[(0, 1), (1, 2)])
    assert allowed[(1, 2, 2)] == 2
    assert allowed[(2, 1, 2)] == np.inf  # not even by way of 1
    everything = priced(trusted=[False, False, True], groups=["a", "a", "b"], allowed=[(0, 1), (1, 2)])
    assert {codes: price for codes, price in everything.items() if price < np.inf} == {
        (0, 1, 2): 0,
        (1, 1, 2): 1,
        (0, 2, 2): 1,
        (1, 2, 2): 1,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.zeros((3, 1))}, "takes X and y together"),
        ({"X_test": np.zeros((3, 1))}, "takes X and y together"),
        ({"X": np.zeros((3, 1)), "y": [0, 1]}, "one label for each of the 3 rows"),
        ({"X": np.zeros((3, 1)), "y": [0, 0, 0]}, "at least two classes"),
        ({"X": np.zeros((15, 1)), "y": np.arange(15) % 2}, "32768 labellings, each"),
        ({"n_rows": 20}, "1048576 labellings, each"),
        ({"n_rows": 2}, "as many rows as classes. Got n_problems=4, n_classes=.2, 3. and n_rows=2"),
        ({"n_problems": 0}, "at least one problem"),
        ({"n_classes": [1]}, "at least one problem, two classes"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_certifier(Parzen(), **arguments)


def test_errors_unrelated_to_labels_propagate():
    with pytest.raises(ValueError, match="The 'precision' parameter of Parzen must be"):
        check_certifier(Parzen(precision=99))


def test_an_estimator_without_certify_is_refused():
    with pytest.raises(ValueError, match=r"needs a classifier with fit"):
        check_certifier(PCA())


class Frozen(Parzen):
    """The weight of a row depends on the row and on the test row only."""

    def weight_of_row(self, x, z):
        return np.exp(-np.abs(z - x).sum()) - 0.05


class ReadsMeanOfRows(Frozen):
    def place(self, X):
        return X - X.mean(axis=0) if len(X) else super().place(X)


class GridOfTrainingRows(Frozen):
    def label_free_votes(self, Z, held):
        if self.n_reference_ is None:
            return super().label_free_votes(Z, held)
        return dense_votes(np.exp(-np.abs(Z[:, None, :] - held).sum(axis=2)), self.precision_)


class OffsetsByNumberOfRows(Frozen):
    def _deployed_offsets(self, votes, exponent):
        offsets = np.zeros((len(votes), len(self.classes_)))
        offsets[:, -1] = self.n_rows_
        return offsets


class CertifiesInsertionsAsRemovals(Frozen):
    """As if rows could be added for free, or not at all."""

    def certify(self, X, method=None, adversary=None):
        if adversary is None or adversary.changes != "insertions":
            return super().certify(X, method, adversary)
        found = super().certify(X, method, Adversary(changes="removals", trusted=adversary.trusted))
        return replace(found, adversary=adversary)


class OverstatesRows(Frozen):
    """Claims one change of rows too many, or too few."""

    def __init__(self, changes="rows", by=1, noise=0.1, clip=None, classes=None):
        super().__init__(noise, clip=clip, classes=classes)
        self.changes = changes
        self.by = by

    def certify(self, X, method=None, adversary=None):
        found = super().certify(X, method, adversary)
        if adversary is None or adversary.changes != self.changes:
            return found
        return replace(found, radius=np.maximum(found.radius + self.by, 0))


class CannotLoseRows(Frozen):
    def fit(self, X, y, reference=None):
        if reference is not None and len(X) < 2:
            raise ValueError("too few rows")
        return super().fit(X, y, reference=reference)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "estimator",
    mostly_slow(
        [
            CertifiedRidgeClassifier(clip=0.5),
            CertifiedRidgeClassifier(precision=3),
            CertifiedForestClassifier(3, min_samples_leaf=1),
            CertifiedKernelClassifier(clip="sign"),
            CertifiedClusterClassifier(KMeans(2, n_init=1)),
            Frozen(),
            Frozen(clip=0.8),
            OverstatesRows(by=0),
        ],
        fast=(0, 2, 7),
    ),
    ids=str,
)
def test_sound_learners_with_a_reference_pass(estimator):
    assert check_certifier(estimator, n_rows=3, n_problems=2) is None


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (ReadsMeanOfRows(), "has a vote that depends on other training rows"),
        (GridOfTrainingRows(), "has a vote that depends on other training rows"),
        (OffsetsByNumberOfRows(), "has an offset that depends on other training rows"),
        (CertifiesInsertionsAsRemovals(), "breaks a certificate against changed rows"),
        (OverstatesRows("rows", clip=0.5), "breaks a certificate against changed rows"),
        (OverstatesRows("insertions", clip=0.5), "breaks a certificate against changed rows"),
        (OverstatesRows("removals"), "breaks a certificate against changed rows|removed rows that is not exact"),
        (OverstatesRows("removals", by=-1), "against removed rows that is not exact"),
        (CannotLoseRows(), "cannot be fitted after changes of rows"),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
)
def test_wrong_certificates_against_changed_rows_are_found(estimator, message):
    with pytest.raises(AssertionError, match=message):
        check_certifier(estimator, n_rows=3, n_problems=4)
