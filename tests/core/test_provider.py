from types import SimpleNamespace

import pytest

from flipproof.core.provider import METHODS, check_rows_in_memory, provides_votes


def test_a_provider_has_all_methods():
    learner = SimpleNamespace(**dict.fromkeys(METHODS, print))
    assert provides_votes(learner)
    for name in METHODS:
        assert not provides_votes(SimpleNamespace(**{**vars(learner), name: None}))


def test_learners_without_their_training_rows_are_refused():
    check_rows_in_memory(SimpleNamespace(), "An attack")
    with pytest.raises(ValueError, match="An attack needs the training rows in memory"):
        check_rows_in_memory(SimpleNamespace(holds_training_rows=False), "An attack")
