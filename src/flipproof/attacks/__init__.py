"""Attacks on certified and on undefended classifiers, and the labels most worth an audit."""

from flipproof.attacks.annotator_audit import AnnotatorAudit, annotators_to_check
from flipproof.attacks.audit_plan import plan_audit
from flipproof.attacks.label_audit import LabelAudit, labels_to_audit
from flipproof.attacks.plan_result import AuditPlan, PlannedCheck
from flipproof.attacks.result import AttackResult, RowAttackResult
from flipproof.attacks.smoothed import SmoothedAttackResult, smoothed_attack
from flipproof.attacks.undefended.any_classifier import AnyClassifierAttack
from flipproof.attacks.undefended.strategies import DistanceAttack, InfluenceAttack, strongest, undefended_attack
from flipproof.attacks.worst import worst_flips
from flipproof.attacks.worst_rows import worst_rows

__all__ = [
    "AnnotatorAudit",
    "AnyClassifierAttack",
    "AttackResult",
    "AuditPlan",
    "DistanceAttack",
    "InfluenceAttack",
    "LabelAudit",
    "PlannedCheck",
    "RowAttackResult",
    "SmoothedAttackResult",
    "annotators_to_check",
    "labels_to_audit",
    "plan_audit",
    "smoothed_attack",
    "strongest",
    "undefended_attack",
    "worst_flips",
    "worst_rows",
]
