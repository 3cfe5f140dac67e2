"""Public data sets, read from a folder or downloaded once; files are checked, and their provenance is reported.

>>> from flipproof.datasets import load_mnist17
>>> data = load_mnist17()
>>> print(data.provenance)  # doctest: +ELLIPSIS
MNIST (LeCun, Cortes, Burges). train-images-idx3-ubyte: the original; ...
"""

from flipproof.datasets.image_sets import load_cifar10, load_dogfish, load_mnist, load_mnist17
from flipproof.datasets.shelf import Dataset, get_data_home
from flipproof.datasets.table_sets import load_adult, load_german_credit, load_phishing, load_spambase
from flipproof.datasets.text_sets import load_enron_spam, load_imdb, load_sms_spam

__all__ = [
    "Dataset",
    "get_data_home",
    "load_adult",
    "load_cifar10",
    "load_dogfish",
    "load_enron_spam",
    "load_german_credit",
    "load_imdb",
    "load_mnist",
    "load_mnist17",
    "load_phishing",
    "load_sms_spam",
    "load_spambase",
]
