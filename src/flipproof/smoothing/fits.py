"""Many fits to noisy copies of the training data, each with its own seed, run by joblib."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from flipproof.core.noise import Measure
from flipproof.core.rounding import Integers, Values
from flipproof.learners.clones import fresh, own_clone
from flipproof.runtime.determinism import single_threaded, with_seeds
from flipproof.runtime.progress import CountedProgress

Result = TypeVar("Result")

#: The two samples, a first fit to the original data, and the names of the samples. Each has separate seeds.
SELECTION, ESTIMATION, TRIAL = 0, 1, 2
SAMPLES = ("selection", "estimation")
#: Uses of a draw's random numbers, in addition to the noise.
FITTING, PREDICTING = 1, 2

#: Tasks per worker: enough to show progress and to keep all workers busy until the end.
TASKS_PER_WORKER = 32


@dataclass(frozen=True)
class Draw:
    """One noisy copy of the training data, by number; its seed depends only on this."""

    sample: int
    number: int


@dataclass(frozen=True)
class NoisyFits:
    """Fits the model of any draw.

    Every draw has its own generator, keyed by the seed, the sample and the number of the draw. The noise is drawn from
    it first, then the learner's random states; the global generators of NumPy, Python and torch, which a learner may
    use implicitly, are also seeded for each draw. So no draw depends on the number of draws, on their order, or on the
    worker that fits it; and models of different draws are independent of each other.
    """

    estimator: Any
    measure: Measure
    X: Any
    codes: Integers
    classes: NDArray[Any]
    seed: int

    def model(self, draw: Draw) -> Any:
        """Fit the base learner to one noisy copy of the training data.

        If all noisy labels are the same, the model predicts this class without a fit, which many learners would refuse.
        This is a fixed function of the noisy labels like any other, so the theorem holds. If some classes are missing,
        the learner is fitted to the others.
        """
        return with_seeds(lambda: self._model(draw), self._seeds(draw, FITTING))

    def _model(self, draw: Draw) -> Any:
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(draw.sample, draw.number)))
        X, codes = self._noisy(draw, rng)
        try:
            return fit_base_learner(self.estimator, X, self.classes[codes], rng)
        except Exception as error:
            raise _failed_fit(self.estimator, draw, codes, error) from error

    def try_once(self) -> None:
        """Fit the base learner to the original data, so that invalid input is reported at once."""

        def fit() -> None:
            rng = np.random.default_rng(self.seed)
            fit_base_learner(self.estimator, fresh(self.X), self.classes[self.codes], rng)

        with_seeds(fit, self._seeds(Draw(TRIAL, 0), FITTING))

    def votes(self, draws: list[Draw], Z: object) -> tuple[int, Integers]:
        """Fit the models of some draws of one sample and count their votes on test rows; the models are not kept."""
        counts = np.zeros((_num_samples(Z), len(self.classes)), dtype=np.int64)
        with single_threaded():
            for draw in draws:
                self._add_votes(counts, self.model(draw), Z, draw)
        return draws[0].sample, counts

    def votes_of(self, models: list[Any], draws: list[Draw], Z: object) -> tuple[Integers, Integers]:
        """Return the votes of stored models, for the selection and the estimation sample, each of shape (m, K)."""
        counts = np.zeros((2, _num_samples(Z), len(self.classes)), dtype=np.int64)
        with single_threaded():
            for draw, model in zip(draws, models, strict=False):  # the selection sample comes first
                self._add_votes(counts[draw.sample], model, Z, draw)
        return counts[SELECTION], counts[ESTIMATION]

    def _add_votes(self, counts: Integers, model: object, Z: object, draw: Draw) -> None:
        seeds = self._seeds(draw, PREDICTING)
        voted = with_seeds(lambda: votes_on(model, self.classes, Z), seeds)
        counts[np.arange(len(counts)), voted] += 1

    def models(self, draws: list[Draw]) -> list[tuple[Draw, Any]]:
        """Fit the models of some draws, and return them."""
        with single_threaded():
            return [(draw, self.model(draw)) for draw in draws]

    def _noisy(self, draw: Draw, rng: np.random.Generator) -> tuple[Any, Integers]:
        part = getattr(self.measure, "part", "both")
        if part == "labels":
            X, codes = fresh(self.X), self.measure.sample(self.codes.copy(), rng)
        elif part == "features":
            X, codes = self.measure.sample(fresh(self.X), rng), self.codes
        else:
            X, codes = self.measure.sample((fresh(self.X), self.codes.copy()), rng)
        codes = np.asarray(codes)
        if codes.dtype.kind not in "iu" or codes.ndim != 1 or not 0 < len(codes) == _num_samples(X):
            raise ValueError(
                f"{self.measure!r} must return as many labels as rows, coded as integers. Got {codes.dtype} of shape "
                f"{codes.shape} for {_num_samples(X)} rows instead, in draw {draw.number}."
            )
        if codes.min() < 0 or codes.max() >= len(self.classes):
            raise ValueError(
                f"{self.measure!r} must return labels coded as 0 to {len(self.classes) - 1}. "
                f"Got {codes.min()} to {codes.max()} instead, in draw {draw.number}."
            )
        return X, codes

    def _seeds(self, draw: Draw, purpose: int) -> list[int]:
        """Return the seeds of a draw for the global generators of a process."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(draw.sample, draw.number, purpose))
        return [int(word) for word in sequence.generate_state(3)]


def fit_base_learner(estimator: object, X: object, labels: Values, rng: np.random.Generator) -> Any:
    """Fit a clone; its random states come from `rng`, unless they are numbers."""
    if (labels == labels[0]).all():
        return DummyClassifier(strategy="most_frequent").fit(X, labels)
    model = own_clone(estimator, lambda: int(rng.integers(2**31 - 1)))
    model.fit(X, labels)
    return model


def votes_on(model: Any, classes: Values, Z: Any) -> Integers:
    """Predict all test rows with a model, and return the codes of the classes that it votes for."""
    n_rows = _num_samples(Z)
    try:
        answers = np.asarray(model.predict(fresh(Z)))
    except Exception as error:
        said = " ".join(str(error).split())
        raise ValueError(f"The base learner {type(model).__name__} cannot predict the test rows: {said}") from error
    known = np.isin(answers, classes)
    if answers.shape != (n_rows,) or not known.all():
        strange = f"{answers[~known][0]!r}" if not known.all() else f"an array of shape {answers.shape}"
        raise ValueError(
            f"The base learner {type(model).__name__} must predict one of the classes {classes.tolist()} for each test "
            f"row. Got {strange} instead."
        )
    return np.searchsorted(classes, answers)


def draws_of(n_select: int, n_samples: int) -> list[Draw]:
    """Return the draws of both samples, the selection sample first."""
    return [Draw(SELECTION, i) for i in range(n_select)] + [Draw(ESTIMATION, i) for i in range(n_samples)]


def seed_from(random_state: object) -> int:
    """Return an integer that determines all draws."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return int(random_state)
    if random_state is None:  # not from numpy's global generator, whose seed an adversary may know
        return secrets.randbits(128)
    return int.from_bytes(check_random_state(random_state).bytes(16), "little")


def in_tasks(draws: list[Draw], n_workers: int) -> list[list[Draw]]:
    """Split the draws of each sample into tasks of about the same size."""
    size = -(-len(draws) // (TASKS_PER_WORKER * n_workers))
    tasks = []
    for sample in (SELECTION, ESTIMATION):
        of_sample = [draw for draw in draws if draw.sample == sample]
        tasks += [of_sample[start : start + size] for start in range(0, len(of_sample), size)]
    return tasks


def run_tasks(
    work: Callable[[list[Draw]], Result], draws: list[Draw], n_jobs: int | None, progress: CountedProgress
) -> Generator[Result, None, None]:
    """Yield the result of `work` for each task, in any order; closing the generator stops all workers.

    An error or an interrupt ends all tasks. Partial results must not be used: the number of samples must not depend on
    them.
    """
    n_workers = effective_n_jobs(n_jobs)
    tasks = in_tasks(draws, n_workers)
    try:
        with single_threaded(), closing(_results(work, tasks, n_jobs, n_workers)) as results:
            for n_fits, result in results:
                progress.advance(n_fits)
                yield result
    finally:
        progress.close()


def all_models(fits: NoisyFits, draws: list[Draw], n_jobs: int | None, progress: CountedProgress) -> list[Any]:
    """Return the models of all draws."""
    fitted: dict[Draw, Any] = {}
    with closing(run_tasks(fits.models, draws, n_jobs, progress)) as results:
        for models in results:
            fitted.update(models)
    return [fitted[draw] for draw in draws]


def count_votes(
    fits: NoisyFits, draws: list[Draw], Z: object, n_jobs: int | None, progress: CountedProgress
) -> tuple[Integers, Integers]:
    """Return the votes of the selection and of the estimation sample, each of shape (m, K)."""
    counts = np.zeros((2, _num_samples(Z), len(fits.classes)), dtype=np.int64)
    with closing(run_tasks(partial(fits.votes, Z=Z), draws, n_jobs, progress)) as results:
        for sample, of_task in results:
            counts[sample] += of_task
    return counts[SELECTION], counts[ESTIMATION]


def _results(
    work: Callable[[list[Draw]], Result], tasks: list[list[Draw]], n_jobs: int | None, n_workers: int
) -> Generator[tuple[int, Result], None, None]:
    if n_workers == 1:
        yield from (_counted(work, task) for task in tasks)
        return
    backend, _ = get_active_backend()
    as_they_come = getattr(backend, "supports_return_generator", False)
    run = Parallel(n_jobs=n_jobs, return_as="generator_unordered" if as_they_come else "list")
    results = iter(run(delayed(_counted)(work, task) for task in tasks))
    try:
        for result in results:  # noqa: UP028 - "yield from" would close the results, and warn of it
            yield result
    finally:
        if as_they_come:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib warns that tasks were cancelled, as intended
                results.close()


def _counted(work: Callable[[list[Draw]], Result], task: list[Draw]) -> tuple[int, Result]:
    return len(task), work(task)


def _failed_fit(estimator: object, draw: Draw, codes: Integers, error: Exception) -> ValueError:
    return ValueError(
        f"The base learner {type(estimator).__name__} could not be fitted to draw {draw.number} of the "
        f"{SAMPLES[draw.sample]} sample ({len(codes)} rows, {len(np.unique(codes))} classes), and no draw can be "
        f"skipped, because the votes would then be a biased sample: {' '.join(str(error).split())}"
    )
