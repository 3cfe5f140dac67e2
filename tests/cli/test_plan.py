"""`flipproof plan`: what checking labels buys, as a table, a plot and an exit code."""

import json

import numpy as np
import pandas as pd
import pytest

from flipproof.attacks import plan_audit
from flipproof.cli.group import run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=160) > 0, "spam", "ham")
SMALL = ["--budget", "10,25", "--flips", "0,5", "--prior", "logistic", "-q"]


@pytest.fixture
def files(tmp_path):
    """Training rows with a column of trusted labels, and test rows."""
    rows = pd.DataFrame(X, columns=list("pqr")).assign(kind=Y, sure=np.arange(160) % 8 == 0)
    rows[:120].to_csv(tmp_path / "train.csv", index=False)
    rows[120:].drop(columns="sure").to_csv(tmp_path / "test.csv", index=False)
    rows[120:][["p", "q", "r"]].to_csv(tmp_path / "unlabelled.csv", index=False)
    return tmp_path


@pytest.fixture
def plan(files, capfd):
    """Run `flipproof plan`, and return the exit code, stdout and stderr."""

    def command(*given, test="test.csv", trusted=False):
        about = ["--trusted", "sure"] if trusted else ["--drop", "sure"]
        rows = ["--train", str(files / "train.csv"), "--test", str(files / test), "--label", "kind", *about]
        code = run(["plan", *rows, *given])
        return code, *capfd.readouterr()

    return command


def test_the_table_is_that_of_the_library(plan, files):
    code, out, err = plan(*SMALL, "--json", "-o", str(files / "plan.csv"))
    assert (code, err) == (0, "")
    told = json.loads(out)
    table = pd.read_csv(files / "plan.csv", keep_default_na=False)
    assert table.to_dict("records") == told["ways"]
    assert set(table["chosen"][1:]) == {"attacks", "random", "diversity"}
    assert set(table["used"][1:]) == {"votes", "prior", "alone", "prior alone"}
    assert sorted(set(table["n_checked"])) == [0, 10, 25]
    from sklearn.linear_model import LogisticRegression

    import flipproof

    scaled = flipproof.audit(
        pd.DataFrame(X[:120], columns=list("pqr")).assign(kind=Y[:120]),
        pd.DataFrame(X[120:], columns=list("pqr")).assign(kind=Y[120:]),
        label="kind",
        attack=False,
    )
    train = scaled.encoder.transform(pd.DataFrame(X[:120], columns=list("pqr")))
    same = plan_audit(
        *(scaled.model, scaled.X_test, Y[120:], [10, 25]),
        **{"X": train, "y": Y[:120], "flips": [0, 5], "prior": LogisticRegression(max_iter=1000)},
    )
    assert table["certified_accuracy_5"].tolist() == same.to_frame()["certified_accuracy_5"].tolist()


def test_the_cheapest_way_is_named_and_an_unreachable_target_fails(plan, files):
    picture = files / "plan.png"
    code, out, _ = plan(*SMALL, "--reach", "0.6@7", "--plot", str(picture))
    assert code == 0
    assert out.startswith("The fewest checks that reach 60.0% at 7 changed labels: ")
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, out, _ = plan(*SMALL, "--reach", "1.0@7")
    assert code == 1
    assert out.startswith("No way in this plan reaches 100.0% at 7")
    code, out, _ = plan(*SMALL, "--reach", "0.5@0")
    assert code == 0
    assert "without any check" in out


def test_checks_that_are_wrong_and_labels_that_are_trusted_already(plan):
    _, out, _ = plan(*SMALL, "--error-rate", "0.2", "--json", trusted=True)
    told = json.loads(out)
    assert (told["error_rate"], told["n_trusted"]) == (0.2, 15)
    assert told["sentences"][0].startswith("20% of the checked labels")


def test_without_labels_of_test_rows_predictions_are_counted(plan):
    code, out, _ = plan(*SMALL, "--json", test="unlabelled.csv")
    assert code == 0
    assert json.loads(out)["ways"][0]["certified_share_0"] == 1.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--budget", "0"], "must be numbers of labels to check"),
        (["--budget", "many"], "must be numbers of labels to check"),
        (["--budget", "121"], "budget"),
        (["--reach", "0.9"], "must be ACCURACY@FLIPS"),
        (["--error-rate", "1"], "--error-rate"),
        (["--flips", "a"], "must be numbers of changed labels"),
        (["--changes", "rows"], "cannot be combined with plan"),
        (["--annotator", "p"], "--annotator cannot be combined"),
        (["--plot", "plan.txt"], "must end in .png"),
        (["--holdout", "0.2"], "Give either --test"),
    ],
)
def test_bad_input_is_refused_in_a_line(plan, given, said):
    code, out, err = plan("-q", *given)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_a_target_needs_labels_of_test_rows(plan):
    code, _, err = plan(*SMALL, "--reach", "0.9@5", test="unlabelled.csv")
    assert code == 2
    assert "requires test rows with labels" in err
