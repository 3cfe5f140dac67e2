"""Trees of scikit-learn, whose nodes compiled code follows without looking: here every node is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flipproof.store.archive import ModelFileError
from flipproof.store.kinds import Kind, floats, integers, size, whole
from flipproof.store.registry import Entry

#: Child of a leaf.
LEAF = -1

#: Fields of a node, in the order of the two arrays that they are stored in. Trees of other versions of scikit-learn may
#: have other fields: they are refused.
INTEGER_FIELDS = ("left_child", "right_child", "feature", "n_node_samples", "missing_go_to_left")
FLOAT_FIELDS = ("threshold", "impurity", "weighted_n_node_samples")

KINDS: Mapping[str, Kind] = {
    "n_features": size("columns"),
    "n_classes": integers("outputs", low=1),
    "n_outputs": size("outputs", low=1),
    "max_depth": whole(0),
    "integers": integers(len(INTEGER_FIELDS), "nodes"),
    "floats": floats(len(FLOAT_FIELDS), "nodes", finite=False),
    "values": floats("nodes", "outputs", "most_classes"),
}


@dataclass(frozen=True)
class TreeEntry(Entry):
    """The entry of `sklearn.tree._tree.Tree`."""

    def state_of(self, value: Any, where: str) -> dict[str, Any]:
        """Return the nodes of a tree as two arrays, and its values."""
        _, (n_features, n_classes, n_outputs), state = value.__reduce__()
        nodes = state["nodes"]
        self._check_fields(nodes.dtype.names, where)
        found = {
            "n_features": int(n_features),
            "n_classes": np.asarray(n_classes),
            "n_outputs": int(n_outputs),
            "max_depth": int(state["max_depth"]),
            "integers": np.stack([nodes[name].astype(np.int64) for name in INTEGER_FIELDS]),
            "floats": np.stack([nodes[name] for name in FLOAT_FIELDS]),
            "values": state["values"],
        }
        self._check_kinds(found, where)
        return found

    def check_names(self, state: Mapping[str, object], where: str) -> None:
        """Refuse attributes that are missing or unknown."""
        if set(state) != set(KINDS):
            raise ModelFileError(f"{where}: a tree has other attributes than those of scikit-learn's trees")

    def _check_fields(self, names: tuple[str, ...], where: str) -> None:
        if set(names) != {*INTEGER_FIELDS, *FLOAT_FIELDS}:
            raise ModelFileError(f"{where}: trees of this version of scikit-learn have other nodes, and are unknown")

    def made(self, state: Mapping[str, Any], where: str) -> Any:
        """Return a tree.

        Soundness: prediction follows children and reads features without checks. So children must come after their
        parent, within the nodes, which also excludes cycles, and features must be columns.
        """
        from sklearn.tree._tree import NODE_DTYPE

        self._check_kinds(state, where)
        self._check_fields(NODE_DTYPE.names, where)
        fields = dict(zip(INTEGER_FIELDS, state["integers"], strict=True))
        fields |= dict(zip(FLOAT_FIELDS, state["floats"], strict=True))
        left, right, feature, values = fields["left_child"], fields["right_child"], fields["feature"], state["values"]
        n_nodes, is_leaf = len(left), left == LEAF
        number = np.arange(n_nodes)
        inside = (left > number) & (right > number) & (left < n_nodes) & (right < n_nodes)
        fits = (feature >= 0) & (feature < state["n_features"]) & ~np.isnan(fields["threshold"])
        if n_nodes < 1 or not (np.where(is_leaf, right == LEAF, inside & fits)).all():
            raise ModelFileError(f"{where}: a node of a tree has children or a column that do not exist")
        if values.shape[1] != state["n_outputs"] or values.shape[2] != state["n_classes"].max():
            raise ModelFileError(f"{where}: the values of a tree do not fit its classes")
        nodes = np.zeros(n_nodes, dtype=NODE_DTYPE)
        for name, numbers in fields.items():
            nodes[name] = numbers
        tree = self.type(state["n_features"], state["n_classes"].astype(np.intp), state["n_outputs"])
        content = {"max_depth": state["max_depth"], "node_count": n_nodes, "nodes": nodes}
        tree.__setstate__({**content, "values": np.ascontiguousarray(values, dtype=np.float64)})
        return tree


TREE = TreeEntry("sklearn.tree._tree.Tree", KINDS)
