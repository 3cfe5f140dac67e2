"""`flipproof.audit`: certificates, attacks, requirements and a report in one call.

The module is not called `audit`: importing it would replace the function `flipproof.audit` by the module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from flipproof.adversary import Adversary
from flipproof.auditing.audit_result import Audit
from flipproof.auditing.provenance import ModelBefore, Provenance, described_fit
from flipproof.auditing.row_groups import groups_of_test_rows
from flipproof.certificate_words import ROW_UNITS
from flipproof.certificates import NOISY_METHODS, Certificates
from flipproof.core.provider import provides_votes
from flipproof.core.rounding import Values
from flipproof.errors import InputError, Parameter
from flipproof.fitting import (
    FitArgumentsWithPrior,
    Fitted,
    as_choices,
    as_step,
    comes_in_blocks,
    fit,
    fit_in_blocks,
    refuse_beside_model,
    require_pyarrow,
    with_test_rows,
)
from flipproof.fitting.sources import Estimator, FilePath, Source
from flipproof.learners.table_model import TableModel
from flipproof.metrics import RandomErrors, TrustedOnly, random_errors, trusted_only
from flipproof.origins import frame_library
from flipproof.parameters import integer, number
from flipproof.requirements import Judgement, Requirement, as_requirements

if TYPE_CHECKING:
    from flipproof.attacks.result import RowAttackResult
    from flipproof.learners.collective_certificates import CollectiveCertificate
    from flipproof.tables import TextLayout

#: Up to this number of test rows, the effect of random errors is bounded on all, otherwise on as many, evenly spaced.
#: Both bounds of a row together take one to ten times as long as its certificate.
MOST_WITH_ERRORS = 2000

#: Numbers of changes for which groups are bounded by default, and seconds for all groups at one of them.
GROUP_FLIPS = (1, 5, 10)
SECONDS_FOR_GROUPS = 60.0

#: Allowed probabilities of a random error.
PROBABILITY = number(0, 1, closed="both")

#: Arguments of a fit that a model does not replace.
BESIDE_MODEL = ("layout", "n_jobs", "verbose")

#: Allowed limits of radii.
LIMIT = integer(0)


def audit(
    train: Source | None = None,
    test: Source | None = None,
    *,
    model: FilePath | Estimator | TableModel | None = None,
    label: str | None = None,
    learner: str | Estimator = "ridge",
    parameters: Mapping[str, object] | None = None,
    classes: Sequence[object] = (),
    adversary: Adversary | None = None,
    changes: str = "labels",
    reference: Source | None = None,
    reference_labels: bool = False,
    clip: str | float | None = None,
    prior: str | Estimator | None = None,
    prior_weight: float | None = None,
    trusted: str | None = None,
    annotator: str | None = None,
    window: str | None = None,
    length: object = None,
    allowed: Sequence[object] = (),
    labels: Source | None = None,
    item: str | None = None,
    annotators: Sequence[str] = (),
    aggregate: str | None = None,
    count: str | None = None,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    categories: Sequence[str] = (),
    id: str | None = None,
    scale: str = "auto",
    text_dimensions: int = 200,
    text_encoder: FilePath | Estimator | None = None,
    layout: TextLayout | None = None,
    holdout: float | None = None,
    seed: int = 0,
    methods: Sequence[str] | str | None = None,
    noise: float | str | None = None,
    requirements: Iterable[str | Requirement] = (),
    radius_up_to: int | None = None,
    attack: bool = True,
    error_rate: float | Sequence[float] | None = None,
    flips: Sequence[int] | None = None,
    by: str | Any = None,
    title: str | None = None,
    show: Sequence[str] = (),
    n_jobs: int | None = None,
    client: object = None,
    verbose: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """Fit a learner, certify its predictions, attack the most fragile ones, and check requirements.

    The command `flipproof certify` calls this function. Every test row is certified once per method.

    Parameters
    ----------
    train : path, data frame, pair (X, y), or RowBlocks
        Training rows. A path names a CSV, TSV, JSON lines, Parquet, Arrow, Feather, NPZ or NPY file, or a folder or
        pattern of Parquet files, which are read in blocks; "-" is standard input. Data frames may be of pandas, polars
        or pyarrow. Columns of files and data frames are encoded without labels by
        :class:`~flipproof.tables.TableEncoder`; arrays and :class:`~flipproof.streaming.RowBlocks` are used unchanged.
    test : path, data frame, array, or pair (X, y), optional
        Test rows. Labels are optional.
    model : path, TableModel, learner or Pipeline, optional
        A fitted model, or the file that ``flipproof fit`` or :func:`flipproof.save` wrote. It replaces `train` and all
        arguments of the fit, and the report names its digest. Models that were fitted to arrays take arrays as `test`.
    label : str
        Label column. Not for pairs of arrays and RowBlocks.
    learner : str or estimator, default="ridge"
        "ridge", "neighbors", "kernel", "cluster", "forest" or "partition"; or a flipproof learner, or a Pipeline that
        ends in one, which is cloned.
    parameters : mapping, optional
        Parameters of the learner, for example ``{"n_neighbors": 9}``.
    classes : sequence, optional
        All classes. Default: read from the labels, which is then an assumption.
    adversary : Adversary, optional
        Adversary for the rows of `train` as given. Default: any label may be changed to any class.
    changes : {"labels", "rows", "insertions", "removals"}, default="labels"
        What may be changed: labels; or whole rows, which are added, removed or replaced, only added, or only removed.
        Changes of rows require a `reference`, and the method "exact".
    reference : path, data frame or array, optional
        Rows that nobody may have changed, with the features of `train`; labels are not needed, and are ignored. If
        given, everything except the votes is learned from them: types, categories, scales and words of the columns,
        and the geometry of the learner. It may be the training rows themselves, if nobody may have changed those.
        Certificates against changed labels are then accompanied by those against changed rows, `against_rows`.
    reference_labels : bool, default=False
        Whether the labels of the reference are trusted, too: its column `label`, or y if the reference is a pair of
        arrays (X, y). A `prior`, trees with ``grow="supervised"`` and a features step that needs labels are then
        fitted to them.
    clip : float or "sign", optional
        Limit for the votes of single rows, a parameter of ridge, kernel and forest; 0.9 is a good choice against rows.
    prior : {"forest", "logistic", "ridge"} or classifier, optional
        Classifier that votes beside the training labels, a parameter of all learners. It is fitted to the trusted
        labels alone: those of the column `trusted`, or of the reference if `reference_labels`. It gets rows as numbers,
        encoded as for the learner. "forest" is a random forest of 200 trees.
    prior_weight : float, optional
        Its weight. Default: 1, as much as the votes of all rows that the geometry was learned from.
    trusted, annotator : str, optional
        Column that is true for labels that cannot be changed, or rows that cannot be removed or replaced; and column
        with the annotator, or source, of each row. With `annotator`, radii count annotators, or sources of rows.
    window : str, optional
        Column with the timestamp of each label, for windows of the given `length`: radii then count windows of time,
        all of whose labels may be changed.
    length : number, timedelta or str, optional
        Length of a window, for example "7d"; both ends belong to it.
    allowed : sequence, optional
        Allowed label changes: pairs (old, new), or strings "OLD:NEW". Default: all changes.
    labels : path or data frame, optional
        Several labels per item: a line per annotation, with the columns `item`, `label` and, if known, `annotator`
        (`trusted` and `window` are columns of it, too). `train` is then the table of items; its column `id`, or the
        column `item`, names them. If it has a column `label`, this is the truth of items that are held out; otherwise
        it is the majority of their annotations. Arrays: give a pair (X, Annotations) as `train`.
    item : str, optional
        Column of `labels` that names the item of each label.
    annotators : sequence of str, optional
        Instead of `labels`: columns of `train`, with the labels of one annotator each; blanks are no annotations.
    aggregate : {"votes", "majority"}, optional
        What votes: each annotation (default), or the majority of each item.
    count : {"annotators", "annotations"}, optional
        What radii count. Default: annotators if they are named, otherwise annotations.
    features, drop, text, categories : sequences of str, optional
        Columns to learn from, to leave out, to treat as text, and to treat as categories even if they hold numbers;
        in the first two, ``*`` matches anything.
    id : str, optional
        Column with row names. Default: row numbers.
    scale : {"auto", "standard", "rank", "none"}, default="auto"
        Scaling of numbers; "auto": by rank for columns with heavy tails, standard for others.
    text_dimensions : int, default=200
        Number of features per text column.
    text_encoder : path or transformer, optional
        Encodes text columns instead: the folder of a sentence-transformers model, or an encoder such as
        :class:`flipproof.features.SentenceEncoder`.
    layout : TextLayout, optional
        Layout of text files: separator, encoding, decimal sign, values that mean a missing value.
    holdout : float, optional
        Instead of `test`: hold out this share of the training rows, drawn at random.
    seed : int, default=0
        Random seed for `holdout`.
    methods : sequence of {"exact", "tight", "kl"}, optional
        Types of certificate; requirements use the first. Default: the method of the learner, usually "exact".
    noise : float or "auto", optional
        Noise q for "tight" and "kl".
    requirements : sequence of str, optional
        ``"accuracy >= 0.9 @ 20"``: at least 90 % of the test rows are correct and certified at 20 flips.
        ``"recall spam >= 0.6 @ 5"``: the same for the test rows of one class. ``"recall >= 0.6 @ 5"``: the same for
        every class. ``"radius >= 3"``: every prediction is certified at 3 flips. ``"radius >= 3 @ 0.95"``: 95 % of
        predictions are.
    radius_up_to : int, optional
        Compute radii only up to this limit: a radius that reaches it may be larger in truth. This takes much less time
        with ridge, and kernels on landmarks. Only for the method "exact"; without attacks and proofs, which follow from
        exact radii.
    attack : bool, default=True
        Whether to attack the most fragile predictions, at most 1,000, and to rank the labels to audit. This requires
        a label-linear learner, training rows in memory and the method "exact".
    error_rate : float, or sequence of float, optional
        Probability of a random error per label, for `random_errors`; 0 to omit them. With several, most figures are of
        the first, and averages are given for each. Default: 0.05; for rows in blocks 0, because
        the bounds take more passes over them.
    flips : sequence of int, optional
        Numbers of flips in the tables of a report, and for which `by` bounds are computed.
    by : str, or array of shape (m,), optional
        Column of the test rows, or an array, that divides them into groups. :func:`flipproof.collective_certify` then
        bounds how many predictions of each group one set of changed labels can change, by default for 1, 5 and 10
        flips. Not for rows in blocks or against changed rows.
    title : str, optional
        Title of a report. Default: "Label-flip report" or "Row-poisoning report".
    show : sequence of str, optional
        Columns whose contents a report shows, features or not, for the most fragile test rows and for the training rows
        that take part in attacks; ``*`` matches anything. Default: none, because readers of a report may not be
        allowed to see the data.
    n_jobs : int, optional
        Number of threads. Results do not depend on it.
    client : distributed.Client, or function that returns one, optional
        Dask cluster that reads the rows of Parquet files.
    verbose : int, default=0
        Whether to show the progress of fits and certificates on stderr, with the time left.
    progress : callable, optional
        Called with the name of each step before it begins.

    Returns
    -------
    Audit
        Model, certificates, attacks, judged requirements and provenance; `save` writes a report.

    Raises
    ------
    ValueError, OSError
        If any input is invalid. The message is one line.

    See Also
    --------
    flipproof.Audit : Result of an audit.
    flipproof.compare : Several models on the same test rows.
    flipproof.TableModel : A learner with its encoder and adversary.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_breast_cancer
    >>> rows = load_breast_cancer(return_X_y=True)
    >>> result = flipproof.audit(rows, holdout=0.2, requirements=["accuracy >= 0.85 @ 5"])
    >>> result.passed
    True
    """
    require_pyarrow("audit")
    began = time.perf_counter()
    step = as_step(progress)
    wanted = as_requirements(requirements)
    _check_limit(radius_up_to, wanted)
    rates = _rates(error_rate)
    chosen = (methods,) if isinstance(methods, str) else tuple(dict.fromkeys(methods or ()))
    of_fit = FitArgumentsWithPrior(
        label=label,
        classes=classes,
        adversary=adversary,
        changes=changes,
        reference=reference,
        reference_labels=reference_labels,
        clip=clip,
        prior=prior,
        prior_weight=prior_weight,
        trusted=trusted,
        annotator=annotator,
        window=window,
        length=length,
        allowed=allowed,
        labels=labels,
        item=item,
        annotators=annotators,
        aggregate=aggregate,
        count=count,
        features=features,
        drop=drop,
        text=text,
        categories=categories,
        id=id,
        scale=scale,
        text_dimensions=text_dimensions,
        text_encoder=text_encoder,
        layout=layout,
        holdout=holdout,
        seed=seed,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    column_of_groups = by if isinstance(by, str) else None
    in_blocks = False
    found: Callable[[Certificates], tuple[Provenance, TableModel | None]]
    if model is not None:
        others = {"train": train, "learner": learner, "parameters": parameters, "noise": noise, "client": client}
        beside = {name: value for name, value in of_fit.items() if name not in BESIDE_MODEL}
        defaults = {name: one.default for name, one in signature(audit).parameters.items()}
        refuse_beside_model({**others, **beside}, defaults)
        step("Reading the model and the test rows")
        before = ModelBefore.of(model, n_jobs, verbose)
        fitted = with_test_rows(before.model, test, layout, show, column_of_groups)
        found = partial(before.described, test, fitted, began)
    elif train is None:
        raise InputError("give training rows, ", Parameter("train"), ", or a ", Parameter("model"), ".")
    else:
        data, choice = as_choices(
            train,
            test,
            learner=learner,
            parameters=parameters,
            noise=noise,
            show=show,
            by=column_of_groups,
            **of_fit,
        )
        in_blocks = comes_in_blocks(train, client is not None)
        if choice.changes_rows:
            _check_against_rows(by, chosen)
        if in_blocks:
            _check_in_blocks(by, data.crowd is not None)
        fitted = fit_in_blocks(data, choice, step, client) if in_blocks else fit(data, choice, step)
        found = partial(described_fit, data, choice, fitted, began)
    attack = attack and radius_up_to is None
    groups = groups_of_test_rows(by, fitted.test)
    has_errors = error_rate is not None or not in_blocks  # in blocks, they take more passes over the rows
    certificates = _certified(fitted, chosen, step, frame_library(test if train is None else train), radius_up_to)
    main = next(iter(certificates.values()))
    judged = tuple(one.judge(main, fitted.test.labels) for one in wanted)
    attacks, labels_to_audit = None, None
    if attack and main.method == "exact" and main.unit not in ROW_UNITS and _has_exact_attack(fitted):
        step("Attacking the most fragile predictions")
        from flipproof.attacks.label_audit import attack_most_fragile

        attacks, labels_to_audit = attack_most_fragile(fitted.model, fitted.X_test, certificates=main)
    bounds = None
    if groups is not None:
        step("Bounding the changed predictions of groups")
        bounds = _bounds_of_groups(fitted, groups, GROUP_FLIPS if flips is None else flips)
    provenance, deployed = found(main)
    row_attacks, row_origins = _row_attacks(fitted, main, step) if attack else (None, {})
    return Audit(
        certificates=MappingProxyType(certificates),
        requirements=judged,
        model=fitted.model,
        encoder=fitted.encoder,
        X_test=fitted.X_test,
        train=fitted.train,
        test=fitted.test,
        adversary=fitted.adversary,
        attacks=attacks if row_attacks is None else row_attacks,
        labels_to_audit=labels_to_audit,
        provenance=provenance,
        flips=None if flips is None else tuple(flips),
        against_rows=_against_rows(fitted, main, radius_up_to),
        random_errors=_random_errors(fitted, rates[0] if len(rates) == 1 else rates) if has_errors else None,
        deployed=deployed,
        trusted_only=_trusted_only(fitted, main, judged),
        groups=groups,
        of_groups=bounds,
        title=title,
        _row_origins=row_origins,
        _frames=type(test if train is None else train).__module__.partition(".")[0],
    )


def _rates(error_rate: float | Sequence[float] | None) -> list[float]:
    """Return the probabilities of random errors."""
    if error_rate is None:
        return [0.05]
    rates: list[float] = np.atleast_1d(np.asarray(error_rate)).tolist()
    if not rates or not all(PROBABILITY.allows(one) for one in rates):
        described = f"{PROBABILITY.description}, or several"
        raise InputError(Parameter("error_rate"), f" must be {described}. Got {error_rate!r} instead.")
    return rates


def _check_against_rows(by: object, methods: Sequence[str]) -> None:
    """Raise InputError for what certificates against changed rows do not have."""
    if by is not None:
        raise InputError(
            Parameter("by"),
            " is about changed labels: an added row votes on all test rows, so that no bound on ",
            "the predictions of a group is below that of the radii. Omit ",
            Parameter("changes"),
            ".",
        )
    if any(one in NOISY_METHODS for one in methods):
        raise InputError(
            Parameter("methods"),
            ": only exact covers changed rows. The others put noise on labels, which says nothing about rows.",
        )


def _check_in_blocks(by: object, items: bool) -> None:
    """Raise InputError for what needs training rows in memory."""
    if items:
        raise InputError(Parameter("labels"), " needs items in memory, but they are read in blocks: give a file.")
    if by is not None:
        raise InputError(Parameter("by"), " needs training rows in memory, but they are read in blocks.")


def _bounds_of_groups(fitted: Fitted, groups: Values, flips: Sequence[int]) -> tuple[CollectiveCertificate, ...]:
    """Bound how many predictions of each group one set of changed labels changes, at each number of changes."""
    from flipproof.learners.collective_certificates import collective_certify
    from flipproof.learners.pipeline import learner_and_features

    learner, X = learner_and_features(fitted.model, fitted.X_test)
    if not provides_votes(learner):
        raise InputError(
            Parameter("by"),
            f": {type(learner).__name__} has no votes of single labels. Choose another ",
            Parameter("learner"),
            ".",
        )
    n_touchable = learner.powers(fitted.adversary).scope.n_touchable
    wanted = sorted({min(one, n_touchable) for one in flips} - {0}) or [0]
    return tuple(
        collective_certify(learner, X, one, groups=groups, adversary=fitted.adversary, time_limit=SECONDS_FOR_GROUPS)
        for one in wanted
    )


def _check_limit(radius_up_to: int | None, wanted: Sequence[Requirement]) -> None:
    """Refuse a limit of radii that is no number of changes, and requirements that need larger radii."""
    if radius_up_to is None:
        return
    if not LIMIT.allows(radius_up_to):
        raise InputError(Parameter("radius_up_to"), f" must be {LIMIT.description}. Got {radius_up_to!r} instead.")
    for one in wanted:
        if one.flips > radius_up_to:
            raise InputError(Parameter("radius_up_to"), f" must be at least {one.flips}, which {one.text!r} requires.")


def _certified(
    fitted: Fitted,
    methods: Sequence[str],
    step: Callable[[str], None],
    library: str | None,
    radius_up_to: int | None = None,
) -> dict[str, Any]:
    """Certify the test rows, once per method; by default the learner's own."""
    from flipproof.learners.pipeline import certify

    certificates = {}
    for method in methods or (None,):
        step(f"Certifying {len(fitted.test)} predictions" + (f" ({method})" if method else ""))
        found = certify(fitted.model, fitted.X_test, method, fitted.adversary, radius_up_to)
        if found.origin is not None:
            found = replace(found, origin=replace(found.origin, names=fitted.test.ids, library=library))
        certificates[found.method] = found
    return certificates


def _against_rows(fitted: Fitted, main: Certificates, radius_up_to: int | None = None) -> Certificates | None:
    """Certify the predictions also against changed rows, where a reference makes that possible.

    Limits of the adversary apply to rows, too, except for allowed changes and windows of labels: the certificates would
    then be about another adversary.
    """
    from flipproof.learners.pipeline import certify, learner_in

    given = fitted.adversary
    is_possible = learner_in(fitted.model).covers_rows and main.method not in NOISY_METHODS
    is_about_labels = given is not None and (given.allowed is not None or given.window is not None)
    if not is_possible or main.unit in ROW_UNITS or is_about_labels:
        return None
    return certify(
        fitted.model, fitted.X_test, main.method, replace(given or Adversary(), changes="rows"), radius_up_to
    )


def _row_attacks(
    fitted: Fitted, main: Certificates, step: Callable[[str], None]
) -> tuple[RowAttackResult | None, dict[int, str]]:
    """Attack the most fragile predictions by rows, and name the rows that the added ones are copies of."""
    from flipproof.attacks.worst_rows import attack_most_fragile_by_rows, has_row_attack
    from flipproof.fitting.row_origin import RowOrigin
    from flipproof.learners.pipeline import learner_in

    is_possible = main.unit in ROW_UNITS and fitted.train is not None
    if not is_possible or not has_row_attack(learner_in(fitted.model), fitted.adversary):
        return None, {}
    step("Attacking the most fragile predictions by rows")
    found = attack_most_fragile_by_rows(
        fitted.model, fitted.X_test, main, reference=fitted.X_reference, X_train=fitted.X_train
    )
    attacked = [row for row in np.flatnonzero(found.success).tolist() if len(found.added_labels[row])]
    origins = {row: RowOrigin(fitted, row).of(np.asarray(found.added[row])[0]) for row in attacked}
    return found, {row: name for row, name in origins.items() if name is not None}


def _random_errors(fitted: Fitted, rate: float | Sequence[float]) -> RandomErrors | None:
    """Bound the effect of random errors on predictions, of many rows on some; None if the learner has no such bound."""
    from flipproof.learners.pipeline import learner_and_features

    if not np.any(rate) or not len(fitted.X_test):
        return None
    n_test, X = len(fitted.X_test), fitted.X_test
    if n_test > MOST_WITH_ERRORS:
        X = X[np.linspace(0, n_test - 1, MOST_WITH_ERRORS).astype(np.int64)]
    learner, X = learner_and_features(fitted.model, X)
    if not hasattr(learner, "random_error_bound") or getattr(learner, "majority_first", False):
        return None
    trusted = None if fitted.adversary is None else fitted.adversary.trusted
    uniform, worst = (
        learner.random_error_bound(X, rate, direction=one, trusted=trusted) for one in ("uniform", "worst")
    )
    trust = None if trusted is None else Adversary(trusted=trusted)
    scope = learner.powers(trust).scope if hasattr(learner, "powers") else learner.scope(trust)
    n_labels = scope.n_changeable
    return random_errors(rate, n_labels, n_labels < learner.n_labels_, uniform, worst, n_test)


def _trusted_only(fitted: Fitted, main: Certificates, judged: Sequence[Judgement]) -> TrustedOnly | None:
    """Compare the certificates with models that were fitted to the trusted labels alone."""
    if fitted.test.labels is None or not fitted.trusted_only:
        return None
    found = [(one.text, one.found) for one in judged if one.requirement.measure == "accuracy"]
    predictions = {str(one): one.predictions for one in fitted.trusted_only}
    return trusted_only(fitted.n_trusted, predictions, fitted.test.labels, main, found)


def _has_exact_attack(fitted: Fitted) -> bool:
    from flipproof.core.provider import can_be_attacked
    from flipproof.learners.pipeline import learner_in

    return fitted.train is not None and can_be_attacked(learner_in(fitted.model))
