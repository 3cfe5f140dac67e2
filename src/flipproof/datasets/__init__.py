"""Public data sets: from a folder, or fetched once; each file checked, and its origin said.

>>> from flipproof.datasets import load_mnist17
>>> data = load_mnist17()  # doctest: +SKIP
>>> print(data.provenance)  # doctest: +SKIP
"""

from flipproof.datasets.cifar import load_cifar10
from flipproof.datasets.digits import load_mnist, load_mnist17
from flipproof.datasets.dogfish import load_dogfish
from flipproof.datasets.files import get_data_home
from flipproof.datasets.phishing import load_phishing
from flipproof.datasets.result import Dataset
from flipproof.datasets.tables import load_adult, load_german_credit, load_spambase
from flipproof.datasets.texts import load_imdb, load_sms_spam

__all__ = [
    "Dataset",
    "get_data_home",
    "load_adult",
    "load_cifar10",
    "load_dogfish",
    "load_german_credit",
    "load_imdb",
    "load_mnist",
    "load_mnist17",
    "load_phishing",
    "load_sms_spam",
    "load_spambase",
]
