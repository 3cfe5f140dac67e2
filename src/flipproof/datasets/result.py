"""What every loader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Training and test rows of a public data set, and where they come from.

    Attributes
    ----------
    name : str
        The data set.
    X_train, X_test : array of shape (n, ...)
        One row each: numbers, pixels (flattened, see `image_shape`), texts, or columns of both kinds (`categorical`).
    y_train, y_test : array of shape (n,)
        Labels as whole numbers.
    classes : tuple of int
        The class set, sorted. It is known beforehand: give it to a learner as ``classes=``, and certificates need not
        assume that it was not read from labels.
    class_names : tuple of str
        What each of `classes` means.
    provenance : str
        Which files were read, whether they are the original or a stand-in, and how that was checked.
    checksums : mapping of str to str
        SHA-256 of each file's content, unpacked where it was compressed.
    feature_names : tuple of str
        Names of the columns, empty where they have none.
    categorical : tuple of int
        Numbers of the columns that hold words instead of numbers.
    image_shape : tuple of int, optional
        Height, width and (for colour) channels of an image that was flattened into a row.
    """

    name: str
    X_train: NDArray[Any]
    y_train: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    classes: tuple[int, ...]
    class_names: tuple[str, ...]
    provenance: str
    checksums: Mapping[str, str]
    feature_names: tuple[str, ...] = ()
    categorical: tuple[int, ...] = ()
    image_shape: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"<Dataset: {self.name}, {len(self.y_train)} training rows, {len(self.y_test)} test rows>"
