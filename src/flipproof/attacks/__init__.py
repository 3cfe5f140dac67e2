"""What an adversary would really do: attacks on label-linear learners, and the labels that are worth a look."""

from flipproof.attacks.audit import LabelAudit, labels_to_audit
from flipproof.attacks.result import AttackResult
from flipproof.attacks.smoothed import SmoothedAttackResult, smoothed_attack
from flipproof.attacks.worst import worst_flips

__all__ = ["AttackResult", "LabelAudit", "SmoothedAttackResult", "labels_to_audit", "smoothed_attack", "worst_flips"]
