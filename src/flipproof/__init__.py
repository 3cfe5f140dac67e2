"""flipproof: a certificate for every prediction against changed training labels."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0.dev0"

#: The module of each public name. Names are imported when they are first used, so that `import flipproof` is quick.
PUBLIC_NAMES = {
    "Adversary": "adversary",
    "Assumption": "assumptions",
    "AttackDisplay": "displays",
    "Audit": "auditing",
    "Certificates": "certificates",
    "CertifiedAccuracyDisplay": "displays",
    "CertifiedClusterClassifier": "learners.cluster",
    "CertifiedForestClassifier": "learners.forest",
    "CertifiedKernelClassifier": "learners.kernel",
    "CertifiedNeighborsClassifier": "learners.neighbors",
    "CertifiedPartitionClassifier": "learners.partition",
    "CertifiedPropagationClassifier": "learners.propagation",
    "CertifiedRidgeClassifier": "learners.ridge",
    "FeatureNoise": "core.noise",
    "JointNoise": "core.noise",
    "LabelDependenceWarning": "learners.ridge",
    "LabelFlip": "core.noise",
    "LabelLinearClassifier": "learners.base",
    "RadiusHistogramDisplay": "displays",
    "SmoothedClassifier": "smoothing",
    "StreamingKernelClassifier": "streaming",
    "StreamingRidgeClassifier": "streaming",
    "audit": "auditing",
    "certified_accuracy": "metrics",
    "certified_recall": "metrics",
    "certify": "learners.pipeline",
    "collective_certify": "learners.collective_certificates",
    "select_on_trusted": "learners.selection",
}

#: Public subpackages, reachable as attributes: ``flipproof.attacks.worst_flips``.
PUBLIC_SUBPACKAGES = (
    *("attacks", "checks", "core", "datasets", "experiments"),
    *("features", "smoothing", "streaming", "tables"),
)

__all__ = ["__version__", *PUBLIC_NAMES, *PUBLIC_SUBPACKAGES]


def __getattr__(name: str) -> Any:
    if name in PUBLIC_NAMES:
        return getattr(import_module(f"flipproof.{PUBLIC_NAMES[name]}"), name)
    if name in PUBLIC_SUBPACKAGES:
        return import_module(f"flipproof.{name}")
    raise AttributeError(f"module 'flipproof' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
