"""
Nodes of a graph
================

A graph of four communities, in which every fourth node has a label. Labels spread along the edges, and every prediction
has a certificate: it would be the same even if any r of the labels had been changed. The graph itself is assumed to be
as given.
"""

import numpy as np
from scipy.sparse import csr_array

from flipproof import (
    CertifiedAccuracyDisplay,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    collective_certify,
)
from flipproof.features import GraphFeatures

rng = np.random.default_rng(0)
community = np.repeat(np.arange(4), 100)
chance = np.where(community[:, None] == community, 0.06, 0.006)
half = np.triu(rng.random((400, 400)) < chance, 1)
graph = csr_array(half | half.T, dtype=float)
labelled = np.arange(0, 400, 4)
others = np.setdiff1d(np.arange(400), labelled)

# %%
# X is the numbers of nodes: `fit` gets those that have a label, `certify` any nodes.
spreading = CertifiedPropagationClassifier(graph=graph, clip=0.9, classes=range(4))
certificates = spreading.fit(labelled, community[labelled]).certify(others)
print(certificates)
print(certificates.assumptions[-1])

# %%
# Nodes may have features, here four noisy numbers. Two steps along the edges average the noise out.
numbers = np.eye(4)[community] + rng.normal(scale=2.0, size=(400, 4))
ridge = {
    f"ridge, {hops} hops": CertifiedRidgeClassifier(
        features=GraphFeatures(graph, numbers, hops=hops), classes=range(4)
    ).fit(labelled, community[labelled])
    for hops in (0, 2)
}
curves = {"spreading": certificates} | {name: model.certify(others) for name, model in ridge.items()}
CertifiedAccuracyDisplay.from_certificates(curves, community[others])

# %%
# One attack on all nodes at once changes fewer of them than separate attacks.
print(collective_certify(spreading, others[::4], flips=3))
