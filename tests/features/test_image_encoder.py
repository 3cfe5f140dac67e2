"""Image encoders: the vector of an image depends on nothing but the image and the network."""

import numpy as np
import pytest
from sklearn.base import clone

import flipproof
from flipproof import Adversary, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.features import ImageEncoder

pytestmark = pytest.mark.deep

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3))
LABELS = np.arange(12) % 2


def convolutional(seed=0, last="vector"):
    import torch
    from torch import nn

    torch.manual_seed(seed)
    layers = [nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.5)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if last == "vector" else []
    return nn.Sequential(*layers)


def test_an_image_has_the_same_bits_beside_any_others_and_type():
    encoder = ImageEncoder(convolutional()).fit(IMAGES)
    together = encoder.transform(IMAGES)
    assert together.shape == (12, 6)
    assert together.dtype == np.float32
    other = ImageEncoder(convolutional()).fit(IMAGES[5:6])
    order = np.random.default_rng(1).permutation(12)[:7]
    for rows in (IMAGES, IMAGES.astype(np.uint8), IMAGES.astype(np.float64)):
        assert other.transform(rows[order]).tobytes() == together[order].tobytes()
    flat = ImageEncoder(convolutional(), image_shape=(8, 8, 3)).fit(IMAGES.reshape(12, -1))
    assert flat.transform(IMAGES.reshape(12, -1)).tobytes() == together.tobytes()
    assert clone(flat).fit_transform(IMAGES.reshape(12, -1)).tobytes() == together.tobytes()
    assert encoder.transform(IMAGES[:0]).shape == (0, 6)


def test_the_network_given_is_not_changed():
    network = convolutional().train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    encoder = ImageEncoder(network).fit(IMAGES)
    first = encoder.transform(IMAGES)
    assert network.training
    assert all((before[name] == tensor).all() for name, tensor in network.state_dict().items())
    network[0].weight.data += 1
    assert ImageEncoder(convolutional()).fit(IMAGES).transform(IMAGES[:1]).tobytes() == first[:1].tobytes()
    assert encoder.transform(IMAGES + 0).tobytes() == first.tobytes()


def test_preprocessing_and_maps_of_features():
    import torch

    seen = []

    def preprocess(pixels):
        seen.append((pixels.dtype, tuple(pixels.shape)))
        return (pixels.to(torch.float32) / 255 - 0.5) * 2

    made = ImageEncoder(convolutional(last="map"), preprocess, normalize=False).fit(IMAGES)
    assert set(seen) == {(torch.uint8, (3, 8, 8))}
    network = convolutional(last="map").eval()
    with torch.inference_mode():
        one = network((torch.from_numpy(IMAGES[:1]).permute(0, 3, 1, 2).float() / 255 - 0.5) * 2).mean(dim=(2, 3))
    np.testing.assert_allclose(made.transform(IMAGES[:1]), one.numpy(), rtol=1e-5)
    numbers = ImageEncoder(convolutional(), pixels="numbers", normalize=False).fit(IMAGES / 255)
    as_bytes = ImageEncoder(convolutional(), normalize=False).fit(IMAGES)
    np.testing.assert_allclose(numbers.transform(IMAGES / 255), as_bytes.transform(IMAGES), rtol=1e-4)


def test_the_cache_depends_on_the_network_and_its_input(tmp_path, monkeypatch):
    first = ImageEncoder(convolutional(), cache=tmp_path).fit(IMAGES).transform(IMAGES)
    other = ImageEncoder(convolutional(seed=1), cache=tmp_path).fit(IMAGES).transform(IMAGES)
    half = ImageEncoder(convolutional(), lambda pixels: pixels / 510, cache=tmp_path).fit(IMAGES).transform(IMAGES)
    assert len({first.tobytes(), other.tobytes(), half.tobytes()}) == 3
    again = ImageEncoder(convolutional(), cache=tmp_path).fit(IMAGES)
    monkeypatch.setattr(ImageEncoder, "_encoded", lambda *given: pytest.fail("an image was encoded"))
    assert again.transform(IMAGES).tobytes() == first.tobytes()


def test_the_cache_notices_another_network_with_the_same_weights(tmp_path):
    """Attributes and code of a network are not among its layers and weights."""
    import torch

    class Scaled(torch.nn.Module):
        def __init__(self, power):
            super().__init__()
            self.layers, self.power = convolutional(), power

        def forward(self, images):
            return self.layers(images).abs() ** self.power

    for power in (1, 2):
        expected = ImageEncoder(Scaled(power)).fit(IMAGES).transform(IMAGES)
        found = ImageEncoder(Scaled(power), cache=tmp_path).fit(IMAGES).transform(IMAGES)
        assert found.tobytes() == expected.tobytes()


def test_rows_are_certified_and_the_network_is_named(tmp_path):
    encoder = ImageEncoder(convolutional(), image_shape=(8, 8, 3))
    rows = IMAGES.reshape(12, -1)
    learner = CertifiedNeighborsClassifier(3, metric="cosine", features=encoder, classes=[0, 1])
    model = learner.fit(rows[4:], LABELS[4:], reference=rows[:4])
    found = model.certify(rows, adversary=Adversary(changes="rows"))
    (about,) = [one for one in found.assumptions if one.code == "pretrained-encoder"]
    assert about.values["encoder"] == "Sequential"
    other = clone(learner).fit(rows[:5:-1], LABELS[:5:-1], reference=rows[:4])
    assert other.test_features(rows).tobytes() == model.test_features(rows).tobytes()
    with pytest.raises(ValueError, match="ImageEncoder, which cannot be stored"):
        flipproof.save(model, tmp_path / "m.flipproof")
    encoded = ImageEncoder(convolutional()).fit(IMAGES).transform(IMAGES)
    flipproof.save(CertifiedRidgeClassifier().fit(encoded, LABELS), tmp_path / "m.flipproof")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X / 255, "whole numbers from 0 to 255"),
        (lambda X: X - 1, "whole numbers from 0 to 255"),
        (lambda X: X + np.inf, "finite pixels"),
        (lambda X: X.astype(str), "arrays of numbers"),
        (lambda X: X.ravel(), r"Got an array of shape"),
        (lambda X: X.reshape(12, -1), "'image_shape' parameter"),
        (lambda X: X[:0], "at least one image"),
    ],
)
def test_rows_that_are_no_images_are_a_line(change, message):
    with pytest.raises(ValueError, match=message):
        ImageEncoder(convolutional()).fit(change(IMAGES))


def test_networks_and_inputs_of_half_precision():
    import torch

    network = convolutional().to(torch.bfloat16)
    encoder = ImageEncoder(network, lambda pixels: pixels.to(torch.bfloat16) / 255).fit(IMAGES)
    found = encoder.transform(IMAGES)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, ImageEncoder(convolutional()).fit_transform(IMAGES), atol=0.02)


def test_networks_that_cannot_be_used_are_a_line():
    import torch
    from torch import nn

    class Random(nn.Module):
        def forward(self, images):
            return torch.rand(1, 3)

    class Several(nn.Module):
        def forward(self, images):
            return images, images

    class Undefined(nn.Module):
        def forward(self, images):
            return torch.full((1, 3), torch.nan)

    for network, message in (
        (Random(), "encoded the same row twice"),
        (Several(), "Got tuple instead"),
        (nn.Flatten(start_dim=2), r"Got shape \(1, 3, 64\)"),
        (Undefined(), "NaN or infinity"),
        ("resnet18", "'network' parameter"),
    ):
        with pytest.raises(ValueError, match=message):
            ImageEncoder(network).fit(IMAGES)
    with pytest.raises(
        ValueError, match="'preprocess' parameter of ImageEncoder must be a function that returns a tensor"
    ):
        ImageEncoder(convolutional(), lambda pixels: pixels.numpy()).fit(IMAGES)
