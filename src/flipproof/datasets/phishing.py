"""Web pages that are, or only pretend to be, what they look like."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.datasets.files import PublicFile, Shelf
from flipproof.datasets.result import Dataset
from flipproof.datasets.splitting import split_rows

OPENML_NUMBER = 4534


def table_from_openml(folder: Path) -> bytes:
    """Return the data of OpenML as the text of a table, by scikit-learn's own way of getting it."""
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings(action="ignore"):  # one for every try; what counts is the last
        found = fetch_openml(data_id=OPENML_NUMBER, as_frame=False, parser="liac-arff", data_home=folder)
    columns = [
        _openml_values(column, found.categories.get(name))
        for name, column in zip(found.feature_names, found.data.T, strict=True)
    ]
    table = np.column_stack([*columns, found.target.astype(np.int64)])
    lines = [(*found.feature_names, *found.target_names), *table.astype(str).tolist()]
    return "\n".join(",".join(line) for line in lines).encode()


def _openml_values(column: NDArray[Any], categories: list[str] | None) -> NDArray[np.int64]:
    """Return the numbers that a column of OpenML stands for: it holds the numbers of its categories instead."""
    if categories is None:
        return column.astype(np.int64)
    return np.array(categories).astype(np.int64)[column.astype(np.int64)]


PHISHING = PublicFile(
    "phishing_website.csv",
    {"185bec7758c4059a9179cb0b112dcdb8fc93edf3e4ffd601b761b8a1ba0e2a41": "the original values as a table"},
    fetch=table_from_openml,
)


def load_phishing(
    *,
    test_size: float = 0.25,
    random_state: int = 0,
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load the phishing websites data: 11,055 pages, 30 features of -1, 0 or 1; 4,898 are phishing (-1).

    Parameters
    ----------
    test_size, random_state
        There is no official test part: this share of the rows is drawn for it, without a look at the labels.
    data_home, folder, download_if_missing, check
        As of :func:`load_mnist`; the file is ``phishing_website.csv`` in ``phishing_websites/``: a line of names, then
        rows whose last number is the label. It is fetched from OpenML.

    Returns
    -------
    Dataset
    """
    shelf = Shelf("Phishing websites", "phishing_websites", data_home, folder, download_if_missing, check)
    names, *lines = shelf.read(PHISHING).decode("utf-8").splitlines()
    table = np.array([line.split(",") for line in lines], dtype=np.int64)
    X, y = table[:, :-1].astype(np.float64), table[:, -1]
    X_train, y_train, X_test, y_test = split_rows(X, y, test_size, random_state)
    return Dataset(
        name="Phishing websites",
        X_train=X_train,
        y_train=y_train,
        X_test=X_test,
        y_test=y_test,
        classes=(-1, 1),
        class_names=("phishing", "legitimate"),
        provenance=f"UCI Phishing Websites (Mohammad, Thabtah, McCluskey). {shelf.origins()}.",
        checksums=shelf.checksums,
        feature_names=tuple(names.split(",")[:-1]),
    )
