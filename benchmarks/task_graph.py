"""Event-driven simulation of passes over rows on many workers.

A pass has one task per part, whose summands are added up in a tree; the root goes to the client. Workers, the
scheduler, the client and every direction of every link do one thing at a time. Each moment records what it waited for,
so that the time of a run can be split completely along its critical path.

Not simulated: work stealing, lost workers, shared disks, and processor time for sending.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

#: Kinds of work; "rows" is the visit of rows, "tree" the work of nodes.
KINDS = ("rows", "tree", "scheduler", "network", "client")


class Moment(NamedTuple):
    """A point in time, the kind of work before it, and the moment that it waited for."""

    time: float
    kind: str
    after: Moment | None

    def then(self, kind: str, seconds: float) -> Moment:
        """Return the moment some seconds later."""
        return Moment(self.time + seconds, kind, self)


START = Moment(0.0, "client", None)


def latest(*moments: Moment) -> Moment:
    """Return the last of the moments."""
    return max(moments, key=lambda moment: moment.time)


@dataclass(frozen=True)
class Cluster:
    """Workers of one thread each, and their network.

    Attributes
    ----------
    n_workers : int
        Number of workers.
    bandwidth : float
        Bytes per second of each worker, in each direction.
    latency : float
        Seconds per message, independent of its size. Dask collects messages for 2 ms before it sends them, hence 1 ms
        on average, which is more than a local network adds.
    client_bandwidth : float, optional
        Bytes per second of the link of the client and the scheduler, each way; like a worker's by default.
    """

    n_workers: int
    bandwidth: float
    latency: float = 1e-3
    client_bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.n_workers < 1 or self.bandwidth <= 0 or self.latency < 0:
            raise ValueError(
                f"A cluster must have workers, a bandwidth above 0 and a latency of 0 or more. Got {self}."
            )


@dataclass(frozen=True)
class Pass:
    """One pass over all rows.

    Attributes
    ----------
    seconds : sequence of float
        Seconds of each part.
    children : sequence of lists of int
        Inputs of each node of the tree; nodes are numbered on from the parts, and the last one is the root.
    adding : sequence of float
        Seconds of each node; for the root, including its other work.
    owners : sequence of int
        Worker of each part and of each node.
    summand_bytes, sent_bytes, result_bytes : int
        Size of one summand, of the data sent to every worker before the pass, and of the result for the client.
    block_bytes : int
        Rows in memory while a part is visited.
    client_seconds : float
        Work of the client with the result.
    """

    seconds: Sequence[float]
    children: Sequence[Sequence[int]]
    adding: Sequence[float]
    owners: Sequence[int]
    summand_bytes: int
    sent_bytes: int
    result_bytes: int
    block_bytes: int
    client_seconds: float

    @property
    def n_tasks(self) -> int:
        """Number of parts and nodes."""
        return len(self.owners)


@dataclass(frozen=True)
class Phase:
    """Results of some passes.

    Attributes
    ----------
    seconds : float
        From the first message to the last result.
    spent : dict of str to float
        The same seconds by kind of work (KINDS).
    work : float
        Seconds of all parts together: divided by the workers, the time that perfect scaling would take.
    n_tasks, bytes_moved, bytes_client, peak_worker_bytes : int
        Tasks; bytes over all links, and those that the client sent or received; peak bytes of a worker.
    """

    seconds: float
    spent: dict[str, float]
    work: float
    n_tasks: int
    bytes_moved: int
    bytes_client: int
    peak_worker_bytes: int


def tree(owners: Sequence[int], fan_in: int, workers_first: bool, turn: int = 0) -> tuple[list[list[int]], list[int]]:
    """Return the inputs of each node of a tree over parts, and the worker of each part and node.

    A node runs on the worker that has most of its inputs; ties are broken by `turn`, so that trees that run at the same
    time use different workers. With `workers_first`, only the sum of all its parts leaves a worker.
    """
    children: list[list[int]] = []
    placed = list(owners)
    level = list(range(len(owners)))
    while len(level) > 1:
        above = []
        for group in _groups(level, placed, fan_in, workers_first):
            if len(group) > 1:
                inputs = Counter(placed[task] for task in group)
                most = [worker for worker, number in inputs.items() if number == max(inputs.values())]
                children.append(group)
                placed.append(most[turn % len(most)])
                above.append(len(placed) - 1)
            else:
                above += group
        level = above
    return children, placed


def _groups(level: list[int], placed: list[int], fan_in: int, workers_first: bool) -> list[list[int]]:
    runs: list[list[int]] = [[]]
    for task in sorted(level, key=placed.__getitem__) if workers_first else level:
        if workers_first and runs[-1] and placed[runs[-1][-1]] != placed[task]:
            runs.append([])
        runs[-1].append(task)
    if len(runs) == len(level):  # every worker has its one sum
        runs = [level]
    return [run[first : first + fan_in] for run in runs for first in range(0, len(run), fan_in)]


class Simulation:
    """A cluster on which passes run.

    Parameters
    ----------
    cluster : Cluster
        Workers and links.
    passes : sequence of Pass
        The passes, in order.
    schedule_seconds, submit_seconds : float
        Per task: of the scheduler (half when the task is given out, half when its end is reported), and of the client.
    at_once : int
        Number of passes that run at the same time; each other pass begins when the client has finished an earlier one.
    """

    def __init__(
        self,
        cluster: Cluster,
        passes: Sequence[Pass],
        schedule_seconds: float,
        submit_seconds: float,
        at_once: int = 1,
    ) -> None:
        self._cluster, self._passes, self._at_once = cluster, passes, at_once
        self._half, self._submit_seconds = schedule_seconds / 2, submit_seconds
        self._client = cluster.n_workers  # the client's link comes after those of the workers
        client_bandwidth = cluster.bandwidth if cluster.client_bandwidth is None else cluster.client_bandwidth
        self._bandwidths = [cluster.bandwidth] * cluster.n_workers + [client_bandwidth]
        self._events: list[tuple[float, int, Callable[..., None], Moment, tuple[Any, ...]]] = []
        self._numbers = count()
        self._out, self._in = ([START] * (cluster.n_workers + 1) for _ in range(2))
        self._worker_free: list[Moment | None] = [START] * cluster.n_workers  # None while it works
        self._ready: list[list[tuple[int, int, int, Moment]]] = [[] for _ in range(cluster.n_workers)]
        self._scheduler_free = self._client_free = self._end = START
        self._parents, self._missing, self._orders = zip(*map(_upwards, passes), strict=True)
        self._without = [cluster.n_workers] * len(passes)  # workers that have not got what is sent before the pass
        self._held, self._peak = [0] * cluster.n_workers, [0] * cluster.n_workers
        self._bytes_moved = self._bytes_client = 0

    def run(self) -> Phase:
        """Run the simulation to its end."""
        for number in range(min(self._at_once, len(self._passes))):
            self._begin(START, number)
        while self._events:
            _, _, action, moment, arguments = heapq.heappop(self._events)
            action(moment, *arguments)
        spent = dict.fromkeys(KINDS, 0.0)
        moment = self._end
        while moment.after is not None:
            spent[moment.kind] += moment.time - moment.after.time
            moment = moment.after
        return Phase(
            seconds=self._end.time,
            spent=spent,
            work=sum(sum(each.seconds) for each in self._passes),
            n_tasks=sum(each.n_tasks for each in self._passes),
            bytes_moved=self._bytes_moved,
            bytes_client=self._bytes_client,
            peak_worker_bytes=max(self._peak),
        )

    def _at(self, moment: Moment, action: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (moment.time, next(self._numbers), action, moment, arguments))

    def _message(self, moment: Moment) -> Moment:
        return moment.then("network", self._cluster.latency)

    def _transfer(self, moment: Moment, source: int, target: int, size: int) -> Moment:
        """Send bytes; the network between two links buffers what the target cannot receive yet."""
        seconds = size / min(self._bandwidths[source], self._bandwidths[target])
        sent = latest(moment, self._out[source])
        self._out[source] = sent.then("network", seconds)
        self._in[target] = latest(sent, self._in[target]).then("network", seconds)
        self._bytes_moved += size
        self._bytes_client += size if self._client in (source, target) else 0
        return self._message(self._in[target])

    def _hold(self, worker: int, size: int) -> None:
        self._held[worker] += size
        self._peak[worker] = max(self._peak[worker], self._held[worker])

    def _client_works(self, moment: Moment, seconds: float) -> Moment:
        self._client_free = latest(moment, self._client_free).then("client", seconds)
        return self._client_free

    def _scheduler_works(self, moment: Moment, transitions: int) -> Moment:
        self._scheduler_free = latest(moment, self._scheduler_free).then("scheduler", transitions * self._half)
        return self._scheduler_free

    def _begin(self, moment: Moment, number: int) -> None:
        size = self._passes[number].sent_bytes
        if size:
            self._at(self._transfer(moment, self._client, 0, size), self._forward, number, 0)
        else:
            self._submit(moment, number)

    def _forward(self, moment: Moment, number: int, worker: int) -> None:
        """Let each worker forward the client's data to two others."""
        for target in (2 * worker + 1, 2 * worker + 2):
            if target < self._cluster.n_workers:
                arrival = self._transfer(moment, worker, target, self._passes[number].sent_bytes)
                self._at(arrival, self._forward, number, target)
        self._without[number] -= 1
        if self._without[number] == 0:
            self._submit(moment, number)

    def _submit(self, moment: Moment, number: int) -> None:
        submitted = self._client_works(moment, self._passes[number].n_tasks * self._submit_seconds)
        self._at(self._message(submitted), self._read_graph, number)

    def _read_graph(self, moment: Moment, number: int) -> None:
        """Assign all parts; Dask sends none of them before it has read the whole graph."""
        read = self._scheduler_works(moment, len(self._passes[number].seconds))
        self._at(self._message(read), self._give_parts, number)

    def _give_parts(self, moment: Moment, number: int) -> None:
        parts = range(len(self._passes[number].seconds))
        for part in parts:
            self._queue(moment, number, part)
        for worker in {self._passes[number].owners[part] for part in parts}:
            self._start_next(worker)

    def _queue(self, moment: Moment, number: int, task: int) -> None:
        entry = number, self._orders[number][task], task, moment
        heapq.heappush(self._ready[self._passes[number].owners[task]], entry)

    def _start_next(self, worker: int) -> None:
        free = self._worker_free[worker]
        if free is None or not self._ready[worker]:
            return
        number, _, task, ready = heapq.heappop(self._ready[worker])
        of = self._passes[number]
        node = task - len(of.seconds)
        self._worker_free[worker] = None
        self._hold(worker, of.summand_bytes + (of.block_bytes if node < 0 else 0))
        start = latest(ready, free)
        end = start.then("rows", of.seconds[task]) if node < 0 else start.then("tree", of.adding[node])
        self._at(end, self._finish, number, task)

    def _finish(self, moment: Moment, number: int, task: int) -> None:
        of = self._passes[number]
        worker, node = of.owners[task], task - len(of.seconds)
        if node < 0:
            self._held[worker] -= of.block_bytes
        else:
            for child in of.children[node]:
                for holder in {worker, of.owners[child]}:
                    self._held[holder] -= of.summand_bytes
        self._worker_free[worker] = moment
        self._at(self._message(moment), self._report, number, task)
        self._start_next(worker)

    def _report(self, moment: Moment, number: int, task: int) -> None:
        """Report a finished task to the scheduler, which may complete the inputs of a node."""
        parent = self._parents[number][task]
        if parent is None:
            self._at(self._scheduler_works(moment, 1), self._gather, number)
            return
        self._missing[number][parent] -= 1
        if self._missing[number][parent]:
            self._scheduler_works(moment, 1)
        else:
            self._at(self._message(self._scheduler_works(moment, 2)), self._fetch, number, parent)

    def _fetch(self, moment: Moment, number: int, task: int) -> None:
        of = self._passes[number]
        worker, arrivals = of.owners[task], [moment]
        for child in of.children[task - len(of.seconds)]:
            if of.owners[child] != worker:
                arrivals.append(self._transfer(moment, of.owners[child], worker, of.summand_bytes))
                self._hold(worker, of.summand_bytes)
        self._at(latest(*arrivals), self._has_inputs, number, task)

    def _has_inputs(self, moment: Moment, number: int, task: int) -> None:
        self._queue(moment, number, task)
        self._start_next(self._passes[number].owners[task])

    def _gather(self, moment: Moment, number: int) -> None:
        of = self._passes[number]
        self._at(self._transfer(moment, of.owners[-1], self._client, of.result_bytes), self._take_result, number)

    def _take_result(self, moment: Moment, number: int) -> None:
        of = self._passes[number]
        self._held[of.owners[-1]] -= of.summand_bytes
        self._at(self._client_works(moment, of.client_seconds), self._end_pass, number)

    def _end_pass(self, moment: Moment, number: int) -> None:
        self._end = moment
        if number + self._at_once < len(self._passes):
            self._begin(moment, number + self._at_once)


def _upwards(of: Pass) -> tuple[list[int | None], list[int], list[int]]:
    """Return the parent node of each task, its number of missing inputs, and the order in which a worker runs tasks.

    A node comes right after the last of its parts, as in Dask: that keeps few summands in memory.
    """
    n_parts = len(of.seconds)
    parents: list[int | None] = [None] * of.n_tasks
    missing = [0] * n_parts + [len(children) for children in of.children]
    last = list(range(n_parts))
    for node, children in enumerate(of.children, start=n_parts):
        last.append(last[children[-1]])
        for child in children:
            parents[child] = node
    orders = [0] * of.n_tasks
    for order, task in enumerate(sorted(range(of.n_tasks), key=lambda task: (last[task], task))):
        orders[task] = order
    return parents, missing, orders
