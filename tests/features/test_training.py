"""Networks: training, checkpoints, progress, and what they are worth on real images."""

import sys

import numpy as np
import pytest
from small_images import enlarged_digits

from flipproof import CertifiedRidgeClassifier, certified_accuracy
from flipproof.datasets import load_mnist, load_mnist17
from flipproof.features import CNNFeatures, SimCLRFeatures, UMAPFeatures, pca_features, training

pytestmark = pytest.mark.deep
torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from flipproof.features import simclr  # noqa: E402


@pytest.fixture
def digit_images():
    return enlarged_digits()


@pytest.fixture
def small(digit_images):
    """Makers of two networks that are trained in no time, with the images for it."""
    X, y = digit_images
    makers = {
        "cnn": lambda **more: CNNFeatures(X[:100], y[:100], **{"n_components": 4, "epochs": 3, **more}),
        "simclr": lambda **more: SimCLRFeatures(**{"width": 2, "epochs": 3, "batch_size": 32, **more}),
    }
    return makers, X[100:160]


class Called(TorchDispatchMode):
    """Remembers which of PyTorch's functions are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function._schema.name.removeprefix("aten::").strip("_"))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["cnn", "simclr"])
@pytest.mark.parametrize("colours", [1, 3])
def test_training_uses_no_function_that_depends_on_the_processor_vendor(digit_images, name, colours):
    """MKL computes these, some by instructions whose last bits Intel and AMD do not share: sqrt is one."""
    X, y = digit_images
    X = np.repeat(X, colours, axis=1)
    side = int(np.sqrt(X.shape[1] // colours))
    small = {"epochs": 1, "image_shape": (side, side, colours)}
    made = {
        "cnn": CNNFeatures(X[:40], y[:40], **small),
        "simclr": SimCLRFeatures(width=2, batch_size=20, **small),
    }
    with Called() as called:
        made[name].fit(X[:40]).transform(X[:40])
    assert {"convolution", "convolution_backward", "fused_adam"} <= called.names
    by_mkl = {"acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "exp", "expm1", "log", "log10", "log1p", "log2"}
    by_mkl |= {"pow", "sin", "sinh", "sqrt", "tan", "tanh"}
    assert not called.names & by_mkl


@pytest.mark.parametrize("name", ["cnn", "simclr"])
def test_a_resumed_run_gives_the_same_network(small, tmp_path, monkeypatch, capsys, name):
    makers, X = small
    whole = makers[name]().fit(X).transform(X)
    checkpoint = tmp_path / "deep" / "network.pt"
    epochs, real = [], training._epoch

    def stopped_in_the_third(*args):
        if len(epochs) == 2:
            raise KeyboardInterrupt
        epochs.append(1)
        return real(*args)

    monkeypatch.setattr(training, "_epoch", stopped_in_the_third)
    with pytest.raises(KeyboardInterrupt):
        makers[name](checkpoint=checkpoint).fit(X)
    assert [path.name for path in checkpoint.parent.iterdir()] == ["network.pt"]

    epochs.clear()
    resumed = makers[name](checkpoint=checkpoint, verbose=1).fit(X)
    assert len(epochs) == 1
    assert np.array_equal(resumed.transform(X), whole)
    said = capsys.readouterr()
    assert said.out == ""
    assert "resumed from" in said.err
    assert "epoch 3 of 3, loss" in said.err

    epochs.clear()
    again = makers[name](checkpoint=checkpoint).fit(X)  # complete: nothing is left to train
    assert not epochs
    assert np.array_equal(again.transform(X), whole)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["cnn", "simclr"])
def test_a_checkpoint_of_other_data_or_settings_is_refused(small, digit_images, tmp_path, name):
    makers, X = small
    checkpoint = tmp_path / "network.pt"
    makers[name](checkpoint=checkpoint, epochs=1).fit(X)
    with pytest.raises(ValueError, match=r"network.pt belongs to other data or settings of .*: remove it"):
        makers[name](checkpoint=checkpoint, epochs=1, random_state=1).fit(X)
    other = {"cnn": {"X_aux": digit_images[0][1:101]}, "simclr": {}}[name]
    with pytest.raises(ValueError, match=r"network.pt belongs to other data or settings"):
        makers[name](checkpoint=checkpoint, epochs=1).set_params(**other).fit(X[::-1].copy())
    checkpoint.write_bytes(b"no network")
    with pytest.raises(OSError, match=r"network.pt is damaged, or contains code"):
        makers[name](checkpoint=checkpoint, epochs=1).fit(X)


@pytest.mark.parametrize("name", ["cnn", "simclr"])
def test_the_global_random_state_of_pytorch_is_unchanged(small, name):
    makers, X = small
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    makers[name](epochs=1).fit(X).transform(X)
    assert torch.equal(torch.rand(3), expected)


def test_a_loss_that_is_not_finite_stops_the_training(small):
    makers, X = small
    with pytest.raises(ValueError, match=r"CNNFeatures did not converge: its loss is .*"):
        makers["cnn"](learning_rate=1e30).fit(X)


def test_a_batch_of_one_is_refused(small):
    makers, X = small
    for name, rows in (("cnn", {"batch_size": 1}), ("simclr", {"batch_size": 1}), ("simclr", {})):
        with pytest.raises(ValueError, match="needs at least two images"):
            makers[name](**rows).fit(X[: 1 if not rows else 20])


def test_the_network_is_that_of_the_paper():
    X = np.zeros((4, 784))
    model = CNNFeatures(X, [0, 1, 2, 3], epochs=1).fit(X)
    shapes = [array.shape for array in model.weights_.values()]
    assert shapes == [
        *((10, 1, 5, 5), (10,), (20, 10, 5, 5), (20,)),
        *((50, 320), (50,), (50, 50), (50,)),
    ]


def test_invalid_other_classes_are_refused(digit_images):
    X, y = digit_images
    with pytest.raises(ValueError, match="at least two classes"):
        CNNFeatures(X[:10], np.zeros(10)).fit(X[:10])
    with pytest.raises(ValueError, match=r"images of 256 numbers, like X. Got"):
        CNNFeatures(X[:10, :64], y[:10]).fit(X[:10])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CNNFeatures(X[:10], y[:9]).fit(X[:10])
    with pytest.raises(ValueError, match=r"at least 16 x 16 pixels. Got 8 x 8"):
        CNNFeatures(X[:10, :64], y[:10]).fit(X[:10, :64])


def test_a_missing_library_is_named_with_its_extra(digit_images, monkeypatch):
    X, y = digit_images
    for module in ("torch", "umap"):
        monkeypatch.setitem(sys.modules, module, None)
    for features, extra in (
        (CNNFeatures(X[:9], y[:9]), "deep"),
        (SimCLRFeatures(), "deep"),
        (UMAPFeatures(), "umap"),
    ):
        with pytest.raises(ImportError, match=rf"{type(features).__name__} needs .*flipproof\[{extra}\]"):
            features.fit(X[:20])


def test_nt_xent_matches_its_definition():
    z = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    unit = (z / z.norm(dim=1, keepdim=True)).numpy()
    likeness = np.exp(unit @ unit.T / 0.5)
    by_hand = np.mean([-np.log(likeness[i, (i + 3) % 6] / (likeness[i].sum() - likeness[i, i])) for i in range(6)])
    assert float(simclr.nt_xent(torch, z, 0.5)) == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_views_are_images_of_the_same_size_and_differ(channels):
    torch.manual_seed(0)
    images = torch.rand(64, channels, 16, 16)
    first, second = (simclr.random_views(torch, images) for _ in range(2))
    assert first.shape == images.shape
    assert float(first.min()) >= 0
    assert float(first.max()) <= 1
    assert not torch.equal(first, second)


def test_a_crop_is_a_part_of_the_image_and_half_are_mirrored(monkeypatch):
    torch.manual_seed(0)
    ramp = torch.linspace(0, 1, 32).repeat(400, 1, 32, 1)  # brighter to the right
    crops = simclr.random_crops(torch, ramp)
    rises = crops[:, 0, :, -1].mean(dim=1) - crops[:, 0, :, 0].mean(dim=1)
    assert 0.4 < float((rises > 0).float().mean()) < 0.6
    assert float(rises.abs().min()) > 0.9 * (0.2 * 3 / 4) ** 0.5  # the least width of a crop
    monkeypatch.setattr(simclr, "CROP_AREA", (1.0, 1.0))
    monkeypatch.setattr(simclr, "CROP_RATIO", (1.0, 1.0))
    whole = simclr.random_crops(torch, ramp)
    mirrored = whole[:, 0, 0, 0] > 0.5
    assert torch.allclose(whole[~mirrored], ramp[~mirrored], atol=1e-5)
    assert torch.allclose(whole[mirrored], ramp[mirrored].flip(3), atol=1e-5)


def test_colours_change_at_the_given_rate_and_grey_stays_grey():
    torch.manual_seed(0)
    images = torch.rand(500, 3, 4, 4)
    changed = (simclr.random_colours(torch, images) != images).flatten(1).any(dim=1).float().mean()
    assert 0.75 < float(changed) < 0.85
    grey = (simclr.random_grey(torch, images).std(dim=1).flatten(1).max(dim=1).values < 1e-6).float().mean()
    assert 0.15 < float(grey) < 0.25
    without_colour = images[:, :1].expand(-1, 3, -1, -1) * 0.8 + 0.1
    assert torch.allclose(simclr.random_hue(torch, without_colour), without_colour, atol=0.01)


def test_given_weights_are_used_as_they_are(digit_images, tmp_path):
    X, _ = digit_images
    torch.manual_seed(0)
    network = simclr.resnet18(torch, 1, width=2)
    state = network.state_dict()
    plain, wrapped = tmp_path / "plain.pt", tmp_path / "wrapped.pt"
    torch.save(state, plain)
    torch.save({"epoch": 3, "state_dict": {f"module.encoder.{name}": t for name, t in state.items()}}, wrapped)
    features = [SimCLRFeatures(weights=path).fit(X[:50]).transform(X[50:60]) for path in (plain, wrapped)]
    assert features[0].shape == (10, 16)
    assert np.array_equal(*features)
    model = SimCLRFeatures(weights=plain).fit(X[:50])
    standard = (X[50:60].reshape(-1, 1, 16, 16) / 255 - model.mean_) / model.scale_
    with torch.inference_mode():
        assert np.allclose(network.eval()(torch.tensor(standard)).numpy(), features[0], atol=1e-5)


def test_safetensors_are_read_too(digit_images, tmp_path):
    X, _ = digit_images
    safetensors = pytest.importorskip("safetensors.torch")
    state = simclr.resnet18(torch, 1, width=2).state_dict()
    torch.save(state, tmp_path / "w.pt")
    safetensors.save_file(state, tmp_path / "w.safetensors")
    features = [SimCLRFeatures(weights=tmp_path / f"w.{end}").fit_transform(X[:20]) for end in ("pt", "safetensors")]
    assert np.array_equal(*features)
    (tmp_path / "w.safetensors").write_bytes(b"no tensors")
    with pytest.raises(OSError, match=r"w.safetensors is damaged or not a .safetensors file"):
        SimCLRFeatures(weights=tmp_path / "w.safetensors").fit(X[:20])


def test_weights_for_large_images_have_the_large_stem():
    state = simclr.resnet18(torch, 3, width=4, stem=simclr.LARGE_STEM).state_dict()
    network = simclr.encoder_from(torch, state, "file")
    assert network.conv1.stride == (2, 2)
    assert network(torch.zeros(2, 3, 64, 64)).shape == (2, 32)


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


def test_invalid_weights_are_refused(digit_images, tmp_path, capsys):
    X, _ = digit_images
    path = tmp_path / "w.pt"
    colour = simclr.resnet18(torch, 3, width=2).state_dict()
    deeper = {**simclr.resnet18(torch, 1, width=2).state_dict(), "layer1.0.conv1.weight": torch.zeros(2, 2, 1, 1)}
    shorter = {name: t for name, t in deeper.items() if not name.startswith("layer4")}
    for content, message in (
        (colour, "a network for images of 3 channels"),
        (deeper, "the weights of a ResNet-18: layer1.0.conv1.weight has the shape"),
        (shorter, "the weights of a ResNet-18: layer4.0.conv1.weight is missing"),
        ({"a": torch.zeros(1)}, "no tensor named conv1.weight"),
        ({"conv1.weight": torch.zeros(2, 1, 5, 5)}, "must be 3 x 3 or 7 x 7. Got 5 x 5"),
    ):
        torch.save(content, path)
        with pytest.raises(ValueError, match=message):
            SimCLRFeatures(weights=path).fit(X[:20])
    torch.save({"conv1.weight": Evil()}, path)
    with pytest.raises(OSError, match="is damaged, or contains code"):
        SimCLRFeatures(weights=path).fit(X[:20])
    assert capsys.readouterr().out == ""
    with pytest.raises(FileNotFoundError, match="There is no file"):
        SimCLRFeatures(weights=tmp_path / "nowhere.pt").fit(X[:20])


def test_contrastive_learning_brings_views_of_an_image_together(digit_images):
    """After training the loss on new images is below that of an untrained network."""
    X, _ = digit_images
    settings = {"width": 4, "batch_size": 64, "learning_rate": 3e-3, "projection": 16}
    losses = []
    for epochs in (0, 4):
        model = SimCLRFeatures(epochs=epochs, **settings).fit(X[:320])
        torch.manual_seed(1)
        images = torch.tensor(X[400:500].reshape(-1, 1, 16, 16) / 255)
        views = torch.cat([simclr.random_views(torch, images) for _ in range(2)])
        features = model.transform(views.numpy().reshape(200, -1) * 255)
        losses.append(float(simclr.nt_xent(torch, torch.tensor(features - features.mean(axis=0)), 0.5)))
    assert losses[1] < losses[0] - 0.1


def test_a_network_that_saw_other_digits_certifies_more_ones_and_sevens_than_pixels(data_dir):
    """Every fourth row, and a network that saw 2,000 images: .87 and .71 at 125 and 250 flips, pixels .70 and .17."""
    data, others = load_mnist17(data_home=data_dir), load_mnist(digits=(0, 2, 3, 4, 5, 6, 8, 9), data_home=data_dir)
    X, y = data.X_train[::4], data.y_train[::4]
    network = CNNFeatures(others.X_train[:2000], others.y_train[:2000], epochs=3, learning_rate=3e-3)
    certified = {}
    for name, features in {"pixels": pca_features(50), "network": network}.items():
        model = CertifiedRidgeClassifier(features=features, classes=data.classes).fit(X, y)
        certified[name] = certified_accuracy(data.y_test, model.certify(data.X_test), flips=[0, 125, 250])
    assert certified["network"][0] > 0.93
    assert certified["network"][1] > certified["pixels"][1] + 0.08
    assert certified["network"][2] > certified["pixels"][2] + 0.3
