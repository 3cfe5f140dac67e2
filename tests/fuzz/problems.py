"""Hard problems, each generated from one integer: learner, rows, labels, adversary.

Everything that a problem consists of is kept as Python source or as plain arrays, so that it can be printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

#: What problems, and the scripts that are printed of them, can name.
HEADER = """\
import itertools
import warnings
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.cluster import DBSCAN, AgglomerativeClustering, Birch, KMeans
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    LabelDependenceWarning,
    LabelFlip,
    LabelLinearClassifier,
    streaming,
)
from flipproof.attacks import worst_flips, worst_rows
"""

#: In how many of twenty problems each learner occurs: the cheapest and the most varied ones most.
SHARES = {
    "ridge": 4, "kernel": 2, "landmarks": 2, "neighbors": 3, "cluster": 1, "forest": 1, "propagation": 2,
    "partition": 1, "table": 4,
}  # fmt: skip

LEARNERS = tuple(SHARES)

#: Every eight times twenty seeds in a row have each learner with each kind of adversary.
TURNS = tuple(name for name, share in SHARES.items() for _ in range(share))

#: Exponents of ten by which features are scaled: near the ends of floats, and where squares and cubes reach them.
SCALES = (
    -323, -315, -308, -305, -162, -160, -158, -155, -153, -108, -102, -54, -30, -8, 8, 30, 99, 101, 150, 153, 155, 300,
    307, 308,
)  # fmt: skip

#: Labellings of a small problem: seven labels of three classes, fewer labels of more classes.
MOST_LABELLINGS = 3**7

LARGEST = {np.dtype(np.float64): 1.79e308, np.dtype(np.float32): 3.4e38}


@dataclass(frozen=True)
class Labels:
    """Classes as Python source, in the order in which they sort, and what holds the labels."""

    values: tuple[str, ...]
    holder: str = "np.array([{}])"

    def source(self, codes):
        """Return the source of labels, given their class codes."""
        return self.holder.format(", ".join(self.values[code] for code in codes))


@dataclass(frozen=True)
class Problem:
    """A learner, its training and test rows, and an adversary.

    Attributes
    ----------
    codes : tuple of int
        The training labels, as positions in ``labels.values``; of no meaning where `unlabeled`.
    trusted, groups, allowed
        As of an Adversary, None where not given; `groups` are sources of names, `allowed` pairs of class codes.
    cuts : tuple of int or None
        Where the rows are cut into blocks; None: they stay in memory only.
    told_at_fit : bool
        Whether blocks say who is trusted and who labelled what, so that `certify` need not be told.
    """

    seed: int
    learner: str
    code: str
    X: np.ndarray
    Z: np.ndarray
    labels: Labels
    codes: tuple[int, ...]
    unlabeled: tuple[bool, ...] | None = None
    trusted: tuple[bool, ...] | None = None
    groups: tuple[str, ...] | None = None
    allowed: tuple[tuple[int, int], ...] | None = None
    cuts: tuple[int, ...] | None = None
    told_at_fit: bool = False
    block_size: int | None = None
    n_jobs: int | None = None

    @property
    def n_classes(self):
        return len(self.labels.values)

    @property
    def adversary(self):
        """What kind of adversary it is."""
        return "+".join(name for name in ("trusted", "groups", "allowed") if getattr(self, name) is not None) or "none"

    @property
    def methods(self):
        return ("gap",) if self.learner == "partition" else ("exact", "tight", "kl")

    @property
    def adversary_source(self):
        return self.source_of_adversary()

    def source_of_adversary(self, told_before=False):
        """Return the source of the adversary, without what has been told before if that is so."""
        parts = []
        if self.trusted is not None and not told_before:
            parts.append(f"trusted=np.array({list(self.trusted)})")
        if self.groups is not None and not told_before:
            parts.append(f"groups=[{', '.join(self.groups)}]")
        if self.allowed is not None:
            values = self.labels.values
            parts.append(f"allowed=[{', '.join(f'({values[old]}, {values[new]})' for old, new in self.allowed)}]")
        return f"Adversary({', '.join(parts)})" if parts else "None"


def problem_of(seed, small=False):
    """Return the problem that belongs to an integer; if `small`, one of which every labelling can be tried."""
    rng = np.random.default_rng(seed)
    learner, powers = TURNS[seed // 8 % len(TURNS)], seed % 8
    n = int(rng.integers(2, 8)) if small or rng.random() < 0.85 else int(rng.choice([8, 12, 30, 80, 200]))
    n_classes = _n_classes(rng, n)
    if small:
        n_classes = min(n_classes, math.isqrt(MOST_LABELLINGS))
        n = max(rows for rows in range(2, n + 1) if n_classes**rows <= MOST_LABELLINGS)
    labels, codes, is_given = _labels(rng, n, n_classes)
    n_classes = len(labels.values)
    unlabeled = None
    if learner == "propagation" and rng.random() < 0.6:
        unlabeled, codes = _with_unlabeled(rng, codes)
    m = int(rng.choice([1, 2, 3, 4, 30], p=[0.3, 0.25, 0.25, 0.19, 0.01]))
    X, Z = _rows(rng, len(codes), m, mild=learner == "partition")
    if rng.random() < 0.6:
        codes = _alike(codes, X[:, 0], unlabeled)
    common = _common_parameters(rng, learner, n_classes)
    if is_given:
        order = rng.permutation(n_classes) if rng.random() < 0.5 else range(n_classes)
        common["classes"] = labels.source(order)
    code, X, Z = _learner(rng, learner, X, Z, n_classes, common, n)
    can_be_cut = learner in ("ridge", "landmarks") and "features=" not in code and "Matern" not in code
    cuts = tuple(sorted(rng.integers(0, len(X) + 1, size=rng.integers(0, 4)).tolist()))
    return Problem(
        seed, learner, code, X, Z, labels, codes, unlabeled,
        **_adversary(rng, codes, n_classes, powers),
        cuts=cuts if can_be_cut and rng.random() < 0.4 else None,
        told_at_fit=bool(rng.random() < 0.5),
        block_size=int(rng.integers(1, 4)),
        n_jobs=1 if learner == "partition" else int(rng.choice([1, 2])),  # processes take seconds to start
    )  # fmt: skip


def _n_classes(rng, n):
    most = 300 if n < 30 else 20
    return int(rng.choice([2, 3, rng.integers(4, 6), rng.integers(6, most)], p=[0.45, 0.35, 0.14, 0.06]))


def _labels(rng, n, n_classes):
    """Return classes of some type, labels as codes, and whether the learner is told the classes."""
    share = rng.dirichlet(np.full(n_classes, rng.choice([0.3, 1.0, 30.0])))
    codes = rng.choice(n_classes, size=n, p=share)
    is_given = rng.random() < 0.8
    if not is_given:
        if len(set(codes.tolist())) < 2 and rng.random() < 0.9:  # else the learner must refuse it
            codes[0] = (codes[-1] + 1) % n_classes
        codes = np.unique(codes, return_inverse=True)[1]
        n_classes = int(codes.max()) + 1
    return _class_values(rng, n_classes), tuple(codes.tolist()), is_given


def _class_values(rng, n_classes):
    """Return classes of a random type in sorted order, and a random holder of such labels."""
    n, kind = n_classes, int(rng.integers(0, 14))
    if kind in (5, 10) and rng.random() < 0.8:  # often refused
        kind = 13
    numbers = sorted(rng.choice(np.arange(-1000, 1000), size=n, replace=False).tolist())
    if n == 2 and kind < 2:
        return Labels(("False", "True"), ["[{}]", "np.array([{}])"][kind])
    if kind in (2, 3):
        words = sorted({f"{'åé ßx'[i % 5]}{i}" for i in range(n)})
        holders = ["[{}]", "np.array([{}])", "np.array([{}], dtype=object)"]
        return Labels(tuple(map(repr, words)), str(rng.choice(holders)))
    if kind == 4:
        return Labels(tuple(repr(str(i)) for i in sorted(map(str, range(n)))), "[{}]")
    if kind == 5:
        return Labels(tuple(map(repr, sorted(b"%d" % i for i in range(n)))))
    if kind == 6:
        return Labels(tuple(str(2**63 + i) for i in range(n)), "np.array([{}], dtype=np.uint64)")
    if kind == 7:
        return Labels(tuple(str(-(2**63) + i) for i in range(n)), "np.array([{}], dtype=np.int64)")
    if kind == 8:
        return Labels(tuple(f"{i}.0" for i in numbers))
    if kind == 9:
        return Labels(tuple(f"np.int16({i})" for i in numbers), "[{}]")
    if kind == 10:
        return Labels(tuple(map(str, numbers)), "np.array([{}], dtype=object)")
    if kind == 11 and n < 100:
        return Labels(tuple(map(str, range(-(n // 2), n - n // 2))), "np.array([{}], dtype=np.int8)")
    return Labels(tuple(map(str, range(n) if kind == 12 else numbers)))


def _with_unlabeled(rng, codes):
    """Put rows without a label between the others."""
    n_rows = len(codes) + int(rng.integers(1, 8))
    unlabeled = np.ones(n_rows, dtype=bool)
    unlabeled[rng.choice(n_rows, size=len(codes), replace=False)] = False
    filled = np.zeros(n_rows, dtype=int)
    filled[~unlabeled] = codes
    return tuple(unlabeled.tolist()), tuple(filled.tolist())


def _alike(codes, column, unlabeled):
    """Give rows that are close in one column the same labels, for large leads and radii."""
    labeled = np.flatnonzero(np.ones(len(codes), dtype=bool) if unlabeled is None else ~np.array(unlabeled))
    ordered = np.array(codes)
    ordered[labeled[np.argsort(column[labeled], kind="stable")]] = np.sort(ordered[labeled])
    return tuple(ordered.tolist())


def _rows(rng, n, m, mild):
    """Return training and test rows: ties, copies, constants, and numbers at the ends of what floats can hold."""
    k = int(rng.choice([1, 2, 3, 5, 12], p=[0.25, 0.3, 0.2, 0.15, 0.1]))
    both = _shapes(rng, n + m, k)
    if not mild and rng.random() < 0.45:
        with np.errstate(all="ignore"):
            size = k if rng.random() < 0.4 else 1
            powers = rng.choice(SCALES, size=size) if rng.random() < 0.7 else rng.integers(-323, 309, size=size)
            both = both * 10.0 ** (powers / 2) * 10.0 ** (powers / 2)
        if rng.random() < 0.2:
            both[rng.integers(0, n + m), rng.integers(0, k)] = rng.choice(
                [5e-324, -2e-308, -0.0, 1e308, -1e154, 1e-160]
            )
    if rng.random() < 0.4:  # test rows that are training rows
        both[n:] = np.where(rng.random((m, 1)) < 0.6, both[rng.integers(0, n, size=m)], both[n:])
    if not mild and rng.random() < 0.05:  # test rows that are far away
        with np.errstate(over="ignore"):
            both[n:] = np.nan_to_num(both[n:] * 10.0 ** rng.integers(3, 300))
    kind = np.dtype(rng.choice(["f8", "f4"], p=[0.85, 0.15]))
    both = np.clip(np.nan_to_num(both), -LARGEST[kind], LARGEST[kind]).astype(kind)
    if rng.random() < 0.01:
        both[rng.integers(0, n), 0] = np.nan
    if np.abs(both).max() < 100 and np.array_equal(both, np.rint(both)) and rng.random() < 0.3:
        both = both.astype(np.int64)
    X, Z = both[:n].copy(), both[n:].copy()
    if X.dtype == np.float32 and rng.random() < 0.2:
        Z = Z.astype(np.float64) * (1 + 1e-12)
    return (np.asfortranarray(X), np.asfortranarray(Z)) if rng.random() < 0.15 else (X, Z)


def _shapes(rng, rows, k):
    """Return rows at everyday scales, of many shapes."""
    shape = int(rng.integers(0, 9))
    base = rng.normal(size=(rows, k))
    if shape in (1, 2):
        base = rng.integers(-shape, shape + 1, size=(rows, k)).astype(float)
    elif shape == 3:
        base[:, rng.integers(0, k)] = rng.choice([0.0, 1.0, -7.5])
    elif shape == 4:
        base = base[rng.integers(0, max(1, rows // 3), size=rows)]
    elif shape == 5:
        base = rng.standard_cauchy(size=(rows, k))
    elif shape == 6:
        base = base[:, :1] * rng.normal(size=k)
    elif shape == 7:
        base += 10.0 ** rng.integers(2, 12)
    elif shape == 8 and rng.random() < 0.3:
        base = np.full((rows, k), rng.choice([0.0, 3.0]))
    return base


def _common_parameters(rng, learner, n_classes):
    """Return the parameters of all label-linear learners as source, leaving out some."""
    given = {}
    if learner == "partition":
        return given
    most = max(n_classes - 1, 1) / max(n_classes, 2)
    noises = [1e-100, 1e-30, 1e-9, 1e-3, 0.1, 0.3, most * 0.9, most * (1 - 1e-9), most * 1e-15]
    q = float(rng.choice([one for one in noises if one < most]))
    noise = rng.choice(["'auto'", f"LabelFlip({q!r})", repr(q), ""], p=[0.25, 0.1, 0.45, 0.2])
    if noise:
        given["noise"] = str(noise)
    if rng.random() < 0.6:
        given["precision"] = str(rng.choice([2, 3, 5, 10, 16, 24]))
    return given


def _regularization(rng, learner):
    rules = ["0", "0.0", "1e-300", "1e-12", "1.0", "1e6", "1e300", "'paper'" if learner == "ridge" else "0.1"]
    return {} if rng.random() < 0.4 else {"regularization": str(rng.choice(rules))}


def _learner(rng, learner, X, Z, n_classes, common, n_labels):
    """Return the source of a learner, and the rows: those of a table are numbers of its lines."""
    n = len(X)
    if learner == "table":
        return _table(rng, len(Z), n, n_classes, common)
    is_mild = np.all(np.isfinite(X)) and np.abs(X).max() < 1e6
    parameters = dict(common)
    if is_mild and rng.random() < 0.08:
        parameters["features"] = str(rng.choice(["StandardScaler()", "PCA(1)"]))
    name = {"landmarks": "kernel"}.get(learner, learner)
    first, own = _OF_LEARNER[name](rng, n, n_classes, is_mild, learner)
    parameters |= own
    if learner == "ridge" and "'auto'" in (parameters.get("noise"),) and rng.random() < 0.9:
        parameters.pop("noise") if parameters.get("fit_intercept") == "False" or "regularization" in own else None
    arguments = ", ".join([*first, *(f"{key}={value}" for key, value in parameters.items())])
    return f"Certified{name.capitalize()}Classifier({arguments})", X, Z


def _ridge(rng, n, n_classes, is_mild, learner):
    intercept = {"fit_intercept": "False"} if rng.random() < 0.4 else {}
    return [], {**_regularization(rng, "ridge"), **intercept}


def _kernel(rng, n, n_classes, is_mild, learner):
    given = _regularization(rng, "kernel")
    kernel = str(rng.choice(["rbf", "laplacian", "poly", "polynomial", "linear", "cosine"]))
    if rng.random() < 0.4 or (learner == "landmarks" and kernel == "laplacian"):
        given["gamma"] = repr(float(10.0 ** rng.integers(-12, 5)))
    if kernel.startswith("poly"):
        given |= {"degree": str(rng.integers(1, 6)), "coef0": str(rng.choice(["0.0", "1.0", "-0.5"]))}
    if rng.random() < 0.4:
        given["fit_intercept"] = "False"
    if learner == "kernel" and rng.random() < 0.1:
        return ["lambda A, B: 1 / (1 + np.abs(A[:, None] - B).sum(axis=2))"], given
    if learner == "landmarks":
        given["n_components"] = str(rng.integers(1, n + 2))
    return [repr(kernel)], given


def _neighbors(rng, n, n_classes, is_mild, learner):
    given = {}
    k = int(rng.integers(1, n + 1)) if rng.random() < 0.98 else n + 1
    number = str(rng.choice([str(k), repr(round(float(rng.uniform(0.05, 0.99)), 3)), "None"], p=[0.7, 0.15, 0.15]))
    metrics = ["euclidean", "cosine", "cityblock", "chebyshev", "sqeuclidean", "correlation", "canberra", "braycurtis"]
    if rng.random() < 0.6:
        given["metric"] = repr(str(rng.choice(metrics)))
    elif rng.random() < 0.1:
        given["metric"] = "lambda a, b: abs(a - b).sum()"
    elif is_mild and rng.random() < 0.2:
        given["index"] = f"KNeighborsTransformer(mode='distance', n_neighbors={max(1, n - 1)})"
        number = str(max(1, min(k, n - 1)))
    weighings = [
        "'uniform'",
        "'distance'",
        "lambda d: 1 - 2 * d / (1 + d)",
        "lambda d: np.arange(d.size)[None] % 3 - 1.0",
    ]
    if rng.random() < 0.6:
        given["weights"] = str(rng.choice(weighings))
    return [number], given


def _cluster(rng, n, n_classes, is_mild, learner):
    two = "KMeans(2, n_init=1)"
    others = [f"KMeans({max(1, n // 2)}, n_init=2)", "DBSCAN(eps=0.8, min_samples=2)", "AgglomerativeClustering(2)"]
    others += ["GaussianMixture(2)", "Birch(n_clusters=None)", "None", two]
    if n_classes == 2 and rng.random() < 0.3:
        return [two], {"vote": "'joint'"}
    return [str(rng.choice(others)) if is_mild else str(rng.choice(["None", two]))], {}


def _forest(rng, n, n_classes, is_mild, learner):
    given = {"min_samples_leaf": str(rng.choice(["1", "2", "0.02", "0.3"])), "random_state": str(rng.integers(0, 99))}
    if rng.random() < 0.3:
        given["max_depth"] = str(rng.integers(1, 4))
    if rng.random() < 0.3:
        given["max_features"] = str(rng.choice(["1", "None", "0.5"]))
    return [str(rng.integers(1, 7))], given


def _propagation(rng, n, n_classes, is_mild, learner):
    given = {"rule": str(rng.choice(["'spreading'", "'poisson'"])), "alpha": str(rng.choice([0.1, 0.5, 0.9, 0.99]))}
    return [str(rng.integers(1, 6))], given


def _partition(rng, n, n_classes, is_mild, learner):
    bases = ["DecisionTreeClassifier()", "DecisionTreeClassifier(max_depth=1, random_state=3)", "GaussianNB()"]
    bases += ["KNeighborsClassifier(1)", "DummyClassifier()", "LogisticRegression()", "None"]
    return [str(rng.choice(bases)), str(rng.integers(1, min(n, 9) + 1))], {}


_OF_LEARNER = {
    "ridge": _ridge, "kernel": _kernel, "neighbors": _neighbors, "cluster": _cluster, "forest": _forest,
    "propagation": _propagation, "partition": _partition,
}  # fmt: skip


def _table(rng, m, n, n_classes, common):
    """Return a learner with weights from a table, among them all that is hard: ties, signs, zeros, extreme scales."""
    shape = int(rng.integers(0, 6))
    table = rng.normal(size=(m, n))
    offsets = rng.normal(size=(m, n_classes)) if rng.random() < 0.5 else None
    if shape in (1, 2):
        table = rng.integers(-2 if shape == 1 else 0, 3, size=(m, n)).astype(float)
        offsets = None if offsets is None else np.rint(offsets)
    elif shape == 3:
        table *= 10.0 ** rng.integers(-300, 300, size=(m, 1))
    elif shape == 4:
        table *= 10.0 ** rng.integers(-12, 3, size=(m, n))
    elif shape == 5:
        table *= rng.random((m, n)) < 0.4
    if rng.random() < 0.3:
        table = np.abs(table)
    if offsets is not None and rng.random() < 0.3:
        offsets *= 10.0 ** rng.integers(-300, 300, size=(m, 1))
    common = {"table": repr(table.tolist()), **common}
    if offsets is not None:
        common["offsets"] = repr(offsets.tolist())
    if rng.random() < 0.4:
        common["sparse"] = "True"
    arguments = ", ".join(f"{key}={value}" for key, value in common.items())
    return f"TableVotes({arguments})", np.arange(n, dtype=float)[:, None], np.arange(m, dtype=float)[:, None]


def _adversary(rng, codes, n_classes, which):
    """Return trusted, groups and allowed, each of them or none, by the bits of a number."""
    n, given = len(codes), {}
    if which & 1:
        given["trusted"] = tuple((rng.random(n) < rng.choice([0.2, 0.5, 1.0], p=[0.5, 0.47, 0.03])).tolist())
    if which & 2:
        names = [["'ann'", "'bob'", "'cid'"], ["-1", "0", "7"], ["1.5", "2.0", "-0.5"], ["'a'", "'a '", "''"]]
        names = list(map(str, names[int(rng.integers(0, 4))])) if rng.random() < 0.8 else [str(i) for i in range(n)]
        given["groups"] = tuple(rng.choice(names, size=n).tolist())
    if which & 4 and n_classes > 1:
        n_pairs = int(min(30, 1 + rng.integers(0, 1 + n_classes * (n_classes - 1))))
        old = rng.choice(codes, size=n_pairs) if rng.random() < 0.7 else rng.integers(0, n_classes, size=n_pairs)
        new = (old + rng.integers(1, max(n_classes, 2), size=n_pairs)) % max(n_classes, 2)
        given["allowed"] = tuple(sorted(set(zip(old.tolist(), new.tolist(), strict=True))))
    return given


def n_attacks(problem):
    """Return the number of labellings that the adversary can reach, including the present one."""
    return math.prod(map(len, choices(problem)))


def choices(problem):
    """Return the class codes that each training row can have: its own first, then those it can be changed to."""
    found = []
    for row, code in enumerate(problem.codes):
        is_fixed = (problem.trusted is not None and problem.trusted[row]) or (
            problem.unlabeled is not None and problem.unlabeled[row]
        )
        others = [] if is_fixed else [new for new in range(problem.n_classes) if new != code]
        if problem.allowed is not None:
            others = [new for new in others if (code, new) in problem.allowed]
        found.append([code, *others])
    return found
