"""Tables from files and data frames, and their columns as features; encoding never reads a label."""

from flipproof.tables.encoding import TableEncoder
from flipproof.tables.reading import read_table
from flipproof.tables.text_files import TextLayout

__all__ = ["TableEncoder", "TextLayout", "read_table"]
