"""Check certificate files of format 1 (docs/certificate-format.md). Shares no code with flipproof."""

from flipproof_verify.container import UnreadableFileError
from flipproof_verify.verdicts import INCONCLUSIVE, REFUTED, VERIFIED, Verification
from flipproof_verify.verifying import verify

__all__ = ["INCONCLUSIVE", "REFUTED", "VERIFIED", "UnreadableFileError", "Verification", "verify"]
