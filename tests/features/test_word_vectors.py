"""Word vectors: every file format, and averages."""

import gzip

import numpy as np
import pytest

from flipproof import CertifiedRidgeClassifier, certified_accuracy
from flipproof.datasets import load_imdb, load_sms_spam
from flipproof.features import WordVectors, read_word_vectors

WORDS = ["the", "naïve", "don't", "U.S."]
VECTORS = np.array([[0.5, -1.25, 3.0], [1.0, 2.0, 3.0], [-1.0, 0.0, 0.25], [8.0, 0.125, -2.0]], dtype=np.float32)


def as_text(header):
    lines = [f"{len(WORDS)} 3"] if header else []
    lines += [f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS, VECTORS.tolist(), strict=True)]
    return ("\n".join(lines) + "\n").encode()


def as_binary(line_breaks):
    end = b"\n" if line_breaks else b""
    entries = [word.encode() + b" " + row.tobytes() + end for word, row in zip(WORDS, VECTORS, strict=True)]
    return f"{len(WORDS)} 3\n".encode() + b"".join(entries)


FILES = {
    "glove.txt": as_text(header=False),
    "word2vec.txt": as_text(header=True),
    "word2vec.vec.gz": gzip.compress(as_text(header=True)),
    "word2vec.bin": as_binary(line_breaks=False),
    "word2vec-lines.bin": as_binary(line_breaks=True),
    "word2vec.bin.gz": gzip.compress(as_binary(line_breaks=True)),
}


@pytest.mark.parametrize("name", FILES)
def test_all_formats_read_the_same(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    listed, vectors = read_word_vectors(tmp_path / name)
    assert listed == WORDS
    assert np.array_equal(vectors, VECTORS)
    listed, vectors = read_word_vectors(tmp_path / name, limit=2)
    assert listed == WORDS[:2]
    assert np.array_equal(vectors, VECTORS[:2])


@pytest.mark.parametrize("as_bytes", [True, False])
def test_arrays_are_read_too(tmp_path, as_bytes):
    kept = np.frombuffer("\n".join(WORDS).encode(), dtype=np.uint8) if as_bytes else np.array(WORDS)
    np.savez(tmp_path / "v.npz", words=kept, vectors=VECTORS.astype(np.float16))
    listed, vectors = read_word_vectors(tmp_path / "v.npz", limit=3)
    assert listed == WORDS[:3]
    assert np.array_equal(vectors, VECTORS[:3])


def test_the_first_vector_of_a_repeated_word_is_used(tmp_path):
    (tmp_path / "v.txt").write_text("a 1 2\nb 3 4\na 5 6\n")
    listed, vectors = read_word_vectors(tmp_path / "v.txt")
    assert listed == ["a", "b"]
    assert vectors.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("v.txt", b"", "it is empty"),
        ("v.txt", b"a 1 2\nb 3\n", "the vector of 'b' has 1 numbers, but 'a' has 2"),
        ("v.txt", b"a 1 x\n", "could not convert"),
        ("v.bin", as_binary(False)[:-3], "it ends before its 4 words"),
        ("v.bin", as_binary(False)[:14], "it ends before its 4 words"),
        ("v.bin", b"no sizes here\n", "invalid literal"),
        ("v.npz", b"no archive", "pickle"),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(OSError, match=f"{name} is not a file of word vectors: .*{why}"):
        read_word_vectors(tmp_path / name)


def test_an_average_counts_every_occurrence_of_a_known_word():
    embed = WordVectors((WORDS, VECTORS)).fit(["anything"])
    texts = ["The the DON'T", "naïve, unknown!", "nothing known", ""]
    expected = [(2 * VECTORS[0] + VECTORS[2]) / 3, VECTORS[1], np.zeros(3), np.zeros(3)]
    assert np.allclose(embed.transform(texts), expected)
    with_capitals = WordVectors((WORDS, VECTORS), lowercase=False).fit(texts)
    assert np.allclose(with_capitals.transform(texts)[0], VECTORS[0])


def test_rare_words_count_more_with_idf():
    texts = ["the naïve", "the", "the", "the"]
    embed = WordVectors((WORDS, VECTORS), weighting="idf").fit(texts)
    common, rare = embed.weights_[:2]
    assert common == pytest.approx(np.log(5 / 5) + 1)
    assert rare == pytest.approx(np.log(5 / 2) + 1)
    assert np.allclose(embed.transform(texts[:1])[0], (common * VECTORS[0] + rare * VECTORS[1]) / (common + rare))


def test_invalid_vectors_and_texts_are_refused():
    with pytest.raises(ValueError, match=r"'weighting' parameter of WordVectors .* Got 'max' instead"):
        WordVectors((WORDS, VECTORS), weighting="max").fit(["a"])
    for pair in ((WORDS[:2], VECTORS), (["a", "a"], VECTORS[:2]), (WORDS, VECTORS[0])):
        with pytest.raises(ValueError, match="pair of distinct words"):
            WordVectors(pair).fit(["a"])
    for texts in ("one text", [1, 2], [["a", "b"]]):
        with pytest.raises(ValueError, match="must be a list or an array"):
            WordVectors((WORDS, VECTORS)).fit(texts).transform(texts)


def test_mean_vectors_of_real_reviews_match_a_published_file(data_dir):
    """A file of mean vectors was made by someone else; ours of the same texts point the same way."""
    texts, known = (load_imdb(kind=kind, data_home=data_dir) for kind in ("texts", "glove"))
    some = slice(0, 25000, 500)
    ours = WordVectors(data_dir / "glove" / "glove_6b_100d_subset.npz").fit_transform(texts.X_train[some])
    theirs = known.X_train[some]
    cosine = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosine.min() > 0.97


def test_messages_are_certified_from_their_words(data_dir):
    data = load_sms_spam(data_home=data_dir)
    embed = WordVectors(data_dir / "glove" / "glove_6b_100d_subset.npz", weighting="idf")
    model = CertifiedRidgeClassifier(features=embed, classes=data.classes).fit(data.X_train, data.y_train)
    accuracy = certified_accuracy(data.y_test, model.certify(data.X_test), flips=[0, 20])
    assert accuracy[0] > np.mean(data.y_test == 0) + 0.03  # what calling nothing spam would reach
    assert accuracy[1] > 0.84
