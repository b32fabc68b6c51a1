"""Flags of a device, seen some steps later."""

import pytest
import torch

from regard.decoding.plan import SyncPolicy
from regard.fast.gpu.lookback import Lookback

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu


def flags(*done):
    return torch.tensor(done, dtype=torch.bool, device=DEVICE)


def looks(several, *, check_every, shrink_below):
    """After which steps, from 1 on, it is time to look; the flags of each step are given."""
    lookback, done = Lookback(SyncPolicy(check_every, shrink_below, skip_identity=False)), flags(*several[0])
    found = []
    for step, now in enumerate(several, start=1):
        done.copy_(flags(*now))  # flags lie in one place
        if lookback.is_to_look(done, step=step):
            found.append(step)
    return found


GOING, HALF, OVER = (False, False), (True, False), (True, True)


def test_what_was_sent_is_seen_when_flags_are_sent_again():
    assert looks([GOING, OVER, OVER, OVER, OVER, OVER], check_every=4, shrink_below=0.0) == [4, 6]


def test_every_step_where_that_is_wanted():
    assert looks([GOING, OVER, OVER, OVER], check_every=1, shrink_below=0.0) == [3, 4]


def test_rows_that_may_leave():
    steps = [GOING, HALF, HALF, HALF]
    assert looks(steps, check_every=2, shrink_below=0.75) == [3, 4]
    assert looks(steps, check_every=2, shrink_below=0.5) == []


def test_an_end_is_noticed_no_later_than_by_asking():
    for over_at in range(1, 9):
        several = [OVER if step >= over_at else GOING for step in range(1, 17)]
        asked = next(step for step in range(4, 17, 4) if step >= over_at)
        assert looks(several, check_every=4, shrink_below=0.0)[0] <= asked + 2
