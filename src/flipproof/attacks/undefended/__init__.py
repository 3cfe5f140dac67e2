"""Attacks on plain scikit-learn models, for comparison with what is certified."""
