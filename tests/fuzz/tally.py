"""How many problems of what kind were judged, refused, and found wrong."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from fuzz.judge import judge
from fuzz.problems import problem_of

ADVERSARIES = (
    "none", "trusted", "groups", "allowed", "trusted+groups", "trusted+allowed", "groups+allowed",
    "trusted+groups+allowed",
)  # fmt: skip

#: Initials of those, as headings of columns.
HEADINGS = ("none", "t", "g", "a", "tg", "ta", "ga", "tga")


@dataclass
class Tally:
    """Counts of verdicts; all findings are kept."""

    judged: Counter = field(default_factory=Counter)
    cases: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    reasons: Counter = field(default_factory=Counter)
    findings: list = field(default_factory=list)
    n_refits: int = 0
    n_listed: int = 0

    def add(self, verdict):
        problem = verdict.problem
        self.cases[problem.learner] += 1
        if verdict.refused:
            self.refused[problem.learner] += 1
            self.reasons[verdict.refused] += 1
        for method in verdict.judged:
            self.judged[problem.learner, method, problem.adversary] += 1
        self.n_refits += verdict.n_refits
        self.n_listed += verdict.is_listed
        self.findings += [(problem.seed, finding) for finding in verdict.findings]

    @property
    def n_cases(self):
        return self.cases.total()

    @property
    def accepted_share(self):
        return 1 - self.refused.total() / max(1, self.n_cases)

    def __str__(self):
        lines = [
            f"{self.n_cases} problems, {self.accepted_share:.1%} of them accepted by the learner; all attacks listed "
            f"for {self.n_listed}; {self.n_refits} refits; {len(self.findings)} findings",
            "adversary: t trusted, g groups, a allowed",
            f"{'learner':<12} {'method':<6}" + "".join(f"{one:>6}" for one in HEADINGS) + f"{'refused':>9}",
        ]
        for learner, method in sorted({key[:2] for key in self.judged}):
            counts = "".join(f"{self.judged[learner, method, one]:>6}" for one in ADVERSARIES)
            lines.append(f"{learner:<12} {method:<6}{counts}{self.refused[learner]:>9}")
        lines += [f"refused {count:>5}: {reason}" for reason, count in self.reasons.most_common(12)]
        kinds = Counter(finding.kind for _, finding in self.findings)
        return "\n".join(lines + [f"FOUND {count:>5}: {kind}" for kind, count in kinds.most_common()])


def judge_seeds(seeds, tally, small=False, all_refits=False, seconds=float("inf")):
    """Judge the problems of some seeds, until time is up; yield the seed and the findings of each."""
    start = time.monotonic()
    for seed in seeds:
        if time.monotonic() - start > seconds:
            return
        verdict = judge(problem_of(seed, small), all_refits)
        tally.add(verdict)
        yield seed, verdict.findings
