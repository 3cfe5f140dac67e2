"""A data set reads the same from every form that it is published in."""

import gzip
import io
import lzma
import pickle
import tarfile

import numpy as np
import pytest

from flipproof.datasets import image_sets as cifar
from flipproof.datasets import load_adult, load_cifar10, load_dogfish, load_german_credit, load_imdb
from flipproof.datasets import text_sets as texts
from flipproof.datasets.shelf import PublicFile
from flipproof.runtime.files import digest_of


def test_original_tables_equal_their_copies_with_names(data_dir, tmp_path):
    """The originals are rebuilt to the last byte: their published checksums are those of the rebuilt files."""
    train, test = (
        gzip.decompress((data_dir / "adult" / f"adult.{part}.gz").read_bytes()).decode().splitlines()[1:]
        for part in ("data", "test")
    )
    (tmp_path / "adult.data").write_text("".join(f"{line}\n" for line in train) + "\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + "".join(f"{line}.\n" for line in test) + "\n")
    original, copy = load_adult(folder=tmp_path), load_adult(data_home=data_dir)
    assert original.provenance.count("the original") == original.provenance.count("the original;") + 1 == 2
    assert np.array_equal(original.X_test, copy.X_test)
    assert np.array_equal(original.y_test, copy.y_test)

    numbers = gzip.decompress((data_dir / "german_credit" / "german.data-numeric.csv.gz").read_bytes()).decode()
    rows = [line.replace(" ", ",").split(",") for line in numbers.splitlines()[1:]]
    (tmp_path / "german.data-numeric").write_text("".join("".join(f"{v:>4}" for v in row) + " \n" for row in rows))
    loans, copy = load_german_credit(folder=tmp_path), load_german_credit(data_home=data_dir)
    assert "german.data-numeric: the original" in loans.provenance
    assert np.array_equal(loans.X_train, copy.X_train)


@pytest.fixture(scope="module")
def some_lines(data_dir):
    """Forty real reviews of each part, in the form of one a line."""
    lines = {}
    for part in ("train", "test"):
        whole = lzma.decompress((data_dir / "imdb" / f"{part}.tsv.xz").read_bytes()).split(b"\n")[:-1]
        lines[part] = [*whole[:20], *whole[-20:]]
    return lines


@pytest.fixture
def reviews(some_lines, tmp_path, monkeypatch):
    """The published folder of reviews, rebuilt from some of the real ones; what they must hash to is set to match."""
    for part, name in (("train", "TRAIN_LINES"), ("test", "TEST_LINES")):
        for line in some_lines[part]:
            label, number, rating, text = line.split(b"\t", 3)
            folder = tmp_path / "aclImdb" / part / ("pos" if label == b"1" else "neg")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number.decode()}_{rating.decode()}.txt").write_bytes(text)
        (tmp_path / "aclImdb" / part / "unsup").mkdir()
        (tmp_path / "aclImdb" / part / "unsup" / "0_0.txt").write_text("no label")
        digest = digest_of(b"".join(line + b"\n" for line in some_lines[part]))
        monkeypatch.setattr(texts, name, PublicFile(f"{part}.tsv", {digest: "the original"}))
    return tmp_path


def test_reviews_read_the_same_from_folder_archive_and_lines(some_lines, reviews, tmp_path, monkeypatch):
    from_folder = load_imdb(folder=reviews)
    assert from_folder.X_train.tolist() == [line.decode().split("\t", 3)[3] for line in some_lines["train"]]
    assert from_folder.y_train.tolist() == [0] * 20 + [1] * 20

    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(packed / "aclImdb_v1.tar.gz", "w:gz") as archive:
        archive.add(reviews / "aclImdb", "aclImdb")
    monkeypatch.setattr(texts, "REVIEWS_ARCHIVE", PublicFile("aclImdb_v1.tar.gz"))
    assert load_imdb(folder=packed).X_test.tolist() == from_folder.X_test.tolist()


def test_a_replaced_review_is_detected(reviews):
    one = next((reviews / "aclImdb" / "test" / "pos").iterdir())
    one.write_text("A fine app, five stars.")
    with pytest.raises(OSError, match=r"aclImdb \(test\) is damaged or another file"):
        load_imdb(folder=reviews)


def test_line_breaks_inside_a_review_do_not_start_another(reviews):
    one = next((reviews / "aclImdb" / "train" / "neg").iterdir())
    one.write_bytes("one\ntwo\tthree\x85four".encode())
    data = load_imdb(folder=reviews, check=False)
    assert len(data.X_train) == 40
    assert "one two three\x85four" in data.X_train.tolist()


@pytest.fixture
def images(monkeypatch):
    """Six small batches, with the checksums that they have."""
    rng = np.random.default_rng(0)
    batches = [
        (rng.integers(0, 10, 3, dtype=np.uint8), rng.integers(0, 256, (3, cifar.PIXELS), dtype=np.uint8))
        for _ in cifar.BATCHES
    ]
    records = [np.column_stack(batch).tobytes() for batch in batches]
    monkeypatch.setattr(cifar, "RECORD_DIGESTS", tuple(map(digest_of, records)))
    for name in ("BINARY_ARCHIVE", "PYTHON_ARCHIVE"):
        monkeypatch.setattr(cifar, name, PublicFile(getattr(cifar, name).name))
    return batches, records


def python_batch(labels, pixels):
    """A batch as the Python version has it: protocol 2, names as bytes."""
    return pickle.dumps({b"labels": labels.tolist(), b"data": pixels}, protocol=4)


def add(archive, name, content):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize("form", ["binary folder", "python folder", "binary archive", "python archive"])
def test_images_read_the_same_from_all_public_forms(images, tmp_path, form):
    batches, records = images
    version = "bin" if form.startswith("binary") else "py"
    names = [f"{name}.bin" if version == "bin" else name for name in cifar.BATCHES]
    contents = records if version == "bin" else [python_batch(*batch) for batch in batches]
    if form.endswith("folder"):
        inner = tmp_path / f"cifar-10-batches-{version}"
        inner.mkdir()
        for name, content in zip(names, contents, strict=True):
            (inner / name).write_bytes(content)
    else:
        with tarfile.open(tmp_path / f"cifar-10-{form.split()[0]}.tar.gz", "w:gz") as archive:
            for name, content in zip(names, contents, strict=True):
                add(archive, f"cifar-10-batches-{version}/{name}", content)
    data = load_cifar10(folder=tmp_path)
    assert data.X_train.shape == (15, 3072)
    assert data.y_test.tolist() == batches[5][0].tolist()
    red, green, blue = batches[0][1][0].reshape(3, 32, 32)
    picture = data.X_train[0].reshape(data.image_shape)
    assert np.array_equal(picture, np.stack([red, green, blue], axis=-1))


def test_a_changed_image_is_detected(images, tmp_path):
    _, records = images
    (tmp_path / "cifar-10-batches-bin").mkdir()
    for name, content in zip(cifar.BATCHES, records, strict=True):
        (tmp_path / "cifar-10-batches-bin" / f"{name}.bin").write_bytes(content)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").write_bytes(records[1])
    with pytest.raises(OSError, match=r"data_batch_3.bin is damaged .* SHA-256 .*, expected "):
        load_cifar10(folder=tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"Put cifar-10-batches-bin/data_batch_3.bin into "):
        load_cifar10(folder=tmp_path)


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


def test_no_code_in_a_pickled_batch_is_run(capsys):
    for content in (pickle.dumps({b"labels": Evil()}), b"", b"nonsense", pickle.dumps({b"labels": [1]})):
        with pytest.raises(OSError, match="A batch of the Python version of CIFAR10"):
            cifar.records_of_python_batch(content)
    assert capsys.readouterr().out == ""


def test_the_original_dogfish_is_read_in_both_of_its_forms(tmp_path):
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(-1, 1, (4, 8, 8, 3)).astype(np.float32), rng.uniform(-1, 1, (2, 8, 8, 3)).astype(np.float32)
    y, truth = np.array([0.0, 1, 0, 1]), np.array([1.0, 0])
    np.savez(tmp_path / "dataset_dog-fish_train-900_test-300.npz", X_train=X, Y_train=y, X_test=Z, Y_test=truth)
    data = load_dogfish(kind="original-images", folder=tmp_path)
    assert data.image_shape == (8, 8, 3)
    assert np.array_equal(data.X_train, X.reshape(4, -1))
    assert [data.class_names[label] for label in data.y_test] == ["fish", "dog"]
    assert "stand-in" not in data.provenance
    assert "not checked: no checksum of it was published" in data.provenance

    for part, rows, labels in (("train", X, y), ("test", Z, truth)):
        features = rows.reshape(len(rows), -1)[:, :20]
        name = f"dogfish_900_300_inception_features_{part}.npz"
        np.savez(tmp_path / name, inception_features_val=features, labels=labels)
    data = load_dogfish(kind="original-features", folder=tmp_path)
    assert data.X_test.shape == (2, 20)
    assert data.y_train.tolist() == [0, 1, 0, 1]
