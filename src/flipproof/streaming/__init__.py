"""Learners for training rows that do not fit in memory: in files, in blocks, or spread over Dask workers."""

from flipproof.streaming.blocks import Block
from flipproof.streaming.classifiers import StreamingKernelClassifier, StreamingRidgeClassifier
from flipproof.streaming.numbers_in_blocks import StreamingRidgeRegressor
from flipproof.streaming.row_blocks import RowBlocks

__all__ = ["Block", "RowBlocks", "StreamingKernelClassifier", "StreamingRidgeClassifier", "StreamingRidgeRegressor"]
