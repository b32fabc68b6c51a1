"""The kernels of beam search find what the written-out search finds, on Triton's interpreter or a GPU."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decoding import DecodeOptions, Hypothesis
from regard.decoding.beam import BeamSearch
from regard.decoding.plan import SyncPolicy, make_plan
from regard.errors import RegardError
from regard.fast.gpu.fused_beam import FusedBeamSearch
from regard.fast.gpu.topk import CHUNK, top_k_of_chunks
from stub_steppers import BOS, EOS, PAD, HistoryStepper

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.gpu
SOURCES = [3, 15, 92]


def plan_of(options: DecodeOptions, *, n_rows: int = len(SOURCES), **more: Any) -> Any:
    ids = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
    return make_plan(options, torch.device(DEVICE), n_rows=n_rows, **ids, **more)


def found_by(search: type[BeamSearch], options: DecodeOptions, *, n_tokens: int = 12, **more: Any) -> Any:
    stepper = HistoryStepper(SOURCES, n_tokens=n_tokens, device=DEVICE)
    beams = search(stepper, plan_of(options, **more))
    beams.advance()
    while not beams.is_over():
        beams.advance()
    return beams.hypotheses()


def assert_same(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    for mine, its in zip(ours, theirs, strict=True):
        assert [one.tokens for one in mine] == [one.tokens for one in its]
        assert [one.finished for one in mine] == [one.finished for one in its]
        assert [one.score for one in mine] == pytest.approx([one.score for one in its], abs=1e-5)
        for one, other in zip(mine, its, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4},
        {"beam": 5, "n_best": 3},
        {"beam": 4, "n_best": 4, "patience": math.inf, "length_penalty": 0.0},
        {"beam": 3, "patience": 2.0, "min_length": 6, "n_best": 2},
        {"beam": 4, "n_best": 2, "banned": (3, 7)},
        {"beam": 2, "length_rule": "gnmt", "length_penalty": 0.6, "max_length": 4, "n_best": 2},
    ],
)
@pytest.mark.parametrize("sync", [SyncPolicy(1, 1.0, False), SyncPolicy(4, 0.75, False)])
def test_the_search_is_the_same(options: dict[str, Any], sync: SyncPolicy) -> None:
    chosen = DecodeOptions(**{"strategy": "beam", "max_length": 9, **options})
    assert_same(*(found_by(search, chosen, sync=sync) for search in (FusedBeamSearch, BeamSearch)))


def test_every_row_has_its_limit() -> None:
    options = DecodeOptions(strategy="beam", beam=3, n_best=3, max_length=7)
    limits = {"max_lengths": [2, 7, 4]}
    assert_same(*(found_by(search, options, **limits) for search in (FusedBeamSearch, BeamSearch)))


@pytest.mark.parametrize("n_tokens", [3, CHUNK - 1, CHUNK + 1])
def test_vocabularies_smaller_and_larger_than_a_chunk(n_tokens: int) -> None:
    options = DecodeOptions(strategy="beam", beam=4, n_best=2, max_length=4)
    assert_same(*(found_by(search, options, n_tokens=n_tokens) for search in (FusedBeamSearch, BeamSearch)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_best_of_chunks_are_those_of_sorting(dtype: torch.dtype) -> None:
    logits = torch.randn(4, 2 * CHUNK + 5, device=DEVICE).to(dtype)
    logits[1, :] = -math.inf
    logits[1, 7] = 2.0
    logits[2, 9], logits[2, 11:14] = math.inf, -0.0
    best = top_k_of_chunks(logits[:, ::1], 3, banned=4)
    for chunk, part in enumerate(logits.split(CHUNK, 1)):
        allowed = part.clone()
        if chunk == 0:
            allowed[:, 4] = -math.inf
        values = allowed.topk(3).values.float()
        assert torch.equal(best.values[:, chunk], values)
        real = values > -math.inf
        chosen = logits.gather(1, best.columns[:, chunk]).float()
        assert torch.equal(chosen[real], values[real])
    usual = [0, 1, 3]
    whole = (best.sums * (best.peaks - best.peaks.amax(1, True)).exp()).sum(1).log() + best.peaks.amax(1)
    torch.testing.assert_close(whole[usual], logits.float().logsumexp(1)[usual])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_of_equals_the_first_is_taken_and_there_may_be_fewer_than_are_asked_for(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, -3.0, 1.0, -math.inf, -3.0]], device=DEVICE, dtype=dtype)
    best = top_k_of_chunks(logits, 7)
    assert best.values[0, 0].tolist() == [1.0, 1.0, -3.0, -3.0, *[-math.inf] * 3]
    assert best.columns[0, 0, :4].tolist() == [0, 2, 1, 4]
    noticed = top_k_of_chunks(torch.tensor([[1.0, math.nan]], device=DEVICE, dtype=dtype), 1)
    assert (noticed.values.item(), noticed.columns.item()) == (math.inf, 1), "what is no number ranks first"


def test_a_dead_row_stays_dead_and_numbers_that_are_none_are_noticed() -> None:
    class Damaged(HistoryStepper):
        def step(self, tokens: Tensor) -> Tensor:
            logits = super().step(tokens)
            logits[:, 5] = math.nan
            return logits

    beams = FusedBeamSearch(
        Damaged(SOURCES, device=DEVICE), plan_of(DecodeOptions(strategy="beam", beam=3, max_length=4))
    )
    beams.advance()
    while not beams.is_over():
        beams.advance()
    with pytest.raises(RegardError, match="NaN"):
        beams.hypotheses()


@pytest.mark.parametrize("unusual", [{"groups": 2}, {"coverage_penalty": 0.1}, {"no_repeat_ngram": 2}])
def test_what_is_unusual_is_searched_the_written_out_way(unusual: dict[str, Any]) -> None:
    assert not FusedBeamSearch.suits(plan_of(DecodeOptions(strategy="beam", beam=4, **unusual)))
    assert FusedBeamSearch.suits(plan_of(DecodeOptions(strategy="beam", beam=4))) == (DEVICE == "cuda")
