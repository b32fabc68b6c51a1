"""Draws have the right distribution, and depend on seed, key and step alone."""

import numpy as np
import torch

from regard.decoding.sampling import draw, key_of, log_waits, mix64, random_bits, stream_keys

MASK = (1 << 64) - 1


def streams(n: int, *, seed: int = 0, n_samples: int = 1) -> torch.Tensor:
    return stream_keys(torch.arange(n), seed=seed, n_samples=n_samples)


def splitmix(x: int) -> int:
    """The published algorithm, in Python's own integers."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def test_mix64_is_splitmix64() -> None:
    given = [0, 1, 2**62 + 12345, -7]
    expected = [splitmix(value & MASK) for value in given]
    assert [value & MASK for value in mix64(torch.tensor(given)).tolist()] == expected
    assert expected[0] == 0xE220A8397B1DCDAF  # the first output of the reference implementation for seed 0


def test_mix64_leaves_its_input_alone() -> None:
    given = torch.tensor([5, 6])
    mix64(given)
    assert given.tolist() == [5, 6]


def chi_square(counts: torch.Tensor, probs: torch.Tensor) -> float:
    expected = counts.sum() * probs
    return float(((counts - expected) ** 2 / expected).sum())


def test_bits_are_uniform() -> None:
    bits = random_bits(streams(200), step=3, n=1000).long() & 0xFFFFFFFF
    for shift in (0, 8, 16, 24):
        counts = torch.bincount((bits >> shift).flatten() & 255, minlength=256).double()
        # 255 degrees of freedom: mean 255, standard deviation 22.6
        assert 165 < chi_square(counts, torch.full((256,), 1 / 256)) < 355


def test_every_bit_is_independent_of_its_neighbours() -> None:
    signs = ((random_bits(streams(100), step=0, n=1000)[..., None] >> torch.arange(32)) & 1).double() * 2 - 1
    tokens = (signs[:, 1:] * signs[:, :-1]).mean((0, 1))
    rows = (signs[1:] * signs[:-1]).mean((0, 1))
    assert max(tokens.abs().max(), rows.abs().max()) < 5 / 100_000**0.5


def test_steps_are_independent() -> None:
    first, second = (log_waits(streams(100), step=step, n=500).flatten() for step in (0, 1))
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 5 / 50_000**0.5


def test_streams_that_share_half_a_key_share_no_noise() -> None:
    many = streams(300_000)
    halves = mix64(many + 0x1E3779B97F4A7C15 - (1 << 63)).view(torch.int32).view(-1, 2)  # the key of step 0
    order = halves[:, 0].argsort()
    twins = (halves[order[1:], 0] == halves[order[:-1], 0]).nonzero()[:, 0]
    assert len(twins) > 3  # about ten by chance
    one, other = (random_bits(many[order[twins + shift]], step=0, n=1000) for shift in (0, 1))
    assert (one == other).sum() <= 1


def test_waits_are_exponential() -> None:
    waits = log_waits(streams(100), step=7, n=2000).exp().double()
    assert waits.isfinite().all()
    assert abs(waits.mean() - 1) < 0.01
    assert abs(waits.var() - 1) < 0.03
    assert abs((waits < 0.01).double().mean() - 0.00995) < 0.001


def test_draws_follow_the_softmax() -> None:
    probs = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    drawn = torch.cat([draw(probs.log().expand(2000, -1), streams(2000, seed=5), step=step) for step in range(10)])
    counts = torch.bincount(drawn, minlength=6).double()
    assert chi_square(counts, probs) < 20.5  # 5 degrees of freedom: one in a thousand is above


def test_what_is_forbidden_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, -60.0, -torch.inf]]).expand(500, 3)
    assert set(draw(logits, streams(500), step=0).tolist()) == {1}


def test_a_row_draws_the_same_in_any_batch() -> None:
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    together = draw(logits, streams(6), step=4)
    alone = [draw(logits[row : row + 1], streams(6)[row : row + 1], step=4).item() for row in range(6)]
    shuffled = draw(logits.flip(0), streams(6).flip(0), step=4).flip(0)
    assert together.tolist() == alone == shuffled.tolist()


def test_a_token_has_the_same_noise_in_any_vocabulary() -> None:
    assert torch.equal(log_waits(streams(3), step=1, n=10), log_waits(streams(3), step=1, n=1000)[:, :10])


def test_seed_key_sample_and_step_all_count() -> None:
    keys = torch.cat([streams(50, seed=seed, n_samples=4) for seed in (0, 1, 2, -1)])
    assert len(set(keys.tolist())) == 800
    steps = torch.cat([random_bits(keys, step=step, n=1) for step in range(5)])
    assert len(set(steps.flatten().tolist())) > 3990  # of 4000; 32-bit values meet by chance


def test_the_samples_of_a_row_do_not_depend_on_their_number() -> None:
    few, many = streams(3, n_samples=2).view(3, 2), streams(3, n_samples=5).view(3, 5)
    assert torch.equal(few, many[:, :2])


def test_any_seed_is_taken() -> None:
    assert streams(2, seed=2**70 + 1).dtype == torch.int64


def test_a_key_is_a_digest_of_the_content() -> None:
    assert key_of([3, 1, 2]) == key_of((3, 1, 2)) == key_of(np.array([3, 1, 2]))
    others: list[object] = [[3, 1], [1, 3, 2], [], [0], [0, 0], np.array([3.0, 1.0, 2.0]), np.array([[3, 1, 2]])]
    keys = [key_of(content) for content in ([3, 1, 2], *others)]  # type: ignore[arg-type]
    assert len(set(keys)) == len(keys)
    assert all(0 <= key < 2**63 for key in keys)
    assert key_of([1, 2, 3]) == 8074530170935902097, "it stays the same on every machine and in every version"
    turned = np.arange(6.0).reshape(2, 3).T
    assert key_of(turned) == key_of(np.ascontiguousarray(turned))


def test_the_noise_of_a_row_has_the_same_bits_wherever_it_stands() -> None:
    """However many rows there are, and whatever vector units do at the ends of rows."""
    for n in (7, 100, 50257):
        together = log_waits(streams(9), step=5, n=n)
        for row in (0, 4, 8):
            assert torch.equal(log_waits(streams(9)[row : row + 1], step=5, n=n)[0], together[row])
        assert torch.equal(log_waits(streams(9).flip(0), step=5, n=n).flip(0), together)
