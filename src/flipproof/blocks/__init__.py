"""Training rows that come a block at a time, from arrays, files or functions: more of them than memory holds."""

from flipproof.blocks.block import Block
from flipproof.blocks.rows import RowBlocks

__all__ = ["Block", "RowBlocks"]
