"""Certified learners: one file each, all on the same engine."""
