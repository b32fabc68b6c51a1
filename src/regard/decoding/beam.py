"""Beam search.

Each input keeps W live hypotheses. A step extends all of them by every token and ranks the extensions by
log-probability: an end mark among the best W ends a hypothesis, and the best W extensions by other tokens live on.
(With groups, W is a group's share, each group ranks its own, and a token costs `diversity` for every hypothesis of an
earlier group that took it at this step. That cost steers the choice only; it enters no log-probability.)

Ended hypotheses compete by score (`ranking`). The search for an input is over when
  - patience · W hypotheses have ended (counted group by group): with W = 1 the first end, so that beam 1 is greedy; or
  - n_best have ended and no live one can beat the worst of them, by the optimistic bound of `Ranking.bound`; or
  - the length limit is reached. Live hypotheses then fill the places that ended ones have left, as unfinished.
With `patience=inf` only the last two count, and a beam as wide as there are sequences finds the true best ones.

    n inputs still searching · W beams in G groups · V vocabulary · k candidates a beam · K = n_best
Every tensor of bookkeeping stays on the device; the host looks when `SyncPolicy` says so.
"""

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from regard.decoding.candidates import Candidates, Choice, pick
from regard.decoding.filters import Filters, Moment
from regard.decoding.plan import Plan
from regard.decoding.ranking import Hypothesis, Ranking, hypothesis
from regard.decoding.stepper import Stepper, last_attention, log_probs_of, next_logits, top_k


@dataclass(frozen=True)
class Searching:
    """The inputs still being searched, one row each; a dead beam has a total of −inf.

    ended_codes say where an ended hypothesis stands: step · W + parent beam. Its end mark's log-probability is in
    ended_log_probs.
    """

    inputs: Tensor  # (n,)
    limits: Tensor  # (n,)
    limit_penalties: Tensor  # (n,)
    tokens: Tensor  # (n, W)
    totals: Tensor  # (n, W)
    n_ended: Tensor  # (n, G)
    ended_scores: Tensor  # (n, K), best first
    ended_codes: Tensor  # (n, K)
    ended_log_probs: Tensor  # (n, K)
    attended: Tensor  # (n, W, S), or (n, W, 0) where nobody asks
    history: Tensor  # (n, W, t), or (n, W, 0) where nobody asks

    def at(self, rows: Tensor) -> "Searching":
        """Only these inputs."""
        return Searching(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


class Backpointers:
    """What beams chose: tables (steps, B, W) of the token each took, the beam it came from, and its log-probability.

    Nothing is copied when beams are reordered; a hypothesis is the slot it stands in at some step, and is read
    backwards at the end.
    """

    def __init__(self, n_steps: int, n_inputs: int, *, width: int, device: torch.device) -> None:
        shape = (n_steps, n_inputs, width)
        self.tokens = torch.zeros(shape, dtype=torch.int64, device=device)
        self.parents = torch.zeros(shape, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(shape, device=device)

    def write(self, step: int, inputs: Tensor, choice: Choice) -> None:
        """Note what the beams of these inputs (n,) took at this step."""
        self.tokens[step].index_copy_(0, inputs, choice.tokens)
        self.parents[step].index_copy_(0, inputs, choice.parents)
        self.log_probs[step].index_copy_(0, inputs, choice.log_probs)

    def trace(self, lengths: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens and log-probabilities (B, M, longest) that lead to M slots an input.

        lengths, slots (B, M): slots[b, m] is a beam after lengths[b, m] tokens. What lies past a length means nothing.
        """
        lengths, slots = lengths.cpu(), slots.cpu()
        longest = int(lengths.max()) if lengths.numel() else 0
        tables = (self.tokens[:longest].cpu(), self.parents[:longest].cpu(), self.log_probs[:longest].cpu())
        tokens = torch.zeros((*lengths.shape, longest), dtype=torch.int64)
        log_probs = torch.zeros((*lengths.shape, longest))
        for step in reversed(range(longest)):
            tokens[..., step] = tables[0][step].gather(1, slots)
            log_probs[..., step] = tables[2][step].gather(1, slots)
            slots = torch.where(lengths > step, tables[1][step].gather(1, slots), slots)
        return tokens, log_probs


class BeamSearch:
    """One search over all inputs of a plan."""

    def __init__(self, stepper: Stepper, plan: Plan) -> None:
        options = plan.options
        self.stepper, self.plan, self.ranking = stepper, plan, Ranking.of(options)
        self.width, self.n_best = options.beam, options.n_best
        self.filters = Filters(options, eos_id=plan.eos_id, device=plan.device, prefixes=plan.prefixes)
        self.table = Backpointers(plan.n_steps, plan.n_rows, width=self.width, device=plan.device)
        self.now = self._start()
        self.results = self.now
        self.cut_scores = torch.full((plan.n_rows, self.width), -math.inf, device=plan.device)
        self.done = torch.zeros_like(plan.starts, dtype=torch.bool)
        self.rows = torch.arange(plan.n_rows * self.width, device=plan.device).view(plan.n_rows, -1)
        self.step = 0
        if self.width > 1:
            stepper.select(self.now.inputs.repeat_interleave(self.width), same_source=False)

    def _start(self) -> Searching:
        plan, width, device = self.plan, self.width, self.plan.device
        n = plan.n_rows
        totals = torch.full((n, width), -math.inf, device=device)
        totals[:, :: width // plan.options.groups] = 0.0  # one beam of each group is alive; all hold the same nothing
        return Searching(
            inputs=torch.arange(n, device=device),
            limits=plan.limits,
            limit_penalties=self.ranking.penalties(plan.limits),
            tokens=plan.starts[:, None].expand(n, width),
            totals=totals,
            n_ended=torch.zeros((n, plan.options.groups), dtype=torch.int64, device=device),
            ended_scores=torch.full((n, self.n_best), -math.inf, device=device),
            ended_codes=torch.zeros((n, self.n_best), dtype=torch.int64, device=device),
            ended_log_probs=torch.zeros((n, self.n_best), device=device),
            attended=torch.zeros((n, width, 0), device=device),
            history=torch.zeros((n, width, 0), dtype=torch.int64, device=device),
        )

    def advance(self) -> None:
        """Extend every live hypothesis by a token."""
        logits = next_logits(self.stepper, self.now.tokens.flatten())
        if self.step == 0:
            self.plan.check_vocabulary(logits.shape[-1])
        self._attend()
        live, ends = pick(self._candidates(logits), self.plan.options, eos_id=self.plan.eos_id)
        self.table.write(self.step, self.now.inputs, live)
        self.step += 1
        self._collect(ends)
        self._settle(live)

    def is_over(self) -> bool:
        """Whether every input is done; on the way, tell the stepper which rows go on."""
        if self.step >= self.plan.n_steps:
            return True
        if self.plan.sync.is_due(self.step - 1):
            going = (~self.done).nonzero()[:, 0]
            if len(going) == 0:
                return True
            if self.plan.sync.drops_finished(len(going), len(self.done)):
                self._keep(going)
                self.stepper.select(self.rows.flatten(), same_source=False)
                return False
        self._reorder(self.rows.flatten())
        return False

    def _keep(self, going: Tensor) -> None:
        """Only these inputs are searched any further."""
        self._record()
        self.now, self.done, self.rows = self.now.at(going), self.done[going], self.rows[going]

    def _reorder(self, rows: Tensor) -> None:
        skip = self.plan.sync.skip_identity and torch.equal(rows, torch.arange(len(rows), device=rows.device))
        if self.width > 1 and not skip:
            self.stepper.select(rows, same_source=True)

    def _candidates(self, logits: Tensor) -> Candidates:
        n = len(self.now.inputs)
        moment = Moment(self.step, self.now.inputs.repeat_interleave(self.width), self.now.history.flatten(0, 1))
        # W + 1 a beam are enough: W extensions and the end mark, or what other groups' tokens leave of them.
        values, tokens = top_k(self.filters(logits, moment), min(self.width + 1, logits.shape[-1]))
        log_probs = log_probs_of(logits, tokens).masked_fill(values == -math.inf, -math.inf).view(n, self.width, -1)
        before = self.now.totals[..., None]
        # A dead beam stays dead, whatever the model makes of the tokens it was fed.
        totals = (before + log_probs).masked_fill(before == -math.inf, -math.inf)
        return Candidates(tokens.view_as(log_probs), log_probs, totals)

    def _attend(self) -> None:
        if self.plan.options.coverage_penalty > 0:
            weights = last_attention(self.stepper).view(*self.now.tokens.shape, -1)
            attended = weights if self.step == 0 else self.now.attended + weights
            self.now = replace(self.now, attended=attended)

    def _scores(self, totals: Tensor, parents: Tensor) -> Tensor:
        scores = totals / self.ranking.penalty(self.step)
        if self.plan.options.coverage_penalty > 0:
            scores = scores + self.ranking.coverage(self.now.attended).gather(1, parents)
        return scores

    def _collect(self, ends: Choice) -> None:
        """Let the hypotheses that end at this step compete with those that ended before."""
        now = self.now
        scores = torch.cat([now.ended_scores, self._scores(ends.totals, ends.parents)], 1)
        codes = torch.cat([now.ended_codes, ends.parents + (self.step - 1) * self.width], 1)
        log_probs = torch.cat([now.ended_log_probs, ends.log_probs], 1)
        best, places = scores.topk(self.n_best)
        ended = (ends.totals > -math.inf).view(*now.n_ended.shape, -1).sum(-1)
        self.now = replace(
            now,
            n_ended=now.n_ended + ended,
            ended_scores=best,
            ended_codes=codes.gather(1, places),
            ended_log_probs=log_probs.gather(1, places),
        )

    def _settle(self, live: Choice) -> None:
        """Take over the live hypotheses, and see for which inputs the search is over."""
        now, options = self.now, self.plan.options
        full = now.n_ended >= options.patience * (self.width // options.groups)
        totals = live.totals.masked_fill(full.repeat_interleave(self.width // options.groups, 1), -math.inf)
        if self.step >= self.plan.shortest:
            self._cut(totals, live.parents)
        bound = self.ranking.bound(totals.amax(1), now=self.step + 1, at_limit=now.limit_penalties)
        self.done = (bound <= now.ended_scores[:, -1]) | (now.limits <= self.step)
        n = len(self.done)
        self.rows = torch.arange(0, n * self.width, self.width, device=self.plan.device)[:, None] + live.parents
        self.now = replace(
            now,
            tokens=live.tokens,
            totals=totals.masked_fill(self.done[:, None], -math.inf),
            attended=_of_parents(now.attended, live.parents),
            history=self._longer_history(live),
        )

    def _longer_history(self, live: Choice) -> Tensor:
        if not self.filters.needs_history:
            return self.now.history
        return torch.cat([_of_parents(self.now.history, live.parents), live.tokens[..., None]], -1)

    def _cut(self, totals: Tensor, parents: Tensor) -> None:
        """Note the scores of live hypotheses that reach their limit at this step."""
        at_limit = (self.now.limits == self.step)[:, None]
        before = self.cut_scores[self.now.inputs]
        scores = torch.where(at_limit, self._scores(totals, parents), before)
        self.cut_scores.index_copy_(0, self.now.inputs, scores)

    def _record(self) -> None:
        """Bring what has ended so far to the rows of all inputs."""
        names = ("ended_scores", "ended_codes", "ended_log_probs")
        rows = {
            name: getattr(self.results, name).index_copy(0, self.now.inputs, getattr(self.now, name)) for name in names
        }
        self.results = replace(self.results, **rows)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The best hypotheses of each input, best first: ended ones, then those the limit cut off."""
        self._record()
        cut_scores, cut_slots = self.cut_scores.topk(self.n_best)
        ended = self.results
        scores = torch.cat([ended.ended_scores, cut_scores], 1)
        lengths = torch.cat([ended.ended_codes // self.width, self.plan.limits[:, None].expand_as(cut_slots)], 1)
        lengths = lengths.masked_fill(scores == -math.inf, 0)
        slots = torch.cat([ended.ended_codes % self.width, cut_slots], 1)
        tokens, log_probs = self.table.trace(lengths, slots)
        columns = (scores, lengths, tokens, log_probs, ended.ended_log_probs)
        return [_assemble(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _of_parents(values: Tensor, parents: Tensor) -> Tensor:
    """Values (n, W, x) of the beams' parents (n, W)."""
    if not values.shape[-1]:
        return values
    return values.gather(1, parents[..., None].expand(*parents.shape, values.shape[-1]))


def _assemble(
    scores: list[float], lengths: list[int], tokens: list[list[int]], log_probs: list[list[float]], ends: list[float]
) -> list[Hypothesis]:
    """The hypotheses of an input out of 2K places: K for ended ones, K for those cut off; −inf is an empty slot."""
    hypotheses = []
    for slot, (score, length) in enumerate(zip(scores, lengths, strict=True)):
        if score != -math.inf:
            finished = slot < len(ends)
            terms = log_probs[slot][:length] + ([ends[slot]] if finished else [])
            hypotheses.append(hypothesis(tokens[slot][:length], terms, score=score, finished=finished))
    return hypotheses[: len(ends)]
