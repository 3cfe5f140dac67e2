"""Digests are the same for content in one piece, in several pieces, and in a file."""

from hashlib import sha256

import numpy as np

from flipproof.runtime.files import digest_of, digest_of_file, digest_of_pieces, write_whole


def test_digests_are_sha256(tmp_path):
    content = "größe\n".encode() * 1000
    expected = sha256(content).hexdigest()
    assert digest_of(content) == digest_of(content.decode()) == expected
    assert digest_of_pieces([content[:7], content[7:].decode(errors="strict")]) == expected
    write_whole(tmp_path / "file", content)
    assert digest_of_file(tmp_path / "file") == expected


def test_pieces_may_be_arrays():
    array = np.arange(6.0).reshape(2, 3)
    assert digest_of_pieces(["x", array.data]) == sha256(b"x" + array.tobytes()).hexdigest()
