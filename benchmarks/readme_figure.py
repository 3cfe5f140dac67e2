"""Draw docs/images/digits.png, the figure of the README: its example, compared with nearest neighbours."""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from flipproof import CertifiedAccuracyDisplay, CertifiedNeighborsClassifier, CertifiedRidgeClassifier

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "digits.png"
LEARNERS = {
    "ridge": CertifiedRidgeClassifier(classes=range(10)),
    "15 nearest neighbours": CertifiedNeighborsClassifier(15, classes=range(10)),
    "100 nearest neighbours": CertifiedNeighborsClassifier(100, classes=range(10)),
}


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    _, ax = plt.subplots(figsize=(7.5, 3.9), layout="constrained")
    for name, learner in LEARNERS.items():
        certificates = learner.fit(X_train, y_train).certify(X_test)
        CertifiedAccuracyDisplay.from_certificates(certificates, y_test, name=name, ax=ax)
    legend = ax.get_legend()
    legend.set_loc("upper right")
    legend.set_bbox_to_anchor((1, 0.88), ax.transAxes)  # below the lines of clean accuracy
    ax.set_title("Handwritten digits: predictions that are correct and guaranteed unchanged", fontsize=11)
    plt.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    main()
