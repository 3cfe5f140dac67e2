"""A histogram of certified radii."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from flipproof.certificate_words import name_of_flips
from flipproof.certificates import Certificates
from flipproof.core.rounding import Integers
from flipproof.displays.plotting import (
    COLOURS,
    DisplaysByName,
    axes_for,
    check_named,
    stacked_axes,
)
from flipproof.metrics import histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RadiusHistogramDisplay:
    """Histogram of radii, with right and wrong predictions stacked.

    Make one with :meth:`from_certificates`.

    Parameters
    ----------
    edges : array of shape (b + 1,)
        Edges of the bins; a bin includes its left edge.
    counts : mapping of str to integers of shape (b,)
        Predictions per bin: "right" and "wrong", or "all" if the true classes are unknown.
    n_unlimited : int
        Predictions that no attack can change; they are in no bin.
    unit : {"labels", "annotators", "windows", "rows", "sources", "l2", "divergence"}
        What a radius counts or measures.
    changes : {"labels", "rows", "insertions", "removals"}, default="labels"
        What the adversary may do, for the label of the axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    See Also
    --------
    flipproof.CertifiedAccuracyDisplay : Plot of certified accuracy.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.displays import RadiusHistogramDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> certificates = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000]).certify(X[1000:])
    >>> display = RadiusHistogramDisplay.from_certificates(certificates, y[1000:])
    """

    ax_: Axes
    figure_: Any

    def __init__(
        self,
        *,
        edges: Any,
        counts: dict[str, Integers],
        n_unlimited: int,
        unit: str = "labels",
        changes: str = "labels",
    ):
        self.edges = edges
        self.counts = counts
        self.n_unlimited = n_unlimited
        self.unit = unit
        self.changes = changes

    @overload
    @classmethod
    def from_certificates(
        cls, certificates: Certificates, y_true: ArrayLike | None = ..., *, ax: Axes | None = ..., **kwargs: Any
    ) -> RadiusHistogramDisplay: ...

    @overload
    @classmethod
    def from_certificates(
        cls,
        certificates: Mapping[str, Certificates],
        y_true: ArrayLike | None = ...,
        *,
        ax: object = ...,
        **kwargs: Any,
    ) -> DisplaysByName[RadiusHistogramDisplay]: ...

    @classmethod
    def from_certificates(
        cls,
        certificates: Certificates | Mapping[str, Certificates],
        y_true: ArrayLike | None = None,
        *,
        ax: Any = None,
        **kwargs: Any,
    ) -> RadiusHistogramDisplay | DisplaysByName[RadiusHistogramDisplay]:
        """Draw the radii of given certificates, or a histogram for each of several.

        Parameters
        ----------
        certificates : Certificates, or mapping of str to Certificates
            The certificates that `certify` returned; several by the titles of their histograms, one below the other.
        y_true : array of shape (m,), optional
            The true classes, to tell right predictions from wrong ones.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure. For a mapping: as many axes.
        **kwargs
            Passed to matplotlib's `bar`, for example `alpha`.

        Returns
        -------
        RadiusHistogramDisplay
            For a mapping a dictionary of displays, with the attributes `ax_` and `figure_`.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import RadiusHistogramDisplay
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> RadiusHistogramDisplay.from_certificates(certificates, ["ham", "ham", "spam"]).ax_.get_xlabel()
        'radius (changed labels)'
        """
        if not isinstance(certificates, Certificates):
            check_named(certificates)
            axes = stacked_axes(ax, len(certificates))
            drawn = {}
            for one_ax, (called, one) in zip(axes, certificates.items(), strict=True):
                drawn[called] = cls.from_certificates(one, y_true, ax=one_ax, **kwargs)
                one_ax.set_title(called)
                one_ax.label_outer()
            return DisplaysByName(drawn, axes, axes[0].figure)
        correct = None if y_true is None else certificates.true_classes(y_true) == certificates.prediction
        found = histogram(certificates, correct)
        kinds = [kind for kind in found if kind != "edges"]
        display = cls(
            edges=np.asarray(found["edges"]),
            counts={kind: np.asarray(found[kind]["counts"]) for kind in kinds},
            n_unlimited=sum(found[kind]["unlimited"] for kind in kinds),
            unit=certificates.unit,
            changes=certificates.changes,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> RadiusHistogramDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        **kwargs
            Passed to matplotlib's `bar`, for example `alpha`.

        Returns
        -------
        RadiusHistogramDisplay
            Itself, with `ax_` and `figure_`.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import RadiusHistogramDisplay
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> import matplotlib.pyplot as plt
        >>> ax = plt.subplots()[1]
        >>> RadiusHistogramDisplay.from_certificates(certificates).plot(ax=ax).ax_ is ax
        True
        """
        ax = axes_for(ax)
        bottom = np.zeros(len(self.edges) - 1)
        for position, (kind, counts) in enumerate(self.counts.items()):
            style = {"color": COLOURS[position], "edgecolor": "white", "linewidth": 0.5, "label": kind, **kwargs}
            ax.bar(self.edges[:-1], counts, width=np.diff(self.edges), bottom=bottom, align="edge", **style)
            bottom += counts
        ax.set(xlabel=f"radius ({name_of_flips(self.unit, self.changes)})", ylabel="predictions", xlim=(0, None))
        ax.spines[["top", "right"]].set_visible(False)
        if self.n_unlimited or len(self.counts) > 1:
            beyond = f"{self.n_unlimited:,} more: no attack can change them" if self.n_unlimited else None
            ax.legend(title=beyond, frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
