"""Learners for more training rows than memory holds: in files, in blocks, or spread over the workers of Dask."""

from flipproof.blocks import RowBlocks
from flipproof.distributed.learners import CertifiedKernelClassifier, CertifiedRidgeClassifier

__all__ = ["CertifiedKernelClassifier", "CertifiedRidgeClassifier", "RowBlocks"]
