"""Every learner, method and adversary that `certify` offers has a proof, which the second program verifies."""

from itertools import product

import numpy as np
import pytest
from golden.record import RidgeInBlocks
from tiers import mostly_slow

from flipproof_verify import REFUTED, VERIFIED, verify
from verifier.every_proof import CLASSES, FITS, N_STREAMED_FITS, adversaries, data, fitted, learners, methods, smoothed
from verifier.proof_boxes import Box

#: Fits that learners refuse: they do not offer certificates of this kind.
REFUSED = {
    ("custom", "reference"),
    ("custom", "trusted reference and prior"),
    ("propagation", "reference"),
    ("propagation", "trusted reference and prior"),
    ("partitions", "weights"),
    ("partitions", "annotations"),
    ("partitions", "majorities"),
}

CASES = [
    (name, how)
    for name, how in product(learners(), FITS)
    if (name, how) not in REFUSED and ("in blocks" not in name or how in FITS[:N_STREAMED_FITS])
]

#: These run by default: the quickest of each rule.
QUICK = {("ridge", "weights"), ("clusters", "majorities"), ("partitions", "reference"), ("ridge in blocks", "plain")}


def larger_by_one(path):
    """Return the rows that are limited, and the verdicts after all their radii were increased by one."""
    box = Box.read(path)
    limited = np.flatnonzero(~box.tensors["claim.unlimited"] & ~box.tensors["claim.abstained"])
    box.tensors["claim.radius"][limited] += 1
    return limited.tolist(), verify(box.write(path)).reasons


def box_rule(path):
    return Box.read(path).document["rule"]


@pytest.mark.parametrize(("name", "how"), mostly_slow(CASES, fast=[CASES.index(one) for one in QUICK]))
def test_every_proof_is_verified(name, how, tmp_path):
    model = fitted(name, how)
    path, n_verified = tmp_path / "proof.flipproof", 0
    for (who, adversary), method in product(adversaries().items(), methods(model)):
        try:
            certificates = model.certify(data()[2], method, adversary)
        except ValueError:
            continue  # this learner does not offer it
        certificates.save(path)
        found = verify(path)
        assert found.verdict == VERIFIED, (who, method, str(found))
        n_verified += 1
        is_bound = box_rule(path) == "neighbors" and certificates.unit == "sources"
        is_bound |= any(one.code == "majority-lower-bound" for one in certificates.assumptions)
        if method == "exact" and not is_bound:
            limited, reasons = larger_by_one(path)
            assert [row for row, (verdict, _) in reasons.items() if verdict == REFUTED] == limited, (who, method)
    assert n_verified >= 5 * (1 if how == "majorities" else len(methods(model)))


@pytest.mark.parametrize(("name", "how"), sorted(REFUSED))
def test_fits_without_certificates(name, how):
    with pytest.raises((ValueError, TypeError), match=r"reference|sample_weight|Annotations"):
        fitted(name, how)


@pytest.mark.slow
def test_every_smoothed_proof_is_verified(tmp_path):
    path, units = tmp_path / "proof.flipproof", set()
    for name, certificates in smoothed():
        certificates.save(path)
        assert verify(path).verdict == VERIFIED, name
        units.add(certificates.unit)
    assert units == {"labels", "annotators", "l2"}


def test_rows_of_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    X, y, Z, _, _ = data()
    model = RidgeInBlocks(classes=CLASSES).fit(da.from_array(X, chunks=(70, -1)), da.from_array(y, chunks=70))
    certificates = model.certify(da.from_array(Z, chunks=(4, -1)))
    certificates.save(tmp_path / "proof.flipproof")
    assert verify(tmp_path / "proof.flipproof").verdict == VERIFIED
    in_memory = [(X[i : i + 50], y[i : i + 50]) for i in range(0, len(X), 50)]
    RidgeInBlocks(classes=CLASSES).fit(in_memory).certify(Z).save(tmp_path / "other.flipproof")
    one, other = (Box.read(tmp_path / f"{name}.flipproof") for name in ("proof", "other"))
    for tensor in one.tensors:
        np.testing.assert_array_equal(one.tensors[tensor], other.tensors[tensor])


def test_rows_that_changed_have_no_proof(tmp_path):
    X, y, Z, _, _ = data()
    X = X.copy()
    model = RidgeInBlocks(classes=CLASSES).fit([(X, y)])
    certificates = model.certify(Z)
    X[3] += 1
    with pytest.raises(ValueError, match="changed"):
        certificates.save(tmp_path / "proof.flipproof")
    assert list(tmp_path.iterdir()) == []
