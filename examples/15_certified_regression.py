"""
Numbers: how far can changed targets move a prediction?
=======================================================

Exact intervals of predictions, coefficients, and the gap between two groups.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from flipproof import CertifiedIntervalDisplay, CertifiedRidgeRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], y[:300])

# %%
# The radius is the largest number of changed targets that cannot move a prediction by more than 20.
found = model.certify(X[300:], flips=[1, 5, 20], tolerance=20)
print(found)

# %%
# Both ends are attained: a refit to the worst changes predicts the end, to the last bit.
changes = model.worst_changes(X[300:301], flips=5)[0]
refit = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], changes.applied_to(y[:300]))
print(refit.predict(X[300:301])[0] == found.high[0, 1])

# %%
# Coefficients have intervals, too, and so does the gap between the mean predictions of two groups.
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
CertifiedIntervalDisplay.from_certificates(found, y[300:], ax=axes[0])
CertifiedIntervalDisplay.from_certificates(model.certify_coefficients([1, 5, 20]), ax=axes[1])
groups = X["sex"][300:].gt(0).map({True: "m", False: "f"})
print(model.certify_gaps(X[300:], groups, flips=5, threshold=0).to_frame())
plt.show()
