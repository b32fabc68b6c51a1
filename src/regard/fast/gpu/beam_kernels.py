"""A Triton kernel that does the bookkeeping of a beam search, one program an input.

    extend    from the best of the logits' chunks (`topk`): which hypotheses end and which live on, the tables,
              the scores, who is done

Written out, a step is some eighty small operations and several passes over the logits. `beam` is the readable twin:
the search is the same, and so are its hypotheses.

    n inputs · W beams each · N = n · W rows · V vocabulary · C chunks · k = W + 1 candidates a chunk
"""

# Triton compiles the functions; annotations mean something else to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from regard.decoding.beam import BeamSearch
from regard.fast.gpu.topk import TopKChunks


@triton.jit(do_not_specialize=["step"])
def _extend_kernel(VALUES, COLUMNS, PEAKS, SUMS, INPUTS, LIMITS, LIMIT_PENALTIES,
                   TOKENS, TOTALS, ROWS, N_ENDED, SCORES, CODES, LOG_PROBS, DONE, CUT_SCORES,
                   TABLE_TOKENS, TABLE_PARENTS, TABLE_LOG_PROBS,
                   step, n_inputs, n_chunks, eos, enough, penalty, next_penalty,
                   W: tl.constexpr, K: tl.constexpr, N_BEST: tl.constexpr,
                   BEAMS: tl.constexpr, CHUNKS: tl.constexpr, EACH: tl.constexpr, BEST: tl.constexpr):  # fmt: skip
    i = tl.program_id(0)
    beams, chunks, each, slots = tl.arange(0, BEAMS), tl.arange(0, CHUNKS), tl.arange(0, EACH), tl.arange(0, BEST)
    real, kept = beams < W, slots < N_BEST

    # What each beam's logits lack to be log-probabilities.
    at = (i * W + beams[:, None]) * n_chunks + chunks[None, :]
    inside = real[:, None] & (chunks < n_chunks)[None, :]
    peaks = tl.load(PEAKS + at, inside, other=float("-inf"))
    peak = tl.max(peaks, 1)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    sums = tl.load(SUMS + at, inside, other=0.0) * tl.exp(peaks - peak[:, None])
    total = peak + tl.log(tl.where(real, tl.sum(sums, 1), 1.0))

    # All candidates; what is dead or forbidden stays so.
    at = (i * W + beams[:, None]) * n_chunks * K + each[None, :]
    inside = real[:, None] & (each < n_chunks * K)[None, :]
    values = tl.load(VALUES + at, inside, other=float("-inf"))
    before = tl.load(TOTALS + i * W + beams, real, other=float("-inf"))
    lost = (values == float("-inf")) | (before == float("-inf"))[:, None]
    new_log_probs = tl.reshape(values - total[:, None], [BEAMS * EACH])
    new_totals = tl.reshape(tl.where(lost, float("-inf"), before[:, None] + values - total[:, None]), [BEAMS * EACH])
    new_tokens = tl.reshape(tl.load(COLUMNS + at, inside, other=0), [BEAMS * EACH])
    places = tl.arange(0, BEAMS * EACH)
    ranks = tl.where(new_totals != new_totals, float("inf"), new_totals)

    tokens, parents = tl.zeros([BEAMS], tl.int64), tl.zeros([BEAMS], tl.int64)
    log_probs, totals = tl.zeros([BEAMS], tl.float32), tl.full([BEAMS], float("-inf"), tl.float32)
    scores = tl.load(SCORES + i * N_BEST + slots, kept, other=float("inf"))
    codes = tl.load(CODES + i * N_BEST + slots, kept, other=0)
    end_log_probs = tl.load(LOG_PROBS + i * N_BEST + slots, kept, other=0.0)
    n_live, n_ended = 0, tl.load(N_ENDED + i)
    for m in tl.static_range(2 * W):  # at most W of the best 2 W are ends
        rank, place = tl.max(ranks, 0, return_indices=True)
        here = places == place
        token = tl.sum(tl.where(here, new_tokens, 0), 0)
        log_prob = tl.sum(tl.where(here, new_log_probs, 0.0), 0)
        reached = tl.where(rank > float("-inf"), tl.sum(tl.where(here, new_totals, 0.0), 0), float("-inf"))
        ends = (token == eos) & (rank > float("-inf"))
        if m < W:
            # An end takes the place of the worst so far, if it is better.
            worst, slot = tl.min(scores, 0, return_indices=True)
            taken = (slots == slot) & (ends & (reached / penalty > worst))
            scores = tl.where(taken, reached / penalty, scores)
            codes = tl.where(taken, step * W + place // EACH, codes)
            end_log_probs = tl.where(taken, log_prob, end_log_probs)
            n_ended += ends.to(tl.int64)
        slot_of_live = (beams == n_live) & (ends == 0)
        tokens = tl.where(slot_of_live, token, tokens)
        parents = tl.where(slot_of_live, place // EACH, parents)
        log_probs = tl.where(slot_of_live, log_prob, log_probs)
        totals = tl.where(slot_of_live, reached, totals)
        n_live += (ends == 0).to(tl.int32)
        ranks = tl.where(here, float("-inf"), ranks)

    row, limit = tl.load(INPUTS + i), tl.load(LIMITS + i)
    at = (step * n_inputs + row) * W + beams
    tl.store(TABLE_TOKENS + at, tokens, real)
    tl.store(TABLE_PARENTS + at, parents, real)
    tl.store(TABLE_LOG_PROBS + at, log_probs, real)
    totals = tl.where(n_ended >= enough, float("-inf"), totals)
    if limit == step + 1:
        tl.store(CUT_SCORES + row * W + beams, totals / penalty, real)

    hopes = tl.where(real, tl.where(totals != totals, float("inf"), totals), float("-inf"))
    bound = tl.max(hopes, 0) / tl.maximum(tl.load(LIMIT_PENALTIES + i), next_penalty)
    done = (bound <= tl.min(scores, 0)) | (limit <= step + 1)
    tl.store(DONE + i, done)
    tl.store(N_ENDED + i, n_ended)
    tl.store(TOKENS + i * W + beams, tokens, real)
    tl.store(ROWS + i * W + beams, i * W + parents, real)
    tl.store(TOTALS + i * W + beams, tl.where(done, float("-inf"), totals), real)
    tl.store(SCORES + i * N_BEST + slots, scores, kept)
    tl.store(CODES + i * N_BEST + slots, codes, kept)
    tl.store(LOG_PROBS + i * N_BEST + slots, end_log_probs, kept)


def extend(best: TopKChunks, search: BeamSearch) -> None:
    """Bring a search one step further, where its tensors lie: all of them row after row; ended hypotheses in no order.

    The penalties are what log-probabilities of a hypothesis that ends now, or at the next step, are divided by.
    """
    now, table, step = search.now, search.table, search.step
    (n, width), n_best = now.tokens.shape, now.ended_scores.shape[1]
    n_chunks, k = best.columns.shape[1:]
    each = triton.next_power_of_2(n_chunks * k)
    beams = triton.next_power_of_2(width)
    enough, penalty = search.plan.options.patience * width, search.ranking.penalty
    _extend_kernel[(n,)](
        best.values, best.columns, best.peaks, best.sums, now.inputs, now.limits, now.limit_penalties,
        now.tokens, now.totals, search.rows, now.n_ended,
        now.ended_scores, now.ended_codes, now.ended_log_probs, search.done, search.cut_scores,
        table.tokens, table.parents, table.log_probs,
        step, table.tokens.shape[1], n_chunks, search.plan.eos_id, enough, penalty(step + 1), penalty(step + 2),
        W=width, K=k, N_BEST=n_best, BEAMS=beams, CHUNKS=triton.next_power_of_2(n_chunks),
        EACH=each, BEST=triton.next_power_of_2(n_best), num_warps=max(1, min(8, beams * each // 256)),
    )  # fmt: skip
