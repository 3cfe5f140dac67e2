"""`flipproof certify` on folders of Parquet files, locally and on clusters: the same results as for one file."""

import gc
import hashlib
import json
import os
import re
import signal
import subprocess
import sys

import dask
import numpy as np
import pyarrow as pa
import pytest
from patience import SECONDS, until
from pyarrow import parquet
from terminal import signalled
from tiers import mostly_slow

from flipproof.cli import workers as cluster
from flipproof.cli.group import run
from flipproof.streaming import sample
from flipproof.tables import TableEncoder

# distributed leaves sockets of failed connections to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

N_TRAIN, N_TEST = 240, 30
ROWS = ["--reference", "reference.parquet", "--changes", "rows", "--clip", "0.9"]
WORDS = np.array(["free", "money", "prize", "win", "click", "offer", "lunch", "today", "team", "project", "talk"])
#: Options that can be repeated, and options that cannot.
MANY = ("--text", "--drop")
ONCE = ("--reference", "--changes", "--clip", "--scale")

EVERYTHING = ["--label", "kind", "--id", "key", "--text", "body", "--trusted", "sure", "--drop", "who"]


def emails(n, seed):
    """Emails with columns of every kind."""
    rng = np.random.default_rng(seed)
    spam = rng.random(n) < 0.5
    vectors = rng.normal(size=(n, 3)).astype(np.float32) + spam[:, None]
    return pa.table(
        {
            "key": [f"mail-{seed}-{i}" for i in range(n)],
            "length": pa.array(rng.normal(size=n) + spam, mask=rng.random(n) < 0.1),
            "links": rng.integers(0, 9, n),
            "country": np.where(rng.random(n) < 0.3 + 0.5 * spam, "elsewhere", "here"),
            "answered": (rng.random(n) < 0.7) & ~spam,
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 3),
            "body": [" ".join(rng.choice(WORDS[:8] if one else WORDS[4:], 5)) for one in spam],
            "kind": np.where(spam, "spam", "ham"),
            "who": rng.choice(["ann", "bob", "cy", "dee", "eve"], n),
            "sure": rng.choice(["yes", "no", "No"], n),
        }
    )


def write_parts(table, folder, ends, rows_in_group):
    folder.mkdir()
    for number, (start, stop) in enumerate(zip([0, *ends], [*ends, table.num_rows], strict=True)):
        parquet.write_table(table.slice(start, stop - start), folder / f"{number}.parquet", rows_in_group)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folder with the same training rows in one file and in files of unequal size, one of them empty."""
    folder = tmp_path_factory.mktemp("emails")
    train = emails(N_TRAIN, 1)
    parquet.write_table(train, folder / "train.parquet")
    write_parts(train, folder / "parts", [90, 90, 91, 200], 60)
    write_parts(train, folder / "others", [150], 1000)
    parquet.write_table(emails(N_TEST, 2), folder / "test.parquet")
    reference = pa.concat_tables([emails(70, 3), train.slice(10, 5)])
    parquet.write_table(reference.drop_columns(["key", "kind", "who", "sure"]), folder / "reference.parquet")
    parquet.write_table(reference.drop_columns(["key", "who", "sure"]), folder / "checked.parquet")
    return folder


def unless_given(defaults, options):
    """Return the default options that are not among the given ones, followed by the given ones; the last counts."""
    given = [str(one) for one in options]
    pairs = [*zip(defaults[::2], defaults[1::2], strict=True)]
    kept = [one for pair in pairs if pair[0] not in given or pair[0] in MANY for one in pair]
    last = [place for place, one in enumerate(given) if one in ONCE and one in given[place + 1 :]]
    return kept + [one for place, one in enumerate(given) if place not in last and place - 1 not in last]


@pytest.fixture
def certify(data, tmp_path, capfd, monkeypatch):
    """Return a function that runs the command in the folder, and returns its output, summary and messages."""
    monkeypatch.chdir(data)

    def check(train, *options, columns=EVERYTHING):
        out = tmp_path / "certificates.csv"
        arguments = ["--train", train, *unless_given(["--test", "test.parquet", *columns], options)]
        assert run(["certify", *arguments, "-o", str(out), "--json"]) == 0
        captured = capfd.readouterr()
        return out.read_text(), json.loads(captured.out), captured.err

    return check


@pytest.fixture
def refused(data, tmp_path, capfd, monkeypatch):
    """Return a function that runs the command, checks that it fails with a one-line message, and returns it."""
    monkeypatch.chdir(data)

    def check(train, *options, columns=EVERYTHING, command="certify"):
        defaults = ["--test", "test.parquet", *columns]
        arguments = ["--train", str(train), *unless_given(defaults, options), "--quiet"]
        assert run([command, *arguments]) == 2
        captured = capfd.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert captured.err.startswith("flipproof: error: ")
        assert len(captured.err) < 500
        return captured.err

    return check


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--scale", "rank", "--classes", "ham,spam,other", "--allow", "spam:ham"],
        ["--method", "tight", "--method", "kl", "--noise", "0.2", "--set", "regularization=3"],
        ["--features", "l*,emb*", "--learner", "kernel", "--set", "n_components=20"],
    ],
)
def test_a_folder_gives_the_same_results_as_one_file(certify, options):
    wanted, summary, _ = certify("train.parquet", *options)
    for train in ("parts", "others", "parts/*.parquet"):
        written, found, _ = certify(train, *options)
        assert written == wanted
        for name in ("headline", "problem", "methods", "assumptions"):
            assert found[name] == summary[name]
        assert found["facts"]["encoding"] == summary["facts"]["encoding"]
        assert found["facts"]["columns_used"] == summary["facts"]["columns_used"]


def test_encoding_texts_in_blocks_is_bit_identical():
    rng = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in rng.permutation(500)])
    texts = pa.table({"body": [" ".join(rng.choice(words, 40)) for _ in range(200)]})
    encoder = TableEncoder(["body"], text_dimensions=20)
    whole = encoder.fit_transform(texts)
    assert np.array_equal(
        whole, np.concatenate([encoder.transform(texts.slice(start, 50)) for start in range(0, 200, 50)])
    )


def test_annotators_in_a_folder_give_the_same_results_as_one_file(certify):
    columns = ["--label", "kind", "--id", "key", "--annotator", "who", "--drop", "sure,body"]
    wanted, summary, _ = certify("train.parquet", columns=columns)
    written, found, _ = certify("parts", columns=columns)
    assert written == wanted
    assert '"annotators"' in written
    assert found["threat"] == summary["threat"]


SOURCES = ["--label", "kind", "--id", "key", "--text", "body", "--annotator", "who", "--drop", "sure"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("options", "columns"),
    [
        (ROWS, EVERYTHING),
        ([*ROWS, "--changes", "insertions", "--clip", "sign", "--scale", "rank"], EVERYTHING),
        ([*ROWS, "--changes", "removals", "--classes", "ham,spam,other"], EVERYTHING),
        ([*ROWS, "--changes", "labels"], EVERYTHING),  # with a second table, against rows
        (ROWS, SOURCES),
        ([*ROWS, "--features", "l*,emb*", "--learner", "kernel", "--set", "n_components=20"], EVERYTHING),
        ([*ROWS, "--learner", "kernel"], EVERYTHING),  # landmarks are rows of the reference, in memory
    ],
)
def test_changed_rows_in_a_folder_give_the_same_results_as_one_file(certify, options, columns):
    wanted, summary, _ = certify("train.parquet", *options, columns=columns)
    for train in ("parts", "others"):
        written, found, _ = certify(train, *options, columns=columns)
        assert written == wanted
        for name in ("headline", "problem", "methods", "assumptions", "threat", "rows"):
            assert found[name] == summary[name]
        for name in ("encoding", "columns_used", "reference_rows"):
            assert found["facts"][name] == summary["facts"][name]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("options", "columns"),
    [
        (["--reference", "checked.parquet", "--reference-labels", "--prior", "ridge"], SOURCES),
        ([*ROWS, "--reference", "checked.parquet", "--reference-labels", "--prior", "forest"], EVERYTHING),
        (["--prior", "logistic", "--prior-weight", "0.5", "--scale", "rank"], EVERYTHING),
        ([*ROWS, "--prior", "ridge"], EVERYTHING),
    ],
)
def test_priors_give_the_same_results_as_for_one_file(certify, options, columns):
    wanted, summary, _ = certify("train.parquet", *options, columns=columns)
    for train in ("parts", "others"):
        written, found, _ = certify(train, *options, columns=columns)
        assert written == wanted
        for name in ("headline", "problem"):
            assert found[name] == summary[name]
        # the command says of training rows in memory both that the column trusts them and that the fit does
        codes, stated = ({one["code"] for one in each["assumptions"]} for each in (found, summary))
        assert codes <= stated <= codes | {"trusted-at-fit", "trusted-labels", "trusted-rows"}
        alone = [
            dict(zip(one["names"], one["accuracy"], strict=True))
            for one in (found["trusted_only"], summary["trusted_only"])
        ]
        for name in alone[1]:
            if name.startswith("the prior"):
                assert alone[0][name] == alone[1][name]


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [EVERYTHING, SOURCES])
def test_random_errors_are_bounded_as_for_one_file_if_asked_for(certify, columns):
    wanted = certify("train.parquet", "--error-rate", "0.02,0.1", columns=columns)[1]["random_errors"]
    assert wanted["n_labels"] > 0
    assert certify("parts", "--error-rate", "0.02,0.1", columns=columns)[1]["random_errors"] == wanted
    for options in ([], ["--error-rate", "0"]):
        assert certify("parts", *options, columns=columns)[1]["random_errors"] is None


def test_a_prior_needs_trusted_labels(refused):
    for train in ("train.parquet", "parts"):
        said = refused(train, "--prior", "forest", columns=["--label", "kind", "--id", "key", "--drop", "body"])
        assert "--prior requires trusted labels: give --trusted, or --reference with --reference-labels" in said


def test_the_report_states_trusted_labels_and_why_there_are_no_attacks(certify, tmp_path):
    _, summary, _ = certify("parts", "--report", tmp_path / "report.html")
    assert any("training labels are trusted" in sentence for sentence in summary["threat"])
    assert not any("Any label may be changed" in sentence for sentence in summary["threat"])
    assert "read in blocks" in (tmp_path / "report.html").read_text()
    certify("parts", "--report", tmp_path / "report.md")
    assert "read in blocks" in (tmp_path / "report.md").read_text()


def test_the_checksum_covers_names_sizes_and_footers(certify, data):
    facts = certify("parts")[1]["facts"]
    files = sorted((data / "parts").iterdir())
    assert facts["training_files"] == 5
    assert facts["training_bytes"] == sum(file.stat().st_size for file in files)
    digest = hashlib.sha256()
    for content, file in ((file.read_bytes(), file) for file in files):
        footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
        digest.update(f"{file.name}\n{len(content)}\n".encode() + footer)
    checksums = facts["sha256"]
    assert checksums["parts (names, sizes and footers of its Parquet files)"] == digest.hexdigest()
    assert checksums["test.parquet"] == hashlib.sha256((data / "test.parquet").read_bytes()).hexdigest()


def test_the_encoding_is_fitted_on_a_sample_of_many_rows(certify, monkeypatch):
    monkeypatch.setattr(sample, "ROWS_IN_SAMPLE", 100)
    results = [certify(train) for train in ("parts", "others", "*n.parquet")]
    assert len({written for written, _, _ in results}) == 1
    for _, summary, _ in results:
        [encoded] = [one["values"] for one in summary["assumptions"] if one["code"] == "columns-encoded"]
        assert encoded == {"n_encoded": 80, "n_rows": 240}


def test_words_and_missing_values_outside_the_sample_are_accepted(certify, data, monkeypatch):
    table = emails(N_TRAIN, 1)
    countries, lengths = table["country"].to_pylist(), table["links"].to_pylist()
    countries[7], lengths[10] = "unheard of", None
    table = table.set_column(3, "country", [countries]).set_column(2, "links", [lengths])
    write_parts(table, data / "strange", [100], 50)
    monkeypatch.setattr(sample, "ROWS_IN_SAMPLE", 100)
    assert len(certify("strange")[0].splitlines()) == N_TEST + 1


def test_compatible_column_types_may_differ_between_files(certify, data):
    table = emails(N_TRAIN, 1)
    folder = data / "types"
    folder.mkdir()
    parquet.write_table(table.slice(0, 100), folder / "a.parquet")
    other = table.slice(100)
    for name, kind in (("links", pa.float32()), ("body", pa.large_string()), ("embedding", pa.list_(pa.float64()))):
        place = other.column_names.index(name)
        other = other.set_column(place, name, other[name].cast(kind))
    country = other["country"].dictionary_encode()
    parquet.write_table(other.set_column(3, "country", country), folder / "b.parquet")
    assert certify("types")[0] == certify("train.parquet")[0]


def test_progress_goes_to_stderr_unless_quiet(certify, capfd, data):
    _, _, talk = certify("parts")
    assert "Fitting ridge to 240 rows\n" in talk
    assert "parts\n" in talk
    assert certify("parts", "--quiet")[2] == ""


@pytest.mark.slow
def test_dask_is_imported_only_on_request(data):
    check = (
        "import sys; from flipproof.cli.group import run; assert run(sys.argv[1:]) == 0; "
        "assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    arguments = ["certify", "--train", "parts", "--test", "test.parquet", *EVERYTHING, "--quiet"]
    subprocess.run([sys.executable, "-c", check, *arguments], cwd=data, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_local_workers_give_the_same_results(certify):
    wanted, _, _ = certify("train.parquet")
    written, _, talk = certify("parts", "--workers", 2, "--memory-limit", "1GiB")
    assert written == wanted
    assert "Dashboard: http://127.0.0.1:" in talk
    assert re.search(r"Counting votes \[#{20}\] (\d+) of \1 parts", talk)


@pytest.mark.slow
def test_local_workers_give_the_same_results_against_rows(certify, data):
    wanted, summary, _ = certify("train.parquet", *ROWS)
    written, found, _ = certify("parts", *ROWS, "--workers", 2)
    assert written == wanted
    assert found["assumptions"] == summary["assumptions"]


@pytest.mark.slow
def test_a_killed_worker_is_restarted_even_after_the_timeout():
    """Dask removes a worker that is not back in time; its tasks would then wait forever."""
    import distributed  # noqa: F401 - leaving config.set would discard settings loaded inside it

    choice = cluster.ClusterChoice(1, None, None, None, None, None)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10 ms"}), choice.client(print) as client:
        [process] = client.run(os.getpid).values()
        os.kill(process, signal.SIGKILL)
        assert client.submit(os.getpid).result(timeout=SECONDS) != process
        assert list(client.cluster.workers) == [0]  # not removed: it might answer just before it is closed
    gc.collect()  # closes the connection to the killed process


@pytest.mark.slow
def test_errors_in_a_worker_are_reported_in_one_line(refused, data):
    table = emails(N_TRAIN, 1)
    sure = table["sure"].to_pylist()
    sure[150] = "maybe"
    write_parts(table.set_column(9, "sure", [sure]), data / "unsure", [100], 30)
    wanted = "'unsure/1.parquet' must say which rows are trusted: yes or no, true or false, 1 or 0. Got 'maybe'"
    assert f"{wanted} in row 50 instead" in refused("unsure", "--workers", 1)
    assert f"{wanted} in row 50 instead" in refused("unsure")


@pytest.mark.slow
@pytest.mark.parametrize("moment", mostly_slow(["Starting", "Dashboard"], fast=(0,)))
def test_an_interrupt_leaves_no_process_behind(data, moment):
    arguments = ["certify", "--train", "parts", "--test", "test.parquet", *EVERYTHING, "--workers", "1"]
    # the signal must arrive while the processes are starting, before the rest of the work
    is_waiting = moment != "Starting"
    code, written, talk = signalled(data, arguments, moment, signal.SIGINT, to_all=True, is_waiting=is_waiting)
    assert (code, written) == (130, "")
    assert "Traceback" not in talk
    assert talk.rstrip().endswith("flipproof: interrupted")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Two self-signed TLS certificates with their keys: ours and theirs."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ours", "theirs"):
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        names = ["-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run(
            [*make, *names, "-keyout", f"{name}.key", "-out", f"{name}.pem"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    return folder


def tls_options(folder, name):
    return [
        "--tls-ca",
        folder / f"{name}.pem",
        "--tls-cert",
        folder / f"{name}.pem",
        "--tls-key",
        folder / f"{name}.key",
    ]


@pytest.fixture(scope="module", params=mostly_slow(["tcp", "tls"], fast=(0,)))
def running(request, tmp_path_factory, certificates):
    """Address and TLS options of a scheduler with a worker, started outside of flipproof."""
    folder = tmp_path_factory.mktemp(request.param)
    options = tls_options(certificates, "ours") if request.param == "tls" else []
    security = [str(one).replace("--tls-ca", "--tls-ca-file") for one in options]
    place = ["--host", "127.0.0.1", "--scheduler-file", "scheduler.json", *security]
    commands = [
        ["dask_scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--protocol", request.param, *place],
        ["dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--protocol", request.param, *place],
    ]
    processes = []
    try:
        for name, *arguments in commands:
            with (folder / f"{name}.log").open("w") as log:
                command = [sys.executable, "-m", f"distributed.cli.{name}", *arguments]
                environment = {**os.environ, "OMP_NUM_THREADS": "1"}
                processes.append(subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment))
            until(lambda: (folder / "scheduler.json").exists() and (folder / "scheduler.json").stat().st_size)
        until(lambda: "Registered to" in (folder / "dask_worker.log").read_text())
        yield json.loads((folder / "scheduler.json").read_text())["address"], options
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(SECONDS)


@pytest.mark.slow
def test_an_existing_scheduler_gives_the_same_results(certify, running):
    address, options = running
    wanted, _, _ = certify("train.parquet")
    written, _, talk = certify("parts", "--scheduler", address, *options)
    assert written == wanted
    assert "Dashboard: http" in talk


@pytest.mark.slow
def test_connections_with_wrong_tls_settings_are_refused(refused, running, certificates, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    address, options = running
    if options:
        said = refused("parts", "--scheduler", address, *tls_options(certificates, "theirs"))
        assert "--tls-ca, --tls-cert and --tls-key" in refused("parts", "--scheduler", address)
    else:
        said = refused("parts", "--scheduler", address.replace("tcp://", ""), *tls_options(certificates, "ours"))
    assert "--scheduler: cannot connect to" in said
    gc.collect()


@pytest.mark.slow
def test_an_unreachable_scheduler_is_reported(refused, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    assert "--scheduler: cannot connect to '127.0.0.1:1', without TLS" in refused("parts", "--scheduler", "127.0.0.1:1")
    gc.collect()


@pytest.mark.parametrize("address", ["", "nonsense", "weird://host:1", "127.0.0.1:99999", "tcp://:8786", "host:port"])
def test_invalid_addresses_are_refused(refused, address):
    assert "must be an address" in refused("parts", "--scheduler", address)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", "2", "--scheduler", "127.0.0.1:1"], "either --workers N or --scheduler ADDRESS"),
        (["--workers", "0"], "'--workers': 0 is not in the range"),
        (["--workers", "2", "--jobs", "2"], "--jobs cannot be combined"),
        (["--workers", "1", "--memory-limit", "lots"], "'lots' must be a size"),
        (["--workers", "1", "--memory-limit", "1MiB"], "at least 512MiB"),
        (["--memory-limit", "1GiB"], "--memory-limit requires --workers"),
        (["--tls-ca", "ca.pem"], "require --scheduler"),
        (["--scheduler", "h:1", "--tls-ca", "ca.pem"], "must be given together"),
        (["--scheduler", "h:1", "--tls-ca", "a", "--tls-cert", "b", "--tls-key", "c"], "no such file"),
        (
            ["--scheduler", "h:1", *("--tls-ca", "test.parquet"), *("--tls-cert", "b"), *("--tls-key", "c")],
            "--tls-cert: cannot read 'b'",
        ),
        (["--learner", "forest"], "forest needs all training rows in memory"),
        (["--learner", "kernel"], "give --set n_components=N"),
        (["--holdout", "0.5"], "require --test FILE"),
        (["--set", "verbose=1"], "must be NAME=VALUE with one of regularization"),
        (["--label", "kynd"], "--label: 'parts/0.parquet' has no column 'kynd'. Did you mean 'kind'?"),
        (["--annotator", "whom"], "--annotator: 'parts/0.parquet' has no column 'whom'. Did you mean 'who'?"),
        (["--features", "x*"], "has no column 'x*'"),
        (["--label", "length"], "has missing labels in column 'length', the first in row"),
        (["--label", "key", "--id", "kind"], "is it the label"),
        (["--trusted", "embedding"], "must say which rows are trusted"),
        (["--classes", "ham,eggs"], "'spam'"),
    ],
)
def test_invalid_options_are_refused(refused, options, message):
    assert message in refused("parts", *options)


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--changes", "rows"], "--changes rows requires --reference"),
        ([*ROWS, "--reference", "nowhere.parquet"], "there is no such file"),
        ([*ROWS, "--reference", "narrow.parquet"], "'narrow.parquet' has no feature column 'links'"),
        ([*ROWS, "--reference", "wide.parquet"], "'parts/0.parquet' has no feature column 'more'"),
        ([*ROWS, "--reference", "words.parquet"], "holds words in the reference, but numbers in the training rows"),
        ([*ROWS, "--reference", "one_row.parquet"], "at least 2 are required"),
        ([*ROWS, "--reference", "longer.parquet"], "embedding"),
        ([*ROWS, "--method", "tight"], "--method: only exact covers changed rows"),
        ([*ROWS, "--allow", "ham:spam"], "--allow cannot be combined with --changes rows"),
        ([*ROWS, "--clip", "1.5"], "above 0 and at most 1"),
        ([*ROWS, "--set", "clip=0.5"], "give --clip only once"),
        ([*ROWS, "--learner", "neighbors"], "neighbors needs all training rows in memory"),
        ([*ROWS, "--set", "regularization=gcv"], "regularization"),
        ([*ROWS, "-o", "reference.parquet"], "it is also an input file"),
    ],
)
def test_what_does_not_fit_a_reference_is_refused(refused, data, options, message):
    reference = parquet.read_table(data / "reference.parquet")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(4 * len(reference))), 4)
    others = {
        "narrow": reference.drop_columns(["links"]),
        "wide": reference.append_column("more", [np.arange(len(reference))]),
        "words": reference.set_column(0, "length", [["long"] * len(reference)]),
        "one_row": reference.slice(0, 1),
        "longer": reference.set_column(reference.column_names.index("embedding"), "embedding", vectors),
    }
    for name, table in others.items():
        parquet.write_table(table, data / f"{name}.parquet")
    assert message in refused("parts", *options)


def test_invalid_tls_files_are_refused(refused):
    files = ["--tls-ca", "test.parquet", "--tls-cert", "test.parquet", "--tls-key", "test.parquet"]
    assert "are not valid TLS files" in refused("parts", "--scheduler", "h:1", *files)


def test_without_dask_the_error_says_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "need Dask: pip install 'flipproof[dask]'" in refused("parts", "--workers", 2)


def test_an_output_that_is_also_an_input_is_refused(refused):
    assert "it is also an input file" in refused("parts", "-o", "parts/1.parquet")


def test_attacks_on_a_folder_are_refused(refused):
    assert "'parts' must be a file" in refused("parts", command="attack")


def test_workers_refuse_tables_that_are_not_parquet(refused, data):
    (data / "rows.csv").write_text("a,kind\n1,ham\n")
    assert "'rows.csv' must end in .parquet or .pq" in refused("rows.csv", "--workers", 2)


@pytest.mark.slow
def test_a_test_file_among_the_training_files_is_refused(refused, certify, data, tmp_path):
    write_parts(emails(60, 1), tmp_path / "both", [20], 10)
    (tmp_path / "link").symlink_to("both")
    (tmp_path / "test.parquet").symlink_to("both/1.parquet")
    for train in ("both", "link", "both/*.parquet"):
        for test in ("both/1.parquet", "link/1.parquet", "test.parquet"):
            said = refused(tmp_path / train, "--test", tmp_path / test)
            assert f"--test: '{tmp_path / test}' is one of the training files in '{tmp_path / train}': move it" in said
    certify(str(tmp_path / "both"), "--test", "parts/3.parquet")
    certify(str(tmp_path / "both" / "0*"), "--test", tmp_path / "both" / "1.parquet")
    certify("test.parquet", "--workers", "1")  # a single file may be both


def test_broken_links_are_refused(refused, data, tmp_path):
    write_parts(emails(60, 1), tmp_path / "links", [20], 10)
    (tmp_path / "links" / "3.parquet").symlink_to("nowhere")
    assert "3.parquet': it is a link to 'nowhere', which does not exist" in refused(tmp_path / "links")


def test_columns_missing_from_some_files_can_be_dropped(certify, refused, data, tmp_path):
    table = emails(N_TRAIN, 1)
    extra = table.slice(100).append_column("extra", [range(N_TRAIN - 100)])
    folder = tmp_path / "more"
    folder.mkdir()
    parquet.write_table(table.slice(0, 100), folder / "0.parquet")
    parquet.write_table(extra, folder / "1.parquet")
    assert "leave it out with --drop" in refused(folder)
    wanted, _, _ = certify("train.parquet")
    for pattern in ("extra", "ext*", "who,extra"):
        assert certify(str(folder), "--drop", pattern)[0] == wanted
    assert f"--drop: '{folder}' has no column 'extro'. Did you mean 'extra'?" in refused(folder, "--drop", "extro")


@pytest.mark.slow
def test_the_pandas_index_is_not_a_column(certify, data, tmp_path):
    wanted, summary, _ = certify("train.parquet")
    frame = emails(N_TRAIN, 1).to_pandas()
    frame.index = frame.index[::-1] ** 2
    folder = tmp_path / "indexed"
    folder.mkdir()
    frame[:90].reset_index(drop=True).to_parquet(folder / "0.parquet")
    frame[90:].to_parquet(folder / "1.parquet")
    frame.to_parquet(tmp_path / "indexed.parquet")
    assert "__index_level_0__" in parquet.read_schema(folder / "1.parquet").names
    test = emails(N_TEST, 2).to_pandas()
    test.set_index(test.index**2).to_parquet(tmp_path / "test.parquet")
    assert "__index_level_0__" in parquet.read_schema(tmp_path / "test.parquet").names
    for train in (folder, tmp_path / "indexed.parquet", "train.parquet"):
        for test in ("test.parquet", tmp_path / "test.parquet"):
            written, found, _ = certify(str(train), "--test", test)
            assert written == wanted
            assert found["facts"]["columns_used"] == summary["facts"]["columns_used"]


def test_empty_folders_and_unmatched_patterns_are_refused(refused, tmp_path):
    assert "has no files that end in" in refused(tmp_path)
    assert "no file matches" in refused(f"{tmp_path}/*.parquet")


def changed(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns("links"), r"1.parquet' has no column 'links', which "),
        (lambda table: table.drop_columns("kind"), r"1.parquet' has no column 'kind', which "),
        (lambda table: table.append_column("more", [[0] * len(table)]), "1.parquet' has a column 'more', but "),
        (lambda table: changed(table, "links", [["a"] * len(table)]), "column 'links' holds words in "),
        (lambda table: changed(table, "kind", [[0] * len(table)]), "column 'kind' holds numbers in "),
        (
            lambda table: changed(table, "embedding", [[[1.0]] * len(table)]),
            "column 'embedding' holds vectors of 1 num",
        ),
        (lambda table: changed(table, "links", [[np.inf] * len(table)]), "column 'links' holds infinity in row 0"),
        (lambda table: changed(table, "kind", [[None] * len(table)]), "1.parquet' has missing labels in column 'kind'"),
        (lambda table: None, "1.parquet' as Parquet: "),
    ],
)
def test_an_inconsistent_file_is_named(refused, tmp_path, change, message):
    table = emails(60, 1)
    parquet.write_table(table.slice(0, 40), tmp_path / "0.parquet")
    other = change(table.slice(40))
    if other is None:
        (tmp_path / "1.parquet").write_bytes(b"PAR1 nothing PAR1")
    else:
        parquet.write_table(other, tmp_path / "1.parquet")
    said = refused(tmp_path)
    assert message in said
    assert "1.parquet'" in said


def test_a_copy_of_the_label_is_refused(refused, tmp_path):
    table = emails(60, 1)
    table = table.append_column("copied", table["kind"])
    write_parts(table, tmp_path / "copies", [20], 10)
    parquet.write_table(table, tmp_path / "test.parquet")
    said = refused(tmp_path / "copies", "--test", tmp_path / "test.parquet")
    assert "column 'copied' is a copy of the label column 'kind'" in said


@pytest.mark.slow
def test_a_single_class_is_refused(refused, tmp_path):
    write_parts(changed(emails(60, 1), "kind", [["ham"] * 60]), tmp_path / "one", [20], 10)
    assert "all labels in column 'kind' are 'ham'" in refused(tmp_path / "one")
