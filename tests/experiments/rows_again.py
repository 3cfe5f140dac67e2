"""Compute some rows of an experiment again, from the features that are committed and with the kernels of the command.

Run as a script: name of the experiment, folder of the data, folder of the features, seed; on standard input the test
rows of each run. Prints the columns of each run.
"""

import json
import sys
from pathlib import Path

from flipproof.runtime.processor import use_same_kernels


def rows_again(name, data_dir, folder, seed, wanted):
    """Return the columns of each run, for the test rows that are wanted of it."""
    import numpy as np

    from flipproof.experiments import read_experiment
    from flipproof.experiments.feature_store import FeatureStore, load, slice_of
    from flipproof.experiments.runner import fitted, measure

    experiment = read_experiment(name)
    data = load(experiment, data_dir)
    part = slice_of(experiment, data, quick=False, seed=seed)
    features = FeatureStore(experiment, data, part, folder, data_dir, seed, say=lambda text: None)
    columns = {}
    for run in experiment.runs:
        X, Z = features[run.features]
        model = fitted(run, X, data.y_train, data.classes, seed)
        index = np.array(wanted[run.name])
        measured = measure(run, model, X, data.y_train, Z[index])
        columns[run.name] = {"label": data.y_test[index].tolist()}
        columns[run.name] |= {column: values.tolist() for column, values in measured.items()}
    return columns


if __name__ == "__main__":
    use_same_kernels()  # before anything numerical is loaded
    name, data_dir, folder, seed = sys.argv[1:]
    json.dump(rows_again(name, Path(data_dir), Path(folder), int(seed), json.load(sys.stdin)), sys.stdout)
