"""
Spam in a text file
===================

A small made-up file of messages. ``flipproof.audit`` reads it, encodes the texts without labels, certifies, attacks,
and checks a requirement.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import flipproof

rng = np.random.default_rng(0)
words = {
    "ham": ["lunch", "meeting", "report", "team", "notes", "agenda", "train", "dinner", "call", "home"],
    "spam": ["prize", "win", "cash", "offer", "free", "urgent", "claim", "click", "bonus", "loan"],
}
common = ["the", "a", "to", "of", "and", "you", "this", "we", "it", "for", "on", "in"]
folder = Path(tempfile.mkdtemp())
with open(folder / "messages.tsv", "w") as file:
    print("kind\ttext", file=file)
    for kind in rng.choice(["ham", "spam"], size=600, p=[0.7, 0.3]):
        message = [*rng.choice(words[kind], 2), *rng.choice(words["ham"], 2), *rng.choice(common, 6)]
        print(f"{kind}\t{' '.join(rng.permutation(message))}", file=file)

# %%
# One call from the file to a judged requirement.
result = flipproof.audit(
    folder / "messages.tsv",
    label="kind",
    text=["text"],
    text_dimensions=50,
    holdout=0.25,
    classes=["ham", "spam"],
    requirements=["accuracy >= 0.9 @ 5", "recall spam >= 0.5 @ 5"],
)
print(result)
print("passed:", result.passed)

# %%
# The report is one HTML file.
result.save(folder / "report.html")
print(sorted(path.name for path in folder.iterdir()))

# %%
# Spam is rarer than ham, so its predictions have smaller radii.
certificates = result.certificates["exact"]
prediction, radius = np.asarray(certificates.prediction), certificates.radius
plt.hist([radius[prediction == kind] for kind in ("ham", "spam")], bins=20, label=["ham", "spam"])
plt.xlabel("radius, in changed labels")
plt.ylabel("predictions")
plt.legend(title="predicted as")
