"""ResNet-18, with the names that weights are commonly published under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flipproof.features.training import own_randomness

#: Kernel of the first convolution: 3 for images of about 32 pixels (no pooling after it), 7 as for ImageNet.
SMALL_STEM, LARGE_STEM = 3, 7
STAGES = 4
BLOCKS = 2


def resnet18(torch: Any, channels: int, width: int = 64, stem: int = SMALL_STEM) -> Any:
    """Return an untrained ResNet-18 without its last layer: images (n, channels, h, w) in, (n, 8 * width) out."""
    nn = torch.nn

    def convolution(n_in: int, n_out: int, kernel: int, stride: int) -> Any:
        return nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False)

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        """Two convolutions beside a shortcut."""

        def __init__(self, n_in: int, n_out: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = convolution(n_in, n_out, 3, stride), nn.BatchNorm2d(n_out)
            self.conv2, self.bn2 = convolution(n_out, n_out, 3, 1), nn.BatchNorm2d(n_out)
            changes = stride > 1 or n_in != n_out
            shortcut = [convolution(n_in, n_out, 1, stride), nn.BatchNorm2d(n_out)] if changes else []
            self.downsample = nn.Sequential(*shortcut)

        def forward(self, x: Any) -> Any:
            """Return the block's answer."""
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

        def forward(self, x: Any) -> Any:
            """Return the features of images."""
            x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
            for i in range(STAGES):
                x = getattr(self, f"layer{i + 1}")(x)
            return x.mean(dim=(2, 3))

    return ResNet()


def encoder_weights(state: Any, path: str) -> dict[str, Any]:
    """Return the tensors of the ResNet in a file, under their own names, whatever the file wraps them in."""
    while isinstance(state, Mapping) and not any(key.endswith("conv1.weight") for key in state):
        inner = [value for value in state.values() if isinstance(value, Mapping)]
        if not inner:
            break
        state = inner[0]
    stems = [key for key in state if key.endswith("conv1.weight") and "layer" not in key]
    if not stems:
        raise ValueError(f"{path} holds no weights of a ResNet: nothing in it is named conv1.weight.")
    prefix = stems[0].removesuffix("conv1.weight")
    return {key.removeprefix(prefix): tensor for key, tensor in state.items() if key.startswith(prefix)}


def encoder_from(torch: Any, tensors: Mapping[str, Any], path: str) -> Any:
    """Return the ResNet that the tensors are weights of; its sizes are read off them."""
    width, channels, stem, _ = tensors["conv1.weight"].shape
    if stem not in (SMALL_STEM, LARGE_STEM):
        raise ValueError(f"{path}: the first convolution must be 3 x 3 or 7 x 7. Got {stem} x {stem} instead.")
    with own_randomness(torch, 0):  # a new network is random until it gets its weights
        network = resnet18(torch, channels, width, stem)
    wanted = network.state_dict()
    given = {name: tensor for name, tensor in tensors.items() if name in wanted}
    # a counter, which some files leave out and which no answer depends on
    missing = [name for name in wanted if name not in given and not name.endswith("num_batches_tracked")]
    wrong = [name for name, tensor in given.items() if tensor.shape != wanted[name].shape]
    if missing or wrong:
        first = f"{missing[0]} is missing" if missing else f"{wrong[0]} has the shape {tuple(given[wrong[0]].shape)}"
        raise ValueError(f"{path} holds no weights of a ResNet-18: {first}.")
    network.load_state_dict({**wanted, **given})
    return network
