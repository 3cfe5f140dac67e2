"""Label-free feature maps: scikit-learn transformers whose `fit` ignores labels, so that certificates stay true."""

from flipproof.features.cnn import CNNFeatures
from flipproof.features.presets import UMAPFeatures, ica_features, pca_features
from flipproof.features.rica import RICA
from flipproof.features.simclr import SimCLRFeatures
from flipproof.features.vector_files import read_word_vectors
from flipproof.features.words import WordVectors

__all__ = [
    "RICA",
    "CNNFeatures",
    "SimCLRFeatures",
    "UMAPFeatures",
    "WordVectors",
    "ica_features",
    "pca_features",
    "read_word_vectors",
]
