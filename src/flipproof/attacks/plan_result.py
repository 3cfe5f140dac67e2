"""The result of a plan of checks: certified accuracy by budget, by choice and by use, and the way to a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flipproof.origins import make_frame
from flipproof.parameters import parameter_error
from flipproof.readable import percent
from flipproof.requirements import Requirement

if TYPE_CHECKING:
    pass

#: Ways to choose the rows to check.
CHOICES = ("attacks", "random", "diversity")

#: What each way to choose and to use checked labels is, in words.
CHOSEN = {
    "": "those trusted already",
    "attacks": "those that are part of the most attacks",
    "random": "drawn at random",
    "diversity": "rows with diverse features",
}
USED = {
    "votes": "trusted votes",
    "prior": "trusted votes and a prior",
    "geometry": "trusted votes, and trees or features learned from them",
    "alone": "the only labels of the learner",
    "prior alone": "the prior without other labels",
}


@dataclass(frozen=True)
class PlannedCheck:
    """What one way to check labels buys.

    Attributes
    ----------
    n_checked : int
        Number of checked labels; 0 for what the labels that are trusted already buy.
    chosen : {"attacks", "random", "diversity", ""}
        How the rows were chosen; empty without a check.
    used : {"votes", "prior", "geometry", "alone", "prior alone"}
        How checked labels, and those that are trusted already, are used: as trusted votes; as votes and a prior; to
        learn trees or features; or to fit a model of its own, of the same kind ("alone") or the prior ("prior alone").
    certified : tuple of float
        Certified accuracy at each number of flips; without labels of the test rows, the share of certified predictions.

    See Also
    --------
    flipproof.attacks.plan_audit : Simulate what checking labels buys.

    Examples
    --------
    >>> from flipproof.attacks import PlannedCheck
    >>> PlannedCheck(n_checked=40, chosen="attacks", used="votes", certified=(0.9, 0.8)).n_checked
    40
    """

    n_checked: int
    chosen: str
    used: str
    certified: tuple[float, ...]

    def facts(self) -> dict[str, object]:
        """Return the figures in JSON types."""
        certified = list(self.certified)
        return {"n_checked": self.n_checked, "chosen": self.chosen, "used": self.used, "certified": certified}


@dataclass(frozen=True, repr=False)
class AuditPlan:
    """Result of :func:`plan_audit`.

    Attributes
    ----------
    before : tuple of float
        Certified accuracy of the model as it is, at each number of flips.
    checks : tuple of PlannedCheck
        What each way to check labels buys.
    flips : tuple of int
        Numbers of changed labels.
    is_accuracy : bool
        Whether shares are certified accuracy; else they are shares of certified predictions.
    error_rate : float
        Share of the checked labels that the simulated check got wrong.
    n_trusted : int
        Number of labels that were trusted before any check.
    target : Requirement, optional
        Certified accuracy to reach, if one was given.

    See Also
    --------
    flipproof.attacks.plan_audit : Simulate what checking labels buys.
    flipproof.plan_checks : The same for files, frames or arrays.

    Examples
    --------
    >>> from flipproof import CertifiedForestClassifier
    >>> from flipproof.attacks import plan_audit
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedForestClassifier(20).fit(X[:400], y[:400])
    >>> plan = plan_audit(model, X[400:], y[400:], [40], X=X[:400], y=y[:400], flips=[0, 50])
    >>> len(plan.checks), plan.flips
    (15, (0, 50))
    """

    before: tuple[float, ...]
    checks: tuple[PlannedCheck, ...]
    flips: tuple[int, ...]
    is_accuracy: bool
    error_rate: float = 0.0
    n_trusted: int = 0
    target: Requirement | None = None
    _frames: str | None = None

    def __repr__(self) -> str:
        at = len(self.flips) - 1
        best = max(self.checks, key=lambda one: one.certified[at], default=None)
        said = f"<AuditPlan: {self.what} at {self.flips[at]} flips {self.before[at]:.3f}"
        if best is None:
            return f"{said}>"
        how = f"{best.n_checked} checked labels ({best.chosen}, {best.used})"
        return f"{said}; {how} make it {best.certified[at]:.3f}>"

    @property
    def what(self) -> str:
        """What the shares are."""
        return "certified accuracy" if self.is_accuracy else "share of certified predictions"

    def cheapest(self, share: float, flips: int) -> PlannedCheck | None:
        """Return the way that reaches a share at a number of flips with the fewest checks; None if none does.

        Labels that are trusted already may reach it without a check: `n_checked` is then 0.
        Among ways with as many checks, it is the one with the highest share.

        Parameters
        ----------
        share : float
            The share to reach.
        flips : int
            One of the numbers of changed labels of this plan.

        Returns
        -------
        PlannedCheck or None
            The way with the fewest checks.

        Examples
        --------
        >>> from flipproof.attacks import AuditPlan, PlannedCheck
        >>> ways = PlannedCheck(20, "attacks", "votes", (0.9, 0.7)), PlannedCheck(40, "random", "prior", (0.9, 0.8))
        >>> plan = AuditPlan(before=(0.9, 0.5), checks=ways, flips=(0, 50), is_accuracy=True)
        >>> plan.cheapest(share=0.75, flips=50)
        PlannedCheck(n_checked=40, chosen='random', used='prior', certified=(0.9, 0.8))
        """
        at = self._place_of("cheapest", flips)
        enough = [one for one in self.checks if one.certified[at] >= share]
        return min(enough, key=lambda one: (one.n_checked, -one.certified[at]), default=None)

    @property
    def is_met_now(self) -> bool:
        """Whether the target is met without a check; False without a target."""
        return self.target is not None and self.before[self._at] >= self.target.share

    @property
    def best(self) -> PlannedCheck | None:
        """The way with the fewest checks to the target; None without one, or if no check is needed or enough."""
        if self.target is None or self.is_met_now:
            return None
        return self.cheapest(self.target.share, self.target.flips)

    @property
    def reached(self) -> bool | None:
        """Whether the target can be reached, with or without checks; None without a target."""
        return None if self.target is None else self.is_met_now or self.best is not None

    @property
    def answer(self) -> str | None:
        """Which way reaches the target with the fewest checks, or how close the best comes; None without a target."""
        if self.target is None:
            return None
        at, best = self._at, self.best
        target = f"{percent(self.target.share)} at {self.target.flips:,} changed labels"
        if self.is_met_now:
            return f"Certified accuracy is {percent(self.before[at])} without any check: {target} needs none."
        if best is not None and not best.n_checked:
            return (
                f"No check is needed for {target}: the {self.n_trusted:,} labels that are trusted already reach "
                f"{percent(best.certified[at])} as {USED[best.used]} ({best.used})."
            )
        if best is not None:
            return f"The fewest checks that reach {target}: {_way(best)}: {percent(best.certified[at])}."
        closest = max(self.checks, key=lambda one: one.certified[at])
        missed = f"No way in this plan reaches {target}. The best is {percent(closest.certified[at])}"
        if not closest.n_checked:
            return (
                f"{missed}, without a check: the {self.n_trusted:,} labels that are trusted already, as "
                f"{USED[closest.used]} ({closest.used})."
            )
        return f"{missed}: {_way(closest)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """What the simulation took for granted, in words."""
        wrong = (
            f"{100 * self.error_rate:g}% of the checked labels were given another class, at random."
            if self.error_rate
            else "Checked labels were taken as they are: a check that corrects labels may change more."
        )
        alone = "Figures of 'alone' and 'prior alone' hold at any number of changes of the other labels."
        before = f" {self.n_trusted:,} labels are trusted without a check." if self.n_trusted else ""
        return (
            f"{wrong}{before}",
            *([alone] if self.is_accuracy else []),
            "Figures are of these test rows: labels that attacks use are those of attacks on them, and random labels "
            "were drawn once. On other rows, a target that is just reached may be missed.",
        )

    @property
    def headline(self) -> str:
        """What the table shows."""
        return f"{self.what[0].upper()}{self.what[1:]}, by labels checked and labels changed:"

    @property
    def _at(self) -> int:
        """Place of the number of flips that matters: that of the target, or else the largest."""
        return len(self.flips) - 1 if self.target is None else self.flips.index(self.target.flips)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and lines as text, with numbers rounded down; for each budget, the best way comes first."""
        ranked = sorted(self.checks, key=lambda one: (one.n_checked, -one.certified[self._at]))
        lines = [["none", "", "", *map(percent, self.before)]]
        lines += [
            [f"{one.n_checked:,}" if one.n_checked else "none", one.used, one.chosen, *map(percent, one.certified)]
            for one in ranked
        ]
        return ["checked", "used as", "chosen by", *(f"{one:,}" for one in self.flips)], lines

    def facts(self) -> dict[str, object]:
        """Return what the table of shares does not contain, in JSON types."""
        sentences = [*self.notes] if self.answer is None else [self.answer, *self.notes]
        about = {"flips": list(self.flips), "error_rate": self.error_rate, "n_trusted": self.n_trusted}
        if self.target is None:
            return {**about, "sentences": sentences}
        reach = [self.target.share, self.target.flips]
        cheapest = None if self.best is None else self.best.facts()
        return {**about, "sentences": sentences, "reach": reach, "reached": self.reached, "cheapest": cheapest}

    def columns(self) -> dict[str, list[Any]]:
        """Return the shares by column, one line per way to check labels, in plain types; the first is no check."""
        found: dict[str, list[Any]] = {
            "n_checked": [0, *(one.n_checked for one in self.checks)],
            "chosen": ["", *(one.chosen for one in self.checks)],
            "used": ["as it is", *(one.used for one in self.checks)],
        }
        name = "certified_accuracy" if self.is_accuracy else "certified_share"
        for place, flips in enumerate(self.flips):
            found[f"{name}_{flips}"] = [self.before[place], *(one.certified[place] for one in self.checks)]
        return found

    def to_frame(self) -> Any:
        """Return a data frame: a line for each way to check labels, a column for each number of flips.

        Returns
        -------
        data frame
            Of the same library as the test rows; for arrays, pandas, or another that is installed.

        Examples
        --------
        >>> from flipproof.attacks import AuditPlan, PlannedCheck
        >>> ways = PlannedCheck(20, "attacks", "votes", (0.9, 0.7)), PlannedCheck(40, "random", "prior", (0.9, 0.8))
        >>> plan = AuditPlan(before=(0.9, 0.5), checks=ways, flips=(0, 50), is_accuracy=True)
        >>> plan.to_frame()
           n_checked   chosen      used  certified_accuracy_0  certified_accuracy_50
        0          0           as it is                   0.9                    0.5
        1         20  attacks     votes                   0.9                    0.7
        2         40   random     prior                   0.9                    0.8
        """
        return make_frame(self.columns(), self._frames)

    def _place_of(self, owner: str, flips: int) -> int:
        if flips not in self.flips:
            raise parameter_error(owner, "flips", f"one of {list(self.flips)}", flips)
        return self.flips.index(flips)

    def plot(self, flips: int | None = None, ax: Any = None, target: float | None = None) -> Any:
        """Draw the share at a number of flips (default: the largest) by the number of checked labels.

        Parameters
        ----------
        flips : int, optional
            One of the numbers of changed labels of this plan.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        target : float, optional
            A share to reach, drawn as a line.

        Returns
        -------
        matplotlib axes
            A colour for each use, and a marker and a line style for each choice.

        Examples
        --------
        >>> from flipproof.attacks import AuditPlan, PlannedCheck
        >>> ways = PlannedCheck(20, "attacks", "votes", (0.9, 0.7)), PlannedCheck(40, "random", "prior", (0.9, 0.8))
        >>> plan = AuditPlan(before=(0.9, 0.5), checks=ways, flips=(0, 50), is_accuracy=True)
        >>> plan.plot().get_xlabel()
        'checked labels'
        """
        from flipproof.displays.plotting import require_matplotlib

        require_matplotlib()
        import matplotlib.pyplot as plt

        at = len(self.flips) - 1 if flips is None else self._place_of("plot", flips)
        ax = plt.subplots(figsize=(7.5, 4.8), layout="constrained")[1] if ax is None else ax
        colors = {used: f"C{place}" for place, used in enumerate(dict.fromkeys(one.used for one in self.checks))}
        styles = dict(zip(CHOICES, ("-o", "--s", ":^"), strict=True))
        for used, chosen in dict.fromkeys((one.used, one.chosen) for one in self.checks if one.chosen):
            own = [one for one in self.checks if one.used == used and one.chosen in ("", chosen)]
            at_each = [one.n_checked for one in own], [one.certified[at] for one in own]
            ax.plot(*at_each, styles[chosen], color=colors[used], markersize=4)
        ax.axhline(self.before[at], color="black", linewidth=1)
        entries = [ax.plot([], [], "-", color=color, label=used)[0] for used, color in colors.items()]
        entries += [ax.plot([], [], style, color="grey", markersize=4, label=name)[0] for name, style in styles.items()]
        entries.append(ax.plot([], [], "-", color="black", linewidth=1, label="no check")[0])
        if target is not None:
            ax.axhline(target, color="grey", linewidth=1, linestyle="-.")
            entries.append(ax.plot([], [], "-.", color="grey", linewidth=1, label="target")[0])
        ax.set_xticks(sorted({one.n_checked for one in self.checks}))
        ax.set_xlabel("checked labels")
        ax.set_ylabel(f"{self.what} at {self.flips[at]:,} changed labels")
        ax.legend(handles=entries, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        return ax


def _way(one: PlannedCheck) -> str:
    """Return how many labels are checked, how they are chosen and what they are used for."""
    return f"{one.n_checked:,} labels, {CHOSEN[one.chosen]} ({one.chosen}), as {USED[one.used]} ({one.used})"
