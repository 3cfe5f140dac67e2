"""Film reviews (IMDB), text messages (SMS spam) and emails (Enron spam)."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.datasets.shelf import ORIGINAL, Dataset, PublicFile, Shelf, arrays, split_rows
from flipproof.parameters import check_parameter, one_of

REVIEWS = "aclImdb"
REVIEWS_ARCHIVE = PublicFile(
    "aclImdb_v1.tar.gz",
    {"c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe": ORIGINAL},
    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
)
#: One review per line: label, number, rating, text. Reviews in other forms are converted to this one to be checked.
TRAIN_LINES = PublicFile(
    "train.tsv",
    {"e59815dd27d49835c6ef937da7a47388168d9ef8d50ce38b3e3948b1d63dd97c": "the original reviews, one a line"},
)
TEST_LINES = PublicFile(
    "test.tsv",
    {"04500f8e53ea08650bb0b68287257a61c729a49c09ed6cb560eb3ce600ef05e3": "the original reviews, one a line"},
)
MEAN_VECTORS = PublicFile(
    "imdb_glove100_mean.npz",
    {
        "db6f709305c77934fdcfe8405fb18a6c0798076f742bc3891ccebc5ee6897185": (
            "a stand-in for averaged Google News vectors: the mean GloVe 6B vector (100 numbers) of each review's words"
        )
    },
)
#: Path of a review: part, kind, number and rating.
REVIEW_PATH = re.compile(rf"{REVIEWS}/(train|test)/(neg|pos)/(\d+)_(\d+)\.txt")

MESSAGES = PublicFile(
    "SMSSpamCollection",
    {"7d039a24a6083ed9ef0f806ebad56bbb976e3aeb8de05669173bfdc4996c239d": ORIGINAL},
    "https://archive.ics.uci.edu/static/public/228/sms+spam+collection.zip",
    member="SMSSpamCollection",
)

#: Sentence embeddings of the messages and of the emails, in the order of these files.
MESSAGE_VECTORS = PublicFile(
    "sms_minilm.npz",
    {
        "093c10a2265fbbfd4c2eb54297a262587e8b4029ad2457703f082b2827b8a3fb": (
            "sentence embeddings of all-MiniLM-L6-v2, of the first 128 tokens of each message"
        )
    },
)
EMAIL_VECTORS = PublicFile(
    "enron_minilm.npz",
    {
        "f5e73078839dd580014b66549c14ac8dd9cf71b43f8171c15d814787b33ad64e": (
            "sentence embeddings of all-MiniLM-L6-v2, of the first 192 tokens of each mail"
        )
    },
)

#: One mail per line, as JSON: label (1: spam), name of the file, text.
EMAILS = PublicFile(
    "enron_farmer_gp.jsonl",
    {
        "90935d33742a590ce24d8ad68a75ebb2557fca06512a552e04a14967f5e676a1": (
            "a part of Enron-Spam: all 3,225 ham emails of farmer, and every fourth spam mail of GP by date"
        )
    },
)


def load_imdb(
    *,
    kind: str = "texts",
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load 25,000 training and 25,000 test film reviews, half of each positive (the Large Movie Review Dataset).

    Parameters
    ----------
    kind : {"texts", "glove"}
        ``"texts"``: the reviews. ``"glove"``: the file ``imdb_glove100_mean.npz``, 100 numbers per review.
    data_home : path, optional
        Folder of all data sets, this one in ``imdb/``; see :func:`get_data_home`.
    folder : path, optional
        Folder with one of the forms: ``train.tsv`` and ``test.tsv`` (label, number, rating, text; compressed or not),
        ``aclImdb/`` as published, or ``aclImdb_v1.tar.gz``. Nothing is downloaded into it.
    download_if_missing : bool
        Download the reviews (84 MB) if they are not in the data home.
    check : bool
        Refuse files whose content differs from the published files.

    Returns
    -------
    Dataset
        Rows are sorted: negative before positive, then by number.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_sms_spam : Short messages.

    Examples
    --------
    >>> from flipproof.datasets import load_imdb
    >>> data = load_imdb()
    >>> data.X_train.shape, data.class_names
    ((25000,), ('negative', 'positive'))
    """
    check_parameter("load_imdb", "kind", kind, one_of("texts", "glove"))
    shelf = Shelf("IMDB", "imdb", data_home, folder, download_if_missing, check)
    X_train: NDArray[Any]
    X_test: NDArray[Any]
    if kind == "glove":
        data = arrays(shelf, MEAN_VECTORS, ("X_train", "y_train", "X_test", "y_test"))
        X_train, X_test = (data[name].astype(np.float32) for name in ("X_train", "X_test"))
        y_train, y_test = (data[name].astype(np.int64) for name in ("y_train", "y_test"))
    else:
        (X_train, y_train), (X_test, y_test) = map(_parsed_reviews, _review_lines(shelf))
    return shelf.dataset(
        f"IMDB, {kind}",
        (X_train, y_train, X_test, y_test),
        classes=(0, 1),
        class_names=("negative", "positive"),
        cited="Large Movie Review Dataset 1.0 (Maas et al. 2011)",
    )


def load_sms_spam(
    *,
    kind: str = "texts",
    test_size: float = 0.25,
    random_state: int = 0,
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load the 5,574 texts of the SMS Spam Collection, 747 of them spam.

    Parameters
    ----------
    kind : {"texts", "minilm"}
        ``"texts"``: the messages. ``"minilm"``: the file ``sms_minilm.npz`` in ``minilm/``, 384 numbers per message by
        a pretrained sentence encoder, as :class:`flipproof.features.SentenceEncoder` computes them; not downloaded.
    test_size, random_state
        There is no official test set: this share of the rows is drawn at random, without using the labels.
    data_home, folder, download_if_missing, check
        See :func:`load_mnist`; the file is ``SMSSpamCollection`` in ``sms_spam/``.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_imdb : Film reviews.

    Examples
    --------
    >>> from flipproof.datasets import load_sms_spam
    >>> data = load_sms_spam()
    >>> data.X_train.shape, data.class_names
    ((4180,), ('ham', 'spam'))
    """
    check_parameter("load_sms_spam", "kind", kind, one_of("texts", "minilm"))
    rows: NDArray[Any]
    if kind == "minilm":
        shelf = Shelf("SMS spam, MiniLM,", "minilm", data_home, folder, False, check)
        rows, is_spam = _sentence_vectors(shelf, MESSAGE_VECTORS)
    else:
        shelf = Shelf("SMS spam", "sms_spam", data_home, folder, download_if_missing, check)
        lines = [line.split("\t", 1) for line in _lines(shelf.read(MESSAGES))]
        rows = _object_array(text for _, text in lines)
        is_spam = np.array([label == "spam" for label, _ in lines], dtype=np.int64)
    parts = split_rows(rows, is_spam, test_size, random_state)
    return shelf.dataset(
        "SMS spam" if kind == "texts" else "SMS spam, sentence embeddings",
        parts,
        classes=(0, 1),
        class_names=("ham", "spam"),
        cited="SMS Spam Collection v.1 (Almeida, Hidalgo)",
    )


def load_enron_spam(
    *,
    kind: str = "texts",
    test_size: float = 0.25,
    random_state: int = 0,
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    check: bool = True,
) -> Dataset:
    """Load 4,723 emails of the Enron-Spam corpus, 1,498 of them spam.

    Parameters
    ----------
    kind : {"texts", "minilm"}
        ``"texts"``: the emails. ``"minilm"``: the file ``enron_minilm.npz`` in ``minilm/``, 384 numbers per mail by a
        pretrained sentence encoder; see :func:`load_sms_spam`.
    test_size, random_state
        There is no official test set: this share of the rows is drawn at random, without using the labels.
    data_home, folder, check
        See :func:`load_mnist`; the file is ``enron_farmer_gp.jsonl`` in ``enron_spam/``. It is not downloaded.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_sms_spam : Short messages.

    Examples
    --------
    >>> from flipproof.datasets import load_enron_spam
    >>> data = load_enron_spam()
    >>> data.X_train.shape, data.class_names
    ((3542,), ('ham', 'spam'))
    """
    check_parameter("load_enron_spam", "kind", kind, one_of("texts", "minilm"))
    rows: NDArray[Any]
    if kind == "minilm":
        shelf = Shelf("Enron spam, MiniLM,", "minilm", data_home, folder, False, check)
        rows, is_spam = _sentence_vectors(shelf, EMAIL_VECTORS)
    else:
        shelf = Shelf("Enron spam", "enron_spam", data_home, folder, False, check)
        emails = [json.loads(line) for line in _lines(shelf.read(EMAILS))]
        is_spam = np.array([mail["label"] for mail in emails], dtype=np.int64)
        rows = _object_array(mail["text"] for mail in emails)
    parts = split_rows(rows, is_spam, test_size, random_state)
    return shelf.dataset(
        "Enron spam" if kind == "texts" else "Enron spam, sentence embeddings",
        parts,
        classes=(0, 1),
        class_names=("ham", "spam"),
        cited="Enron-Spam (Metsis, Androutsopoulos, Paliouras 2006)",
    )


def _sentence_vectors(shelf: Shelf, file: PublicFile) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    data = arrays(shelf, file, ("X", "y"))
    return data["X"].astype(np.float32), data["y"].astype(np.int64)


def _review_lines(shelf: Shelf) -> tuple[bytes, bytes]:
    """Return the training and the test reviews, one per line, from the first form that exists."""
    if shelf.find(TRAIN_LINES):
        return shelf.read(TRAIN_LINES), shelf.read(TEST_LINES)
    if (shelf.folder / REVIEWS).is_dir():
        where, lines = str(shelf.folder / REVIEWS), _in_lines(_in_folder(shelf.folder))
    else:
        archive, where = shelf.read(REVIEWS_ARCHIVE), str(shelf.folder / REVIEWS_ARCHIVE.name)
        lines = _in_lines(_in_archive(archive, where))
    return (
        shelf.note(TRAIN_LINES, f"{where} (train)", lines["train"]),
        shelf.note(TEST_LINES, f"{where} (test)", lines["test"]),
    )


def _in_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in (folder / REVIEWS).glob("*/*/*.txt"):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def _in_archive(content: bytes, where: str) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for entry in archive:
                member = archive.extractfile(entry) if REVIEW_PATH.fullmatch(entry.name) else None
                if member is not None:
                    yield entry.name, member.read()
    except (tarfile.TarError, EOFError) as error:
        raise OSError(f"{where} is not an archive of reviews: {error}") from error


def _in_lines(reviews: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return the reviews of each part, one per line, negative before positive, then by number."""
    parts: dict[str, list[tuple[int, int, bytes]]] = {"train": [], "test": []}
    for path, text in reviews:
        match = REVIEW_PATH.fullmatch(path)
        if match:
            part, kind, number, rating = match.groups()
            label, one_line = int(kind == "pos"), re.sub(rb"[\t\r\n]", b" ", text)
            line = b"%d\t%s\t%s\t%s\n" % (label, number.encode(), rating.encode(), one_line)
            parts[part].append((label, int(number), line))
    return {part: b"".join(line for *_, line in sorted(found)) for part, found in parts.items()}


def _parsed_reviews(content: bytes) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    rows = [line.split("\t", 3) for line in _lines(content)]
    return _object_array(row[3] for row in rows), np.array([int(row[0]) for row in rows], dtype=np.int64)


def _lines(content: bytes) -> list[str]:
    r"""Return the lines of a text, split only at "\n": `splitlines` would also split at characters like U+0085."""
    return content.decode("utf-8").removesuffix("\n").split("\n")


def _object_array(texts: Iterable[str]) -> NDArray[np.object_]:
    return np.array(list(texts), dtype=object)
