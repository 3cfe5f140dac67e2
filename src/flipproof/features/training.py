"""Train a network: one loop, with progress on stderr, a seed, and a checkpoint to resume from.

PyTorch is imported only when a network is needed, and networks are defined inside functions, so that this module can be
imported without PyTorch.
"""

from __future__ import annotations

import io
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Values
from flipproof.parameters import NONE, VERBOSE, Constraints, instance, integer, number
from flipproof.runtime.determinism import own_randomness
from flipproof.runtime.files import digest_of_pieces, write_whole

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

#: Version of the training procedure; it changes whenever the same data and settings would give another network.
TRAINER = 2

#: Devices for which PyTorch has a fused Adam step.
FUSED_ON = ("cpu", "cuda")

#: Weights of a network by name, as arrays; a fitted transformer stores these.
Weights = dict[str, NDArray[Any]]

#: Parameters of all transformers that train a network.
TRAINING_CONSTRAINTS: Constraints = {
    "epochs": integer(0),
    "batch_size": integer(1),
    "learning_rate": number(0),
    "device": instance(str, 'the name of a device, or "auto"'),
    "checkpoint": NONE | instance((str, os.PathLike), "the path of a file"),
    "verbose": VERBOSE,
}


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    who: str
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int
    checkpoint: str | os.PathLike[str] | None
    verbose: int


def torch_for(who: str) -> ModuleType:
    """Return PyTorch, or raise an error that says how to install it."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError(f"{who} needs PyTorch: pip install 'flipproof[deep]'.") from error


def device_of(torch: ModuleType, device: str) -> str:
    """Return the device as given; "auto" means a GPU if there is one."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def fingerprint(arrays: list[Values], settings: dict[str, object]) -> str:
    """Return a digest of the data, the settings and the trainer; a checkpoint is resumed only if it matches."""
    pieces: list[str | memoryview] = [repr([TRAINER, *sorted(settings.items())])]
    for array in arrays:
        pieces += [f"{array.dtype} {array.shape}", np.ascontiguousarray(array).data]
    return digest_of_pieces(pieces)


def train(
    torch: ModuleType, network: Module, loss_of: Callable[[Tensor], Tensor], n_rows: int, how: Training, made_from: str
) -> None:
    """Minimise the mean of ``loss_of(rows)`` over random batches of row numbers, by Adam with a cosine schedule.

    Every epoch has its own seed, so that a run that was stopped and resumed gives the same network.
    """
    if min(n_rows, how.batch_size) < 2:
        raise ValueError(f"{how.who} needs at least two images, and a batch_size of at least two.")
    weights = list(network.parameters())
    # the unfused Adam takes square roots with MKL, whose last bits depend on the processor's vendor
    fused = all(weight.device.type in FUSED_ON for weight in weights)
    optimizer = torch.optim.Adam(weights, lr=how.learning_rate, weight_decay=how.weight_decay, fused=fused)
    first = _resume(torch, network, optimizer, how, made_from)
    began = time.monotonic()
    for epoch in range(first, how.epochs):
        with own_randomness(torch, _epoch_seed(how.seed, epoch)):
            for group in optimizer.param_groups:
                group["lr"] = how.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / how.epochs))
            mean_loss = _epoch(torch, network, loss_of, n_rows, how.batch_size, optimizer)
        if not np.isfinite(mean_loss):
            raise ValueError(f"{how.who} did not converge: its loss is {mean_loss}. Try a smaller learning_rate.")
        _say(how, f"epoch {epoch + 1} of {how.epochs}, loss {mean_loss:.4f}, {time.monotonic() - began:.0f} s")
        _keep(torch, network, optimizer, how, made_from, epoch + 1)


def _epoch(
    torch: ModuleType,
    network: Module,
    loss_of: Callable[[Tensor], Tensor],
    n_rows: int,
    batch_size: int,
    optimizer: Optimizer,
) -> float:
    network.train()
    losses = []
    order = torch.randperm(n_rows)
    # a last batch of one row cannot be compared or normalised
    batches = [rows for rows in order.split(batch_size) if len(rows) > 1]
    for rows in batches:
        optimizer.zero_grad()
        loss = loss_of(rows)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return float(np.mean(losses))


def _epoch_seed(seed: int, epoch: int) -> int:
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0])


def _say(how: Training, text: str) -> None:
    if how.verbose:
        sys.stderr.write(f"{how.who}: {text}\n")
        sys.stderr.flush()


def _keep(
    torch: ModuleType, network: Module, optimizer: Optimizer, how: Training, made_from: str, epochs_done: int
) -> None:
    """Write the checkpoint atomically."""
    if how.checkpoint is None:
        return
    path = Path(how.checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {
        "made_from": made_from,
        "epochs_done": epochs_done,
        "network": network.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    content = io.BytesIO()
    torch.save(state, content)
    write_whole(path, content.getvalue())


def _resume(torch: ModuleType, network: Module, optimizer: Optimizer, how: Training, made_from: str) -> int:
    """Load the checkpoint, if there is one, and return how many epochs are done."""
    if how.checkpoint is None or not Path(how.checkpoint).is_file():
        return 0
    state = load_tensors(torch, how.checkpoint)
    if not isinstance(state, dict) or state.get("made_from") != made_from:
        raise ValueError(
            f"The checkpoint {os.fspath(how.checkpoint)} belongs to other data or settings of {how.who}, or to another "
            "version: remove it, or choose another name."
        )
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    _say(how, f"resumed from {how.checkpoint} after epoch {state['epochs_done']}")
    return int(state["epochs_done"])


def load_tensors(torch: ModuleType, path: str | os.PathLike[str]) -> Any:
    """Return the content of a PyTorch or .safetensors file; only tensors and plain values, never code."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {os.fspath(path)}.")
    if Path(path).suffix == ".safetensors":
        try:
            return import_module("safetensors.torch").load_file(path)
        except ImportError as error:
            raise ImportError(f"{path} needs safetensors: pip install 'flipproof[deep]'.") from error
        except Exception as error:
            raise OSError(f"{os.fspath(path)} is damaged or not a .safetensors file: {error}") from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files fail in many ways, and PyTorch advises loading them unsafely
        raise OSError(f"{os.fspath(path)} is damaged, or contains code, which is never loaded.") from error


def weights_of(network: Module) -> Weights:
    """Return a network's weights as arrays."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in network.state_dict().items()}


def set_weights(torch: ModuleType, network: Module, weights: Weights) -> None:
    """Load stored weights into a network."""
    network.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})


def apply_in_batches(
    torch: ModuleType, network: Module, rows: Tensor, device: str, batch_size: int = 256
) -> NDArray[np.float32]:
    """Return the network's outputs for rows, computed a batch at a time."""
    network.eval().to(device)
    with torch.inference_mode():
        answers = [network(part.to(device)).cpu() for part in rows.split(batch_size)]
    return np.asarray(torch.cat(answers).numpy(), dtype=np.float32)
