"""The proof in a certificate file, by the rule of the learner: votes, nearest rows, partitions or samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.certificate_words import ROW_UNITS
from flipproof.certificates import Certificates
from flipproof.core.majority import MajorityPowers
from flipproof.core.powers import Powers
from flipproof.core.provider import provides_votes
from flipproof.core.rounding import Integers, Values, scale
from flipproof.core.votes import ProductVotes, SparseVotes, VoteSource, all_votes, class_scores
from flipproof.learners.neighbors import CertifiedNeighborsClassifier
from flipproof.learners.partition import CertifiedPartitionClassifier
from flipproof.smoothing.smoothed_certificates import SmoothedCertificates
from flipproof.store.proof_tensors import Tensors
from flipproof.streaming.rows_in_blocks import RowsInBlocks
from flipproof.timestamps import from_the_first

#: Votes of at most this size are stored in two bytes.
SMALL_VOTE = 2**15 - 1

#: Votes that are held in memory at a time.
VOTES_AT_A_TIME = 2**22


def write_proof(tensors: Tensors, certificates: Certificates, learner: Any, X: object) -> dict[str, Any]:
    """Write the tensors of the proof, and return what the document says of the rule."""
    if isinstance(learner, RowsInBlocks):
        return _rows_in_blocks(tensors, certificates, learner, X)
    powers = learner.powers(certificates.adversary)
    if isinstance(powers, MajorityPowers):
        return _majorities(tensors, certificates, learner, powers, X)
    if isinstance(certificates, SmoothedCertificates):
        return _sampled(tensors, certificates, learner, powers)
    if isinstance(learner, CertifiedPartitionClassifier):
        return _partitions(tensors, certificates, learner, powers, X)
    if not provides_votes(learner):
        raise ValueError(f"There is no proof format for the certificates of {type(learner).__name__}.")
    if isinstance(learner, CertifiedNeighborsClassifier) and certificates.unit in ROW_UNITS:
        return _neighbors(tensors, certificates, learner, powers, X)
    return _votes(tensors, certificates, learner, powers, X)


def _training(tensors: Tensors, codes: Integers, powers: Powers) -> None:
    tensors.add("train.label", codes, np.int32)
    tensors.add("train.changeable", powers.changeable, np.bool_)
    tensors.add("transitions", powers.transitions, np.bool_)
    if powers.groups is not None:
        tensors.add("train.group", powers.groups, np.int32)
    if powers.window_ends is not None:
        tensors.add("window.end", powers.window_ends, np.int32)


def _votes(tensors: Tensors, certificates: Certificates, learner: Any, powers: Powers, X: Any) -> dict[str, Any]:
    """Write integer votes and offsets, block by block."""
    _training(tensors, learner.label_codes_, powers)
    Z, n_classes = learner.test_rows(X), len(learner.classes_)
    form = "dense"
    ends: list[int] = []
    size = max(1, min(VOTES_AT_A_TIME // max(len(learner.label_codes_), 1), 4096))
    for start in range(0, len(Z), size):
        source = learner.votes_on(Z[start : start + size])
        sums = class_scores(source, learner.label_codes_, n_classes)
        offsets = learner.offsets_on(source, sums.sum(axis=1))
        _refuse_other_predictions(certificates, start, np.argmax(sums + offsets, axis=1))
        form = write_votes(tensors, source, len(ends))
        _write_grid(tensors, certificates, start, source, offsets)
        ends.append(start + len(sums))
    document: dict[str, Any] = {"rule": "votes", "votes": form, "blocks": ends}
    if certificates.adversary is not None and certificates.adversary.window is not None:
        times, document["tick"] = from_the_first(certificates.adversary.window)
        tensors.add("window.time", times, np.float64 if times.dtype.kind == "f" else np.int64)
    return document


def _majorities(
    tensors: Tensors, certificates: Certificates, learner: Any, powers: MajorityPowers, X: Any
) -> dict[str, Any]:
    """Write the annotations, and the votes of all items, block by block."""
    annotations = powers.votes
    _training(tensors, annotations.codes, powers)
    tensors.add("train.item", annotations.item, np.int32)
    Z = learner.test_rows(X)
    form = "dense"
    ends: list[int] = []
    size = max(1, min(VOTES_AT_A_TIME // max(annotations.n_items, 1), 4096))
    for start in range(0, len(Z), size):
        source, voting = (votes(Z[start : start + size]) for votes in (learner.votes_of_items, learner.votes_on))
        sums = class_scores(voting, learner.label_codes_, annotations.n_classes)
        offsets = learner.offsets_on(voting, sums.sum(axis=1))
        _refuse_other_predictions(certificates, start, np.argmax(sums + offsets, axis=1))
        form = write_votes(tensors, source, len(ends))
        _write_grid(tensors, certificates, start, source, offsets)
        ends.append(start + len(sums))
    counted = {"n_rows": len(annotations.item), "n_items": annotations.n_items}
    return {"rule": "majority", "votes": form, "blocks": ends, **counted}


def _rows_in_blocks(tensors: Tensors, certificates: Certificates, learner: RowsInBlocks, X: object) -> dict[str, Any]:
    """Write the factors of the votes on test rows, then the training rows, block by block: none are held."""
    ends: list[int] = [0]
    for factors, sums, offsets in learner.scored_factors(learner.test_rows(X)):
        _refuse_other_predictions(certificates, ends[-1], np.argmax(sums + offsets, axis=1))
        tensors.add(f"votes.coefficients.{len(ends) - 1}", factors.coefficients, np.float64)
        _write_grid(tensors, certificates, ends[-1], factors, offsets)
        ends.append(ends[-1] + len(sums))
    for block in learner.voting_rows(certificates.adversary):
        tensors.add("votes.basis", block.basis, np.int32)
        tensors.add("train.label", block.codes, np.int32)
        tensors.add("train.changeable", block.changeable, np.bool_)
        if block.groups is not None:
            tensors.add("train.group", block.groups, np.int32)
    tensors.add("transitions", learner.transitions(certificates.adversary), np.bool_)
    return {"rule": "votes", "votes": "product", "blocks": ends[1:]}


def _write_grid(
    tensors: Tensors, certificates: Certificates, start: int, source: VoteSource, offsets: Integers
) -> None:
    """Write what belongs to the votes on test rows from `start` on: offsets, grid, limit and the proof by noise."""
    tensors.add("test.offset", offsets, np.int64)
    tensors.add("test.exponent", source.exponent, np.int64)
    if source.limit is not None:
        tensors.add("test.limit", source.limit, np.int64)
    if certificates.method != "exact":
        own = slice(start, start + len(offsets))
        q = certificates.noise_of_rows
        tensors.add("proof.q", q[own], np.float64)
        tensors.add("proof.witness", scale(certificates.witness[own], -source.exponent[:, None]), np.float64)


def _refuse_other_predictions(certificates: Certificates, start: int, codes: Integers) -> None:
    if not np.array_equal(certificates.classes[codes], certificates.prediction[start : start + len(codes)]):
        raise ValueError(
            "The model does not make the predictions of these certificates: it was changed since, or these are other "
            "test rows. Certify again, then save."
        )


def write_votes(tensors: Tensors, source: VoteSource, block: int) -> str:
    """Write the votes on a block of test rows, and return in which of the three ways."""
    if isinstance(source, ProductVotes):
        tensors.add(f"votes.coefficients.{block}", source.coefficients, np.float64)
        if block == 0:
            tensors.add("votes.basis", source.basis, np.int32)
            if source.members is not None:
                tensors.add("train.row", source.members, np.int32)
            if source.weights is not None:
                tensors.add("train.weight", source.weights, np.float64)
        return "product"
    if isinstance(source, SparseVotes):
        votes = source.votes.copy()
        votes.sum_duplicates()
        votes.eliminate_zeros()
        tensors.add(f"votes.start.{block}", votes.indptr, np.int64)
        tensors.add(f"votes.row.{block}", votes.indices, np.int32)
        tensors.add(f"votes.value.{block}", votes.data, _vote_type(votes.data))
        return "sparse"
    votes = all_votes(source)
    tensors.add(f"votes.dense.{block}", votes, _vote_type(votes))
    return "dense"


def _vote_type(votes: Values) -> type[np.generic]:
    return np.int16 if np.abs(votes).max(initial=0) <= SMALL_VOTE else np.int32


def _neighbors(
    tensors: Tensors,
    certificates: Certificates,
    learner: CertifiedNeighborsClassifier,
    powers: Powers,
    X: object,
) -> dict[str, Any]:
    """Write the nearest rows in order, as many as the radii need."""
    _training(tensors, learner.label_codes_, powers)
    Z, k, n = learner.test_rows(X), learner.n_neighbors_, learner.n_rows_
    unlimited = np.asarray(certificates.unlimited)
    ends: list[int] = []
    size = max(1, VOTES_AT_A_TIME // max(n, 1))
    for start in range(0, len(Z), size):
        nearest, rows = learner.rows_in_order(Z[start : start + size], powers)
        codes = np.argmax(nearest.scores(k, len(learner.classes_)), axis=1)
        _refuse_other_predictions(certificates, start, codes)
        own = slice(start, start + len(rows))
        changes = np.where(unlimited[own], n, powers.scope.rows_of_groups(certificates.radius[own]) + 1)
        depth = _depth_needed(nearest.ends_pile, np.minimum(k + changes, n))
        tensors.add(f"near.row.{len(ends)}", rows[:, :depth], np.int32)
        tensors.add(f"near.ends_pile.{len(ends)}", nearest.ends_pile[:, :depth], np.bool_)
        tensors.add("test.is_hit", nearest.is_hit, np.bool_)
        if nearest.offsets is not None:
            tensors.add("test.offset", nearest.offsets, np.int64)
        ends.append(start + len(rows))
    return {"rule": "neighbors", "k": k, "blocks": ends}


def _depth_needed(ends_pile: NDArray[np.bool_], least: Integers) -> int:
    """Return a number of rows such that on each line, a whole pile ends there or before, but not before `least`."""
    if ends_pile.shape[1] == 0:
        return 0
    upto = np.arange(1, ends_pile.shape[1] + 1)
    ends = ends_pile & (upto >= least[:, None])
    return int(np.where(ends.any(axis=1), np.argmax(ends, axis=1) + 1, ends_pile.shape[1]).max(initial=0))


def _partitions(
    tensors: Tensors,
    certificates: Certificates,
    learner: CertifiedPartitionClassifier,
    powers: Powers,
    X: object,
) -> dict[str, Any]:
    """Write the class that each base learner predicts."""
    _training(tensors, learner.label_codes_, powers)
    votes = learner.partition_votes(learner.test_features(X)).astype(np.int16)
    counts = np.stack([(votes == code).sum(axis=1) for code in range(len(learner.classes_))], axis=1)
    offsets = learner.prior_votes(X, len(votes))
    _refuse_other_predictions(certificates, 0, np.argmax(counts + offsets, axis=1))
    tensors.add("test.offset", offsets, np.int64)
    tensors.add("train.partition", learner.partition_, np.int32)
    tensors.add("votes.partition", votes, np.int16)
    return {"rule": "partitions", "n_partitions": votes.shape[1], "blocks": [len(votes)]}


def _sampled(tensors: Tensors, certificates: SmoothedCertificates, learner: Any, powers: Powers) -> dict[str, Any]:
    """Write the votes of both samples."""
    _training(tensors, learner.label_codes_, powers)
    tensors.add("votes.selection", certificates.selection, np.int64)
    tensors.add("votes.estimation", certificates.estimation, np.int64)
    tensors.add("claim.log_rival", certificates.log_rival, np.float64)
    tensors.add("proof.split", certificates.split, np.bool_)
    sampling = {
        "alpha": certificates.alpha,
        "level": None if np.isnan(certificates.noise) else float(certificates.noise),
        "confidence": certificates.confidence,
        "confidence_over": certificates.confidence_over,
    }
    return {"rule": "samples", "sampling": sampling, "blocks": [len(certificates)]}
