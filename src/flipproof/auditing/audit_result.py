"""`Audit`: what an audit found, and where its data came from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.auditing.provenance import Provenance, in_parts
from flipproof.certificate_words import ROW_UNITS
from flipproof.certificates import Certificates
from flipproof.errors import InputError
from flipproof.learners.table_model import TableModel
from flipproof.metrics import RandomErrors, TrustedOnly, certified_accuracy, worst_class
from flipproof.origins import frame_of_table
from flipproof.readable import four_decimals
from flipproof.requirements import Judgement
from flipproof.runtime.files import digest_of, write_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.attacks.explaining import Explanation
    from flipproof.attacks.label_audit import LabelAudit
    from flipproof.attacks.result import AttackResult, RowAttackResult
    from flipproof.learners.collective_certificates import CollectiveCertificate
    from flipproof.report.evidence import Artifact, Evidence
    from flipproof.tables import TableEncoder
    from flipproof.tables.roles import Rows

#: Ending of the names of files with certificates and their proof.
PROOF_ENDING = ".flipproof"

#: Name of the certificates in evidence if they are not written to a file.
CERTIFICATES_FILE = "certificates.csv"
NOT_WRITTEN = "as `flipproof certify -o certificates.csv` writes them"

#: Name of training rows that were read from a pipe.
STANDARD_INPUT = "standard input"

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
    groups : array of shape (m,), or None
        The group of each test row, if `by` was given.
    of_groups : tuple of CollectiveCertificate, or None
        For each number of flips, at most how many predictions of each group change: `by_group`.
    title : str or None
        Title of a report.

    See Also
    --------
    flipproof.audit : From a table to certificates, attacks and a report.
    flipproof.Report : Report of a fitted model.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = flipproof.audit((X, y), holdout=0.25, requirements=["accuracy >= 0.85 @ 5"])
    >>> result.passed, sorted(result.certificates)
    (True, ['exact'])
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
    groups: NDArray[Any] | None = None
    of_groups: tuple[CollectiveCertificate, ...] | None = None
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
        """Return a table with one line per test row and method.

        Returns
        -------
        pyarrow.Table
            Certificates of all methods, with their ids and true classes.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25, requirements=["accuracy >= 0.8 @ 1"])
        >>> result.to_arrow().column_names[:4]
        ['id', 'prediction', 'radius', 'rival']
        """
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

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25)
        >>> result.to_frame().shape
        (20, 9)
        """
        return frame_of_table(self.to_arrow(), self._frames)

    def summary(self, **facts: object) -> dict[str, Any]:
        """Return the content of a report, in JSON types only.

        Parameters
        ----------
        **facts
            Further facts, for example ``command="make audit"``.

        Returns
        -------
        dict
            What ``save`` writes to a .json file.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25, requirements=["accuracy >= 0.8 @ 1"])
        >>> sorted(result.summary(command="make audit"))[:3]
        ['assumptions', 'attack', 'audit']
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
            groups=self.groups,
            of_groups=self.of_groups,
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
        """Write a report, a proof or evidence, by the ending of the name.

        Parameters
        ----------
        path : path
            A report: .html, .md, or .json (which `flipproof report` converts). A proof, .flipproof: the certificates
            of the first method, and all that ``flipproof verify`` needs to check them. Evidence: .xml (JUnit), .sarif,
            .intoto.json (an in-toto Statement), .cdx.json (CycloneDX) or .modelcard.md (Hugging Face).

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25)
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for ending in (".html", ".md", ".flipproof"):
        ...         result.save(Path(folder, "spam" + ending))
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['spam.flipproof', 'spam.html', 'spam.md']
        """
        from flipproof.report.evidence import EVIDENCE_ENDINGS, render
        from flipproof.report.rendering import save_report

        for form, ending in EVIDENCE_ENDINGS.items():
            if Path(path).name.lower().endswith(ending):
                write_whole(Path(path), render(self.evidence(form), form).encode())
                return
        if Path(path).suffix.lower() == PROOF_ENDING:
            self.save_proof(path)
            return
        save_report(self.summary, path)

    def save_proof(self, path: str | os.PathLike[str], outputs: Mapping[str, str] | None = None) -> None:
        """Write the certificates of the first method and their proof, with the digests of data files and of the model.

        Parameters
        ----------
        path : path
            The file, usually named ``*.flipproof``.
        outputs : mapping of str to str, optional
            SHA-256 digests of files that were written with the certificates, by name, for the record.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25, requirements=["accuracy >= 0.8 @ 1"])
        >>> import os, tempfile
        >>> import flipproof_verify
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "proof.flipproof")
        ...     result.save_proof(path)
        ...     print(flipproof_verify.verify(path).verdict)
        VERIFIED
        """
        from flipproof import save_certificates

        save_certificates(
            self.main,
            path,
            model=self.model,
            X_test=self.X_test,
            files=self.provenance.digests,
            outputs=outputs,
            deployed=self.deployed,
        )

    def to_junit(self) -> str:
        """Return the requirements as JUnit XML, one test case each.

        Returns
        -------
        str
            An XML document.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25, requirements=["accuracy >= 0.8 @ 1"])
        >>> "<testcase" in result.to_junit()
        True
        """
        return self._rendered("junit")

    def to_sarif(self) -> str:
        """Return labels, rows or annotators to check as SARIF 2.1.0, with their places in the training file.

        Returns
        -------
        str
            A JSON document.

        Examples
        --------
        >>> import json, os, tempfile
        >>> import flipproof
        >>> import pandas as pd
        >>> table = pd.DataFrame({"x": [i % 20 for i in range(80)], "y": [i % 20 >= 10 for i in range(80)]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table.to_csv(os.path.join(folder, "train.csv"), index=False)
        ...     result = flipproof.audit(os.path.join(folder, "train.csv"), label="y", holdout=0.25)
        ...     print(json.loads(result.to_sarif())["version"])
        2.1.0
        """
        return self._rendered("sarif")

    def to_attestation(self) -> str:
        """Return an unsigned in-toto Statement about the requirements, as JSON.

        Returns
        -------
        str
            A JSON document.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25, requirements=["accuracy >= 0.8 @ 1"])
        >>> import json
        >>> json.loads(result.to_attestation())["_type"]
        'https://in-toto.io/Statement/v1'
        """
        return self._rendered("attestation")

    def to_bom(self) -> str:
        """Return a CycloneDX 1.6 bill of materials with a model card, as JSON.

        Returns
        -------
        str
            A JSON document.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25, requirements=["accuracy >= 0.8 @ 1"])
        >>> import json
        >>> json.loads(result.to_bom())["bomFormat"]
        'CycloneDX'
        """
        return self._rendered("bom")

    def to_model_card(self) -> str:
        """Return a model card for the Hugging Face Hub: metadata in YAML, and Markdown.

        Returns
        -------
        str
            A Markdown document.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25, requirements=["accuracy >= 0.8 @ 1"])
        >>> result.to_model_card().splitlines()[0]
        '---'
        """
        return self._rendered("model_card")

    def _rendered(self, form: str) -> str:
        from flipproof.report.evidence import render

        return render(self.evidence(form), form)

    def evidence(
        self, form: str, *, outputs: Sequence[Artifact] = (), summary: Mapping[str, object] | None = None
    ) -> Evidence:
        """Return what ``flipproof.report.evidence.render`` shows.

        Parameters
        ----------
        form : {"junit", "sarif", "attestation", "bom", "model_card"}
            The format.
        outputs : sequence of Artifact
            Files with certificates and proofs that were written. Default: the certificates as a CSV file, whether it
            is written or not.
        summary : mapping, optional
            The result of :meth:`summary`, if it is known already.

        Raises
        ------
        ValueError
            For "sarif", if there is no training file, or nothing is known about labels or rows to check.
        """
        from flipproof.report.evidence import Artifact, Evidence
        from flipproof.report.findings import findings

        source = self.provenance
        made = tuple(outputs)
        if all(one.role != "certificates" for one in made):
            made = (Artifact("certificates", CERTIFICATES_FILE, digest_of(self._csv()), NOT_WRITTEN), *made)
        model = () if source.model is None else (Artifact("model", source.model, source.model_sha256),)
        told = self.summary() if summary is None else summary
        about = Evidence(told, self._data(), (*model, *made))
        if form != "sarif":
            return about
        train, attacks = self._located()
        found = findings(train, attacks, self.labels_to_audit, self.main.adversary)
        file = None if train.places is None else train.places.file
        return replace(about, findings=found, is_compressed=file is not None and file.is_compressed)

    def _data(self) -> tuple[Artifact, ...]:
        """Return the files that were read, with their digests."""
        from flipproof.report.evidence import Artifact

        source, found = self.provenance, []
        named = {"training": source.training, "reference": source.reference, "test": source.test}
        for role, name in named.items():
            if name is None:
                continue
            parts = in_parts(name)
            note = f"SHA-256 of {parts}: {source.digests[parts]}" if parts in source.digests else ""
            found.append(Artifact(role, name, source.digests.get(name), note))
        return tuple(found)

    def _csv(self) -> bytes:
        """Return the certificates as ``flipproof certify -o certificates.csv`` writes them."""
        import pyarrow as pa
        from pyarrow import csv

        stream = pa.BufferOutputStream()
        csv.write_csv(self.to_arrow(), stream)
        return bytes(stream.getvalue())

    def _located(self) -> tuple[Rows, AttackResult | RowAttackResult]:
        """Return the training rows and the attacks; raise InputError if there is nothing that SARIF could show."""
        source = self.provenance
        if self.train is None:
            raise InputError("SARIF requires training rows in memory, but they were read in blocks.")
        if source.training == STANDARD_INPUT or source.training not in source.digests:
            raise InputError(
                f"SARIF lists places in a training file, but the training rows are {source.training}: give a file."
            )
        if self.main.changes == "insertions":
            raise InputError("SARIF lists training rows to check, but insertions change no row of the training file.")
        if self.attacks is None:
            raise InputError(
                "SARIF lists the labels to check first, which are not known here: they need attack=True, the method "
                f"exact, and a learner with exact attacks. Got {self.main.method} of {source.learner['name']} instead."
            )
        return self.train, self.attacks

    def explain(self, row: object = None, *, columns: Sequence[str] | None = None) -> Explanation:
        """Explain one prediction: what is guaranteed, and the smallest attack, with the rows that it changes.

        Parameters
        ----------
        row : id of a test row, optional
            As in :meth:`to_frame`. Default: the most fragile row.
        columns : sequence of str, optional
            Columns to show. Default: the first 20.

        Returns
        -------
        Explanation
            It prints as a sentence and a table.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> result = flipproof.audit((X, y), holdout=0.25)
        >>> print(str(result.explain()).splitlines()[1])
        The smallest attack changes 1 label; the prediction is then False.
        """
        from flipproof.attacks.explaining import Shown, explain

        shown = None if self.train is None else Shown(self.test.features, self.train.features, self.train.ids)
        return explain(self.main, row, columns=columns, shown=shown)


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
