"""Windows of time: exact comparisons, and radii against every choice of windows, with refits."""

import datetime
import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from enumeration import possible_attacks

from flipproof import (
    Adversary,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
    collective_certify,
)
from flipproof.attacks import labels_to_audit, worst_flips
from flipproof.core.windows import best_windows, least_cover, least_windows, window_ends
from flipproof.streaming import StreamingRidgeClassifier
from flipproof.timestamps import as_length, as_stamps


def windows_needed(stamps, length, changed):
    """The least number of closed windows that contain all timestamps of changed labels, by trying all starts."""
    wanted = sorted({Fraction(stamps[j]) for j in np.flatnonzero(changed)})
    for count in range(len(wanted) + 1):
        for starts in itertools.combinations(wanted, count):
            if all(any(start <= t <= start + length for start in starts) for t in wanted):
                return count
    raise AssertionError


class Given(LabelLinearClassifier):
    """Votes are the test row."""

    def fit_without_labels(self, X):
        self.n_ = len(X)

    def label_free_weights(self, Z):
        return Z


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(12))
def test_radii_are_exact_on_random_votes(seed):
    rng = np.random.default_rng(seed)
    K = 2 + seed % 2
    n = 7 if K == 2 else 5
    codes, Z = rng.integers(K, size=n), rng.integers(-5, 6, size=(6, n)).astype(float)
    stamps = rng.integers(0, 9, size=n) if seed % 3 else rng.integers(0, 9, size=n) / 10
    length = Fraction(int(rng.integers(0, 4))) if seed % 3 else Fraction(0.1 * int(rng.integers(0, 4)))
    trusted = rng.random(n) < 0.25 if seed % 4 == 1 else None
    allowed = [(0, 1), (1, 0)] if seed % 5 == 2 else None
    model = Given(classes=range(K)).fit(np.zeros((n, n)), codes)
    given = float(length) if seed % 3 == 0 else int(length)
    adversary = Adversary(window=stamps, length=given, trusted=trusted, allowed=allowed)
    certificates = model.certify(Z, adversary=adversary)
    labellings, _ = possible_attacks(codes, K, trusted, allowed)
    cost = np.array([windows_needed(stamps, length, line != codes) for line in labellings])
    attack = worst_flips(model, Z, adversary)
    for row, votes in enumerate(Z):
        scores = np.stack([(labellings == c) @ votes for c in range(K)], axis=1)
        changed = scores.argmax(axis=1) != certificates.prediction[row]
        least = cost[changed].min() if changed.any() else None
        if least is None:
            assert certificates.unlimited[row]
            assert certificates.radius[row] == certificates.n_touchable == cost.max()
            assert not attack.success[row]
        else:
            assert certificates.radius[row] == least - 1
            assert attack.flips_needed[row] == least
            poisoned = attack.poisoned(codes, row)
            assert windows_needed(stamps, length, poisoned != codes) <= least
            assert model.fit(np.zeros((n, n)), poisoned).predict(votes[None])[0] != certificates.prediction[row]
            model.fit(np.zeros((n, n)), codes)
    assert certificates.unit == attack.unit == "windows"


def test_refits_of_real_learners_agree():
    rng = np.random.default_rng(3)
    X, y, stamps = rng.normal(size=(9, 2)), rng.integers(2, size=9), rng.integers(0, 12, size=9)
    for model in (CertifiedRidgeClassifier(classes=[0, 1]), CertifiedNeighborsClassifier(5, classes=[0, 1])):
        certificates = model.fit(X, y).certify(X, adversary=Adversary(window=stamps, length=2))
        labellings = np.array(list(itertools.product([0, 1], repeat=9)))[::7]
        cost = np.array([windows_needed(stamps, 2, line != y) for line in labellings])
        for line, price in zip(labellings, cost, strict=True):
            changed = model.fit(X, line).predict(X) != certificates.prediction
            assert not np.any(changed & (certificates.radius >= price))


def test_windows_of_length_0_are_groups_of_equal_stamps():
    rng = np.random.default_rng(0)
    X, y, stamps = rng.normal(size=(60, 3)), rng.integers(3, size=60), rng.integers(0, 15, size=60)
    model = CertifiedRidgeClassifier(classes=range(3)).fit(X, y)
    by_window = model.certify(X, adversary=Adversary(window=stamps, length=0))
    by_group = model.certify(X, adversary=Adversary(groups=stamps))
    np.testing.assert_array_equal(by_window.radius, by_group.radius)
    assert by_window.n_touchable == by_group.n_touchable
    wider = model.certify(X, adversary=Adversary(window=stamps, length=3))
    assert np.all(wider.radius <= by_window.radius)
    blocks = CertifiedRidgeClassifier(classes=range(3), block_size=7).fit(X, y)
    again = blocks.certify(X, adversary=Adversary(window=stamps, length=3))
    np.testing.assert_array_equal(again.radius, wider.radius)


@pytest.mark.parametrize("kind", ["float", "int", "huge", "unsigned"])
def test_comparisons_are_exact(kind):
    rng = np.random.default_rng(1)
    for _ in range(60):
        if kind == "float":
            stamps = np.unique(np.round(rng.random(12) * rng.choice([1, 1e3, 1e17]), 1))
            length = float(rng.choice(stamps) - stamps[0]) if rng.random() < 0.7 else 0.1
        elif kind == "int":
            stamps, length = np.unique(rng.integers(-20, 20, 12)), int(rng.integers(0, 12))
        elif kind == "huge":
            ends = np.iinfo(np.int64)
            stamps = np.unique([ends.min, ends.min + 5, -1, 0, 3, ends.max - 4, ends.max])
            length = int(rng.choice([0, 3, 5, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**70]))
        else:
            stamps = np.unique(np.array([0, 1, 2**63, 2**64 - 6, 2**64 - 1], dtype=np.uint64))
            length = int(rng.choice([0, 1, 5, 2**63, 2**64 - 1, 2**66]))
        exact = [Fraction(float(t)) if kind == "float" else int(t) for t in stamps]
        limit = Fraction(length) if kind == "float" else length
        wanted = [sum(t - start <= limit for t in exact) for start in exact]
        np.testing.assert_array_equal(window_ends(stamps, length), wanted)
    tenths = np.array([0.1, 0.2, 0.3, 0.4])  # 0.1 + 0.2 is above 0.3, but 0.30000000000000004 is its rounded value
    assert window_ends(tenths, 0.2)[0] == sum(Fraction(t) - Fraction(0.1) <= Fraction(0.2) for t in tenths.tolist())
    assert window_ends(np.array([-1.7e308, 1.7e308]), 1.7e308).tolist() == [1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_dynamic_programming_finds_the_best_windows(seed):
    rng = np.random.default_rng(seed)
    stamps = np.unique(rng.integers(0, 25, size=8))
    ends, gains = window_ends(stamps, 4), rng.integers(0, 9, size=len(stamps))
    for count in range(4):
        best = max(
            sum(g for i, g in enumerate(gains) if any(s <= i < ends[s] for s in starts))
            for starts in itertools.combinations(range(len(stamps)), min(count, len(stamps)))
        )
        chosen = best_windows(gains, ends, count)
        assert len(chosen) <= count
        assert sum(g for i, g in enumerate(gains) if any(s <= i < ends[s] for s in chosen)) == best
        if best:
            assert least_windows(gains[None], ends, np.array([best]))[0] <= count
        assert least_windows(gains[None], ends, np.array([best + 1]))[0] in (-1, *range(count + 1, 30))
    assert least_windows(gains[None], ends, np.array([gains.sum() + 1]))[0] == -1
    assert least_cover(ends) == windows_needed(stamps, 4, np.ones(len(stamps), dtype=bool))


DAYS = ["2024-02-27", "2024-03-01", "2024-03-06", "2024-03-08"]


@pytest.mark.parametrize(
    "stamps",
    [
        np.array(DAYS, dtype="datetime64[D]"),
        np.array(DAYS, dtype="datetime64[ns]"),
        [datetime.date.fromisoformat(day) for day in DAYS],
        [datetime.datetime.fromisoformat(day) for day in DAYS],
        [datetime.datetime.fromisoformat(f"{day}T05:00+05:00") for day in DAYS],
        pd.Series(pd.to_datetime(DAYS)),
        pd.Series(pd.to_datetime(DAYS)).dt.tz_localize("Europe/Berlin"),
        pd.to_datetime(DAYS),
        [pd.Timestamp(day) for day in DAYS],
        pa.chunked_array([pa.array(DAYS).cast(pa.date32())]),
        pa.array(DAYS).cast(pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC")),
    ],
    ids=lambda stamps: f"{type(stamps).__name__}-{getattr(stamps, 'dtype', type(stamps[0]).__name__)}",
)
@pytest.mark.parametrize(
    "length", ["7d", "1w", "168h", "7 days", datetime.timedelta(7), np.timedelta64(1, "W"), pd.Timedelta(days=7)]
)
def test_dates_and_times_of_all_makes(stamps, length):
    found = as_stamps(stamps, "window")
    assert found.dtype.kind == "M"
    ends = window_ends(found.view(np.int64), as_length(length, found, "length"))
    assert ends.tolist() == [2, 4, 4, 4]  # 29 February is a day; 1 to 8 March is a closed week
    repr(Adversary(window=stamps, length=length))


def test_lengths_between_units_are_rounded_down():
    days = np.array(DAYS, dtype="datetime64[D]")
    assert as_length("47h", days, "length") == 1
    assert as_length("1.5d", days, "length") == 1
    assert as_length(2.9, np.arange(3), "length") == 2
    months = as_stamps(np.array(["2024-02", "2024-03"], dtype="datetime64[M]"), "window")
    assert window_ends(months.view(np.int64), as_length("29d", months, "length")).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window": [1, 2]}, "together"),
        ({"length": 3}, "together"),
        ({"window": [1, 2], "length": -1}, "negative"),
        ({"window": [1, 2], "length": "7d"}, "number"),
        ({"window": [1, 2], "length": True}, "number"),
        ({"window": [1.0, np.nan], "length": 1}, "NaN"),
        ({"window": ["a", "b"], "length": 1}, "convert"),
        ({"window": [True, False], "length": 1}, "convert"),
        ({"window": np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"), "length": "1d"}, "NaT"),
        ({"window": np.array(["2024-01-01"], dtype="datetime64[D]"), "length": 3}, "7d"),
        ({"window": np.array(["2024-01-01"], dtype="datetime64[D]"), "length": np.timedelta64(1, "M")}, "7d"),
        ({"window": [datetime.date(2024, 1, 1), None], "length": "1d"}, "mix"),
        ({"window": [1, 2], "length": 1, "groups": [0, 1]}, "groups"),
        ({"window": [1, 2], "length": 1, "changes": "rows"}, "about labels"),
    ],
)
def test_invalid_windows_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Adversary(**given)


def test_what_does_not_cover_windows_refuses_them():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.integers(2, size=20)
    adversary = Adversary(window=np.arange(20), length=3)
    model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y)
    for method in ("kl", "tight"):
        with pytest.raises(ValueError, match="exact"):
            model.certify(X, method, adversary)
    with pytest.raises(ValueError, match="window"):
        collective_certify(model, X, 3, adversary=adversary)
    partitions = CertifiedPartitionClassifier(n_partitions=5, classes=[0, 1]).fit(X, y)
    in_blocks = StreamingRidgeClassifier(classes=[0, 1]).fit(X, y)
    for other in (partitions, in_blocks):
        with pytest.raises(ValueError, match="window"):
            other.certify(X, adversary=adversary)
    with pytest.raises(ValueError, match="one entry per training row"):
        model.certify(X, adversary=Adversary(window=[1], length=3))
    assert len(labels_to_audit(model, X, adversary).rows)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_without_timestamps_there_are_no_windows(dtype):
    assert window_ends(np.array([], dtype=dtype), 1).tolist() == []


def test_no_more_windows_are_named_than_gain_something():
    ends = window_ends(np.array([0, 1, 10]), 2)
    assert best_windows(np.array([3, 4, 0]), ends, 3).tolist() == [0]


def test_where_no_label_can_be_changed_no_windows_overturn():
    X, y, stamps = np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1], np.arange(6)
    model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y)
    all_trusted = Adversary(window=stamps, length=2, trusted=np.ones(6, dtype=bool))
    certificates = model.certify(X, adversary=all_trusted)
    assert (certificates.radius == certificates.n_touchable).all()
