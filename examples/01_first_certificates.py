"""
First certificates
==================

Certify the predictions of a ridge classifier on handwritten digits, and see how certified accuracy falls as more
training labels may have been changed.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from flipproof import CertifiedAccuracyDisplay, CertifiedRidgeClassifier, RadiusHistogramDisplay, certified_accuracy

X, y = load_digits(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# ``classes`` names all classes in advance, so that nothing about them is read from the labels.
model = CertifiedRidgeClassifier(classes=range(10)).fit(X_train, y_train)
certificates = model.certify(X_test)
print(certificates)
print(certificates[0])

# %%
# The radius of a prediction is the number of labels that may be changed, any of them. Certified accuracy counts
# the test rows that are correct and have at least that radius.
print(certified_accuracy(y_test, certificates, flips=[0, 1, 5, 10, 20]).round(3))
CertifiedAccuracyDisplay.from_certificates(certificates, y_test, name="ridge")

# %%
# The histogram shows how radii are distributed, for right and wrong predictions.
RadiusHistogramDisplay.from_certificates(certificates, y_test)

# %%
# The most fragile predictions come first in a review.
print(certificates.most_fragile(5).to_frame(y_test))
