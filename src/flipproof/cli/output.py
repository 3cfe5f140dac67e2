"""Output files and folders: checked before the computation, written whole after it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flipproof.readable import alternatives
from flipproof.runtime.files import write_all

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

TABLE_ENDINGS = (".parquet", ".csv", ".tsv", ".json", ".arrow", ".feather")
PLOT_ENDINGS = (".png", ".svg", ".pdf")

#: Dots per inch of a plot.
PLOT_DPI = 150


def prepare_folder(folder: Path) -> Path:
    """Create the folder if needed, and check that files can be written to it.

    Raises
    ------
    OSError
        If the folder is a file, or cannot be created or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        file = next(path for path in (folder, *folder.parents) if path.exists())
        raise OSError(f"cannot write to {str(folder)!r}: {str(file)!r} is not a folder.") from None
    except OSError as error:
        raise OSError(f"cannot write to {str(folder)!r}: {error.strerror}.") from error
    return folder


def check_file(
    path: Path | None,
    endings: Iterable[str],
    inputs: Iterable[Path | None] = (),
    outputs: Iterable[Path | None] = (),
) -> None:
    """Check that a file can be written and that its ending names a known format.

    Raises
    ------
    ValueError, OSError
        If the ending is not one of `endings`, the folder does not exist or is not writable, or the file is an input or
        one of the other outputs.
    """
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"cannot write {str(path)!r}: its name must end in {alternatives(endings)}.")
    if path.is_dir():
        raise OSError(f"cannot write {str(path)!r}: it is a folder.")
    if not path.parent.is_dir():
        raise OSError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}.")
    if any(one is not None and one.resolve() == path.resolve() for one in inputs):
        raise ValueError(f"cannot write {str(path)!r}: it is also an input file.")
    if any(one is not None and one.resolve() == path.resolve() for one in outputs):
        raise ValueError(f"cannot write {str(path)!r}: two options name this file.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OSError(f"cannot write {str(path)!r}: {error.strerror}.") from error


def check_table_and_plot(out: Path | None, plot: Path | None, inputs: Iterable[Path | None]) -> None:
    """Check the files for a table and a plot of it, as :func:`check_file` does."""
    inputs = tuple(inputs)
    check_file(out, TABLE_ENDINGS, inputs)
    check_file(plot, PLOT_ENDINGS, (*inputs, out))
    if plot is not None:
        from flipproof.displays.plotting import require_matplotlib

        require_matplotlib()


def write_table_and_plot(
    table: pa.Table,
    about: Mapping[str, object],
    draw: Callable[[Axes], object],
    figure_size: tuple[float, float],
    out: Path | None,
    plot: Path | None,
) -> list[Path]:
    """Write a table and a plot of it to the files that are given, both or none; return these files.

    `draw` draws on axes; `figure_size` is in inches.
    """
    contents = {}
    if out is not None:
        contents[out] = table_content(table, out.suffix.lower(), about)
    if plot is not None:
        contents[plot] = _picture(draw, figure_size, plot.suffix.lower())
    write_all(contents)
    return list(contents)


def _picture(draw: Callable[[Axes], object], figure_size: tuple[float, float], ending: str) -> bytes:
    """Return a plot as the content of a file; needs no screen."""
    from io import BytesIO

    from matplotlib.figure import Figure

    figure, stream = Figure(figsize=figure_size, layout="constrained"), BytesIO()
    draw(figure.subplots())
    figure.savefig(stream, format=ending.removeprefix("."), dpi=PLOT_DPI)
    return stream.getvalue()


def table_content(table: pa.Table, ending: str, about: Mapping[str, object]) -> bytes:
    """Return a table as the content of a file; `about` becomes metadata in formats that support it."""
    import pyarrow as pa
    from pyarrow import csv, feather, parquet

    if ending == ".json":
        return (json.dumps({**about, "rows": table.to_pylist()}, indent=1, default=str) + "\n").encode()
    described = table.replace_schema_metadata({"flipproof": json.dumps(dict(about), default=str)})
    stream = pa.BufferOutputStream()
    if ending == ".parquet":
        parquet.write_table(described, stream)
    elif ending in (".arrow", ".feather"):
        feather.write_feather(described, stream, compression="uncompressed")
    else:
        csv.write_csv(table, stream, csv.WriteOptions(delimiter="\t" if ending == ".tsv" else ","))
    return bytes(stream.getvalue())
