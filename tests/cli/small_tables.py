"""Small tables in files, for the command line to read."""

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

N_TRAIN, N_TEST = 80, 20
FEATURES = ["length", "country", "answered"]


def emails(n, seed):
    """Emails by length, sender and kind; spam is longer and from other countries."""
    rng = np.random.default_rng(seed)
    spam = rng.random(n) < 0.5
    return pa.table(
        {
            "key": [f"mail-{seed}-{i}" for i in range(n)],
            "length": rng.normal(size=n) + 2 * spam,
            "country": np.where(rng.random(n) < 0.3 + 0.5 * spam, "elsewhere", "here"),
            "answered": (rng.random(n) < 0.7) & ~spam,
            "kind": np.where(spam, "spam", "ham"),
        }
    )


def write_emails(folder, ending=".csv", n_train=N_TRAIN, n_test=N_TEST):
    """Write train and test files, and return the options that name them and the label."""
    for name, n, seed in (("train", n_train, 1), ("test", n_test, 2)):
        write(emails(n, seed), folder / f"{name}{ending}")
    return [
        *("--train", str(folder / f"train{ending}"), "--test", str(folder / f"test{ending}")),
        *("--label", "kind", "--id", "key"),
    ]


def write(table, path):
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        csv.write_csv(table, path)
