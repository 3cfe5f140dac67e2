"""More displays for notebooks: how radii are spread, and attacks against certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from flipproof.attacks.result import AttackResult
from flipproof.certificates import Certificates
from flipproof.metrics import certified_accuracy
from flipproof.report.counts import histogram
from flipproof.report.plots import COLOURS, CertifiedAccuracyDisplay, legend_handles, require_matplotlib, telling_flips
from flipproof.report.text import constant_accuracy
from flipproof.report.words import FLIPS_NAMES
from flipproof.rounding import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RadiusHistogramDisplay:
    """Number of predictions by radius, right and wrong ones stacked.

    Make one with :meth:`from_certificates`.

    Parameters
    ----------
    edges : array of shape (b + 1,)
        Borders of the bins; a bin holds its left border.
    counts : mapping of str to integers of shape (b,)
        Predictions per bin: "right" and "wrong", or "all" if nobody knows.
    n_unlimited : int
        Predictions that no changes at all can overturn; they are in no bin.
    unit : {"labels", "annotators", "l2", "divergence"}
        What a radius counts or measures.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.report.displays import RadiusHistogramDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> certificates = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000]).certify(X[1000:])
    >>> display = RadiusHistogramDisplay.from_certificates(certificates, y[1000:])  # doctest: +SKIP
    """

    ax_: Axes
    figure_: Any

    def __init__(self, *, edges: Any, counts: dict[str, Integers], n_unlimited: int, unit: str = "labels"):
        self.edges = edges
        self.counts = counts
        self.n_unlimited = n_unlimited
        self.unit = unit

    @classmethod
    def from_certificates(
        cls, certificates: Certificates, y_true: ArrayLike | None = None, *, ax: Axes | None = None, **kwargs: Any
    ) -> RadiusHistogramDisplay:
        """Draw the radii of given certificates.

        Parameters
        ----------
        certificates : Certificates
            What `certify` returned.
        y_true : array of shape (m,), optional
            The true classes, to tell right predictions from wrong ones.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        **kwargs
            For matplotlib's `bar`, such as `alpha`.

        Returns
        -------
        RadiusHistogramDisplay
        """
        correct = None
        if y_true is not None:
            truth = np.asarray(y_true)
            if truth.shape != certificates.prediction.shape:
                raise ValueError(
                    f"y_true must have one label per certificate, shape {certificates.prediction.shape}. "
                    f"Got shape {truth.shape} instead."
                )
            correct = np.asarray(truth == certificates.prediction)
        found = histogram(certificates, correct)
        kinds = [kind for kind in found if kind != "edges"]
        display = cls(
            edges=np.asarray(found["edges"]),
            counts={kind: np.asarray(found[kind]["counts"]) for kind in kinds},
            n_unlimited=sum(found[kind]["unlimited"] for kind in kinds),
            unit=certificates.unit,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> RadiusHistogramDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        **kwargs
            For matplotlib's `bar`, such as `alpha`.

        Returns
        -------
        RadiusHistogramDisplay
            Itself, with `ax_` and `figure_`.
        """
        ax = _axes(ax)
        bottom = np.zeros(len(self.edges) - 1)
        for position, (kind, counts) in enumerate(self.counts.items()):
            style = {"color": COLOURS[position], "edgecolor": "white", "linewidth": 0.5, "label": kind, **kwargs}
            ax.bar(self.edges[:-1], counts, width=np.diff(self.edges), bottom=bottom, align="edge", **style)
            bottom += counts
        ax.set(xlabel=f"radius ({FLIPS_NAMES[self.unit]})", ylabel="predictions", xlim=(0, None))
        ax.spines[["top", "right"]].set_visible(False)
        if self.n_unlimited or len(self.counts) > 1:
            beyond = f"{self.n_unlimited} more: beyond any attack" if self.n_unlimited else None
            ax.legend(title=beyond, frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class AttackDisplay:
    """Certified accuracy from below and attacked accuracy from above: the truth lies between the two.

    Make one with :meth:`from_results`. Where the two meet, certificate and attack are both the best there is.

    Parameters
    ----------
    flips : integers of shape (f,)
        Numbers of changed labels (or of annotators).
    certified, attacked : floats of shape (f,)
        Share of test rows that are correct and certified, and that are correct and not overturned by the attack.
    clean_accuracy, constant_accuracy : float
        As in :class:`flipproof.CertifiedAccuracyDisplay`.
    n_units : int
        Number of training labels (or of annotators).
    unit : {"labels", "annotators"}, default="labels"
        What `flips` counts.

    Attributes
    ----------
    certified_line_, attacked_line_ : matplotlib lines
        The curves, once drawn.
    ax_, figure_ : matplotlib axes and figure
        Where they were drawn.
    """

    ax_: Axes
    figure_: Any
    certified_line_: Any
    attacked_line_: Any

    def __init__(
        self,
        *,
        flips: Integers,
        certified: Floats,
        attacked: Floats,
        clean_accuracy: float,
        constant_accuracy: float,
        n_units: int,
        unit: str = "labels",
    ):
        self.flips = flips
        self.certified = certified
        self.attacked = attacked
        self.clean_accuracy = clean_accuracy
        self.constant_accuracy = constant_accuracy
        self.n_units = n_units
        self.unit = unit

    @classmethod
    def from_results(
        cls,
        y_true: ArrayLike,
        certificates: Certificates,
        attack: AttackResult,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> AttackDisplay:
        """Draw given certificates and an attack on the same test rows.

        Parameters
        ----------
        y_true : array of shape (m,)
            The true classes of the test rows.
        certificates : Certificates
            What `certify` returned for them.
        attack : AttackResult
            What an attack on the same model and rows found, as :func:`flipproof.attacks.worst_flips`.
        name : str, optional
            What the legend calls the model.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        **kwargs
            For matplotlib's `plot`, such as `color`.

        Returns
        -------
        AttackDisplay
        """
        if len(attack) != len(certificates) or attack.unit != certificates.unit:
            raise ValueError(
                "An attack and certificates on the same axes must be of the same test rows and in the same unit. Got "
                f"{attack!r} for {certificates!r}."
            )
        needed = int(attack.flips_needed[attack.success].max(initial=0))
        last = max(int(telling_flips(y_true, certificates)[-1]), min(needed, certificates.n_units))
        flips = np.arange(last + 1)
        display = cls(
            flips=flips,
            certified=certified_accuracy(y_true, certificates, flips),
            attacked=attack.accuracy(y_true, flips),
            clean_accuracy=float(certified_accuracy(y_true, certificates, [0])[0]),
            constant_accuracy=constant_accuracy(y_true),
            n_units=certificates.n_units,
            unit=certificates.unit,
        )
        return display.plot(ax=ax, name=name, **kwargs)

    def plot(self, ax: Axes | None = None, name: str | None = None, **kwargs: Any) -> AttackDisplay:
        """Draw both curves, and shade what lies between them: neither proved nor broken.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        name : str, optional
            What the legend calls the model.
        **kwargs
            For matplotlib's `plot`, such as `color`.

        Returns
        -------
        AttackDisplay
            Itself, with its lines, `ax_` and `figure_`.
        """
        ax = _axes(ax)
        prefix = "" if name is None else f"{name}: "
        certified = CertifiedAccuracyDisplay(
            flips=self.flips,
            accuracy=self.certified,
            clean_accuracy=self.clean_accuracy,
            constant_accuracy=self.constant_accuracy,
            n_units=self.n_units,
            unit=self.unit,
            name=f"{prefix}certified",
        ).plot(ax=ax, **kwargs)
        colour, steps = certified.line_.get_color(), certified.line_.get_drawstyle()
        style = {"color": colour, "drawstyle": steps, "linewidth": 1.5, "linestyle": "-.", **kwargs}
        (line,) = ax.plot(self.flips, self.attacked, label=f"{prefix}attacked", **style)
        ax.fill_between(self.flips, self.certified, self.attacked, step="mid", color=colour, alpha=0.15, linewidth=0)
        ax.set_ylabel("accuracy under attack")
        ax.legend(handles=legend_handles(ax), loc="best", frameon=False)
        self.certified_line_, self.attacked_line_ = certified.line_, line
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _axes(ax: Axes | None) -> Axes:
    require_matplotlib()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(layout="constrained")
    return ax
