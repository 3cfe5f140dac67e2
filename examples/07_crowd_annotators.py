"""
Crowd annotators
================

Several people label each item. How many of them may be malicious, and which ones matter most?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from flipproof import Adversary, Annotations, CertifiedRidgeClassifier, certified_accuracy
from flipproof.attacks import annotators_to_check, worst_flips

X, y = load_digits(return_X_y=True)
X, y = X[np.isin(y, [3, 8])], y[np.isin(y, [3, 8])]
X_train, y_train, X_test, y_test = X[:250], y[:250], X[250:], y[250:]

# %%
# Each item gets three labels from a crowd of 30; one label in ten is wrong.
rng = np.random.default_rng(0)
item = np.repeat(np.arange(250), 3)
annotator = np.concatenate([rng.choice(30, size=3, replace=False) for _ in range(250)])
label = np.where(rng.random(750) < 0.1, 11 - y_train[item], y_train[item])
votes = Annotations.from_long(item, [f"worker {a}" for a in annotator], label, items=np.arange(250))

# %%
# The same model certifies against changed annotations and against malicious annotators.
model = CertifiedRidgeClassifier(classes=[3, 8]).fit(X_train, votes)
adversary = Adversary(groups=votes.annotator)
for name, certificates in [
    ("annotations", model.certify(X_test)),
    ("annotators", model.certify(X_test, adversary=adversary)),
]:
    print(certificates)
    counts = np.arange(0, 25)
    plt.step(counts, certified_accuracy(y_test, certificates, counts), where="post", label=name)
plt.xlabel("malicious annotators, or changed annotations")
plt.ylabel("certified accuracy")
plt.legend()

# %%
# Who takes part in the smallest attack on a prediction, and who in the most attacks?
print(worst_flips(model, X_test[:1], adversary).who(0))
print(annotators_to_check(model, X_test, adversary, top=5).names)
