"""Contrastive learning of image features without labels (SimCLR)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.features.augmentation import random_views
from flipproof.features.images import Images, ImageTransformer
from flipproof.features.resnet import encoder_from, encoder_weights, resnet18
from flipproof.features.training import (
    Training,
    apply_in_batches,
    device_of,
    fingerprint,
    load_tensors,
    own_randomness,
    torch_for,
    train,
    weights_of,
)


class SimCLRFeatures(ImageTransformer):
    """Features of a ResNet-18 that learnt, without labels, which views come from the same image (Chen et al. 2020).

    Every image of a batch is seen twice, cropped, mirrored and coloured at random; the network, with two more layers
    that are thrown away later, learns to find the other view of each among all (NT-Xent loss). The features of an image
    are the mean of the network's last stage. Labels are never read.

    The paper uses such features for CIFAR10, and reduces them to 128 by PCA. A network like theirs takes hours on a
    graphics processor: give the file of one that is trained as `weights`. On a processor a narrow one (``width=16``) on
    some thousand images takes minutes, and is better than pixels.

    Parameters
    ----------
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels) of the images. Default: square and grey.
    weights : path, optional
        File of a trained ResNet-18 (PyTorch or ``.safetensors``), which is used as it is: nothing is trained. Its first
        convolution may be 3 x 3 (for images of about 32 pixels) or 7 x 7. Only tensors are read, never code.
    width : int, default=64
        Channels of the first stage; the features have eight times as many dimensions.
    epochs : int, default=100
        Passes over the images.
    batch_size : int, default=256
        Images of a step.
    learning_rate : float, default=1e-3
        Of Adam; it falls to 0 by a cosine.
    temperature : float, default=0.5
        Of the loss.
    projection : int, default=128
        Dimensions that views are compared in.
    value_range : tuple of two floats, default=(0, 255)
        The values that stand for black and for full brightness.
    device : str, default="auto"
        As PyTorch names it; "auto" is the graphics processor if there is one.
    random_state : int, default=0
        Seed. On one machine, with one number of threads, the same seed gives the same network.
    checkpoint : path, optional
        Written after every epoch; a fit with the same images and settings goes on from it, or takes it as it is if it
        is complete.
    verbose : int, default=0
        1: a line on stderr for every epoch.

    Attributes
    ----------
    weights_ : dict of arrays
        The network.
    """

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
    def rests_on(self) -> str | None:
        """What certificates on these features assume, beside that they were fitted without labels."""
        if self.weights is None:
            return None
        return "The weights given to SimCLRFeatures were trained without the labels that are certified."

    def fit(self, X: Any, y: Any = None) -> SimCLRFeatures:
        """Learn from images, or read the given weights; labels are ignored."""
        torch = torch_for("SimCLRFeatures")
        images = self._training_images(X)
        scaled = self._scaled(images)
        self.mean_ = scaled.mean(axis=(0, 1, 2))
        self.scale_ = np.maximum(scaled.std(axis=(0, 1, 2)), 1e-6)
        encoder = self._trained(torch, scaled) if self.weights is None else self._given(torch)
        self.weights_ = weights_of(encoder)
        self._n_features_out = 8 * len(self.weights_["conv1.weight"])
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the features, shape (m, 8 * width)."""
        images = self._test_images(X)
        torch = torch_for("SimCLRFeatures")
        tensors = {name: torch.tensor(array) for name, array in self.weights_.items()}
        encoder = encoder_from(torch, tensors, "weights_")
        standard = (self._scaled(images) - self.mean_) / self.scale_
        return apply_in_batches(torch, encoder, _channels_first(torch, standard), device_of(torch, self.device))

    def _trained(self, torch: Any, scaled: Images) -> Any:
        channels, device = scaled.shape[3], device_of(torch, self.device)
        with own_randomness(torch, self.random_state):
            encoder = resnet18(torch, channels, self.width)
            nn, size = torch.nn, 8 * self.width
            head = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, self.projection))
        both = nn.ModuleList([encoder, head]).to(device)
        rows = _channels_first(torch, scaled)
        mean, scale = (torch.tensor(a, device=device).reshape(1, -1, 1, 1) for a in (self.mean_, self.scale_))

        def loss_of(batch: Any) -> Any:
            twice = rows[batch].to(device).repeat(2, 1, 1, 1)
            views = (random_views(torch, twice) - mean) / scale
            return nt_xent(torch, head(encoder(views)), self.temperature)

        train(torch, both, loss_of, len(rows), self._training(), fingerprint([scaled], self._settings()))
        return encoder

    def _given(self, torch: Any) -> Any:
        assert self.weights is not None
        path = os.fspath(self.weights)
        encoder = encoder_from(torch, encoder_weights(load_tensors(torch, path), path), path)
        channels = encoder.conv1.weight.shape[1]
        if channels != self.image_shape_[2]:
            raise ValueError(
                f"{path} holds a network for images of {channels} channels. These have {self.image_shape_[2]}."
            )
        return encoder

    def _scaled(self, images: Images) -> Images:
        low, high = self.value_range
        return (images - np.float32(low)) / np.float32(high - low)

    def _settings(self) -> dict[str, Any]:
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


def _channels_first(torch: Any, images: Images) -> Any:
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def nt_xent(torch: Any, projections: Any, temperature: float) -> Any:
    """Return the mean cross-entropy of finding each view's other view among all others.

    Row i and row i + n / 2 are views of the same image; likeness is the cosine over the temperature.
    """
    n = len(projections)
    unit = torch.nn.functional.normalize(projections, dim=1)
    likeness = unit @ unit.T / temperature
    likeness = likeness.masked_fill(torch.eye(n, dtype=torch.bool, device=likeness.device), float("-inf"))
    other = torch.arange(n, device=likeness.device).roll(n // 2)
    return torch.nn.functional.cross_entropy(likeness, other)
