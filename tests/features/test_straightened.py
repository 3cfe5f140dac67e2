"""Slanted strokes become upright; each image is treated by itself."""

import numpy as np
import pytest

from flipproof.features import StraightenedImages


def bar(slope, side=15):
    """Return an image of a slanted line, three pixels wide."""
    lines, columns = np.mgrid[:side, :side] - side // 2
    return np.clip(2 - np.abs(columns - slope * lines), 0, 1)


def slant(image):
    lines, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    weights = image / image.sum()
    lines = lines - (weights * lines).sum()
    return (weights * lines * columns).sum() / (weights * lines**2).sum()


@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.3, 0.5])
def test_a_slanted_line_becomes_upright(slope):
    image = bar(slope)
    straight = StraightenedImages().fit_transform(image.reshape(1, -1)).reshape(15, 15)
    assert abs(slant(image)) >= 0.9 * abs(slope)
    assert abs(slant(straight)) < 0.02
    assert straight.sum() == pytest.approx(image.sum(), rel=1e-4)


def test_images_are_centred_and_treated_one_by_one():
    images = np.stack([np.roll(bar(0.2), 3, axis=1), bar(-0.4), np.zeros((15, 15)), np.ones((15, 15))]).reshape(4, -1)
    step = StraightenedImages().fit(images)
    together = step.transform(images)
    for number in range(4):
        assert step.transform(images[number : number + 1]).tobytes() == together[number : number + 1].tobytes()
    columns = together[0].reshape(15, 15).sum(axis=0)
    assert (columns * np.arange(15)).sum() / columns.sum() == pytest.approx(7, abs=0.01)
    assert not together[2].any()


def test_colours_move_together():
    image = np.stack([bar(0.3), 2 * bar(0.3)], axis=2)
    straight = StraightenedImages((15, 15, 2)).fit_transform(image.reshape(1, -1)).reshape(15, 15, 2)
    np.testing.assert_allclose(2 * straight[:, :, 0], straight[:, :, 1], rtol=1e-6)


def test_a_wrong_shape_is_refused():
    with pytest.raises(ValueError, match="image_shape"):
        StraightenedImages((3, 4)).fit(np.ones((2, 9)))
