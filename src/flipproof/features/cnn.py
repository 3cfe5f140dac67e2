"""A small convolutional network trained on other classes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from flipproof.assumptions import Assumption
from flipproof.features.images import Images, ImageTransformer, image_shape_of
from flipproof.features.training import (
    TRAINING_CONSTRAINTS,
    Training,
    apply_in_batches,
    device_of,
    fingerprint,
    set_weights,
    torch_for,
    train,
    weights_of,
)
from flipproof.parameters import Constraints, integer, number, parameter_error
from flipproof.runtime.determinism import own_randomness

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor
    from torch.nn import Module


class CNNFeatures(ImageTransformer):
    """Features of a small network that was trained on *other* classes, as in the paper for MNIST 1/7.

    The labels that certificates protect are never read: `fit` ignores `y`, and the network does not see the rows that
    it is fitted to. It learns from `X_aux` and `y_aux`: rows of other classes with trusted labels, for example the
    eight other digits.

    A simple network with an embedding of 50 dimensions, as in the paper: two convolutions of 5 x 5 (10 and 20 channels)
    with pooling, a layer of 50, the embedding, and a layer for the classes of `y_aux`, which is discarded after
    training.

    Parameters
    ----------
    X_aux : array of shape (n, n_pixels)
        Images of other classes.
    y_aux : array of shape (n,)
        Their labels, which are trusted.
    n_components : int, default=50
        Dimensions of the embedding.
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels) of the images. Default: square and grey.
    epochs : int, default=10
        Passes over the images.
    batch_size : int, default=64
        Images per step.
    learning_rate : float, default=1e-3
        Initial learning rate of Adam, with a cosine schedule to 0.
    dropout : float, default=0.5
        Dropout rate.
    device : str, default="auto"
        PyTorch device; "auto" uses a GPU if there is one.
    random_state : int, default=0
        Seed. On one machine, with the same number of threads, the same seed gives the same network.
    checkpoint : path, optional
        Written after every epoch. A fit with the same data and settings resumes from it, or loads it if it is
        complete.
    verbose : int, default=0
        1: print a line to stderr after every epoch.

    Attributes
    ----------
    weights_ : dict of arrays
        The network.

    See Also
    --------
    flipproof.features.SimCLRFeatures : A network trained without labels.
    flipproof.features.WeakSupervision : Features from rules.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.features import CNNFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X.reshape(-1, 8, 8).repeat(2, axis=1).repeat(2, axis=2).reshape(-1, 256)  # 16 x 16 pixels are the fewest
    >>> features = CNNFeatures(X[y >= 5], y[y >= 5], epochs=1)  # nobody may have changed these labels
    >>> model = CertifiedRidgeClassifier(features=features, classes=range(5)).fit(X[y < 5], y[y < 5])
    >>> model.features_.transform(X[:3]).shape
    (3, 50)
    """

    #: What certificates with these features assume; every learner adds it to its assumptions.
    rests_on = Assumption("auxiliary-labels")

    parameter_constraints: ClassVar[Constraints] = {
        "n_components": integer(1),
        "dropout": number(0, 1, closed="low"),
        **TRAINING_CONSTRAINTS,
    }

    def __init__(
        self,
        X_aux: ArrayLike,
        y_aux: ArrayLike,
        *,
        n_components: int = 50,
        image_shape: tuple[int, ...] | None = None,
        epochs: int = 10,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        dropout: float = 0.5,
        device: str = "auto",
        random_state: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: int = 0,
    ) -> None:
        self.X_aux = X_aux
        self.y_aux = y_aux
        self.n_components = n_components
        self.image_shape = image_shape
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.device = device
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    def fit(self, X: object, y: object = None) -> CNNFeatures:
        """Train on the other classes; only the number of columns of X is used, and labels are ignored.

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
        torch = torch_for("CNNFeatures")
        self._training_images(X)
        images, codes, n_classes = self._other_classes()
        self.mean_, self.scale_ = float(images.mean()), float(images.std()) or 1.0
        with own_randomness(torch, self.random_state):
            network = self._network(torch, n_classes)
        device = device_of(torch, self.device)
        network.to(device)
        rows, labels = self._tensor(torch, images), torch.from_numpy(codes)

        def loss_of(batch: Tensor) -> Tensor:
            answers = network(rows[batch].to(device))
            return torch.nn.functional.cross_entropy(answers, labels[batch].to(device))

        made_from = fingerprint([images, codes], self._settings())
        train(torch, network, loss_of, len(rows), self._training(), made_from)
        self.weights_ = weights_of(network[:-1])
        self._n_features_out = self.n_components
        return self

    def transform(self, X: object) -> NDArray[np.float32]:
        """Return the embedding, shape (m, n_components).

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
        torch = torch_for("CNNFeatures")
        with own_randomness(torch, 0):  # a new network is initialised at random
            embedding = self._network(torch, 1)[:-1]
        set_weights(torch, embedding, self.weights_)
        return apply_in_batches(torch, embedding, self._tensor(torch, images), device_of(torch, self.device))

    def _network(self, torch: ModuleType, n_classes: int) -> Module:
        nn = torch.nn
        height, width, channels = self.image_shape_
        left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]  # after 5 x 5 and pooling, twice
        if min(left) < 1:
            raise ValueError(f"CNNFeatures needs images of at least 16 x 16 pixels. Got {height} x {width} instead.")
        return nn.Sequential(
            *(nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(10, 20, 5), nn.Dropout2d(self.dropout), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(20 * left[0] * left[1], 50), nn.ReLU(), nn.Dropout(self.dropout)),
            nn.Linear(50, self.n_components),
            nn.Linear(self.n_components, n_classes),
        )

    def _other_classes(self) -> tuple[Images, NDArray[np.int64], int]:
        images = np.asarray(self.X_aux, dtype=np.float32)
        check_consistent_length(self.X_aux, self.y_aux)
        shape = image_shape_of(images[0].size, self.image_shape, "CNNFeatures")
        if shape != self.image_shape_:
            wanted = f"images of {self.n_features_in_} numbers, like X"
            raise parameter_error("CNNFeatures", "X_aux", wanted, images.shape)
        classes, codes = np.unique(np.asarray(self.y_aux), return_inverse=True)
        if len(classes) < 2:
            raise parameter_error("CNNFeatures", "y_aux", "labels of at least two classes", classes.tolist())
        return images.reshape(len(images), *shape), codes.astype(np.int64), len(classes)

    def _tensor(self, torch: ModuleType, images: Images) -> Tensor:
        scaled = (images - np.float32(self.mean_)) / np.float32(self.scale_)
        return torch.from_numpy(np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)))

    def _settings(self) -> dict[str, object]:
        kept = ("n_components", "epochs", "batch_size", "learning_rate", "dropout", "random_state")
        return {name: getattr(self, name) for name in kept}

    def _training(self) -> Training:
        return Training(
            who="CNNFeatures",
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=0.0,
            seed=self.random_state,
            checkpoint=self.checkpoint,
            verbose=self.verbose,
        )
