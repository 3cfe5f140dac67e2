"""Small tables: Spambase, German credit, Adult, phishing websites."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Values
from flipproof.datasets.shelf import ORIGINAL, Dataset, PublicFile, Shelf, split_rows
from flipproof.parameters import check_parameter, one_of

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

SPAMBASE = PublicFile(
    "spambase.data",
    {"b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12": ORIGINAL},
    f"{UCI}/spambase/spambase.data",
)
GERMAN_NUMBERS = PublicFile(
    "german.data-numeric",
    {"2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8": ORIGINAL},
    f"{UCI}/statlog/german/german.data-numeric",
)
GERMAN_NUMBERS_CSV = PublicFile(
    "german.data-numeric.csv",
    {"75e373f6c4ead2341777729e3a7f8f937b68e89592885a458e8559be7983592d": "the original numbers, with commas"},
)
GERMAN_WORDS = PublicFile(
    "german.data",
    {
        "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871": ORIGINAL,
        "d4d07316a7b3dd7271bb9903dd992cd7437735211f3d75db7f8e5a56c1440984": "the original with names, bad as 0",
    },
    f"{UCI}/statlog/german/german.data",
)
ADULT_TRAIN = PublicFile(
    "adult.data",
    {
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d": ORIGINAL,
        "bfa781e36598918535d49f2c199ced8e4fa0f78abda99337b00a37df479c166a": "the original with a line of names",
    },
    f"{UCI}/adult/adult.data",
)
ADULT_TEST = PublicFile(
    "adult.test",
    {
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05": ORIGINAL,
        "7200d2ccc5660b8e61c7f138fca2682a6450f822478dd5f0cdeb707cb055f481": "the original with a line of names",
    },
    f"{UCI}/adult/adult.test",
)
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
)
ADULT_WORDS = (1, 3, 5, 6, 7, 8, 9, 13)
GERMAN_COLUMNS = (
    *("status", "duration", "credit_history", "purpose", "amount", "savings", "employment", "installment_rate"),
    *("personal_status_sex", "other_debtors", "residence_since", "property", "age", "installment_plans", "housing"),
    *("existing_credits", "job", "liable_people", "telephone", "foreign_worker"),
)
GERMAN_WORD_COLUMNS = (0, 2, 3, 5, 6, 8, 9, 11, 13, 14, 16, 18, 19)


def load_spambase(
    *,
    test_size: float = 0.25,
    random_state: int = 0,
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load Spambase: 4,601 emails as 57 frequencies of words and characters, 1,813 of them spam.

    Parameters
    ----------
    test_size, random_state
        There is no official test set: this share of the rows is drawn at random, without using the labels.
    data_home, folder, download_if_missing, check
        See :func:`load_mnist`; the file is ``spambase.data`` in ``spambase/``.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_phishing : Phishing websites.

    Examples
    --------
    >>> from flipproof.datasets import load_spambase
    >>> data = load_spambase()
    >>> data.X_train.shape, data.class_names
    ((3451, 57), ('ham', 'spam'))
    """
    shelf = Shelf("Spambase", "spambase", data_home, folder, download_if_missing, check)
    table = np.array(rows_of(shelf, SPAMBASE), dtype=np.float64)
    parts = split_rows(table[:, :-1], table[:, -1].astype(np.int64), test_size, random_state)
    return shelf.dataset(
        "Spambase",
        parts,
        classes=(0, 1),
        class_names=("ham", "spam"),
        cited="UCI Spambase (Hopkins, Reeber, Forman, Suermondt)",
    )


def load_german_credit(
    *,
    kind: str = "numbers",
    test_size: float = 0.25,
    random_state: int = 0,
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load the German credit data: 1,000 loans, 700 good (1) and 300 bad (2).

    Parameters
    ----------
    kind : {"numbers", "words"}
        ``"numbers"``: 24 columns, ``german.data-numeric`` (or the same with commas, ``german.data-numeric.csv``).
        ``"words"``: 20 columns, 13 of them codes like A11, ``german.data``.
    test_size, random_state
        There is no official test set: this share of the rows is drawn at random, without using the labels.
    data_home, folder, download_if_missing, check
        See :func:`load_mnist`; the files are in ``german_credit/``.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_adult : Census income.

    Examples
    --------
    >>> from flipproof.datasets import load_german_credit
    >>> data = load_german_credit()
    >>> data.X_train.shape, data.class_names
    ((750, 24), ('good', 'bad'))
    """
    check_parameter("load_german_credit", "kind", kind, one_of("numbers", "words"))
    shelf = Shelf("German credit", "german_credit", data_home, folder, download_if_missing, check)
    categorical: tuple[int, ...] = ()
    X: NDArray[Any]
    if kind == "numbers":
        with_commas = shelf.find(GERMAN_NUMBERS) is None and shelf.find(GERMAN_NUMBERS_CSV) is not None
        rows = rows_of(shelf, GERMAN_NUMBERS_CSV if with_commas else GERMAN_NUMBERS)
        X, labels = np.array(rows, dtype=np.float64)[:, :-1], [row[-1] for row in rows]
    else:
        rows, categorical = rows_of(shelf, GERMAN_WORDS, number_column=1), GERMAN_WORD_COLUMNS
        X, labels = mixed_columns(rows, categorical), [row[-1] for row in rows]
    y = np.where(np.array(labels) == "1", 1, 2)
    parts = split_rows(X, y, test_size, random_state)
    return shelf.dataset(
        f"German credit, {kind}",
        parts,
        classes=(1, 2),
        class_names=("good", "bad"),
        cited="UCI Statlog German credit (Hofmann)",
        feature_names=GERMAN_COLUMNS if kind == "words" else (),
        categorical=categorical,
    )


def load_adult(
    *,
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load the Adult (census income) data: 32,561 training and 16,281 test rows, 14 columns, 8 of them words.

    Parameters
    ----------
    data_home, folder, download_if_missing, check
        See :func:`load_mnist`; the files are ``adult.data`` and ``adult.test`` in ``adult/``.

    Returns
    -------
    Dataset
        Unknown words are "?", as published.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_german_credit : Loans.

    Examples
    --------
    >>> from flipproof.datasets import load_adult
    >>> data = load_adult()
    >>> data.X_train.shape, data.class_names
    ((32561, 14), ('<=50K', '>50K'))
    """
    shelf = Shelf("Adult", "adult", data_home, folder, download_if_missing, check)
    parts = [rows_of(shelf, file) for file in (ADULT_TRAIN, ADULT_TEST)]
    X_train, X_test = (mixed_columns(rows, ADULT_WORDS) for rows in parts)
    y_train, y_test = (np.array([row[-1].startswith(">50K") for row in rows], dtype=np.int64) for rows in parts)
    return shelf.dataset(
        "Adult",
        (X_train, y_train, X_test, y_test),
        classes=(0, 1),
        class_names=("<=50K", ">50K"),
        cited="UCI Adult (Becker, Kohavi)",
        feature_names=ADULT_COLUMNS,
        categorical=ADULT_WORDS,
    )


def rows_of(shelf: Shelf, file: PublicFile, number_column: int = 0) -> list[list[str]]:
    """Return the fields of a table's rows, separated by blanks or commas, without a header line."""
    lines = shelf.read(file).decode("utf-8").replace(",", " ").splitlines()
    fields_of_lines = [line.split() for line in lines]
    rows = [fields for fields in fields_of_lines if len(fields) > number_column and _is_number(fields[number_column])]
    if not rows or len({len(fields) for fields in rows}) > 1:
        raise OSError(f"{shelf.folder / file.name} is not a table of this data set: its rows differ in length.")
    return rows


def mixed_columns(rows: Sequence[Sequence[str]], categorical: tuple[int, ...]) -> NDArray[np.object_]:
    """Return all columns of a table except the last: words unchanged, numbers as floats."""
    X = np.array([row[:-1] for row in rows], dtype=object)
    for j in range(X.shape[1]):
        if j not in categorical:
            X[:, j] = X[:, j].astype(np.float64)
    return X


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


OPENML_NUMBER = 4534


def table_from_openml(folder: Path) -> bytes:
    """Return data of OpenML as the text of a table, downloaded by scikit-learn."""
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings(action="ignore"):  # one per retry; only the last result matters
        found = fetch_openml(data_id=OPENML_NUMBER, as_frame=False, parser="liac-arff", data_home=folder)
    columns = [
        _openml_values(column, found.categories.get(name))
        for name, column in zip(found.feature_names, found.data.T, strict=True)
    ]
    table = np.column_stack([*columns, found.target.astype(np.int64)])
    lines = [(*found.feature_names, *found.target_names), *table.astype(str).tolist()]
    return "\n".join(",".join(line) for line in lines).encode()


def _openml_values(column: Values, categories: list[str] | None) -> NDArray[np.int64]:
    """Return the values of an OpenML column, which contains the indices of its categories."""
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
        There is no official test set: this share of the rows is drawn at random, without using the labels.
    data_home, folder, download_if_missing, check
        See :func:`load_mnist`; the file is ``phishing_website.csv`` in ``phishing_websites/``: a header line, then
        rows whose last number is the label. It is downloaded from OpenML.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_spambase : Emails as frequencies.

    Examples
    --------
    >>> from flipproof.datasets import load_phishing
    >>> data = load_phishing()
    >>> data.X_train.shape, data.class_names
    ((8291, 30), ('phishing', 'legitimate'))
    """
    shelf = Shelf("Phishing websites", "phishing_websites", data_home, folder, download_if_missing, check)
    names, *lines = shelf.read(PHISHING).decode("utf-8").splitlines()
    table = np.array([line.split(",") for line in lines], dtype=np.int64)
    X, y = table[:, :-1].astype(np.float64), table[:, -1]
    parts = split_rows(X, y, test_size, random_state)
    return shelf.dataset(
        "Phishing websites",
        parts,
        classes=(-1, 1),
        class_names=("phishing", "legitimate"),
        cited="UCI Phishing Websites (Mohammad, Thabtah, McCluskey)",
        feature_names=tuple(names.split(",")[:-1]),
    )
