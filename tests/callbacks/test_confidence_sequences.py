"""Confidence sequences, bets and exact intervals, against other computations."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from holdfast.callbacks.functional import sequences as sq

Array = np.ndarray
RANDOM = np.random.default_rng(0)


def test_the_spread_is_of_predictions_made_before_each_number() -> None:
    """Of 1, 0, 1: predicted by 1/2, 3/4 and 1/2; in one piece or in several."""
    whole = sq.noted(sq.Running(), np.array([1.0, 0.0, 1.0]))
    assert whole == (3, 2.0, 0.25 + 0.5625 + 0.25)
    assert sq.noted(sq.noted(sq.Running(), np.array([1.0])), np.array([0.0, 1.0])) == whole
    assert whole.mean == pytest.approx(2 / 3)


@pytest.mark.parametrize(("s", "v"), [(0.0, 0.0), (3.0, 5.0), (30.0, 60.0)])
def test_evidence_is_the_mixture_over_bets(s: float, v: float) -> None:
    r = 3.0

    def bet(x: float) -> float:  # of the size 1 - x
        law = stats.gamma(r, scale=1 / r)
        return math.exp((1 - x) * s + (math.log(x) + 1 - x) * v) * law.pdf(x) / law.cdf(1)

    assert sq.log_evidence(s, v, r) == pytest.approx(math.log(quad(bet, 0, 1)[0]), abs=1e-6)


def test_the_lower_bound_is_where_the_evidence_is_just_enough() -> None:
    state = sq.noted(sq.Running(), (np.arange(200) % 4 == 0).astype(float))
    low = sq.lower_bound(state, 0.05)
    excess = state.total - state.n * low
    tight = sq.tight_at(25.0, 0.05)
    assert sq.log_evidence(excess, state.spread, tight) == pytest.approx(math.log(20))
    assert 0.14 < low < 0.15
    assert not sq.exceeds(state, low + 1e-6, 0.05)
    assert sq.exceeds(state, low - 1e-6, 0.05)
    assert sq.lower_bound(sq.noted(sq.Running(), np.zeros(50)), 0.05) == 0


def test_streams_side_by_side_are_as_each_alone() -> None:
    values, level = RANDOM.random((30, 4)), np.array([0.2, 0.3, 0.4, 0.5])
    running = sq.noted(sq.noted(sq.Running(), values[:10]), values[10:])
    bets = sq.betted(sq.Bets(level), values)
    for number in range(4):
        alone = sq.noted(sq.Running(), values[:, number])
        assert (running.total[number], running.spread[number]) == pytest.approx(alone[1:])
        own = sq.betted(sq.Bets(level[number]), values[:, number])
        assert bets.highest[number] == pytest.approx(own.highest)
        assert sq.exceeds(running, level, 0.05)[number] == sq.exceeds(alone, level[number], 0.05)


def test_bets_are_the_sum_over_their_beginnings() -> None:
    """Of numbers 1, 0, 1 against 0.4: each size's capital from each step on, by its definition."""
    level, values = 0.4, np.array([1.0, 0.0, 1.0])
    gains = 1 + sq.SHARES[:, None] / level * (values - level)
    capital = sum(gains[:, j:].prod(1) / ((j + 1) * (j + 2)) for j in range(3))
    state = sq.betted(sq.Bets(level), values)
    assert state.wealth == pytest.approx(capital)
    assert state.value == pytest.approx(np.mean(capital) + 1 / 4)
    assert sq.betted(sq.betted(sq.Bets(level), values[:1]), values[1:]).value == state.value
    assert state.highest >= state.value


def test_bets_expect_to_gain_nothing_at_their_level() -> None:
    """The mean over all sequences of four coins with the level's chance is the capital of the beginning."""
    level = 0.3
    mean = 0.0
    for number in range(16):
        values = np.array([number >> i & 1 for i in range(4)], dtype=float)
        chance = float(np.prod(np.where(values > 0, level, 1 - level)))
        mean += chance * sq.betted(sq.Bets(level), values).value
    assert mean == pytest.approx(1)


def test_exact_intervals_are_scipys() -> None:
    for hits, trials in ((0, 20), (7, 20), (20, 20)):
        found = stats.binomtest(hits, trials).proportion_ci(0.9)
        assert sq.exact_interval(hits, trials, 0.9) == pytest.approx((found.low, found.high))
    one_sided = stats.binomtest(7, 20, alternative="less").proportion_ci(0.95).high
    assert sq.exact_upper(7, 20, 0.05) == pytest.approx(one_sided)
