"""What pages leave to the reader: names and files that their code uses, by page."""

import numpy as np
import pandas as pd

from flipproof import CertifiedForestClassifier, CertifiedRidgeClassifier, SmoothedClassifier


def _rows(n=100, seed=0, distance=1):
    """Return rows of two classes, and their labels in words."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 3)), np.where(np.arange(n) % 2, "spam", "ham")
    X[::2] += distance
    return X, y


def _table(label="kind", n=100, seed=0, distance=1):
    X, y = _rows(n, seed, distance)
    table = pd.DataFrame({"key": [f"k{i}" for i in range(n)], "length": X[:, 0], "links": X[:, 1]})
    return table.assign(**{label: y, "who": [f"a{i % 20}" for i in range(n)]})


def certificate_format():
    X, y = _rows()
    return {"model": CertifiedRidgeClassifier().fit(X, y), "X_test": X[:5]}


def readme():
    train = _table("spam", n=400, distance=6).drop(columns="key")
    test = _table("spam", seed=1, distance=6).drop(columns="key")
    train.to_parquet("train.parquet", index=False)
    train.to_csv("train.csv", index=False)
    test.to_csv("test.csv", index=False)
    X, y = _rows()
    CertifiedRidgeClassifier().fit(X, y).certify(X[:5]).save("proof.flipproof")


def evidence():
    _table(distance=3).to_csv("train.csv", index=False)
    _table(seed=1, distance=3).to_csv("test.csv", index=False)
    return {}


def learners():
    X, y = _rows()
    names = {"X_train": X[:80], "y_train": y[:80], "X_test": X[80:], "y_test": y[80:], "trusted": np.arange(80) < 40}
    fitted = {"ridge": CertifiedRidgeClassifier(), "forest": CertifiedForestClassifier(5)}
    return names | {name: model.fit(X[:80], y[:80]) for name, model in fitted.items()}


def models():
    X, y = _rows()
    _table("spam").to_csv("train.csv", index=False)
    _table("spam", seed=1).drop(columns=["spam", "who"]).to_csv("new.csv", index=False)
    return {"X_train": X, "y_train": y, "X_test": X[:5]}


def report():
    X, y = _rows()
    train, test = _table(), _table(seed=1)
    train.to_csv("train.csv", index=False)
    test.to_csv("test.csv", index=False)
    names = {"train": train, "test": test, "X_test": X[:20], "y_test": y[:20], "y_train": y}
    return names | {"model": CertifiedRidgeClassifier().fit(X, y)}


def crowd_labels():
    rng = np.random.default_rng(0)
    items = _table("label", n=60)[["key", "length", "links", "label"]].rename(columns={"key": "item"})
    wide = items.drop(columns="label")
    for who in ("ann", "bob", "eve"):
        wide[who] = np.where(rng.random(60) < 0.9, items["label"], "ham")
    votes = wide.melt("item", ["ann", "bob", "eve"], "who", "label")
    items.to_csv("items.csv", index=False)
    votes.to_csv("votes.csv", index=False)
    wide.to_csv("wide.csv", index=False)
    items.head(20).to_csv("test.csv", index=False)
    return {}


def smoothing():
    X, y = _rows(40)
    from sklearn.tree import DecisionTreeClassifier

    return {
        "X": X,
        "y": y,
        "X_test": X[:3],
        "learner": DecisionTreeClassifier(),
        "SmoothedClassifier": SmoothedClassifier,
    }


def trusted_labels():
    from sklearn.ensemble import RandomForestClassifier

    X, y = _rows(260)
    names = {"X": X, "y": y, "mask": np.arange(260) < 60, "X_trusted": X[:60], "y_trusted": y[:60]}
    names |= {"X_test": X[200:], "y_test": y[200:]}
    table = pd.DataFrame(_rows(260, distance=5)[0]).assign(spam=y)
    table[:200].to_csv("train.csv", index=False)
    table[200:].to_csv("test.csv", index=False)
    return names | {
        "CertifiedForestClassifier": CertifiedForestClassifier,
        "RandomForestClassifier": RandomForestClassifier,
    }


def poisoned_rows():
    rng = np.random.default_rng(0)
    words = {
        "ham": ["lunch", "meeting", "report", "friday", "team", "notes", "agenda"],
        "spam": ["prize", "win", "cash", "offer", "free", "now"],
    }
    common = [f"word{i}" for i in range(60)]

    def some(n):
        labels = rng.choice(["ham", "spam"], size=n)
        return [" ".join([*rng.choice(words[label], 4), *rng.choice(common, 8)]) for label in labels], labels

    names = {}
    for texts, labels, n in [
        ("archive", "_", 150),
        ("messages", "reports", 200),
        ("new_messages", "checked", 30),
        ("todays_messages", "todays_reports", 20),
    ]:
        names[texts], names[labels] = some(n)
    return names


#: The setup of each page that needs one.
SETUPS = {
    "docs/certificate-format.md": certificate_format,
    "docs/crowd-labels.md": crowd_labels,
    "docs/evidence.md": evidence,
    "docs/learners.md": learners,
    "docs/models.md": models,
    "docs/report.md": report,
    "docs/smoothing.md": smoothing,
    "docs/trusted-labels.md": trusted_labels,
    "docs/poisoned-rows.md": poisoned_rows,
}
