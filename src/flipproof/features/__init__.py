"""Label-free feature maps: scikit-learn transformers whose `fit` ignores labels, so that certificates stay valid."""

from flipproof.features.cnn import CNNFeatures
from flipproof.features.frozen_map import FrozenMap
from flipproof.features.graphs import GraphFeatures
from flipproof.features.image_encoder import ImageEncoder
from flipproof.features.presets import UMAPFeatures, ica_features, pca_features
from flipproof.features.rica import RICA
from flipproof.features.sentence_encoder import SentenceEncoder
from flipproof.features.simclr import SimCLRFeatures
from flipproof.features.straightened import StraightenedImages
from flipproof.features.weak_supervision import PatternRule, RuleCounts, WeakSupervision
from flipproof.features.word_vectors import WordVectors, read_word_vectors
from flipproof.features.written_ratings import NaiveBayesWeights, rating_rules

__all__ = [
    "RICA",
    "CNNFeatures",
    "FrozenMap",
    "GraphFeatures",
    "ImageEncoder",
    "NaiveBayesWeights",
    "PatternRule",
    "RuleCounts",
    "SentenceEncoder",
    "SimCLRFeatures",
    "StraightenedImages",
    "UMAPFeatures",
    "WeakSupervision",
    "WordVectors",
    "ica_features",
    "pca_features",
    "rating_rules",
    "read_word_vectors",
]
