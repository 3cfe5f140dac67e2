"""A display of certified intervals: the predictions in order, and where changed targets can move each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from flipproof.core.rounding import Floats
from flipproof.displays.plotting import COLOURS, axes_for
from flipproof.intervals import CHANGED, CertifiedIntervals
from flipproof.readable import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from flipproof.adversary import Adversary

#: Up to this number of lines, each interval is drawn with its name; beyond, they form a band.
MOST_NAMED = 30


class CertifiedIntervalDisplay:
    """Predictions in ascending order with the interval of each after 1, 2, ... changed targets.

    Make one with :meth:`from_estimator` or :meth:`from_certificates`. Up to 30 predictions, coefficients, means or gaps
    are drawn as bars with their names, more as bands.

    Parameters
    ----------
    certificates : CertifiedIntervals
        What is drawn.
    y_true : floats of shape (m,), optional
        True targets, drawn as dots.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    See Also
    --------
    flipproof.CertifiedIntervals : Exact intervals of regressors.
    flipproof.CertifiedAccuracyDisplay : Certified accuracy of classifiers.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from flipproof import CertifiedIntervalDisplay, CertifiedRidgeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
    >>> display = CertifiedIntervalDisplay.from_estimator(model, X[300:], [1, 5, 20])
    """

    ax_: Axes
    figure_: Any

    def __init__(self, certificates: CertifiedIntervals, y_true: Floats | None = None):
        self.certificates = certificates
        self.y_true = y_true

    @classmethod
    def from_certificates(
        cls, certificates: CertifiedIntervals, y_true: ArrayLike | None = None, *, ax: Axes | None = None
    ) -> CertifiedIntervalDisplay:
        """Draw certified intervals.

        Parameters
        ----------
        certificates : CertifiedIntervals
            The result of `certify`, `certify_coefficients`, `certify_means` or `certify_gaps`.
        y_true : array of shape (m,), optional
            True targets.
        ax : matplotlib axes, optional
            Axes to draw on. Default: those of a new figure.

        Returns
        -------
        CertifiedIntervalDisplay

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> from flipproof import CertifiedIntervalDisplay
        >>> found = model.certify([[5.0], [17.4]], flips=[1, 2])
        >>> CertifiedIntervalDisplay.from_certificates(found, [5.0, 17.0]).ax_.get_xlabel()
        'prediction'
        """
        if not isinstance(certificates, CertifiedIntervals):
            raise ValueError(
                "CertifiedIntervalDisplay draws CertifiedIntervals of a regressor. Got "
                f"{type(certificates).__name__} instead."
            )
        truth = None if y_true is None else np.asarray(y_true, dtype=np.float64)
        if truth is not None and truth.shape != (len(certificates),):
            raise ValueError(
                f"y_true must have one target per row, {len(certificates)}. Got shape {truth.shape} instead."
            )
        return cls(certificates, truth).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        flips: int | Sequence[int] = (1, 5, 20),
        y_true: ArrayLike | None = None,
        *,
        adversary: Adversary | None = None,
        ax: Axes | None = None,
    ) -> CertifiedIntervalDisplay:
        """Certify test rows and draw their intervals.

        Parameters
        ----------
        estimator : regressor
            A fitted flipproof regressor.
        X : array or data frame of shape (m, k)
            Test rows.
        flips : int, or several, default=(1, 5, 20)
            Numbers of changed targets.
        y_true : array of shape (m,), optional
            True targets.
        adversary : Adversary, optional
            As for `certify`.
        ax : matplotlib axes, optional
            Axes to draw on. Default: those of a new figure.

        Returns
        -------
        CertifiedIntervalDisplay

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> from flipproof import CertifiedIntervalDisplay
        >>> display = CertifiedIntervalDisplay.from_estimator(model, [[5.0], [17.4]], [1, 2])
        >>> display.ax_.get_xlabel()
        'prediction'
        """
        if not getattr(estimator, "predicts_numbers", False):
            raise ValueError(
                f"CertifiedIntervalDisplay needs a flipproof regressor. Got {type(estimator).__name__} instead: for "
                "classifiers, use CertifiedAccuracyDisplay."
            )
        return cls.from_certificates(estimator.certify(X, flips, adversary=adversary), y_true, ax=ax)

    def plot(self, *, ax: Axes | None = None) -> CertifiedIntervalDisplay:
        """Draw the intervals.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on. Default: those of a new figure.

        Returns
        -------
        CertifiedIntervalDisplay

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsRegressor
        >>> X, y = [[float(i)] for i in range(40)], [float(i) for i in range(40)]
        >>> model = CertifiedNeighborsRegressor(n_neighbors=5, target_range=(0, 40)).fit(X, y)
        >>> from flipproof import CertifiedIntervalDisplay
        >>> found = model.certify([[5.0], [17.4]], flips=[1, 2])
        >>> import matplotlib.pyplot as plt
        >>> ax = plt.subplots()[1]
        >>> CertifiedIntervalDisplay.from_certificates(found).plot(ax=ax).ax_ is ax
        True
        """
        ax, found = axes_for(ax), self.certificates
        numbers = np.atleast_1d(found.flips).tolist()
        low, high = (one.reshape(len(found), -1) for one in (found.low, found.high))
        order = np.argsort(found.prediction, kind="stable")
        is_named, places = len(found) <= MOST_NAMED, np.arange(len(found))
        what = CHANGED[found.unit]
        for rank, place in enumerate(np.argsort(numbers, kind="stable")[::-1]):  # the widest first, behind the others
            colour, label = COLOURS[(len(numbers) - 1 - rank) % len(COLOURS)], f"{numbers[place]:,} {what}"
            ends = low[order, place], high[order, place]
            if is_named:
                ax.hlines(places, *ends, color=colour, linewidth=3 + 2.5 * (len(numbers) - rank), label=label)
            else:
                ax.fill_between(places, *ends, color=colour, alpha=0.55, linewidth=0, label=label, step="mid")
        if is_named:
            ax.plot(found.prediction[order], places, "k|", markersize=12, label=found.about)
            ax.set_yticks(places, [str(found.ids[row]) for row in order])
            ax.set_xlabel(found.about)
            if found.about in ("coefficient", "gap"):
                ax.axvline(0, color="black", linewidth=0.8)
        else:
            ax.plot(places, found.prediction[order], color="black", linewidth=1.2, label=found.about)
            ax.set(xlabel=f"{len(found):,} {found.about}s, in ascending order", ylabel=found.about)
        if self.y_true is not None:
            points = (self.y_true[order], places) if is_named else (places, self.y_true[order])
            ax.plot(*points, ".", color="grey", markersize=3, label="true target")
        if found.threshold is not None and found.about != "coefficient":
            (ax.axvline if is_named else ax.axhline)(found.threshold, color="black", linestyle=":", linewidth=1)
        if found.radius is not None and len(found):
            about = f"tolerance {significant(found.tolerance)}" if found.tolerance else "the threshold"
            about = "the sign" if found.about == "coefficient" else about
            ax.set_title(f"median radius for {about}: {int(np.median(found.radius)):,}", fontsize="medium")
        ax.spines[["right", "top"]].set_visible(False)
        ax.grid(alpha=0.25)
        ax.legend(fontsize="small", loc="lower right" if is_named else "best")
        self.ax_, self.figure_ = ax, ax.figure
        return self
