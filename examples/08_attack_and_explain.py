"""
Attack and explain one prediction
=================================

An exact certificate comes with an attack: with one more changed label, the prediction changes. Change these labels, fit
again, and see.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from flipproof import AttackDisplay, CertifiedRidgeClassifier
from flipproof.attacks import labels_to_audit, undefended_attack, worst_flips

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, y_train, X_test, y_test = X[:400], y[:400], X[400:], y[400:]
model = CertifiedRidgeClassifier(features=StandardScaler(), classes=[0, 1]).fit(X_train, y_train)
certificates = model.certify(X_test)
print(certificates.explain(X_train=X_train, columns=["mean radius", "mean area"]))

# %%
# The attack is confirmed by a refit on the changed labels.
attack = worst_flips(model, X_test)
row = int(np.argmin(certificates.radius))
changed = y_train.to_numpy().copy()
changed[attack.rows[row]] = attack.new_labels[row]
refitted = CertifiedRidgeClassifier(features=StandardScaler(), classes=[0, 1]).fit(X_train, changed)
before, after = (one.predict(X_test[row : row + 1]) for one in (model, refitted))
print(f"{len(attack.rows[row])} changed labels: {before} becomes {after}")

# %%
# Certified accuracy and accuracy under attack meet: the radius is exact.
AttackDisplay.from_certificates(certificates, y_test, attack, name="ridge")

# %%
# A logistic regression has no certificate. An attack shows how few labels are enough.
scaler = StandardScaler().fit(X_train)
plain = LogisticRegression().fit(scaler.transform(X_train), y_train)
found = undefended_attack(plain, scaler.transform(X_train), y_train, scaler.transform(X_test[:20]))
plt.figure()
plt.hist([found.flips_needed, attack.flips_needed[:20]], label=["logistic regression", "certified ridge"])
plt.xlabel("changed labels that overturn a prediction")
plt.legend()

# %%
# The labels to check first.
print(labels_to_audit(model, X_test, top=5).rows)
