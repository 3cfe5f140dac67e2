"""Numbers of the text, on rows made by hand."""

import numpy as np

from flipproof.experiments import claims, read_experiment
from flipproof.experiments.row_files import COLUMNS, NOTHING, RunRows

N_TRAIN = 50


def rows_of(**columns):
    m = len(columns["tight"])
    filled = {name: np.array(columns.get(name, [NOTHING] * m)) for name in COLUMNS}
    return RunRows(np.arange(m), np.zeros(m, dtype=np.int64), filled | {"prediction": np.zeros(m, dtype=np.int64)})


def test_the_gap_covers_flips_beyond_the_last_attack():
    # two rows that no attack breaks, of which one is certified by tight up to 20 flips only
    rows = rows_of(flips_needed=[5, 11, -1, -1], tight=[4, 8, 20, 30], exact=[4, 10, N_TRAIN, N_TRAIN])
    assert claims._gap_up_to(None)(rows) == ["0.5000", "0.0000"]
    assert claims._gap_up_to(20)(rows) == ["0.2500", "0.0000"]
    assert claims._gap_up_to(8)(rows) == ["0.0000", "0.0000"]
    all_broken = rows_of(flips_needed=[5, 11], tight=[4, 8], exact=[4, 10])
    assert claims._gap_up_to(None)(all_broken) == ["0.5000", "0.0000"]


def test_the_figure_ends_where_the_claims_say():
    (figure,) = (figure for figure in read_experiment("mnist17").figures if figure.kind == "attacked")
    assert figure.most_flips == claims.FIGURE_FLIPS


def test_thresholds_of_half_and_chance():
    rows = rows_of(tight=[3, 3, 7, 7], exact=[9, 9, 9, 9])
    assert claims._flips_while(claims._half)(rows) == ["7", "9"]
    assert claims._flips_while(lambda share: share > 0.5)(rows) == ["3", "9"]
    few = rows_of(tight=[2] * 9 + [5], exact=[2] * 9 + [5])
    assert claims._flips_while(claims._more_than_chance)(few) == ["2", "2"]
