"""Models in files: safetensors and JSON, without pickle. Loading a file never runs code from it."""

from flipproof.store.archive import ModelFileError
from flipproof.store.model_files import ModelVersionWarning, load, model_digest, save
from flipproof.store.registry import registered_classes

__all__ = ["ModelFileError", "ModelVersionWarning", "load", "model_digest", "registered_classes", "save"]
