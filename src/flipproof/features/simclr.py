"""Contrastive learning of image features without labels (SimCLR), with its random views and its ResNet-18."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flipproof.assumptions import Assumption
from flipproof.features.images import Images, ImageTransformer
from flipproof.features.training import (
    TRAINING_CONSTRAINTS,
    Training,
    apply_in_batches,
    device_of,
    fingerprint,
    load_tensors,
    torch_for,
    train,
    weights_of,
)
from flipproof.parameters import NONE, Constraints, instance, integer, number
from flipproof.runtime.determinism import own_randomness

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor
    from torch.nn import Module

#: Share of the image that a crop covers, and its width over its height.
CROP_AREA = (0.2, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
#: How often colours are changed, and by how much at most: brightness, contrast, saturation; hue in turns.
JITTER_PROBABILITY = 0.8
JITTER = 0.4
HUE = 0.1
GREY_PROBABILITY = 0.2

#: Perceived brightness of red, green and blue.
LUMA = (0.299, 0.587, 0.114)
#: From red, green, blue to brightness and two colour axes, in which a rotation changes the hue.
TO_YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


def random_views(torch: ModuleType, images: Tensor) -> Tensor:
    """Return a random view of every image (n, channels, h, w) with values from 0 to 1: crop, flip, colours, grey."""
    views = random_crops(torch, images)
    if images.shape[1] == 3:
        views = random_grey(torch, random_hue(torch, random_colours(torch, views)))
    else:
        views = random_colours(torch, views)
    return views.clamp(0, 1)


def random_crops(torch: ModuleType, images: Tensor) -> Tensor:
    """Return random crops of the images, resized to the full size, half of them mirrored."""
    n = len(images)
    area = _uniform(torch, images, n, *CROP_AREA)
    ratio = _by_numpy(torch, np.exp, _uniform(torch, images, n, math.log(CROP_RATIO[0]), math.log(CROP_RATIO[1])))
    width = _by_numpy(torch, np.sqrt, area * ratio).clamp(max=1)
    height = _by_numpy(torch, np.sqrt, area / ratio).clamp(max=1)
    mirrored = torch.where(torch.rand(n, device=images.device) < 0.5, -1.0, 1.0)
    placed = torch.zeros(n, 2, 3, device=images.device)
    placed[:, 0, 0], placed[:, 1, 1] = width * mirrored, height
    placed[:, 0, 2] = (1 - width) * _uniform(torch, images, n, -1, 1)
    placed[:, 1, 2] = (1 - height) * _uniform(torch, images, n, -1, 1)
    grid = torch.nn.functional.affine_grid(placed, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def random_colours(torch: ModuleType, images: Tensor) -> Tensor:
    """Change brightness, contrast and (for colour images) saturation of most images."""
    n = len(images)
    changed = images * _factor(torch, images, n)
    mean = changed.mean(dim=(1, 2, 3), keepdim=True)
    changed = (changed - mean) * _factor(torch, images, n) + mean
    if images.shape[1] == 3:
        grey = grey_of(torch, changed)
        changed = (changed - grey) * _factor(torch, images, n) + grey
    return _sometimes(torch, JITTER_PROBABILITY, changed.clamp(0, 1), images)


def random_hue(torch: ModuleType, images: Tensor) -> Tensor:
    """Rotate the hues of most images."""
    n = len(images)
    angle = 2 * math.pi * _uniform(torch, images, n, -HUE, HUE)
    cosine, sine = _by_numpy(torch, np.cos, angle), _by_numpy(torch, np.sin, angle)
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    turn = torch.stack([one, zero, zero, zero, cosine, -sine, zero, sine, cosine], dim=1).reshape(n, 3, 3)
    to_yiq = torch.tensor(TO_YIQ, device=images.device)
    turned = torch.einsum("nij,njhw->nihw", torch.linalg.inv(to_yiq) @ turn @ to_yiq, images)
    return _sometimes(torch, JITTER_PROBABILITY, turned.clamp(0, 1), images)


def random_grey(torch: ModuleType, images: Tensor) -> Tensor:
    """Remove the colours of some images."""
    return _sometimes(torch, GREY_PROBABILITY, grey_of(torch, images).expand_as(images), images)


def grey_of(torch: ModuleType, images: Tensor) -> Tensor:
    """Return the brightness of colour images, with one channel."""
    luma = torch.tensor(LUMA, device=images.device).reshape(1, 3, 1, 1)
    return (images * luma).sum(dim=1, keepdim=True)


def _uniform(torch: ModuleType, like: Tensor, n: int, low: float, high: float) -> Tensor:
    return low + (high - low) * torch.rand(n, device=like.device)


def _by_numpy(torch: ModuleType, function: np.ufunc, numbers: Tensor) -> Tensor:
    """Apply a NumPy function to one number per image; PyTorch's functions (MKL) depend on the processor's vendor."""
    return torch.from_numpy(function(numbers.cpu().numpy())).to(numbers.device)


def _factor(torch: ModuleType, like: Tensor, n: int) -> Tensor:
    return _uniform(torch, like, n, 1 - JITTER, 1 + JITTER).reshape(n, 1, 1, 1)


def _sometimes(torch: ModuleType, probability: float, changed: Tensor, images: Tensor) -> Tensor:
    chosen = torch.rand(len(images), 1, 1, 1, device=images.device) < probability
    return torch.where(chosen, changed, images)


#: Kernel of the first convolution: 3 for images of about 32 pixels (no pooling after it), 7 as for ImageNet.
SMALL_STEM, LARGE_STEM = 3, 7
STAGES = 4
BLOCKS = 2


def resnet18(torch: ModuleType, channels: int, width: int = 64, stem: int = SMALL_STEM) -> Module:
    """Return an untrained ResNet-18 without its last layer: images (n, channels, h, w) in, (n, 8 * width) out."""
    nn = torch.nn

    def convolution(n_in: int, n_out: int, kernel: int, stride: int) -> Module:
        return nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False)

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        """Two convolutions with a shortcut."""

        def __init__(self, n_in: int, n_out: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = convolution(n_in, n_out, 3, stride), nn.BatchNorm2d(n_out)
            self.conv2, self.bn2 = convolution(n_out, n_out, 3, 1), nn.BatchNorm2d(n_out)
            changes = stride > 1 or n_in != n_out
            shortcut = [convolution(n_in, n_out, 1, stride), nn.BatchNorm2d(n_out)] if changes else []
            self.downsample = nn.Sequential(*shortcut)

        def forward(self, x: Tensor) -> Tensor:
            """Return the output of the block."""
            inner = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(self.bn2(self.conv2(inner)) + self.downsample(x))

    class ResNet(nn.Module):  # type: ignore[misc,name-defined]
        """Stem, four stages of two blocks, mean over the image."""

        def __init__(self) -> None:
            super().__init__()
            self.conv1 = convolution(channels, width, stem, 2 if stem == LARGE_STEM else 1)
            self.bn1 = nn.BatchNorm2d(width)
            self.maxpool = nn.MaxPool2d(3, 2, 1) if stem == LARGE_STEM else nn.Identity()
            sizes = [width, *(width * 2**i for i in range(STAGES))]
            for i in range(STAGES):
                first = Block(sizes[i], sizes[i + 1], 1 if i == 0 else 2)
                rest = [Block(sizes[i + 1], sizes[i + 1], 1) for _ in range(BLOCKS - 1)]
                setattr(self, f"layer{i + 1}", nn.Sequential(first, *rest))

        def forward(self, x: Tensor) -> Tensor:
            """Return the features of images."""
            x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
            for i in range(STAGES):
                x = getattr(self, f"layer{i + 1}")(x)
            return x.mean(dim=(2, 3))

    return ResNet()


def encoder_weights(state: Any, path: str) -> dict[str, Tensor]:
    """Return the tensors of the ResNet in a file by name, without prefixes and outer dictionaries."""
    while isinstance(state, Mapping) and not any(key.endswith("conv1.weight") for key in state):
        inner = [value for value in state.values() if isinstance(value, Mapping)]
        if not inner:
            break
        state = inner[0]
    stems = [key for key in state if key.endswith("conv1.weight") and "layer" not in key]
    if not stems:
        raise ValueError(f"{path} contains no weights of a ResNet: it has no tensor named conv1.weight.")
    prefix = stems[0].removesuffix("conv1.weight")
    return {key.removeprefix(prefix): tensor for key, tensor in state.items() if key.startswith(prefix)}


def encoder_from(torch: ModuleType, tensors: Mapping[str, Tensor], path: str) -> Module:
    """Return a ResNet with these weights; its sizes are inferred from them."""
    width, channels, stem, _ = tensors["conv1.weight"].shape
    if stem not in (SMALL_STEM, LARGE_STEM):
        raise ValueError(f"{path}: the first convolution must be 3 x 3 or 7 x 7. Got {stem} x {stem} instead.")
    with own_randomness(torch, 0):  # a new network is initialised at random
        network = resnet18(torch, channels, width, stem)
    wanted = network.state_dict()
    given = {name: tensor for name, tensor in tensors.items() if name in wanted}
    # some files omit this counter; no output depends on it
    missing = [name for name in wanted if name not in given and not name.endswith("num_batches_tracked")]
    wrong = [name for name, tensor in given.items() if tensor.shape != wanted[name].shape]
    if missing or wrong:
        first = f"{missing[0]} is missing" if missing else f"{wrong[0]} has the shape {tuple(given[wrong[0]].shape)}"
        raise ValueError(f"{path} does not contain the weights of a ResNet-18: {first}.")
    network.load_state_dict({**wanted, **given})
    return network


class SimCLRFeatures(ImageTransformer):
    """Features of a ResNet-18 trained without labels to match random views of the same image (Chen et al. 2020).

    Every image of a batch is seen in two views, cropped, mirrored and recoloured at random. The network, with two more
    layers that are discarded later, learns to find the other view of each image among all (NT-Xent loss). The features
    of an image are the mean of the network's last stage. Labels are never read.

    The paper uses SimCLR features for CIFAR10, reduced to 128 dimensions by PCA. Training a network like theirs takes
    hours on a GPU: pass the file of a trained one as `weights`. On a CPU, training a narrow one (``width=16``) on a few
    thousand images takes minutes, and is better than pixels.

    Parameters
    ----------
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels) of the images. Default: square and grey.
    weights : path, optional
        File of a trained ResNet-18 (PyTorch or ``.safetensors``), which is used without further training. Its first
        convolution may be 3 x 3 (for images of about 32 pixels) or 7 x 7. Only tensors are read, never code.
    width : int, default=64
        Channels of the first stage; the features have eight times as many dimensions.
    epochs : int, default=100
        Passes over the images.
    batch_size : int, default=256
        Images per step.
    learning_rate : float, default=1e-3
        Initial learning rate of Adam, with a cosine schedule to 0.
    temperature : float, default=0.5
        Temperature of the loss.
    projection : int, default=128
        Number of dimensions in which views are compared.
    value_range : tuple of two floats, default=(0, 255)
        The values of black and of full brightness.
    device : str, default="auto"
        PyTorch device; "auto" uses a GPU if there is one.
    random_state : int, default=0
        Seed. On one machine, with the same number of threads, the same seed gives the same network.
    checkpoint : path, optional
        Written after every epoch. A fit with the same images and settings resumes from it, or loads it if it is
        complete.
    verbose : int, default=0
        1: print a line to stderr after every epoch.

    Attributes
    ----------
    weights_ : dict of arrays
        The network.

    See Also
    --------
    flipproof.features.CNNFeatures : A network trained on other classes.
    flipproof.features.UMAPFeatures : UMAP without labels.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.features import SimCLRFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> features = SimCLRFeatures(width=4, epochs=1)  # too small; or weights="resnet18.safetensors"
    >>> model = CertifiedRidgeClassifier(features=features, classes=range(10)).fit(X[:200], y[:200])
    >>> model.features_.transform(X[:3]).shape
    (3, 32)
    """

    parameter_constraints: ClassVar[Constraints] = {
        "weights": NONE | instance((str, os.PathLike), "the path of a file"),
        "width": integer(1),
        "temperature": number(0),
        "projection": integer(1),
        **TRAINING_CONSTRAINTS,
    }

    def __init__(
        self,
        image_shape: tuple[int, ...] | None = None,
        *,
        weights: str | os.PathLike[str] | None = None,
        width: int = 64,
        epochs: int = 100,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        temperature: float = 0.5,
        projection: int = 128,
        value_range: tuple[float, float] = (0, 255),
        device: str = "auto",
        random_state: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: int = 0,
    ) -> None:
        self.image_shape = image_shape
        self.weights = weights
        self.width = width
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.temperature = temperature
        self.projection = projection
        self.value_range = value_range
        self.device = device
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    @property
    def rests_on(self) -> Assumption | None:
        """What certificates with these features assume, in addition to a fit without labels."""
        return None if self.weights is None else Assumption("pretrained-weights")

    def fit(self, X: object, y: object = None) -> SimCLRFeatures:
        """Learn from images, or read the given weights; labels are ignored.

        Parameters
        ----------
        X : array of shape (n, pixels)
            Images.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted map.
        """
        torch = torch_for("SimCLRFeatures")
        images = self._training_images(X)
        scaled = self._scaled(images)
        self.mean_ = scaled.mean(axis=(0, 1, 2))
        self.scale_ = np.maximum(scaled.std(axis=(0, 1, 2)), 1e-6)
        encoder = self._trained(torch, scaled) if self.weights is None else self._given(torch)
        self.weights_ = weights_of(encoder)
        self._n_features_out = 8 * len(self.weights_["conv1.weight"])
        return self

    def transform(self, X: object) -> NDArray[np.float32]:
        """Return the features, shape (m, 8 * width).

        Parameters
        ----------
        X : array of shape (n, pixels)
            Images.

        Returns
        -------
        floats
            A line per image.
        """
        images = self._test_images(X)
        torch = torch_for("SimCLRFeatures")
        tensors = {name: torch.tensor(array) for name, array in self.weights_.items()}
        encoder = encoder_from(torch, tensors, "weights_")
        standard = (self._scaled(images) - self.mean_) / self.scale_
        return apply_in_batches(torch, encoder, _channels_first(torch, standard), device_of(torch, self.device))

    def _trained(self, torch: ModuleType, scaled: Images) -> Module:
        channels, device = scaled.shape[3], device_of(torch, self.device)
        with own_randomness(torch, self.random_state):
            encoder = resnet18(torch, channels, self.width)
            nn, size = torch.nn, 8 * self.width
            head = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, self.projection))
        both = nn.ModuleList([encoder, head]).to(device)
        rows = _channels_first(torch, scaled)
        mean, scale = (torch.tensor(a, device=device).reshape(1, -1, 1, 1) for a in (self.mean_, self.scale_))

        def loss_of(batch: Tensor) -> Tensor:
            twice = rows[batch].to(device).repeat(2, 1, 1, 1)
            views = (random_views(torch, twice) - mean) / scale
            return nt_xent(torch, head(encoder(views)), self.temperature)

        train(torch, both, loss_of, len(rows), self._training(), fingerprint([scaled], self._settings()))
        return encoder

    def _given(self, torch: ModuleType) -> Module:
        assert self.weights is not None
        path = os.fspath(self.weights)
        encoder = encoder_from(torch, encoder_weights(load_tensors(torch, path), path), path)
        channels = encoder.conv1.weight.shape[1]
        if channels != self.image_shape_[2]:
            raise ValueError(
                f"{path} contains a network for images of {channels} channels. These images have "
                f"{self.image_shape_[2]}."
            )
        return encoder

    def _scaled(self, images: Images) -> Images:
        low, high = self.value_range
        return (images - np.float32(low)) / np.float32(high - low)

    def _settings(self) -> dict[str, object]:
        kept = ("width", "epochs", "batch_size", "learning_rate", "temperature", "projection", "random_state")
        return {name: getattr(self, name) for name in kept}

    def _training(self) -> Training:
        return Training(
            who="SimCLRFeatures",
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=1e-6,
            seed=self.random_state,
            checkpoint=self.checkpoint,
            verbose=self.verbose,
        )


def _channels_first(torch: ModuleType, images: Images) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def nt_xent(torch: ModuleType, projections: Tensor, temperature: float) -> Tensor:
    """Return the mean cross-entropy of finding the other view of the same image among all views.

    Row i and row i + n / 2 are views of the same image; similarity is the cosine divided by the temperature.
    """
    n = len(projections)
    unit = torch.nn.functional.normalize(projections, dim=1)
    likeness = unit @ unit.T / temperature
    likeness = likeness.masked_fill(torch.eye(n, dtype=torch.bool, device=likeness.device), float("-inf"))
    other = torch.arange(n, device=likeness.device).roll(n // 2)
    return torch.nn.functional.cross_entropy(likeness, other)
