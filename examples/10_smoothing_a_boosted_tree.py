"""
Smoothing a boosted tree
========================

Gradient boosting has no certificate of its own. ``SmoothedClassifier`` fits it to noisy copies of the labels and lets
the models vote; certificates then hold with a stated confidence.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from flipproof import CertifiedPartitionClassifier, CertifiedRidgeClassifier, SmoothedClassifier, certified_accuracy

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# More samples give larger radii: use a thousand or more. Here 100 keep the example short.
boosted = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=7)
smoothed = SmoothedClassifier(boosted, noise=0.3, n_select=20, n_samples=100, confidence=0.99, random_state=0)
models = {
    "boosted, smoothed": smoothed,
    "trees on 40 partitions": CertifiedPartitionClassifier(DecisionTreeClassifier(), n_partitions=40),
    "ridge, exact": CertifiedRidgeClassifier(classes=[0, 1]),
}
flips = np.arange(0, 21)
for name, model in models.items():
    certificates = model.fit(X_train, y_train).certify(X_test)
    print(name, certificates)
    plt.step(flips, certified_accuracy(y_test, certificates, flips), where="post", label=name)
plt.xlabel("changed labels")
plt.ylabel("certified accuracy")
plt.legend()
