"""A fitted learner with the columns of a table that it reads: it predicts and certifies rows of data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.certificates import Certificates
from flipproof.learners.pipeline import certify, learner_in

if TYPE_CHECKING:
    from flipproof.tables import TableEncoder
    from flipproof.tables.roles import Roles


@dataclass(frozen=True, eq=False, repr=False)
class TableModel:
    """A fitted learner, the encoder of its columns, and the adversary of its certificates.

    `flipproof fit` stores one, and :func:`flipproof.load` returns it; ``flipproof.audit(...).deployed`` is another.

    Attributes
    ----------
    model : learner or Pipeline
        Its input is the output of `encoder`.
    encoder : TableEncoder
        Fitted encoder of the feature columns.
    roles : Roles
        Roles of the columns: label, ids, and so on.
    columns : tuple of str
        The feature columns.
    word_columns : tuple of str
        Columns of words in the training rows, which are read as words from test files too.
    adversary : Adversary or None
        The adversary that certificates hold against, for the training rows: trusted labels, annotators, changes.
    ids : sequence
        Names of the training rows, in order.
    source : mapping of str
        Where the training rows came from: "learner", "training", "reference" and digests of files.

    See Also
    --------
    flipproof.audit : From a table to certificates, attacks and a report.
    flipproof.load : Read a model from a file.
    flipproof.save : Write a model to a file.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_breast_cancer
    >>> table = load_breast_cancer(as_frame=True).frame
    >>> model = flipproof.audit(table[:400], table[400:], label="target").deployed
    >>> model.columns[:2]
    ('mean radius', 'mean texture')
    """

    model: Any
    encoder: TableEncoder
    roles: Roles
    columns: tuple[str, ...]
    word_columns: tuple[str, ...]
    adversary: Adversary | None
    ids: Sequence[Any]
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def learner(self) -> Any:
        """The learner that predicts."""
        return learner_in(self.model)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return np.asarray(self.learner.classes_)

    def __repr__(self) -> str:
        learner = self.learner
        return f"<TableModel: {type(learner).__name__}, {len(self.columns)} columns, {learner.n_rows_:,} training rows>"

    def predict(self, X: object) -> NDArray[Any]:
        """Return the predicted classes of the rows of a data frame.

        Parameters
        ----------
        X : data frame
            Rows with the columns of the training rows.

        Returns
        -------
        array of shape (m,)
            A class for each test row.

        Examples
        --------
        >>> import flipproof
        >>> import pandas as pd
        >>> table = pd.DataFrame({"x": range(40), "y": ["ham"] * 20 + ["spam"] * 20})
        >>> model = flipproof.audit(table, label="y", holdout=0.25).deployed
        >>> new = pd.DataFrame({"x": [5, 30]})
        >>> model.predict(new)
        array(['ham', 'spam'], dtype='<U4')
        """
        return np.asarray(self.model.predict(self.encoder.transform(X)))

    def certify(
        self, X: object, method: str | None = None, adversary: Adversary | None = None, at_least: int | None = None
    ) -> Certificates:
        """Predict the rows of a data frame, and certify every prediction.

        Parameters
        ----------
        X : data frame
            Test rows, with the feature columns.
        method : {"exact", "tight", "kl"}, optional
            Default: the learner's `method`.
        adversary : Adversary, optional
            Default: `self.adversary`.
        at_least : int, optional
            Return radii only up to this limit, see :attr:`Certificates.radius_limit`.

        Returns
        -------
        Certificates

        Examples
        --------
        >>> import flipproof
        >>> import pandas as pd
        >>> table = pd.DataFrame({"x": range(40), "y": ["ham"] * 20 + ["spam"] * 20})
        >>> model = flipproof.audit(table, label="y", holdout=0.25).deployed
        >>> new = pd.DataFrame({"x": [5, 30]})
        >>> model.certify(new).prediction
        array(['ham', 'spam'], dtype='<U4')
        """
        given = self.adversary if adversary is None else adversary
        return certify(self.model, self.encoder.transform(X), method, given, at_least)
