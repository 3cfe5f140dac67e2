"""Visit the rows on a Dask cluster: one task for each part, and a tree of tasks that add up what they find."""

from __future__ import annotations

import functools
import importlib.metadata
import operator
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
from distributed import Client, KilledWorker, get_client, get_worker

from flipproof.blocks.block import Part
from flipproof.blocks.rows import RowBlocks
from flipproof.progress import ProgressLine

#: Findings that one task adds up. A worker holds about so many times log(parts) of them: few, since they can be large.
FAN_IN = 4

#: Where workers say that they have visited a part.
TOPIC = "flipproof"

PACKAGE = "flipproof"


@dataclass(frozen=True)
class OnCluster:
    """Visits parts by Dask: on the workers of a client, or in Dask's own threads where there is none."""

    client: Client | None
    verbose: int = 0

    def total(self, visit: Callable[[Part], Any], rows: RowBlocks, says: str) -> Any:
        """Return the sum of what is found in all parts, in their order; None where there are no rows."""
        run = uuid.uuid4().hex
        visitor = _named(_hold, says, visit)
        findings = [_named(_visit, says, visitor, part, run, number) for number, part in enumerate(rows.parts)]
        while len(findings) > 1:
            findings = [_named(_add, "adding up", findings[i : i + FAN_IN]) for i in range(0, len(findings), FAN_IN)]
        if self.client is None:
            return dask.compute(findings[0])[0] if findings else None
        line = ProgressLine(len(rows.parts), self.verbose, says)
        with _clear_errors(self.client), _events(self.client, run, line):
            return _result(self.client, findings[0]) if findings else None


def on_cluster(client: Client | None, verbose: int = 0) -> OnCluster:
    """Return what visits rows on the client's workers, by default on those of the client that is active, if any.

    Raises
    ------
    ImportError, ValueError, ConnectionError
        If there are no workers, if one lacks this package or has another version of it, or if the scheduler is gone.
    """
    if client is None:
        try:
            client = get_client()
        except ValueError:
            return OnCluster(None)
    with _clear_errors(client):
        check_workers(client)
    return OnCluster(client, verbose)


def check_workers(client: Client) -> None:
    """Refuse a cluster without workers, and workers that do not have the package in this version."""
    scheduler = client.scheduler.address if client.scheduler is not None else "?"
    if not client.nthreads():
        raise ValueError(
            f"The scheduler at {scheduler} has no workers: start some with 'dask worker {scheduler}', or wait for them."
        )
    here = importlib.metadata.version(PACKAGE)
    found = client.run(importlib.metadata.version, PACKAGE, on_error="return")
    for worker, version in found.items():
        if isinstance(version, importlib.metadata.PackageNotFoundError):
            raise ImportError(f"The worker {worker} does not have {PACKAGE}: pip install '{PACKAGE}[dask]' there.")
        if isinstance(version, Exception):
            raise ConnectionError(f"The worker {worker} does not answer: {version}")
        if version != here:
            raise ImportError(f"The worker {worker} has {PACKAGE} {version}, but this process has {here}.")


@contextmanager
def _clear_errors(client: Client) -> Iterator[None]:
    """Say in one line what happened to the cluster; errors of the tasks themselves pass as they are."""
    address = client.scheduler.address if client.scheduler is not None else "?"
    try:
        yield
    except KilledWorker as error:
        raise ConnectionError(
            f"{error.allowed_failures + 1} workers died at the same task, most likely for want of memory: give workers "
            "more of it, or cut the rows into smaller parts."
        ) from error
    except ModuleNotFoundError as error:
        raise ImportError(f"A worker does not have {error.name}: pip install '{PACKAGE}[dask]' there.") from error
    except (CancelledError, OSError, TimeoutError) as error:
        if client.status == "running" and not isinstance(error, CancelledError):
            raise
        raise ConnectionError(
            f"The scheduler at {address} was lost: start it again, and then do this again."
        ) from error


@contextmanager
def _events(client: Client, run: str, line: ProgressLine) -> Iterator[None]:
    """Show how many parts have been visited, as the workers say; a part that was visited twice counts once."""
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


def _result(client: Client, task: Any) -> Any:
    with warnings.catch_warnings():
        # what all tasks need, such as the coordinates of test rows, is in the graph: a lost worker loses nothing
        warnings.filterwarnings("ignore", message="Sending large graph")
        future = client.compute(task)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _named(function: Callable[..., Any], says: str, *arguments: Any) -> Any:
    """Return a task that the dashboard shows by a name that says what it does."""
    name = says.lower().replace(" ", "-")
    return dask.delayed(function, pure=False)(*arguments, dask_key_name=f"{name}-{uuid.uuid4().hex}")


def _hold(visit: Callable[[Part], Any]) -> Callable[[Part], Any]:
    """Return what all parts are visited with: a task of its own, so that it travels to each worker once."""
    return visit


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
