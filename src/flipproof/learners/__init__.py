"""Certified learners: one module each, all on the same engine."""
