"""Summary of certificates: everything that a report shows, as JSON types only."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import flipproof
from flipproof import metrics
from flipproof.assumptions import Assumption
from flipproof.attacks.annotator_audit import rank_annotators
from flipproof.attacks.label_audit import LabelAudit
from flipproof.attacks.result import AttackResult, RowAttackResult
from flipproof.certificate_words import COUNTED_UNITS, ROW_UNITS, flips_name, method_name
from flipproof.certificates import Certificates
from flipproof.core.rounding import Values
from flipproof.learners.collective_certificates import CollectiveCertificate
from flipproof.metrics import certified_accuracy
from flipproof.origins import index_of
from flipproof.parameters import parameter_error
from flipproof.report import words
from flipproof.report.as_json import (
    FORMAT,
    LONGEST_CONTENT,
    LONGEST_FACT,
    LONGEST_NAME,
    VERSION,
    cut,
    plain_label,
    plain_value,
)
from flipproof.report.group_bounds import summarize_groups

#: Largest numbers of entries in lists; each list also gives the total.
MOST_PREDICTIONS = 1000
MOST_CHANGES = 20  # labels of one attack
MOST_CONTENTS = 5  # labels of one attack whose training rows are shown
MOST_REMOVED = 10  # rows of one attack
MOST_SOURCES = 10  # of one attack
MOST_AUDITED = 100
MOST_CLASSES = 100

#: Titles of reports about labels and about rows.
TITLES = ("Label-flip report", "Row-poisoning report")

#: With more classes, the slider shows no curves per class.
MOST_CLASS_CURVES = 20


def summarize(
    certificates: Mapping[str, Certificates],
    *,
    y_true: ArrayLike | None = None,
    test_ids: Sequence[Any] | None = None,
    train_ids: Sequence[Any] | None = None,
    y_train: ArrayLike | None = None,
    attack: AttackResult | RowAttackResult | None = None,
    audit: LabelAudit | None = None,
    without_attack: str | None = None,
    test_contents: Mapping[str, Sequence[Any]] | None = None,
    train_contents: Mapping[str, Sequence[Any]] | None = None,
    row_origins: Mapping[int, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    requirement: Mapping[str, Any] | None = None,
    flips: Sequence[int] | None = None,
    against_rows: Certificates | None = None,
    random_errors: metrics.RandomErrors | None = None,
    trusted_only: metrics.TrustedOnly | None = None,
    groups: Values | None = None,
    of_groups: Sequence[CollectiveCertificate] | None = None,
    title: str | None = None,
) -> dict[str, Any]:
    """Summarize the certificates of one test set for a report.

    Parameters
    ----------
    certificates : mapping of str to Certificates
        Certificates by the name of the method or learner. Tables of predictions, classes and radii show the first. All
        must be for the same test rows and training labels.
    y_true : array of shape (m,), optional
        True classes of the test rows.
    test_ids, train_ids : sequences of m and n names, optional
        Names of test and training rows. Default: the index of the pandas frame that was certified and of `y_train`,
        else row numbers.
    y_train : array of shape (n,), optional
        Training labels, to show the old label of each change.
    attack : AttackResult or RowAttackResult, optional
        Attacks on the same test rows, from :func:`flipproof.attacks.worst_flips` or
        :func:`flipproof.attacks.worst_rows`.
    audit : LabelAudit, optional
        Labels to check first, from :func:`flipproof.attacks.labels_to_audit`.
    without_attack : str, optional
        Why there are no attacks, shown in their place.
    test_contents, train_contents : mappings of str to sequences of m and n values, optional
        Columns whose contents are shown: of the most fragile test rows, and of the training rows that take part in
        attacks. Each value is cut to 200 characters.
    row_origins : mapping of int to str, optional
        With attacks by rows, for test rows: the name of the existing row that the rows to add are copies of.
    facts : mapping, optional
        Further facts: files, columns, checksums, learner, versions, times. Values that JSON does not have become text.
    requirement : mapping, optional
        A requirement as ``{"text": "...", "met": True, "found": 0.93}``. If there are several, `parts` lists them.
    flips : sequence of int, optional
        Numbers of flips in the tables. Default: 0, 1 and a few round numbers.
    against_rows : Certificates, optional
        Certificates of the same predictions against changed rows, if `certificates` are against changed labels.
    random_errors : RandomErrors, optional
        How likely random errors in the labels are to change predictions.
    trusted_only : TrustedOnly, optional
        Accuracy of models that were fitted to trusted labels alone.
    groups : array of shape (m,), optional
        The group of each test row.
    of_groups : sequence of CollectiveCertificate, optional
        For each number of flips, bounds of the predictions of these groups.
    title : str, optional
        Title of the report. Default: "Label-flip report" or "Row-poisoning report".

    Returns
    -------
    dict
        The summary, in JSON types only. Long lists are cut and give their total.
    """
    check_comparable(certificates)
    each = list(certificates.values())
    main = each[0]
    truth = None if y_true is None else main.true_classes(y_true)
    if truth is not None and len(truth):
        certified_accuracy(truth, main, [0])  # raises if labels and classes differ in type
    if test_ids is None and main.origin is not None and main.origin.names is not None:
        test_ids = [str(one) if isinstance(one, tuple) else one for one in main.ids]
    if train_ids is None:
        train_ids = index_of(y_train)
    names = None if test_ids is None else _one_each(test_ids, "test_ids", len(main))
    train_names = None if train_ids is None else _one_each(train_ids, "train_ids", main.n_train)
    labels = None if y_train is None else _one_each(y_train, "y_train", main.n_train)
    tested, training = _Contents(test_contents, len(main)), _Training(train_names, labels, main, train_contents)
    row_attack, attack = (attack, None) if isinstance(attack, RowAttackResult) else (None, attack)
    if attack is not None:
        _check_attack(attack, main)
    curve = metrics.curve_flips(each)
    columns = metrics.table_flips(each) if flips is None else [plain_value(one) for one in flips]
    correct = None if truth is None else np.asarray(truth == main.prediction)
    problem = _problem(main, truth)
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": cut(str(title or TITLES[main.unit in ROW_UNITS]), LONGEST_FACT),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "headline": _headline(main, truth, problem),
        "problem": problem,
        "threat": words.threat(main),
        "requirement": None if requirement is None else plain_value(requirement),
        "flips": curve,
        "table_flips": columns,
        "methods": [_method(name, one, truth, curve, columns) for name, one in certificates.items()],
        "rows": _rows(main, against_rows, truth, _row_attacks(row_attack, row_origins or {}, main, names, training)),
        "random_errors": None
        if random_errors is None
        else {**plain_value(vars(random_errors)), "sentences": words.random_error_sentences(random_errors)},
        "trusted_only": None if trusted_only is None else _trusted_only(trusted_only),
        **_of_groups(of_groups, groups, main, truth),
        "by_class": _by_class(main, truth, curve, columns),
        "radii": metrics.histogram(main, correct),
        "predictions": _predictions(main, truth, names, attack, training, tested),
        "shown": None
        if test_contents is None and train_contents is None
        else {"test": tested.names, "training": training.contents.names},
        "attack": None if attack is None else _attack(attack, main),
        "audit": None if audit is None else _audit(audit, training) | {"annotators": _annotators(attack, main)},
        "without_attack": None if without_attack is None else cut(without_attack, LONGEST_FACT),
        "assumptions": [_assumption(one) for one in common_assumptions(each)],
        "voids": words.voids(main, against_rows is not None),
        "facts": plain_value(facts or {}),
        "software": software(),
    }


def _of_groups(
    bounds: Sequence[CollectiveCertificate] | None,
    groups: Values | None,
    main: Certificates,
    truth: Values | None,
) -> dict[str, Any]:
    """Return the entry about groups of test rows, if there are any."""
    return {} if not bounds or groups is None else {"groups": summarize_groups(bounds, groups, main, truth)}


def check_comparable(certificates: Mapping[str, Certificates]) -> None:
    """Raise ValueError unless all certificates are for the same rows, in the same unit."""
    if not certificates:
        raise ValueError("There are no certificates to summarize.")
    sizes = {name: (len(one), one.n_train, one.n_units, one.unit) for name, one in certificates.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            "Certificates in one report must be for the same test rows and training labels, in the same unit. Got "
            f"(test rows, training labels, number of units, unit) = {sizes}."
        )


class _Contents:
    """Columns whose contents a report shows."""

    def __init__(self, columns: Mapping[str, Sequence[Any]] | None, n_rows: int):
        self._columns = columns or {}
        for name, column in self._columns.items():
            if len(column) != n_rows:
                raise ValueError(
                    f"Columns whose contents a report shows must have one value per row, {n_rows}. Got {len(column)} "
                    f"values in {name!r} instead."
                )
        self.names = [cut(str(name), LONGEST_NAME) for name in self._columns]

    def of(self, row: Any) -> dict[str, list[str]]:
        """Return the values of a row as an entry, on one line each; an empty entry if there are no columns."""
        if not self._columns:
            return {}
        return {"content": [_content(column[int(row)]) for column in self._columns.values()]}


def _content(value: object) -> str:
    plain = value.as_py() if hasattr(value, "as_py") else value
    return "" if plain is None else cut(" ".join(str(plain).split()), LONGEST_CONTENT)


class _Training:
    """Names, labels and contents of the training rows."""

    def __init__(
        self,
        names: Values | None,
        labels: Values | None,
        main: Certificates,
        columns: Mapping[str, Sequence[Any]] | None,
    ):
        self.names, self.labels, self.contents = names, labels, _Contents(columns, main.n_train)

    def name(self, row: Any) -> Any:
        return int(row) if self.names is None else plain_label(self.names[row])

    def label(self, row: Any) -> Any:
        return None if self.labels is None else plain_label(self.labels[row])


def _headline(main: Certificates, truth: Values | None, problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headline; if true classes are known, with what it does not tell: worst class, constant classifier."""
    said = {**words.headline(main), "n_correct_certified": None, "worst_class": None, "above_constant": None}
    if truth is None or not len(truth):
        return {**said, "sentences": words.about_few_annotators(main)}
    flips = np.inf if said["flips"] is None else said["flips"]
    correct = np.asarray(truth == main.prediction)
    worst = metrics.worst_class(truth, main, flips)
    above = metrics.last_above(main, correct, metrics.constant_class(truth).n)
    said |= {
        "n_correct_certified": metrics.n_certified(main, [flips], correct)[0],
        "worst_class": {"class": plain_label(worst.label), "n": worst.n, "n_certified": worst.n_certified},
        "above_constant": {
            "ever": above is not None,
            "flips": None if above is None else words.plain_flips(main, above),
            "may_be_larger": above is not None and metrics.is_cut(main, above),
        },
    }
    return {**said, "sentences": [*words.about_few_annotators(main), *words.beside_headline(said, problem)]}


def _problem(main: Certificates, truth: Values | None) -> dict[str, Any]:
    constant = None if truth is None or not len(truth) else metrics.constant_class(truth)
    return {
        "n_train": main.n_train,
        "n_test": len(main),
        "n_classes": len(main.classes),
        "classes": [plain_label(label) for label in main.classes[:MOST_CLASSES]],
        "unit": main.unit,
        "changes": main.changes,
        "counted": main.unit in COUNTED_UNITS,
        "flips_name": flips_name(main),
        "labels_name": main.labels_name,
        "n_units": int(main.n_units),
        "n_touchable": int(main.n_touchable),
        "truth_known": truth is not None,
        "constant_class": None if constant is None else plain_label(constant.label),
        "constant_accuracy": None if constant is None else constant.n / len(main),
    }


def _method(name: str, one: Certificates, truth: Values | None, flips: list[Any], columns: list[Any]) -> dict[str, Any]:
    correct = None if truth is None else truth == one.prediction
    unlimited = metrics.is_unlimited(one)
    return {
        "name": cut(method_name(one) if name == one.method else str(name), 80),
        "method": one.method,
        "meaning": words.method_words(one),
        "noise": plain_noise(one),
        "assumptions": [_assumption(assumed) for assumed in one.assumptions],
        "median_radius": words.median_words(one),
        "n_abstained": int(np.count_nonzero(one.abstained)),
        "n_unlimited": int(np.count_nonzero(unlimited)),
        "n_fragile": len(one) - metrics.n_certified(one, [metrics.least_change(one)])[0],
        "n_correct": None if correct is None else int(np.count_nonzero(correct)),
        "certified": metrics.n_certified(one, flips),
        "correct_certified": None if correct is None else metrics.n_certified(one, flips, correct),
        "table_certified": metrics.n_certified(one, columns),
        "table_correct_certified": None if correct is None else metrics.n_certified(one, columns, correct),
    }


def _rows(
    main: Certificates, also: Certificates | None, truth: Values | None, attacks: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Describe certificates against changed rows; `also` are those beside certificates against labels, if any.

    The figures of `also` have the same entries as the summary itself, so that the same tables and charts show them.
    """
    if main.unit in ROW_UNITS:
        said = {"title": words.rows_title(main), "sentences": words.rows_sentences(main), "also": None}
        return {**said, "attacks": attacks} if attacks else said
    if also is None:
        return None
    if len(also) != len(main) or not np.array_equal(also.prediction, main.prediction) or also.unit not in ROW_UNITS:
        wanted = "certificates of the same predictions against changed rows"
        raise parameter_error("summarize", "against_rows", wanted, found=f"{also!r} for {main!r}")
    curve, columns = metrics.curve_flips([also]), metrics.table_flips([also])
    problem = _problem(also, truth)
    figures = {
        "headline": _headline(also, truth, problem),
        "problem": problem,
        "flips": curve,
        "table_flips": columns,
        "methods": [_method(also.method, also, truth, curve, columns)],
    }
    return {"title": words.rows_title(also), "sentences": words.rows_sentences(also), "also": figures}


def _trusted_only(baseline: metrics.TrustedOnly) -> dict[str, Any]:
    facts = plain_value({**vars(baseline), "best": baseline.best})
    return {**facts, "sentences": words.trusted_only_sentences(baseline)}


def _shown_sources(who: Mapping[Any, int]) -> list[str]:
    """Return the names of the first sources of an attack."""
    return [cut(str(plain_value(name)), LONGEST_NAME) for name in list(who)[:MOST_SOURCES]]


def _row_attacks(
    attack: RowAttackResult | None,
    origins: Mapping[int, str],
    main: Certificates,
    names: Values | None,
    training: _Training,
) -> list[dict[str, Any]]:
    """Describe the attacks by rows, the smallest first: rows to remove, what to add, and a sentence about each."""
    if attack is None:
        return []
    found = np.flatnonzero(attack.success)
    entries = []
    for row in found[np.lexsort((found, attack.changes_needed[found]))].tolist():
        removed, labels = attack.removed[row], attack.added_labels[row]
        entry = {
            "id": cut(str(row if names is None else names[row]), LONGEST_NAME),
            "prediction": plain_value(attack.prediction[row]),
            "radius": int(main.radius[row]),
            "needed": int(attack.changes_needed[row]),
            "n_removed": len(removed),
            "removed": [training.name(one) for one in removed[:MOST_REMOVED].tolist()],
            "n_added": len(labels),
            "added_label": plain_value(labels[0]) if len(labels) else None,
            "sources": None if attack.sources is None else _shown_sources(attack.who(row)),
            "copy_of": None if origins.get(row) is None else cut(origins[row], LONGEST_NAME),
            "is_smallest": bool(attack.is_smallest[row]),
        }
        entries.append({**entry, "sentence": words.row_attack_sentence(entry, attack.unit)})
    return entries


def common_assumptions(certificates: Sequence[Certificates]) -> list[Assumption]:
    """Return the assumptions that all certificates share, in the order of the first."""
    first, *others = certificates
    return [one for one in first.assumptions if all(one in other.assumptions for other in others)]


def _assumption(assumption: Assumption) -> dict[str, Any]:
    entry = assumption.to_dict()
    return {**entry, "values": plain_value(entry["values"]), "sentence": cut(entry["sentence"], LONGEST_FACT)}


def plain_noise(certificates: Certificates) -> float | dict[str, float] | None:
    """Return the noise of a method: a number, its smallest and largest value if rows differ, or None."""
    levels = np.asarray(certificates.noise, dtype=np.float64)
    if levels.size == 0 or np.isnan(levels).all():
        return None
    if levels.ndim == 0:
        return float(levels)
    return {"smallest": float(np.nanmin(levels)), "largest": float(np.nanmax(levels))}


def _by_class(main: Certificates, truth: Values | None, flips: list[Any], columns: list[Any]) -> dict[str, Any]:
    """Count by true class (recall), or by predicted class if the true classes are unknown."""
    of_class = main.prediction if truth is None else truth
    rows = []
    for label in main.classes[:MOST_CLASSES]:
        members = of_class == label
        counted = members & (main.prediction == label)
        rows.append(
            {
                "class": plain_label(label),
                "n": int(np.count_nonzero(members)),
                "n_correct": int(np.count_nonzero(counted)),
                "certified": metrics.n_certified(main, flips, counted)
                if len(main.classes) <= MOST_CLASS_CURVES
                else None,
                "table_certified": metrics.n_certified(main, columns, counted),
            }
        )
    return {"kind": "prediction" if truth is None else "recall", "total": len(main.classes), "rows": rows}


def _predictions(
    main: Certificates,
    truth: Values | None,
    names: Values | None,
    attack: AttackResult | None,
    training: _Training,
    tested: _Contents,
) -> dict[str, Any]:
    unlimited = metrics.is_unlimited(main)
    order = np.lexsort((np.arange(len(main)), main.margin, main.radius, ~main.abstained))[:MOST_PREDICTIONS]
    rows = []
    for row in order:
        entry = {
            "id": int(row) if names is None else plain_label(names[row]),
            "prediction": plain_label(main.prediction[row]),
            "rival": plain_label(main.rival[row]),
            "radius": plain_value(main.radius[row]),
            "radius_text": words.radius_words(main.radius[row], bool(unlimited[row]), main.unit),
            "abstained": bool(main.abstained[row]),
            **tested.of(row),
        }
        if main.may_be_larger[row]:
            entry |= {"rival": "not computed", "radius_text": f"{entry['radius_text']} or more"}
        if truth is not None:
            entry |= {"truth": plain_label(truth[row]), "correct": bool(truth[row] == main.prediction[row])}
        if attack is not None:
            entry["attack"] = _attack_on(attack, int(row), training)
        rows.append(entry)
    return {"total": len(main), "rows": rows}


def _attack_on(attack: AttackResult, row: int, training: _Training) -> dict[str, Any] | None:
    """Return the first labels that an attack on a test row changes; None if no attack was found."""
    if not attack.attempted[row]:
        return {"needed": None, "n_labels": 0, "changes": []}
    if not attack.success[row]:
        return None
    changed, new_labels = attack.rows[row], attack.new_labels[row]
    changes = [
        {
            "row": training.name(one),
            "old": training.label(one),
            "new": plain_label(new),
            **(training.contents.of(one) if place < MOST_CONTENTS else {}),
        }
        for place, (one, new) in enumerate(zip(changed[:MOST_CHANGES], new_labels[:MOST_CHANGES], strict=True))
    ]
    found = {"needed": int(attack.flips_needed[row]), "n_labels": len(changed), "changes": changes}
    if attack.annotators is not None:
        who = list(attack.who(row).items())[:MOST_CHANGES]
        found["who"] = [{"name": plain_label(name), "n_labels": n_labels} for name, n_labels in who]
    return found


def _attack(attack: AttackResult, main: Certificates) -> dict[str, Any]:
    """Count the attacks found, and those that contradict a certificate: these must be zero."""
    contradicted = attack.success & (attack.flips_needed <= main.radius) & ~main.abstained
    return {
        "name": attack.attack,
        "n_attempted": int(np.count_nonzero(attack.attempted)),
        "n_found": int(np.count_nonzero(attack.success)),
        "n_contradictions": int(np.count_nonzero(contradicted)),
    }


def _annotators(attack: AttackResult | None, main: Certificates) -> dict[str, Any] | None:
    """List the annotators who take part in the most attacks, if annotators are counted."""
    if attack is None or attack.annotators is None or main.adversary is None:
        return None
    audit = rank_annotators(attack, main.adversary.groups, MOST_AUDITED)
    rows = [
        {"name": plain_label(name), "n_attacks": int(n_attacks), "n_alone": int(n_alone), "n_labels": int(n_labels)}
        for name, n_attacks, n_alone, n_labels in zip(
            audit.names, audit.n_attacks, audit.n_alone, audit.n_labels, strict=True
        )
    ]
    return {"n_attacked": audit.n_attacked, "n_annotators": audit.n_annotators, "rows": rows}


def _audit(audit: LabelAudit, training: _Training) -> dict[str, Any]:
    rows = [
        {
            "row": training.name(row),
            "label": training.label(row),
            "n_attacks": int(n_attacks),
            "weight": float(weight),
            **training.contents.of(row),
        }
        for row, n_attacks, weight in zip(
            audit.rows[:MOST_AUDITED], audit.n_attacks[:MOST_AUDITED], audit.weight[:MOST_AUDITED], strict=True
        )
    ]
    return {"n_attacked": audit.n_attacked, "rows": rows}


def _one_each(values: object, name: str, wanted: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (wanted,):
        raise parameter_error("summarize", name, f"{wanted} values, one per row", found=f"shape {array.shape}")
    return array


def _check_attack(attack: AttackResult, main: Certificates) -> None:
    if len(attack) != len(main) or attack.unit != main.unit or not np.array_equal(attack.prediction, main.prediction):
        wanted = "for the same classifier and test rows as the certificates, in the same unit"
        raise parameter_error("summarize", "attack", wanted, found=f"{attack!r} for {main!r}")


def software() -> dict[str, str]:
    """Return the versions of Python and of the libraries that affect the results."""
    others = {name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"Python": platform.python_version(), "flipproof": flipproof.__version__, **others}
