"""Continuing text with a language model: prompts in, continuations out.

A prompt is read from its start mark on, where the model learnt one, and goes on with the likeliest, the best, or a
drawn text, as `DecodeOptions` say; what comes out does not depend on who shared the batch.

A model reads `context` tokens at once. A prompt that is longer loses its beginning, and `say` is told; a text that
grows longer is gone on with from its last half, as often as it takes, so any length can be asked for. A beam, which
compares whole texts, stops where the context is full. `no_repeat_ngram` looks back as far as the last such new start.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, ClassVar, Protocol, cast

import torch
from torch import nn

from regard.attention import MultiHeadAttention, Rows
from regard.checkpoints.spec import ModelSpec
from regard.config.recipe import Recipe
from regard.data.batching.plan import like_lengths, pad
from regard.data.text.markers import Markers
from regard.data.text.tokenizers import FOREIGN, Tokenizer
from regard.decoding import DecodeOptions, EnsembleStepper, Hypothesis, Stepper, decode, key_of
from regard.decoding.decode import stream_pieces
from regard.decoding.ranking import Ranking
from regard.errors import UsageError
from regard.models.interfaces.text import LanguageModel
from regard.tasks.language.detokenizer import IncrementalDetokenizer, StoppingStepper, cut_at, text_after
from regard.tasks.predictions import Prediction

Prompt = str | list[int]  # a text, or its ids
_FEW_TOKENS, _MANY_TOKENS = 16_384, 262_144  # positions that are written at once, at least and at most


class WritingModel(LanguageModel, Protocol):
    """A language model that can go on with prompts."""

    def start(self, prompts: Rows, *, capacity: int = 64, watched: bool = False) -> Stepper:
        """Read the prompts but for the last token of each, which is the first to step with."""


@dataclass(frozen=True)
class Continuation(Prediction):
    """How a model went on after a `prompt`; a stop string ends a text, and is not part of it."""

    prompt: str = ""

    shown: ClassVar[tuple[str, ...]] = ("text", "score", "log_prob", "finished", "tokens")

    def plain(self) -> str:
        """The prompt and how it goes on."""
        return self.prompt + self.text

    def record(self) -> dict[str, Any]:
        """Prompt, text, score and pieces, and those of the alternatives."""
        return {"prompt": self.prompt} | super().record()


@dataclass
class _Draft:
    """A text being written: its prompt, what came so far, and the name of its random stream."""

    prompt: list[int]
    key: int
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    score: float = 0.0
    finished: bool = False
    rounds: int = 0

    def grown(self, hypothesis: Hypothesis, key: int) -> _Draft:
        """The draft with what one more decoding added to it."""
        return replace(
            self,
            key=key,
            ids=[*self.ids, *hypothesis.tokens],
            log_probs=[*self.log_probs, *hypothesis.token_log_probs],
            score=hypothesis.score,
            finished=hypothesis.finished,
            rounds=self.rounds + 1,
        )


@dataclass(frozen=True)
class StreamEnd:
    """How a text that was shown as it came has ended: how many tokens it has, and whether it ended by itself."""

    n_tokens: int
    finished: bool


def never_written(tokenizer: Tokenizer, marks: Markers) -> set[int]:
    """Our special tokens mean nothing to a model of text, and an end that it never saw must not come by chance."""
    useless = set() if tokenizer.kind == FOREIGN else set(tokenizer.special_ids)
    return useless | {tokenizer.pad_id} if marks.end is None else useless - {marks.end}


class Writer:
    """Continues texts with one model, or with several that vote at every step."""

    def __init__(
        self,
        models: Sequence[WritingModel],
        tokenizer: Tokenizer,
        *,
        context: int,
        separated: bool = True,
        batch_tokens: int | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        if context < 2:
            raise UsageError(f"context is {context}, at least 2 is needed to continue a text")
        self.models, self.tokenizer, self.context = list(models), tokenizer, context
        self.batch_tokens, self.say = batch_tokens or usual_batch_tokens(self.models[0]), say
        self.marks = Markers.of(tokenizer, separated=separated)
        self.eos_id = tokenizer.pad_id if self.marks.end is None else self.marks.end
        self._banned = never_written(tokenizer, self.marks)

    def __call__(
        self,
        prompts: Sequence[Prompt],
        options: DecodeOptions,
        *,
        stop: Sequence[str] = (),
    ) -> list[list[Continuation]]:
        """The continuations of each prompt, best first; samples in the order they were drawn.

        `stop` are strings after which a text is over.
        """
        return self.continue_ids([self.prompt(text) for text in prompts], options, stop=stop)

    def prompt(self, text: Prompt) -> list[int]:
        """The ids of a prompt with its start mark; an empty one is the mark of a new text, or a new line.

        Ids are what they are: whatever marks they begin with are among them.
        """
        if not isinstance(text, str):
            return list(text)
        ids = [*self.marks.opening, *self.tokenizer.encode(text)]
        ids = ids or list(self.marks.nothing) or self.tokenizer.encode("\n")
        if not ids:
            raise UsageError("the prompt is empty, and the model has no mark to begin a text with", hint="give a word")
        return ids

    @torch.inference_mode()
    def continue_ids(
        self,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        *,
        stop: Sequence[str] = (),
    ) -> list[list[Continuation]]:
        """The same for prompts that are ids already, start marks included."""
        _check(options, stop)
        drafts = [[_Draft(self._cut(ids, options), key_of(ids))] for ids in prompts]
        going = list(range(len(drafts)))
        while going:
            self._write(drafts, going, options, stop)
            going = [i for i in going if any(self._steps(draft, options) for draft in drafts[i])]
        return [[self._continuation(draft, options, stop) for draft in several] for several in drafts]

    def stream(
        self, prompt: Prompt, options: DecodeOptions, *, stop: Sequence[str] = ()
    ) -> Generator[str, None, StreamEnd]:
        """The text of one continuation, piece by piece as it comes; together what a call would give.

        A piece for each token, or for several that come at once, which may be empty, and what was held back at the
        end; then how it ended.
        """
        speech, coming = self.detokenizer(prompt, options, stop=stop), self.stream_ids(prompt, options, stop=stop)
        while True:
            try:
                yield speech.add(next(coming))
            except StopIteration as end:
                how: StreamEnd = end.value
                break
        yield speech.rest()
        return how

    def stream_ids(
        self, prompt: Prompt, options: DecodeOptions, *, stop: Sequence[str] = ()
    ) -> Generator[list[int], None, StreamEnd]:
        """The tokens of one continuation as they come, up to the one that completes a stop string; then how it ended.

        What they say is for whoever has the text to say: `detokenizer` spells them.
        """
        _check(options, stop)
        ids = self.prompt(prompt)
        draft = _Draft(self._cut(ids, options), key_of(ids))
        heard = IncrementalDetokenizer(self.tokenizer, draft.prompt, stop) if stop else None
        while steps := self._steps(draft, options):
            read = self._read(draft)
            pieces = stream_pieces(
                self._start([read], steps),
                bos_id=read[-1],
                eos_id=self.eos_id,
                pad_id=self.models[0].config.pad_id,
                options=self._terms(draft, options).varied(max_length=steps),
                row_key=draft.key,
            )
            tokens_out: list[int] = []
            for several in pieces:
                if heard is not None and (n := heard.take(several)) is not None:
                    yield several[:n]
                    return StreamEnd(heard.n_tokens, finished=True)
                tokens_out += several
                yield several
            hypothesis = Hypothesis(tokens_out, 0.0, 0.0, finished=len(tokens_out) < steps, token_log_probs=[])
            draft = draft.grown(hypothesis, _next_key(draft.key, 0))
        return StreamEnd(len(draft.ids), finished=draft.finished)

    def detokenizer(
        self, prompt: Prompt, options: DecodeOptions, *, stop: Sequence[str] = ()
    ) -> IncrementalDetokenizer:
        """What spells the tokens of `stream_ids`."""
        ids = self.prompt(prompt)
        return IncrementalDetokenizer(self.tokenizer, ids[-self._kept(len(ids), options) :], stop)

    def _cut(self, ids: Sequence[int], options: DecodeOptions) -> list[int]:
        """A prompt as far as the model can read it and still write: its end."""
        kept = self._kept(len(ids), options)
        if kept < len(ids):
            self.say(
                f"the prompt has {len(ids):,} tokens and the model reads {self.context:,}: "
                f"the first {len(ids) - kept:,} are left out"
            )
        return list(ids[-kept:])

    def _kept(self, n: int, options: DecodeOptions) -> int:
        return n if n < self.context else self.context - min(options.max_length, self.context // 2)

    def _read(self, draft: _Draft) -> list[int]:
        """What the model reads before it goes on: all of it, or, in a later round, the last half of its context."""
        return draft.prompt if draft.rounds == 0 else [*draft.prompt, *draft.ids][-max(1, self.context // 2) :]

    def _steps(self, draft: _Draft, options: DecodeOptions) -> int:
        """How many tokens the next round may add; 0 when the text is done."""
        if draft.finished or (draft.rounds and options.strategy == "beam"):
            return 0
        left = options.limits([len(draft.prompt)])[0] - len(draft.ids)
        return max(0, min(left, self.context - len(self._read(draft)) + 1))

    def _terms(self, draft: _Draft, options: DecodeOptions) -> DecodeOptions:
        """The options for the next round of a draft; in each round sampling draws from another stream."""
        banned, least = {*options.banned, *self._banned}, max(0, options.min_length - len(draft.ids))
        if least >= self._steps(draft, options):  # it may not end in this round at all
            banned, least = banned | {self.eos_id}, 0
        n_samples = options.n_samples if draft.rounds == 0 else 1
        return options.varied(banned=tuple(sorted(banned)), min_length=least, n_samples=n_samples)

    def _write(
        self, drafts: list[list[_Draft]], going: Sequence[int], options: DecodeOptions, stop: Sequence[str]
    ) -> None:
        """One more round for every text that is not done; those with the same options and like lengths together."""
        places = [(i, j) for i in going for j, draft in enumerate(drafts[i]) if self._steps(draft, options)]
        groups: dict[DecodeOptions, list[tuple[int, int]]] = {}
        for i, j in places:
            groups.setdefault(self._terms(drafts[i][j], options), []).append((i, j))
        for terms, members in groups.items():
            lengths = [len(self._read(drafts[i][j])) + self._steps(drafts[i][j], options) for i, j in members]
            for chunk in like_lengths(lengths, self.batch_tokens // max(terms.beam, terms.n_samples)):
                chosen = [members[k] for k in chunk]
                hypotheses_of = self._decode([drafts[i][j] for i, j in chosen], terms, options, stop)
                for (i, j), hypotheses in zip(chosen, hypotheses_of, strict=True):
                    old = drafts[i][j]
                    new = [old.grown(hypothesis, _next_key(old.key, n)) for n, hypothesis in enumerate(hypotheses)]
                    drafts[i][j : j + 1] = new

    def _decode(
        self, drafts: Sequence[_Draft], terms: DecodeOptions, options: DecodeOptions, stop: Sequence[str]
    ) -> list[list[Hypothesis]]:
        prompts = [self._read(draft) for draft in drafts]
        steps = [self._steps(draft, options) for draft in drafts]
        stepper = self._start(prompts, max(steps), watched=terms.coverage_penalty > 0)
        if stop:
            stepper = StoppingStepper(
                stepper,
                tokenizer=self.tokenizer,
                stops=stop,
                eos_id=self.eos_id,
                written=[draft.ids for draft in drafts],
            )
        return decode(
            stepper,
            n_rows=len(drafts),
            bos_id=torch.tensor([ids[-1] for ids in prompts]),
            eos_id=self.eos_id,
            pad_id=self.models[0].config.pad_id,
            options=terms,
            max_lengths=steps,
            row_keys=[draft.key for draft in drafts],
        )

    def _start(self, prompts: Sequence[Sequence[int]], steps: int, *, watched: bool = False) -> Stepper:
        device = next(iter(self.models[0].parameters())).device
        ids, lengths = pad(prompts, self.models[0].config.pad_id)
        rows = Rows(ids.to(device), lengths.to(device))
        steppers = [model.start(rows, capacity=steps, watched=watched) for model in self.models]
        return steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)

    def _continuation(self, draft: _Draft, options: DecodeOptions, stop: Sequence[str]) -> Continuation:
        text, stopped = cut_at(text_after(self.tokenizer, draft.prompt, draft.ids), stop)
        log_prob = sum(draft.log_probs)
        score = draft.score if draft.rounds == 1 else Ranking.of(options).score(log_prob, len(draft.log_probs))
        tokens, finished = self.tokenizer.tokens(draft.ids), draft.finished or stopped
        return Continuation(text, score, tokens, log_prob=log_prob, ids=draft.ids, finished=finished)


def usual_batch_tokens(model: WritingModel) -> int:
    """How many positions are written at once: on a GPU as many as an eighth of its memory holds the keys of."""
    weight = next(iter(model.parameters()))
    if not weight.is_cuda:
        return _FEW_TOKENS
    caches = [part for part in cast(nn.Module, model).modules() if isinstance(part, MultiHeadAttention)]
    position = sum(2 * part.n_kv_heads * part.d_head for part in caches) * weight.element_size()
    memory = torch.cuda.get_device_properties(weight.device).total_memory // 8
    return max(_FEW_TOKENS, min(_MANY_TOKENS, memory // max(1, position)))


def context_of(described: ModelSpec, recipe: Recipe) -> int:
    """How many tokens the model reads at once: as many as the recipe says, else as it can."""
    limit = int(described.options["n_positions"])
    return limit if recipe.data.context is None else min(limit, recipe.data.context)


def _next_key(key: int, sample: int) -> int:
    """The random stream of a sample's next round: its own, whatever else is drawn."""
    return int.from_bytes(blake2b(repr((key, sample)).encode(), digest_size=7).digest(), "little")


def _check(options: DecodeOptions, stop: Sequence[str]) -> None:
    if any(not text for text in stop):
        raise UsageError("a stop string is empty; allowed are texts of one character or more")
    if stop and options.min_length:
        raise UsageError(
            f"stop strings and min_length={options.min_length} were given; allowed is one of them",
            hint="a text that has to end and must not end cannot be written",
        )
