"""Missing files are downloaded, checked and stored; a failure is reported in one line."""

import gzip
import io
import json
import os
import threading
import zipfile
from dataclasses import replace
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import numpy as np
import pytest
from sklearn.datasets import _openml

from flipproof.datasets import image_sets as digits
from flipproof.datasets import load_mnist, load_phishing, load_sms_spam, load_spambase
from flipproof.datasets import table_sets as tables
from flipproof.datasets import text_sets as texts
from flipproof.runtime import files


class Server:
    """A real local server: it answers from a table of paths, and remembers the requests."""

    def __init__(self):
        self.files, self.asked = {}, []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.asked.append(self.path)
                content = server.files.get(self.path)
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


def serve(monkeypatch, server, module, name, content, **changes):
    """Put a file on the server and let a loader look for it there."""
    path = f"/{name}"
    server.files[path] = content
    monkeypatch.setattr(module, name, replace(getattr(module, name), url=f"{server.url}{path}", **changes))


def test_a_missing_file_is_fetched_once_and_kept(monkeypatch, server, data_dir, tmp_path, capsys):
    original = gzip.decompress((data_dir / "spambase" / "spambase.data.gz").read_bytes())
    serve(monkeypatch, server, tables, "SPAMBASE", original)
    first, second = load_spambase(data_home=tmp_path), load_spambase(data_home=tmp_path)
    assert server.asked == ["/SPAMBASE"]
    assert capsys.readouterr().err == f"Downloading spambase.data (Spambase) from {server.url}/SPAMBASE ...\n"
    assert (tmp_path / "spambase" / "spambase.data").read_bytes() == original
    assert os.listdir(tmp_path / "spambase") == ["spambase.data"]
    assert np.array_equal(first.X_train, second.X_train)
    assert np.array_equal(first.X_train, load_spambase(data_home=data_dir).X_train)


def test_a_compressed_file_is_stored_compressed(monkeypatch, server, data_dir, tmp_path):
    for name in ("TRAIN_IMAGES", "TRAIN_LABELS", "TEST_IMAGES", "TEST_LABELS"):
        file = getattr(digits, name)
        server.files[f"/{file.name}.gz"] = (data_dir / "mnist" / f"{file.name}.gz").read_bytes()
        monkeypatch.setattr(digits, name, replace(file, url=f"{server.url}/{file.name}.gz"))
    data = load_mnist(data_home=tmp_path)
    assert data.X_train.shape == (60000, 784)
    assert sorted(os.listdir(tmp_path / "mnist")) == sorted(path[1:] for path in server.files)


def test_a_file_is_taken_out_of_an_archive(monkeypatch, server, data_dir, tmp_path):
    messages, packed = gzip.decompress((data_dir / "sms_spam" / "SMSSpamCollection.gz").read_bytes()), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("readme", "about")
        archive.writestr("SMSSpamCollection", messages)
    serve(monkeypatch, server, texts, "MESSAGES", packed.getvalue())
    assert len(load_sms_spam(data_home=tmp_path, test_size=0).y_train) == 5574
    assert (tmp_path / "sms_spam" / "SMSSpamCollection").read_bytes() == messages


@pytest.mark.parametrize("content", [b"no archive", b""])
def test_an_invalid_archive_leaves_no_file(monkeypatch, server, tmp_path, content):
    serve(monkeypatch, server, texts, "MESSAGES", content)
    with pytest.raises(FileNotFoundError, match=r"Put SMSSpamCollection into .*no SMSSpamCollection in the archive"):
        load_sms_spam(data_home=tmp_path)
    assert not (tmp_path / "sms_spam").exists()


def test_a_tampered_download_is_refused_and_not_kept(monkeypatch, server, data_dir, tmp_path):
    original = gzip.decompress((data_dir / "spambase" / "spambase.data.gz").read_bytes())
    serve(monkeypatch, server, tables, "SPAMBASE", original.replace(b",1\r\n", b",0\r\n", 1))
    with pytest.raises(
        OSError, match=r"SPAMBASE gives for spambase.data is damaged .* SHA-256 .*, expected b1ef93de71"
    ):
        load_spambase(data_home=tmp_path)
    assert not (tmp_path / "spambase").exists()


def test_offline_the_error_says_which_file_to_put_where(monkeypatch, server, tmp_path):
    serve(monkeypatch, server, tables, "SPAMBASE", b"")
    del server.files["/SPAMBASE"]
    with pytest.raises(FileNotFoundError) as caught:
        load_spambase(data_home=tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert f"Put spambase.data into {tmp_path / 'spambase'}" in message
    assert f"public at {server.url}/SPAMBASE" in message
    assert "404" in message


def test_nothing_is_downloaded_if_disabled_or_if_a_folder_is_given(monkeypatch, server, tmp_path):
    serve(monkeypatch, server, tables, "SPAMBASE", b"anything")
    for where in ({"data_home": tmp_path, "download_if_missing": False}, {"folder": tmp_path}):
        with pytest.raises(FileNotFoundError, match=r"Put spambase.data into "):
            load_spambase(**where)
    assert server.asked == []


def test_a_folder_that_cannot_be_written_to_is_reported(monkeypatch, server, data_dir, tmp_path):
    original = gzip.decompress((data_dir / "spambase" / "spambase.data.gz").read_bytes())
    serve(monkeypatch, server, tables, "SPAMBASE", original)
    (tmp_path / "spambase").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=r"Cannot write .*spambase.data: .* Choose"):
        load_spambase(data_home=tmp_path)


def test_an_interrupted_write_leaves_no_file(monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "file", b"content")
    assert os.listdir(tmp_path) == []


def test_openml_gives_the_same_phishing_table(monkeypatch, server, data_dir, tmp_path):
    """The answers are made from the real values in the forms that OpenML has: ARFF with categories, and JSON."""
    table = gzip.decompress((data_dir / "phishing_websites" / "phishing_website.csv.gz").read_bytes()).decode()
    header, *rows = table.splitlines()
    names = header.split(",")
    values = np.array([row.split(",") for row in rows])
    kinds = [sorted(set(column), key=int) for column in values.T]
    attributes = [f"@attribute {name} {{{','.join(kind)}}}" for name, kind in zip(names, kinds, strict=True)]
    arff = "\n".join(["@relation phishing", *attributes, "@data", *rows, ""]).encode()
    features = [
        {
            "index": str(i),
            "name": name,
            "data_type": "nominal",
            "is_target": str(name == "Result").lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for i, name in enumerate(names)
    ]
    description = {
        "id": "4534",
        "name": "PhishingWebsites",
        "description": "web pages",
        "version": "1",
        "format": "ARFF",
        "status": "active",
        "file_id": "1",
        "url": "https://www.openml.org/data/v1/download/1/phishing.arff",
        "md5_checksum": md5(arff).hexdigest(),
    }
    api = "/api/v1/json/data"
    server.files |= {
        f"{api}/4534": json.dumps({"data_set_description": description}).encode(),
        f"{api}/features/4534": json.dumps({"data_features": {"feature": features}}).encode(),
        f"{api}/qualities/4534": json.dumps(
            {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(len(rows))}]}}
        ).encode(),
        "/data/v1/download/1/phishing.arff": arff,
    }

    def to_server(request, *args, **kwargs):
        path = "/" + request.full_url.split("/", 3)[3]
        return urlopen(server.url + path, *args, **kwargs)

    monkeypatch.setattr(_openml, "urlopen", to_server)
    fetched = load_phishing(data_home=tmp_path)
    here = load_phishing(data_home=data_dir)
    assert np.array_equal(fetched.X_train, here.X_train)
    assert np.array_equal(fetched.y_test, here.y_test)
    assert fetched.checksums == here.checksums


def test_unreachable_openml_gives_a_one_line_error(monkeypatch, tmp_path):
    def offline(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(_openml, "urlopen", offline)
    with pytest.raises(FileNotFoundError, match=r"Put phishing_website.csv into .*public at OpenML.*no network"):
        load_phishing(data_home=tmp_path)
