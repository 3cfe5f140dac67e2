"""Fit a regressor to training rows, usually in memory: files, data frames or arrays, encoded without targets."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flipproof.adversary import Adversary
from flipproof.errors import InputError, Parameter, nearest
from flipproof.fitting.choices import DataChoice, Fitted, ModelChoice, Step, as_choices, assumptions_about_texts
from flipproof.fitting.memory import adversary_of, encode_rows, read_rows, warn_about_repeats
from flipproof.fitting.regressor_in_blocks import fit_numbers_in_blocks
from flipproof.fitting.sources import Estimator, Source, comes_in_blocks, is_path
from flipproof.fitting.sources import source_name as name_of
from flipproof.learners.names import REGRESSORS, REGRESSORS_IN_BLOCKS
from flipproof.learners.regression import CertifiedRegressor

if TYPE_CHECKING:
    from flipproof.streaming import StreamingRidgeRegressor

#: Parameters of regressors that are set in other ways, or that do not affect results.
OWN = ("target_range", "features", "block_size", "n_jobs", "verbose")


@dataclass(frozen=True)
class NumberChoice:
    """The regressor, its target range, and a limit of the adversary.

    Attributes
    ----------
    learner : str or estimator
        One of REGRESSORS, or a flipproof regressor, which is cloned.
    parameters : mapping
        Parameters of the regressor.
    target_range : pair of floats, optional
        The target range; None: that of the estimator, or read from the targets.
    max_change : float, optional
        How far each target can be moved.
    """

    learner: str | Estimator = "ridge"
    parameters: Mapping[str, object] | None = None
    target_range: Any = None
    max_change: float | None = None

    @property
    def name(self) -> str:
        """Name of the regressor."""
        return self.learner if isinstance(self.learner, str) else type(self.learner).__name__

    def limited(self, adversary: Adversary | None) -> Adversary | None:
        """Return the adversary with the limit of moves, if there is one."""
        if self.max_change is None:
            return adversary
        if adversary is not None and adversary.max_change is not None:
            raise InputError(
                "give ", Parameter("max_change"), " only once: it is also set in ", Parameter("adversary"), "."
            )
        return replace(adversary or Adversary(), max_change=self.max_change)

    def regressor_in_blocks(self) -> StreamingRidgeRegressor:
        """Return the regressor for training rows in blocks, unfitted."""
        from sklearn.base import clone

        from flipproof.streaming import StreamingRidgeRegressor

        if isinstance(self.learner, StreamingRidgeRegressor):
            model = clone(self.learner)
        elif self.learner in REGRESSORS_IN_BLOCKS:
            model = StreamingRidgeRegressor()
        else:
            known = " or ".join([*REGRESSORS_IN_BLOCKS, *REGRESSORS_IN_BLOCKS.values()])
            raise InputError(
                Parameter("learner"),
                f": {self.name} needs all training rows in memory. For rows in blocks, use {known}.",
            )
        _check_settings(self.parameters, list(model.get_params(deep=False)))
        given = dict(self.parameters or {})
        if self.target_range is not None:
            given["target_range"] = self.target_range
        model.set_params(**given)
        assert isinstance(model, StreamingRidgeRegressor)
        return model

    def regressor(self) -> CertifiedRegressor:
        """Return the regressor, unfitted."""
        given = dict(self.parameters or {})
        if self.target_range is not None:
            given["target_range"] = self.target_range
        if isinstance(self.learner, CertifiedRegressor):
            from sklearn.base import clone

            _check_settings(self.parameters, list(self.learner.get_params(deep=False)))
            cloned = clone(self.learner)
            assert isinstance(cloned, CertifiedRegressor)
            cloned.set_params(**given)
            return cloned
        if not isinstance(self.learner, str) or self.learner not in REGRESSORS:
            shown = self.learner if isinstance(self.learner, str) else type(self.learner).__name__
            raise InputError(
                Parameter("learner"),
                f": for numeric targets it must be one of {', '.join(REGRESSORS)}, or a flipproof regressor. Got "
                f"{shown!r} instead.{nearest(str(shown), REGRESSORS)}",
            )
        _check_settings(self.parameters, settable_numbers(self.learner))
        import flipproof

        made = getattr(flipproof, REGRESSORS[self.learner])(**given)
        assert isinstance(made, CertifiedRegressor)
        return made


def settable_numbers(learner: str) -> list[str]:
    """Return the names of the parameters of a regressor that can be set."""
    import flipproof

    known = list(inspect.signature(getattr(flipproof, REGRESSORS[learner]).__init__).parameters)[1:]
    return [name for name in known if name not in OWN]


def _check_settings(parameters: Mapping[str, object] | None, known: list[str]) -> None:
    settable = [name for name in known if name not in OWN]
    for name in parameters or {}:
        if name not in settable:
            raise InputError(
                Parameter("parameters"), f": {name!r} must be one of {', '.join(settable)}.{nearest(name, settable)}"
            )


def number_choices(
    train: Source, test: Source | None, target: str | None, adversary: Adversary | None, **others: Any
) -> tuple[DataChoice, ModelChoice]:
    """Convert arguments of `flipproof.audit_numbers` to choices of data and of the adversary."""
    frame = train[0] if isinstance(train, tuple) and len(train) == 2 else train
    is_table = is_path(train) or (hasattr(frame, "columns") and not getattr(frame, "comes_in_blocks", False))
    if is_table and not isinstance(train, tuple) and not isinstance(target, str):
        raise InputError(Parameter("target"), f": it must name the column of targets. Got {target!r} instead.")
    if target is not None and not is_table:
        raise InputError(Parameter("target"), ": it requires a file or a data frame with columns.")
    data, choice = as_choices(train, test, label=target, adversary=adversary, **others)
    if data.roles is not None:
        from flipproof.tables.roles import TargetRoles

        data = replace(data, roles=TargetRoles(**vars(data.roles)))
    return data, choice


def fit_numbers(data: DataChoice, choice: ModelChoice, numbers: NumberChoice, step: Step) -> Fitted:
    """Read the rows, encode their columns without targets, and fit the regressor.

    Raises
    ------
    ValueError, OSError
        If any input is invalid. The message is one line.
    """
    if comes_in_blocks(data.train):
        adversary = numbers.limited(choice.adversary)
        return fit_numbers_in_blocks(data, choice, numbers.regressor_in_blocks(), adversary, step)
    model = numbers.regressor()
    step(f"Reading {name_of(data.train)}")
    rows = read_rows(data, choice, None, True)
    if data.roles is not None:
        step("Encoding the columns")
    encoded = encode_rows(data, rows, None)
    warn_about_repeats(data, rows, encoded)
    step(f"Fitting {numbers.name} to {len(rows.train)} rows")
    began = time.perf_counter()
    model.fit(encoded.train, rows.train.labels)
    if encoded.assumption is not None:
        for one in (encoded.assumption, *assumptions_about_texts(encoded.encoder)):
            model.also_assume(one)
    adversary = adversary_of(data, choice, rows, np.zeros(0))
    adversary = numbers.limited(adversary)
    return Fitted(
        model,
        rows.test,
        encoded.test,
        adversary,
        encoded.encoder,
        train=rows.train,
        seconds=time.perf_counter() - began,
        word_columns=rows.word_columns,
    )
