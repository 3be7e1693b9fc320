"""The paired bootstrap."""

from __future__ import annotations

import pytest

from engine.statistics import paired_bootstrap


def test_identical_scores_have_no_difference() -> None:
    found = paired_bootstrap([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert (found.mean, found.low, found.high, found.certain) == (0.0, 0.0, 0.0, False)


def test_a_constant_gain_is_certain() -> None:
    found = paired_bootstrap([0.0] * 10, [1.0] * 10)
    assert (found.mean, found.low, found.high, found.certain) == (1.0, 1.0, 1.0, True)


def test_the_interval_is_near_the_normal_one() -> None:
    """100 tasks, 30 gained, 10 lost: mean 0.2, standard error sqrt(0.4 - 0.04) / 10 = 0.06."""
    a = [0.0] * 30 + [1.0] * 10 + [0.0] * 60
    b = [1.0] * 30 + [0.0] * 10 + [0.0] * 60
    found = paired_bootstrap(a, b)
    assert found.mean == pytest.approx(0.2)
    assert found.low == pytest.approx(0.2 - 1.96 * 0.06, abs=0.02)
    assert found.high == pytest.approx(0.2 + 1.96 * 0.06, abs=0.02)


def test_unpaired_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="3 and 2 tasks"):
        paired_bootstrap([0, 0, 0], [1, 1])
