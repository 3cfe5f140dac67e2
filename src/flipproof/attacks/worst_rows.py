"""The exact attack on a learner with a reference: the fewest added, removed or replaced rows that change a prediction.

An attack needs rows to add whose votes are as large as possible. Rows that exist are tried first: the test row itself
and the rows of the reference. Where their votes are below the largest possible one, the learner proposes a row
(`loudest_rows`), and others are tried. Every attack is confirmed by a
refit: what is reported is what `predict` returns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing as rows_of

from flipproof.adversary import Adversary
from flipproof.attacks.result import NO_ATTACK, RowAttackResult
from flipproof.attacks.worst import AttackedLearner, check_certificates, in_slices, label_linear_part, owners_of
from flipproof.certificates import Certificates
from flipproof.core.exact import leads
from flipproof.core.neighbor_cuts import NearestRows, NeighborChanges, fewest_neighbor_changes
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers, Values
from flipproof.core.rows import RowChanges, fewest_row_changes
from flipproof.core.votes import all_votes, class_scores
from flipproof.learners.partition import CertifiedPartitionClassifier
from flipproof.learners.pipeline import learner_in
from flipproof.parameters import NONE, check_parameter, integer

#: Factors by which numbers are scaled to find rows with larger votes.
FACTORS = (-1e6, -1e3, -30.0, -3.0, -1.0, 0.0, 0.3, 3.0, 30.0, 1e3, 1e6)

#: Number of random rows that are tried for each test row.
RANDOM_ROWS = 200

#: Attacks that add more rows are not confirmed by a refit, and so not reported.
MOST_ADDED = 1_000_000

#: Number of predictions that an audit attacks by rows; each attack takes a refit.
MOST_ATTACKED_BY_ROWS = 10


class RowLearner(AttackedLearner, Protocol):
    """A learner whose training rows can be changed: the vote of a row does not depend on other training rows."""

    rows_vote_separately: bool

    def votes_of(self, X: object, Z: object) -> Integers:
        """Return the votes that rows would have on a block of test rows, shape (m, rows)."""
        ...

    def loudest_rows(self, X: object) -> Any:
        """Return, for each test row, a row whose vote on it is probably large."""
        ...

    def partial_fit(self, X: object, y: object) -> Any:
        """Let more rows vote."""
        ...

    def forget(self, rows: object) -> Any:
        """Remove rows from the vote."""
        ...


def worst_rows(
    model: object,
    X_test: object,
    adversary: Adversary | None = None,
    max_changes: int | None = None,
    *,
    certificates: Certificates | None = None,
    reference: object = None,
    X_train: object = None,
) -> RowAttackResult:
    """Find the fewest training rows to add, remove or replace so that each prediction changes.

    Rows with the largest gains are removed first, and each is replaced by a row with the largest possible vote (M12).
    Added rows vote for a rival class, or, if their vote is negative, against the predicted class. Where a row with the
    largest possible vote is found, ``changes_needed`` is the certified radius plus one, and no smaller attack exists.
    Otherwise the attack uses the row with the largest vote that was found, and `is_smallest` is False.

    Parameters
    ----------
    model : learner, or Pipeline that ends in one
        Fitted with ``reference=...``.
    X_test : array or data frame of shape (m, k)
        Test rows.
    adversary : Adversary, optional
        What can be done to rows. Default: ``Adversary(changes="rows")``.
    max_changes : int, optional
        Give up on test rows that need more.
    certificates : Certificates, optional
        Certificates of the same model, test rows and adversary, if available, so that the rows are not certified again.
        By default the adversary is that of the certificates.
    reference : array or data frame, optional
        Rows to try where the test row itself does not have the largest possible vote: give the reference of the fit,
        which the learner does not keep. If `clip` is a share, one of its rows has that vote.
    X_train : array or data frame, optional
        The training rows, for attacks on nearest neighbours: copies of one of them may do more than copies of the test
        row. The learner does not keep them either.

    Returns
    -------
    RowAttackResult
        Ctrl-C ends the attack after the current 128 test rows, a second Ctrl-C at once. The attacks found so far are
        returned, and `attempted` is False for the other rows.

    See Also
    --------
    flipproof.attacks.worst_flips : Smallest attack by labels.
    flipproof.attacks.RowAttackResult : Changed rows, by test row.

    Examples
    --------
    >>> from flipproof import CertifiedForestClassifier
    >>> from flipproof.attacks import worst_rows
    >>> model = CertifiedForestClassifier(5, min_samples_leaf=2, classes=["ham", "spam"])
    >>> model = model.fit([[0.0], [0.1], [3.0]], ["ham", "ham", "spam"], reference=[[0.0], [1.0], [2.0], [3.0]])
    >>> attack = worst_rows(model, [[0.2]])
    >>> attack.changes_needed, attack.removed[0], attack.added[0], attack.added_labels[0]
    (array([1]), array([0]), [[0.2]], array(['spam'], dtype='<U4'))
    """
    check_parameter("worst_rows", "max_changes", max_changes, NONE | integer(0))
    if isinstance(learner_in(model), CertifiedPartitionClassifier):
        raise ValueError(
            "worst_rows has no attack on partitions: their radius is only a lower bound, because it is not known what "
            "other rows would make a base learner predict."
        )
    found, X_test = label_linear_part(model, X_test)
    learner = _row_learner(found)
    if adversary is None:
        adversary = Adversary(changes="rows") if certificates is None else certificates.adversary
    if adversary is None or not adversary.changes_rows:
        raise ValueError(
            f"worst_rows attacks by added, removed or replaced rows. Got {adversary!r} instead: use "
            "Adversary(changes='rows'), or worst_flips for changed labels."
        )
    if certificates is not None:
        check_certificates(certificates, learner, X_test, adversary)
    if learner.rows_vote_separately:
        search = _Search(learner, adversary, max_changes, reference)
    else:
        search = _NeighborSearch(learner, adversary, max_changes, reference, X_train)

    def attack(X: object, rows: slice) -> RowAttackResult:
        return search.attack(X, learner.certify(X, "exact", adversary) if certificates is None else certificates[rows])

    return in_slices(attack, learner.predict, X_test)


def has_row_attack(learner: object, adversary: Adversary | None) -> bool:
    """Tell whether :func:`worst_rows` attacks this fitted learner: not partitions, nor neighbours by sources."""
    if getattr(learner, "n_reference_", None) is None or not hasattr(learner, "rows_vote_separately"):
        return False
    return bool(learner.rows_vote_separately) or adversary is None or adversary.groups is None


def attack_most_fragile_by_rows(
    model: object, X_test: object, certificates: Certificates, *, reference: object = None, X_train: object = None
) -> RowAttackResult:
    """Attack the most fragile predictions by :func:`worst_rows`; `attempted` is False for all others."""
    assert certificates.unlimited is not None
    chosen = most_fragile(certificates)[:MOST_ATTACKED_BY_ROWS]
    found = worst_rows(
        model, rows_of(X_test, chosen), certificates=certificates[chosen], reference=reference, X_train=X_train
    )
    if not found.attempted.all():
        raise KeyboardInterrupt  # a partial result would look complete
    place = np.full(len(certificates), len(chosen))
    place[chosen] = np.arange(len(chosen))

    def spread(values: Values, other: object) -> NDArray[Any]:
        return np.asarray(np.append(values, np.array([other], dtype=values.dtype))[place])

    def spread_out(values: tuple[object, ...], nothing: object) -> tuple[Any, ...]:
        return tuple((*values, nothing)[one] for one in place)

    return RowAttackResult(
        changes_needed=spread(found.changes_needed, NO_ATTACK),
        removed=spread_out(found.removed, np.zeros(0, dtype=np.int64)),
        added=spread_out(found.added, rows_of(X_test, slice(0, 0))),
        added_labels=spread_out(found.added_labels, certificates.classes[:0]),
        success=spread(found.success, False),
        is_smallest=spread(found.is_smallest, False),
        prediction=certificates.prediction.copy(),
        unit=found.unit,
        attack=found.attack,
        n_refits=found.n_refits,
        attempted=spread(found.attempted, False),
        sources=None if found.sources is None else spread_out(found.sources, found.sources[0][:0]),
    )


def most_fragile(certificates: Certificates) -> Integers:
    """Return the predictions in the order of their radii against changed rows, those that nothing overturns last."""
    assert certificates.unlimited is not None
    return np.lexsort((certificates.margin, certificates.radius, certificates.unlimited))


def _row_learner(learner: Any) -> RowLearner:
    """Return the learner; refuse one whose rows cannot be changed."""
    if getattr(learner, "n_reference_", None) is None:
        raise ValueError(
            f"worst_rows needs a fit with a reference, but this {type(learner).__name__} learned its geometry from the "
            "training rows: call fit(X, y, reference=...)."
        )
    known: RowLearner = learner
    return known


@dataclass(frozen=True)
class _Proposal:
    """An attack on one test row: training rows to remove, rows to add, and their labels."""

    n_changes: int
    removed: Integers
    rows: Any
    labels: NDArray[Any]


class _Search:
    """Attacks on one learner, by one adversary."""

    def __init__(self, learner: RowLearner, adversary: Adversary, max_changes: int | None, reference: object):
        self._learner, self._max_changes, self._reference = learner, max_changes, reference
        self._powers: Powers = learner.powers(adversary)
        self._victim = deepcopy(learner)  # no refit can change the model itself

    def attack(self, X: object, certificates: Certificates) -> RowAttackResult:
        learner, m = self._learner, len(certificates)
        needed, is_confirmed = np.full(m, NO_ATTACK), np.zeros(m, dtype=bool)
        nothing = np.zeros(0, dtype=np.int64)
        removed, labels = [nothing] * m, [learner.classes_[:0]] * m
        added = [rows_of(X, slice(0, 0))] * m
        n_refits = 0
        winner = np.searchsorted(certificates.classes, certificates.prediction)
        for row, proposal in enumerate(self._proposals(X, winner)):
            if proposal is None or proposal.n_changes > self._most or len(proposal.labels) > MOST_ADDED:
                continue
            n_refits += 1
            after = self._refit(proposal).predict(rows_of(X, slice(row, row + 1)))
            if after[0] != certificates.prediction[row]:
                needed[row], is_confirmed[row] = proposal.n_changes, True
                removed[row], added[row], labels[row] = proposal.removed, proposal.rows, proposal.labels
        assert certificates.unlimited is not None
        return RowAttackResult(
            changes_needed=needed,
            removed=tuple(removed),
            added=tuple(added),
            added_labels=tuple(labels),
            success=is_confirmed,
            is_smallest=(is_confirmed & (needed == certificates.radius + 1)) | certificates.unlimited,
            prediction=certificates.prediction.copy(),
            unit=certificates.unit,
            attack="worst rows",
            n_refits=n_refits,
            attempted=np.ones(m, dtype=bool),
            sources=owners_of(certificates, removed),
        )

    @property
    def _most(self) -> float:
        return np.inf if self._max_changes is None else self._max_changes

    def _proposals(self, X: object, winner: Integers) -> Iterator[_Proposal | None]:
        """Yield the best attack on each test row: rows that vote separately (M12)."""
        learner, codes = self._learner, self._learner.label_codes_
        Z = learner.test_rows(X)
        source = learner.votes_on(Z)
        votes = all_votes(source).astype(np.int64)
        sums = class_scores(source, codes, len(learner.classes_))
        lead = leads(sums + learner.offsets_on(source, sums.sum(axis=1)), winner)
        assert source.limit is not None
        for row, (row_to_add, vote) in enumerate(self._loudest(X, Z, source.limit)):
            found = self._fewest(votes[row], int(winner[row]), lead[row], abs(vote))
            if found is None:
                yield None
                continue
            changes, rival = found
            code = rival if vote > 0 else winner[row]
            yield self._proposal(changes.n_changes, changes.removed, row_to_add, changes.n_added, int(code))

    def _proposal(self, n_changes: int, removed: Integers, row: object, n_added: int, code: int) -> _Proposal:
        """Return an attack that adds copies of one row, if not more than can be confirmed."""
        copies = np.zeros(min(n_added, MOST_ADDED + 1), dtype=np.int64)
        labels = np.full(len(copies), self._learner.classes_[code])
        return _Proposal(n_changes, removed, rows_of(row, copies), labels)

    def _fewest(self, votes: Integers, winner: int, lead: Integers, vote: int) -> tuple[RowChanges, int] | None:
        """Return the fewest changes against one test row, and the class that they help."""
        found = None
        for rival in range(len(lead)):
            if rival == winner:
                continue
            changes = fewest_row_changes(
                votes, self._learner.label_codes_, winner, rival, int(lead[rival]), vote, self._powers
            )
            if changes is not None and (found is None or changes.n_changes < found[0].n_changes):
                found = changes, rival
        return found

    def _refit(self, proposal: _Proposal) -> Any:
        """Return the model that a fit on the changed rows would give."""
        model = copy(self._victim)
        with warnings.catch_warnings():  # rows that are also in the reference are no concern of an attacker
            warnings.simplefilter("ignore")
            if len(proposal.removed):
                model.forget(proposal.removed)
            if len(proposal.labels):
                model.partial_fit(proposal.rows, proposal.labels)
        return model

    def _loudest(self, X: Any, Z: Any, limit: Integers) -> list[tuple[Any, int]]:
        """Return, for each test row, a row to add and its vote: the loudest that is found."""
        m = len(limit)
        found: list[tuple[Any, int]] = [(rows_of(X, slice(row, row + 1)), 0) for row in range(m)]
        if self._powers.changes == "removals":
            return found

        def try_rows(rows: object, votes: Integers, row: int) -> None:
            at = int(np.argmax(np.abs(votes)))
            if abs(votes[at]) > abs(found[row][1]):
                found[row] = rows_of(rows, slice(at, at + 1)), int(votes[at])

        def unfinished() -> list[int]:
            return [row for row in range(m) if abs(found[row][1]) < limit[row]]

        def try_each(proposed: object) -> None:
            for row in unfinished():
                one = rows_of(proposed, slice(row, row + 1))
                try_rows(one, self._learner.votes_of(one, Z[row : row + 1])[0], row)

        try_each(X)  # rows that exist come first
        rows = unfinished()
        if self._reference is not None and rows:
            for row, votes in zip(rows, self._learner.votes_of(self._reference, Z[rows]), strict=True):
                try_rows(self._reference, votes, row)
        try_each(like(self._learner.loudest_rows(X), X))
        if _is_numeric(X):
            for row in unfinished():
                more = self._rows_around(np.asarray(X, dtype=np.float64)[row])
                try_rows(like(more, X), self._learner.votes_of(like(more, X), Z[row : row + 1])[0], row)
        return found

    def _rows_around(self, x: Floats) -> Floats:
        """Return rows that may vote loudly on a test row: multiples of it, rows far from the reference, random ones."""
        rng = np.random.default_rng(0)  # the same rows in every run
        size = float(np.abs(x).max(initial=0.0)) or 1.0
        factors = np.array(FACTORS)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            rows = [x * factors, x + size * rng.normal(size=(RANDOM_ROWS, len(x))) * rng.choice(factors, RANDOM_ROWS)]
            if self._reference is not None and _is_numeric(self._reference):
                given = np.asarray(self._reference, dtype=np.float64)
                some = given[rng.permutation(len(given))[:RANDOM_ROWS]]
                rows += [x + (x - some) * factor for factor in FACTORS]
            found = np.concatenate(rows)
        return np.asarray(found[np.isfinite(found).all(axis=1)])


class _NeighborSearch(_Search):
    """Attacks on nearest neighbours: added rows join the pile at the cut (M13)."""

    def __init__(
        self, learner: RowLearner, adversary: Adversary, max_changes: int | None, reference: object, X_train: object
    ):
        if adversary.groups is not None:
            raise ValueError(
                "worst_rows has no attack by sources on nearest neighbours: their radius in sources is a lower bound. "
                "Omit groups to attack by rows."
            )
        super().__init__(learner, adversary, max_changes, reference)
        self._X_train = X_train

    def _proposals(self, X: object, winner: Integers) -> Iterator[_Proposal | None]:
        learner: Any = self._learner
        Z = learner.test_rows(X)
        for row in range(len(Z)):
            nearest, numbers = learner.rows_in_order(Z[row : row + 1], self._powers)
            found = [
                (changes, rival)
                for rival in range(len(learner.classes_))
                if rival != winner[row]
                and (changes := self._fewest_of_nearest(nearest, int(winner[row]), rival)) is not None
            ]
            if not found:
                yield None
                continue
            changes, rival = min(found, key=lambda one: one[0].n_changes)
            removed = numbers[0, changes.removed]
            if changes.joins is None or changes.n_added == 0:
                row_to_add = rows_of(X, slice(row, row + 1))
            else:
                row_to_add = rows_of(self._X_train, numbers[0, changes.joins : changes.joins + 1])
            yield self._proposal(changes.n_changes, removed, row_to_add, changes.n_added, rival)

    def _fewest_of_nearest(self, nearest: NearestRows, winner: int, rival: int) -> NeighborChanges | None:
        k, changes = int(self._learner.n_neighbors_), self._powers.changes  # type: ignore[attr-defined]
        return fewest_neighbor_changes(nearest, k, winner, rival, changes, only_test_row=self._X_train is None)


def _is_numeric(X: object) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub"


def like(rows: Any, X: Any) -> Any:
    """Return rows in the form of X: a data frame if X is one, else as they are."""
    if isinstance(rows, np.ndarray) and hasattr(X, "iloc"):  # pandas
        return type(X)(rows, columns=X.columns)
    return rows
