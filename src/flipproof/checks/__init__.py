"""Soundness checks for any certified classifier."""

from flipproof.checks.certifier import check_certifier

__all__ = ["check_certifier"]
