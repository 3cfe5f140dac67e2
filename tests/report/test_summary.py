"""The summary: numbers that agree with the metrics, true headlines, plain JSON."""

import dataclasses
import datetime
import json
from pathlib import Path

import numpy as np
import pytest

from flipproof import Adversary, Assumption, certified_accuracy, certified_recall
from flipproof.attacks import worst_flips
from flipproof.report import facts
from flipproof.report.as_json import checksum, from_json, to_json
from flipproof.report.html import render_html
from flipproof.report.markdown import render_markdown
from flipproof.report.summary import MOST_CHANGES, MOST_PREDICTIONS, summarize


def test_curves_and_tables_agree_with_the_metrics(problem):
    summary = problem.summary("exact", "tight", "kl")
    for entry, certificates in zip(
        summary["methods"], problem.certificates("exact", "tight", "kl").values(), strict=True
    ):
        for flips, counts in (("flips", "correct_certified"), ("table_flips", "table_correct_certified")):
            shares = np.array(entry[counts]) / 60
            np.testing.assert_array_equal(shares, certified_accuracy(problem.y, certificates, summary[flips]))
        certified = (certificates.radius[:, None] >= np.array(summary["flips"])).sum(axis=0)
        assert entry["certified"] == certified.tolist()
        assert entry["n_correct"] == round(60 * problem.model.score(problem.X, problem.y))
        assert entry["median_radius"] == str(int(np.median(certificates.radius)))
        assert entry["n_fragile"] == np.count_nonzero(certificates.radius == 0)
    recall = certified_recall(problem.y, problem.certificates()["exact"], summary["flips"])
    for entry, column in zip(summary["by_class"]["rows"], recall.T, strict=True):
        np.testing.assert_allclose(np.array(entry["certified"]) / entry["n"], column)
    assert [row["class"] for row in summary["by_class"]["rows"]] == [0, 1, 2]


def test_curve_covers_every_number_of_flips_until_nothing_is_certified(problem):
    summary = problem.summary()
    largest = int(problem.certificates()["exact"].radius.max())
    assert summary["flips"] == list(range(largest + 2))
    assert summary["methods"][0]["certified"][-1] == 0
    assert summary["table_flips"][:2] == [0, 1]
    assert summary["table_flips"][-1] <= largest


@pytest.mark.parametrize("total", [1, 9, 10, 11, 60])
def test_headline_is_the_largest_number_of_flips_certified_for_ninety_percent(problem, total):
    certificates = problem.certificates()["exact"]
    radius = np.random.default_rng(total).permutation(total) + 5
    few = dataclasses.replace(certificates, **{**_rows(certificates, np.arange(total)), "radius": radius})
    headline = summarize({"exact": few})["headline"]
    flips = headline["flips"]
    assert headline["n_certified"] == np.count_nonzero(radius >= flips) >= 0.9 * total
    assert np.count_nonzero(radius >= flips + 1) < 0.9 * total
    assert headline["text"] == (
        f"Even if any {flips} of 100 training labels ({flips}%) {'is' if flips == 1 else 'are'} poisoned, "
        "90% of predictions are guaranteed unchanged."
    )


def test_the_worst_class_at_the_headline_is_among_four_tiles(problem):
    summary = problem.summary("exact", "tight")
    headline, certificates = summary["headline"], problem.certificates()["exact"]
    recall = certified_recall(problem.y, certificates, [headline["flips"]])[0]
    worst = headline["worst_class"]
    assert worst["class"] == certificates.classes[recall.argmin()]
    assert worst["n_certified"] / worst["n"] == recall.min()
    figures = facts.key_figures(summary)
    assert len(figures) == 4
    assert f"of the worst class, {worst['class']}, correct and certified at " in figures[2].says
    assert len(facts.key_figures(summarize(problem.certificates()))) == 2  # true classes unknown
    assert summarize(problem.certificates())["headline"]["sentences"] == []


def test_a_classifier_below_the_constant_one_is_told_so(problem):
    certificates, truth = problem.certificates()["exact"], np.zeros(60, dtype=int)
    for radius, prediction, words in (
        (0, 0, "higher only if nothing is changed"),
        (3, 0, "higher up to 3 changed labels"),
        (100, 0, "certified accuracy is always higher"),
        (3, 1, "not more accurate, even if nothing is changed"),
    ):
        truth[59] = 1
        of_last = dataclasses.replace(
            certificates,
            prediction=np.where(np.arange(60) < 59, truth, truth if prediction == 0 else 0),
            radius=np.full(60, radius),
        )
        (*_, said) = summarize({"exact": of_last}, y_true=truth)["headline"]["sentences"]
        assert said.startswith("Always predicting 0 is correct on 98.3% of the test rows")
        assert words in said


def test_headline_says_when_predictions_are_fragile(problem):
    certificates = problem.certificates()["exact"]
    fragile = dataclasses.replace(certificates, radius=np.where(np.arange(60) < 20, 3, 0))
    headline = summarize({"exact": fragile})["headline"]
    assert headline["text"] == "Only 33.3% of predictions are certified against one changed label."
    half = dataclasses.replace(certificates, radius=np.where(np.arange(60) < 31, 3, 0))
    assert "any 3 of 100 training labels (3%)" in summarize({"exact": half})["headline"]["text"]
    assert "50% of predictions" in summarize({"exact": half})["headline"]["text"]


def test_abstentions_are_never_certified(problem):
    certificates = problem.certificates()["exact"]
    silent = dataclasses.replace(certificates, abstained=np.ones(60, dtype=bool))
    summary = summarize({"exact": silent}, y_true=problem.y)
    assert set(summary["methods"][0]["certified"]) == {0}
    assert set(summary["methods"][0]["correct_certified"]) == {0}
    assert summary["headline"]["text"].startswith("No prediction is certified")
    assert summary["predictions"]["rows"][0]["abstained"] is True


def test_annotators_and_restricted_adversaries_are_described(problem):
    annotators = Adversary(groups=np.arange(100) // 2, allowed=[(0, 1)])
    certificates = problem.model.certify(problem.X, adversary=annotators)
    summary = summarize({"exact": certificates}, attack=worst_flips(problem.model, problem.X, adversary=annotators))
    assert summary["problem"]["unit"] == "annotators"
    assert any("0 -> 1" in sentence for sentence in summary["threat"])
    assert summary["attack"]["n_contradictions"] == 0
    trusted = problem.model.certify(problem.X, adversary=Adversary(trusted=np.ones(100, dtype=bool)))
    assert summarize({"exact": trusted})["headline"]["text"] == "This adversary cannot change any label."
    half = problem.model.certify(problem.X, adversary=Adversary(trusted=np.arange(100) < 50))
    said = summarize({"exact": half})
    assert "of the 50 training labels" in said["headline"]["text"]
    assert str(Assumption("trusted-labels", {"n_trusted": 50, "n_labels": 100})) in said["threat"]


def test_methods_keep_their_assumptions_and_noise(problem):
    adversary = Adversary(allowed=[(0, 1)])
    certificates = problem.certificates("exact", "tight", "kl", adversary=adversary)
    certificates["kl"] = dataclasses.replace(certificates["kl"], noise=np.linspace(0.1, 0.3, 60))
    certificates["exact"] = dataclasses.replace(certificates["exact"], noise=np.nan)
    summary = json.loads(json.dumps(summarize(certificates), allow_nan=False))
    assert [one["noise"] for one in summary["methods"]] == [None, 0.1, {"smallest": 0.1, "largest": 0.3}]
    for method, one in zip(summary["methods"], certificates.values(), strict=True):
        assert tuple(map(Assumption.from_dict, method["assumptions"])) == one.assumptions
    assert [one["code"] for one in summary["assumptions"]] == ["labels-only", "changes-allowed"]
    own = dict(facts.own_assumptions(summary))
    assert list(own) == ["tight (q = 0.1)", "kl (best q per row)"]
    assert own["tight (q = 0.1)"] == [str(Assumption("changes-partly-used", {"method": "tight"}))]
    assert [row[1] for row in facts.method_table(summary).rows] == ["none", "0.1", "0.1 to 0.3"]
    assert [row[-1] for row in facts.method_table(summary).rows] == ["1, 2", "1, 2, 3", "1, 2, 4"]
    numbered = facts.numbered_assumptions(summary)
    assert [one.who for one in numbered] == ["", "", "tight (q = 0.1)", "kl (best q per row)"]
    for rendered in (render_html(summary), render_markdown(summary)):
        assert rendered.count("Only training labels may be changed") == 1
        assert rendered.count("uses this only to leave out labels") == 2


def test_unattackable_predictions_are_counted_separately(problem):
    certificates = problem.certificates()["exact"]
    firm = dataclasses.replace(certificates, radius=np.where(np.arange(60) < 30, 100, certificates.radius))
    summary = summarize({"exact": firm}, y_true=problem.y)
    assert summary["methods"][0]["n_unlimited"] == 30
    assert summary["flips"][-1] == certificates.radius[30:].max() + 1
    assert sum(summary["radii"][kind]["unlimited"] for kind in ("right", "wrong")) == 30
    assert summary["predictions"]["rows"][-1]["radius_text"] == "unlimited"


def test_histogram_counts_every_prediction_once(problem):
    certificates = problem.certificates()["exact"]
    radii = problem.summary()["radii"]
    counted = np.array(radii["right"]["counts"]) + radii["wrong"]["counts"]
    assert counted.sum() == 60
    for left, right, count in zip(radii["edges"], radii["edges"][1:], counted, strict=False):
        assert count == np.count_nonzero((certificates.radius >= left) & (certificates.radius < right))


def test_the_most_fragile_predictions_come_first_with_their_attacks(problem):
    attack = worst_flips(problem.model, problem.X)
    names = [f"row {k}" for k in range(60)]
    rows = problem.summary(test_ids=names, train_ids=np.arange(100) + 1000)["predictions"]["rows"]
    assert [row["radius"] for row in rows] == sorted(problem.certificates()["exact"].radius.tolist())
    for row in rows:
        number = names.index(row["id"])
        assert row["correct"] == (problem.y[number] == row["prediction"])
        found = row["attack"]
        assert found["needed"] == attack.flips_needed[number]
        assert found["n_labels"] == len(attack.rows[number])
        assert len(found["changes"]) == min(MOST_CHANGES, found["n_labels"])
        for change, training_row, new in zip(
            found["changes"], attack.rows[number], attack.new_labels[number], strict=False
        ):
            assert change == {"row": training_row + 1000, "old": problem.y_train[training_row], "new": new}


def test_unattempted_attacks_are_distinguished_from_failed_ones(problem):
    attack = worst_flips(problem.model, problem.X)
    tried, broken = np.arange(60) % 3 > 0, np.arange(60) % 3 > 1
    partial = dataclasses.replace(attack, attempted=tried, success=broken)
    for row in problem.summary(attack=partial)["predictions"]["rows"]:
        if broken[row["id"]]:
            assert row["attack"]["needed"] == attack.flips_needed[row["id"]]
        elif tried[row["id"]]:
            assert row["attack"] is None
        else:
            assert row["attack"]["needed"] is None
    text = render_markdown(problem.summary(attack=partial))
    assert "not attacked" in text
    assert "none found" in text


def test_an_attack_below_a_radius_is_counted_as_a_contradiction(problem):
    certificates = problem.certificates()["exact"]
    boasting = dataclasses.replace(certificates, radius=certificates.radius + 1)
    attack = worst_flips(problem.model, problem.X)
    assert summarize({"exact": boasting}, attack=attack)["attack"]["n_contradictions"] == 60
    assert summarize({"exact": certificates}, attack=attack)["attack"]["n_contradictions"] == 0


def test_long_lists_are_truncated_with_a_note(problem):
    certificates = problem.certificates()["exact"]
    many = dataclasses.replace(certificates, **_rows(certificates, np.arange(3000) % 60))
    listed = summarize({"exact": many}, test_ids=["x" * 1000] * 3000)["predictions"]
    assert len(listed["rows"]) == MOST_PREDICTIONS
    assert listed["total"] == 3000
    assert len(listed["rows"][0]["id"]) == 80
    assert listed["rows"][-1]["radius"] <= np.sort(many.radius)[MOST_PREDICTIONS]


def test_measured_radii_are_summarized(problem):
    certificates = problem.certificates()["exact"]
    radius = np.where(np.arange(60) == 7, np.inf, np.linspace(0.1, 0.5, 60))
    measured = dataclasses.replace(certificates, radius=radius, unit="l2", method="gaussian", noise=0.25)
    summary = summarize({"gaussian": measured}, y_true=problem.y)
    for flips, count in zip(summary["flips"], summary["methods"][0]["certified"], strict=True):
        assert count == np.count_nonzero(radius >= flips)
    assert summary["headline"]["text"].startswith("Even if the training features change by 0.1")
    assert summary["methods"][0]["n_unlimited"] == 1
    assert from_json(to_json(summary)) == summary


def test_truth_and_attack_are_optional(problem):
    summary = summarize(problem.certificates())
    assert summary["methods"][0]["correct_certified"] is None
    assert summary["by_class"]["kind"] == "prediction"
    assert "truth" not in summary["predictions"]["rows"][0]
    assert summary["attack"] is None
    assert summary["audit"] is None
    assert sum(row["n"] for row in summary["by_class"]["rows"]) == 60


def test_empty_certificates_are_summarized(problem):
    none = dataclasses.replace(problem.certificates()["exact"], **_rows(problem.certificates()["exact"], np.arange(0)))
    summary = summarize({"exact": none}, y_true=[])
    assert summary["headline"]["text"] == "There are no predictions to certify."
    assert summary["predictions"] == {"total": 0, "rows": []}


def test_a_saved_summary_is_read_unchanged(problem):
    facts = {
        "path": Path("a/b"),
        "day": datetime.date(2020, 1, 2),
        "array": np.arange(3),
        "nan": np.float64("nan"),
        "nested": {1: {2}},
        "lone surrogate": "\ud800",
    }
    summary = problem.summary("exact", "kl", facts=facts)
    assert summary["facts"] == {
        "path": "a/b",
        "day": "2020-01-02",
        "array": [0, 1, 2],
        "nan": "nan",
        "nested": {"1": [2]},
        "lone surrogate": "?",
    }
    text = to_json(summary)
    assert from_json(text) == summary
    assert to_json(from_json(text)) == text
    again = json.dumps(json.loads(text), indent=4, sort_keys=True)
    assert from_json(again) == summary  # the layout of a file does not matter
    assert json.loads(text)["checksum"] == checksum(summary)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be JSON"),
        ('{"format": ', "must be JSON"),
        ("[1, 2]", 'with "format": "flipproof-report"'),
        ('{"radius": 3}', 'with "format": "flipproof-report"'),
        ('{"format": "flipproof-report", "version": 1}', "version 4. Got 1"),
        ('{"format": "flipproof-report", "version": 4}', "checksum"),
    ],
)
def test_invalid_saved_summaries_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        from_json(text)


def test_a_modified_summary_is_refused(problem):
    saved = json.loads(to_json(problem.summary()))
    saved["methods"][0]["certified"][1] += 1
    with pytest.raises(ValueError, match="checksum"):
        from_json(json.dumps(saved))


def test_inconsistent_inputs_are_refused(problem):
    exact, attack = problem.certificates(), worst_flips(problem.model, problem.X)
    annotators = problem.model.certify(problem.X, adversary=Adversary(groups=np.arange(100) % 10))
    with pytest.raises(ValueError, match="no certificates"):
        summarize({})
    with pytest.raises(ValueError, match="same test rows and training"):
        summarize({**exact, "annotators": annotators})
    with pytest.raises(ValueError, match="'attack' parameter of summarize must"):
        summarize(exact, attack=worst_flips(problem.model, problem.X[::-1]))
    with pytest.raises(ValueError, match="'attack' parameter of summarize must"):
        summarize({"annotators": annotators}, attack=attack)
    with pytest.raises(ValueError, match="y_true must have one label per certificate"):
        summarize(exact, y_true=[1, 2])
    for name, wanted in (("test_ids", 60), ("train_ids", 100), ("y_train", 100)):
        with pytest.raises(ValueError, match=f"The '{name}' parameter of summarize must be {wanted} values"):
            summarize(exact, **{name: [1, 2]})
    with pytest.raises(ValueError, match="type of the training labels"):
        summarize(exact, y_true=["a"] * 60)
    with pytest.raises(ValueError, match="none of the classes"):
        summarize(exact, y_true=[7] * 60)


def _rows(certificates, rows):
    """Return the fields of a few test rows."""
    named = ("prediction", "radius", "rival", "margin", "log_failure", "abstained", "witness")
    return {name: getattr(certificates, name)[rows] for name in named}
