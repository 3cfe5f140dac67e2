"""Values as nodes of JSON and tensors, and back: plain values, arrays, and objects of the classes in the registry.

Numbers, texts, booleans and None are nodes as they are. Everything else is an object of JSON that names its kind:
``{"tuple": [...]}``, ``{"tensor": "name"}``, ``{"object": "class", "state": {...}}``. Arrays, and lists of many texts
or numbers, become tensors. Reading makes nothing else than what is listed here, and imports nothing but the classes of
the registry: no name in a file is looked up anywhere else.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from flipproof.core.rounding import Values
from flipproof.store.archive import ModelFileError
from flipproof.store.registry import REMEDY, Entry, entry_named, entry_of

#: Functions of NumPy that a FunctionTransformer may have.
UFUNCS = frozenset(
    (
        *("absolute", "arcsinh", "cbrt", "ceil", "exp", "exp2", "expm1", "fabs", "floor", "log", "log10", "log1p"),
        *("log2", "negative", "reciprocal", "rint", "sign", "sqrt", "square", "tanh", "trunc"),
    )
)

#: Types of NumPy that are parameters, and types of arrays.
SCALARS = {name: getattr(np, name) for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64")}
SCALARS |= {name: getattr(np, name) for name in ("uint8", "uint16", "uint32", "uint64")} | {"bool": np.bool_}
BUILTINS = {"float": float, "int": int, "bool": bool, "str": str, "object": object}

#: Types of columns of pandas and polars.
FRAME_TYPES = (*(f"{sign}nt{bits}" for sign in ("I", "UI") for bits in (8, 16, 32, 64)), "Float32", "Float64")

#: Types of timestamps.
TIMES = tuple(f"datetime64[{unit}]" for unit in ("D", "h", "m", "s", "ms", "us", "ns"))

#: Lists with more items than this become tensors.
FEW = 16

#: Nodes are at most this deep in each other.
DEEPEST = 60

#: Texts of an array may need this many times the bytes of the file, beyond one MiB, since all get the longest width.
WIDER = 16


class Packer:
    """Turns values into nodes, and collects the tensors."""

    def __init__(self) -> None:
        self.tensors: dict[str, NDArray[Any]] = {}

    def node(self, value: Any, where: str) -> Any:
        """Return the node of a value; `where` is its place in the model, for errors and names of tensors."""
        if value is None or type(value) is bool:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if type(value) is int:
            if not -(2**63) <= value < 2**64:
                raise ModelFileError(f"{where} is an integer of more than 64 bits, which cannot be stored.")
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if type(value) in (list, tuple, set, frozenset):
            return self._items(value, where)
        if type(value) in (dict, MappingProxyType):
            keys, items = list(value), list(value.values())
            return {"dict": [self._items(keys, f"{where}.keys"), self._items(items, f"{where}.values", keys)]}
        for pack in (_packed_number, _packed_type, _packed_range):
            node = pack(value)
            if node is not None:
                return node
        if isinstance(value, np.ufunc):
            name = str(value.__name__)
            if name in UFUNCS and getattr(np, name, None) is value:
                return {"ufunc": name}
            raise ModelFileError(f"{where} is the function {name}, which cannot be stored: {REMEDY}.")
        if issparse(value):  # a matrix that was given, in any format, is stored by its values
            is_stored_as_it_is = isinstance(value, csr_array) and value.dtype.kind == "f"
            return self._sparse(value if is_stored_as_it_is else csr_array(value, dtype=np.float64), where)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if type(value).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow"):
            return self._array(np.asarray(value), where)
        return self._object(value, where)

    def _tensor(self, values: Values, where: str) -> str:
        short = re.sub(r"[^A-Za-z0-9_.-]+", "_", where)[-100:].strip(".")
        name, number = short, 1
        while name in self.tensors:
            number += 1
            name = f"{short}-{number}"
        native = values.dtype.newbyteorder("=")
        self.tensors[name] = np.ascontiguousarray(values, dtype=native).reshape(values.shape)
        return name

    def _array(self, array: Values, where: str) -> Any:
        settings: dict[str, Any] = {} if array.flags.writeable else {"fixed": True}
        if array.dtype.kind in "fiub" and array.dtype.name in SCALARS:
            # the order of an array in memory decides on the last bits of a product: it is kept
            flipped = [axis for axis in range(array.ndim) if array.strides[axis] < 0 and array.shape[axis] > 1]
            settings |= {"flipped": flipped} if flipped else {}
            in_order = np.copy(np.flip(array, tuple(flipped)), order="K")
            if in_order.ndim > 1 and not in_order.flags.c_contiguous and in_order.flags.f_contiguous:
                return {"tensor": self._tensor(in_order.T, where), "order": "F", **settings}
            return {"tensor": self._tensor(in_order, where), **settings}
        if type(array) is np.ndarray and array.dtype.kind == "M" and array.dtype.name in TIMES:
            times = np.ascontiguousarray(array).view(np.int64)
            return {"times": self._tensor(times, where), "type": array.dtype.name, **settings}
        if type(array) is np.ndarray and array.dtype.kind == "S" and array.ndim == 1 and array.dtype.itemsize:
            letters = np.ascontiguousarray(array).view(np.uint8).reshape(len(array), array.dtype.itemsize)
            return {"letters": self._tensor(letters, where), **settings}
        if type(array) is np.ndarray and array.dtype.kind == "U":
            width = array.dtype.itemsize // 4
            node = self._words(array.ravel().tolist(), where)
            self._check_width(array.size, width, node, where)
            return {**node, "as": "array", "width": width, "shape": list(array.shape), **settings}
        if type(array) is np.ndarray and array.dtype.kind == "O":
            items = self._items(array.ravel().tolist(), where)
            return {"objects": items, "shape": list(array.shape), **settings}
        raise ModelFileError(f"{where} is an array of {array.dtype}, which cannot be stored.")

    def _check_width(self, n: int, width: int, node: dict[str, Any], where: str) -> None:
        n_bytes = sum(self.tensors[name].nbytes for name in node["words"])
        if 4 * n * width > WIDER * n_bytes + 2**20:
            raise ModelFileError(
                f"{where} has {n:,} texts of up to {width:,} characters, most of which are much shorter: shorten the "
                "longest ones."
            )

    def _words(self, texts: list[str], where: str) -> dict[str, Any]:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        lengths = np.array([len(one) for one in encoded], dtype=np.int64)
        letters = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return {"words": [self._tensor(letters, f"{where}.letters"), self._tensor(lengths, f"{where}.lengths")]}

    def _items(self, values: Any, where: str, names: Any = None) -> dict[str, Any]:
        kind = type(values).__name__
        items = sorted(values, key=repr) if kind in ("set", "frozenset") else list(values)
        types = set(map(type, items))
        if len(items) > FEW and types == {str}:
            return {**self._words(items, where), "as": kind}
        if len(items) > FEW and types in ({int}, {float}):
            packed = np.array(items) if types == {float} or all(-(2**63) <= one < 2**63 for one in items) else None
            if packed is not None:
                return {"numbers": self._tensor(packed, where), "as": kind}
        named = range(len(items)) if names is None else names
        return {kind: [self.node(one, f"{where}.{name}") for name, one in zip(named, items, strict=True)]}

    def _sparse(self, value: csr_array, where: str) -> dict[str, Any]:
        parts = [self._tensor(getattr(value, name), f"{where}.{name}") for name in ("data", "indices", "indptr")]
        return {"sparse": parts, "shape": [int(length) for length in value.shape]}

    def _object(self, value: object, where: str) -> dict[str, Any]:
        entry = entry_of(value, where)
        state = entry.state_of(value, where)
        nodes = {name: self.node(one, f"{where}.{name}" if where else name) for name, one in state.items()}
        return {"object": entry.key, "state": nodes}


def _packed_number(value: object) -> Any:
    if not isinstance(value, np.generic) or value.dtype.name not in SCALARS:
        return None
    plain = value.item()
    return {"number": value.dtype.name, "value": {"float": str(plain)} if _is_strange(plain) else plain}


def _packed_type(value: object) -> Any:
    if isinstance(value, type) and value in (*SCALARS.values(), *BUILTINS.values()):
        names = {kind: name for name, kind in SCALARS.items()}
        return {"type": f"numpy.{names[value]}" if value in names else value.__name__}
    if isinstance(value, np.dtype) and (value.name in SCALARS or value.kind == "O"):
        return {"dtype": value.name}
    package, name = type(value).__module__.partition(".")[0], str(value)
    if package in ("pandas", "polars") and name in FRAME_TYPES:
        return {"dtype": f"{package}.{name}"}
    return None


def _packed_range(value: object) -> Any:
    if isinstance(value, (range, slice)):
        ends = [value.start, value.stop, value.step]
        if all(one is None or type(one) is int or type(one) is str for one in ends):
            return {type(value).__name__: ends}
    return None


def _is_strange(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


class Unpacker:
    """Turns nodes back into values.

    Parameters
    ----------
    tensors : mapping of str to arrays
        The tensors of the file. Each is used once, so that no more memory is needed than the file has bytes.

    Attributes
    ----------
    classes : set of str
        Keys of the classes of all objects made so far.
    """

    def __init__(self, tensors: Mapping[str, Values]) -> None:
        self._tensors = dict(tensors)
        self.classes: set[str] = set()
        self._makers: dict[str, Callable[..., Any]] = {
            "float": self._float,
            "tensor": self._array,
            "words": self._words,
            "letters": self._letters,
            "times": self._times,
            "objects": self._objects,
            "numbers": self._numbers,
            "number": self._number,
            "type": self._type,
            "dtype": self._dtype,
            "range": self._range,
            "slice": self._slice,
            "ufunc": self._ufunc,
            "sparse": self._sparse,
            "object": self._object,
            "dict": self._dict,
            **{kind.__name__: self._collection(kind) for kind in (list, tuple, set, frozenset)},
        }

    def value(self, node: Any, where: str, depth: int = 0) -> Any:
        """Return the value of a node."""
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if depth > DEEPEST:
            raise ModelFileError(f"{where} is nested more than {DEEPEST} deep")
        kind = next((name for name in node if name in self._makers), None) if isinstance(node, dict) else None
        if kind is None:
            raise ModelFileError(f"{where} is of an unknown kind")
        try:
            return self._makers[kind](
                where, depth + 1, **{"given" if name == kind else name: node[name] for name in node}
            )
        except ModelFileError:
            raise
        except (TypeError, ValueError, OverflowError, KeyError, AttributeError, IndexError) as error:
            raise ModelFileError(f"{where} is invalid ({' '.join(str(error).split())[:200]})") from None

    def check_all_used(self) -> None:
        """Refuse tensors that belong to nothing."""
        if self._tensors:
            raise ModelFileError(f"its tensor {next(iter(self._tensors))!r} belongs to nothing")

    def _taken(self, name: object, kinds: str, dimensions: int | None = None) -> NDArray[Any]:
        if not isinstance(name, str) or name not in self._tensors:
            raise ModelFileError(f"it has no tensor {name!r}, or uses it twice")
        tensor = self._tensors.pop(name)
        if tensor.dtype.kind not in kinds or dimensions not in (None, tensor.ndim):
            raise ModelFileError(f"its tensor {name!r} has the wrong type or shape")
        return tensor

    def _float(self, where: str, depth: int, given: Any) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[given]

    def _array(
        self, where: str, depth: int, given: Any, order: Any = "C", fixed: Any = False, flipped: Any = ()
    ) -> NDArray[Any]:
        tensor = self._taken(given, "fiub")
        is_known = order in ("C", "F") and all(type(one) is int and 0 <= one < tensor.ndim for one in flipped)
        if not is_known:
            raise ModelFileError(f"{where} has an unknown order")
        return _fixed(np.flip(tensor.T if order == "F" else tensor, tuple(flipped)), fixed)

    def _words(self, where: str, depth: int, given: Any, **settings: object) -> Any:
        letters, lengths = (self._taken(name, kinds, 1) for name, kinds in zip(given, ("u", "i"), strict=True))
        if (
            letters.dtype != np.uint8
            or lengths.dtype != np.int64
            or (lengths < 0).any()
            or lengths.sum() != len(letters)
        ):
            raise ModelFileError(f"the texts of {where} do not fit their lengths")
        ends, content = np.cumsum(lengths).tolist(), letters.tobytes()
        texts = [
            content[end - length : end].decode("utf-8", "surrogatepass")
            for end, length in zip(ends, lengths.tolist(), strict=True)
        ]
        if settings.get("as") != "array":
            return self._as_collection(texts, where, **settings)
        width, shape = settings.pop("width"), settings.pop("shape")
        longest = max(map(len, texts), default=0)
        n_bytes = letters.nbytes + lengths.nbytes
        if type(width) is not int or width < max(longest, 1) or 4 * len(texts) * width > WIDER * n_bytes + 2**20:
            raise ModelFileError(f"the texts of {where} do not fit their width")
        array = np.array(texts, dtype=f"<U{width}").reshape(_shape(shape, len(texts), where))
        return _fixed(array, settings.pop("fixed", False))

    def _times(self, where: str, depth: int, given: object, type: object, fixed: object = False) -> NDArray[Any]:
        times = self._taken(given, "i", 1)
        if times.dtype != np.int64 or type not in TIMES:
            raise ModelFileError(f"{where} does not hold timestamps")
        return _fixed(times.view(type), fixed)

    def _letters(self, where: str, depth: int, given: object, fixed: object = False) -> NDArray[Any]:
        letters = self._taken(given, "u", 2)
        if letters.dtype != np.uint8 or letters.shape[1] == 0:
            raise ModelFileError(f"{where} does not hold letters")
        return _fixed(letters.view(f"S{letters.shape[1]}").reshape(-1), fixed)

    def _objects(self, where: str, depth: int, given: object, shape: object, fixed: object = False) -> NDArray[Any]:
        items = self.value(given, where, depth)
        if type(items) is not list or not all(_is_plain(one) for one in items):
            raise ModelFileError(f"{where} contains more than plain values")
        array = np.empty(len(items), dtype=object)
        for place, one in enumerate(items):  # all at once, arrays of equal length would become lines
            array[place] = one
        return _fixed(array.reshape(_shape(shape, len(items), where)), fixed)

    def _numbers(self, where: str, depth: int, given: object, **settings: object) -> Any:
        return self._as_collection(self._taken(given, "fi", 1).tolist(), where, **settings)

    def _as_collection(self, items: list[Any], where: str, **settings: Any) -> Any:
        kind = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[settings.pop("as")]
        if settings:
            raise ModelFileError(f"{where} has unknown entries")
        return kind(items)

    def _number(self, where: str, depth: int, given: Any, value: object) -> Any:
        plain = self.value(value, where, depth)
        if not isinstance(plain, (bool, int, float)):
            raise ModelFileError(f"{where} is not a number")
        return SCALARS[given](plain)

    def _type(self, where: str, depth: int, given: Any) -> type:
        return SCALARS[given.removeprefix("numpy.")] if given.startswith("numpy.") else BUILTINS[given]

    def _dtype(self, where: str, depth: int, given: Any) -> Any:
        if given in SCALARS or given == "object":
            return np.dtype(given)
        package, _, name = given.partition(".")
        if name not in FRAME_TYPES:
            raise ModelFileError(f"{where} is an unknown type")
        if package == "pandas":
            import pandas  # type: ignore[import-untyped, unused-ignore]

            return pandas.api.types.pandas_dtype(name)
        if package == "polars":
            import polars  # type: ignore[import-not-found, unused-ignore]

            return getattr(polars, name)()
        raise ModelFileError(f"{where} is an unknown type")

    def _range(self, where: str, depth: int, given: Any) -> range:
        start, stop, step = (int(one) if type(one) is int else None for one in given)
        if None in (start, stop, step):
            raise ModelFileError(f"{where} is not a range")
        return range(start, stop, step)  # type: ignore[arg-type]

    def _slice(self, where: str, depth: int, given: Any) -> slice:
        start, stop, step = given
        if not all(one is None or type(one) in (int, str) for one in given):
            raise ModelFileError(f"{where} is not a slice")
        return slice(start, stop, step)

    def _ufunc(self, where: str, depth: int, given: object) -> Any:
        if not isinstance(given, str) or given not in UFUNCS:
            raise ModelFileError(f"{where} is an unknown function")
        return getattr(np, given)

    def _sparse(self, where: str, depth: int, given: Any, shape: Any) -> csr_array:
        kinds = zip(given, ("f", "i", "i"), strict=True)
        data, indices, starts = (self._taken(name, kind, 1) for name, kind in kinds)
        lines, columns = (int(one) if type(one) is int else -1 for one in shape)
        if lines < 0 or columns < 0 or len(starts) != lines + 1:
            raise ModelFileError(f"{where} has an invalid shape")
        is_rising = starts[0] == 0 and starts[-1] == len(data) == len(indices)
        is_rising &= bool((starts[1:] >= starts[:-1]).all())  # differences could wrap around
        if not is_rising or (len(indices) and (indices.min() < 0 or indices.max() >= columns)):
            raise ModelFileError(f"{where} has entries outside of its shape")  # scipy would read other memory
        return csr_array((data, indices, starts), shape=(lines, columns))

    def _dict(self, where: str, depth: int, given: Any) -> dict[Any, Any]:
        keys, values = (self.value(one, where, depth) for one in given)
        if type(keys) is not list or type(values) is not list or len(keys) != len(values):
            raise ModelFileError(f"{where} has not one value for each key")
        found = dict(zip(keys, values, strict=True))
        if len(found) < len(keys):
            raise ModelFileError(f"{where} has a key twice")
        return found

    def _collection(self, kind: type) -> Callable[..., Any]:
        def made(where: str, depth: int, given: object) -> Any:
            if type(given) is not list:
                raise ModelFileError(f"{where} is not a list")
            return kind(self.value(one, f"{where}.{number}", depth) for number, one in enumerate(given))

        return made

    def _object(self, where: str, depth: int, given: object, state: object) -> Any:
        entry: Entry = entry_named(given, where)
        if not isinstance(state, dict):
            raise ModelFileError(f"{where} has no state")
        self.classes.add(entry.key)
        entry.check_names(state, where)
        values = {name: self.value(one, f"{where}.{name}" if where else name, depth) for name, one in state.items()}
        return entry.made(values, where)


def _fixed(array: Values, fixed: object) -> NDArray[Any]:
    if type(fixed) is not bool:
        raise ModelFileError("an array is neither fixed nor not")
    array.setflags(write=not fixed)
    return array


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic, np.ndarray))


def _shape(shape: object, n: int, where: str) -> tuple[int, ...]:
    if type(shape) is not list or not all(type(one) is int and one >= 0 for one in shape) or math.prod(shape) != n:
        raise ModelFileError(f"{where} has an invalid shape")
    return tuple(shape)
