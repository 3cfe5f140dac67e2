"""Vectors of pretrained encoders are kept by digest; damaged files are computed again."""

import numpy as np
import pytest

from flipproof.features import pretrained
from flipproof.features.pretrained import MAGIC, VectorCache, of_length_one


class Counted:
    """A function that counts its calls."""

    def __init__(self, *numbers):
        self.vector, self.calls = np.array(numbers, dtype=np.float32), 0

    def __call__(self):
        self.calls += 1
        return self.vector


def only_file(folder):
    (found,) = [path for path in folder.rglob("*") if path.is_file()]
    return found


def test_a_vector_is_computed_once_and_read_from_the_folder(tmp_path):
    compute = Counted(0.1, -0.0, 3e-40)
    first = VectorCache(tmp_path, "encoder").get(["a text"], compute)
    again = VectorCache(tmp_path, "encoder").get(["a text"], compute)
    assert compute.calls == 1
    assert again.tobytes() == first.tobytes()
    assert again.dtype == np.float32
    assert b"a text" not in only_file(tmp_path).read_bytes()


def test_other_texts_and_other_encoders_have_other_vectors(tmp_path):
    one, two, three = Counted(1.0), Counted(2.0), Counted(3.0)
    assert VectorCache(tmp_path, "encoder").get(["a"], one)[0] == 1
    assert VectorCache(tmp_path, "encoder").get(["b"], two)[0] == 2
    assert VectorCache(tmp_path, "another").get(["a"], three)[0] == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content[: len(MAGIC)],
        lambda content: content.replace(b"vector 1", b"vector 9"),
        lambda content: content + b"\0\0\0\0",
    ],
)
def test_a_damaged_file_is_computed_again_and_replaced(tmp_path, damage):
    compute = Counted(0.5, 0.25)
    VectorCache(tmp_path, "encoder").get(["a"], compute)
    path = only_file(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert VectorCache(tmp_path, "encoder").get(["a"], compute).tolist() == [0.5, 0.25]
    assert compute.calls == 2
    assert path.read_bytes() == whole


def test_a_file_of_another_text_is_not_taken(tmp_path):
    one, two = Counted(1.0), Counted(2.0)
    VectorCache(tmp_path, "encoder").get(["a"], one)
    of_one = only_file(tmp_path)
    VectorCache(tmp_path, "encoder").get(["b"], two)
    (of_two,) = [path for path in tmp_path.rglob("*.vector") if path != of_one]
    of_two.write_bytes(of_one.read_bytes())
    assert VectorCache(tmp_path, "encoder").get(["b"], two).tolist() == [2.0]


def test_without_a_folder_the_last_vectors_stay_in_memory(monkeypatch):
    monkeypatch.setattr(pretrained, "MOST_IN_MEMORY", 2)
    cache, compute = VectorCache(None, "encoder"), {name: Counted(1.0) for name in "abc"}
    for name in "aabaca":
        cache.get([name], compute[name])
    assert [compute[name].calls for name in "abc"] == [1, 1, 1]
    cache.get(["b"], compute["b"])
    assert compute["b"].calls == 2


def test_a_folder_that_cannot_be_made_is_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot make the folder of the cache"):
        VectorCache(tmp_path / "file", "encoder")


def test_length_one():
    assert of_length_one(np.array([3.0, 4.0]), True).tolist() == [np.float32(0.6), np.float32(0.8)]
    assert of_length_one(np.array([3.0, 4.0]), False).tolist() == [3.0, 4.0]
    assert of_length_one(np.zeros(2), True).tolist() == [0.0, 0.0]
