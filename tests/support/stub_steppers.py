"""Models small enough to enumerate that speak the stepper protocol: a table of transitions, a hash of the history."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

BOS, EOS, PAD = 0, 1, 2  # PAD is an ordinary token of the stubs' vocabulary: decoding must not confuse the two


class Counted:
    """Keeps a log of what it was asked: rows at each step, and each selection."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.selections: list[tuple[list[int], bool]] = []

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")


class MarkovStepper(Counted):
    """The next token depends on the source and the last token alone: tables (B, V, V) of logits."""

    def __init__(self, tables: Tensor) -> None:
        super().__init__()
        self.tables = tables
        self.sources = torch.arange(len(tables))

    def step(self, tokens: Tensor) -> Tensor:
        assert tokens.shape == self.sources.shape
        self.steps.append(len(tokens))
        return self.tables[self.sources, tokens]

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        if same_source:
            assert torch.equal(self.sources[rows], self.sources)
        self.selections.append((rows.tolist(), same_source))
        self.sources = self.sources[rows]


class HistoryStepper(Counted):
    """The next token depends on the source and on every token before, through a hash."""

    def __init__(
        self, sources: Sequence[int], *, n_tokens: int = 12, end_bias: float = 1.0, device: str = "cpu"
    ) -> None:
        super().__init__()
        self.place = torch.device(device)
        self.n_tokens, self.end_bias = n_tokens, end_bias
        self.state = torch.tensor(list(sources), device=device) * 7919 + 17
        self.weights = torch.zeros(len(self.state), 5, device=device)

    @property
    def device(self) -> torch.device:
        return self.place

    def step(self, tokens: Tensor) -> Tensor:
        assert tokens.shape == self.state.shape
        self.steps.append(len(tokens))
        self.state = (self.state * 1_000_003 + tokens + 1) % 2_147_483_647
        spread = (
            self.state[:, None] * (torch.arange(1, self.n_tokens + 6, device=self.place) * 48_271)
        ) % 2_147_483_647
        logits = spread[:, : self.n_tokens].float() / 2_147_483_647 * 6 - 3
        weights = spread[:, self.n_tokens :].float()
        self.weights = weights / weights.sum(-1, keepdim=True)
        logits[:, EOS] += self.end_bias
        return logits

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        self.selections.append((rows.tolist(), same_source))
        self.state = self.state[rows]

    def attention(self) -> Tensor:
        return self.weights


Next = Callable[[tuple[int, ...]], list[float]]


def next_log_probs(start: Callable[[], HistoryStepper | MarkovStepper], bos: int = BOS) -> Next:
    """log P(· | history) of a stepper's only row, by running it from the start: no bookkeeping to get wrong."""
    known: dict[tuple[int, ...], list[float]] = {}

    def given(history: tuple[int, ...]) -> list[float]:
        if history not in known:
            stepper = start()
            for token in (bos, *history):
                logits = stepper.step(torch.tensor([token]))
            known[history] = logits[0].double().log_softmax(-1).tolist()
        return known[history]

    return given


def every_sequence(given: Next, max_length: int) -> Iterator[tuple[tuple[int, ...], float, bool]]:
    """All sequences up to the limit: (tokens, log-probability, finished)."""
    waiting: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    while waiting:
        history, total = waiting.pop()
        for token, log_prob in enumerate(given(history)):
            if log_prob == -math.inf:
                continue
            if token == EOS:
                yield history, total + log_prob, True
            elif len(history) + 1 == max_length:
                yield (*history, token), total + log_prob, False
            else:
                waiting.append(((*history, token), total + log_prob))


def penalty(length: int, rule: str, alpha: float) -> float:
    return float((length if rule == "power" else (5 + length) / 6) ** alpha)


def plain_beam_search(
    given: Next,
    *,
    width: int,
    n_best: int,
    max_length: int,
    rule: str = "power",
    alpha: float = 1.0,
    patience: float = 1.0,
    groups: int = 1,
    diversity: float = 0.0,
) -> list[tuple[tuple[int, ...], float, bool]]:
    """Beam search as one would write it on paper, for one input: no tensors, no early bound. `width` is a group's."""
    live: list[list[tuple[tuple[int, ...], float]]] = [[((), 0.0)] for _ in range(groups)]
    ended: list[list[tuple[tuple[int, ...], float, bool]]] = [[] for _ in range(groups)]
    for step in range(1, max_length + 1):
        taken: list[int] = []
        for group in range(groups):
            extensions = [
                (total + log_prob - diversity * taken.count(token), total + log_prob, history, token)
                for history, total in live[group]
                for token, log_prob in enumerate(given(history))
            ]
            extensions.sort(reverse=True)
            for _, total, history, token in extensions[:width]:
                if token == EOS:
                    ended[group].append((history, total / penalty(step, rule, alpha), True))
            live[group] = [((*history, token), total) for _, total, history, token in extensions if token != EOS][
                :width
            ]
            taken += [history[-1] for history, _ in live[group]]
            if len(ended[group]) >= patience * width:
                live[group] = []
    best = sorted((one for group in ended for one in group), key=lambda one: -one[1])
    cut = [(history, total / penalty(max_length, rule, alpha), False) for group in live for history, total in group]
    return (best + sorted(cut, key=lambda one: -one[1]))[:n_best]
