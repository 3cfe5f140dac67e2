"""The options that say which data, and what they come to: training and test rows, labels, names of rows."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli.demo import check_seed
from flipproof.cli.options import DATA, nearest, option, split_at_commas, together

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from flipproof.tables import TextLayout

WILDCARDS = "*?["
FORMATS = ("csv", "tsv", "parquet", "arrow", "npz", "npy")

FILE = click.Path(path_type=Path)


def _columns_option(name: str, text: str, **settings: Any) -> Any:
    return option(name, group=DATA, multiple=True, callback=split_at_commas, metavar="COLS", help=text, **settings)


data_options = together(
    option(
        "--train",
        group=DATA,
        type=FILE,
        required=True,
        metavar="FILE",
        help="Training rows: CSV, TSV, Parquet, Arrow, Feather, NPZ or NPY, also compressed (.gz, .xz, .bz2). For "
        "certify, also a folder or pattern of Parquet files, which may be larger than memory.",
    ),
    option("--test", group=DATA, type=FILE, metavar="FILE", help="Rows to predict, with or without labels."),
    option(
        "--holdout",
        group=DATA,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        metavar="SHARE",
        help="Instead of --test: hold out this share of the training rows, drawn at random.",
    ),
    option("--label", group=DATA, required=True, metavar="COL", help="Column with the labels."),
    _columns_option("--features", "Columns to learn from; * matches anything. Default: all other columns."),
    _columns_option("--drop", "Columns to leave out; * matches anything."),
    _columns_option("--text", "Columns to treat as text, not as categories."),
    option("--id", "id_column", group=DATA, metavar="COL", help="Column with row names. Default: row numbers."),
    option(
        "--scale",
        group=DATA,
        type=click.Choice(["standard", "rank", "none"]),
        default="standard",
        help="How to scale numbers; use rank for heavy tails. Default: standard",
    ),
    option(
        "--text-dimensions",
        group=DATA,
        type=click.IntRange(min=1),
        default=200,
        metavar="N",
        help="Number of features per text column. Default: 200",
    ),
    option("--no-header", group=DATA, is_flag=True, help="The file has no header line. Columns are named f0, f1, ..."),
    _columns_option("--names", "Column names for a file without a header line."),
    option("--separator", group=DATA, metavar="CHAR", help="Column separator. Default: detected."),
    option("--no-quotes", group=DATA, is_flag=True, help='Treat " as an ordinary character.'),
    option(
        "--format", "kind", group=DATA, type=click.Choice(FORMATS), help="File format. Default: by the file ending."
    ),
    option(
        "--seed",
        group=DATA,
        type=int,
        callback=check_seed,
        default=0,
        metavar="N",
        help="Random seed for --holdout. Default: 0",
    ),
)


@dataclass(frozen=True)
class DataChoice:
    """What the options of data say."""

    train: Path
    test: Path | None
    holdout: float | None
    label: str
    features: tuple[str, ...]
    drop: tuple[str, ...]
    text: tuple[str, ...]
    id_column: str | None
    scale: str
    text_dimensions: int
    no_header: bool
    names: tuple[str, ...]
    separator: str | None
    no_quotes: bool
    kind: str | None
    seed: int

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> DataChoice:
        """Take what belongs here out of a command's options."""
        return cls(**{name: options.pop(name) for name in cls.__dataclass_fields__})

    @property
    def files(self) -> tuple[Path | None, ...]:
        """The files that are read."""
        return self.train, self.test


@dataclass(frozen=True)
class Rows:
    """Rows of a file, with what is known of them besides their features."""

    features: pa.Table
    labels: NDArray[Any] | None
    ids: list[Any]
    others: Mapping[str, pa.ChunkedArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


def read_rows(choice: DataChoice, others: Sequence[str] = ()) -> tuple[Rows, Rows]:
    """Read training and test rows.

    Parameters
    ----------
    choice : DataChoice
        Which files and columns.
    others : sequence of str
        Columns of the training rows that say something about their labels, and are no features.

    Raises
    ------
    ValueError, OSError
        In one line, for whatever does not fit.
    """
    from flipproof.tables import read_table
    from flipproof.tables.columns import index_columns

    if (choice.test is None) == (choice.holdout is None):
        raise click.UsageError("Give either --test FILE or --holdout SHARE.")
    table = read_table(
        choice.train, _layout(choice), part="train", as_words=choice.text, purposes=_purposes(choice, others)
    )
    names = feature_names(choice, table.column_names, others, index_columns(table.schema))
    refuse_copies_of_the_label(table.select(names), table[choice.label], choice.label)
    if choice.holdout is not None:
        train, test = _held_out(table, choice.holdout, choice.seed)
        return _rows(train, choice, names, others, None), _rows(test, choice, names, (), "--train")
    rows = _rows(table, choice, names, others, None)
    return rows, read_test_rows(choice, names, table.schema, rows.labels)


def read_test_rows(choice: DataChoice, names: Sequence[str], schema: pa.Schema, train_labels: Any) -> Rows:
    """Read test rows; names of features, the schema and the kind of labels are those of the training rows."""
    from flipproof.tables import read_table

    written = [field.name for field in schema if _is_words(field.type)]
    purposes = {name: purpose for name, purpose in _purposes(choice).items() if name not in written}
    table = read_table(choice.test or "", _layout(choice), part="test", as_words=written, purposes=purposes)
    return _rows(table, choice, names, (), str(choice.test), train_labels)


def _purposes(choice: DataChoice, others: Sequence[str] = ()) -> dict[str, str]:
    """Return what columns are for that are no features; `others` are those of trust and of annotators."""
    named: dict[str, str] = {choice.id_column or "": "ids", **dict.fromkeys(others[1:], "names"), choice.label: "label"}
    return {name: purpose for name, purpose in named.items() if name and name not in choice.text}


def _layout(choice: DataChoice) -> TextLayout:
    from flipproof.tables import TextLayout

    return TextLayout(
        names=choice.names,
        header=not choice.no_header,
        separator={"\\t": "\t"}.get(choice.separator or "", choice.separator),
        quotes=not choice.no_quotes,
        kind=choice.kind,
    )


def feature_names(
    choice: DataChoice, columns: Sequence[str], others: Sequence[str] = (), index: Collection[str] = ()
) -> list[str]:
    """Return the columns to learn from, and refuse names that are not there or have two purposes.

    Columns of an `index`, which pandas does not regard as columns, are left out unless somebody names them.
    """
    purposes = {"--label": choice.label, "--id": choice.id_column}
    purposes |= {f"--{purpose}": name for purpose, name in zip(("trusted", "annotator"), others, strict=False)}
    taken: dict[str, str] = {}
    for purpose, name in purposes.items():
        if not name:
            continue
        require_column(name, columns, purpose, choice.train)
        if name in taken:
            raise ValueError(f"column {name!r} cannot be both {taken[name]} and {purpose}.")
        taken[name] = purpose
    wanted = [*choice.features, *choice.text] if choice.features else list(columns)
    named = {*choice.features, *choice.text}
    found = dict.fromkeys(name for pattern in wanted for name in _matching(pattern, columns, "--features", choice))
    chosen = [name for name in found if name not in index or name in named]
    for name in (*choice.features, *choice.text):
        if name in taken:
            kind = "label" if taken[name] == "--label" else taken[name]
            raise ValueError(f"the {kind} column {name!r} is among the features: it cannot be learnt from.")
    for name in choice.text:
        require_column(name, columns, "--text", choice.train)
    dropped = dropped_columns(choice, columns)
    names = [name for name in chosen if name not in taken and name not in dropped]
    if not names:
        raise ValueError(f"no column of {str(choice.train)!r} is left to learn from.")
    return names


def dropped_columns(choice: DataChoice, columns: Sequence[str]) -> set[str]:
    """Return the columns to leave out, and refuse names that are not there."""
    return {name for pattern in choice.drop for name in _matching(pattern, columns, "--drop", choice)}


def require_column(name: str, columns: Sequence[str], purpose: str, path: Path) -> None:
    """Refuse a column that is not there, and name the one that may have been meant."""
    if name not in columns:
        raise ValueError(f"{purpose}: {str(path)!r} has no column {name!r}.{nearest(name, columns)}")


def _matching(pattern: str, columns: Sequence[str], purpose: str, choice: DataChoice) -> list[str]:
    if pattern in columns:
        return [pattern]
    found = fnmatch.filter(columns, pattern) if any(sign in pattern for sign in WILDCARDS) else []
    if not found:
        require_column(pattern, columns, purpose, choice.train)
    return found


def _is_words(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def refuse_copies_of_the_label(features: pa.Table, labels: pa.ChunkedArray, label: str) -> None:
    """Refuse a feature that is the label once more: it would not change with the label."""
    for name in features.column_names:
        if _is_copy(features[name], labels):
            raise ValueError(f"column {name!r} is a copy of the label column {label!r}: leave it out.")


def _is_copy(feature: pa.ChunkedArray, labels: pa.ChunkedArray) -> bool:
    """Whether a column holds the labels, in their type or in another one."""
    import numpy as np

    from flipproof.tables.columns import plain_numbers, type_kind_of_values

    if feature.type == labels.type:
        return bool(feature.equals(labels))
    numeric = ("numbers", "booleans")
    if not all(type_kind_of_values(one.type) in numeric for one in (feature, labels)):
        return False
    return bool(np.array_equal(plain_numbers(feature), plain_numbers(labels)))


def _held_out(table: pa.Table, share: float, seed: int) -> list[pa.Table]:
    """Split rows at random, without a look at the labels; their numbers stay those of the file."""
    import numpy as np

    n_test = round(share * table.num_rows)
    if not 0 < n_test < table.num_rows:
        raise ValueError(
            f"--holdout: {share:g} of {table.num_rows} rows leaves none to learn from, or none to predict."
        )
    order = np.random.default_rng(seed).permutation(table.num_rows)
    numbered = table.append_column(ROW_NUMBER, [np.arange(table.num_rows)])
    return [numbered.take(np.sort(part)) for part in (order[n_test:], order[:n_test])]


#: Added to rows that are drawn from a file.
ROW_NUMBER = "\0row"


def _rows(
    table: pa.Table,
    choice: DataChoice,
    names: Sequence[str],
    others: Sequence[str],
    source: str | None,
    train_labels: Any = None,
) -> Rows:
    """Take rows apart; `source` is where test rows are from, None for training rows."""
    from flipproof.cli.labels import label_array

    path = Path(source) if source else choice.train
    columns = table.column_names
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(
            f"{str(path)!r} has no column {missing[0]!r}, which the training rows have."
            f"{nearest(missing[0], set(columns) - set(names))}"
        )
    labels = None
    if source is None or choice.label in columns:
        labels = label_array(table[choice.label], choice.label, path, like=train_labels, optional=source is not None)
    if choice.id_column and source is not None:
        require_column(choice.id_column, columns, "--id", path)
    ids = table[choice.id_column or ROW_NUMBER].to_pylist() if choice.id_column or ROW_NUMBER in columns else None
    return Rows(
        features=table.select(list(names)),
        labels=labels,
        ids=list(range(table.num_rows)) if ids is None else ids,
        others={name: table[name] for name in others if name},
    )
