"""Running many fits: reproducible votes, progress messages, errors and interrupts."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from patience import until
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from smoothed_problems import QUICK, blobs
from tiers import mostly_slow

from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip
from flipproof.smoothing import SmoothedClassifier


@pytest.mark.slow
@pytest.mark.parametrize("noise", mostly_slow([0.3, JointNoise(LabelFlip(0.3), FeatureNoise(0.5))], fast=(0,)))
def test_votes_do_not_depend_on_workers_or_kept_models(noise):
    X, y, Z, _ = blobs()
    base = RandomForestClassifier(3)
    model = SmoothedClassifier(base, noise, **QUICK).fit(X, y)
    first = model.certify(Z)
    np.testing.assert_array_equal(first.prediction, model.predict(Z))
    again = [clone(model).fit(X, y), clone(model).set_params(n_jobs=2).fit(X, y)]
    again.append(clone(model).set_params(keep_models=True, n_jobs=2).fit(X, y))
    with parallel_config(backend="threading", n_jobs=2):
        results = [again[0].certify(Z)]
    results += [one.certify(Z) for one in again[1:]]
    for other in results:
        for name in ("prediction", "radius", "margin", "log_failure", "log_rival", "abstained"):
            np.testing.assert_array_equal(getattr(first, name), getattr(other, name))
    assert len(again[2].models_) == 50
    assert model.models_ is None
    other_seed = clone(model).set_params(random_state=7).fit(X, y).certify(Z)
    assert not np.array_equal(first.margin, other_seed.margin)


class NeedsCat(LogisticRegression):
    """Refuses labels without the class "cat"."""

    def fit(self, X, y):
        if "cat" not in y:
            raise ValueError("there is no\ncat here.")
        return super().fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_fit_names_the_draw(n_jobs):
    X, y, Z, _ = blobs(3, n=6)
    model = SmoothedClassifier(NeedsCat(), 0.6, **QUICK, n_jobs=n_jobs).fit(X, y)
    wanted = r"NeedsCat could not be fitted to draw \d+ of the (selection|estimation) sample \(6 rows, \d classes\)"
    with pytest.raises(ValueError, match=wanted + r", and no draw can be skipped, .*: there is no cat here\."):
        model.certify(Z)


def test_verbose_prints_the_plan_and_the_progress(capsys):
    X, y, Z, _ = blobs(2)
    SmoothedClassifier(LogisticRegression(), 0.3, **QUICK, verbose=1).fit(X, y).certify(Z)
    said = capsys.readouterr()
    assert said.out == ""
    assert "50 fits of LogisticRegression, 10 to select and 40 to estimate." in said.err
    assert "they certify 3 changed labels (confidence 0.9 for each prediction)" in said.err
    assert "50 of 50 fits" in said.err
    SmoothedClassifier(LogisticRegression(), 0.3, **QUICK).fit(X, y).certify(Z)
    assert capsys.readouterr().err == ""


class Interrupting(LogisticRegression):
    """Records the fitting processes, and interrupts the main process once, after twenty fits."""

    def __init__(self, path="", process=0):
        super().__init__()
        self.path, self.process = path, process

    def fit(self, X, y):
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")
        if Path(self.path).read_text().count("\n") > 20:
            with suppress(FileExistsError):
                Path(f"{self.path}.interrupted").touch(exist_ok=False)
                os.kill(self.process, signal.SIGINT)
        return super().fit(X, y)


@pytest.mark.few(1)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_stops_all_fits(n_jobs, tmp_path):
    X, y, Z, _ = blobs(2)
    path = tmp_path / "fits"
    base = Interrupting(str(path), os.getpid())
    model = SmoothedClassifier(base, 0.3, 100, 50_000, n_jobs=n_jobs, random_state=0).fit(X, y)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.certify(Z)
    finally:
        signal.signal(signal.SIGINT, before)
    workers = set(map(int, path.read_text().split())) - {os.getpid()}
    assert bool(workers) == (n_jobs > 1)
    until(lambda: not any(map(_is_running, workers)))
    assert len(path.read_text().split()) < 50_000


def _is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
