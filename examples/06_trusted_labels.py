"""
Trusted labels
==============

What a few labels that nobody can change are worth: as trusted votes, as a prior, and alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from flipproof import CertifiedForestClassifier, certified_accuracy
from flipproof.attacks import plan_audit

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
trusted = np.random.default_rng(0).permutation(len(y_train)) < 40

# %%
# Labels that are trusted in the fit are trusted in every certificate of that model.
flips = np.arange(0, 200)
forest = CertifiedForestClassifier(50, classes=[0, 1])
with_prior = CertifiedForestClassifier(
    50, classes=[0, 1], prior=RandomForestClassifier(random_state=0), prior_weight=1.0
)
models = {
    "no trusted labels": forest.fit(X_train, y_train),
    "prior": with_prior.fit(X_train, y_train, trusted=trusted),
}
for name, model in models.items():
    plt.step(flips, certified_accuracy(y_test, model.certify(X_test), flips), where="post", label=name)

# %%
# The baseline is a model of the trusted labels alone: no change of other labels affects it.
alone = RandomForestClassifier(random_state=0).fit(X_train[trusted], y_train[trusted]).score(X_test, y_test)
plt.axhline(alone, color="gray", linestyle="--", label="40 trusted labels alone")
plt.xlabel("changed labels")
plt.ylabel("certified accuracy")
plt.legend()
print(f"trusted labels alone: {alone:.3f}")

# %%
# Before you check labels, simulate what it would buy.
model = CertifiedForestClassifier(20).fit(X_train, y_train)
plan = plan_audit(model, X_test, y_test, [20, 40], X=X_train, y=y_train, flips=[0, 50])
print(plan.cheapest(0.8, 50))
