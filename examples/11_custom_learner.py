"""
A custom learner and its checks
===============================

A learner is two methods that never see a label. It gets certificates, attacks and reports, and ``check_certifier``
tries every attack on small problems.
"""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from flipproof import CertifiedAccuracyDisplay, LabelLinearClassifier
from flipproof.attacks import worst_flips
from flipproof.checks import check_certifier


class ParzenWindow(LabelLinearClassifier):
    """Every training row votes with a weight that falls with its distance."""

    def fit_without_labels(self, X):
        """Keep the rows: that is all the geometry there is."""
        self.rows_ = X

    def label_free_weights(self, Z):
        """Return the weight of each training row for each test row, shape (m, n)."""
        return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))


# %%
# The check refits on every labelling of a few rows, and compares with what was certified.
check_certifier(ParzenWindow(), n_problems=1)
print("passed")


# %%
# A learner that peeks at the predictions of its labels fails, with a counterexample.
class Peeking(ParzenWindow):
    """Remember the labels of the last fit in a way that changes the weights: not allowed."""

    def fit(self, X, y, **kwargs):
        """Let the labels scale the weights."""
        self.scale_ = np.where(np.asarray(y) == np.asarray(y)[0], 1.0, 0.1)
        return super().fit(X, y, **kwargs)

    def label_free_weights(self, Z):
        """Return weights that depend on labels."""
        return super().label_free_weights(Z) * self.scale_


try:
    check_certifier(Peeking(), n_problems=1)
except AssertionError as error:
    print("refused:", str(error).splitlines()[0][:100])

# %%
# Certificates and attacks of the learner.
X, y = load_iris(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = ParzenWindow(classes=[0, 1, 2]).fit(X_train, y_train)
certificates = model.certify(X_test)
print(certificates, worst_flips(model, X_test).flips_needed[:5])
CertifiedAccuracyDisplay.from_certificates(certificates, y_test, name="Parzen window")
