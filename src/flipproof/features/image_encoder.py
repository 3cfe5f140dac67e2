"""Images as vectors of a pretrained PyTorch network."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from flipproof.assumptions import Assumption
from flipproof.core.rounding import Values
from flipproof.features.images import image_shape_of
from flipproof.features.pretrained import (
    CACHE,
    ROWS_TWICE,
    Vector,
    VectorCache,
    checked_vector,
    encoder_assumption,
    kernels_and_versions,
    of_length_one,
    one_torch_thread,
    refuse_unless_repeatable,
)
from flipproof.features.training import torch_for
from flipproof.parameters import (
    BOOLEAN,
    NONE,
    Constraint,
    Constraints,
    check_parameters,
    function,
    is_integer,
    one_of,
    parameter_error,
    with_methods,
)
from flipproof.runtime.files import digest_of_pieces

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor
    from torch.nn import Module

#: Version of how images are encoded: another version finds no vectors of this one in a cache.
RECIPE = 1

#: Largest value of a pixel.
WHITE = 255

#: Axes of the output of a network for one image: a vector, or a vector for each place in the image.
VECTOR_AXES, MAP_AXES = 2, 4

SHAPE = NONE | Constraint(
    lambda shape: isinstance(shape, (tuple, list)) and all(is_integer(n) and n > 0 for n in shape),
    ("a tuple of positive integers",),
)


class ImageEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode images by a pretrained PyTorch network, used as it is: there is nothing to fit.

    For networks of torchvision and timm without their last layer (``network.fc = torch.nn.Identity()``,
    ``timm.create_model(..., num_classes=0)``), and for your own. No label is read, and each image is encoded
    separately, so with ``fit(..., reference=...)`` certificates can cover whole rows; a few rows are enough for the
    reference. Images are encoded one at a time on one thread: the vector of an image is the same, to the last bit, in
    any batch and order.

    Parameters
    ----------
    network : torch.nn.Module
        Maps a batch of images, shape (1, channels, height, width), to vectors, shape (1, d). An output of shape
        (1, d, height, width) is averaged over the image. The encoder uses a copy, without dropout.
    preprocess : function, optional
        Maps a tensor of shape (channels, height, width) to the input of the network, without the axis of the batch;
        for example ``weights.transforms()`` of torchvision. It must not draw random numbers. Default: bytes are divided
        by 255, other numbers are used as they are.
    pixels : {"bytes", "numbers"}, default="bytes"
        ``"bytes"``: whole numbers from 0 to 255, of any type; `preprocess` gets them as ``torch.uint8``. ``"numbers"``:
        any numbers; it gets them as ``torch.float32``.
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels) of rows of shape (n, n_pixels). Default: square and grey.
    normalize : bool, default=True
        Whether to divide each vector by its length.
    cache : path, optional
        Folder in which vectors are kept, by digests of the network and its input. Nobody may change it. It contains no
        images. Vectors are found again if weights, layers and the vector of a random image are the same; if you change
        the network's code without changing these, use another folder.

    Attributes
    ----------
    digest_ : str
        SHA-256 of the weights and the layers of the network.

    See Also
    --------
    SentenceEncoder : The same for texts.

    Notes
    -----
    :func:`flipproof.save` refuses a learner with this step, because a network is code as well as numbers. To store the
    learner, encode the images first: ``learner.fit(encoder.transform(images), labels, ...)``.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import Adversary, CertifiedNeighborsClassifier
    >>> from flipproof.features import ImageEncoder
    >>> network = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU())  # in earnest, a pretrained network
    >>> encoder = ImageEncoder(network, pixels="numbers")
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedNeighborsClassifier(21, metric="cosine", features=encoder, classes=range(10))
    >>> model = model.fit(X[:200], y[:200], reference=X[-50:])
    >>> certificates = model.certify(X[300:305], adversary=Adversary(changes="rows"))

    A pretrained network of torchvision, with the images as it expects them::

        network = torchvision.models.resnet18(weights="DEFAULT")
        network.fc = torch.nn.Identity()
        encoder = ImageEncoder(network, ResNet18_Weights.DEFAULT.transforms())
    """

    parameter_constraints: ClassVar[Constraints] = {
        "network": with_methods("state_dict", "eval", "forward", described="a torch.nn.Module"),
        "preprocess": NONE | function(),
        "pixels": one_of("bytes", "numbers"),
        "image_shape": SHAPE,
        "normalize": BOOLEAN,
        "cache": CACHE,
    }

    def __init__(
        self,
        network: Any,
        preprocess: Callable[[Values], Tensor] | None = None,
        *,
        pixels: str = "bytes",
        image_shape: tuple[int, ...] | None = None,
        normalize: bool = True,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.network = network
        self.preprocess = preprocess
        self.pixels = pixels
        self.image_shape = image_shape
        self.normalize = normalize
        self.cache = cache

    @property
    def rests_on(self) -> Assumption:
        """What certificates with these features assume; every learner adds it to its assumptions."""
        return encoder_assumption("ImageEncoder", type(self.network).__name__, network_digest(self.network), self.cache)

    def fit(self, X: Any, y: Any = None) -> ImageEncoder:
        """Copy the network and check that it is deterministic; nothing is learned, and labels are ignored.

        Parameters
        ----------
        X : array of shape (n, ...), or list
            Images, as the transform of the encoder takes them.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted map.
        """
        torch = torch_for("ImageEncoder")
        check_parameters(self)
        self._network = deepcopy(self.network).eval().requires_grad_(False).to("cpu")
        self.digest_ = network_digest(self._network)
        images = self._images(X)
        if len(images) == 0:
            raise ValueError("ImageEncoder needs at least one image to be fitted. Got none.")
        self._vectors = VectorCache(self.cache, self._settings(torch, images.shape[1:]))
        for image in images[:ROWS_TWICE]:
            first, again = (self._encoded(torch, self._input(torch, image)) for _ in range(2))
            refuse_unless_repeatable(first, again, "ImageEncoder", "the network")
        self._n_features_out = len(first)
        return self

    def transform(self, X: object) -> NDArray[np.float32]:
        """Return the vectors of images, shape (m, d).

        Parameters
        ----------
        X : array of shape (n, ...), or list
            Images, as the transform of the encoder takes them.

        Returns
        -------
        floats
            A line per image.
        """
        check_is_fitted(self, "digest_")
        torch = torch_for("ImageEncoder")
        vectors = [self._vector(torch, image) for image in self._images(X)]
        return np.stack(vectors) if vectors else np.empty((0, self._n_features_out), dtype=np.float32)

    def _settings(self, torch: ModuleType, shape: tuple[int, ...]) -> str:
        """Return what decides on the bits of vectors.

        Layers and weights do not show a network's code and other attributes, so what it makes of a random image of the
        given shape is part of it.
        """
        settings = {"recipe": RECIPE, "network": self.digest_, "normalize": bool(self.normalize)}
        if self.cache is not None:
            rng = np.random.default_rng(0)
            probe = rng.integers(0, WHITE + 1, shape) if self.pixels == "bytes" else rng.random(shape)
            dtype = np.uint8 if self.pixels == "bytes" else np.float32
            vector = self._encoded(torch, self._input(torch, probe.astype(dtype)))
            settings["vector of a random image"] = digest_of_pieces([vector.tobytes()])
        return json.dumps({**settings, **kernels_and_versions("torch")}, sort_keys=True)

    def _images(self, X: object) -> NDArray[Any]:
        """Return rows as images, shape (n, height, width, channels), of bytes or of 32-bit floats."""
        rows = np.asarray(X)
        if rows.dtype.kind not in "fiub":
            raise ValueError(f"ImageEncoder needs images as arrays of numbers. Got the type {rows.dtype} instead.")
        if rows.ndim == 2:
            rows = rows.reshape(len(rows), *image_shape_of(rows.shape[1], self.image_shape, "ImageEncoder"))
        elif rows.ndim == 3:
            rows = rows[..., None]
        elif rows.ndim != 4:
            wanted = "rows of pixels, or images of shape (n, height, width, channels)"
            raise ValueError(f"ImageEncoder needs {wanted}. Got an array of shape {rows.shape} instead.")
        if not np.all(np.isfinite(rows)):
            raise ValueError("ImageEncoder needs finite pixels. Got NaN or infinity.")
        if self.pixels == "numbers":
            return rows.astype(np.float32)
        if np.any((rows < 0) | (rows > WHITE)) or not np.array_equal(rows, np.round(rows)):
            raise ValueError(
                "ImageEncoder(pixels='bytes') needs whole numbers from 0 to 255: multiply the pixels, or use "
                "pixels='numbers' and give a preprocess function for them."
            )
        return rows.astype(np.uint8)

    def _vector(self, torch: ModuleType, image: Values) -> Vector:
        given = self._input(torch, image)
        content: list[bytes | str] = [f"{given.dtype} {tuple(given.shape)}\n", _bytes_of(given)]
        return self._vectors.get(content, lambda: self._encoded(torch, given))

    def _input(self, torch: ModuleType, image: Values) -> Tensor:
        """Return what the network gets for an image."""
        pixels = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
        with one_torch_thread(torch):
            if self.preprocess is not None:
                given = self.preprocess(pixels.clone())
            else:
                given = pixels.to(torch.float32) / WHITE if self.pixels == "bytes" else pixels
        if not isinstance(given, torch.Tensor):
            wanted = "a function that returns a tensor"
            raise parameter_error("ImageEncoder", "preprocess", wanted, found=type(given).__name__)
        return given.detach().cpu().clone()

    def _encoded(self, torch: ModuleType, given: Tensor) -> Vector:
        """Return the vector of one image; it is alone in its batch."""
        with one_torch_thread(torch):
            answer = self._network(given[None])
            if isinstance(answer, torch.Tensor) and answer.ndim == MAP_AXES:
                answer = answer.mean(dim=(2, 3))
        if not isinstance(answer, torch.Tensor) or answer.ndim != VECTOR_AXES or len(answer) != 1:
            found = f"shape {tuple(answer.shape)}" if isinstance(answer, torch.Tensor) else type(answer).__name__
            wanted = "a network that returns a tensor of shape (1, d) or (1, d, height, width) for one image"
            remedy = "wrap the network in a torch.nn.Module that returns one."
            raise parameter_error("ImageEncoder", "network", wanted, remedy=remedy, found=found)
        vector = checked_vector(answer[0].to(torch.float64).numpy(), "ImageEncoder", "a network")
        return of_length_one(vector, self.normalize)


def network_digest(network: Module) -> str:
    """Return the SHA-256 of the layers and the weights of a network."""
    pieces: list[bytes | str] = [f"{type(network).__module__}.{type(network).__qualname__}\n{network!r}\n"]
    for name, tensor in sorted(network.state_dict().items()):
        if hasattr(tensor, "detach"):
            pieces += [f"{name} {tensor.dtype} {tuple(tensor.shape)}\n", _bytes_of(tensor)]
        else:
            pieces.append(f"{name} {tensor!r}\n")
    return digest_of_pieces(pieces)


def _bytes_of(tensor: Tensor) -> bytes:
    """Return the numbers of a tensor of any type."""
    flat = tensor.detach().cpu().contiguous().flatten()
    return bytes(flat.view(torch_for("ImageEncoder").uint8).numpy())
