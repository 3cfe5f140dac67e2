"""Weak supervision: rules about rows teach a classifier, whose scores are features. No label is read."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from flipproof.assumptions import Assumption
from flipproof.core.rounding import Floats, Integers, Values
from flipproof.origins import make_frame
from flipproof.parameters import BOOLEAN, Constraints, check_parameters, function, number, parameter_error, with_methods
from flipproof.readable import four_decimals, text_table
from flipproof.values import as_values, distinct, positions

#: Code of a row about which the rules say nothing, or contradict each other equally often.
UNDECIDED = -1

#: Rows that a fit asks the rules about twice, to refuse rules that draw random numbers or count.
ROWS_TWICE = 100

#: A class and spans; the start and the end of a span.
PAIR = 2

#: Types that are no class.
SEVERAL = (tuple, list, set, frozenset, dict, np.ndarray)

#: A classifier whose scores can be used.
SCORER = with_methods("fit", "decision_function", described="a classifier with a decision_function")
#: What turns rows into numbers for classifiers.
ENCODER = with_methods("fit", "transform", described="a transformer")


@dataclass(frozen=True)
class PatternRule:
    r"""A rule for texts: what a regular expression matches names a class, and is removed from the text.

    Parameters
    ----------
    pattern : str
        A regular expression. Case is ignored.
    label : class, or function
        The class of texts with a match, or a function from a match to a class or None. If the matches of a text name
        different classes, the rule names none.
    words : tuple of str, default=()
        Texts that contain none of these, in small letters or capitals, are not searched, to save time. Every match must
        contain one of them. Default: all texts are searched.

    See Also
    --------
    flipproof.features.WeakSupervision : Features from rules.

    Examples
    --------
    >>> from flipproof.features import PatternRule
    >>> rule = PatternRule(r"(\d+) ?/ ?10", lambda found: "good" if int(found[1]) > 6 else "bad")
    >>> rule("Great fun. 9/10")
    ('good', [(11, 15)])
    """

    pattern: str
    label: Any
    words: tuple[str, ...] = ()

    def __call__(self, text: str) -> tuple[Any, list[tuple[int, int]]] | None:
        """Return the class of a text and what to remove from it; None if nothing matches."""
        if self.words:
            small = text.lower()
            if not any(word.lower() in small for word in self.words):
                return None
        found = list(re.finditer(self.pattern, text, re.IGNORECASE))
        if not found:
            return None
        named = {self.label(one) for one in found} if callable(self.label) else {self.label}
        return named.pop() if len(named) == 1 else None, [one.span() for one in found]


@dataclass(frozen=True, repr=False)
class RuleCounts:
    """How often the rules of a :class:`WeakSupervision` named a class, on the rows that it was fitted to.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    n_decided : int
        Rows that got a class: most of the rules that named one agree. The classifier was fitted to them.
    n_conflicts : int
        Rows for which rules named different classes.
    by_rule : tuple of int
        For each rule, the rows for which it named a class.
    conflicts_by_rule : tuple of int
        For each rule, the rows among them for which another rule named another class.
    by_class : tuple of int
        For each class, the rows that got it.
    names : tuple of str
        Names of the rules.
    classes : array of shape (K,)
        The classes.

    See Also
    --------
    flipproof.features.WeakSupervision : Features from rules.

    Examples
    --------
    >>> from flipproof.features import PatternRule, WeakSupervision
    >>> texts = ["superb, 9/10", "superb cast", "dull, 2/10", "a dull film"]
    >>> rule = PatternRule("([0-9]+)/10", lambda found: "good" if int(found[1]) > 6 else "bad")
    >>> counts = WeakSupervision([rule]).fit(texts).counts_
    >>> counts.n_rows, counts.n_decided, counts.by_class
    (4, 2, (1, 1))
    """

    n_rows: int
    n_decided: int
    n_conflicts: int
    by_rule: tuple[int, ...]
    conflicts_by_rule: tuple[int, ...]
    by_class: tuple[int, ...]
    names: tuple[str, ...]
    classes: NDArray[Any]

    @property
    def coverage(self) -> float:
        """Share of the rows that got a class."""
        return self.n_decided / max(1, self.n_rows)

    def to_frame(self) -> Any:
        """Return coverage and conflicts as a data frame, one line per rule.

        Returns
        -------
        data frame
            Of pandas, or another library that is installed. Columns: ``rule``; ``rows``, for which it named a class;
            ``coverage``, their share; ``conflicts``, the rows among them for which another rule named another class.

        Examples
        --------
        >>> from flipproof.features import PatternRule, WeakSupervision
        >>> texts = ["superb, 9/10", "superb cast", "dull, 2/10", "a dull film", "superb! 10/10", "dull plot. 1/10"]
        >>> rule = PatternRule("([0-9]+)/10", lambda found: "good" if int(found[1]) > 6 else "bad")
        >>> weak = WeakSupervision([rule]).fit(texts)
        >>> weak.counts_.to_frame()
                  rule  rows  coverage  conflicts
        0  ([0-9]+)/10     4  0.666667          0
        """
        covered = [n / max(1, self.n_rows) for n in self.by_rule]
        columns = {"rule": self.names, "rows": self.by_rule, "coverage": covered, "conflicts": self.conflicts_by_rule}
        return make_frame({name: list(column) for name, column in columns.items()}, None)

    def __repr__(self) -> str:
        share = four_decimals(self.coverage)
        head = f"<RuleCounts: {self.n_decided:,} of {self.n_rows:,} rows ({share}), {self.n_conflicts:,} conflicts"
        each = zip(self.names, self.by_rule, self.conflicts_by_rule, strict=True)
        lines = [(name, f"{n:,}", f"{conflicts:,}") for name, n, conflicts in each]
        return f"{head}\n{text_table(('rule', 'rows', 'conflicts'), lines)}>"


class WeakSupervision(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Scores of a classifier that was fitted to what rules say about rows, never to labels.

    A rule is a function from a row, or a text, to a class or None. Rules see no labels, so changed labels change
    nothing here. Use it as ``features=`` or as ``prior=``: a learner fits it to the reference or, without one, to the
    training rows. Rules may be wrong: as with any other features, it is the votes of the labels that decide.

    Parameters
    ----------
    rules : sequence of functions
        Each gets a row and returns a class, None, or for texts a pair: a class or None, and a list of spans
        ``(start, end)`` that are removed from the text, so that the classifier learns from the rest.
        :class:`PatternRule` makes one from a regular expression.
    estimator : classifier, or sequence of classifiers, optional
        Fitted to the rows that got a class from the rules. Scores of several classifiers are standardized and added up.
        Default: logistic regression, for texts on TF-IDF weights of one and two words.
    features : transformer, or sequence of transformers, optional
        Fitted to all rows, also those about which the rules say nothing, without what rules matched and without
        classes. Classifiers get its result. A sequence has one for each classifier; one that occurs several times is
        fitted once.
    classes : array of shape (K,), optional
        The classes that rules name. Default: those that they name for the rows in `fit`.
    rule_weight : float, default=0.0
        Added to the standardized score of the class that the rules name for the row itself.
    squash : bool, default=False
        Whether to return the hyperbolic tangent of the scores, which moves rows apart into groups. Good before
        clusters.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    counts_ : RuleCounts
        Coverage and conflicts of the rules.
    estimators_ : list of classifiers
        The fitted classifiers.
    features_ : list of transformers
        The fitted transformers, one for each classifier; None without `features`.

    See Also
    --------
    PatternRule : A rule for texts.
    CNNFeatures : A network trained on other classes.

    Examples
    --------
    >>> from flipproof.features import PatternRule, WeakSupervision
    >>> texts = ["superb, 9/10", "superb cast", "dull, 2/10", "a dull film", "superb! 10/10", "dull plot. 1/10"]
    >>> rule = PatternRule(r"(\d+)/10", lambda found: "good" if int(found[1]) > 6 else "bad")
    >>> weak = WeakSupervision([rule]).fit(texts)
    >>> weak.counts_.n_decided, weak.predict(["superb cast", "a dull film"]).tolist()
    (4, ['good', 'bad'])
    """

    #: A learner may fit it as its prior without trusted labels.
    ignores_labels: ClassVar[bool] = True

    parameter_constraints: ClassVar[Constraints] = {
        "rule_weight": number(0, closed="low"),
        "squash": BOOLEAN,
    }

    def __init__(
        self,
        rules: Sequence[Callable[[Any], Any]],
        *,
        estimator: Any = None,
        features: Any = None,
        classes: Any = None,
        rule_weight: float = 0.0,
        squash: bool = False,
    ) -> None:
        self.rules = rules
        self.estimator = estimator
        self.features = features
        self.classes = classes
        self.rule_weight = rule_weight
        self.squash = squash

    def fit(self, X: object, y: object = None) -> WeakSupervision:
        """Ask the rules about rows and fit the classifier to their answers; labels are ignored.

        Parameters
        ----------
        X : sequence of rows or texts
            What the rules take.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted map.

        Examples
        --------
        >>> from flipproof.features import PatternRule, WeakSupervision
        >>> texts = ["superb, 9/10", "superb cast", "dull, 2/10", "a dull film", "superb! 10/10", "dull plot. 1/10"]
        >>> rule = PatternRule("([0-9]+)/10", lambda found: "good" if int(found[1]) > 6 else "bad")
        >>> weak = WeakSupervision([rule]).fit(texts)
        >>> weak.counts_.n_decided
        4
        """
        check_parameters(self)
        self._check_rules()
        rows = _rows_of(X)
        answers, remaining = self._asked(rows)
        self._check_repeatable(rows, answers)
        self.classes_ = self._find_classes(answers)
        named = self._codes(answers)
        codes = _majority(named, len(self.classes_))
        decided = np.flatnonzero(codes != UNDECIDED)
        n_named = len(np.unique(codes[decided]))
        if n_named < 2:
            found = f"for {len(rows):,} rows, they named {n_named}."
            raise parameter_error("WeakSupervision", "rules", "rules that name at least two classes", self.rules, found)
        estimators = self._estimators(rows)
        self.features_ = self._fitted_features(_as_given(X, remaining), len(estimators))
        encoded = self._encoded(_as_given(X, remaining), len(estimators))
        self.estimators_ = [
            clone(one).fit(_at(kept, decided), self.classes_[codes[decided]])
            for one, kept in zip(estimators, encoded, strict=True)
        ]
        self.counts_ = _counted(named, codes, self.rules, self.classes_)
        # the scores of rules are no measure of quality: only their spread over all rows is used
        scores = (self._raw(one, kept) for one, kept in zip(self.estimators_, encoded, strict=True))
        self._centers, self._scales = zip(*map(_spread, scores), strict=True)
        self._n_features_out = 1 if len(self.classes_) == 2 else len(self.classes_)
        return self

    @property
    def rests_on(self) -> Assumption | None:
        """What certificates say about the rules, with their coverage; None before the fit."""
        if not hasattr(self, "counts_"):
            return None
        counts = self.counts_
        values = {"n_decided": counts.n_decided, "n_rows": counts.n_rows, "n_conflicts": counts.n_conflicts}
        return Assumption("rules-counted", values)

    def transform(self, X: object) -> Floats:
        """Return the scores: of shape (m, K), or (m, 1) for the second of two classes.

        Parameters
        ----------
        X : sequence of rows or texts
            What the rules take.

        Returns
        -------
        floats
            A line per row.

        Examples
        --------
        >>> from flipproof.features import PatternRule, WeakSupervision
        >>> texts = ["superb, 9/10", "superb cast", "dull, 2/10", "a dull film", "superb! 10/10", "dull plot. 1/10"]
        >>> rule = PatternRule("([0-9]+)/10", lambda found: "good" if int(found[1]) > 6 else "bad")
        >>> weak = WeakSupervision([rule]).fit(texts)
        >>> weak.transform(["superb cast", "a dull film"]).shape
        (2, 1)
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            scores = scores[:, 1:]
        return np.tanh(scores) if self.squash else scores

    def predict_proba(self, X: object) -> Floats:
        """Return a probability for each class, shape (m, K): the softmax of the scores.

        Parameters
        ----------
        X : sequence of rows or texts
            What the rules take.

        Returns
        -------
        floats of shape (n, K)
            Probabilities.

        Examples
        --------
        >>> from flipproof.features import PatternRule, WeakSupervision
        >>> texts = ["superb, 9/10", "superb cast", "dull, 2/10", "a dull film", "superb! 10/10", "dull plot. 1/10"]
        >>> rule = PatternRule("([0-9]+)/10", lambda found: "good" if int(found[1]) > 6 else "bad")
        >>> weak = WeakSupervision([rule]).fit(texts)
        >>> weak.predict_proba(["superb cast", "a dull film"]).shape
        (2, 2)
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            scores = scores * [0.0, 1.0]
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class with the highest score.

        Parameters
        ----------
        X : sequence of rows or texts
            What the rules take.

        Returns
        -------
        array of shape (n,)
            A class for each row.

        Examples
        --------
        >>> from flipproof.features import PatternRule, WeakSupervision
        >>> texts = ["superb, 9/10", "superb cast", "dull, 2/10", "a dull film", "superb! 10/10", "dull plot. 1/10"]
        >>> rule = PatternRule("([0-9]+)/10", lambda found: "good" if int(found[1]) > 6 else "bad")
        >>> weak = WeakSupervision([rule]).fit(texts)
        >>> weak.predict(["superb cast", "a dull film"]).tolist()
        ['good', 'bad']
        """
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def _scores(self, X: object) -> Floats:
        """Return the sum of all standardized scores and of what the rules say, shape (m, K).

        For two classes, the first column is minus the second.
        """
        check_is_fitted(self)
        rows = _rows_of(X)
        if len(rows) == 0:
            return np.empty((0, len(self.classes_)))
        answers, remaining = self._asked(rows)
        encoded = self._encoded(_as_given(X, remaining), len(self.estimators_))
        parts = zip(self.estimators_, encoded, self._centers, self._scales, strict=True)
        total = np.sum([(self._raw(one, kept) - center) / scale for one, kept, center, scale in parts], axis=0)
        said = _majority(self._codes(answers), len(self.classes_))
        direction = np.where(said[:, None] == np.arange(len(self.classes_)), 1.0, -1.0 if total.shape[1] == 1 else 0.0)
        direction[said == UNDECIDED] = 0.0
        if total.shape[1] == 1:
            total = np.column_stack([-total[:, 0], total[:, 0]])
        return np.asarray(total + self.rule_weight * direction)

    def _check_repeatable(self, rows: Sequence[object], answers: list[list[Any]]) -> None:
        """Ask the rules about some rows again: their answers must depend on the row alone."""
        places = range(0, len(rows), max(1, len(rows) // ROWS_TWICE))
        again, _ = self._asked([rows[place] for place in places])
        for rule, given, repeated in zip(self.rules, answers, again, strict=True):
            for place, second in zip(places, repeated, strict=True):
                if given[place] != second:
                    raise ValueError(
                        f"The rule {_name_of(rule)!r} said {given[place]!r} and then {second!r} about row {place}: "
                        "rules must depend on the row alone, without random numbers, counters or other rows."
                    )

    def _check_rules(self) -> None:
        is_sequence = isinstance(self.rules, Collection) and not isinstance(self.rules, (str, bytes, Mapping))
        rules = list(self.rules) if is_sequence else []
        if not rules or not all(function().allows(one) for one in rules):
            wanted = "a sequence of functions, each from a row to a class or None"
            raise parameter_error("WeakSupervision", "rules", wanted, self.rules)

    def _estimators(self, rows: Sequence[object]) -> list[Any]:
        """Return the classifiers to fit."""
        if self.estimator is None:
            model = LogisticRegression(C=10.0, max_iter=1000)
            first = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True) if _are_texts(rows) else StandardScaler()
            return [make_pipeline(first, model)]
        given = list(self.estimator) if isinstance(self.estimator, (list, tuple)) else [self.estimator]
        if not given or not all(SCORER.allows(one) for one in given):
            wanted = f"{SCORER.description}, or several"
            raise parameter_error("WeakSupervision", "estimator", wanted, self.estimator)
        return given

    def _fitted_features(self, rows: Any, n_estimators: int) -> list[Any] | None:
        """Return one fitted transformer for each classifier; one that is given several times is fitted once."""
        if self.features is None:
            return None
        several = isinstance(self.features, (list, tuple))
        given = list(self.features) if several else [self.features] * n_estimators
        if len(given) != n_estimators or not all(ENCODER.allows(one) for one in given):
            wanted = f"{ENCODER.description}, or one for each classifier"
            raise parameter_error("WeakSupervision", "features", wanted, self.features)
        fitted = {id(one): one for one in given}
        fitted = {key: clone(one).fit(rows) for key, one in fitted.items()}
        return [fitted[id(one)] for one in given]

    def _encoded(self, rows: object, n_estimators: int) -> list[Any]:
        """Return what each classifier gets."""
        if self.features_ is None:
            return [rows] * n_estimators
        known = {id(one): one for one in self.features_}
        known = {key: one.transform(rows) for key, one in known.items()}
        return [known[id(one)] for one in self.features_]

    def _asked(self, rows: Sequence[object]) -> tuple[list[list[Any]], list[Any]]:
        """Return the answers of each rule to each row, and the rows without what the rules matched."""
        answers: list[list[Any]] = [[] for _ in self.rules]
        remaining = []
        for place, row in enumerate(rows):
            spans: list[tuple[int, int]] = []
            for given, rule in zip(answers, self.rules, strict=True):
                try:
                    answer = rule(row)
                except Exception as error:
                    what = f"{type(error).__name__}: {error}"
                    raise ValueError(f"The rule {_name_of(rule)!r} failed on row {place}: {what}.") from error
                named, matched = _answer(answer, row, rule, place)
                given.append(named)
                spans += matched
            remaining.append(_without(str(row), spans) if spans else row)
        return answers, remaining

    def _find_classes(self, answers: list[list[Any]]) -> NDArray[Any]:
        if self.classes is not None:
            return distinct(as_values(self.classes, "The classes"))[0]
        named = [one for given in answers for one in given if one is not None]
        return distinct(as_values(named, "The classes that rules name"))[0]

    def _codes(self, answers: list[list[Any]]) -> Integers:
        """Return the answers as positions in `classes_`, shape (rules, rows); UNDECIDED for None."""
        codes = np.full((len(answers), len(answers[0])), UNDECIDED, dtype=np.int64)
        for rule, own, given in zip(self.rules, codes, answers, strict=True):
            said = np.array([one is not None for one in given], dtype=bool)
            if said.any():
                values = as_values([one for one in given if one is not None], "The classes that rules name")
                found, is_known = positions(self.classes_, values)
                if not is_known.all():
                    strange = values[~is_known][:1].tolist()[0]
                    place = int(np.flatnonzero(said)[~is_known][0])
                    raise ValueError(
                        f"The rule {_name_of(rule)!r} named the class {strange!r} for row {place}, which is not in "
                        f"{self.classes_.tolist()}: give all classes that rules name as classes=."
                    )
                own[said] = found
        return codes

    def _raw(self, model: Any, rows: Any) -> Floats:
        """Return the scores of one classifier, shape (m, K); with two classes (m, 1); 0 for classes without rows."""
        scores = np.asarray(model.decision_function(rows), dtype=np.float64)
        if scores.ndim == 1 and len(self.classes_) == 2:
            return scores[:, None]
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        full = np.zeros((len(scores), len(self.classes_)))
        full[:, positions(self.classes_, np.asarray(model.classes_))[0]] = scores
        return full


def _majority(codes: Integers, n_classes: int) -> Integers:
    """Return the class that most rules name for each row; UNDECIDED if there is none, or a tie."""
    if n_classes == 0:
        return np.full(codes.shape[1], UNDECIDED)
    votes = (codes[:, :, None] == np.arange(n_classes)).sum(axis=0)
    most = votes.max(axis=1)
    is_decided = (most > 0) & ((votes == most[:, None]).sum(axis=1) == 1)
    return np.where(is_decided, votes.argmax(axis=1), UNDECIDED)


def _counted(named: Integers, codes: Integers, rules: Sequence[object], classes: Values) -> RuleCounts:
    said = named != UNDECIDED
    lowest = np.where(said, named, len(classes)).min(axis=0)
    differ = said.any(axis=0) & (named.max(axis=0) != lowest)
    return RuleCounts(
        n_rows=len(codes),
        n_decided=int((codes != UNDECIDED).sum()),
        n_conflicts=int(differ.sum()),
        by_rule=tuple(said.sum(axis=1).tolist()),
        conflicts_by_rule=tuple((said & differ).sum(axis=1).tolist()),
        by_class=tuple(np.bincount(codes[codes != UNDECIDED], minlength=len(classes)).tolist()),
        names=tuple(map(_name_of, rules)),
        classes=classes,
    )


def _name_of(rule: object) -> str:
    return rule.pattern if isinstance(rule, PatternRule) else str(getattr(rule, "__name__", repr(rule)))


def _spread(scores: Floats) -> tuple[Floats, Floats]:
    """Return center and standard deviation of the scores of each class over all rows; 1 for constant scores."""
    scale = scores.std(axis=0)
    return scores.mean(axis=0), np.where(scale > 0, scale, 1.0)


def _answer(answer: Any, row: object, rule: object, place: int) -> tuple[Any, list[tuple[int, int]]]:
    """Return the class that a rule named, or None, and the spans that it matched."""
    named, spans = answer if isinstance(answer, tuple) and len(answer) == PAIR else (answer, [])
    if isinstance(named, SEVERAL) or _is_missing(named):
        raise ValueError(
            f"The rule {_name_of(rule)!r} returned {answer!r} for row {place}: expected a class, None (not NaN), or "
            "for texts a pair of a class or None and a list of spans."
        )
    if not isinstance(row, str) and spans:
        raise ValueError(f"The rule {_name_of(rule)!r} returned spans for row {place}, which is not a text.")
    if not _are_spans(spans, str(row)):
        raise ValueError(
            f"The rule {_name_of(rule)!r} returned the spans {spans!r} for row {place}: expected a list of pairs of "
            "integers (start, end) within the text."
        )
    return named, list(spans)


def _is_missing(value: Any) -> bool:
    """Tell whether a rule gave NaN, or another sign for nothing, instead of None."""
    is_number = isinstance(value, (float, np.floating))
    return bool(value != value) if is_number else type(value).__name__ in ("NAType", "NaTType")


def _are_spans(spans: Any, text: str) -> bool:
    """Tell whether these are spans of a text."""
    return isinstance(spans, (list, tuple)) and all(
        isinstance(span, (list, tuple))
        and len(span) == PAIR
        and all(isinstance(end, (int, np.integer)) for end in span)
        and 0 <= span[0] <= span[1] <= len(text)
        for span in spans
    )


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Return a text with a space in place of each span."""
    removed = np.zeros(len(text) + 1, dtype=bool)
    for start, end in spans:
        removed[start:end] = True
    return "".join(" " if gone else letter for letter, gone in zip(text, removed, strict=False))


def _rows_of(X: Any) -> Sequence[Any]:
    """Return the rows one by one, as rules get them: texts, rows of arrays, or named tuples of data frames."""
    if hasattr(X, "itertuples"):  # pandas
        return list(X.itertuples(index=False))
    if hasattr(X, "iter_rows"):  # polars
        row = namedtuple("Row", X.columns, rename=True)  # type: ignore[misc]
        return [row(*cells) for cells in X.iter_rows()]
    for as_list in ("to_pylist", "to_list"):  # columns of PyArrow and polars
        if hasattr(X, as_list) and not hasattr(X, "iloc"):
            column = getattr(X, as_list)()
            if _are_texts(column):
                return list(column)
    if isinstance(X, np.ndarray):
        rows = X.view()
        rows.flags.writeable = False  # rules get rows of the given array, not copies
        return list(rows)
    if not isinstance(X, (list, tuple)) and not hasattr(X, "iloc"):
        wanted = "a list of texts, an array, or a data frame of pandas or polars"
        raise ValueError(f"The rows given to WeakSupervision must be {wanted}. Got {type(X).__name__} instead.")
    return list(X)


def _are_texts(rows: Sequence[object]) -> bool:
    return len(rows) > 0 and all(isinstance(one, str) for one in rows)


def _as_given(X: object, remaining: list[Any]) -> Any:
    """Return the rows without what rules matched: a list of texts, or the given array or frame."""
    return remaining if _are_texts(remaining) else X


def _at(rows: Any, numbers: Integers) -> Any:
    """Return some of the rows."""
    if isinstance(rows, list):
        return [rows[number] for number in numbers]
    return rows.iloc[numbers] if hasattr(rows, "iloc") else rows[numbers]
