"""What radii count, and certificates in plain English."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from flipproof.readable import percent, significant

if TYPE_CHECKING:
    from flipproof import Certificates

#: Units in which a radius is an integer count; in all other units it is a real number.
COUNTED_UNITS = ("labels", "annotators", "windows", "rows", "sources")

#: Counted units of changes to whole training rows.
ROW_UNITS = ("rows", "sources")

#: What a radius counts or measures, for table headings and axis labels.
FLIPS_NAMES = {
    "labels": "changed labels",
    "annotators": "malicious annotators",
    "windows": "poisoned windows",
    "rows": "changed rows",
    "sources": "malicious sources",
    "l2": "change of the training features (l2 norm)",
    "divergence": "divergence of the noise (nats)",
}

#: What malicious sources do, by the adversary's changes.
DONE_BY_SOURCES = {"rows": "replace or remove", "removals": "remove"}


def certificate_sentence(certificates: Certificates, row: int, names: Sequence[str] | None = None) -> str:
    """Describe one certificate, given by its position, in plain English; `names` are words for the classes."""

    def name_of(label: object) -> str:
        code = int(np.flatnonzero(certificates.classes == label)[0])
        return f"{names[code] if names else label}"

    called = certificates.id_at(row)
    prediction, rival = name_of(certificates.prediction[row]), name_of(certificates.rival[row])
    if certificates.abstained[row]:
        return f"Test row {called} is not certified (abstained): {prediction} leads, but {rival} may be ahead."
    predicted = f"Test row {called} is predicted as {prediction}."
    if _is_fragile(certificates, row):
        return f"{predicted} {_not_certified(certificates)} The rival class is {rival}."
    promised = f"{predicted} The prediction is guaranteed unchanged even if"
    if certificates.unit not in COUNTED_UNITS:
        measured = "the l2 norm over all training features" if certificates.unit == "l2" else "divergence of the noise"
        return (
            f"{promised} an attacker who targets this row changes the training data by up to "
            f"{significant(certificates.radius[row])} in {measured}. The rival class is {rival}."
        )
    if certificates.unit in ROW_UNITS:
        return _sentence_about_rows(certificates, row, prediction, rival, promised)
    radius, n = int(certificates.radius[row]), certificates.n_touchable
    labels = "annotations" if certificates.labels_name == "annotations" else "training labels"
    labels = labels if n == certificates.n_train else f"changeable {labels}"
    if radius >= n:
        attack = {
            "labels": f"change to the {n:,} {labels}",
            "windows": "change to labels in any windows",
        }.get(certificates.unit, f"attack by the {n:,} annotators")
        return f"{predicted} No {attack} can change the prediction."
    restricted = certificates.adversary is not None and certificates.adversary.allowed is not None
    how = "in any allowed way" if restricted else "to any class"
    if certificates.unit == "labels":
        share = percent(radius / n)
        attack = f"an attacker who targets this row changes any {radius:,} of the {n:,} {labels} ({share}) {how}"
    elif certificates.unit == "windows":
        lengths = [f" of {one.values['length']}" for one in certificates.assumptions if one.code == "windows"]
        windows = f"any {radius:,} window{'' if radius == 1 else 's'}{''.join(lengths)}"
        attack = f"an attacker who targets this row changes all labels in {windows} {how}"
    else:
        attack = f"any {radius:,} of the {n:,} annotators target this row and change all of their labels {how}"
    return f"{promised} {attack}. {_last_words(certificates, row, rival)}"


def _is_fragile(certificates: Certificates, row: int) -> bool:
    """Whether no change at all is certified, though changes are possible."""
    no_radius = certificates.radius[row] == 0 and not certificates.may_be_larger[row]
    return bool(no_radius and certificates.unlimited is not None and not certificates.unlimited[row])


def _not_certified(certificates: Certificates) -> str:
    if not certificates.is_exact:
        return "No change is certified for this prediction: a lower bound of its radius is 0."
    return f"It is not certified: {least_words(certificates)} may overturn this prediction."


def least_words(certificates: Certificates) -> str:
    """Return the smallest change in a counted unit, as text."""
    return f"one {flips_name(certificates)[:-1]}"


def _last_words(certificates: Certificates, row: int, rival: str) -> str:
    """Return what limits the radius: the rival class, or the limit up to which radii were computed."""
    if certificates.may_be_larger[row]:
        return f"Radii were computed only up to {certificates.radius_limit:,}: the exact radius may be larger."
    return f"The rival class is {rival}."


def _sentence_about_rows(certificates: Certificates, row: int, prediction: str, rival: str, promised: str) -> str:
    radius, is_unlimited = (
        int(certificates.radius[row]),
        certificates.unlimited is not None and certificates.unlimited[row],
    )
    if certificates.unit == "sources":
        power, n = DONE_BY_SOURCES[certificates.changes], certificates.n_touchable
        attack = f"any {radius:,} of the {n:,} sources target this row and {power} all of their rows"
        if is_unlimited:
            attack = f"all {n:,} sources {power} all of their rows"
    else:
        attack = f"an attacker who targets this row {_done_to_rows(certificates, None if is_unlimited else radius)}"
    return f"{promised} {attack}." + ("" if is_unlimited else f" {_last_words(certificates, row, rival)}")


def _done_to_rows(certificates: Certificates, radius: int | None) -> str:
    """Return what an attacker does to `radius` rows; None: to any number of them."""
    n_rows, n_trusted = certificates.n_train, certificates.n_train - certificates.n_touchable
    number, rows = "any number of" if radius is None else f"any {radius:,}", "row" if radius == 1 else "rows"
    if certificates.changes == "insertions":
        return f"adds {number} {rows}, with any features and labels, to the {n_rows:,} training rows"
    if certificates.changes == "removals":
        untrusted = " that are not trusted" if n_trusted else ""
        number = number if radius is None else f"{number} of"
        return f"removes {number} the {n_rows - n_trusted:,} training rows{untrusted}"
    trusted = f"; the {n_trusted:,} trusted ones stay" if n_trusted else ""
    return (
        f"adds, removes or replaces {number} training {rows} ({n_rows:,} are given{trusted}); new rows may have any "
        "features and labels"
    )


def method_name(certificates: Certificates) -> str:
    """Return the name of the method, with its noise q or sigma if it has one."""
    if certificates.method in ("exact", "gap"):
        return certificates.method
    if np.ndim(certificates.noise):
        return f"{certificates.method} (best q per row)"
    if certificates.unit not in COUNTED_UNITS:
        return f"{certificates.method} (sigma = {certificates.noise:g})" if certificates.unit == "l2" else "kl"
    return f"{certificates.method} (q = {certificates.noise:g})"


def flips_name(certificates: Certificates) -> str:
    """Return what the radii of certificates count or measure, for table headings and axis labels."""
    if certificates.unit == "labels":
        return f"changed {certificates.labels_name}"
    return name_of_flips(certificates.unit, certificates.changes)


def name_of_flips(unit: str, changes: str) -> str:
    """Return what radii in this unit count or measure, given what the adversary may do."""
    of_rows = {"insertions": "added rows", "removals": "removed rows"} if unit == "rows" else {}
    return of_rows.get(changes, FLIPS_NAMES[unit])
