"""A small translator of dates that has learned for seconds: long ones in English, and short ones with three readings.

the 3rd of March 2021  →  2021-03-03          10/11/12  →  2010-11-12, 2012-11-10 or 2012-10-11
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import torch

from regard.decoding import DecodeOptions, Hypothesis, Stepper
from regard.exhibits.exhibit import Scale
from regard.exhibits.lessons import decoded, recurrent_translator
from regard.exhibits.phrases import Phrasebook
from regard.models.recurrent import RecurrentSeq2Seq

LONGEST, BEAM = 7, 3
Steps = list[list[tuple[str, float]]]


def short_dates(n: int, *, seed: int) -> list[tuple[str, str]]:
    """Days written with two digits a part, none above 12: year first in two of five, else day or month first."""
    random = Random(f"decoding/{seed}")
    forms = ("{y:02}/{m:02}/{d:02}",) * 4 + ("{d:02}/{m:02}/{y:02}",) * 3 + ("{m:02}/{d:02}/{y:02}",) * 3
    days = [[random.randint(1, 12) for _ in range(3)] for _ in range(n)]
    return [(random.choice(forms).format(y=y, m=m, d=d), f"20{y:02}-{m:02}-{d:02}") for y, m, d in days]


def learn(dates: Phrasebook, iso: Phrasebook, scale: Scale) -> RecurrentSeq2Seq:
    """The demo's recurrent translator, smaller, after a short lesson."""
    width, steps, lr = scale.of((96, 800, 5e-3), (64, 250, 1e-2))
    return recurrent_translator(dates, iso, width=width, dropout=0.0, steps=steps, lr=lr, seed=scale.seed)


class Translator:
    """A taught model with the pieces of both sides."""

    def __init__(self, model: RecurrentSeq2Seq, dates: Phrasebook, iso: Phrasebook) -> None:
        self.model, self.dates, self.iso = model, dates, iso

    def follow(self, text: str) -> Steps:
        """Greedy decoding by hand: at each step, the four likeliest pieces with their probabilities."""
        tokenizer = self.iso.tokenizer
        rows: Steps = []
        with torch.no_grad():
            stepper, token = self._start([text]), tokenizer.bos_id
            while token != tokenizer.eos_id and len(rows) < LONGEST:
                best = stepper.step(torch.tensor([token]))[0].softmax(-1).topk(4)
                token = int(best.indices[0])
                names = [tokenizer.decode([i]) or "END" for i in best.indices.tolist()]
                rows.append(list(zip(names, best.values.tolist(), strict=True)))
        return rows

    def search(self, texts: Sequence[str], *, longest: int = LONGEST) -> list[list[Hypothesis]]:
        """The best hypotheses of a beam for each text, stopped after so many steps."""
        options = DecodeOptions(strategy="beam", beam=BEAM, n_best=BEAM, max_length=longest, length_penalty=0.0)
        return self._decode(texts, options)

    def greedy(self, texts: Sequence[str]) -> list[Hypothesis]:
        """What comes out when the likeliest piece is taken at every step."""
        return [beam[0] for beam in self._decode(texts, DecodeOptions(max_length=LONGEST, length_penalty=0.0))]

    def say(self, hypotheses: Sequence[Hypothesis]) -> list[str]:
        """Hypotheses as texts."""
        return [self.iso.tokenizer.decode(hypothesis.tokens) for hypothesis in hypotheses]

    def _decode(self, texts: Sequence[str], options: DecodeOptions) -> list[list[Hypothesis]]:
        return decoded(self._start(texts), self.iso.tokenizer, n_rows=len(texts), options=options)

    def _start(self, texts: Sequence[str]) -> Stepper:
        return self.model.start(Phrasebook.of(texts, tokenizer=self.dates.tokenizer).rows)
