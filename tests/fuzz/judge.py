"""Tries attacks on the certificates of a problem: refits on attacked labels, and asks the refitted learner to predict.

The judge uses public names only. Where all attacks are too many to refit, `weights` says what each of them would do:
``argmax(alpha @ onehot(y) + offsets)``, the lowest class on ties, is documented to be the prediction under any labels
y, and refits confirm a sample of it, the attacks that decide among them.
"""

from __future__ import annotations

import re
import signal
import threading
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np

import flipproof
from fuzz import own, proofs
from fuzz.problems import HEADER, choices, n_attacks
from fuzz.script import script_of

#: Labellings that are listed one by one; beyond that, arithmetic on the weights finds the cheapest attack.
MOST_LISTED = 20_000

#: Refits of one problem, unless all are wanted.
MOST_REFITS = 100

#: Labels of which all outcomes of the noise are summed up.
MOST_NOISY = 8

#: Radii that are compared with what their failure probability proves.
MOST_PROVED = 25

#: Seconds of computing, not of waiting on a busy machine, after which a problem counts as one that hangs.
PATIENCE = 600

#: Where this judge and the library are.
HERE, LIBRARY = (str(Path(module.__file__).parent) for module in (own, flipproof))

NAMES: dict = {}
exec(HEADER, NAMES)
NAMES |= {name: value for name, value in vars(own).items() if isinstance(value, type)}


class Hangs(Exception):  # noqa: N818
    """A problem took longer than the judge's patience."""


@dataclass(frozen=True)
class Finding:
    """A violated property, with a script that fails as long as it is violated."""

    kind: str
    what: str
    script: str


@dataclass
class Verdict:
    """The outcome of one problem: the methods judged, or why the learner refused it, and the findings."""

    problem: object
    judged: tuple[str, ...] = ()
    refused: str = ""
    n_refits: int = 0
    is_listed: bool = False
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class Attack:
    """Labels after an attack, as class codes, and how many labels (or annotators) it needs."""

    codes: tuple[int, ...]
    cost: int


def judge(problem, all_refits=False):
    """Return the verdict on a problem; every failure is a finding."""
    case = Case(problem, all_refits)
    try:
        with _patience(), case.watched_warnings():
            case.run()
    except Refused as refusal:
        case.verdict.refused = refusal.args[0]
    except Hangs:
        case.found("hangs", f"it takes more than {PATIENCE} seconds of computing", case.doing)
    except Exception as error:
        case.found("exception", f"{type(error).__name__}: {error}", case.doing)
    return case.verdict


class Refused(Exception):  # noqa: N818
    """The learner refused the problem with a ValueError, as it may."""


class Case:
    """One problem on trial."""

    def __init__(self, problem, all_refits=False):
        self.problem, self.all_refits = problem, all_refits
        self.verdict = Verdict(problem)
        self.doing = [_FIT]
        self.rng = np.random.default_rng(problem.seed)
        self._known = {}

    def found(self, kind, what, lines):
        self.verdict.findings.append(Finding(kind, what, script_of(self.problem, kind, what, lines)))

    def run(self):
        problem = self.problem
        self.y, self.adversary = self.value(problem.labels.source(problem.codes)), self.value(problem.adversary_source)
        try:
            self.model = self.fitted(self.value(problem.code), problem.codes)
            self.predicted = self.codes_of(self.ask("model.predict(Z)", lambda: self.model.predict(problem.Z)))
        except (ValueError, TypeError) as error:
            if isinstance(error, TypeError) and "bytes" not in str(error):  # scikit-learn refuses labels of bytes so
                raise
            self.compare_blocks(None)
            raise Refused(_reason(error)) from error
        if "'paper'" in problem.code and not 1e-290 < self.model.regularization_ < 1e290:
            raise Refused("regularization='paper': lambda has no place among floats, so that it cannot be kept")
        self.choices = choices(problem)
        self.groups = problem.groups or tuple(range(len(problem.codes)))
        self.n_touchable = len({self.groups[row] for row, own_ in enumerate(self.choices) if len(own_) > 1})
        certificates = {method: self.certify(method) for method in problem.methods}
        for one in certificates.values():
            self.check_form(one)
        self.check_company(certificates)
        self.compare_blocks(certificates)
        if problem.learner == "partition":
            self.judge_by_refits(certificates["gap"])
        else:
            self.judge_by_weights(certificates)
            self.check_worst_flips(certificates["exact"])
        self.verdict.judged = problem.methods

    @contextmanager
    def watched_warnings(self):
        """Note warnings that the library causes itself; those of scikit-learn about extreme numbers are its own."""

        def note(message, category, filename, lineno, file=None, line=None):
            files = [frame.filename for frame in traceback.extract_stack() if not frame.filename.startswith(HERE)]
            files = [name for name in files if not re.search(r"[/\\](numpy|warnings\.py|contextlib\.py)", name)]
            if not issubclass(category, NAMES["LabelDependenceWarning"]) and files[-1].startswith(LIBRARY):
                what = f"{category.__name__}: {message} ({Path(files[-1]).name})"
                if all(finding.what != what for finding in self.verdict.findings):
                    self.found("warning", what, ['warnings.simplefilter("error")', *self.doing])

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = note
            yield

    # how the learner is asked

    def value(self, source):
        return eval(source, NAMES)

    def ask(self, source, call):
        """Run a step and remember it, for the script in case it fails."""
        self.doing = [_FIT, source]
        return call()

    def fitted(self, model, codes):
        problem = self.problem
        y = self.value(problem.labels.source(codes))
        if problem.unlabeled is not None:
            return model.fit(problem.X, y, np.array(problem.unlabeled))
        return model.fit(problem.X, y)

    def refit(self, codes):
        """Return what a refit on other labels predicts for all test rows, as class codes."""
        codes = tuple(map(int, codes))
        if codes not in self._known:
            self.doing = [*_refit_lines(self.problem, codes), "refit.predict(Z)"]
            fresh = NAMES["clone"](self.model).set_params(classes=self.model.classes_)
            if "'paper'" in self.problem.code:
                fresh.set_params(regularization=self.model.regularization_)
            self._known[codes] = self.codes_of(self.fitted(fresh, codes).predict(self.problem.Z))
            self.verdict.n_refits += 1
        return self._known[codes]

    def certify(self, method, model=None, Z=None):
        call = _certify_line(method)
        Z = self.problem.Z if Z is None else Z
        return self.ask(call, lambda: (model or self.model).certify(Z, method=method, adversary=self.adversary))

    def codes_of(self, labels):
        """Return class codes; a label that is no class at all gets -1."""
        if not hasattr(self, "classes"):
            self.classes = self.value(self.problem.labels.source(range(self.problem.n_classes)))
        values = np.asarray(self.classes).tolist()
        return np.array([values.index(one) if one in values else -1 for one in np.asarray(labels).tolist()])

    # what every certificate must satisfy

    def check_form(self, certificates):
        method, line = certificates.method, f"certificates = {_certify_line(certificates.method)}"
        radius, margin, log_failure = certificates.radius, certificates.margin, certificates.log_failure
        rules = {
            "certificates.prediction.tolist() == model.predict(Z).tolist()": np.array_equal(
                self.codes_of(certificates.prediction), self.predicted
            ),
            f"certificates.n_touchable == {self.n_touchable}": certificates.n_touchable == self.n_touchable,
            "certificates.radius.dtype.kind == 'i'": radius.dtype.kind == "i",
            "(certificates.radius >= 0).all()": (radius >= 0).all(),
            f"(certificates.radius <= {self.n_touchable}).all()": (radius <= self.n_touchable).all(),
            "(certificates.rival != certificates.prediction).all()": (
                self.codes_of(certificates.rival) != self.codes_of(certificates.prediction)
            ).all(),
            "set(certificates.rival.tolist()) <= set(model.classes_.tolist())": (
                self.codes_of(certificates.rival) >= 0
            ).all(),
            "np.isfinite(certificates.margin).all()": np.isfinite(margin).all(),
            "(certificates.margin >= 0).all()": (margin >= 0).all(),
            "not (certificates.log_failure > 0).any()": not (log_failure > 0).any(),
        }
        if method in ("exact", "gap"):
            rules["np.isnan(certificates.log_failure).all()"] = np.isnan(log_failure).all()
        for rule, holds in rules.items():
            if not holds:
                self.found(f"form: {rule}", f"{method}: {rule} must be true", [_FIT, line, f"assert {rule}"])

    def check_company(self, certificates):
        """Other test rows, block sizes and threads must not affect a certificate."""
        Z, method = self.problem.Z, self.problem.methods[-1]
        last = slice(len(Z) - 1, len(Z))
        alone = self.codes_of(self.ask("model.predict(Z[-1:])", lambda: self.model.predict(Z[last])))
        if alone[0] != self.predicted[-1]:
            rule = "model.predict(Z[-1:]).tolist() == model.predict(Z)[-1:].tolist()"
            self.found("company", "a prediction depends on the rows beside it", [_FIT, f"assert {rule}"])
        self.compare(
            "company", certificates[method], self.certify(method, Z=Z[last]), f"{_certify_line(method, 'Z[-1:]')}", -1
        )
        changes = {"n_jobs": self.problem.n_jobs}
        if self.problem.learner != "partition":
            changes["block_size"] = self.problem.block_size
        source = f"clone(model).set_params({', '.join(f'{key}={value}' for key, value in changes.items())})"
        if self.rng.random() < 0.3:
            self.doing = [_FIT, f"other = {source}", _FIT.replace("model", "other")]
            other = self.fitted(NAMES["clone"](self.model).set_params(**changes), self.problem.codes)
            lines = self.doing[1:]
            for method in self.problem.methods:
                again = self.certify(method, other)
                self.compare(
                    "blocks of test rows", certificates[method], again, _certify_line(method, who="other"), None, lines
                )

    def compare(self, kind, one, other, source, row=None, lines=()):
        """Certificates that must be the same to the last bit."""
        of = slice(None) if row is None else slice(row, None)
        for name in ("prediction", "radius", "rival", "margin", "log_failure", "witness"):
            mine, theirs = getattr(one, name)[of], getattr(other, name)
            if not _same(mine, theirs):
                index = "" if row is None else "[-1:]"
                rule = f"np.testing.assert_array_equal(certificates.{name}{index}, others.{name})"
                told = [_FIT, f"certificates = {_certify_line(one.method)}", *lines, f"others = {source}", rule]
                what = f"{one.method}: {name} is {mine.tolist()}, and {theirs.tolist()}"
                self.found(f"{kind}: {name}", what, told)

    def compare_blocks(self, certificates):
        """Rows in blocks must give what rows in memory give; if those are refused, they must be refused as well."""
        problem = self.problem
        if problem.cuts is None:
            return
        code = problem.code.replace("Certified", "streaming.Streaming", 1)
        cuts = [0, *problem.cuts, len(problem.X)]
        told = problem.told_at_fit and certificates is not None
        names = {**NAMES, "X": problem.X, "y": self.y, "Z": problem.Z, "adversary": self.adversary}
        also = [
            f"adversary.{name}[{{0}}:{{1}}]" if getattr(problem, name) is not None else "None"
            for name in ("trusted", "groups")
        ]
        piece = "(X[{0}:{1}], y[{0}:{1}]" + (f", {', '.join(also)})" if told else ")")
        fit = f"other = {code}.fit([{', '.join(piece.format(start, stop) for start, stop in pairwise(cuts))}])"
        rest = self.value(problem.source_of_adversary(told))
        self.doing = [fit] if certificates is None else [_FIT, fit]
        try:
            exec(fit, names)
        except (ValueError, TypeError) as error:
            if isinstance(error, TypeError) and "bytes" not in str(error):
                raise
            if certificates is not None:
                self.found("blocks: refused", f"rows in blocks are refused: {error}", self.doing)
            return
        if certificates is None:
            try:
                self.doing = [fit, "other.predict(Z)"]
                names["other"].predict(problem.Z)
            except ValueError:
                return
            self.found(
                "blocks: accepted",
                "rows in blocks are accepted, rows in memory refused",
                [fit, _FIT, "model.predict(Z)"],
            )
            return
        self.doing = [_FIT, fit, "other.predict(Z)"]
        if not np.array_equal(self.codes_of(names["other"].predict(problem.Z)), self.predicted):
            rule = "assert other.predict(Z).tolist() == model.predict(Z).tolist()"
            self.found("blocks: predict", "rows in blocks are predicted otherwise", [_FIT, fit, rule])
        for method, one in certificates.items():
            source = f"other.certify(Z, method={method!r}, adversary={problem.source_of_adversary(told)})"
            self.doing = [_FIT, fit, source]
            again = names["other"].certify(problem.Z, method=method, adversary=rest)
            self.compare("blocks", one, again, source, None, [fit])

    # attacks

    def cost(self, codes):
        """Return how many labels, or annotators, an attack needs."""
        return len({self.groups[row] for row, code in enumerate(self.problem.codes) if codes[row] != code})

    def listed(self, most_cost=None):
        """Return all labellings within reach and their costs; only cheap ones if `most_cost` is given."""
        labellings = np.array(list(product(*self.choices)))
        changed = labellings != np.array(self.problem.codes)
        names = sorted(set(self.groups))
        cost = sum(changed[:, [name == one for one in self.groups]].any(axis=1).astype(int) for name in names)
        kept = slice(None) if most_cost is None else cost <= most_cost
        return labellings[kept], cost[kept]

    def judge_by_refits(self, certificates):
        """Lower bounds: no attack of as many labels as certified may change a prediction."""
        if n_attacks(self.problem) <= MOST_LISTED:
            labellings, cost = self.listed(int(certificates.radius.max()))
            is_all = self.all_refits or len(labellings) <= 4 * MOST_REFITS
            order = self.rng.permutation(len(labellings))[: None if is_all else 2 * MOST_REFITS]
            self.verdict.is_listed = bool(is_all)
            attacks = [Attack(tuple(labellings[i].tolist()), int(cost[i])) for i in order]
        else:
            attacks = [self.random_attack(int(self.rng.choice(certificates.radius))) for _ in range(MOST_REFITS)]
        for attack in attacks:
            after = self.refit(attack.codes)
            self.check_held(certificates, attack, after)

    def check_held(self, certificates, attack, after):
        for row in np.flatnonzero((after != self.predicted) & (certificates.radius >= attack.cost)):
            self.too_large(certificates, int(row), attack)

    def too_large(self, certificates, row, attack):
        method, radius = certificates.method, certificates.radius[row]
        if self.has_found(f"radius too large ({method})"):
            return
        told = [
            *_refit_lines(self.problem, attack.codes),
            f"certificates = {_certify_line(method)}",
            f"is_changed = refit.predict(Z)[{row}] != certificates.prediction[{row}]",
            f"assert not is_changed or certificates.radius[{row}] < {attack.cost}, certificates.radius[{row}]",
        ]
        what = f"{method}: radius {radius} of row {row}, but {attack.cost} {certificates.unit} change the prediction"
        self.found(f"radius too large ({method})", what, told)

    def has_found(self, kind):
        return any(finding.kind == kind for finding in self.verdict.findings)

    def random_attack(self, n_units):
        """Return a random attack within a budget of labels or annotators."""
        codes = list(self.problem.codes)
        units = sorted({self.groups[row] for row, own_ in enumerate(self.choices) if len(own_) > 1})
        for unit in self.rng.permutation(len(units))[:n_units]:
            for row, own_ in enumerate(self.choices):
                if self.groups[row] == units[unit] and len(own_) > 1:
                    codes[row] = int(self.rng.choice(own_[1:]))
        return Attack(tuple(codes), self.cost(codes))

    def judge_by_weights(self, certificates):
        problem = self.problem
        alpha, offsets = self.ask("model.vote_weights(Z)", lambda: self.model.vote_weights(problem.Z))
        if not (np.isfinite(alpha).all() and np.isfinite(offsets).all()):
            told = [_FIT, "alpha, offsets = model.vote_weights(Z)"]
            told.append("assert np.isfinite(alpha).all() and np.isfinite(offsets).all(), (alpha, offsets)")
            self.found("weights: not finite", "there are weights or offsets that are not finite", told)
            return
        votes = [whole_numbers([*line, *more]) for line, more in zip(alpha.tolist(), offsets.tolist(), strict=True)]
        n = len(problem.codes)
        self.votes, self.offsets = [line[:n] for line, _ in votes], [line[n:] for line, _ in votes]
        if not self.agrees(problem.codes, self.predicted):
            return
        needs = [self.fewest(row) for row in range(len(votes))]
        truth = (
            np.array(
                [min((one.cost for one in of_row.values()), default=None) or self.n_touchable + 1 for of_row in needs]
            )
            - 1
        )
        self.confirm(truth, needs)
        for method, one in certificates.items():
            self.check_margins(one, [unit for _, unit in votes])
            if method != "exact":
                self.check_proof(one)
            wrong = one.radius != truth if method == "exact" else one.radius > truth
            for row in np.flatnonzero(wrong):
                if one.radius[row] > truth[row]:
                    attack = min(needs[row].values(), key=lambda attack: attack.cost)
                    self.refit(attack.codes)
                    self.too_large(one, int(row), attack)
                else:
                    self.too_small(one, int(row), int(truth[row]))
        self.check_rivals(certificates["exact"], needs)

    def check_margins(self, certificates, units):
        """The margin is the lead over the rival, in the scores that the weights make."""
        for row, rival in enumerate(self.codes_of(certificates.rival).tolist()):
            scores = self.scores(row, self.problem.codes)
            lead = float(Fraction(scores[self.predicted[row]] - scores[rival], units[row]))
            if certificates.margin[row] != lead:
                told = [_FIT, f"certificates = {_certify_line(certificates.method)}"]
                told.append(f"assert certificates.margin[{row}] == {lead!r}, certificates.margin[{row}]")
                self.found("margin", f"{certificates.method}: the lead over the rival is {lead!r}", told)
                return

    def check_proof(self, certificates):
        """The failure probability must be one, and prove the radius: the true radius alone is far above both."""
        problem, method, n_classes = self.problem, certificates.method, self.problem.n_classes
        noisy = [row for row, options in enumerate(self.choices) if len(options) > 1]
        noises = np.broadcast_to(certificates.noise, len(problem.Z)).tolist()
        told = [_FIT, f"certificates = {_certify_line(method)}"]
        for row, (q, rival) in enumerate(zip(noises, self.codes_of(certificates.rival).tolist(), strict=True)):
            winner, claimed = int(self.predicted[row]), float(certificates.log_failure[row])
            if len(noisy) <= MOST_NOISY:
                votes, scores = self.votes[row], self.scores(row, problem.codes)
                lead = scores[winner] - scores[rival]
                lead -= sum(votes[j] * ((problem.codes[j] == winner) - (problem.codes[j] == rival)) for j in noisy)
                of_noisy = ([values[j] for j in noisy] for values in (votes, problem.codes))
                truth = proofs.log_failure(next(of_noisy), lead, next(of_noisy), winner, rival, q, n_classes)
                if truth > claimed + proofs.SLACK * (1 + abs(truth)):
                    rule = f"assert certificates.log_failure[{row}] >= {truth!r}, certificates.log_failure[{row}]"
                    what = f"{method}: log_failure {claimed!r} of row {row}, but the noise fails with {truth!r}"
                    self.found(f"log_failure ({method})", what, [*told, rule])
                    return
            radius = int(certificates.radius[row])
            if problem.groups is None and 0 < radius <= MOST_PROVED:
                proved = proofs.largest_proved(claimed, method, q, n_classes, radius)
                if proved < radius:
                    rule = f"assert certificates.radius[{row}] <= {proved}, certificates.radius[{row}]"
                    what = f"{method}: radius {radius} of row {row}, but its log_failure proves {proved} only"
                    self.found(f"not proved ({method})", what, [*told, rule])
                    return

    def too_small(self, certificates, row, truth):
        if self.has_found("radius too small (exact)"):
            return
        radius, unit = certificates.radius[row], certificates.unit
        what = f"exact: radius {radius} of row {row}, but no attack of {truth} {unit} changes the prediction"
        lines = [_FIT, f"certificates = {_certify_line('exact')}"]
        if n_attacks(self.problem) <= MOST_LISTED:
            lines += _list_lines(self, row, truth)
        lines.append(f"assert certificates.radius[{row}] == {truth}, certificates.radius[{row}]")
        self.found("radius too small (exact)", what, lines)

    def check_rivals(self, certificates, needs):
        for row, rival in enumerate(self.codes_of(certificates.rival).tolist()):
            radius, least = int(certificates.radius[row]), min((one.cost for one in needs[row].values()), default=None)
            if least is None or radius != least - 1 or rival not in range(self.problem.n_classes):
                continue  # nothing can overturn it, or the radius is wrong and has been found
            if rival not in needs[row] or needs[row][rival].cost != least:
                first = [self.problem.labels.values[d] for d, one in needs[row].items() if one.cost == least]
                what = f"exact: the class that limits the radius of row {row} is {' or '.join(first)}"
                told = [_FIT, f"certificates = {_certify_line('exact')}"]
                told.append(f"assert certificates.rival[{row}] in [{', '.join(first)}], certificates.rival[{row}]")
                self.found("rival", what, told)
                return

    def scores(self, row, codes):
        scores = list(self.offsets[row])
        for vote, code in zip(self.votes[row], codes, strict=True):
            scores[code] += vote
        return scores

    def agrees(self, codes, after):
        """Tell whether the weights give the predictions of a refit."""
        for row in range(len(self.votes)):
            scores = self.scores(row, codes)
            if scores.index(max(scores)) != after[row]:
                what = f"by the weights row {row} is {scores.index(max(scores))}, but a refit predicts {after[row]}"
                told = [
                    _FIT,
                    "alpha, offsets = model.vote_weights(Z)",
                    *_refit_lines(self.problem, codes)[1:],
                    "attacked = np.asarray(attacked)",
                    f"votes = [alpha[{row}][attacked == label].sum() for label in model.classes_]",
                    f"scores = votes + offsets[{row}]",
                    f"assert model.classes_[np.argmax(scores)] == refit.predict(Z)[{row}]",
                ]
                self.found("weights", what, told)
                return False
        return True

    def confirm(self, truth, needs):
        """Refit on labels whose outcome the weights predict: the decisive attacks and random ones."""
        cheapest = [min(of_row.values(), key=lambda attack: attack.cost) for of_row in needs if of_row]
        wanted = [attack.codes for attack in cheapest]
        if n_attacks(self.problem) <= MOST_LISTED:
            labellings, cost = self.listed()
            by_list = self.least_by_list(labellings, cost)
            if not np.array_equal(by_list, truth):
                raise AssertionError(
                    f"the judge is wrong: {by_list.tolist()} by all attacks, {truth.tolist()} by arithmetic"
                )
            is_all = self.all_refits or len(labellings) <= MOST_REFITS
            self.verdict.is_listed = True
            order = self.rng.permutation(len(labellings))[: None if is_all else MOST_REFITS // 3]
            wanted += [tuple(labellings[i].tolist()) for i in order]
        else:
            wanted += [self.random_attack(int(radius)).codes for radius in truth for _ in range(4)]
            wanted += [self.random_attack(self.n_touchable).codes for _ in range(4)]
        for codes in dict.fromkeys(wanted):
            if not self.agrees(codes, self.refit(codes)):
                return

    def least_by_list(self, labellings, cost):
        """Return the true radius of each row from the weights, by listing the labellings."""
        found = []
        for row, winner in enumerate(self.predicted):
            votes, offsets = np.array(self.votes[row], dtype=object), self.offsets[row]
            if max(map(abs, [*self.votes[row], *offsets])) < 2**45:
                votes = votes.astype(np.int64)
            present = sorted(
                set(labellings.ravel().tolist())
            )  # all others keep their offsets: the first best of them counts
            scores = {c: ((labellings == c) * votes).sum(axis=1) + offsets[c] for c in present}
            for c in set(range(self.problem.n_classes)) - set(present):
                scores[c] = np.full(len(labellings), offsets[c])
            table = np.stack([scores[c] for c in range(self.problem.n_classes)], axis=1)
            changed = cost[table.argmax(axis=1) != winner]
            found.append(changed.min() - 1 if changed.size else self.n_touchable)
        return np.array(found)

    def fewest(self, row):
        """Return, for every rival that can be made to win against the predicted class, the cheapest attack.

        Each changed label lowers the lead by at most its own gain, for any other changes, and gains add up: the
        cheapest attack takes the labels (or annotators) with the largest gains. A rival that sorts after the predicted
        class has to overtake it, one that sorts before only to draw level.
        """
        winner, codes, votes = int(self.predicted[row]), self.problem.codes, self.votes[row]
        scores, found = self.scores(row, codes), {}
        for rival in set(range(self.problem.n_classes)) - {winner}:
            gains, after = {}, {}
            for j, options in enumerate(self.choices):
                leads = {code: votes[j] * ((code == winner) - (code == rival)) for code in options}
                best = min(options, key=leads.__getitem__)
                if leads[codes[j]] > leads[best]:
                    unit = self.groups[j]
                    gains[unit] = gains.get(unit, 0) + leads[codes[j]] - leads[best]
                    after.setdefault(unit, {})[j] = best
            lead, chosen = scores[winner] - scores[rival] + (winner < rival), {}
            for n_units, unit in enumerate(sorted(gains, key=lambda unit: -gains[unit]), start=1):
                lead -= gains[unit]
                chosen |= after[unit]
                if lead <= 0:
                    found[rival] = Attack(tuple(chosen.get(j, code) for j, code in enumerate(codes)), n_units)
                    break
        return found

    def check_worst_flips(self, exact):
        """The attack that the library names must work, be possible, and need one unit more than is certified."""
        problem = self.problem
        call = "worst_flips(model, Z, adversary)"
        attack = self.ask(f"attack = {call}", lambda: NAMES["worst_flips"](self.model, problem.Z, self.adversary))
        told = [_FIT, f"certificates = {_certify_line('exact')}", f"attack = {call}"]
        for row in range(len(problem.Z)):
            radius = int(exact.radius[row])
            needed = -1 if radius == self.n_touchable else radius + 1
            if attack.flips_needed[row] != needed or attack.success[row] != (needed > 0):
                rule = f"assert attack.flips_needed[{row}] == {needed} and attack.success[{row}] == {needed > 0}"
                self.found(
                    "worst_flips: number", f"row {row} needs {attack.flips_needed[row]}, not {needed}", [*told, rule]
                )
                return
            if needed < 0:
                continue
            codes = list(problem.codes)
            for j, new in zip(attack.rows[row].tolist(), self.codes_of(attack.new_labels[row]).tolist(), strict=True):
                codes[j] = new
            is_possible = all(code in self.choices[j] for j, code in enumerate(codes)) and self.cost(codes) == needed
            if not is_possible:
                rule = f"assert False, (attack.rows[{row}], attack.new_labels[{row}])  # needs {self.cost(codes)}"
                self.found("worst_flips: impossible", f"row {row}: the adversary cannot do that", [*told, rule])
                return
            if self.refit(codes)[row] == self.predicted[row]:
                lines = [
                    *_refit_lines(problem, codes)[1:],
                    f"assert refit.predict(Z)[{row}] != model.predict(Z)[{row}]",
                ]
                self.found("worst_flips: no success", f"row {row} is predicted as before", [*told, *lines])
                return


_FIT = "fit(model, y)"


def _certify_line(method, rows="Z", who="model"):
    return f"{who}.certify({rows}, method={method!r}, adversary=adversary)"


def _refit_lines(problem, codes):
    frozen = ", regularization=model.regularization_" if "'paper'" in problem.code else ""
    return [
        _FIT,
        f"attacked = {problem.labels.source(codes)}",
        f"refit = fit(clone(model).set_params(classes=model.classes_{frozen}), attacked)",
    ]


def _list_lines(case, row, truth):
    """Return script lines that try all attacks certified to be harmless."""
    problem = case.problem
    frozen = ", regularization=model.regularization_" if "'paper'" in problem.code else ""
    return [
        f"# {case.n_touchable} can be touched; what each label can be, and who gave it",
        f"choices, groups = {case.choices}, {list(case.groups)}",
        f"values = [{', '.join(problem.labels.values)}]",
        "for codes in itertools.product(*choices):",
        "    cost = len({groups[j] for j, code in enumerate(codes) if code != choices[j][0]})",
        f"    if cost <= {truth}:",
        f"        attacked = {problem.labels.holder.format('*[values[code] for code in codes]')}",
        f"        refit = fit(clone(model).set_params(classes=model.classes_{frozen}), attacked)",
        f"        assert refit.predict(Z)[{row}] == model.predict(Z)[{row}]",
    ]


def whole_numbers(values):
    """Return a line of floats as integers, without any rounding, and how many of them make 1."""
    exact = [Fraction(value) for value in values]
    unit = max(one.denominator for one in exact)
    return [int(one * unit) for one in exact], unit


def _same(one, other):
    if one.dtype.kind == "f":
        return np.array_equal(one, other, equal_nan=True)
    return one.shape == other.shape and one.tolist() == other.tolist()


def _reason(error):
    """Return what a refusal was about, without its numbers."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d[\w.+-]*", "#", str(error)))[:70]


@contextmanager
def _patience():
    """Raise Hangs after a time limit, where the system supports it."""
    if not hasattr(signal, "SIGPROF") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        raise Hangs

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
