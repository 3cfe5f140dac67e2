"""Soundness checks for any certified classifier or regressor."""

from flipproof.checks.certifier import check_certifier
from flipproof.checks.changed_targets import check_regressor

__all__ = ["check_certifier", "check_regressor"]
