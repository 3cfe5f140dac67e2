"""Options that select a Dask cluster, and the connection to it."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli.options import CLUSTER, option, together

if TYPE_CHECKING:
    from distributed import Client, Security

#: Seconds to wait for a scheduler to answer.
PATIENCE = 10

#: Bytes that a worker needs for its imports and one block of rows. With less, Dask would pause it.
LEAST_MEMORY = 512 * 2**20

#: Address of a local cluster: it accepts no outside connections.
THIS_MACHINE = "127.0.0.1"

FILE = click.Path(path_type=Path, dir_okay=False)

cluster_options = together(
    option(
        "--workers",
        group=CLUSTER,
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of local worker processes.",
    ),
    option(
        "--memory-limit",
        group=CLUSTER,
        metavar="SIZE",
        help="With --workers: memory per worker, for example 2GiB. Default: an equal share.",
    ),
    option(
        "--scheduler",
        group=CLUSTER,
        metavar="ADDRESS",
        help="Use the workers of a running Dask scheduler, for example tcp://host:8786.",
    ),
    option("--tls-ca", group=CLUSTER, type=FILE, metavar="FILE", help="With --scheduler: certificate authority (PEM)."),
    option("--tls-cert", group=CLUSTER, type=FILE, metavar="FILE", help="With --scheduler: client certificate (PEM)."),
    option(
        "--tls-key", group=CLUSTER, type=FILE, metavar="FILE", help="With --scheduler: key of the client certificate."
    ),
)


@dataclass(frozen=True)
class ClusterChoice:
    """Values of the cluster options."""

    workers: int | None
    memory_limit: str | None
    scheduler: str | None
    tls_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None

    @classmethod
    def taken_from(cls, options: dict[str, object]) -> ClusterChoice:
        """Remove these options from a command's options, check their combination, and return them."""
        # click has read values of the right types
        values: dict[str, Any] = {name: options.pop(name) for name in cls.__dataclass_fields__}
        choice = cls(**values)
        if choice.workers is not None and choice.scheduler is not None:
            raise click.UsageError("Give either --workers N or --scheduler ADDRESS.")
        if choice.memory_limit is not None and choice.workers is None:
            raise click.UsageError("--memory-limit requires --workers.")
        if any(choice.tls_files.values()) and choice.scheduler is None:
            raise click.UsageError("--tls-ca, --tls-cert and --tls-key require --scheduler.")
        return choice

    @property
    def tls_files(self) -> dict[str, Path | None]:
        """The TLS files by option."""
        return {"--tls-ca": self.tls_ca, "--tls-cert": self.tls_cert, "--tls-key": self.tls_key}

    @property
    def is_given(self) -> bool:
        """Whether a cluster was selected."""
        return self.workers is not None or self.scheduler is not None

    @contextmanager
    def client(self, say: Callable[[str], None]) -> Iterator[Client | None]:
        """Yield the client of a cluster, or None if none was selected. A cluster that was started here is stopped.

        Raises
        ------
        ValueError, OSError, ImportError
            If the cluster cannot be started or reached. The message is one line.
        """
        if not self.is_given:
            yield None
            return
        with _silence():  # errors of a cluster are raised, in one line
            try:
                import distributed  # noqa: F401
            except ImportError as error:
                raise ImportError("--workers and --scheduler need Dask: pip install 'flipproof[dask]'") from error
            with self._started(say) if self.workers is not None else self._connected() as client:
                if client.dashboard_link:
                    say(f"Dashboard: {client.dashboard_link}")
                yield client

    @contextmanager
    def _started(self, say: Callable[[str], None]) -> Iterator[Client]:
        from distributed import Client, LocalCluster

        limit = self._checked_limit()
        say(f"Starting {self.workers} {'process' if self.workers == 1 else 'processes'}")
        with _interrupts_held_back():
            cluster = LocalCluster(
                n_workers=self.workers,
                threads_per_worker=1,
                host=THIS_MACHINE,
                dashboard_address=f"{THIS_MACHINE}:0",
                memory_limit=limit,
                silence_logs=logging.CRITICAL,
            )
        with no_worker_is_given_up(), cluster, Client(cluster) as client:
            yield client

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        from distributed import Client

        address, security = self._checked_address(), self._security()
        try:
            client = Client(address, timeout=PATIENCE, security=security)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            secured = "" if security else ", without TLS"
            raise ConnectionError(
                f"--scheduler: cannot connect to {self.scheduler!r}{secured}: {reason or type(error).__name__}."
            ) from error
        with client:
            yield client

    def _checked_limit(self) -> int | str:
        from dask.utils import parse_bytes

        if self.memory_limit is None:
            return "auto"
        try:
            limit = int(parse_bytes(self.memory_limit))
        except ValueError:
            limit = 0
        if limit < LEAST_MEMORY:
            raise ValueError(
                f"--memory-limit: {self.memory_limit!r} must be a size of at least {LEAST_MEMORY // 2**20}MiB, "
                "for example 2GiB: with less, a worker would never start."
            )
        return limit

    def _checked_address(self) -> str:
        """Return the address if Dask supports its protocol; otherwise, connecting would wait forever."""
        from distributed.comm.addressing import parse_address, parse_host_port
        from distributed.comm.registry import backends

        address = self.scheduler or ""
        secured = any(self.tls_files.values())
        try:
            protocol, place = parse_address(
                address if "://" in address else f"{'tls' if secured else 'tcp'}://{address}"
            )
            host, port = parse_host_port(place)
        except ValueError:
            host, port, protocol = "", 0, ""
        if protocol not in backends or not host or not 0 < port < 2**16:
            raise ValueError(f"--scheduler: {address!r} must be an address, for example tcp://host:8786 or host:8786.")
        if protocol == "tls" and not secured:
            raise ValueError(f"--scheduler: {address!r} requires --tls-ca, --tls-cert and --tls-key.")
        return f"{protocol}://{place}"

    def _security(self) -> Security | None:
        given = {name: path for name, path in self.tls_files.items() if path is not None}
        if not given:
            return None
        if len(given) < len(self.tls_files):
            raise ValueError("--tls-ca, --tls-cert and --tls-key must be given together.")
        for name, path in given.items():
            if not path.is_file():
                raise OSError(f"{name}: cannot read {str(path)!r}: no such file.")
        from distributed import Security

        security = Security(
            tls_ca_file=str(self.tls_ca),
            tls_client_cert=str(self.tls_cert),
            tls_client_key=str(self.tls_key),
            require_encryption=True,
        )
        try:
            security.get_connection_args("client")
        except OSError as error:
            files = ", ".join(repr(str(path)) for path in given.values())
            raise OSError(f"--tls-ca, --tls-cert and --tls-key: {files} are not valid TLS files: {error}.") from error
        return security


@contextmanager
def _silence() -> Iterator[None]:
    """Keep logs of this process off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def no_worker_is_given_up() -> Iterator[None]:
    """Let clusters of this process restart dead workers without limit.

    Dask checks once, some seconds after it has lost a worker, and closes the worker for good if it is not back by then.
    Without workers, tasks would wait forever.
    """
    import dask

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "100 days"}):
        yield


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Block Ctrl-C in this thread for now, and for good in the threads and processes that it starts.

    A terminal sends Ctrl-C to all processes. This process stops the workers; they must not die with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # if the cluster started it, signals would be unblocked again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
