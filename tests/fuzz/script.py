"""A counterexample as a Python script that needs only the library."""

from __future__ import annotations

import inspect

from fuzz import own
from fuzz.problems import HEADER


def script_of(problem, kind, what, lines):
    """Return a script that fails until the finding is fixed."""
    needed = [value for name, value in vars(own).items() if isinstance(value, type) and f"{name}(" in problem.code]
    unlabeled = "" if problem.unlabeled is None else f", np.array({list(problem.unlabeled)})"
    about = f"{kind}\n\n{what}\n\nLearner {problem.learner}, adversary {problem.adversary}, seed {problem.seed}.\n"
    parts = [
        f"r{about!r}" if '"""' in about else f'r"""{about}"""\n',
        HEADER,
        *(inspect.getsource(one) for one in needed if one.__module__ == own.__name__),
        'warnings.simplefilter("ignore")',
        f"X = {literal(problem.X)}",
        f"y = {problem.labels.source(problem.codes)}",
        f"Z = {literal(problem.Z)}",
        f"adversary = {problem.adversary_source}",
        f"model = {problem.code}",
        f"\ndef fit(model, labels):\n    return model.fit(X, labels{unlabeled})\n",
        *lines,
    ]
    return "\n".join(parts) + "\n"


def literal(array):
    """Return the source of an array of floats, to the last bit and in its order in memory."""
    numbers = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    source = f"np.array({numbers}, dtype=np.{array.dtype})"
    return f"np.asfortranarray({source})" if array.flags.f_contiguous and not array.flags.c_contiguous else source
