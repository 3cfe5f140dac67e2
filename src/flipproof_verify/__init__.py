"""Check certificate files of format 1 (docs/certificate-format.md). Shares no code with flipproof.

It has some 2,100 lines of code, not hundreds: six rules, eight units and nearly seventy codes of assumptions each need
checks of their own. What decides a radius of votes is in `container`, `claimed` and `votes_rule`, some 570 lines;
bounds by noise take `balls` and `noise_rule`, 190 more.
"""

from flipproof_verify.container import UnreadableFileError
from flipproof_verify.verdicts import INCONCLUSIVE, REFUTED, VERIFIED, Verification
from flipproof_verify.verifying import verify

__all__ = ["INCONCLUSIVE", "REFUTED", "VERIFIED", "UnreadableFileError", "Verification", "verify"]
