"""The tables of assumptions of the verifier and the specification, and flipproof's sentences, name the same values."""

import json
import re
from pathlib import Path

import pytest

import flipproof.assumptions
from flipproof import Assumption
from flipproof.store.proofs import OF_ADVERSARIES
from flipproof_verify import assumed, verify
from verifier.broken_files import CORPUS
from verifier.proof_boxes import Box

FORMAT = Path(__file__).parents[2] / "docs" / "certificate-format.md"

#: Assumptions of certificates about all predictions at once, and of radii up to a limit: these have no proof format.
WITHOUT_PROOF = {"one-attack", "solver-claim", "solver-stopped", "radii-limited"}

#: A value of each type.
EXAMPLES = {
    "text": "features",
    "flag": True,
    "count": 3,
    "integer": -3,
    "number": 0.5,
    "texts": ["a", "b"],
    "pairs": [["a", "b"]],
    "changes": [[0, 1]],
}

#: Values that only some texts fit.
TEXTS = {"remedy": "features"}


def documented():
    """Return the names and types of the values of each code in the specification."""
    found = {}
    for line in FORMAT.read_text().partition("## Assumptions")[2].partition("## Claims")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            values = dict(re.findall(r"`(\w+)`\**\s(\w+)", cells[1]))
            found |= dict.fromkeys(re.findall(r"`([a-z-]+)`", cells[0]), values)
    return found


def test_the_verifier_knows_every_code_of_certificates():
    assert set(assumed.CODES) == set(flipproof.assumptions.WORDINGS) - WITHOUT_PROOF


@pytest.mark.parametrize("code", assumed.CODES)
def test_values_have_the_same_names_and_types(code):
    wanted = assumed.CODES[code].values
    assert documented()[code] == wanted
    values = {name: TEXTS.get(name, EXAMPLES[kind]) for name, kind in wanted.items()}
    written = Assumption(code, values).to_dict()["values"]  # refuses other names
    assert written == values
    assert all(assumed.TYPES[wanted[name]](value) for name, value in written.items())


def test_every_documented_code_exists():
    assert set(documented()) == set(assumed.CODES)
    assert assumed.OF_ADVERSARIES == OF_ADVERSARIES


def test_the_verdict_names_what_is_taken_as_stated():
    files = {
        name: verify(CORPUS / f"{name}.flipproof") for name in json.loads((CORPUS / "index.json").read_text())["honest"]
    }
    assert files["exact"].as_stated == files["trusted"].as_stated == ()
    assert files["replaced"].as_stated == ("reference-fixed",)
    assert str(files["partitions"]).endswith(
        "2 assumptions taken as stated: base-learner-reproducible, partitions-chosen"
    )
    for name, result in files.items():
        codes = {one["code"] for one in Box.read(CORPUS / f"{name}.flipproof").document["assumptions"]}
        assert set(result.as_stated) == {code for code in codes if not assumed.CODES[code].is_checked}
