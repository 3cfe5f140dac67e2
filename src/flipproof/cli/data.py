"""Options that select the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli.demo import check_seed
from flipproof.cli.options import DATA, Command, option, split_at_commas, together

if TYPE_CHECKING:
    from flipproof.features import SentenceEncoder
    from flipproof.tables import TextLayout

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "npz", "npy")

FILE = click.Path(path_type=Path)


def _columns_option(name: str, text: str) -> Callable[[Command], Command]:
    return option(name, group=DATA, multiple=True, callback=split_at_commas, metavar="COLS", help=text)


def _train_option(is_required: bool) -> Callable[[Command], Command]:
    return option(
        "--train",
        group=DATA,
        type=FILE,
        required=is_required,
        metavar="FILE",
        help="Training rows: CSV, TSV, JSON lines, Parquet, Arrow, Feather, NPZ or NPY, also compressed (.gz, .xz, "
        ".bz2, .zst); - reads standard input. For certify, also a folder or pattern of Parquet files, which may be "
        "larger than memory.",
    )


def _label_option(is_required: bool) -> Callable[[Command], Command]:
    return option("--label", group=DATA, required=is_required, metavar="COL", help="Column with the labels.")


_test_options = together(
    option(
        "--test",
        group=DATA,
        type=FILE,
        metavar="FILE",
        help="Rows to predict. Accuracy needs their labels.",
    ),
    option(
        "--holdout",
        group=DATA,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        metavar="SHARE",
        help="Instead of --test: hold out this share of the training rows, drawn at random.",
    ),
)

_reference_option = option(
    "--reference",
    group=DATA,
    type=FILE,
    metavar="FILE",
    help="Rows that nobody may have changed; labels are not needed. Everything except the votes is then learned "
    "from them, so that certificates can cover whole rows (--changes).",
)

_reference_labels_option = option(
    "--reference-labels",
    group=DATA,
    is_flag=True,
    help="Trust the labels of --reference, too: --prior and supervised trees are then fitted to them.",
)

_reference_options = together(_reference_option, _reference_labels_option)

_column_options = together(
    _columns_option("--features", "Columns to learn from; * matches anything. Default: all other columns."),
    _columns_option("--drop", "Columns to leave out; * matches anything."),
    _columns_option("--text", "Columns to treat as text, not as categories."),
    _columns_option("--categories", "Columns to treat as categories, even if they hold numbers."),
    option("--id", "id_column", group=DATA, metavar="COL", help="Column with row names. Default: row numbers."),
    option(
        "--scale",
        group=DATA,
        type=click.Choice(["auto", "standard", "rank", "none"]),
        default="auto",
        help="Scaling of numbers; auto: by rank for columns with heavy tails, standard for others. Default: auto",
    ),
    option(
        "--text-dimensions",
        group=DATA,
        type=click.IntRange(min=1),
        default=200,
        metavar="N",
        help="Number of features per text column. Default: 200",
    ),
    option(
        "--text-encoder",
        group=DATA,
        metavar="DIR",
        help="Folder of a sentence-transformers model that encodes the text columns instead. Nothing is downloaded. "
        "Requires: pip install 'flipproof[text]'",
    ),
    option(
        "--text-cache",
        group=DATA,
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Folder in which --text-encoder keeps vectors of texts. Nobody else may change it.",
    ),
    option("--no-header", group=DATA, is_flag=True, help="The file has no header line. Columns are named f0, f1, ..."),
    _columns_option("--names", "Column names for a file without a header line."),
    option("--separator", group=DATA, metavar="CHAR", help="Column separator. Default: detected."),
    option("--no-quotes", group=DATA, is_flag=True, help='Treat " as an ordinary character.'),
    option(
        "--format",
        "kind",
        group=DATA,
        type=click.Choice(FORMATS),
        help="File format. Default: by the content or the file ending.",
    ),
    option(
        "--encoding",
        group=DATA,
        metavar="NAME",
        help="Encoding of text files, for example cp1252. Default: UTF-8, or by the byte order mark.",
    ),
    option(
        "--decimal",
        group=DATA,
        type=click.Choice([".", ","]),
        default=".",
        help="Decimal separator of numbers in text files. Default: .",
    ),
    option(
        "--na",
        group=DATA,
        multiple=True,
        metavar="VALUE",
        help="Value that means a missing value in text files, besides NA and the like. Repeatable.",
    ),
)

_seed_option = option(
    "--seed",
    group=DATA,
    type=int,
    callback=check_seed,
    default=0,
    metavar="N",
    help="Random seed for --holdout. Default: 0",
)

_crowd_options = together(
    option(
        "--labels",
        group=DATA,
        type=FILE,
        metavar="FILE",
        help="Several labels per item: a file with a line per annotation. --item, --label, --annotator, --trusted and "
        "--window then name its columns, and --train has a row per item, named by --id.",
    ),
    option("--item", group=DATA, metavar="COL", help="Column of --labels with the item of each label."),
    _columns_option(
        "--annotators",
        "Instead of --labels: columns of --train with the labels of one annotator each; * matches anything.",
    ),
    option(
        "--aggregate",
        group=DATA,
        type=click.Choice(["votes", "majority"]),
        help="What votes: each annotation, or the majority of each item. Default: votes",
    ),
    option(
        "--count",
        group=DATA,
        type=click.Choice(["annotators", "annotations"]),
        help="What radii count if items have several labels. Default: annotators, if they are named.",
    ),
)

#: Training and test rows.
data_options = together(
    *(_train_option(True), _test_options, _reference_options, _label_option(True), _crowd_options),
    *(_column_options, _seed_option),
)

#: Training rows alone.
training_options = together(
    _train_option(True), _reference_options, _label_option(True), _crowd_options, _column_options
)

#: Training and test rows, or a model and test rows.
data_or_model_options = together(
    option(
        "--model",
        "model_file",
        group=DATA,
        type=FILE,
        metavar="FILE",
        help="Model that `flipproof fit` wrote. Replaces --train and all options of the fit.",
    ),
    *(_train_option(False), _test_options, _reference_options, _label_option(False), _crowd_options),
    *(_column_options, _seed_option),
)


@dataclass(frozen=True)
class DataOptions:
    """Values of the data options."""

    train: Path
    test: Path | None
    holdout: float | None
    reference: Path | None
    reference_labels: bool
    label: str
    labels: Path | None
    item: str | None
    annotators: tuple[str, ...]
    aggregate: str | None
    count: str | None
    features: tuple[str, ...]
    drop: tuple[str, ...]
    text: tuple[str, ...]
    categories: tuple[str, ...]
    id_column: str | None
    scale: str
    text_dimensions: int
    text_encoder: str | None
    text_cache: Path | None
    no_header: bool
    names: tuple[str, ...]
    separator: str | None
    no_quotes: bool
    kind: str | None
    encoding: str | None
    decimal: str
    na: tuple[str, ...]
    seed: int

    @classmethod
    def taken_from(cls, options: dict[str, object]) -> DataOptions:
        """Remove these options from a command's options and return them."""
        absent = {"test": None, "holdout": None, "seed": 0}  # in commands that only fit
        values: dict[str, Any] = {
            name: options.pop(name, absent.get(name)) for name in cls.__dataclass_fields__
        }  # of the types that click has read
        return cls(**values)

    @property
    def files(self) -> tuple[Path | None, ...]:
        """The input files."""
        return self.train, self.test, self.reference, self.labels

    @property
    def layout(self) -> TextLayout:
        """Layout of text files."""
        from flipproof.tables import TextLayout

        return TextLayout(
            names=self.names,
            header=not self.no_header,
            separator={"\\t": "\t"}.get(self.separator or "", self.separator),
            quotes=not self.no_quotes,
            kind=self.kind,
            encoding=self.encoding,
            decimal=self.decimal,
            na=self.na,
        )

    def check_training_rows(self) -> None:
        """Raise UsageError unless training rows and the label column are given, as click does for required options."""
        for name, value in (("--train", self.train), ("--label", self.label)):
            if value is None:
                raise click.UsageError(f"Missing option '{name}'.")

    def check_test_rows(self) -> None:
        """Raise UsageError unless exactly one of --test and --holdout is given."""
        if (self.test is None) == (self.holdout is None):
            raise click.UsageError("Give either --test FILE or --holdout SHARE.")

    def _encoder(self) -> SentenceEncoder | None:
        """Return the encoder of text columns, if one is given."""
        if self.text_encoder is None:
            if self.text_cache is not None:
                raise click.UsageError("--text-cache requires --text-encoder.")
            return None
        from flipproof.features import SentenceEncoder

        return SentenceEncoder(self.text_encoder, cache=self.text_cache)

    def arguments(self) -> dict[str, Any]:
        """Return the options as arguments of `flipproof.audit`."""
        rows = ("train", "test", "holdout", "seed", "reference", "reference_labels")
        crowd = ("labels", "item", "annotators", "aggregate", "count")
        columns = ("label", "features", "drop", "text", "categories", "scale")
        own = {"id": self.id_column, "layout": self.layout, "text_dimensions": self.text_dimensions}
        own["text_encoder"] = self._encoder()
        return {name: getattr(self, name) for name in (*rows, *crowd, *columns)} | own
