"""Visit the rows on a Dask cluster: one task per part, and a tree of tasks that adds up the results."""

from __future__ import annotations

import functools
import importlib.metadata
import operator
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, Self

import dask
from dask.sizeof import sizeof
from distributed import Client, Future, KilledWorker, futures_of, get_client, get_worker
from distributed.client import ClosedClientError
from distributed.protocol import pickle

from flipproof.runtime.progress import ProgressLine
from flipproof.streaming.blocks import Part
from flipproof.streaming.dask_rows import DaskRows
from flipproof.streaming.passes import Keep, KeptPart, Visit, Visited
from flipproof.streaming.row_blocks import RowBlocks


def size(value: object) -> int:
    """Return the size of a value in bytes, including all its fields."""
    if is_dataclass(value):
        return sum(size(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, partial):
        return size(value.func) + size(value.args) + size(tuple(value.keywords.values()))
    if isinstance(value, tuple):
        return sum(map(size, value))
    return int(sizeof(value))


#: Findings that one task adds up. Small, since findings can be large and a worker holds about FAN_IN * log(parts).
FAN_IN = 4

#: Share of the workers' memory that kept rows may use.
KEPT_SHARE = 0.3

#: Topic under which workers report visited parts.
TOPIC = "flipproof"

PACKAGE = "flipproof"

#: Fields that many parts share: how files are read, and functions of features.
SHARED_FIELDS = ("reading", "function")

# registered here, because workers import this module: otherwise Dask would underestimate these sizes
sizeof.register((Keep, KeptPart, Visit, Visited), size)


@dataclass(frozen=True)
class OnCluster:
    """Visits parts with Dask: on the workers of a client, or in Dask's local threads without a client."""

    client: Client | None
    verbose: int = 0

    def total(self, visit: Callable[[Part], Any], rows: RowBlocks, says: str) -> Any:
        """Return the sum of the findings of all parts, in their order; None if there are no rows."""
        if not rows.parts:
            return None
        run = uuid.uuid4().hex
        if self.client is None:
            return _computed_here(graph(visit, rows, says, Held(None), run))
        line = ProgressLine(len(rows.parts), self.verbose, says)
        with _clear_errors(self.client), _events(self.client, run, line), self._held(rows) as held:
            return _result(self.client, graph(visit, rows, says, held, run))

    def each(self, visit: Callable[[Part], Iterator[Any]], rows: RowBlocks, says: str) -> Iterator[Any]:
        """Yield the findings of all blocks, in order; those of one part at a time are fetched from the workers."""
        line, one_by_one = ProgressLine(len(rows.parts), self.verbose, says), OnCluster(self.client)
        try:
            for done, part in enumerate(rows.parts, start=1):
                yield from one_by_one.total(_Gathered(visit), replace(rows, parts=(part,)), says) or ()
                line.show(done, "parts", is_last=done == len(rows.parts))
        finally:
            line.close()

    def kept(self, visit: Callable[[Part], Part], rows: RowBlocks, n_bytes: int, says: str) -> RowBlocks | None:
        """Let the workers keep the result of each visit, which is a part itself, if they have enough memory.

        It is kept as long as the returned object. Results that a worker loses are computed again.
        """
        if self.client is None or not rows.parts or n_bytes > KEPT_SHARE * _memory(self.client):
            return None
        run = uuid.uuid4().hex
        line = ProgressLine(len(rows.parts), self.verbose, says)
        with _clear_errors(self.client), _events(self.client, run, line), self._held(rows) as held:
            parts = _persisted(self.client, _findings(visit, rows, says, held, run))
        return DaskRows(tuple(parts), rows.has_trusted, rows.has_groups, keeper=self.client)

    def keeps(self, rows: RowBlocks) -> bool:
        """Tell whether rows are kept by the workers of this client."""
        if self.client is None or not isinstance(rows, DaskRows) or rows.keeper is not self.client:
            return False
        return all(future.status in ("finished", "pending") for future in futures_of(list(rows.parts)))

    def _held(self, rows: RowBlocks) -> Held:
        """Return the holder of shared objects: on all workers, unless partitions already determine the worker."""
        return Held(None if rows.is_in_dask else self.client)


@dataclass(frozen=True)
class _Gathered:
    """Visit a part, and return the findings of its blocks together."""

    visit: Callable[[Part], Iterator[Any]]

    def __call__(self, part: Part) -> tuple[Any, ...]:
        return tuple(self.visit(part))


def on_cluster(client: Client | None, verbose: int = 0) -> OnCluster:
    """Return an object that visits rows on the client's workers; the default is the active client, if any.

    Raises
    ------
    ImportError, ValueError, ConnectionError
        If there are no workers, if one lacks this package or has another version of it, or if the scheduler is gone.
    """
    client = _client_or_active(client)
    if client is None:
        return OnCluster(None)
    with _clear_errors(client):
        check_workers(client)
    return OnCluster(client, verbose)


def computed(collection: Any, client: Client | None) -> Any:
    """Compute a Dask collection with the client; the default is the active client, if any."""
    client = _client_or_active(client)
    if client is None:
        return collection.compute()
    with _clear_errors(client):
        check_workers(client)  # otherwise a closed client would wait forever
        return _result(client, collection)


def _client_or_active(client: Client | None) -> Client | None:
    if client is None:
        try:
            return get_client()
        except ValueError:
            return None
    if not isinstance(client, Client):
        raise ValueError(f"client must be a distributed.Client. Got {type(client).__name__} instead.")
    if client.scheduler is None:
        raise ConnectionError("The client that the model was fitted with is closed: fit it again with an open one.")
    return client


def check_workers(client: Client) -> None:
    """Refuse a cluster without workers, and workers that do not have the package in this version."""
    scheduler = client.scheduler.address if client.scheduler is not None else "?"
    if not client.nthreads():
        raise ValueError(
            f"The scheduler at {scheduler} has no workers: start some with 'dask worker {scheduler}', or wait for "
            "them. An adaptive cluster needs a minimum of one."
        )
    here = importlib.metadata.version(PACKAGE)
    found = client.run(importlib.metadata.version, PACKAGE, on_error="return")
    for worker, version in found.items():
        if isinstance(version, importlib.metadata.PackageNotFoundError):
            raise ImportError(f"The worker {worker} does not have {PACKAGE}: pip install '{PACKAGE}[dask]' there.")
        # a worker that does not answer may be lost; others then do its work
        if not isinstance(version, Exception) and version != here:
            raise ImportError(f"The worker {worker} has {PACKAGE} {version}, but this process has {here}.")


@contextmanager
def _clear_errors(client: Client) -> Iterator[None]:
    """Turn failures of the cluster into one-line errors; errors of the tasks themselves are passed on."""
    address = client.scheduler.address if client.scheduler is not None else "?"
    try:
        yield
    except KilledWorker as error:
        died = "A worker" if error.allowed_failures == 0 else f"{error.allowed_failures + 1} workers"
        raise ConnectionError(
            f"{died} died at one task, most likely out of memory: give workers more memory, or split the rows into "
            "smaller parts."
        ) from error
    except ModuleNotFoundError as error:
        raise ImportError(f"A worker does not have {error.name}: pip install '{PACKAGE}[dask]' there.") from error
    except (CancelledError, ClosedClientError, OSError, TimeoutError, RuntimeError) as error:
        if client.status != "running":
            raise ConnectionError(
                f"The scheduler at {address} was lost, or the client was closed: connect again and retry."
            ) from error
        if isinstance(error, CancelledError):
            reason = " ".join(str(error).split())
            raise ConnectionError(f"The work on the cluster at {address} was cancelled there: {reason}") from error
        if isinstance(error, RuntimeError) and "deserialization of the task graph" in str(error):
            raise ImportError(
                f"The scheduler at {address} cannot read the tasks: install {PACKAGE} and its requirements there."
            ) from error
        raise


@contextmanager
def _events(client: Client, run: str, line: ProgressLine) -> Iterator[None]:
    """Show how many parts the workers have visited; a part that was visited twice counts once."""
    if not line.verbose:
        yield
        return
    visited = set()

    def show(event: Any) -> None:
        _, said = event
        if said["run"] == run:
            visited.add(said["part"])
            line.show(len(visited), "parts", is_last=len(visited) == line.total)

    client.subscribe_topic(TOPIC, show)
    try:
        yield
    finally:
        if client.status == "running":
            client.unsubscribe_topic(TOPIC)
        line.close()


@contextmanager
def _large_graphs() -> Iterator[None]:
    """Allow large graphs: data that all tasks need, like coordinates of test rows, must not be lost with a worker."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def _memory(client: Client) -> int:
    """Return the memory of all workers in bytes; 0 if one of them has no limit."""
    limits = [worker["memory_limit"] or 0 for worker in client.scheduler_info()["workers"].values()]
    return sum(limits) if all(limits) else 0


def _persisted(client: Client, tasks: object) -> Any:
    """Run tasks and leave their results on the workers."""
    with _large_graphs():
        made = client.persist(tasks)
    futures = futures_of(made)
    with _cancelled_on_error(client, futures):
        for future in futures:
            if future.exception() is not None:
                future.result()
    return made


def _result(client: Client, task: object) -> Any:
    with _large_graphs():
        future = client.compute(task)
    with _cancelled_on_error(client, [future]):
        return future.result()


@contextmanager
def _cancelled_on_error(client: Client, futures: list[Future]) -> Iterator[None]:
    """Cancel the tasks after an error or an interrupt."""
    try:
        yield
    except BaseException:
        _cancel(client, futures)
        raise


def _cancel(client: Client, futures: list[Future]) -> None:
    with suppress(ClosedClientError):
        client.cancel(futures)


def _computed_here(task: object) -> Any:
    try:
        return dask.compute(task)[0]
    except ValueError as error:
        if "Missing dependency" in str(error):
            raise ConnectionError(
                "The rows were kept by a cluster that is no longer connected: connect to it, or create them again."
            ) from error
        raise


def _named(function: Callable[..., Any], says: str, *arguments: object) -> Any:
    """Return a task that the dashboard shows under a descriptive name."""
    name = says.lower().replace(" ", "-")
    return dask.delayed(function, pure=False)(*arguments, dask_key_name=f"{name}-{uuid.uuid4().hex}")


def graph(visit: Callable[[Part], Any], rows: RowBlocks, says: str, held: Held, run: str = "") -> Any:
    """Return the task at the root of the tree; `run` identifies it when workers report a part."""
    findings = _findings(visit, rows, says, held, run)
    while len(findings) > 1:
        findings = [_named(_add, "adding up", findings[i : i + FAN_IN]) for i in range(0, len(findings), FAN_IN)]
    return findings[0]


def _findings(visit: Callable[[Part], Any], rows: RowBlocks, says: str, held: Held, run: str) -> list[Any]:
    visitor, parts = held.by_all(visit), [held.part(part) for part in rows.parts]
    return [_named(_visit, says, visitor, part, run, number) for number, part in enumerate(parts)]


def _hold(shared: object) -> Any:
    """Return an object that many tasks share; as a separate task, it is sent to each worker only once."""
    return shared


def _check_copies(shared: object) -> None:
    """Refuse objects whose copies cannot be pickled again: the scheduler would wait forever."""
    try:
        pickle.dumps(pickle.loads(pickle.dumps(shared)))
    except Exception as error:
        raise ValueError(f"Copies of {shared!r:.200} must be picklable: {' '.join(str(error).split())}.") from error


class Held:
    """Replaces objects that many parts share, like a visit or a fitted encoder, by tasks; a context manager.

    With a client, they are copied to all its workers first. Dask assigns tasks to workers that hold their inputs: if
    only one worker had what all tasks need, it would get all tasks. Lost copies are replaced or computed again.
    """

    def __init__(self, client: Client | None) -> None:
        self._client = client
        self._tasks: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        # Dask frees unreferenced tasks, but the traceback of an error may keep references for a long time
        if error is not None and self._client is not None:
            _cancel(self._client, futures_of(tasks))

    def part(self, part: object) -> Any:
        """Return a part whose shared fields are tasks; Dask resolves them on the worker."""
        if not is_dataclass(part):
            return part
        changed = {name: self.by_all(getattr(part, name)) for name in SHARED_FIELDS if hasattr(part, name)}
        if hasattr(part, "part"):
            changed["part"] = self.part(part.part)
        return replace(part, **changed) if changed else part  # type: ignore[type-var]

    def by_all(self, shared: object) -> Any:
        """Return the task that holds an object for all workers."""
        if id(shared) not in self._tasks:
            self._tasks[id(shared)] = self._task(shared)
        return self._tasks[id(shared)]

    def _task(self, shared: object) -> Any:
        task = _named(_hold, "sharing", shared)
        if self._client is None:
            return task
        _check_copies(shared)
        return _on_all_workers(self._client, task)


def _on_all_workers(client: Client, task: object) -> Any:
    task = _persisted(client, task)
    futures = futures_of(task)
    # losing a worker or the scheduler here fails in many ways; the next step is then slower, or raises a clear error
    with _cancelled_on_error(client, futures), suppress(Exception):
        client.replicate(futures)
    return task


def _visit(visit: Callable[[Part], Any], part: Part, run: str, number: int) -> Any:
    found = visit(part)
    try:
        worker = get_worker()
    except ValueError:  # Dask's threads have no worker
        return found
    worker.log_event(TOPIC, {"run": run, "part": number})
    return found


def _add(findings: list[Any]) -> Any:
    there = [found for found in findings if found is not None]
    return functools.reduce(operator.add, there) if there else None
