"""
A table with columns of words
=============================

An invented table like the Adult census data: numbers, categories and missing values in a pandas data frame.
``TableEncoder`` encodes them without labels, inside of the learner.
"""

import numpy as np
import pandas as pd

from flipproof import CertifiedForestClassifier, RadiusHistogramDisplay, certified_recall
from flipproof.tables import TableEncoder

rng = np.random.default_rng(0)
n = 1200
people = pd.DataFrame(
    {
        "age": rng.integers(18, 70, n).astype(float),
        "education": rng.choice(["school", "college", "master"], n, p=[0.5, 0.35, 0.15]),
        "job": rng.choice(["cook", "nurse", "clerk", "engineer"], n),
        "hours": rng.normal(40, 8, n).round(),
    },
    index=[f"person {i}" for i in range(n)],
)
score = people["age"] / 20 + people["hours"] / 10 + people["education"].map({"school": 0, "college": 2, "master": 4})
income = pd.Series(np.where(score + rng.normal(0, 0.7, n) > 7.5, "high", "low"), index=people.index, name="income")
people.loc[people.index[::17], "age"] = np.nan  # some ages are unknown

# %%
# The encoder is fitted without labels, so certificates stay valid.
model = CertifiedForestClassifier(50, features=TableEncoder(), classes=["high", "low"])
model.fit(people[:900], income[:900])
certificates = model.certify(people[900:])
print(certificates.to_frame(income).head())

# %%
# Rows keep the names of the index. Recall of both classes, by number of changed labels:
flips = [0, 5, 10, 20]
print(pd.DataFrame(certified_recall(income[900:], certificates, flips), columns=["high", "low"], index=flips).round(3))
RadiusHistogramDisplay.from_certificates(certificates, income)

# %%
# The explanation of one prediction shows the rows whose labels an attacker would change.
print(certificates.explain(X_train=people[:900], columns=["age", "education", "hours"]))
