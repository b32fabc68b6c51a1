"""Decoding step by step: what may come next, and what greedy and beam search keep of it.

A small translator of dates has learned English and French. Where it says "04/05/2021" without a word of either, the
fourth of May and the fifth of April are both right, and the decoder has to live with that.
"""

from __future__ import annotations

import math
from itertools import product

import torch

from regard.attention import Rows
from regard.data.dates import date_pairs
from regard.decoding import DecodeOptions, Hypothesis, decode
from regard.exhibits.exhibit import Exhibit, Finding, Scale
from regard.exhibits.lessons import pair_loss, teach
from regard.exhibits.phrases import Phrasebook
from regard.inspection.plots_exhibits import Heat, Panel
from regard.models.seq2seq import RecurrentConfig, RecurrentSeq2Seq

CLEAR, OPEN = "the 3rd of March 2021", "04/05/2021"
LONGEST, BEAM = 12, 4
Steps = list[list[tuple[str, float]]]


def run(scale: Scale) -> Finding:
    """Teach, and follow every step of two dates; then compare greedy and beam search on many open ones."""
    pairs = date_pairs(scale.of(20_000, 6_000), scale.seed, split="train", languages=("en", "fr"))
    written, iso = (Phrasebook.of([pair[side] for pair in pairs], kind="chars") for side in (0, 1))
    model = learn(written, iso, scale)
    translator = Translator(model, written, iso)
    tests = date_pairs(scale.of(500, 200), scale.seed, split="test", languages=("en", "fr"))
    right = [translator.greedy(text) == answer for text, answer in tests]
    figures = {"unseen dates right, greedy": sum(right) / len(right)}
    steps = {text: translator.follow(text) for text in (CLEAR, OPEN)}
    figures |= {f"least sure step of “{text}”": min(row[0][1] for row in rows) for text, rows in steps.items()}
    figures |= _searches(translator, scale)
    best = translator.search(OPEN, beam=BEAM)
    figures |= {f"“{OPEN}” as {translator.say(one)}": math.exp(one.log_prob) for one in best[:2]}
    panels = [_candidates(text, rows) for text, rows in steps.items()] + [_kept(translator)]
    return Finding(figures, _text(figures, translator, best), panels, TITLE, height=4.8)


def learn(written: Phrasebook, iso: Phrasebook, scale: Scale) -> RecurrentSeq2Seq:
    """The demo's recurrent translator, smaller, after a short lesson."""
    torch.manual_seed(scale.seed)
    model = RecurrentSeq2Seq(
        RecurrentConfig(n_source=written.tokenizer.size, n_target=iso.tokenizer.size, cell="gru", d_embedding=32,
                        d_hidden=scale.of(96, 64), n_layers=1, dropout=0.0, attention="general")
    )  # fmt: skip
    draw = torch.Generator().manual_seed(scale.seed)

    def loss() -> torch.Tensor:
        some = torch.randint(len(written.ids), (64,), generator=draw)
        return pair_loss(model, Rows(written.ids[some], written.lengths[some]), iso.ids[some])

    teach(model, loss, steps=scale.of(450, 150), lr=8e-3)
    return model


class Translator:
    """A taught model with the characters of both sides."""

    def __init__(self, model: RecurrentSeq2Seq, written: Phrasebook, iso: Phrasebook) -> None:
        self.model, self.written, self.iso = model, written, iso

    def follow(self, text: str) -> Steps:
        """Greedy decoding by hand: at each step, the four likeliest characters with their probabilities."""
        marks = self.iso.tokenizer
        rows: Steps = []
        with torch.no_grad():
            stepper, token = self.model.start(self._read(text)), marks.bos_id
            while token != marks.eos_id and len(rows) < LONGEST:
                best = stepper.step(torch.tensor([token]))[0].softmax(-1).topk(4)
                token = int(best.indices[0])
                names = [marks.decode([i]) or "END" for i in best.indices.tolist()]
                rows.append(list(zip(names, best.values.tolist(), strict=True)))
        return rows

    def search(self, text: str, *, beam: int, longest: int = LONGEST) -> list[Hypothesis]:
        """The best hypotheses of a beam, stopped after so many steps."""
        options = DecodeOptions(strategy="beam", beam=beam, n_best=beam, max_length=longest, length_penalty=0.0,
                                patience=math.inf)  # fmt: skip
        return self._decode(text, options)

    def greedy(self, text: str) -> str:
        """What comes out when the likeliest character is taken at every step."""
        return self.say(self._decode(text, DecodeOptions(max_length=LONGEST, length_penalty=0.0))[0])

    def say(self, hypothesis: Hypothesis) -> str:
        """A hypothesis as text."""
        return self.iso.tokenizer.decode(hypothesis.tokens)

    def _decode(self, text: str, options: DecodeOptions) -> list[Hypothesis]:
        marks = self.iso.tokenizer
        stepper = self.model.start(self._read(text))
        found = decode(
            stepper, n_rows=1, bos_id=marks.bos_id, eos_id=marks.eos_id, pad_id=marks.pad_id, options=options
        )
        return found[0]

    def _read(self, text: str) -> torch.Tensor:
        return Phrasebook.of([text], tokenizer=self.written.tokenizer).ids


def _searches(translator: Translator, scale: Scale) -> dict[str, float]:
    """Greedy and beam search on dates with two readings: how likely is what they find?"""
    days = list(product(range(1, 13), range(1, 13)))[:: scale.of(3, 8)]
    texts = [f"{a:02}/{b:02}/2021" for a, b in days if a != b]
    gains, both = [], []
    for text, (a, b) in zip(texts, (day for day in days if day[0] != day[1]), strict=True):
        beam = translator.search(text, beam=BEAM)
        gains.append(beam[0].log_prob - translator.search(text, beam=1)[0].log_prob)
        kept = {translator.say(one) for one in beam[:2]}
        both.append(kept == {f"2021-{a:02}-{b:02}", f"2021-{b:02}-{a:02}"})
    return {
        "open dates": len(texts),
        "beam finds something likelier than greedy": sum(gain > 1e-4 for gain in gains) / len(gains),
        "beam finds something less likely": sum(gain < -1e-4 for gain in gains) / len(gains),
        "both readings are the beam's best two": sum(both) / len(both),
    }


def _candidates(text: str, rows: Steps) -> Panel:
    values = [[p for _, p in row] for row in rows]
    texts = [[f"{name}  {p:.2f}" for name, p in row] for row in rows]
    said = ["START", *(row[0][0] for row in rows[:-1])]
    return Heat(f"“{text}”: what may come next", values, rows=[f"{i + 1}  after {s}" for i, s in enumerate(said)],
                columns=["1st", "2nd", "3rd", "4th"], texts=texts, top=1.0, x_name="candidates, with probability")  # fmt: skip


def _kept(translator: Translator) -> Panel:
    """The prefixes a beam of three holds after each step."""
    values, texts = [], []
    for longest in range(1, LONGEST):
        row = translator.search(OPEN, beam=3, longest=longest)
        values.append([math.exp(one.log_prob) for one in row])
        texts.append([f"{translator.say(one)}  {math.exp(one.log_prob):.2f}" for one in row])
    return Heat(f"“{OPEN}”: what a beam of three keeps", values, rows=[str(i + 1) for i in range(len(values))],
                columns=["1st", "2nd", "3rd"], texts=texts, top=1.0, x_name="prefixes, with probability", y_name="step")  # fmt: skip


def _text(figures: dict[str, float], translator: Translator, best: list[Hypothesis]) -> str:
    first, second = (f"{translator.say(one)} ({math.exp(one.log_prob):.2f})" for one in best[:2])
    return f"""
A recurrent translator with attention has learned dates in English and French for a few seconds;
{figures["unseen dates right, greedy"]:.0%} of the days it has never seen are right to the last character. The encoder
reads the whole text once; the decoder begins with START and is given what it said so far, one character a step. In
"{CLEAR}" every step is all but certain (the least sure has {figures[f"least sure step of “{CLEAR}”"]:.2f}). "{OPEN}" has
two readings, and the model knows both: at one step its best candidate has only
{figures[f"least sure step of “{OPEN}”"]:.2f}. Greedy decoding takes that and forgets the other; a beam goes on with
several and ends with {first} and {second}. Over {figures["open dates"]:.0f} such dates a beam of {BEAM} finds
something likelier than greedy in {figures["beam finds something likelier than greedy"]:.0%}, something less likely in
{figures["beam finds something less likely"]:.0%}, and has both readings as its best two in
{figures["both readings are the beam's best two"]:.0%}.

The slides' inference *samples* each word; greedy takes the best, and a beam the best few: all three are one setting here.
"""


TITLE = "START → …: one character at a time"
EXHIBIT = Exhibit(
    "decoding",
    "Decoding step by step",
    "Each step is a distribution over what may come next; greedy keeps one way through, a beam several.",
    run,
)
