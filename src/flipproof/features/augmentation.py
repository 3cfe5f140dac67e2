"""Random views of images for contrastive learning, a whole batch at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

#: Share of the image that a crop covers, and its width over its height.
CROP_AREA = (0.2, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
#: How often colours are changed, and how much at most: brightness, contrast, saturation; hue in turns of the circle.
JITTER_PROBABILITY = 0.8
JITTER = 0.4
HUE = 0.1
GREY_PROBABILITY = 0.2

#: Brightness of red, green and blue to the eye.
LUMA = (0.299, 0.587, 0.114)
#: From red, green, blue to brightness and two axes of colour, in which a turn changes the hue.
TO_YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


def random_views(torch: Any, images: Any) -> Any:
    """Return a random view of every image (n, channels, h, w) with values from 0 to 1: crop, flip, colours, grey."""
    views = random_crops(torch, images)
    if images.shape[1] == 3:
        views = random_grey(torch, random_hue(torch, random_colours(torch, views)))
    else:
        views = random_colours(torch, views)
    return views.clamp(0, 1)


def random_crops(torch: Any, images: Any) -> Any:
    """Return parts of the images, enlarged to their size, half of them mirrored."""
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


def random_colours(torch: Any, images: Any) -> Any:
    """Return most of the images brighter or darker, with more or less contrast and, in colour, saturation."""
    n = len(images)
    changed = images * _factor(torch, images, n)
    mean = changed.mean(dim=(1, 2, 3), keepdim=True)
    changed = (changed - mean) * _factor(torch, images, n) + mean
    if images.shape[1] == 3:
        grey = grey_of(torch, changed)
        changed = (changed - grey) * _factor(torch, images, n) + grey
    return _sometimes(torch, JITTER_PROBABILITY, changed.clamp(0, 1), images)


def random_hue(torch: Any, images: Any) -> Any:
    """Return most of the images with their hues turned."""
    n = len(images)
    angle = 2 * math.pi * _uniform(torch, images, n, -HUE, HUE)
    cosine, sine = _by_numpy(torch, np.cos, angle), _by_numpy(torch, np.sin, angle)
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    turn = torch.stack([one, zero, zero, zero, cosine, -sine, zero, sine, cosine], dim=1).reshape(n, 3, 3)
    to_yiq = torch.tensor(TO_YIQ, device=images.device)
    turned = torch.einsum("nij,njhw->nihw", torch.linalg.inv(to_yiq) @ turn @ to_yiq, images)
    return _sometimes(torch, JITTER_PROBABILITY, turned.clamp(0, 1), images)


def random_grey(torch: Any, images: Any) -> Any:
    """Return some of the images without colours."""
    return _sometimes(torch, GREY_PROBABILITY, grey_of(torch, images).expand_as(images), images)


def grey_of(torch: Any, images: Any) -> Any:
    """Return the brightness of colour images, with one channel."""
    luma = torch.tensor(LUMA, device=images.device).reshape(1, 3, 1, 1)
    return (images * luma).sum(dim=1, keepdim=True)


def _uniform(torch: Any, like: Any, n: int, low: float, high: float) -> Any:
    return low + (high - low) * torch.rand(n, device=like.device)


def _by_numpy(torch: Any, function: Callable[[Any], Any], numbers: Any) -> Any:
    """Return a function of one number for each image; PyTorch's own, by MKL, depend on the make of the processor."""
    return torch.from_numpy(function(numbers.cpu().numpy())).to(numbers.device)


def _factor(torch: Any, like: Any, n: int) -> Any:
    return _uniform(torch, like, n, 1 - JITTER, 1 + JITTER).reshape(n, 1, 1, 1)


def _sometimes(torch: Any, probability: float, changed: Any, images: Any) -> Any:
    chosen = torch.rand(len(images), 1, 1, 1, device=images.device) < probability
    return torch.where(chosen, changed, images)
