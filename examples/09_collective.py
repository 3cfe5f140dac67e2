"""
One attack on a whole test set
==============================

A radius is about one prediction; the attacker may choose other labels for each. If one set of changed labels must serve
for the whole test set, fewer predictions can be changed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from flipproof import CertifiedRidgeClassifier, collective_certify

X, y = load_digits(return_X_y=True)
X, y = X[np.isin(y, [3, 8])], y[np.isin(y, [3, 8])]
model = CertifiedRidgeClassifier(classes=[3, 8]).fit(X[:250], y[:250])
X_test = X[250:310]
radius = model.certify(X_test).radius

# %%
# For each number of changed labels: predictions that could be changed one at a time, and by one set for all of them.
flips = [1, 3, 5, 8, 12]
alone = [int((radius < r).sum()) for r in flips]
together = []
for r in flips:
    certificate = collective_certify(model, X_test, flips=r, time_limit=5)
    print(certificate)
    together.append(certificate.most_changed)

# %%
plt.plot(flips, alone, "o-", label="one at a time")
plt.plot(flips, together, "s-", label="by one set of changed labels")
plt.xlabel("changed labels")
plt.ylabel(f"predictions that may change, of {len(X_test)}")
plt.legend()
