"""Rules for reviews, by the ratings that reviewers write into their texts, and a transformer that suits them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from flipproof.core.rounding import Floats
from flipproof.features.weak_supervision import PatternRule
from flipproof.parameters import Constraints, check_parameters, number
from flipproof.values import as_values, distinct, positions

#: Ratings up to the first share of their scale are bad, from the second on good, and say nothing in between.
BAD_UP_TO, GOOD_FROM = 0.45, 0.65
#: Bare stars: reviewers who name no scale mean four or five stars, or ten if there are more.
FEW_STARS, MANY_STARS = 2, 4

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
#: A number that is not part of another number, a date or a price, with an optional half.
NUMBER = rf"(?<![\w/.,$-])(\d{{1,2}}(?:[.,]\d+)?|{'|'.join(WORDS)})(\s+and\s+a\s+half|\s*1/2|\s*½)?"
OUT_OF = r"\s*(?:/|out\s+of)\s*"
#: The end of a scale: not the middle of a date.
END = r"\b(?!\s*[/\d])(?:\s*stars?\b)?"
NO_SCALE = r"(?!\s*(?:/|out\b|%|stars?\b|\d|[.,]\d))"


def rating_rules(bad: object = 0, good: object = 1) -> list[PatternRule]:
    """Return rules about reviews: ratings like "7/10", "two out of five", "4 stars", "thumbs down" or "grade: B".

    Parameters
    ----------
    bad, good : class
        The classes that the rules name. Ratings in the middle of their scale name neither.

    Returns
    -------
    list of PatternRule
        The rules, for :class:`WeakSupervision`.

    See Also
    --------
    flipproof.features.WeakSupervision : Learns from what the rules say.

    Examples
    --------
    >>> from flipproof.features import WeakSupervision, rating_rules
    >>> texts = ["Superb. 9/10", "Superb cast!", "Dull: two out of five", "A dull film", "Superb, two thumbs up"]
    >>> weak = WeakSupervision(rating_rules("bad", "good")).fit(texts)
    >>> weak.predict(["Superb cast!", "A dull film"]).tolist()
    ['good', 'bad']
    """

    def on_scale(largest: float) -> Callable[[re.Match[str]], Any]:
        def named(found: re.Match[str]) -> Any:
            share = _value(found) / largest
            return None if share > 1 else good if share >= GOOD_FROM else bad if share <= BAD_UP_TO else None

        return named

    def by_stars(found: re.Match[str]) -> Any:
        stars = _value(found)
        return good if stars >= MANY_STARS else bad if stars <= FEW_STARS else None

    def by_grade(found: re.Match[str]) -> Any:
        return good if found[1].upper() in "AB" else bad

    return [
        PatternRule(rf"{NUMBER}{OUT_OF}(?:10|ten){END}", on_scale(10), ("10", "ten")),
        PatternRule(rf"{NUMBER}(?:\s*stars?)?{OUT_OF}(?:5|five){END}", on_scale(5), ("5", "five")),
        PatternRule(rf"{NUMBER}(?:\s*stars?)?{OUT_OF}(?:4|four){END}", on_scale(4), ("4", "four")),
        PatternRule(rf"(?<!/ )(?<!of ){NUMBER}[\s-]*stars?\b(?!\s*(?:out\s+of|/))", by_stars, ("star",)),
        PatternRule(
            rf"\b(?:rating|vote|score)\s*(?:is|was|of|:|-|=)+\s*(?:an?\s+)?{NUMBER}{NO_SCALE}",
            on_scale(10),
            ("rating", "vote", "score"),
        ),
        PatternRule(r"\b(?:two|2|big|both|my)?\s*thumbs?[\s-]+up\b", good, ("thumb",)),
        PatternRule(r"\b(?:two|2|big|both|my)?\s*thumbs?[\s-]+down\b", bad, ("thumb",)),
        PatternRule(r"\bgrade\s*(?:is|:|-|=)*\s*(?:an?\s+)?(?-i:([ABDF]))(?![\w'])[+-]?", by_grade, ("grade",)),
    ]


def _value(found: re.Match[str]) -> float:
    """Return the number at the start of a match of NUMBER."""
    text = found[1].lower()
    whole = WORDS.index(text) if text in WORDS else float(text.replace(",", "."))
    return whole + (0.5 if found[2] else 0.0)


class NaiveBayesWeights(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Multiply each column by how much more it occurs in one class than in the others (Wang and Manning, 2012).

    A step before a linear classifier of texts, for the estimators of :class:`WeakSupervision`. It reads the classes
    that it is fitted to, so it must not be used as ``features=`` of a certified learner, which fits it without classes
    and then gets an error.

    Parameters
    ----------
    smoothing : float, default=1.0
        Added to the sum of each column in each class.

    Attributes
    ----------
    ratios_ : array of shape (n_features,)
        For two classes, the logarithm of the ratio of the shares of the columns. For more, the largest over the classes
        of the logarithm of the ratio of the share in the class to that in the others.

    See Also
    --------
    flipproof.features.WeakSupervision : Fits it to the classes that rules name.

    Examples
    --------
    >>> from flipproof.features import NaiveBayesWeights
    >>> NaiveBayesWeights().fit([[1, 0], [0, 1]], ["a", "b"]).transform([[1, 1]]).round(2).tolist()
    [[-0.69, 0.69]]
    """

    parameter_constraints: ClassVar[Constraints] = {"smoothing": number(0, closed="neither")}

    def __init__(self, smoothing: float = 1.0) -> None:
        self.smoothing = smoothing

    def fit(self, X: Any, y: object) -> NaiveBayesWeights:
        """Learn the ratios from rows of non-negative numbers and their classes.

        Parameters
        ----------
        X : array or sparse array of shape (n, k)
            Numbers of at least 0, such as counts of words.
        y : array of shape (n,)
            Classes, of rules or of trusted rows.

        Returns
        -------
        self
            The fitted map.
        """
        check_parameters(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, ensure_non_negative=True)
        values = as_values(y, "The classes")
        classes = distinct(values)[0]
        codes = positions(classes, values)[0]
        sums = np.stack([np.asarray(X[codes == code].sum(axis=0)).ravel() for code in range(len(classes))])
        own, others = sums + self.smoothing, sums.sum(axis=0) - sums + self.smoothing
        ratios = np.log(own / own.sum(axis=1, keepdims=True)) - np.log(others / others.sum(axis=1, keepdims=True))
        self.ratios_: Floats = ratios[1] if len(classes) == 2 else ratios.max(axis=0)
        return self

    def transform(self, X: Any) -> Any:
        """Return the rows with weighted columns.

        Parameters
        ----------
        X : array or sparse array of shape (n, k)
            Numbers of at least 0.

        Returns
        -------
        array of shape (n, k)
            The weighted columns.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return (X @ sparse.diags(self.ratios_)).tocsr() if sparse.issparse(X) else X * self.ratios_
