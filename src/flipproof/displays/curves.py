"""Displays like those of scikit-learn: certified accuracy, radii, and attacks compared with certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from flipproof.adversary import Adversary
from flipproof.certificate_words import COUNTED_UNITS, method_name
from flipproof.certificates import Certificates
from flipproof.core.rounding import Floats, Integers
from flipproof.displays.plotting import (
    COLOURS,
    PANEL_SIZE,
    DisplaysByName,
    RadiusScale,
    axes_for,
    check_named,
    check_same_scale,
    draw_constant,
    draw_scales,
    legend_handles,
    require_matplotlib,
)
from flipproof.metrics import certified_accuracy, constant_accuracy, is_unlimited

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class CertifiedAccuracyDisplay:
    """Certified accuracy against the number of changed training labels or rows, or of malicious annotators or sources.

    Make one with :meth:`from_estimator` or :meth:`from_certificates`. Several can be drawn onto the same axes.

    Parameters
    ----------
    flips : integers of shape (f,), or floats
        Numbers of changed labels or rows (or of annotators or sources), or radii in the l2 norm over the training
        features.
    accuracy : floats of shape (f,)
        Certified accuracy at each.
    clean_accuracy : float
        Accuracy without changes.
    constant_accuracy : float
        Share of the most frequent true class: the accuracy of the best constant classifier.
    n_units : int
        Number of training labels or rows (or of annotators or sources).
    unit : {"labels", "annotators", "windows", "rows", "sources", "l2", "divergence"}, default="labels"
        What `flips` counts or measures.
    changes : {"labels", "rows", "insertions", "removals"}, default="labels"
        What the adversary may do, for the label of the axis.
    name : str, optional
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib line
        The curve, after drawing.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    See Also
    --------
    flipproof.certified_accuracy : Share of rows that are correct and certified.
    flipproof.RadiusHistogramDisplay : Histogram of radii.
    flipproof.AttackDisplay : Certified and attacked accuracy in one plot.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedAccuracyDisplay, CertifiedRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    >>> display = CertifiedAccuracyDisplay.from_estimator(model, X[1000:], y[1000:])
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
        changes: str = "labels",
        name: str | None = None,
    ):
        self.flips = flips
        self.accuracy = accuracy
        self.clean_accuracy = clean_accuracy
        self.constant_accuracy = constant_accuracy
        self.n_units = n_units
        self.unit = unit
        self.changes = changes
        self.name = name

    @overload
    @classmethod
    def from_certificates(
        cls,
        certificates: Certificates,
        y_true: ArrayLike,
        *,
        name: str | None = ...,
        ax: Axes | None = ...,
        **kwargs: object,
    ) -> CertifiedAccuracyDisplay: ...

    @overload
    @classmethod
    def from_certificates(
        cls,
        certificates: Mapping[str, Certificates],
        y_true: ArrayLike,
        *,
        name: None = ...,
        ax: Axes | None = ...,
        **kwargs: object,
    ) -> DisplaysByName[CertifiedAccuracyDisplay]: ...

    @classmethod
    def from_certificates(
        cls,
        certificates: Certificates | Mapping[str, Certificates],
        y_true: ArrayLike,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> CertifiedAccuracyDisplay | DisplaysByName[CertifiedAccuracyDisplay]:
        """Draw the curve of given certificates, or one curve for each of several.

        Parameters
        ----------
        certificates : Certificates, or mapping of str to Certificates
            The certificates that `certify` returned for the test rows; several by the names of their curves, in a
            figure with the same axes.
        y_true : array of shape (m,)
            The true classes of the test rows.
        name : str, optional
            Name of the curve in the legend; by default the method and its noise.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        **kwargs
            Passed to matplotlib's `plot`, for example `color`.

        Returns
        -------
        CertifiedAccuracyDisplay
            For a mapping a dictionary of displays, with the attributes `ax_` and `figure_`.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import CertifiedAccuracyDisplay
        >>> certificates = model.certify([[5.0], [17.4], [30.0]])
        >>> display = CertifiedAccuracyDisplay.from_certificates(certificates, ["ham", "ham", "spam"])
        >>> display.ax_.get_xlabel()
        'changed training labels'
        """
        if isinstance(certificates, Certificates):
            return cls._of(y_true, certificates, name).plot(ax=ax, **kwargs)
        check_named(certificates, name)
        drawn, ax = {}, axes_for(ax)
        for position, (called, one) in enumerate(certificates.items()):
            style = {"color": COLOURS[position % len(COLOURS)], **kwargs}
            drawn[called] = cls._of(y_true, one, called).plot(ax=ax, **style)
        return DisplaysByName(drawn, ax, ax.figure)

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: object,
        y: ArrayLike,
        *,
        method: str | None = None,
        adversary: Adversary | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: object,
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
            Default: the learner's `method`.
        adversary : Adversary, optional
            Which labels can be changed, and to what. Default: any label to any class.
        name, ax, **kwargs
            As in :meth:`from_certificates`.

        Returns
        -------
        CertifiedAccuracyDisplay

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import CertifiedAccuracyDisplay
        >>> display = CertifiedAccuracyDisplay.from_estimator(model, [[5.0], [17.4]], ["ham", "ham"])
        >>> display.clean_accuracy
        1.0
        """
        require_matplotlib()
        from flipproof import certify  # defined in a higher layer: imported by its public name

        return cls.from_certificates(certify(estimator, X, method, adversary), y, name=name, ax=ax, **kwargs)

    @classmethod
    def _of(cls, y_true: ArrayLike, certificates: Certificates, name: str | None) -> CertifiedAccuracyDisplay:
        y_true = certificates.true_classes(y_true)
        (clean_accuracy,) = certified_accuracy(y_true, certificates, [0])
        flips = informative_flips(y_true, certificates)
        return cls(
            flips=flips,
            accuracy=certified_accuracy(y_true, certificates, flips),
            clean_accuracy=float(clean_accuracy),
            constant_accuracy=constant_accuracy(y_true),
            n_units=certificates.n_units,
            unit=certificates.unit,
            changes=certificates.changes,
            name=method_name(certificates) if name is None else name,
        )

    def plot(self, ax: Axes | None = None, name: str | None = None, **kwargs: Any) -> CertifiedAccuracyDisplay:
        """Draw the curve: certified accuracy solid, clean accuracy dashed, the constant classifier dotted black.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        name : str, optional
            Name of the curve in the legend; by default the display's `name`.
        **kwargs
            Passed to matplotlib's `plot`, for example `color`.

        Returns
        -------
        CertifiedAccuracyDisplay
            Itself, with `line_`, `ax_` and `figure_`.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> import matplotlib.pyplot as plt
        >>> from flipproof import CertifiedAccuracyDisplay
        >>> display = CertifiedAccuracyDisplay.from_estimator(model, [[5.0], [17.4]], ["ham", "ham"])
        >>> ax = plt.subplots()[1]
        >>> display.plot(ax=ax, color="black").ax_ is ax
        True
        """
        ax = axes_for(ax)
        scale = RadiusScale.of(self.unit, self.n_units)
        check_same_scale(ax, scale)
        # counts: a step around each integer, so that the curve at a tick shows the value of that tick; real radii: the
        # certificate holds up to and including the radius
        steps = "steps-mid" if self.unit in COUNTED_UNITS else "steps-pre"
        style = {"drawstyle": steps, "linewidth": 2, "label": self.name if name is None else name, **kwargs}
        (self.line_,) = ax.plot(self.flips, self.accuracy, **style)
        self.line_.sticky_edges.x.append(0)  # the axis starts at 0 and still grows with a longer curve
        colour, behind = self.line_.get_color(), self.line_.get_zorder() - 1
        ax.axhline(self.clean_accuracy, color=colour, linestyle="--", linewidth=1, zorder=behind)
        draw_constant(ax, self.constant_accuracy)
        draw_scales(ax, scale, self.changes)
        ax.legend(handles=legend_handles(ax), loc="best", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: curves over the same test set."""

    title: str
    y_true: ArrayLike
    certificates: Sequence[Certificates]


def panels_figure(panels: Sequence[Panel]) -> Figure:
    """Draw panels side by side with one shared legend below; needs neither a screen nor pyplot."""
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
            certificates,
            panel.y_true,
            ax=ax,
            color=COLOURS[position % len(COLOURS)],
            zorder=3 - position / len(panel.certificates),
        )
    ax.set_title(panel.title, fontweight="bold", pad=10)
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()


def informative_flips(y_true: ArrayLike, certificates: Certificates) -> Integers | Floats:
    """Return 0, 1, 2, ... up to where the curve reaches its final value; for real radii, all radii and one beyond."""
    correct = np.asarray(y_true) == certificates.prediction
    if certificates.unit not in COUNTED_UNITS:
        finite = certificates.radius[correct & np.isfinite(certificates.radius)]
        beyond = max(1.02 * finite.max(initial=0.0), np.finfo(np.float64).tiny)
        return np.unique(np.concatenate([[0.0], finite, [beyond]]))
    if certificates.rows_can_be_added:  # more rows than there are
        last = int(certificates.radius[correct & ~is_unlimited(certificates)].max(initial=0)) + 1
    else:
        last = min(int(certificates.radius[correct].max(initial=0)) + 1, certificates.n_units)
    limit = certificates.radius_limit  # nothing is known beyond it
    return np.arange((last if limit is None else min(last, limit)) + 1)


class AttackDisplay:
    """Certified accuracy as a lower bound, attacked accuracy as an upper bound on accuracy under attack.

    Make one with :meth:`from_certificates`. Where the two meet, both the certificate and the attack are optimal.

    Parameters
    ----------
    flips : integers of shape (f,)
        Numbers of changed labels or rows (or of annotators or sources).
    certified, attacked : floats of shape (f,)
        Share of test rows that are correct and certified; share that are correct and not overturned by the attack.
    clean_accuracy, constant_accuracy : float
        As in :class:`flipproof.CertifiedAccuracyDisplay`.
    n_units : int
        Number of training labels or rows (or of annotators or sources).
    unit : {"labels", "annotators", "windows", "rows", "sources"}, default="labels"
        What `flips` counts.
    changes : {"labels", "rows", "insertions", "removals"}, default="labels"
        What the adversary may do, for the label of the axis.

    Attributes
    ----------
    certified_line_, attacked_line_ : matplotlib lines
        The curves, after drawing.
    ax_, figure_ : matplotlib axes and figure
        Where they were drawn.

    See Also
    --------
    flipproof.CertifiedAccuracyDisplay : Plot of certified accuracy.
    flipproof.attacks.worst_flips : Smallest attack by labels.

    Examples
    --------
    >>> from flipproof import AttackDisplay, CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> from flipproof.attacks import worst_flips
    >>> certificates, attack = model.certify(X[400:]), worst_flips(model, X[400:])
    >>> display = AttackDisplay.from_certificates(certificates, y[400:], attack)
    >>> bool((display.certified <= display.attacked).all())
    True
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
        changes: str = "labels",
    ):
        self.flips = flips
        self.certified = certified
        self.attacked = attacked
        self.clean_accuracy = clean_accuracy
        self.constant_accuracy = constant_accuracy
        self.n_units = n_units
        self.unit = unit
        self.changes = changes

    @classmethod
    def from_certificates(
        cls,
        certificates: Certificates,
        y_true: ArrayLike,
        attack: Any,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: object,
    ) -> AttackDisplay:
        """Draw given certificates and an attack on the same test rows.

        Parameters
        ----------
        certificates : Certificates
            The certificates that `certify` returned for the test rows.
        y_true : array of shape (m,)
            The true classes of the test rows.
        attack : AttackResult
            Result of an attack on the same model and test rows, for example of :func:`flipproof.attacks.worst_flips`.
        name : str, optional
            Name of the model in the legend.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        **kwargs
            Passed to matplotlib's `plot`, for example `color`.

        Returns
        -------
        AttackDisplay

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import AttackDisplay
        >>> from flipproof.attacks import worst_flips
        >>> certificates, attack = model.certify([[5.0], [17.4]]), worst_flips(model, [[5.0], [17.4]])
        >>> display = AttackDisplay.from_certificates(certificates, ["ham", "ham"], attack)
        >>> display.attacked.tolist() == display.certified.tolist()
        True
        """
        if len(attack) != len(certificates) or attack.unit != certificates.unit:
            raise ValueError(
                "An attack and certificates on the same axes must be for the same test rows and in the same unit. Got "
                f"{attack!r} for {certificates!r}."
            )
        y_true = certificates.true_classes(y_true)
        needed = int(attack.flips_needed[attack.success].max(initial=0))
        last = max(
            int(informative_flips(y_true, certificates)[-1]),
            needed if certificates.rows_can_be_added else min(needed, certificates.n_units),
        )
        flips = np.arange(last + 1)
        display = cls(
            flips=flips,
            certified=certified_accuracy(y_true, certificates, flips),
            attacked=attack.accuracy(y_true, flips),
            clean_accuracy=float(certified_accuracy(y_true, certificates, [0])[0]),
            constant_accuracy=constant_accuracy(y_true),
            n_units=certificates.n_units,
            unit=certificates.unit,
            changes=certificates.changes,
        )
        return display.plot(ax=ax, name=name, **kwargs)

    def plot(self, ax: Axes | None = None, name: str | None = None, **kwargs: Any) -> AttackDisplay:
        """Draw both curves and shade the gap between them: neither certified nor overturned.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        name : str, optional
            Name of the model in the legend.
        **kwargs
            Passed to matplotlib's `plot`, for example `color`.

        Returns
        -------
        AttackDisplay
            Itself, with its lines, `ax_` and `figure_`.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof import AttackDisplay
        >>> from flipproof.attacks import worst_flips
        >>> certificates, attack = model.certify([[5.0], [17.4]]), worst_flips(model, [[5.0], [17.4]])
        >>> display = AttackDisplay.from_certificates(certificates, ["ham", "ham"], attack)
        >>> import matplotlib.pyplot as plt
        >>> ax = plt.subplots()[1]
        >>> display.plot(ax=ax).ax_ is ax
        True
        """
        ax = axes_for(ax)
        prefix = "" if name is None else f"{name}: "
        certified = CertifiedAccuracyDisplay(
            flips=self.flips,
            accuracy=self.certified,
            clean_accuracy=self.clean_accuracy,
            constant_accuracy=self.constant_accuracy,
            n_units=self.n_units,
            unit=self.unit,
            changes=self.changes,
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
