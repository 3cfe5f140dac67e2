"""The simulation of a distributed run agrees with calculations by hand."""

import json
import re
from dataclasses import fields, replace

import pytest
import scale_simulation
from scale_model import CERTIFICATE_BYTES, Constants, Job, simulate, simulate_certify, simulate_fit
from scale_simulation import shares
from task_graph import KINDS, Cluster, tree

NAMES = tuple(each.name for each in fields(Constants))
INFINITE = float("inf")

#: Seconds that a row costs in the five passes of fit: it is read in all of them, and rotated in two.
FIT_WORKS = {"c_read": 5, "c_survey": 1, "c_moments": 1, "c_gram": 1, "c_rotate": 2, "c_largest": 1, "c_leverage": 1}

JOB = Job(n=6400, k=4, n_classes=3, m=10, rows_per_part=100, fan_in=8, batch_bytes=2**27)
SUMMAND = 10 * 3 * 2048 * 4
SENT_IN_CERTIFY = 2 * 4 * 4 * 8 + 10 * 4 * 8


def free(**costs):
    """Return constants that are 0 except for the given ones, which have one sample."""
    return Constants(**{name: (costs.get(name, 0.0),) for name in NAMES})


def ideal(n_workers, **settings):
    """Return a cluster with a free network by default."""
    return Cluster(n_workers, **{"bandwidth": INFINITE, "latency": 0.0} | settings)


EVERYTHING = free(**{name: 1e-6 * (3 + number) for number, name in enumerate(NAMES)})


def jittered():
    return Constants(
        **{name: tuple(1e-6 * (1 + number + step) for step in range(5)) for number, name in enumerate(NAMES)}
    )


@pytest.mark.parametrize("fan_in", [2, 8, 100])
def test_one_worker_takes_the_sum_of_all_tasks(fan_in):
    c = {name: getattr(EVERYTHING, name)[0] for name in NAMES} | {"c_schedule": 0, "c_submit": 0}
    outcome = simulate(free(**c), ideal(1), replace(JOB, fan_in=fan_in))
    additions = 63  # of 64 summands, in any tree
    fit_bytes = 8 * (2 * 4 + 2 * 4 + 2 * 3 * 4 * 4 + 4 + 4 * 4)
    fit = 6400 * sum(times * c[name] for name, times in FIT_WORKS.items()) + additions * fit_bytes * c["c_add"]
    certify = 6400 * (c["c_read"] + c["c_rotate"] + 10 * c["c_vote"]) + additions * SUMMAND * c["c_add"]
    assert outcome.fit.seconds == pytest.approx(fit + c["c_eigen"])
    assert outcome.certify.seconds == pytest.approx(certify + 10 * c["c_engine"])


@pytest.mark.parametrize("n_workers", [2, 8, 32, 64])
def test_without_overheads_time_is_inversely_proportional_to_workers(n_workers):
    rows = free(**dict.fromkeys(FIT_WORKS, 1e-6), c_vote=1e-7)
    one, many = simulate(rows, ideal(1), JOB), simulate(rows, ideal(n_workers), JOB)
    assert many.fit.seconds == pytest.approx(one.fit.seconds / n_workers)
    assert many.certify.seconds == pytest.approx(one.certify.seconds / n_workers)
    assert shares(many.fit, n_workers)["rows"] == pytest.approx(1)


def test_time_lost_to_uneven_parts_is_imbalance():
    rows = free(c_read=1e-6)
    fit = simulate_fit(rows, ideal(48), JOB)  # 64 parts: some workers have two
    assert fit.seconds == pytest.approx(5 * 200 * 1e-6)
    assert shares(fit, 48)["imbalance"] == pytest.approx(1 - 64 / 96)


def test_a_slow_scheduler_costs_time_for_every_task():
    fit = simulate_fit(free(c_schedule=1e-3), ideal(16), JOB)
    assert fit.n_tasks == 5 * (64 + 8 + 1)
    assert fit.seconds == pytest.approx(fit.n_tasks * 1e-3)
    assert fit.spent["scheduler"] == pytest.approx(fit.seconds)


def test_a_slow_client_costs_time_for_every_task_and_test_row():
    certify = simulate_certify(free(c_submit=1e-3, c_engine=1e-2), ideal(16), JOB)
    assert certify.seconds == pytest.approx(73 * 1e-3 + 10 * 1e-2)
    assert certify.spent["client"] == pytest.approx(certify.seconds)


@pytest.mark.parametrize(("fan_in", "fetched"), [(2, 6), (8, 14), (64, 63)])
def test_a_slow_network_costs_time_at_each_level_of_the_tree(fan_in, fetched):
    cluster = ideal(64, bandwidth=1e6, client_bandwidth=5e5)
    certify = simulate_certify(free(), cluster, replace(JOB, fan_in=fan_in))
    # what is sent first: once by the client, then through six levels of workers that each serve two, one by one
    sent = SENT_IN_CERTIFY * (1 / 5e5 + longest_path(64) / 1e6)
    assert certify.seconds == pytest.approx(sent + fetched * SUMMAND / 1e6 + SUMMAND / 5e5)
    assert certify.spent["network"] == pytest.approx(certify.seconds)


def longest_path(n_workers):
    """Return the number of messages sent before the last worker of the tree has received the broadcast."""
    ways = [0]
    for worker in range(1, n_workers):
        ways.append(ways[(worker - 1) // 2] + (1 if worker % 2 else 2))
    return max(ways)


def test_latency_is_paid_for_every_message_on_the_longest_path():
    # per pass without compute: graph, parts, report of a part, one node (given out, fetch, report), result; four passes
    # begin with a broadcast of two hops
    fit = simulate_fit(free(), ideal(2, latency=1.0), replace(JOB, rows_per_part=3200))
    assert fit.seconds == pytest.approx(5 * 7 + 4 * 2)


def test_bytes_match_a_count_by_hand():
    job = replace(JOB, rows_per_part=1600, k=5)  # four parts on two workers
    outcome = simulate(EVERYTHING, Cluster(2, 1e9), job)
    rotation = 2 * 5 * 5 * 8
    sent = rotation + 10 * 5 * 8
    # all four are added up where two of them are: two move to that worker, the sum to the client
    summands = [2 * 5 * 8, 2 * 5 * 8, 6 * 5 * 5 * 8, 5 * 8, 4 * 5 * 8]
    assert outcome.fit.bytes_moved == 3 * sum(summands) + 4 * 2 * rotation
    assert outcome.fit.bytes_client == sum(summands) + 4 * rotation
    assert outcome.certify.bytes_moved == 3 * SUMMAND + 2 * sent
    assert outcome.certify.bytes_client == SUMMAND + sent
    own_sums_first = simulate_certify(EVERYTHING, Cluster(2, 1e9), replace(job, workers_first=True))
    assert own_sums_first.bytes_moved == 2 * SUMMAND + 2 * sent
    # of eight parts two by two, each pair is on both workers
    pairs = replace(job, rows_per_part=800, fan_in=2)
    assert simulate_certify(EVERYTHING, Cluster(2, 1e9), pairs).bytes_moved == 5 * SUMMAND + 2 * sent
    own_sums_first = simulate_certify(EVERYTHING, Cluster(2, 1e9), replace(pairs, workers_first=True))
    assert own_sums_first.bytes_moved == 2 * SUMMAND + 2 * sent
    at_root = simulate_certify(EVERYTHING, Cluster(2, 1e9), replace(job, engine_on_workers=True))
    assert at_root.bytes_client == 10 * CERTIFICATE_BYTES + sent


def test_peak_memory_matches_a_count_by_hand():
    rows = free(c_read=1e-6)
    block = 100 * 4 * 8
    # eight summands and their sum; then the last summand of the second eight on top of the first sum, and so on: the
    # eighth sum is made from eight summands beside seven sums
    assert simulate_certify(rows, ideal(1), JOB).peak_worker_bytes == (7 + 8) * SUMMAND + SUMMAND
    # two by two: six sums of 32, 16, ..., 1 parts, one more part, and the sum of the last two
    assert simulate_certify(rows, ideal(1), replace(JOB, fan_in=2)).peak_worker_bytes == 8 * SUMMAND
    # one part: its summand, and its rows
    assert simulate_certify(rows, ideal(1), replace(JOB, n=100)).peak_worker_bytes == SUMMAND + block
    # one part each: the first worker fetches seven
    assert simulate_certify(rows, ideal(8), replace(JOB, n=800)).peak_worker_bytes == 9 * SUMMAND


@pytest.mark.parametrize("n_workers", [1, 7, 64, 100])
@pytest.mark.parametrize("batches_at_once", [1, 3])
def test_the_parts_of_the_time_sum_to_the_total(n_workers, batches_at_once):
    job = replace(JOB, m=50, batch_bytes=SUMMAND, batches_at_once=batches_at_once)
    outcome = simulate(jittered(), Cluster(n_workers, 1e8), job, seed=3)
    for phase in (outcome.fit, outcome.certify):
        assert set(phase.spent) == set(KINDS)
        assert min(phase.spent.values()) >= 0
        assert sum(phase.spent.values()) == pytest.approx(phase.seconds)
        assert sum(shares(phase, n_workers).values()) == pytest.approx(1)
        assert phase.seconds >= phase.work / n_workers


@pytest.mark.few(2)
@pytest.mark.parametrize("n_workers", [1, 5, 30, 64])
@pytest.mark.parametrize("workers_first", [False, True])
def test_more_bandwidth_is_never_slower(n_workers, workers_first):
    job = replace(JOB, m=40, workers_first=workers_first)
    # where adding up takes most of the time, sums that arrive in another order may well take longer
    costs = replace(EVERYTHING, c_add=(1e-9,))
    seconds = [simulate(costs, Cluster(n_workers, 10.0**power), job).seconds for power in range(5, 13)]
    assert seconds == sorted(seconds, reverse=True)


def test_concurrent_batches_keep_workers_busy_while_the_client_works():
    job = replace(JOB, m=40, batch_bytes=SUMMAND)
    costs = free(c_read=1e-3, c_engine=1e-2)
    assert job.batches == [10] * 4
    visit, engine = 64 * 100 * 1e-3 / 8, 10 * 1e-2
    assert simulate_certify(costs, ideal(8), job).seconds == pytest.approx(4 * (visit + engine))
    at_once = simulate_certify(costs, ideal(8), replace(job, batches_at_once=4))
    assert at_once.seconds == pytest.approx(4 * visit + engine)


def test_batches_fit_their_memory_limit():
    assert replace(JOB, n_classes=2, m=10_000).batches == [8192, 1808]
    assert replace(JOB, m=3, batch_bytes=1).batches == [1, 1, 1]


def test_times_are_drawn_from_the_samples_and_the_seed():
    two = replace(free(), c_read=(1e-6, 3e-6))
    one = simulate_fit(two, ideal(1), JOB, seed=1)
    assert one == simulate_fit(two, ideal(1), JOB, seed=1)
    assert one != simulate_fit(two, ideal(1), JOB, seed=2)
    draws = one.seconds / (5 * 100 * 1e-6)  # 64 parts, of 1 or 3 each, in five passes
    assert 64 < draws < 192


def test_workers_send_only_their_sums_and_tree_roots_rotate():
    owners = [part * 5 // 23 for part in range(23)]
    for fan_in in (2, 3, 8):
        children, placed = tree(owners, fan_in, workers_first=True)
        assert max(map(len, children)) <= fan_in
        assert sorted(child for each in children for child in each) == list(range(len(placed) - 1))
        moves = [child for node, each in enumerate(children, 23) for child in each if placed[child] != placed[node]]
        assert len(moves) == 4
    assert len({tree(list(range(64)), 8, False, turn)[1][-1] for turn in range(8)}) == 8
    assert tree([0], 8, False) == ([], [0])


def write_constants(path, names=NAMES):
    samples = {name: {"median": 1e-7, "samples": [1e-7, 1.1e-7]} for name in names}
    path.write_text(json.dumps({"constants": samples}))
    return path


def test_the_measured_run_is_compared_with_its_simulation():
    large = {"rows": 6400, "test rows": 10, "files": 64, "two workers": {"fit seconds": 3.21, "certify seconds": 1.0}}
    said = scale_simulation.compared(free(c_read=1e-3, c_vote=1e-4), large)
    # half of the rows each, in five passes; and once, with ten votes
    assert re.fullmatch(r"fit: measured 3.2 s, simulated 16\.\d s; certify: measured 1.0 s, simulated 6\.4 s", said)


def test_constants_are_read_from_the_measured_file(tmp_path):
    constants = Constants.from_json(write_constants(tmp_path / "scale.json"))
    assert constants.c_vote == (1e-7, 1.1e-7)
    with pytest.raises(ValueError, match=r"scale.json' has no samples of c_submit: run benchmarks/scale.py first"):
        Constants.from_json(write_constants(tmp_path / "scale.json", NAMES[:-1]))
    with pytest.raises(ValueError, match=r"c_read must be one or more finite seconds.*Got \(-1.0,\)"):
        free(c_read=-1.0)


def test_impossible_jobs_and_clusters_are_refused():
    with pytest.raises(ValueError, match=r"fan_in must be at least 2\. Got 1"):
        replace(JOB, fan_in=1)
    with pytest.raises(ValueError, match="a bandwidth above 0"):
        Cluster(3, 0.0)


def test_command_prints_tables_and_saves_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scale_simulation, "ROWS", (10**5, 10**6))
    monkeypatch.setattr(scale_simulation, "WORKERS", (3, 10))
    monkeypatch.setattr(scale_simulation, "CHANGED_WORKERS", (10,))
    monkeypatch.setattr(scale_simulation, "ROWS_PER_PART", (10**4, 10**5))
    files = {"--constants": write_constants(tmp_path / "scale.json"), "-o": tmp_path / "o.json"}
    files["--figure"] = tmp_path / "scale.png"
    monkeypatch.setattr("sys.argv", ["scale_simulation.py", *(str(word) for pair in files.items() for word in pair)])
    scale_simulation.main()
    runs, changed = capsys.readouterr().out.strip().split("\n\n")
    assert len(runs.splitlines()) == 2 + 2 * 2 * 2 * 2
    assert runs.startswith("| rows | test rows | Gbit/s | workers | rows per part | fit (s) | certify (s) |")
    assert "| 10 | as it is | " in changed
    written = json.loads((tmp_path / "o.json").read_text())
    assert len(written["runs"]) == 16
    assert all(0 < row["efficiency"] <= 1 for row in written["runs"])
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
