"""What displays have in common: axes, scales, colours, and several displays by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from flipproof.certificate_words import COUNTED_UNITS
from flipproof.certificates import Certificates

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

#: Okabe and Ito's palette: colours that differ in hue and lightness for every kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

#: Marks the line of the constant classifier, so that it is drawn once.
CONSTANT_MARK = "flipproof-constant-classifier"

PANEL_SIZE = (5.4, 4.4)  # inches

Display = TypeVar("Display")


@dataclass(frozen=True)
class RadiusScale:
    """What a horizontal axis counts, out of how many, or measures; curves on the same axes must agree in it."""

    unit: str
    n_units: int | None

    @classmethod
    def of(cls, unit: str, n_units: int) -> RadiusScale:
        """Return the scale of a unit; only those that count have a number."""
        return cls(unit, n_units if unit in COUNTED_UNITS else None)

    def __str__(self) -> str:
        return f"a radius in {self.unit}" if self.n_units is None else f"{self.n_units} {self.unit}"


#: The scale of axes that are drawn, by an empty text in them, which `ax.clear()` removes.
_SCALES: WeakKeyDictionary[Artist, RadiusScale] = WeakKeyDictionary()


class DisplaysByName(dict[str, Display], Generic[Display]):
    """Several displays in one figure, by name.

    Attributes
    ----------
    ax_ : matplotlib axes, or array of axes
        Where they were drawn.
    figure_ : matplotlib figure
        Their figure.
    """

    def __init__(self, displays: Mapping[str, Display], ax: object, figure: object):
        super().__init__(displays)
        self.ax_, self.figure_ = ax, figure


def draw_constant(ax: Axes, accuracy: float) -> None:
    """Draw the accuracy of the constant classifier, once per test set."""
    drawn = [line.get_ydata() for line in ax.lines if line.get_gid() == CONSTANT_MARK]
    if not any(np.isclose(np.asarray(y)[0], accuracy) for y in drawn):
        ax.axhline(accuracy, color="black", linestyle=":", linewidth=1.5, zorder=1, gid=CONSTANT_MARK)


def draw_scales(ax: Axes, scale: RadiusScale, changes: str) -> None:
    """Label the axes, once; the top axis is in percent of the training labels or rows, annotators or sources."""
    from matplotlib.ticker import PercentFormatter

    n_units, unit = scale.n_units, scale.unit
    kinds_of_rows = {"insertions": "added", "removals": "removed"} if unit == "rows" else {}
    of_rows = f"{kinds_of_rows.get(changes, 'changed')} training rows"
    if _scale_of(ax) is not None:
        if unit == "rows" and ax.get_xlabel() != of_rows:  # curves of several kinds
            ax.set_xlabel("changed training rows")
        return
    _SCALES[ax.text(0, 0, "")] = scale
    below, above = {
        "labels": ("changed training labels", "training labels"),
        "annotators": ("malicious annotators", "annotators"),
        "windows": ("poisoned windows of time", "windows that cover all labels"),
        "rows": (of_rows, "training rows"),
        "sources": ("malicious sources", "sources"),
        "l2": ("change of the training features (l2 norm)", None),
        "divergence": ("divergence of the noise (nats)", None),
    }[unit]
    ax.set(xlabel=below, ylabel="certified accuracy", ylim=(0, 1.02))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.spines["right"].set_visible(False)
    ax.grid(alpha=0.25)
    if above is None or not n_units:  # a real radius is not a share of anything
        return

    def percent_of(flips: Any) -> Any:
        return 100 * flips / n_units

    def flips_in(percent: Any) -> Any:
        return percent * n_units / 100

    top = ax.secondary_xaxis("top", functions=(percent_of, flips_in))
    top.set_xlabel(f"percent of the {n_units:,} {above}")


def _scale_of(ax: Axes) -> RadiusScale | None:
    """Return the scale of axes with curves of ours; None if they have none yet."""
    return next((_SCALES[text] for text in ax.texts if text in _SCALES), None)


def check_same_scale(ax: Axes, scale: RadiusScale) -> None:
    """Refuse a curve whose horizontal axis counts something else than the curves that are drawn already."""
    drawn = _scale_of(ax)
    if drawn is not None and drawn != scale:
        axis = f"the axis is {drawn}" if drawn.n_units is None else f"the top axis is in percent of {drawn}"
        raise ValueError(
            f"Curves on the same axes must share a training set: {axis}. "
            f"Got {scale} instead: draw this curve on separate axes."
        )


def legend_handles(ax: Axes) -> list[Artist]:
    """Return the legend entries: the named curves, and the dashed and dotted lines."""
    from matplotlib.lines import Line2D

    curves, _ = ax.get_legend_handles_labels()
    dashed = Line2D([], [], color="grey", linestyle="--", linewidth=1, label="clean accuracy")
    dotted = Line2D([], [], color="black", linestyle=":", linewidth=1.5, label="constant classifier")
    return [*curves, dashed, dotted]


def require_matplotlib() -> None:
    """Raise an error that names what to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'flipproof[plot]'") from error


def axes_for(ax: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure."""
    require_matplotlib()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(layout="constrained")
    return ax


def stacked_axes(axes: object, n: int) -> Any:
    """Return one axes per histogram, with the same scale of radii."""
    require_matplotlib()
    if axes is None:
        import matplotlib.pyplot as plt

        width, height = PANEL_SIZE
        _, found = plt.subplots(
            n, 1, sharex=True, squeeze=False, figsize=(width, height * (n + 1) / 3), layout="constrained"
        )
        return found[:, 0]
    found = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(found) != n:
        raise ValueError(f"ax must be one axes per histogram, {n}. Got {len(found)} instead.")
    return found


def check_named(certificates: Any, name: str | None = None) -> None:
    """Refuse anything but a mapping of names to certificates of one unit."""
    is_named = isinstance(certificates, Mapping) and len(certificates) > 0
    if not is_named or not all(isinstance(one, Certificates) for one in certificates.values()):
        raise ValueError(
            "certificates must be what `certify` returned, or a dictionary of names and such certificates. "
            f"Got {certificates!r} instead."
        )
    if name is not None:
        raise ValueError(f"name is for a single curve; several have the names of the dictionary. Got {name!r}.")
    units = {one.unit for one in certificates.values()}
    if len(units) > 1:
        raise ValueError(f"Certificates in one figure must be in the same unit. Got {' and '.join(sorted(units))}.")
