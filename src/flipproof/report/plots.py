"""Curves of certified accuracy, in the manner of scikit-learn's displays and of the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from flipproof.certificates import COUNTED_UNITS, Adversary, Certificates
from flipproof.learners.pipeline import certify
from flipproof.metrics import certified_accuracy
from flipproof.report.text import constant_accuracy, method_name
from flipproof.rounding import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

#: Okabe and Ito's colours that differ in hue and lightness for every kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

#: Marks on what belongs to the axes rather than to one curve, so that it is drawn once.
CONSTANT_MARK = "flipproof-constant-classifier"
PERCENT_MARK = "flipproof-percent-of-"
MEASURED = "a radius in"

PANEL_SIZE = (5.4, 4.4)  # inches


class CertifiedAccuracyDisplay:
    """Certified accuracy against the number of changed training labels, or of malicious annotators.

    Make one with :meth:`from_estimator` or :meth:`from_certificates`. Several can be drawn onto the same axes.

    Parameters
    ----------
    flips : integers of shape (f,), or floats
        Numbers of changed labels (or of annotators), or radii in the l2 norm over the training features.
    accuracy : floats of shape (f,)
        Certified accuracy at each.
    clean_accuracy : float
        Accuracy if nobody changes a label.
    constant_accuracy : float
        Share of the most frequent true class: what a constant classifier reaches, whatever the labels.
    n_units : int
        Number of training labels (or of annotators).
    unit : {"labels", "annotators", "l2", "divergence"}, default="labels"
        What `flips` counts or measures.
    name : str, optional
        What the legend calls the curve.

    Attributes
    ----------
    line_ : matplotlib line
        The curve, once drawn.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedAccuracyDisplay, CertifiedRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    >>> display = CertifiedAccuracyDisplay.from_estimator(model, X[1000:], y[1000:])  # doctest: +SKIP
    """

    line_: Line2D
    ax_: Axes
    figure_: Any

    def __init__(
        self,
        *,
        flips: Integers | Floats,
        accuracy: Floats,
        clean_accuracy: float,
        constant_accuracy: float,
        n_units: int,
        unit: str = "labels",
        name: str | None = None,
    ):
        self.flips = flips
        self.accuracy = accuracy
        self.clean_accuracy = clean_accuracy
        self.constant_accuracy = constant_accuracy
        self.n_units = n_units
        self.unit = unit
        self.name = name

    @classmethod
    def from_certificates(
        cls,
        y_true: ArrayLike,
        certificates: Certificates,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CertifiedAccuracyDisplay:
        """Draw the curve of given certificates.

        Parameters
        ----------
        y_true : array of shape (m,)
            The true classes of the test rows.
        certificates : Certificates
            What `certify` returned for them.
        name : str, optional
            What the legend calls the curve; by default the method and its noise.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        **kwargs
            For matplotlib's `plot`, such as `color`.

        Returns
        -------
        CertifiedAccuracyDisplay
        """
        return cls._of(y_true, certificates, name).plot(ax=ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        method: str | None = None,
        adversary: Adversary | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CertifiedAccuracyDisplay:
        """Certify test rows and draw the curve.

        Parameters
        ----------
        estimator : learner or Pipeline
            A fitted learner of flipproof, or a Pipeline that ends in one.
        X : array or data frame of shape (m, k)
            Test rows.
        y : array of shape (m,)
            Their true classes.
        method : {"exact", "tight", "kl"}, optional
            Default: the learner's own.
        adversary : Adversary, optional
            What can be done to the labels. Default: any label may be changed to anything.
        name, ax, **kwargs
            As in :meth:`from_certificates`.

        Returns
        -------
        CertifiedAccuracyDisplay
        """
        require_matplotlib()
        return cls.from_certificates(y, certify(estimator, X, method, adversary), name=name, ax=ax, **kwargs)

    @classmethod
    def _of(cls, y_true: ArrayLike, certificates: Certificates, name: str | None) -> CertifiedAccuracyDisplay:
        (clean_accuracy,) = certified_accuracy(y_true, certificates, [0])
        flips = telling_flips(y_true, certificates)
        return cls(
            flips=flips,
            accuracy=certified_accuracy(y_true, certificates, flips),
            clean_accuracy=float(clean_accuracy),
            constant_accuracy=constant_accuracy(y_true),
            n_units=certificates.n_units,
            unit=certificates.unit,
            name=method_name(certificates) if name is None else name,
        )

    def plot(self, ax: Axes | None = None, name: str | None = None, **kwargs: Any) -> CertifiedAccuracyDisplay:
        """Draw the curve: certified accuracy solid, clean accuracy dashed, the constant classifier dotted black.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        name : str, optional
            What the legend calls the curve; by default the display's own name.
        **kwargs
            For matplotlib's `plot`, such as `color`.

        Returns
        -------
        CertifiedAccuracyDisplay
            Itself, with `line_`, `ax_` and `figure_`.
        """
        require_matplotlib()
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        _check_same_scale(ax, _scale_name(self.n_units, self.unit))
        # a step around each whole number: what is read off at a tick is the value at that tick; a measured radius holds
        # up to itself
        steps = "steps-mid" if self.unit in COUNTED_UNITS else "steps-pre"
        style = {"drawstyle": steps, "linewidth": 2, "label": self.name if name is None else name, **kwargs}
        (self.line_,) = ax.plot(self.flips, self.accuracy, **style)
        self.line_.sticky_edges.x.append(0)  # the axis starts at 0, and still grows with a longer curve
        colour, behind = self.line_.get_color(), self.line_.get_zorder() - 1
        ax.axhline(self.clean_accuracy, color=colour, linestyle="--", linewidth=1, zorder=behind)
        _draw_constant(ax, self.constant_accuracy)
        _draw_scales(ax, self.n_units, self.unit)
        ax.legend(handles=legend_handles(ax), loc="best", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(frozen=True)
class Panel:
    """One part of a figure: curves over the same test set."""

    title: str
    y_true: ArrayLike
    certificates: Sequence[Certificates]


def panels_figure(panels: Sequence[Panel]) -> Figure:
    """Draw panels side by side, with one legend below all; the figure needs no screen and no pyplot."""
    require_matplotlib()
    from matplotlib.figure import Figure

    width, height = PANEL_SIZE
    figure = Figure(figsize=(width * len(panels), height), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, panel in zip(axes, panels, strict=True):
        _draw_panel(ax, panel)
    for ax in axes[1:]:
        ax.set_ylabel("")
    handles = legend_handles(axes[0])
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def _draw_panel(ax: Axes, panel: Panel) -> None:
    for position, certificates in enumerate(panel.certificates):
        CertifiedAccuracyDisplay.from_certificates(
            panel.y_true,
            certificates,
            ax=ax,
            color=COLOURS[position % len(COLOURS)],
            zorder=3 - position / len(panel.certificates),
        )
    ax.set_title(panel.title, fontweight="bold", pad=10)
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()


def telling_flips(y_true: ArrayLike, certificates: Certificates) -> Integers | Floats:
    """Return 0, 1, 2, ... up to where the curve reaches its last value; measured radii as they are, and one beyond."""
    correct = np.asarray(y_true) == certificates.prediction
    if certificates.unit not in COUNTED_UNITS:
        finite = certificates.radius[correct & np.isfinite(certificates.radius)]
        beyond = max(1.02 * finite.max(initial=0.0), np.finfo(np.float64).tiny)
        return np.unique(np.concatenate([[0.0], finite, [beyond]]))
    largest = int(certificates.radius[correct].max(initial=0))
    return np.arange(min(largest + 1, certificates.n_units) + 1)


def _draw_constant(ax: Axes, accuracy: float) -> None:
    """Draw the constant classifier, once for each test set."""
    drawn = [line.get_ydata() for line in ax.lines if line.get_gid() == CONSTANT_MARK]
    if not any(np.isclose(np.asarray(y)[0], accuracy) for y in drawn):
        ax.axhline(accuracy, color="black", linestyle=":", linewidth=1.5, zorder=1, gid=CONSTANT_MARK)


def _draw_scales(ax: Axes, n_units: int, unit: str) -> None:
    """Label the axes; the top one is in percent of the training labels, or of the annotators, and drawn once."""
    from matplotlib.ticker import PercentFormatter

    if _percent_axis_mark(ax) is not None:
        return
    below, above = {
        "labels": ("changed training labels", "training labels"),
        "annotators": ("malicious annotators", "annotators"),
        "l2": ("change of the training features (l2 norm)", None),
        "divergence": ("divergence of the noise (nats)", None),
    }[unit]
    ax.set(xlabel=below, ylabel="certified accuracy", ylim=(0, 1.02))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.spines["right"].set_visible(False)
    ax.grid(alpha=0.25)
    if above is None:  # nothing that it could be a share of
        ax.xaxis.label.set_gid(f"{PERCENT_MARK}{_scale_name(n_units, unit)}")
        return

    def percent_of(flips: Any) -> Any:
        return 100 * flips / n_units

    def flips_in(percent: Any) -> Any:
        return percent * n_units / 100

    top = ax.secondary_xaxis("top", functions=(percent_of, flips_in))
    top.set_xlabel(f"in percent of the {n_units} {above}")
    top.set_gid(f"{PERCENT_MARK}{_scale_name(n_units, unit)}")


def _scale_name(n_units: int, unit: str) -> str:
    return f"{n_units} {unit}" if unit in COUNTED_UNITS else f"{MEASURED} {unit}"


def _percent_axis_mark(ax: Axes) -> str | None:
    marks = [str(child.get_gid()) for child in [*ax.child_axes, ax.xaxis.label]]
    return next((mark for mark in marks if mark.startswith(PERCENT_MARK)), None)


def _check_same_scale(ax: Axes, scale: str) -> None:
    mark = _percent_axis_mark(ax)
    if mark not in (None, f"{PERCENT_MARK}{scale}"):
        drawn = str(mark).removeprefix(PERCENT_MARK)
        axis = f"the axis is {drawn}" if drawn.startswith(MEASURED) else f"the top axis is in percent of {drawn}"
        raise ValueError(
            f"Curves on the same axes must share a training set: {axis}. "
            f"Got {scale} instead: draw this one onto other axes."
        )


def legend_handles(ax: Axes) -> list[Artist]:
    """Return the named curves, and what dashes and dots mean."""
    from matplotlib.lines import Line2D

    curves, _ = ax.get_legend_handles_labels()
    dashed = Line2D([], [], color="grey", linestyle="--", linewidth=1, label="clean accuracy")
    dotted = Line2D([], [], color="black", linestyle=":", linewidth=1.5, label="constant classifier")
    return [*curves, dashed, dotted]


def require_matplotlib() -> None:
    """Say what to install where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'flipproof[plot]'") from error
