"""`flipproof attack --changes rows`: the fewest training rows to add, remove or replace, confirmed by refits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flipproof.attacks import RowAttackResult, worst_rows
from flipproof.attacks.worst_rows import most_fragile
from flipproof.errors import InputError, Parameter
from flipproof.fitting.row_origin import RowOrigin
from flipproof.values import column_of

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.certificates import Certificates
    from flipproof.fitting import Fitted
    from flipproof.tables.roles import Rows


def check_attackable_by_rows(learner: str) -> None:
    """Raise InputError for a learner that has certificates against changed rows, but no attack by rows."""
    import flipproof
    from flipproof.learners.names import LEARNERS

    if not hasattr(getattr(flipproof, LEARNERS[learner]), "rows_vote_separately"):
        raise InputError(
            Parameter("learner", learner),
            ": there is no attack by rows on it. Its certificates against changed rows are lower bounds, and the "
            "smallest attack is not known. Use another learner, or omit ",
            Parameter("changes"),
            ".",
        )


def row_changes_table(
    fitted: Fitted, rows: list[int] | None, top: int, max_changes: int | None
) -> tuple[pa.Table, dict[str, Any]]:
    """Return the rows to remove and to add against some predictions, and an entry for each prediction.

    Parameters
    ----------
    fitted : Fitted
        The learner, with a reference, and the test rows.
    rows : list of int, optional
        Test rows to attack. Default: the `top` most fragile ones.
    top : int
        Number of predictions to attack by default.
    max_changes : int, optional
        Largest number of changes.
    """
    import pyarrow as pa

    certificates = fitted.model.certify(fitted.X_test, "exact", fitted.adversary)
    if rows is None:
        rows = most_fragile(certificates)[:top].tolist()
    known = certificates[rows]
    found = worst_rows(
        fitted.model,
        fitted.X_test[rows],
        fitted.adversary,
        max_changes,
        certificates=known,
        reference=fitted.X_reference,
        X_train=fitted.X_train,
    )
    if not found.attempted.all():
        raise KeyboardInterrupt  # a partial result would look complete
    train, ids = fitted.train, [fitted.test.ids[row] for row in rows]
    assert train is not None
    changes = [
        change
        for place, row in enumerate(rows)
        for change in _changes(found, place, train, ids[place], RowOrigin(fitted, row))
    ]
    names = ("id", "prediction", "change", "train_id", "label", "copies", "copy_of")
    columns = {name: column_of([change[name] for change in changes]) for name in names}
    features = [change["features"] for change in changes]
    for number in range(fitted.X_test.shape[1] if any(one is not None for one in features) else 0):
        values = [None if one is None else float(one[number]) for one in features]
        columns[f"feature_{number}"] = pa.array(values, pa.float64())
    about = {
        "sentences": _sentences(found, max_changes, any(_is_new(change) for change in changes)),
        "unit": found.unit,
        "changes": known.changes,
        "n_confirmed": int(found.success.sum()),
        "n_refits": found.n_refits,
        "predictions": [_prediction(found, known, place, name) for place, name in enumerate(ids)],
    }
    return pa.table(columns), about


def predictions_table(about: dict[str, Any]) -> pa.Table:
    """Return the entries of the predictions as a table for the terminal."""
    import pyarrow as pa

    entries: list[dict[str, Any]] = about["predictions"]
    shown = {
        "id": [one["id"] for one in entries],
        "prediction": [one["prediction"] for one in entries],
        "certified": ["unlimited" if one["unlimited"] else f"{one['radius']:,}" for one in entries],
        "needed": [_needed(one) for one in entries],
        "removed": [f"{one['removed']:,}" for one in entries],
        "added": [f"{one['added']:,}" for one in entries],
        "is smallest": ["yes" if one["is_smallest"] else "not known" for one in entries],
    }
    return pa.table({name: column_of(column) for name, column in shown.items()})


def _needed(entry: dict[str, Any]) -> str:
    if entry["unlimited"]:
        return "impossible"
    return "none found" if entry["needed"] is None else f"{entry['needed']:,}"


def _changes(found: RowAttackResult, place: int, train: Rows, name: object, origin: RowOrigin) -> list[dict[str, Any]]:
    """Return the changes of one attack: one entry per row to remove, and one for all copies of the row to add."""
    common = {"id": name, "prediction": found.prediction[place].item()}
    assert train.labels is not None
    changes = [
        {
            **common,
            "change": "remove",
            "train_id": train.ids[row],
            "label": train.labels[row].item(),
            "copies": 1,
            "copy_of": None,
            "features": None,
        }
        for row in found.removed[place].tolist()
    ]
    if len(found.added_labels[place]):  # all added rows are equal
        added = found.added[place][0]
        changes.append(
            {
                **common,
                "change": "add",
                "train_id": None,
                "label": found.added_labels[place][0].item(),
                "copies": len(found.added_labels[place]),
                "copy_of": origin.of(added),
                "features": added,
            }
        )
    return changes


def _is_new(change: dict[str, Any]) -> bool:
    return change["change"] == "add" and change["copy_of"] is None


def _prediction(found: RowAttackResult, known: Certificates, place: int, name: object) -> dict[str, Any]:
    assert known.unlimited is not None
    return {
        "id": name,
        "prediction": found.prediction[place].item(),
        "radius": int(known.radius[place]),
        "unlimited": bool(known.unlimited[place]),
        "needed": int(found.changes_needed[place]) if found.success[place] else None,
        "removed": len(found.removed[place]),
        "added": len(found.added_labels[place]),
        "is_smallest": bool(found.is_smallest[place]),
    }


def _sentences(found: RowAttackResult, max_changes: int | None, has_new_rows: bool) -> list[str]:
    """Return what the attacks found, and what the rows to add are."""
    n, needed = len(found), found.changes_needed[found.success]

    def counted(number: int) -> str:
        return f"changed {found.unit[:-1] if number == 1 else found.unit}"

    most = "" if max_changes is None else f" with at most {max_changes:,} {counted(max_changes)}"
    if not len(needed):
        return [f"No attack was found on {n:,} {'prediction' if n == 1 else 'predictions'}{most}."]
    least, largest = int(needed.min()), int(needed.max())
    numbers = f"{least:,}" if least == largest else f"{least:,} to {largest:,}"
    sentences = [
        f"Attacks{most} overturn {len(needed):,} of {n:,} predictions, each confirmed by a refit. It takes {numbers} "
        f"{counted(largest)}."
    ]
    n_unclear = int((found.success & ~found.is_smallest).sum())
    if n_unclear:
        sentences.append(f"For {n_unclear:,} of them, it is not known whether fewer changes are enough.")
    if has_new_rows:
        sentences.append(
            "Some rows to add are not copies of existing rows. They are vectors of encoded features: there may be no "
            "row of a file that is encoded like this."
        )
    return sentences
