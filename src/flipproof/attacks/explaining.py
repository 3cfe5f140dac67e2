"""Explanations of single certificates: what is guaranteed, and the smallest attack, with the rows that it changes."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from flipproof.attacks.result import AttackResult
from flipproof.attacks.worst import label_linear_part, worst_flips
from flipproof.attacks.worst_rows import worst_rows
from flipproof.certificate_words import ROW_UNITS
from flipproof.certificates import Certificate, Certificates
from flipproof.core.provider import provides_votes
from flipproof.core.rounding import Integers
from flipproof.core.votes import class_scores
from flipproof.learners.clones import places_rows_together
from flipproof.learners.pipeline import certify, learner_in
from flipproof.learners.statements import up_to
from flipproof.origins import contents_of, frame_library, index_of, make_frame
from flipproof.readable import text_table

#: Number of columns that are shown by default, and of changed rows that are printed.
MOST_COLUMNS = 20
MOST_PRINTED = 5

#: Longest text of a cell in print, in characters.
LONGEST_CELL = 24


@dataclass(frozen=True)
class Change:
    """One change of an attack.

    Attributes
    ----------
    kind : {"relabel", "remove", "add"}
        What is done to a training row.
    row : object
        Name of the training row: its entry in the pandas index, or its number. None for an added row.
    label, new_label : object
        Its label before and after the attack; None before it is added and after it is removed.
    times : int
        How many copies are added.
    """

    kind: str
    row: Any
    label: Any
    new_label: Any
    times: int = 1


@dataclass(frozen=True, repr=False, eq=False)
class Explanation:
    """One certificate, and the smallest attack that changes its prediction.

    Attributes
    ----------
    certificate : Certificate
        The certificate of the test row.
    changes : tuple of Change
        The attack: the row to add, if there is one, then the other changes, the most effective first. Empty if no
        attack is known.
    becomes : object
        The prediction after the attack; None if no attack is known, or if it changes rows.
    note : str
        What is known about the attack, in one sentence.
    contents : mapping of str to tuples
        Contents of the test row, followed by those of the training rows of `changes`, by column; empty if the training
        rows were not given.

    See Also
    --------
    flipproof.explain : Explain one certificate.

    Examples
    --------
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> explanation = model.certify(X[400:]).explain(79)
    >>> print(explanation.note)
    The smallest attack changes 8 labels; the prediction is then 0.
    """

    certificate: Certificate
    changes: tuple[Change, ...]
    becomes: Any
    note: str
    contents: Mapping[str, tuple[Any, ...]]
    _library: str | None = None

    def to_frame(self) -> Any:
        """Return the test row and the training rows that the attack changes as a data frame, the test row first.

        Returns
        -------
        data frame of pandas, polars or pyarrow
            Of the library of the test rows, with the columns ``row``, ``change``, ``label`` and ``new label``, then
            those of `contents`. The line of the test row has its name, "test row", and its prediction before and after
            the attack.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> model.certify([[5.0], [17.4]]).explain(1).to_frame().columns.tolist()
        ['row', 'change', 'label', 'new label']
        """
        about = {
            "row": [self.certificate.id, *(one.row for one in self.changes)],
            "change": ["test row", *(_change_words(one) for one in self.changes)],
            "label": [self.certificate.prediction, *(one.label for one in self.changes)],
            "new label": [self.becomes, *(one.new_label for one in self.changes)],
        }
        return make_frame(
            {**_one_type(about), **{name: list(values) for name, values in self.contents.items()}}, self._library
        )

    def __str__(self) -> str:
        lines = [str(self.certificate), self.note]
        if self.changes:
            header, *rows = self._table()
            lines += ["", text_table(header, rows)]
            if len(self.changes) > MOST_PRINTED:
                lines.append(f"... and {len(self.changes) - MOST_PRINTED:,} more: see .changes and .to_frame()")
            if not self.contents:
                lines.append("Give X_train=... to see these rows.")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the explanation for a notebook."""
        parts = [f"<p>{html.escape(str(self.certificate))}</p><p>{html.escape(self.note)}</p>"]
        if self.changes:
            head, *lines = self._table()
            cells = "".join(f"<th>{html.escape(text)}</th>" for text in head)
            body = "".join(
                f"<tr><th>{html.escape(name)}</th>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}</tr>"
                for name, *texts in lines
            )
            parts.append(f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>")
            more = len(self.changes) - MOST_PRINTED
            parts += [f"<p>... and {more:,} more: <code>.to_frame()</code></p>"] if more > 0 else []
            parts += [] if self.contents else ["<p>Give <code>X_train=...</code> to see these rows.</p>"]
        return "".join(parts)

    def _table(self) -> list[list[str]]:
        """Return the rows side by side: a column for the test row and each changed training row."""
        shown = self.changes[:MOST_PRINTED]
        lines = [
            ["", f"test row {self.certificate.id}", *(_row_words(one) for one in shown)],
            ["label", f"{self.certificate.prediction} (predicted)", *(_text(one.label) for one in shown)],
            ["changed to", _text(self.becomes), *(_text(one.new_label) for one in shown)],
        ]
        for name, values in self.contents.items():
            lines.append([_cut(name), *(_text(value) for value in values[: len(shown) + 1])])
        return lines


@dataclass(frozen=True, eq=False)
class Shown:
    """Rows as people know them, where the model gets them encoded.

    Attributes
    ----------
    test, train : data frames or arrays
        Test rows, as many as certificates, and training rows.
    train_ids : sequence
        Names of the training rows.
    """

    test: Any
    train: Any
    train_ids: Sequence[Any]


def explain(
    certificates: Certificates,
    row: object = None,
    *,
    X_train: object = None,
    columns: Sequence[str] | None = None,
    model: object = None,
    X_test: object = None,
    shown: Shown | None = None,
) -> Explanation:
    """Explain one certificate: the sentence, the smallest attack, and the rows that it changes.

    The same as :meth:`flipproof.Certificates.explain`.

    Parameters
    ----------
    certificates : Certificates
        What `certify` returned.
    row : name of a test row, optional
        As in the index or the column ``id`` of ``certificates.to_frame()``. Default: the most fragile row.
    X_train : array or data frame, optional
        Training rows as given to `fit`, to show their contents side by side with the test row.
    columns : sequence of str, optional
        Columns to show. Default: the first 20.
    model, X_test : optional
        The fitted model and the test rows, for certificates that do not know them because they were pickled.
    shown : Shown, optional
        The same rows as people know them, to be shown instead of those that the model gets.

    Returns
    -------
    Explanation
        The certificate and the attack; `str` returns a text, `to_frame` a data frame.

    See Also
    --------
    flipproof.Explanation : The smallest attack on one prediction.
    flipproof.attacks.worst_flips : Smallest attack by labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import flipproof
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = flipproof.CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> certificates = model.certify(X[400:])
    >>> explanation = certificates.explain(479, X_train=X[:400], columns=["mean radius", "mean area"])
    >>> explanation.note
    'The smallest attack changes 8 labels; the prediction is then 0.'
    >>> explanation.to_frame().head(3)
       row    change  label  new label  mean radius  mean area
    0  479  test row      1          0        16.25      815.8
    1  375   relabel      1          0        16.17      788.5
    2  157   relabel      1          0        16.84      880.2
    """
    at = _position(certificates, row)
    one = certificates[[at]]
    origin = one.origin
    if model is None and origin is not None:
        model, X_test = origin.model, origin.X
    if model is None or X_test is None:
        raise ValueError(
            "These certificates do not know their model and test rows, since they were pickled or changed: give "
            "model=... and X_test=..."
        )
    number = np.array([at if origin is None else origin.numbers[0]])
    learner, X_row = learner_in(model), _safe_indexing(X_test, number)
    found = _attack(one, model, learner, X_row, X_train)
    names, n_train = _row_names(learner, X_train), getattr(learner, "n_rows_", one.n_train)
    rows_of_labels = getattr(learner, "rows_of_labels", None)
    if shown is not None:  # a row per label
        X_row, X_train, names = _safe_indexing(shown.test, number), shown.train, shown.train_ids
        rows_of_labels, n_train = None, n_train if rows_of_labels is None else len(names)
    return _with_contents(found, one[0], X_row, X_train, columns, n_train, names, rows_of_labels)


@dataclass(frozen=True)
class _Found:
    """An attack on one test row: rows to relabel or to remove, rows to add, and labels."""

    note: str
    becomes: Any = None
    numbers: Any = ()
    labels: Any = ()
    new_labels: Any = ()
    kind: str = "relabel"
    added: Any = None
    added_label: Any = None
    n_added: int = 0


def _position(certificates: Certificates, row: object) -> int:
    """Return the position of a test row, given its name."""
    if not len(certificates):
        raise ValueError("There are no certificates to explain.")
    if row is None:
        return int(certificates.fragile_order()[0])
    if isinstance(row, Certificate):
        row = row.id
    found = [position for position, name in enumerate(certificates.ids) if name == row]
    if len(found) == 1:
        return found[0]
    if not found:
        some = ", ".join(repr(name) for name in certificates.ids[:5])
        raise ValueError(f"row must be the name of a test row, such as {some}. Got {row!r} instead.")
    raise ValueError(
        f"row must name one test row, but {len(found)} are called {row!r}, at positions {found[:5]}: choose "
        f"one by its position, as in certificates[[{found[0]}]].explain()."
    )


def _attack(one: Certificates, model: object, learner: Any, X_row: object, X_train: object) -> _Found:
    """Find the smallest attack on one test row, or say why none is known."""
    if one.unlimited is not None and one.unlimited[0]:
        return _Found("No attack by this adversary can change the prediction.")
    name = type(learner).__name__
    if not provides_votes(learner):
        return _Found(f"The smallest attack is not known: {name} certifies a lower bound.")
    if getattr(learner, "majority_first", False):
        return _Found("The smallest attack is not known: the majority of each item's annotations votes.")
    if not getattr(learner, "holds_training_rows", True):
        return _Found(f"The smallest attack is not known: {name} does not hold its training rows in memory.")
    features = getattr(learner, "features_", None)
    if places_rows_together(features):
        return _Found("The smallest attack is not known: the features step places all test rows together.")
    known = certify(model, X_row, "exact", one.adversary)
    fields = ("prediction", "rival", "radius") if one.method == "exact" else ("prediction",)
    same = known if one.radius_limit is None else up_to(known, one.radius_limit)
    if any(getattr(same, field)[0] != getattr(one, field)[0] for field in fields):
        raise ValueError(
            "The model or the test rows have changed since these certificates were made: call certify again."
        )
    if one.unit in ROW_UNITS:
        return _row_attack(known, model, learner, X_row, X_train)
    found = worst_flips(model, X_row, certificates=known)
    if not found.success[0]:
        return _Found("No attack by this adversary can change the prediction.")
    labels = learner.classes_[learner.label_codes_[found.rows[0]]]
    n, n_labels = int(found.flips_needed[0]), len(found.rows[0])
    what = f"changes {n:,} {_singular('labels', n)}"
    if one.unit != "labels":
        what = f"needs {n:,} {_singular(one.unit, n)}, and changes {n_labels:,} {_singular('labels', n_labels)}"
    becomes = _prediction_after(model, X_row, found)
    note = f"The smallest attack {what}; the prediction is then {becomes}."
    return _Found(note, becomes, found.rows[0], labels, found.new_labels[0])


def _prediction_after(model: object, X_row: object, attack: AttackResult) -> Any:
    """Return the prediction for a test row after the attack on it, from the votes: that of a refit."""
    learner, X_row = label_linear_part(model, X_row)
    codes = learner.label_codes_.copy()
    codes[attack.rows[0]] = np.searchsorted(learner.classes_, attack.new_labels[0])
    source = learner.votes_on(learner.test_rows(X_row))
    scores = class_scores(source, codes, len(learner.classes_))
    scores = scores + learner.offsets_on(source, scores.sum(axis=1))
    return learner.classes_[np.argmax(scores[0])]


def _row_attack(known: Certificates, model: object, learner: Any, X_row: object, X_train: object) -> _Found:
    """Find an attack by added and removed rows."""
    if not learner.rows_vote_separately and known.unit == "sources":
        return _Found("The smallest attack is not known: radii in sources are lower bounds for nearest neighbours.")
    found = worst_rows(model, X_row, known.adversary, certificates=known, X_train=X_train)
    if not found.success[0]:
        return _Found("No attack was found: the radius is a lower bound.")
    n, removed = int(found.changes_needed[0]), found.removed[0]
    smallest = "The smallest attack" if found.is_smallest[0] else "The smallest attack that was found"
    labels = learner.classes_[learner.label_codes_[removed]]
    n_added = len(found.added_labels[0])
    what, steps = f"{n:,} {_singular(known.unit, n)}", []
    if found.sources is not None:
        who = [str(name) for name in found.who(0)]
        what += f" ({', '.join(who[:MOST_PRINTED])}{', ...' if len(who) > MOST_PRINTED else ''})"
    if len(removed):
        steps.append(f"removes {len(removed):,} {_singular('training rows', len(removed))}")
    if n_added:
        steps.append("adds a row" if n_added == 1 else f"adds {n_added:,} copies of a row")
    note = f"{smallest} changes {what}: it {' and '.join(steps)}. A refit then predicts another class."
    return _Found(
        note,
        None,
        removed,
        labels,
        [None] * len(removed),
        "remove",
        _safe_indexing(found.added[0], [0]) if n_added else None,
        found.added_labels[0][0] if n_added else None,
        n_added,
    )


def _with_contents(
    found: _Found,
    certificate: Certificate,
    X_row: object,
    X_train: Any,
    columns: Sequence[str] | None,
    n_train: int,
    names: Any,
    rows_of_labels: Integers | None = None,
) -> Explanation:
    """Add names and contents of the changed rows."""
    numbers = np.asarray(found.numbers, dtype=np.int64)
    changes = [
        Change(found.kind, int(number) if names is None else _plain(names[number]), _plain(label), _plain(new))
        for number, label, new in zip(numbers, found.labels, found.new_labels, strict=True)
    ]
    contents: dict[str, list[Any]] = {}
    if rows_of_labels is not None:
        numbers = rows_of_labels[numbers]
    if X_train is not None:
        n_rows = X_train.shape[0] if hasattr(X_train, "shape") else len(X_train)
        if n_rows != n_train:
            raise ValueError(
                f"X_train must be the {n_train:,} training rows that were given to fit. Got {n_rows:,} rows."
            )
        parts = [contents_of(X_row, np.array([0]), columns), contents_of(X_train, numbers, columns)]
        if found.n_added:
            parts.insert(1, contents_of(found.added, np.array([0]), columns))
        shared = [name for name in parts[0] if all(name in part for part in parts)]
        shown = shared if columns is not None else shared[:MOST_COLUMNS]
        contents = {name: [value for part in parts for value in part[name]] for name in shown}
    if found.n_added:
        changes.insert(0, Change("add", None, None, _plain(found.added_label), found.n_added))
    return Explanation(
        certificate=certificate,
        changes=tuple(changes),
        becomes=_plain(found.becomes),
        note=found.note,
        contents={name: tuple(values) for name, values in contents.items()},
        _library=frame_library(X_row),
    )


def _row_names(learner: object, X_train: object) -> Any:
    index = index_of(X_train) if getattr(learner, "rows_of_labels", None) is None else None
    return getattr(learner, "row_names_", None) if index is None else index


def _plain(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _change_words(change: Change) -> str:
    return change.kind if change.times == 1 else f"{change.kind} {change.times:,} copies"


def _row_words(change: Change) -> str:
    if change.kind == "add":
        return "added row" if change.times == 1 else f"{change.times:,} added copies"
    return f"{'removed' if change.kind == 'remove' else 'training'} row {change.row}"


def _one_type(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return columns of names and labels with strings only where types differ, as polars and pyarrow need."""
    mixed = {name: len({type(one) for one in values if one is not None}) > 1 for name, values in columns.items()}
    return {
        name: [None if one is None else str(one) for one in values] if mixed[name] else values
        for name, values in columns.items()
    }


def _singular(unit: str, number: int) -> str:
    return unit[:-1] if number == 1 else unit


def _text(value: object) -> str:
    if value is None:
        return "-"
    return _cut(f"{value:.4g}" if isinstance(value, float) else str(value))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
