"""Decoding that begins with tokens that are given, as Whisper's does: they are fed first, and are not part of the text.

    opening = opening_ids(tokenizer, options, room=448)     what came before, then the marks of `decode.prompt`
    Prompted(stepper, opening, n_rows=8, not_first=(220,))        decode it with bos_id=opening[-1]

Whisper is told the language and whether to translate by marks of the prompt, and what came before in front of them:

    <|startofprev|> an earlier text <|startoftranscript|> <|de|> <|translate|> <|notimestamps|>
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError
from regard.models.interfaces.text import Seq2SeqStepper
from regard.tasks.speech.config import SpeechOptions

START, BEFORE, TRANSCRIBE, TRANSLATE = "<|startoftranscript|>", "<|startofprev|>", "<|transcribe|>", "<|translate|>"
AUTO = "auto"
_SILENCE = ("<|nospeech|>", "<|nocaptions|>")  # the latter is what older files call it
_LANGUAGE = re.compile(r"<\|[a-z]{2,3}\|>")


def prompt_ids(tokenizer: Tokenizer, prompt: Sequence[str]) -> list[int]:
    """The ids that begin every text: of the tokens named, else of the tokenizer's beginning."""
    ids = [tokenizer.core.token_to_id(token) for token in prompt]
    unknown = [token for token, index in zip(prompt, ids, strict=True) if index is None]
    if unknown:
        raise UsageError(f"decode.prompt names {unknown[0]!r}, and the tokenizer has no such token")
    return [int(index) for index in ids if index is not None] or [tokenizer.bos_id]


def opening_ids(tokenizer: Tokenizer, options: SpeechOptions, *, room: int | None) -> list[int]:
    """Everything that is fed before a text, of which a model that can write `room` tokens keeps half for the text."""
    marks = prompt_ids(tokenizer, _told(tokenizer, options))
    return [*_earlier(tokenizer, options, room), *marks]


def _told(tokenizer: Tokenizer, options: SpeechOptions) -> list[str]:
    """The prompt with the language and the task that were asked for."""
    prompt, language = list(options.prompt), options.language
    if not (language or options.translate):
        return prompt
    if not is_multilingual(options):
        asked = "a translation" if options.translate else f"the language {language!r}"
        if START in prompt and language in ("en", AUTO) and not options.translate:
            return prompt
        what = "an English-only model" if START in prompt else "no Whisper model"
        raise UsageError(f"{asked} was asked for, and this is {what}", hint="leave it out, or take a multilingual one")
    if language and language != AUTO:
        if f"<|{language}|>" not in languages(tokenizer):
            known = " ".join(sorted(mark[2:-2] for mark in languages(tokenizer)))
            raise UsageError(
                f"the language {language!r} is not known to this model", hint=f"it knows {known}, and auto"
            )
        prompt = [f"<|{language}|>" if _LANGUAGE.fullmatch(mark) else mark for mark in prompt]
    if options.translate:
        prompt = [TRANSLATE if mark == TRANSCRIBE else mark for mark in prompt]
    return prompt


def is_multilingual(options: SpeechOptions) -> bool:
    """Whether the prompt says which language is spoken."""
    return bool({TRANSCRIBE, TRANSLATE} & set(options.prompt))


def languages(tokenizer: Tokenizer) -> dict[str, int]:
    """The marks of languages that a tokenizer has, with their ids."""
    vocabulary = tokenizer.core.get_vocab(with_added_tokens=True)
    return {token: index for token, index in vocabulary.items() if _LANGUAGE.fullmatch(token)}


def silence_id(tokenizer: Tokenizer) -> int | None:
    """The token whose probability at the beginning is that of no speech, where there is one."""
    ids = [tokenizer.core.token_to_id(token) for token in _SILENCE]
    return next((index for index in ids if index is not None), None)


def _earlier(tokenizer: Tokenizer, options: SpeechOptions, room: int | None) -> list[int]:
    """The end of the text that came before, with its mark, as much as fits."""
    if not options.initial_prompt.strip():
        return []
    mark = tokenizer.core.token_to_id(BEFORE)
    if mark is None or START not in options.prompt:
        raise UsageError("an initial prompt was given, and only Whisper models read one", hint="leave it out")
    ids = tokenizer.encode(" " + options.initial_prompt.strip())
    most = len(ids) if room is None else max(0, room // 2 - 1)
    return [mark, *ids[max(0, len(ids) - most) :]]


class Prompted:
    """A stepper that has been fed all but the last token of an opening, and does not begin with some tokens.

    `after` asks what the model thought after one of the opening's tokens: that token, and the one whose probability
    is kept as `asked` (N,).
    """

    def __init__(
        self,
        stepper: Seq2SeqStepper,
        opening: Sequence[int],
        *,
        n_rows: int,
        not_first: Sequence[int] = (),
        after: tuple[int, int] | None = None,
    ) -> None:
        self.stepper, self.not_first = stepper, list(not_first)
        self.asked: Tensor | None = None
        for token in opening[:-1]:
            logits = stepper.step(torch.full((n_rows,), token, device=stepper.device))
            if after is not None and token == after[0]:
                self.asked = logits.float().softmax(-1)[:, after[1]]

    @property
    def device(self) -> torch.device:
        """Where the stepper is."""
        return self.stepper.device

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        logits = self.stepper.step(tokens)
        if self.not_first:
            logits = logits.index_fill(1, torch.tensor(self.not_first, device=logits.device), -math.inf)
            self.not_first = []
        return logits

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        self.stepper.select(rows, same_source=same_source)

    def attention(self) -> Tensor | None:
        """What the stepper says."""
        return self.stepper.attention()
