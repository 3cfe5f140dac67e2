"""Tables from files and data frames, and their columns as features; encoding never reads a label."""

from flipproof.tables.encoding import TableEncoder
from flipproof.tables.reading import TextLayout, read_table

__all__ = ["TableEncoder", "TextLayout", "read_table"]
