"""A distributed fit and certify as passes of `task_graph`.

Task times are drawn from the measurements of `benchmarks/scale.py`, and are valid for the same numbers of features and
classes. Rows are read again in every pass.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from task_graph import Cluster, Pass, Phase, Simulation, tree

from flipproof.streaming.blocks import NUMBERS_IN_BLOCK
from flipproof.streaming.dask_cluster import FAN_IN
from flipproof.streaming.rows_in_blocks import TALLY_BYTES

FLOAT_BYTES = 8

#: Bytes of a count in a histogram.
COUNT_BYTES = 4

#: Bytes of one certificate: prediction, rival, radius, margin, bound, witness, noise, and its place.
CERTIFICATE_BYTES = 64


@dataclass(frozen=True)
class Constants:
    """Measured times, each as a sample of draws.

    Attributes
    ----------
    c_read, c_survey, c_moments, c_gram, c_rotate, c_largest, c_leverage : tuple of float
        Seconds per training row: for reading, ranges and labels, moments, the Gram matrix, the rotation, the largest
        coordinate, and leverage and class sums (the last two without the rotation that they need).
    c_vote : tuple of float
        Seconds per training row and test row: the vote, and its place in the histogram.
    c_add : tuple of float
        Seconds per byte of a summand that is added to another.
    c_eigen : tuple of float
        Seconds of the eigenproblem of a fit.
    c_engine : tuple of float
        Seconds per test row, from the histogram to the certificate.
    c_schedule, c_submit : tuple of float
        Seconds per task: of the scheduler, and of the client that makes and sends the graph.
    """

    c_read: tuple[float, ...]
    c_survey: tuple[float, ...]
    c_moments: tuple[float, ...]
    c_gram: tuple[float, ...]
    c_rotate: tuple[float, ...]
    c_largest: tuple[float, ...]
    c_leverage: tuple[float, ...]
    c_vote: tuple[float, ...]
    c_add: tuple[float, ...]
    c_eigen: tuple[float, ...]
    c_engine: tuple[float, ...]
    c_schedule: tuple[float, ...]
    c_submit: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, samples in vars(self).items():
            if not samples or not all(0 <= value < math.inf for value in samples):
                raise ValueError(f"{name} must be one or more finite seconds, none below 0. Got {samples!r} instead.")

    @classmethod
    def from_json(cls, path: str | Path) -> Constants:
        """Read the samples under ``constants`` in a file that `benchmarks/scale.py` wrote."""
        measured = json.loads(Path(path).read_text()).get("constants", {})
        missing = [each.name for each in fields(cls) if "samples" not in measured.get(each.name, {})]
        if missing:
            raise ValueError(f"{str(path)!r} has no samples of {', '.join(missing)}: run benchmarks/scale.py first.")
        return cls(**{each.name: tuple(map(float, measured[each.name]["samples"])) for each in fields(cls)})


@dataclass(frozen=True)
class Job:
    """What is fitted and certified, and how it is split into tasks.

    Attributes
    ----------
    n, k, n_classes, m : int
        Training rows, features, classes and test rows.
    rows_per_part : int
        Training rows that one task visits.
    fan_in : int
        Summands that one node of the tree adds up.
    levels : int
        Levels of a vote: 2048 at 10 bits.
    batch_bytes : int
        Bytes of a histogram, which limit how many test rows share a pass.
    batches_at_once : int
        Batches of test rows that are processed at the same time.
    workers_first : bool
        Whether each worker adds up its summands before sending any.
    engine_on_workers : bool
        Whether certificates are computed on the worker that has the sum of the histograms, instead of by the client.
    """

    n: int
    k: int
    n_classes: int
    m: int
    rows_per_part: int
    fan_in: int = FAN_IN
    levels: int = 2048
    batch_bytes: int = TALLY_BYTES
    batches_at_once: int = 1
    workers_first: bool = False
    engine_on_workers: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = {"fan_in": 2, "workers_first": 0, "engine_on_workers": 0}.get(name, 1)
            if value < least:
                raise ValueError(f"{name} must be at least {least}. Got {value} instead.")

    @property
    def row_bytes(self) -> int:
        """Bytes of the histogram of one test row."""
        return self.n_classes * self.levels * COUNT_BYTES

    @property
    def batches(self) -> list[int]:
        """Test rows of each pass of certify."""
        size = max(1, self.batch_bytes // self.row_bytes)
        return [min(size, self.m - first) for first in range(0, self.m, size)]

    @property
    def part_rows(self) -> list[int]:
        """Training rows of each part."""
        return [min(self.rows_per_part, self.n - first) for first in range(0, self.n, self.rows_per_part)]

    @property
    def rotation_bytes(self) -> int:
        """Bytes of the intermediate results of the fit that the workers need."""
        return 2 * self.k**2 * FLOAT_BYTES


@dataclass(frozen=True)
class Outcome:
    """The two phases of a run."""

    fit: Phase
    certify: Phase

    @property
    def seconds(self) -> float:
        """Seconds of both phases."""
        return self.fit.seconds + self.certify.seconds


class _Passes:
    """Builds the passes of a job; parts are assigned to the workers in turn, as in Dask."""

    def __init__(self, constants: Constants, cluster: Cluster, job: Job, seed: int) -> None:
        self._constants, self._job = constants, job
        self._rng = np.random.default_rng(seed)
        self._rows = np.array(job.part_rows)
        self._owners = [part % cluster.n_workers for part in range(len(self._rows))]

    def _draw(self, name: str, size: int) -> np.ndarray:
        return self._rng.choice(getattr(self._constants, name), size)

    def _make(
        self,
        works: dict[str, int],
        summand_bytes: int,
        sent_bytes: int,
        client_seconds: float = 0.0,
        root_seconds: float = 0.0,
        result_bytes: int | None = None,
        turn: int = 0,
    ) -> Pass:
        """Build a pass; `works` says how often each constant is incurred per row."""
        children, owners = tree(self._owners, self._job.fan_in, self._job.workers_first, turn)
        per_row = sum(times * self._draw(name, len(self._rows)) for name, times in works.items())
        additions = np.array([len(each) - 1 for each in children])
        adding = additions * self._draw("c_add", len(additions)) * summand_bytes
        adding[-1:] += root_seconds
        return Pass(
            seconds=(self._rows * per_row).tolist(),
            children=children,
            adding=adding.tolist(),
            owners=owners,
            summand_bytes=summand_bytes,
            sent_bytes=sent_bytes,
            result_bytes=summand_bytes if result_bytes is None else result_bytes,
            block_bytes=FLOAT_BYTES * min(NUMBERS_IN_BLOCK, int(self._rows.max()) * self._job.k),
            client_seconds=client_seconds,
        )

    def fit(self) -> list[Pass]:
        k, sent = self._job.k, self._job.rotation_bytes
        column = k * FLOAT_BYTES
        return [
            self._make({"c_read": 1, "c_survey": 1}, 2 * column, 0),
            self._make({"c_read": 1, "c_moments": 1}, 2 * column, sent),
            self._make({"c_read": 1, "c_gram": 1}, 3 * sent, sent, client_seconds=_median(self._constants.c_eigen)),
            self._make({"c_read": 1, "c_rotate": 1, "c_largest": 1}, column, sent),
            self._make({"c_read": 1, "c_rotate": 1, "c_leverage": 1}, (1 + self._job.n_classes) * column, sent),
        ]

    def certify(self) -> list[Pass]:
        return [self._batch(m, turn) for turn, m in enumerate(self._job.batches)]

    def _batch(self, m: int, turn: int) -> Pass:
        engine = m * _median(self._constants.c_engine)
        at_root = self._job.engine_on_workers and len(self._owners) > 1
        return self._make(
            {"c_read": 1, "c_rotate": 1, "c_vote": m},
            summand_bytes=m * self._job.row_bytes,
            sent_bytes=self._job.rotation_bytes + m * self._job.k * FLOAT_BYTES,
            client_seconds=0.0 if at_root else engine,
            root_seconds=engine if at_root else 0.0,
            result_bytes=m * CERTIFICATE_BYTES if at_root else None,
            turn=turn,
        )


def _median(samples: Sequence[float]) -> float:
    return float(np.median(samples))


def simulate_fit(constants: Constants, cluster: Cluster, job: Job, seed: int = 0) -> Phase:
    """Return the phase of fitting."""
    passes = _Passes(constants, cluster, job, seed).fit()
    return Simulation(cluster, passes, _median(constants.c_schedule), _median(constants.c_submit)).run()


def simulate_certify(constants: Constants, cluster: Cluster, job: Job, seed: int = 0) -> Phase:
    """Return the phase of certifying all test rows."""
    passes = _Passes(constants, cluster, job, seed).certify()
    overheads = _median(constants.c_schedule), _median(constants.c_submit)
    return Simulation(cluster, passes, *overheads, at_once=job.batches_at_once).run()


def simulate(constants: Constants, cluster: Cluster, job: Job, seed: int = 0) -> Outcome:
    """Return both phases of a run: first fit, then certify."""
    return Outcome(simulate_fit(constants, cluster, job, seed), simulate_certify(constants, cluster, job, seed))
