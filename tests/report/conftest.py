"""Small but complete reports, for all report formats."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hostile_strings import HOSTILE
from sklearn.datasets import make_blobs

from flipproof import CertifiedRidgeClassifier
from flipproof.attacks import labels_to_audit, worst_flips
from flipproof.report.summary import summarize


@dataclass(frozen=True)
class Problem:
    """A fitted model with test rows, their classes, and the training labels."""

    model: Any
    X: Any
    y: Any
    y_train: Any

    def certificates(self, *methods, **kwargs):
        return {method: self.model.certify(self.X, method=method, **kwargs) for method in methods or ("exact",)}

    def summary(self, *methods, **kwargs):
        """Return a complete summary, except for the given options."""
        shown = {
            "y_true": self.y,
            "y_train": self.y_train,
            "attack": worst_flips(self.model, self.X),
            "audit": labels_to_audit(self.model, self.X),
            "facts": {"training_file": "train.csv", "learner": {"name": "ridge"}, "sha256": {"train.csv": "ab" * 32}},
            "requirement": {"text": "--min-certified-accuracy 0.5@2", "met": True, "found": 0.6789},
        }
        return summarize(self.certificates(*methods), **{**shown, **kwargs})


@pytest.fixture(scope="session")
def problem():
    """Three classes that overlap."""
    X, y = make_blobs(160, centers=3, cluster_std=4.0, random_state=3)
    return Problem(CertifiedRidgeClassifier(classes=range(3)).fit(X[:100], y[:100]), X[100:], y[100:], y[:100])


@pytest.fixture(scope="session")
def hostile_summary():
    """A report in which classes, names, facts, title and everything else are hostile strings."""
    X, y = make_blobs(160, centers=3, cluster_std=4.0, random_state=3)
    names = np.array(HOSTILE)
    labels = names[:3][y]
    model = CertifiedRidgeClassifier(classes=sorted(names[:3])).fit(X[:100], labels[:100])
    found = Problem(model, X[100:], labels[100:], labels[:100])
    return found.summary(
        test_ids=names[np.arange(60) % len(names)],
        train_ids=names[np.arange(100) % len(names)],
        facts={name: {name: name, "list": [name, name]} for name in HOSTILE},
        requirement={"text": HOSTILE[1], "met": False, "found": HOSTILE[0]},
        title=HOSTILE[4],
    )
