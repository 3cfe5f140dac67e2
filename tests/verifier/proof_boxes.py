"""Take certificate files apart and put them together again, with digests that fit or not."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

KINDS = {"BOOL": "?", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "F64": "<f8", "F32": "<f4"}
NAMES = {np.dtype(kind).str: name for name, kind in KINDS.items()}


@dataclass
class Box:
    """A certificate file in memory; `write` computes all digests and places, unless they are given."""

    document: dict
    tensors: dict
    places: dict = field(default_factory=dict)
    digests: dict = field(default_factory=dict)
    document_digest: str | None = None

    @classmethod
    def read(cls, path):
        content = Path(path).read_bytes()
        length = int.from_bytes(content[:8], "little")
        header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
        document = json.loads(header.pop("__metadata__")["flipproof"])
        tensors = {
            name: np.frombuffer(data[slice(*one["data_offsets"])], KINDS[one["dtype"]]).reshape(one["shape"]).copy()
            for name, one in header.items()
        }
        return cls(document, tensors)

    def content(self):
        header, data, digests = {}, b"", {}
        for name, array in self.tensors.items():
            own = array.tobytes()
            place = [len(data), len(data) + len(own)]
            header[name] = {"dtype": NAMES[array.dtype.str], "shape": list(array.shape), "data_offsets": place}
            header[name] |= self.places.get(name, {})
            digests[name] = self.digests.get(name, hashlib.sha256(own).hexdigest())
            data += own
        document = {**self.document, "digests": {**self.document["digests"], "tensors": digests}}
        text = json.dumps(document)
        digest = self.document_digest or hashlib.sha256(text.encode()).hexdigest()
        header = {"__metadata__": {"flipproof": text, "flipproof_sha256": digest}, **header}
        start = json.dumps(header).encode()
        return len(start).to_bytes(8, "little") + start + data

    def write(self, path):
        Path(path).write_bytes(self.content())
        return path
