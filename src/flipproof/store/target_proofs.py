"""Certificate files about numbers: the intervals of regressors, with the targets and votes that prove them.

`docs/certificate-format.md` is the specification, section "Rule `targets`".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption
from flipproof.core.rounding import Floats
from flipproof.intervals import CertifiedIntervals
from flipproof.learners.neighbors_regressor import CertifiedNeighborsRegressor
from flipproof.store.proof_rules import write_votes
from flipproof.store.proof_tensors import Tensors
from flipproof.values import distinct

#: Keys of a document about numbers that are about all of its certificates.
KEYS = {
    *("format", "version", "producer", "rule", "method", "changes", "unit", "n_test", "n_rows", "n_train"),
    *("n_touchable", "assumptions", "digests", "blocks", "votes", "k", "targets"),
}

#: What each unit needs among the assumptions.
CODES_OF_UNITS = {"annotators": "target-annotators", "sources": "sources"}


class Stored(Protocol):
    """Tensors by name."""

    def __contains__(self, name: str) -> bool: ...

    def __getitem__(self, name: str) -> NDArray[Any]: ...

    def get(self, name: str, otherwise: object = None) -> Any:
        """Return a tensor, or something else if there is none of this name."""
        ...


def refuse_without_proof(intervals: CertifiedIntervals) -> None:
    """Raise ValueError for intervals that have no proof format."""
    if intervals.about != "prediction":
        raise ValueError(
            f"There is no proof format for intervals of a {intervals.about}: save those of predictions, which "
            "certify(X) returns."
        )


def write_intervals(tensors: Tensors, intervals: CertifiedIntervals, model: Any, X: object) -> dict[str, Any]:
    """Write the targets, the votes and the claims; return what the document says of them."""
    refuse_without_proof(intervals)
    if not getattr(model, "holds_training_rows", True):
        raise ValueError(
            f"There is no proof of intervals of {type(model).__name__}: it needs the votes of all training rows in "
            "memory. Use CertifiedRidgeRegressor."
        )
    adversary, rule = intervals.adversary, model.rule
    step = 2.0**-rule.grid.exponent
    if not 0 < step < np.inf:
        raise ValueError("The target range is too narrow for a certificate file: rescale the targets.")
    fixed = np.array(model.is_trusted_)
    if adversary is not None and adversary.trusted is not None:
        fixed |= adversary.trusted
    tensors.add("train.target", model.targets_, np.float64)
    tensors.add("train.changeable", ~fixed, np.bool_)
    if adversary is not None and adversary.groups is not None:
        tensors.add("train.group", distinct(adversary.groups)[1], np.int32)
    changes = "targets" if adversary is None or not adversary.changes_rows else adversary.changes
    document: dict[str, Any] = {"rule": "targets", "changes": changes, "n_rows": model.n_rows_}
    if changes != "targets" and isinstance(model, CertifiedNeighborsRegressor):
        document |= {"votes": "nearest", "k": model.n_neighbors_}
        document["blocks"] = _write_nearest(tensors, intervals, model, X)
    else:
        document |= _write_votes(tensors, intervals, model, X)
    document["targets"] = {
        "average": rule.average,
        "low": float(rule.grid.low),
        "high": float(rule.grid.high),
        "step": step,
        "origin": rule.origin,
        "factor": rule.factor,
        "max_change": None if adversary is None or adversary.max_change is None else float(adversary.max_change),
        "flips": list(intervals.flips) if isinstance(intervals.flips, tuple) else intervals.flips,
        "tolerance": intervals.tolerance,
        "threshold": intervals.threshold,
    }
    _write_claims(tensors, intervals)
    return document


def _write_votes(tensors: Tensors, intervals: CertifiedIntervals, model: Any, X: Any) -> dict[str, Any]:
    ends, form = [0], "dense"
    for source, predicted in model.voted(X):
        _refuse_other_predictions(intervals, ends[-1], predicted)
        form = write_votes(tensors, source, len(ends) - 1)
        if model.rule.average in ("sum", "mean-of-rows"):
            tensors.add("test.exponent", source.exponent, np.int64)
        if source.limit is not None:
            tensors.add("test.limit", source.limit, np.int64)
        ends.append(ends[-1] + len(predicted))
    return {"votes": form, "blocks": ends[1:]}


def _write_nearest(tensors: Tensors, intervals: CertifiedIntervals, model: Any, X: Any) -> list[int]:
    ends = [0]
    for ordered, predicted in model.nearest(X):
        _refuse_other_predictions(intervals, ends[-1], predicted)
        tensors.add(f"near.row.{len(ends) - 1}", ordered.rows, np.int32)
        tensors.add(f"near.ends_pile.{len(ends) - 1}", ordered.ends_pile, np.bool_)
        tensors.add("test.is_hit", ordered.is_hit, np.bool_)
        ends.append(ends[-1] + len(predicted))
    return ends[1:]


def _refuse_other_predictions(intervals: CertifiedIntervals, start: int, predicted: Floats) -> None:
    if not np.array_equal(predicted, intervals.prediction[start : start + len(predicted)]):
        raise ValueError(
            "The model does not make the predictions of these certificates: it was changed since, or these are other "
            "test rows. Certify again, then save."
        )


def _write_claims(tensors: Tensors, intervals: CertifiedIntervals) -> None:
    m = len(intervals)
    tensors.add("claim.prediction", intervals.prediction, np.float64)
    tensors.add("claim.low", intervals.low.reshape(m, -1), np.float64)
    tensors.add("claim.high", intervals.high.reshape(m, -1), np.float64)
    if intervals.radius is not None:
        assert intervals.unlimited is not None
        tensors.add("claim.radius", intervals.radius, np.int64)
        tensors.add("claim.unlimited", intervals.unlimited, np.bool_)


def load_intervals(document: Mapping[str, Any], stored: Stored) -> CertifiedIntervals:
    """Return the intervals in a file; refuse one that would be shown with a false meaning."""
    if not set(document) <= KEYS or set(document["producer"]) != {"name", "version"}:
        raise ValueError("its document has an unknown key")
    assumptions = tuple(Assumption.from_dict(one) for one in document["assumptions"])
    _check_assumptions(document, stored, assumptions)
    of_targets = document["targets"]
    flips = of_targets["flips"]
    has_radius = "claim.radius" in stored
    low, high = stored["claim.low"], stored["claim.high"]
    return CertifiedIntervals(
        prediction=stored["claim.prediction"],
        flips=tuple(flips) if isinstance(flips, list) else flips,
        low=low if isinstance(flips, list) else low[:, 0],
        high=high if isinstance(flips, list) else high[:, 0],
        radius=stored["claim.radius"] if has_radius else None,
        tolerance=of_targets["tolerance"],
        threshold=of_targets["threshold"],
        target_range=(of_targets["low"], of_targets["high"]),
        n_train=document["n_train"],
        n_touchable=document["n_touchable"],
        unit=document["unit"],
        assumptions=assumptions,
        adversary=_adversary(document, stored),
        unlimited=stored["claim.unlimited"] if has_radius else None,
    )


def _adversary(document: Mapping[str, Any], stored: Stored) -> Adversary:
    fixed = ~stored["train.changeable"]
    changes = document["changes"]
    return Adversary(
        changes="labels" if changes == "targets" else changes,
        trusted=fixed if fixed.any() else None,
        groups=stored.get("train.group"),
        max_change=document["targets"]["max_change"],
    )


def _check_assumptions(document: Mapping[str, Any], stored: Stored, assumptions: tuple[Assumption, ...]) -> None:
    """Refuse assumptions that say something else than the rest of the document, or than the tensors."""
    if any(set(one) != {"code", "values"} for one in document["assumptions"]):
        raise ValueError("an assumption has more than a code and its values")
    codes = {one.code for one in assumptions}
    about, unit, changes = document["targets"], document["unit"], document["changes"]
    scope = "targets-only" if changes == "targets" else "target-rows-changed"
    n_fixed = int((~stored["train.changeable"]).sum())
    expected = {
        "target-range": {"low": about["low"], "high": about["high"], "step": about["step"]},
        "target-rows-changed": {"changes": changes, "by_sources": unit == "sources"},
        "targets-moved": {"max_change": about["max_change"]},
        "target-annotators": {"n_annotators": document["n_touchable"]},
        "sources": {"n_sources": document["n_touchable"], "changes": changes},
    }
    needed = {scope, "target-range", *([CODES_OF_UNITS[unit]] if unit in CODES_OF_UNITS else ())}
    needed |= {"targets-moved"} if about["max_change"] is not None else set()
    if not needed <= codes or ("targets-only" in codes) == ("target-rows-changed" in codes):
        raise ValueError(f"its assumptions must be {', '.join(sorted(needed))}")
    n_stated = 0
    for one in assumptions:
        if any(one.values[name] != value for name, value in expected.get(one.code, {}).items()):
            raise ValueError(f"the assumption {one.code!r} contradicts the document")
        if one.code in ("trusted-targets", "trusted-rows"):
            n_stated += one.values["n_trusted"]
            if one.values["n_trusted"] > n_fixed:
                raise ValueError("the numbers of trusted targets or rows are not those that are fixed")
    if n_fixed > n_stated:
        raise ValueError("some targets or rows are fixed, but no assumption says so")
