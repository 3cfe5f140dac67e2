"""What an adversary would really do, to certified and to undefended classifiers; which labels are worth a look."""

from flipproof.attacks.any_classifier import AnyClassifierAttack
from flipproof.attacks.audit import LabelAudit, labels_to_audit
from flipproof.attacks.distance import DistanceAttack
from flipproof.attacks.influence import InfluenceAttack
from flipproof.attacks.result import AttackResult
from flipproof.attacks.smoothed import SmoothedAttackResult, smoothed_attack
from flipproof.attacks.strongest import strongest, undefended_attack
from flipproof.attacks.worst import worst_flips

__all__ = [
    "AnyClassifierAttack",
    "AttackResult",
    "DistanceAttack",
    "InfluenceAttack",
    "LabelAudit",
    "SmoothedAttackResult",
    "labels_to_audit",
    "smoothed_attack",
    "strongest",
    "undefended_attack",
    "worst_flips",
]
