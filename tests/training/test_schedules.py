"""Learning rates against numbers worked by hand."""

import itertools
import math

import pytest

from regard.errors import ConfigError, UsageError
from regard.training.schedules import rate_at

NAMES = ["inverse_sqrt", "cosine", "linear", "constant"]


@pytest.mark.parametrize("step", [1, 100, 3999, 4000, 4001, 16_000, 100_000])
def test_inverse_sqrt_is_the_papers_formula(step):
    d_model, warmup = 512, 4000
    paper = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    peak = (d_model * warmup) ** -0.5
    assert rate_at(step, schedule="inverse_sqrt", lr=peak, warmup=warmup) == pytest.approx(paper, rel=1e-12)


def test_numbers_by_hand():
    assert rate_at(16, schedule="inverse_sqrt", lr=1.0, warmup=4) == 0.5
    assert rate_at(9, schedule="inverse_sqrt", lr=1.0, warmup=0) == pytest.approx(1 / 3)
    linear = [rate_at(s, schedule="linear", lr=2.0, warmup=2, steps=6) for s in (1, 2, 3, 4, 5, 6, 7)]
    assert linear == pytest.approx([1.0, 2.0, 1.5, 1.0, 0.5, 0.0, 0.0])
    cosine = [rate_at(s, schedule="cosine", lr=1.0, warmup=0, steps=4, final=0.2) for s in (1, 2, 3, 4, 9)]
    bend = 0.4 * math.sqrt(0.5)
    assert cosine == pytest.approx([0.6 + bend, 0.6, 0.6 - bend, 0.2, 0.2])
    assert [rate_at(s, schedule="constant", lr=3.0, warmup=2, steps=4) for s in (1, 2, 3, 99)] == [1.5, 3.0, 3.0, 3.0]


@pytest.mark.parametrize("name", NAMES)
def test_each_rises_to_the_peak_and_never_falls_below_the_final_share(name):
    rates = [rate_at(s, schedule=name, lr=0.01, warmup=10, steps=500, final=0.3) for s in range(1, 1000)]
    assert rates[:10] == pytest.approx([0.001 * s for s in range(1, 11)])
    assert max(rates) == rates[9] == 0.01
    assert all(later <= earlier for earlier, later in itertools.pairwise(rates[9:]))
    assert min(rates[9:]) >= 0.003 * (1 - 1e-12)
    if name != "constant":
        assert rates[-1] == pytest.approx(0.003)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_shorter_than_its_warmup_keeps_rising(name):
    assert rate_at(20, schedule=name, lr=1.0, warmup=4000, steps=20) == 20 / 4000


def test_what_is_refused():
    with pytest.raises(ConfigError, match=r"no schedule is called 'cosin'; there are \['constant', 'cosine'"):
        rate_at(1, schedule="cosin", lr=1.0)
    with pytest.raises(ConfigError, match="no schedule is called 'step'"):
        rate_at(1, schedule="step", lr=1.0)
    with pytest.raises(UsageError, match="no update number 0; the first is 1"):
        rate_at(0, schedule="linear", lr=1.0)
    with pytest.raises(ConfigError, match=r"final share of the rate is 1\.5"):
        rate_at(1, schedule="linear", lr=1.0, final=1.5)
