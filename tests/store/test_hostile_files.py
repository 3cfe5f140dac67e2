"""Hostile and damaged files: one clear line, nothing run, and nothing allocated beyond the size of the file."""

import json
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from stored_models import WORDS, X, Y, cluster, forest, kernel, neighbors, partition, propagation, ridge

import flipproof
from flipproof.store import ModelFileError, ModelVersionWarning
from flipproof.store.archive import Archive, canonical, read


@pytest.fixture
def file(tmp_path):
    return tmp_path / "m.flipproof"


def refused(file, match=None):
    """Check that loading raises one line that names the file, and allocates little."""
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=match) as caught:
        flipproof.load(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
    assert peak < 2**23 + 64 * file.stat().st_size


def tampered(model, file, change):
    """Save a model after a change of its document and tensors, with digests that fit the change."""
    flipproof.save(model, file)
    archive, _ = read(file)
    document, tensors = json.loads(canonical(archive.document)), dict(archive.tensors)
    change(document["model"]["state"], tensors)
    Archive(document, tensors).write(file)


def header_and_data(file):
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def with_header(file, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Bomb:
    def __reduce__(self):
        return (print, ("this must never run",))


def test_files_that_are_no_models(file, capfd):
    flipproof.save(ridge().fit(X, Y), file)
    whole = file.read_bytes()
    contents = [b"", b"{", b"\0" * 100, b"PK\3\4" + b"x" * 50, pickle.dumps(Bomb()), whole[:8], whole[:9], b"\xff" * 64]
    for content in [*contents, *(whole[:length] for length in range(10, len(whole), 217)), whole + b"\0", whole[1:]]:
        file.write_bytes(content)
        refused(file, "cannot load")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data.pkl", pickle.dumps(Bomb()))
    refused(file, "not a flipproof model")
    assert "this must never run" not in capfd.readouterr().out
    with pytest.raises(OSError, match="No such file"):
        flipproof.load(file.with_name("missing"))


def test_changed_bytes_are_noticed(file):
    flipproof.save(ridge().fit(X, Y), file)
    whole = file.read_bytes()
    for place in range(8, len(whole), 37):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        refused(file)


def test_lies_in_the_header(file):
    flipproof.save(ridge().fit(X, Y), file)
    header, data = header_and_data(file)
    whole = file.read_bytes()
    for length in (2**63, 2**64 - 1, len(whole), 2**26, 3):
        file.write_bytes(struct.pack("<Q", length) + whole[8:])
        refused(file, "cannot load")
    names = [name for name in header if name != "__metadata__"]

    def changed(name, **entries):
        with_header(file, {**header, name: {**header[name], **entries}}, data)
        refused(file)

    first, second = header[names[0]]["data_offsets"], names[1]
    changed(names[0], shape=[2**62, 2**62])
    changed(names[0], shape=[10**15])
    changed(names[0], shape=[-1])
    changed(names[0], data_offsets=[0, 10**15])
    changed(second, data_offsets=first)
    changed(names[0], dtype="F16")
    changed(names[0], dtype="PICKLE")
    with_header(file, {**header, "../../etc/passwd": header[names[0]]}, data)
    refused(file)
    with_header(file, {name: header[name] for name in names}, data)
    refused(file, "no flipproof model")
    with_header(file, {**header, "__metadata__": {**header["__metadata__"], "more": "text"}}, data)
    refused(file, "no flipproof model")
    with_header(file, b'{"__metadata__":' + b"[" * 10**6, data)
    refused(file)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[" * 100_000, "JSON|too many"),
        ('{"a":' * 3_000 + "1" + "}" * 3_000, "JSON|does not name a format"),  # Python 3.13 reads it
        ("[" + "[]," * 600_000 + "1]", "too many"),
        ('{"format":' + "9" * 10_000 + "}", "64 bits"),
        ('{"format":1,"format":1}', "twice"),
        ('{"format":NaN}', "not JSON"),
        ('{"format":2,"model":null}', "format 2.*reads format 1"),
        ('{"format":"1"}', "does not name a format"),
        ('{"format":1}', "must have the entries"),
        ("null", "does not name a format"),
        ("not json", "JSON"),
    ],
    ids=range(11),
)
def test_bombs_in_the_description(text, match, file):
    flipproof.save(ridge().fit(X, Y), file)
    header, data = header_and_data(file)
    with_header(file, {**header, "__metadata__": {"flipproof": text}}, data)
    refused(file, match)


def nested(state, tensors, depth=100):
    node = 1
    for _ in range(depth):
        node = {"list": [node]}
    state["noise"] = node


def set_tensor(name, change):
    """Return a change of one tensor: the one that a place in the state names."""

    def apply(state, tensors):
        node = state
        for one in name.split("/"):
            node = node[int(one)] if isinstance(node, list) else node[one]
        tensors[node["tensor"]] = np.ascontiguousarray(change(tensors[node["tensor"]].copy()))

    return apply


def set_node(name, value):
    def apply(state, tensors):
        *places, last = name.split("/")
        node = state
        for one in places:
            node = node[int(one)] if isinstance(node, list) else node[one]
        node[int(last) if isinstance(node, list) else last] = value

    return apply


def put(place, value):
    """Return a function that changes a number of a tensor."""

    def apply(tensor):
        tensor.flat[place] = value
        return tensor

    return apply


def without(name):
    def apply(state, tensors):
        del state[name]

    return apply


def other_column(state, tensors):
    node = state["_whitening"]["state"]["grid"]["state"]["midpoint"]
    tensors[node["tensor"]] = np.append(tensors[node["tensor"]], 0.0)


RIDGE = [
    (set_node("classes_", {"object": "builtins.eval", "state": {}}), "class 'builtins.eval'"),
    (set_node("features_", {"object": "os.system", "state": {}}), "which no model contains"),
    (set_node("features", {"object": "../../evil.py", "state": {}}), "which no model contains"),
    (set_node("evil_", 1), "unknown attribute 'evil_'"),
    (set_node("__class__", "x"), "unknown attribute '__class__'"),
    (without("classes_"), "no attribute 'classes_'"),
    (without("noise"), "no attribute 'noise'"),
    (without("_held"), "contradict|_held"),
    (nested, "nested more than"),
    (set_node("classes", {"list": "x"}), "classes"),
    (set_node("classes", {"unknown": 1}), "unknown kind"),
    (set_node("classes", [1, 2]), "unknown kind"),
    (set_node("noise", "loud"), "noise"),
    (set_node("precision_", 99), "precision_"),
    (set_node("precision_", 10.5), "precision_"),
    (set_node("_clip", 7), "_clip"),
    (set_node("n_rows_", 35), "n_rows_|label_codes_|is_labeled_|fit the others"),
    (set_node("n_labels_", 2), "number of labels"),
    (set_node("n_reference_", 5), "reference"),
    (set_node("n_features_in_", 7), "other columns"),
    (set_node("assumptions_", {"tuple": ["trust me"]}), "assumptions_"),
    (set_node("assumptions_/tuple/0/state/code", "all-is-well"), "assumptions_"),
    (set_node("label_codes_/tensor", "is_labeled_"), "wrong type|uses it twice|label_codes_"),
    (set_tensor("label_codes_", put(0, 9)), "not one of the classes"),
    (set_tensor("label_codes_", put(0, -1)), "label_codes_"),
    (set_tensor("label_codes_", lambda t: t[:-1]), "label_codes_|fit the others"),
    (set_tensor("label_codes_", lambda t: t.astype(float)), "label_codes_"),
    (set_tensor("classes_", lambda t: t[::-1]), "not distinct and in order"),
    (set_tensor("classes_", lambda t: t * 0), "not distinct and in order"),
    (set_tensor("_held", put(0, np.nan)), "_held"),
    (set_tensor("_held", put(0, 0.5)), "not on their grid"),
    (set_tensor("_held", put(0, 2.0**21)), "not on their grid"),
    (set_tensor("_held", lambda t: np.sign(t) * (2.0**20 - 1)), "intercept"),
    (set_tensor("_held", lambda t: t[:-1]), "_held|fit the others"),
    (set_tensor("_held", lambda t: t.astype(np.float64)), "float32"),
    (set_tensor("_whitening/state/rotation/state/both", put(0, np.inf)), "both"),
    (set_tensor("_whitening/state/rotation/state/both", put(0, 0.25)), "not on its grid"),
    (set_tensor("_whitening/state/rotation/state/exponent", put(0, 10**9)), "out of range"),
    (set_node("_whitening/state/rotation/state/bits", 50), "exact"),
    (set_tensor("_whitening/state/eigenvalues", put(0, -1.0)), "not positive"),
    (set_node("_whitening/state/largest_leverage", 1e-9), "longer than the longest"),
    (set_node("_whitening/state/n_rows", 7), "other rows"),
    (other_column, "midpoint|exponent|fit the others"),
    (set_node("noise_/state/n_classes", 7), "another number of classes"),
    (set_node("noise_/state/q", 7), "noise_"),
    (set_node("_regularization", {"list": []}), "_regularization"),
]


@pytest.mark.few(7)
@pytest.mark.parametrize(("change", "match"), RIDGE, ids=range(len(RIDGE)))
def test_a_ridge_that_contradicts_itself_is_refused(change, match, file):
    tampered(ridge().fit(X, Y), file, change)
    refused(file, match)


def loop(state, tensors):
    node = state["estimators_"]["list"][0]["state"]["tree_"]["state"]["integers"]
    tensors[node["tensor"]][0, 0] = 0  # the root is its own child


def far_away(line, value):
    def apply(state, tensors):
        node = state["estimators_"]["list"][0]["state"]["tree_"]["state"]["integers"]
        inner = np.flatnonzero(tensors[node["tensor"]][0] >= 0)[0]
        tensors[node["tensor"]][line, inner] = value

    return apply


def sparse_beyond(name):
    def apply(state, tensors):
        tensors[state[name]["sparse"][1]][0] = 10**6

    return apply


def sparse_part(name, number, change):
    def apply(state, tensors):
        tensors[state[name]["sparse"][number]] = change(tensors[state[name]["sparse"][number]].copy())

    return apply


def features_of(state):
    return state["features_"]["state"]["steps"]["list"][0]["tuple"][1]["state"]


def vocabulary_beyond(state, tensors):
    features_of(state)["vocabulary_"]["dict"][1]["list"][0] = 10**6


def wider(state, tensors):
    features_of(state)["_n_features_outs"]["list"][0] = 1


def of_step(*steps):
    return neighbors(3, features=make_pipeline(*steps))


TEXTS = ["cat dog", "cat bird", "dog dog"] * 12
COLOURS = np.array([["red"], ["blue"], ["green"]] * 12, dtype=object)
OTHERS = [
    (lambda: forest(2).fit(X, Y), loop, "children or a column"),
    (lambda: forest(2).fit(X, Y), far_away(0, 10**9), "children or a column"),
    (lambda: forest(2).fit(X, Y), far_away(1, -7), "children or a column"),
    (lambda: forest(2).fit(X, Y), far_away(2, 10**6), "children or a column"),
    (lambda: forest(2).fit(X, Y), far_away(2, -3), "children or a column"),
    (lambda: forest(2).fit(X, Y), set_tensor("_shares", lambda t: t * 2), "shares"),
    (lambda: forest(2).fit(X, Y), sparse_beyond("_held"), "outside of its shape"),
    (lambda: forest(2).fit(X, Y), sparse_part("_held", 0, lambda t: -t), "one leaf"),
    (lambda: forest(2).fit(X, Y), sparse_part("_held", 2, lambda t: t[::-1].copy()), "outside of its shape"),
    (lambda: forest(2).fit(X, Y, reference=X), set_tensor("_placed", put(0, 10**6)), "one leaf"),
    (lambda: cluster().fit(X, Y), sparse_part("_held", 0, lambda t: t * 0.5), "cluster"),
    (lambda: cluster().fit(X, Y), set_node("n_clusters_", 3), "fit the others"),
    (lambda: cluster(KMeans(3)).fit(X, Y, reference=X), set_tensor("_placed", put(0, 99)), "no cluster"),
    (lambda: neighbors(5).fit(X, Y), set_node("n_neighbors_", 10**9), "more rows vote"),
    (lambda: neighbors(5).fit(X, Y), set_tensor("_held/state/squares", put(0, 1.0)), "lengths of rows"),
    (lambda: neighbors(5).fit(X, Y), set_tensor("_held/state/columns", put(0, 0.5)), "not on their grid"),
    (lambda: neighbors(5).fit(X, Y), set_node("_grid/state/bits", 3), "exact|grid"),
    (lambda: neighbors(5).fit(X, Y), set_node("_weights", "distance"), "weights"),
    (lambda: kernel().fit(X, Y), set_tensor("_mean", put(0, np.nan)), "_mean"),
    (lambda: kernel().fit(X, Y), set_node("_kernel/state/kernel", "exec"), "kernel"),
    (lambda: kernel(n_components=5).fit(X, Y), set_tensor("component_indices_", put(0, 99)), "landmarks"),
    (lambda: propagation(4).fit(X, Y), set_tensor("_spread", put(0, 2.0**60)), "exactly"),
    (lambda: propagation(4).fit(X, Y), set_tensor("_voters", put(0, 5)), "with labels"),
    (lambda: partition(DecisionTreeClassifier(), 3).fit(X, Y), loop, "children or a column"),
    (lambda: partition(n_partitions=3).fit(X, Y), set_tensor("partition_", put(0, 99)), "no partition"),
    (lambda: partition(n_partitions=3).fit(X, Y), set_node("estimators_/list/0", None), "no base learner"),
    (lambda: partition(n_partitions=3).fit(X, Y, reference=X), set_tensor("_frozen_rows", put(0, 9.0)), "hashes"),
    (
        lambda: neighbors(3, features=make_pipeline(CountVectorizer(dtype=float), TruncatedSVD(2))).fit(TEXTS, Y),
        vocabulary_beyond,
        "vocabulary_",
    ),
    (
        lambda: neighbors(3, features=make_pipeline(OneHotEncoder(sparse_output=False))).fit(COLOURS, Y),
        wider,
        "categories",
    ),
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("make", "change", "match"), OTHERS, ids=range(len(OTHERS)))
def test_other_models_that_contradict_themselves_are_refused(make, change, match, file):
    tampered(make(), file, change)
    refused(file, match)


def test_tensors_are_used_once(file):
    def twice(state, tensors):
        state["classes"] = {"tensor": state["label_codes_"]["tensor"]}

    def unused(state, tensors):
        tensors["more"] = np.zeros(3)

    for change, match in ((twice, "uses it twice"), (unused, "belongs to nothing")):
        tampered(ridge().fit(X, Y), file, change)
        refused(file, match)


def test_texts_cannot_need_more_memory_than_the_file(file):
    """All texts of an array have the width of the longest."""

    def wide(state, tensors):
        _, lengths = state["classes_"]["words"]
        state["classes_"]["width"] = 10**9
        tensors[lengths] = np.append(tensors[lengths], 0)

    tampered(ridge().fit(X, WORDS), file, wide)
    refused(file, "width")


def test_other_versions_of_scikit_learn_are_named(file):
    flipproof.save(ridge(features=StandardScaler()).fit(X, Y), file)
    archive, _ = read(file)
    document = json.loads(canonical(archive.document))
    document["versions"]["scikit-learn"] = "0.24.1"
    Archive(document, archive.tensors).write(file)
    with pytest.warns(ModelVersionWarning, match=r"scikit-learn 0\.24\.1"):
        flipproof.load(file)
    del document["model"]["state"]["features_"]["state"]["mean_"]
    tensors = {name: one for name, one in archive.tensors.items() if "mean_" not in name}
    Archive(document, tensors).write(file)
    refused(file, r"no attribute 'mean_'.*written with scikit-learn 0\.24\.1")


def test_anything_but_a_learner_is_refused(file):
    flipproof.save(ridge(features=StandardScaler()).fit(X, Y), file)
    archive, _ = read(file)
    document = json.loads(canonical(archive.document))
    document["model"] = document["model"]["state"]["features_"]
    tensors = {name: one for name, one in archive.tensors.items() if name.startswith("features_")}
    Archive(document, tensors).write(file)
    refused(file, "StandardScaler, which is no learner")
