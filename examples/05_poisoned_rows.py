"""
Poisoned rows
=============

With a reference, that is rows that nobody can have changed, certificates cover whole training rows: added, removed or
replaced. The reference needs no labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from flipproof import Adversary, CertifiedRidgeClassifier, certified_accuracy
from flipproof.attacks import worst_rows

X, y = load_digits(return_X_y=True)
keep = np.isin(y, [1, 7])
X, y = X[keep], y[keep]
archive, train, test = slice(0, 80), slice(80, 280), slice(280, None)

# %%
# ``clip`` limits the votes of single rows, so that no added row has a much larger vote than others.
model = CertifiedRidgeClassifier(clip=0.9, classes=[1, 7]).fit(X[train], y[train], reference=X[archive])
flips = np.arange(0, 60)
for changes in ("labels", "rows", "insertions", "removals"):
    certificates = model.certify(X[test], adversary=Adversary(changes=changes))
    print(certificates)
    plt.step(flips, certified_accuracy(y[test], certificates, flips), where="post", label=changes)
plt.xlabel("changes")
plt.ylabel("certified accuracy")
plt.legend()

# %%
# The attack behind the most fragile prediction, confirmed by a refit on the changed rows.
certificates = model.certify(X[test], adversary=Adversary(changes="rows"))
fragile = [int(np.argmin(certificates.radius))]
attack = worst_rows(model, X[test][fragile], Adversary(changes="rows"), reference=X[archive])
print("certified against", certificates.radius[fragile[0]], "changed rows; the attack succeeds:", attack.success)
X_bad, y_bad = attack.changed(X[train], y[train], 0)
print("rows before and after the attack:", len(y[train]), len(y_bad))

# %%
# Rows join and leave, exactly as if by a new fit.
model.partial_fit(X[test][:5], y[test][:5]).forget([0, 1])
print(model.n_rows_, "rows vote")
