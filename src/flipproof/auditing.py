"""`flipproof.audit`: certificates, attacks, requirements and a report in one call.

The module is not called `audit`: importing it would replace the function `flipproof.audit` by the module.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.certificates import ROW_UNITS, Certificates
from flipproof.errors import InputError, Parameter
from flipproof.files import portable_path
from flipproof.fitting import (
    DataChoice,
    Fitted,
    ModelChoice,
    as_choices,
    comes_in_blocks,
    fit,
    fit_in_blocks,
    is_path,
    refuse_beside_model,
    source_name,
    table_model,
    with_test_rows,
)
from flipproof.learners.table_model import TableModel
from flipproof.metrics import RandomErrors, TrustedOnly, certified_accuracy, random_errors, trusted_only, worst_class
from flipproof.origins import frame_library
from flipproof.parameters import number
from flipproof.readable import four_decimals
from flipproof.requirements import Judgement, Requirement, as_requirements

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.attacks.label_audit import LabelAudit
    from flipproof.attacks.result import AttackResult, RowAttackResult
    from flipproof.explaining import Explanation
    from flipproof.tables import TableEncoder, TextLayout
    from flipproof.tables.roles import Rows

#: Number of test rows, evenly spaced, on which the effect of random errors is bounded.
MOST_WITH_ERRORS = 500

#: Methods that put noise on labels, which says nothing about rows.
NOISY_METHODS = ("tight", "kl")

#: Ending of the names of files with certificates and their proof.
PROOF_ENDING = ".flipproof"

#: Allowed probabilities of a random error.
PROBABILITY = number(0, 1, closed="both")

#: Shown in a report in place of attacks.
WITHOUT_ATTACKS = (
    "The training rows were read in blocks. Attacks and labels to check first are not available: they need all "
    "training rows in memory."
)

#: The same for certificates about rows: where attacks are shown, and where none is known.
OTHER_ROW_ATTACKS = (
    "Attacks on the most fragile predictions are in the section about rows. Labels to check first are in the report of "
    "an audit against changed labels."
)
WITHOUT_ROW_ATTACKS = (
    "The certificates are about whole rows, and there are no attacks here. Labels to check first are in the report of "
    "an audit against changed labels."
)
ONLY_A_BOUND = (
    "The certificates against changed rows are lower bounds here, and the smallest attack is not known. Labels to "
    "check first are in the report of an audit against changed labels."
)


@dataclass(frozen=True)
class Provenance:
    """Data, learner, checksums and versions of an audit.

    Attributes
    ----------
    training, test : str
        Paths, or types of the objects given.
    n_train, n_test : int
        Numbers of rows.
    label : str or None
        Label column.
    columns, encoding : tuple of str
        Feature columns, and descriptions of their encoding.
    learner : mapping
        Its name and parameters.
    digests : mapping of str
        SHA-256 of the files.
    versions : mapping of str
        Versions of Python and of the libraries that affect the results.
    seconds : float
        Duration of the audit.
    n_files, n_bytes : int, optional
        Number and total size of the training files, if there are several.
    reference : str, optional
        Path of the reference, or type of the object given.
    n_reference : int, optional
        Number of its rows.
    """

    training: str
    test: str
    n_train: int
    n_test: int
    label: str | None
    columns: tuple[str, ...]
    encoding: tuple[str, ...]
    learner: Mapping[str, Any]
    digests: Mapping[str, str]
    versions: Mapping[str, str]
    seconds: float
    n_files: int | None = None
    n_bytes: int | None = None
    reference: str | None = None
    n_reference: int | None = None

    def facts(self, **more: Any) -> dict[str, Any]:
        """Return the facts for a report, together with `more`."""
        files = {} if self.n_files is None else {"training_files": self.n_files, "training_bytes": self.n_bytes}
        reference = {"reference_file": self.reference, "reference_rows": self.n_reference}
        columns = {"label_column": self.label, "columns_used": list(self.columns), "encoding": list(self.encoding)}
        return {
            "training_file": self.training,
            **files,
            "training_rows": self.n_train,
            **({} if self.reference is None else reference),
            "test_file": self.test,
            "test_rows": self.n_test,
            **({} if self.label is None else columns),  # arrays have no columns
            "learner": dict(self.learner),
            "sha256": dict(self.digests),
            **more,
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True, repr=False, eq=False)
class Audit:
    """Result of :func:`flipproof.audit`.

    Attributes
    ----------
    certificates : mapping of str to Certificates
        Certificates by method. Requirements and most tables of a report use the first.
    requirements : tuple of Judgement
        For each requirement, the share found and whether it `passed`.
    model : estimator
        The fitted learner. Its input is the output of `encoder`.
    encoder : TableEncoder or None
        Encoder of the columns; None if the rows were given as numbers.
    X_test : array of shape (m, k)
        Features of the test rows, as input of `model`.
    train : Rows or None
        Training rows, with `labels` and `ids`; None if they were read in blocks.
    test : Rows
        Test rows, with `labels` (None if they have none) and `ids`.
    adversary : Adversary or None
        The adversary of the certificates.
    attacks : AttackResult, RowAttackResult or None
        The smallest attacks on the most fragile test rows; `attempted` is False for all others. If rows may be changed,
        the rows to remove and to add, each attack confirmed by a refit. None if `attack` was False or no exact attack
        is known.
    labels_to_audit : LabelAudit or None
        The training labels that are part of the most of these attacks, as of
        :func:`flipproof.attacks.labels_to_audit`.
    provenance : Provenance
        Data, learner, checksums and versions.
    flips : tuple of int or None
        Numbers of flips in the tables of a report.
    against_rows : Certificates or None
        Certificates of the same predictions against added, removed and replaced rows, if a `reference` was given and
        `certificates` are about changed labels.
    random_errors : RandomErrors or None
        How likely random errors in the labels are to change predictions, on at most 500 test rows.
    deployed : TableModel or None
        The fitted learner with its encoder and adversary, for :func:`flipproof.save`; None if the rows were given as
        numbers or in blocks. Then save `model`.
    trusted_only : TrustedOnly or None
        Accuracy of models that were fitted to the trusted labels alone, if there are any: it holds at any number of
        other changes.
    title : str or None
        Title of a report.
    """

    certificates: Mapping[str, Certificates]
    requirements: tuple[Judgement, ...]
    model: Any
    encoder: TableEncoder | None
    X_test: NDArray[Any]
    train: Rows | None
    test: Rows
    adversary: Adversary | None
    attacks: AttackResult | RowAttackResult | None
    labels_to_audit: LabelAudit | None
    provenance: Provenance
    flips: tuple[int, ...] | None = None
    against_rows: Certificates | None = None
    random_errors: RandomErrors | None = None
    deployed: TableModel | None = None
    trusted_only: TrustedOnly | None = None
    title: str | None = None
    _row_origins: Mapping[int, str] = field(default_factory=dict, repr=False)
    _frames: str = field(default="pandas")

    @property
    def passed(self) -> bool:
        """Whether all requirements are met; True if there are none."""
        return all(one.passed for one in self.requirements)

    @property
    def main(self) -> Certificates:
        """The certificates of the first method."""
        return next(iter(self.certificates.values()))

    def __repr__(self) -> str:
        main, source = self.main, self.provenance
        lines = [
            f"<Audit: {source.learner['name']}, {source.n_train:,} training rows, {source.n_test:,} test rows",
            *(f"  {one!r}" for one in self.certificates.values()),
        ]
        if self.test.labels is not None:
            accuracy, worst = certified_accuracy(self.test.labels, main, [0])[0], worst_class(self.test.labels, main, 0)
            of_worst = f"recall of the worst class, {worst.label}, {four_decimals(worst.recall)}"
            lines.insert(1, f"  accuracy {four_decimals(accuracy)}, {of_worst}")
        if self.trusted_only is not None:
            of_trusted = f"  trusted labels only: accuracy {four_decimals(self.trusted_only.best)} at any number of"
            lines.insert(1 if self.trusted_only.required else 2, f"{of_trusted} other changes")
        for one in self.requirements:
            met = "met" if one.passed else "NOT MET"
            of_class = "" if one.label is None else f" (class {one.label})"
            lines.append(f"  {met}: {one.text}, found {four_decimals(one.found)}{of_class}")
        if self.attacks is not None:
            lines.append(f"  {self.attacks!r}")
        return "\n".join(lines) + ">"

    def to_arrow(self) -> pa.Table:
        """Return a table with one line per test row and method."""
        import pyarrow as pa

        ids, labels = self.test.ids, self.test.labels
        each = [one.to_arrow(ids=ids, y_true=labels, details=False) for one in self.certificates.values()]
        return pa.concat_tables(each)

    def to_frame(self) -> Any:
        """Return a data frame with one line per test row and method.

        Returns
        -------
        data frame
            Of the same library as the training rows; for files and arrays, pandas, or pyarrow if pandas is missing.
        """
        table = self.to_arrow()
        if self._frames == "polars":
            import polars  # type: ignore[import-not-found, unused-ignore]

            return polars.from_arrow(table)
        if self._frames == "pyarrow" or find_spec("pandas") is None:
            return table
        return table.to_pandas()

    def summary(self, **facts: Any) -> dict[str, Any]:
        """Return the content of a report, in JSON types only.

        Parameters
        ----------
        **facts
            Further facts, for example ``command="make audit"``.
        """
        from flipproof.report import summary

        train = self.train
        return summary.summarize(
            self.certificates,
            y_true=self.test.labels,
            test_ids=self.test.ids,
            test_contents=_contents(self.test),
            train_contents=None if train is None else _contents(train),
            title=self.title,
            train_ids=None if train is None else train.ids,
            y_train=None if train is None else train.labels,
            attack=self.attacks,
            row_origins=self._row_origins,
            audit=self.labels_to_audit,
            without_attack=self._without_attack,
            against_rows=self.against_rows,
            random_errors=self.random_errors,
            trusted_only=self.trusted_only,
            facts=self.provenance.facts(**facts),
            requirement=_all_requirements(self.requirements),
            flips=self.flips,
        )

    @property
    def _without_attack(self) -> str | None:
        """Why there are no attacks, if they would be expected."""
        if self.main.unit in ROW_UNITS and self.train is not None:
            if self.attacks is not None:
                return OTHER_ROW_ATTACKS
            from flipproof.learners.pipeline import learner_in

            is_bound = not hasattr(learner_in(self.model), "rows_vote_separately")
            return ONLY_A_BOUND if is_bound else WITHOUT_ROW_ATTACKS
        return WITHOUT_ATTACKS if self.train is None else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a report: .html, .md, or .json (which `flipproof report` converts); or a proof, .flipproof.

        A proof contains the certificates of the first method, and all that ``flipproof verify`` needs to check them.
        """
        from flipproof.report.rendering import save_report

        if Path(path).suffix.lower() == PROOF_ENDING:
            self.main.save(path, model=self.model, X_test=self.X_test, files=self.provenance.digests)
            return
        save_report(self.summary, path)

    def explain(self, row: Any = None, *, columns: Sequence[str] | None = None) -> Explanation:
        """Explain one prediction: what is guaranteed, and the smallest attack, with the rows that it changes.

        Parameters
        ----------
        row : id of a test row, optional
            As in :meth:`to_frame`. Default: the most fragile row.
        columns : sequence of str, optional
            Columns to show. Default: the first 20.
        """
        from flipproof.explaining import Shown, explain

        shown = None if self.train is None else Shown(self.test.features, self.train.features, self.train.ids)
        return explain(self.main, row, columns=columns, shown=shown)


def audit(
    train: Any = None,
    test: Any = None,
    *,
    model: Any = None,
    label: str | None = None,
    learner: Any = "ridge",
    parameters: Mapping[str, Any] | None = None,
    classes: Sequence[Any] = (),
    adversary: Adversary | None = None,
    changes: str = "labels",
    reference: Any = None,
    clip: str | float | None = None,
    trusted: str | None = None,
    annotator: str | None = None,
    window: str | None = None,
    length: Any = None,
    allowed: Sequence[Any] = (),
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    categories: Sequence[str] = (),
    id: str | None = None,
    scale: str = "auto",
    text_dimensions: int = 200,
    layout: TextLayout | None = None,
    holdout: float | None = None,
    seed: int = 0,
    methods: Sequence[str] | str | None = None,
    noise: Any = None,
    requirements: Iterable[str | Requirement] = (),
    attack: bool = True,
    error_rate: float | None = None,
    flips: Sequence[int] | None = None,
    title: str | None = None,
    show: Sequence[str] = (),
    n_jobs: int | None = None,
    client: Any = None,
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
        Instead of `train` and all that concerns the fit: a model that was fitted before, or the file that
        ``flipproof fit`` or :func:`flipproof.save` wrote. The report then names its digest. Models that were fitted to
        arrays take arrays as `test`.
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
    clip : float or "sign", optional
        Limit for the votes of single rows, a parameter of ridge, kernel and forest; 0.9 is a good choice against rows.
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
    features, drop, text, categories : sequences of str, optional
        Columns to learn from, to leave out, to treat as text, and to treat as categories even if they hold numbers;
        in the first two, ``*`` matches anything.
    id : str, optional
        Column with row names. Default: row numbers.
    scale : {"auto", "standard", "rank", "none"}, default="auto"
        Scaling of numbers; "auto": by rank for columns with heavy tails, standard for others.
    text_dimensions : int, default=200
        Number of features per text column.
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
        ``"accuracy >= 0.9 @ 20"``: at least 90 % of the test rows are correct and certified at 20 flips;
        ``"recall spam >= 0.6 @ 5"``: the same for test rows of one class; ``"recall >= 0.6 @ 5"``: for every class,
        that is for the worst; ``"radius >= 3"``: every prediction is
        certified at 3 flips; ``"radius >= 3 @ 0.95"``: 95 % of them are.
    attack : bool, default=True
        Whether to attack the most fragile predictions, at most 1,000, and to rank the labels to audit. This requires
        a label-linear learner, training rows in memory and the method "exact".
    error_rate : float, optional
        Probability of a random error per label, for `random_errors`; 0 to omit them. Default: 0.05. Not for rows in
        blocks: call `random_error_bound` of the model.
    flips : sequence of int, optional
        Numbers of flips in the tables of a report.
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

    Raises
    ------
    ValueError, OSError
        If any input is invalid. The message is one line.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_breast_cancer
    >>> rows = load_breast_cancer(return_X_y=True)
    >>> result = flipproof.audit(rows, holdout=0.2, requirements=["accuracy >= 0.85 @ 5"])
    >>> result.passed
    True
    """
    if find_spec("pyarrow") is None:
        raise ImportError("flipproof.audit needs pyarrow: pip install 'flipproof[cli]'")
    began = time.perf_counter()
    step = progress or (lambda text: None)
    wanted = as_requirements(requirements)
    if error_rate is not None and not PROBABILITY.allows(error_rate):
        raise InputError(Parameter("error_rate"), f" must be {PROBABILITY.description}. Got {error_rate!r} instead.")
    chosen = (methods,) if isinstance(methods, str) else tuple(dict.fromkeys(methods or ()))
    in_blocks = False
    found: Callable[[Certificates], tuple[Provenance, TableModel | None]]
    if model is not None:
        refuse_beside_model(
            {"train": train, "label": label, "learner": learner, "parameters": parameters, "classes": classes}
            | {"adversary": adversary, "changes": changes, "reference": reference, "clip": clip, "trusted": trusted}
            | {"annotator": annotator, "window": window, "length": length, "allowed": allowed, "noise": noise}
            | {"features": features, "drop": drop, "text": text, "categories": categories, "id": id, "scale": scale}
            | {"text_dimensions": text_dimensions, "holdout": holdout, "seed": seed, "client": client},
            {name: one.default for name, one in signature(audit).parameters.items()},
        )
        step("Reading the model and the test rows")
        before = _ModelBefore.of(model, n_jobs, verbose)
        fitted = with_test_rows(before.model, test, layout, show)
        found = partial(before.described, test, fitted, began)
    elif train is None:
        raise InputError("give training rows, ", Parameter("train"), ", or a ", Parameter("model"), ".")
    else:
        data, choice = as_choices(
            train,
            test,
            label=label,
            learner=learner,
            parameters=parameters,
            classes=classes,
            noise=noise,
            n_jobs=n_jobs,
            adversary=adversary,
            allowed=allowed,
            changes=changes,
            verbose=verbose,
            clip=clip,
            reference=reference,
            holdout=holdout,
            seed=seed,
            layout=layout,
            scale=scale,
            text_dimensions=text_dimensions,
            features=features,
            drop=drop,
            text=text,
            categories=categories,
            id=id,
            trusted=trusted,
            annotator=annotator,
            window=window,
            length=length,
            show=show,
        )
        if choice.changes_rows and any(one in NOISY_METHODS for one in chosen):
            raise InputError(
                Parameter("methods"),
                ": only exact covers changed rows. The others put noise on labels, which says nothing about rows.",
            )
        in_blocks = comes_in_blocks(train, client is not None)
        if in_blocks and error_rate:
            raise InputError(Parameter("error_rate"), " needs training rows in memory, but they are read in blocks.")
        fitted = fit_in_blocks(data, choice, step, client) if in_blocks else fit(data, choice, step)
        found = partial(_described, data, choice, fitted, began)
    certificates = _certified(fitted, chosen, step, frame_library(test if train is None else train))
    main = next(iter(certificates.values()))
    judged = tuple(one.judge(main, fitted.test.labels) for one in wanted)
    attacks, labels_to_audit = None, None
    if attack and main.method == "exact" and main.unit not in ROW_UNITS and _has_exact_attack(fitted):
        step("Attacking the most fragile predictions")
        from flipproof.attacks.label_audit import attack_most_fragile

        attacks, labels_to_audit = attack_most_fragile(fitted.model, fitted.X_test, certificates=main)
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
        against_rows=_against_rows(fitted, main),
        random_errors=None if in_blocks else _random_errors(fitted, 0.05 if error_rate is None else error_rate),
        deployed=deployed,
        trusted_only=_trusted_only(fitted, main, judged),
        title=title,
        _row_origins=row_origins,
        _frames=type(test if train is None else train).__module__.partition(".")[0],
    )


def _certified(
    fitted: Fitted, methods: Sequence[str], step: Callable[[str], None], library: str | None
) -> dict[str, Any]:
    """Certify the test rows, once per method; by default the learner's own."""
    from flipproof.learners.pipeline import certify

    certificates = {}
    for method in methods or (None,):
        step(f"Certifying {len(fitted.test)} predictions" + (f" ({method})" if method else ""))
        found = certify(fitted.model, fitted.X_test, method, fitted.adversary)
        if found.origin is not None:
            found = replace(found, origin=replace(found.origin, names=fitted.test.ids, library=library))
        certificates[found.method] = found
    return certificates


def _against_rows(fitted: Fitted, main: Certificates) -> Certificates | None:
    """Certify the predictions also against changed rows, where a reference makes that possible.

    Limits of the adversary apply to rows, too, except for allowed changes of labels: the certificates would then be
    about another adversary.
    """
    from flipproof.learners.pipeline import certify, learner_in

    given = fitted.adversary
    is_possible = learner_in(fitted.model).covers_rows and main.method not in NOISY_METHODS
    if not is_possible or main.unit in ROW_UNITS or (given is not None and given.allowed is not None):
        return None
    return certify(fitted.model, fitted.X_test, main.method, replace(given or Adversary(), changes="rows"))


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


def _random_errors(fitted: Fitted, rate: float) -> RandomErrors | None:
    """Bound the effect of random errors on some of the predictions; None if the learner has no such bound."""
    from flipproof.learners.pipeline import learner_and_features

    if rate == 0 or not len(fitted.X_test):
        return None
    chosen = np.unique(np.linspace(0, len(fitted.X_test) - 1, MOST_WITH_ERRORS).astype(np.int64))
    learner, X = learner_and_features(fitted.model, fitted.X_test[chosen])
    if not hasattr(learner, "random_error_bound"):
        return None
    trusted = None if fitted.adversary is None else fitted.adversary.trusted
    uniform, worst = (
        learner.random_error_bound(X, rate, direction=one, trusted=trusted) for one in ("uniform", "worst")
    )
    n_labels = learner.powers(None if trusted is None else Adversary(trusted=trusted)).scope.n_changeable
    return random_errors(rate, n_labels, n_labels < learner.n_labels_, uniform, worst)


def _trusted_only(fitted: Fitted, main: Certificates, judged: Sequence[Judgement]) -> TrustedOnly | None:
    """Compare the certificates with models that were fitted to the trusted labels alone."""
    if fitted.test.labels is None or fitted.adversary is None or not fitted.trusted_only:
        return None
    found = [(one.text, one.found) for one in judged if one.requirement.measure == "accuracy"]
    n_trusted = int(np.count_nonzero(fitted.adversary.trusted))
    return trusted_only(n_trusted, dict(fitted.trusted_only), fitted.test.labels, main, found)


def _has_exact_attack(fitted: Fitted) -> bool:
    from flipproof.core.provider import provides_votes
    from flipproof.learners.pipeline import learner_in

    learner = learner_in(fitted.model)
    return fitted.train is not None and provides_votes(learner) and getattr(learner, "holds_training_rows", True)


def _contents(rows: Rows) -> dict[str, Any] | None:
    """Return the columns whose contents a report shows, by name."""
    return None if rows.shown is None else dict(zip(rows.shown.column_names, rows.shown.columns, strict=True))


def _all_requirements(judged: Sequence[Judgement]) -> dict[str, Any] | None:
    """Combine all requirements into one entry of a report."""
    if len(judged) < 2:
        return judged[0].facts if judged else None
    return {
        "text": " and ".join(one.text for one in judged),
        "met": all(one.passed for one in judged),
        "found": None,
        "parts": [one.facts for one in judged],
    }


def _provenance(data: DataChoice, choice: ModelChoice, fitted: Fitted, main: Certificates, began: float) -> Provenance:
    from flipproof.report.summary import software
    from flipproof.tables.file_content import digest_of_source

    training, files, digests = _source_in_report(data.train), {}, {}
    if fitted.files:
        from flipproof.streaming.sample import fingerprint

        files = {"n_files": len(fitted.files), "n_bytes": sum(file.stat().st_size for file in fitted.files)}
        digests[f"{training} (names, sizes and footers of its Parquet files)"] = fingerprint(fitted.files)
    elif is_path(data.train):
        digests[training] = digest_of_source(data.train)
    if is_path(data.reference):
        digests[_source_in_report(data.reference)] = digest_of_source(data.reference)
    if is_path(data.test):
        digests[_source_in_report(data.test)] = digest_of_source(data.test)
    drawn_from = Path(training).name if is_path(data.train) else training
    test = (
        _source_in_report(data.test) if data.test is not None else f"{data.holdout:g} of {drawn_from}, seed {data.seed}"
    )
    return Provenance(
        training=training,
        test=test,
        n_train=main.n_train,
        n_test=len(fitted.test),
        label=None if data.roles is None else data.roles.label,
        columns=fitted.columns,
        encoding=fitted.encoding,
        learner={"name": choice.name, **_parameters_of(fitted.model)},
        digests=digests,
        versions=software(),
        seconds=time.perf_counter() - began,
        reference=None if data.reference is None else _source_in_report(data.reference),
        n_reference=fitted.n_reference,
        **files,
    )


def _described(
    data: DataChoice, choice: ModelChoice, fitted: Fitted, began: float, main: Certificates
) -> tuple[Provenance, TableModel | None]:
    provenance = _provenance(data, choice, fitted, main, began)
    return provenance, table_model(data, choice, fitted, provenance.digests)


@dataclass(frozen=True)
class _ModelBefore:
    """A model that was fitted before, its name in reports, and its digest."""

    model: Any
    name: str
    digest: str

    @classmethod
    def of(cls, given: Any, n_jobs: int | None, verbose: int) -> _ModelBefore:
        """Load a model from a file, or take a fitted one."""
        from flipproof.learners.pipeline import learner_in
        from flipproof.store import load, model_digest

        model = load(given) if is_path(given) else given
        digest = model_digest(given)
        learner = model.learner if isinstance(model, TableModel) else learner_in(model)
        if is_path(given):  # a model in memory belongs to the caller
            learner.set_params(n_jobs=n_jobs, verbose=verbose)
        return cls(model, _source_in_report(given) if is_path(given) else type(learner).__name__, digest)

    def described(
        self, test: Any, fitted: Fitted, began: float, main: Certificates
    ) -> tuple[Provenance, TableModel | None]:
        """Return where the model and the test rows came from, and the model itself if it reads tables."""
        from flipproof.report.summary import software
        from flipproof.tables.file_content import digest_of_source

        deployed = self.model if isinstance(self.model, TableModel) else None
        source = {} if deployed is None else dict(deployed.source)
        digests = {**source.get("digests", {}), f"model {self.name}": self.digest}
        if is_path(test):
            digests[_source_in_report(test)] = digest_of_source(test)
        learner = type(fitted.model).__name__ if deployed is None else source.get("learner")
        return (
            Provenance(
                training=source.get("training", "rows of the model"),
                test=_source_in_report(test),
                n_train=main.n_train,
                n_test=len(fitted.test),
                label=None if deployed is None else deployed.roles.label,
                columns=fitted.columns,
                encoding=fitted.encoding,
                learner={"name": learner, **_parameters_of(fitted.model)},
                digests=digests,
                versions=software(),
                seconds=time.perf_counter() - began,
                reference=source.get("reference"),
                n_reference=fitted.n_reference,
            ),
            deployed,
        )


def _source_in_report(given: Any) -> str:
    """Return the name of a source of rows in a report, without folders of this machine that the caller did not name."""
    return portable_path(source_name(given)) if is_path(given) else source_name(given)


def _parameters_of(model: Any) -> dict[str, Any]:
    """Return a learner's parameters as plain values."""
    left_out = ("features", "verbose")
    own = {name: value for name, value in model.get_params(deep=False).items() if name not in left_out}
    return dict(json.loads(json.dumps(own, default=str)))
