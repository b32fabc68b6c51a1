"""Greedy decoding, sampling and streaming, one path a row."""

import itertools
import math
from typing import Any

import pytest
import torch

from regard.decoding import DecodeOptions, Hypothesis, decode, force_decode, stream
from regard.errors import RegardError, ShapeError, UsageError
from stub_steppers import BOS, EOS, PAD, HistoryStepper, MarkovStepper, next_log_probs

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}


def run(sources: list[int], options: DecodeOptions, **more: Any) -> list[list[Hypothesis]]:
    return decode(HistoryStepper(sources), n_rows=len(sources), options=options, **{**IDS, **more})


def chain(*tokens: int, n_tokens: int = 6) -> torch.Tensor:
    """A table (1, V, V) in which each token is followed by the next of the chain, with probability ¾."""
    table = torch.full((1, n_tokens, n_tokens), math.log(0.25 / (n_tokens - 1)))
    for before, after in itertools.pairwise(tokens):
        table[0, before, after] = math.log(0.75)
    return table


def test_greedy_follows_the_likeliest() -> None:
    [[found]] = decode(MarkovStepper(chain(BOS, 3, 5, 4, EOS)), n_rows=1, options=DecodeOptions(), **IDS)
    assert found.tokens == [3, 5, 4]
    assert found.finished
    assert found.token_log_probs == pytest.approx([math.log(0.75)] * 4)
    assert found.log_prob == pytest.approx(4 * math.log(0.75))
    assert found.score == pytest.approx(math.log(0.75))  # the average, end mark included


def test_greedy_agrees_with_the_model_run_from_scratch() -> None:
    for row, [found] in enumerate(run(list(range(5)), DecodeOptions(max_length=30))):
        given = next_log_probs(lambda row=row: HistoryStepper([row]))  # type: ignore[misc]
        history: tuple[int, ...] = ()
        terms: list[float] = []
        while len(terms) < 30 and history[-1:] != (EOS,):
            log_probs = given(history)
            token = max(range(len(log_probs)), key=log_probs.__getitem__)
            terms.append(log_probs[token])
            history = (*history, token)
        assert found.tokens == [token for token in history if token != EOS]
        assert found.token_log_probs == pytest.approx(terms, abs=1e-5)


def test_a_padding_token_is_a_token_like_any() -> None:
    [[found]] = decode(MarkovStepper(chain(BOS, PAD, 3, EOS)), n_rows=1, options=DecodeOptions(), **IDS)
    assert found.tokens == [PAD, 3]


def test_an_end_at_once_is_an_empty_hypothesis() -> None:
    [[found]] = decode(MarkovStepper(chain(BOS, EOS)), n_rows=1, options=DecodeOptions(), **IDS)
    assert (found.tokens, found.finished, len(found.token_log_probs)) == ([], True, 1)


def test_the_limit_cuts_and_says_so() -> None:
    stepper = MarkovStepper(chain(BOS, 3, 4, 3))
    [[found]] = decode(stepper, n_rows=1, options=DecodeOptions(max_length=5), **IDS)
    assert (found.tokens, found.finished) == ([3, 4, 3, 4, 3], False)
    assert len(found.token_log_probs) == 5
    assert len(stepper.steps) == 5


def test_each_row_has_its_own_limit() -> None:
    tables = chain(BOS, 3, 4, 3).expand(3, -1, -1)
    found = decode(MarkovStepper(tables), n_rows=3, options=DecodeOptions(), max_lengths=torch.tensor([2, 5, 1]), **IDS)
    assert [row[0].tokens for row in found] == [[3, 4], [3, 4, 3, 4, 3], [3]]


def test_an_end_at_the_limit_is_an_end() -> None:
    [[found]] = decode(MarkovStepper(chain(BOS, 3, EOS)), n_rows=1, options=DecodeOptions(max_length=2), **IDS)
    assert (found.tokens, found.finished) == ([3], True)


def test_rows_may_start_from_their_own_tokens() -> None:
    tables = chain(BOS, 3, 4, 5, EOS).expand(2, -1, -1)
    starts = torch.tensor([4, 3])
    found = decode(MarkovStepper(tables), n_rows=2, options=DecodeOptions(), **{**IDS, "bos_id": starts})
    assert [row[0].tokens for row in found] == [[5], [4, 5]]


def test_min_length_and_no_repeat_hold_in_the_loop() -> None:
    for [found] in run(list(range(6)), DecodeOptions(min_length=6, max_length=40, no_repeat_ngram=1)):
        assert len(found.tokens) >= 6
        assert len(set(found.tokens)) == len(found.tokens)


def test_prefixes_begin_the_output_and_are_scored() -> None:
    prefixes = [[5, 6, 7], [], [9]]
    found = run([0, 1, 2], DecodeOptions(max_length=20), prefixes=prefixes)
    plain = run([0, 1, 2], DecodeOptions(max_length=20))
    for [one], prefix in zip(found, prefixes, strict=True):
        assert one.tokens[: len(prefix)] == prefix
    assert found[1] == plain[1]
    eos = EOS if found[0][0].finished else None
    terms = force_decode(HistoryStepper([0]), [found[0][0].tokens], bos_id=BOS, eos_id=eos, pad_id=PAD)
    assert found[0][0].token_log_probs == pytest.approx(terms[0], abs=1e-5)


def test_banned_tokens_do_not_come_but_keep_their_probability() -> None:
    table = chain(BOS, 3, EOS)
    table[0, BOS, 4] = math.log(0.2)
    [[found]] = decode(MarkovStepper(table), n_rows=1, options=DecodeOptions(banned=(3,)), **IDS)
    assert found.tokens[0] == 4
    assert found.token_log_probs[0] == pytest.approx(table[0, BOS].log_softmax(-1)[4].item())


def test_sampling_reports_the_models_own_log_probabilities() -> None:
    shaping: dict[str, Any] = {"temperature": 0.6, "top_k": 5, "top_p": 0.9, "min_p": 0.01}
    found = run([0, 1, 2], DecodeOptions(strategy="sample", n_samples=4, seed=3, max_length=25, **shaping))
    for row, samples in enumerate(found):
        assert len(samples) == 4
        for one in samples:
            eos = EOS if one.finished else None
            terms = force_decode(HistoryStepper([row]), [one.tokens], bos_id=BOS, eos_id=eos, pad_id=PAD)
            assert one.token_log_probs == pytest.approx(terms[0], abs=1e-5)
            assert one.log_prob == pytest.approx(sum(terms[0]), abs=1e-4)


def test_samples_follow_the_model() -> None:
    logits = torch.randn(1, 6, 6, generator=torch.Generator().manual_seed(1))
    options = DecodeOptions(strategy="sample", n_samples=4000, max_length=1)
    [samples] = decode(MarkovStepper(logits), n_rows=1, options=options, **IDS)
    firsts = torch.tensor([one.tokens[0] if one.tokens else EOS for one in samples])
    share = torch.bincount(firsts, minlength=6) / 4000
    assert (share - logits[0, BOS].softmax(-1)).abs().max() < 0.03


def test_seeds_make_samples() -> None:
    def once(seed: int) -> list[list[Hypothesis]]:
        return run([0, 1], DecodeOptions(strategy="sample", seed=seed, n_samples=3, max_length=15))

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_a_cold_sample_is_greedy() -> None:
    cold = run([0, 1, 2], DecodeOptions(strategy="sample", top_k=1, max_length=20))
    assert cold == run([0, 1, 2], DecodeOptions(max_length=20))


def test_row_keys_name_the_stream() -> None:
    options = DecodeOptions(strategy="sample", max_length=15)
    assert run([4, 4], options, row_keys=[8, 8])[0] == run([4, 4], options, row_keys=[8, 8])[1]
    assert run([4, 4], options)[0] != run([4, 4], options)[1]
    assert run([4], options, row_keys=torch.tensor([1]))[0] == run([4, 4], options)[1]


@pytest.mark.parametrize("strategy", ["greedy", "sample"])
def test_a_stream_yields_what_decode_returns(strategy: Any) -> None:
    options = DecodeOptions(strategy=strategy, max_length=20)
    for source in range(4):
        [[whole]] = run([source], options, row_keys=[9], prefixes=[[7]])
        assert list(stream(HistoryStepper([source]), options=options, prefix=[7], row_key=9, **IDS)) == whole.tokens


def test_a_stream_works_only_as_far_as_it_is_read() -> None:
    stepper = MarkovStepper(chain(BOS, 3, 4, 3))
    tokens = stream(stepper, options=DecodeOptions(max_length=9), **IDS)
    assert stepper.steps == []
    assert [next(tokens), next(tokens)] == [3, 4]
    assert len(stepper.steps) == 2
    assert not torch.is_inference_mode_enabled()


class Watchful(HistoryStepper):
    """Notes whether gradients were out of the way."""

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        assert torch.is_inference_mode_enabled()
        return super().step(tokens)


def test_the_model_runs_in_inference_mode() -> None:
    options = DecodeOptions(max_length=5)
    [[whole]] = decode(Watchful([4]), n_rows=1, options=options, **IDS)
    assert list(stream(Watchful([4]), options=options, **IDS)) == whole.tokens
    assert force_decode(Watchful([4]), [whole.tokens], **IDS)[0][0] == pytest.approx(whole.token_log_probs[0])


def test_a_beam_cannot_stream() -> None:
    with pytest.raises(
        UsageError, match="strategy is 'beam' with n_samples=1; allowed for streaming are 'greedy'"
    ) as caught:
        stream(HistoryStepper([0]), options=DecodeOptions(strategy="beam", beam=2), **IDS)
    assert "use decode" in str(caught.value.hint)


def test_no_rows_no_hypotheses() -> None:
    assert decode(MarkovStepper(torch.zeros(0, 3, 3)), n_rows=0, options=DecodeOptions(), **IDS) == []


def test_logits_that_are_not_numbers_are_reported() -> None:
    with pytest.raises(RegardError, match="NaN"):
        decode(MarkovStepper(torch.full((1, 4, 4), math.nan)), n_rows=1, options=DecodeOptions(max_length=3), **IDS)


class OneRowTooMany(MarkovStepper):
    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(tokens) + 1, 4)


def test_a_stepper_that_loses_count_is_reported() -> None:
    with pytest.raises(
        ShapeError, match=r"given 2 tokens and returned logits of shape \(3, 4\); allowed is .* \(2, V\)"
    ):
        decode(OneRowTooMany(torch.zeros(2, 4, 4)), n_rows=2, options=DecodeOptions(), **IDS)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_lengths": [3]}, r"max_lengths has shape \(1,\); allowed is one value a row, \(2,\)"),
    ({"max_lengths": [3, 0]}, "max_lengths holds 0; allowed is above min_length=0 and up to max_length=8"),
    ({"max_lengths": [3, 9]}, "max_lengths holds 9"),
    ({"row_keys": torch.zeros(3)}, r"row_keys has shape \(3,\)"),
    ({"row_keys": torch.tensor(3)}, r"row_keys has shape \(\)"),
    ({"bos_id": torch.zeros(1)}, r"bos_id has shape \(1,\)"),
    ({"prefixes": [[3]]}, "1 prefixes were given for 2 rows; allowed is one a row"),
    ({"prefixes": [[3], [3] * 8]}, "the prefix of row 1 has 8 tokens and its most steps are 8"),
    ({"prefixes": [[3, EOS], []]}, r"the prefix of row 0 is \[3, 1\]; allowed are token ids from 0 but not eos_id=1"),
    ({"prefixes": [[12], []]}, "prefixes holds 12 and the model knows 12 tokens; allowed is 0 to 11"),
    ({"eos_id": 40}, "eos_id holds 40 and the model knows 12 tokens; allowed is 0 to 11"),
    ({"pad_id": -1}, "eos_id is 1 and pad_id is -1; allowed are token ids from 0"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_does_not_fit_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run([0, 1], DecodeOptions(max_length=8), **given)
