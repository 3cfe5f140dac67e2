"""Attacks on plain scikit-learn models, for comparison with certified learners."""
