"""
Choosing a learner
==================

Learners differ in who votes on a test row. More voters give larger radii and may cost accuracy. ``compare`` shows both,
and ``select_on_trusted`` chooses on labels that no attacker can change.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof import (
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
)

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
scaled = {"features": StandardScaler(), "classes": [0, 1]}
models = {
    "ridge": CertifiedRidgeClassifier(**scaled),
    "kernel": CertifiedKernelClassifier(**scaled),
    "neighbours, 31": CertifiedNeighborsClassifier(31, **scaled),
    "neighbours, 30 %": CertifiedNeighborsClassifier(0.3, **scaled),
    "forest": CertifiedForestClassifier(50, **scaled),
    "clusters": CertifiedClusterClassifier(**scaled),
}
comparison = flipproof.compare(models, X_test, y_test, flips=[0, 10, 30, 60], train=(X_train, y_train))
print(comparison)
comparison.plot()

# %%
# The table reads the test labels. If there are trusted labels, choose on them instead: here a quarter of them.
trusted = np.arange(len(y_train)) % 4 == 0
selection = flipproof.select_on_trusted(
    {"ridge": models["ridge"], "neighbours": models["neighbours, 31"]},
    {"ridge": {"regularization": [1, 100]}, "neighbours": {"n_neighbors": [31, 101]}},
    X_train,
    y_train,
    trusted,
    flips=20,
)
print(selection)
