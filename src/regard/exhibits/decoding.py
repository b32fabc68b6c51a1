"""Decoding step by step: what may come next, and what greedy and beam search keep of it.

A small translator of dates has also read short ones, such as 10/11/12: two times in five it is the year that stands
first, otherwise the day or the month, equally often. So the year is more likely to stand last; but taking the likelier
year is not the way to the likeliest date.
"""

from __future__ import annotations

import math
from itertools import permutations

from regard.data.synthetic.dates import date_pairs
from regard.decoding import Hypothesis
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.phrases import Phrasebook
from regard.exhibits.translator import BEAM, LONGEST, Steps, Translator, learn, short_dates
from regard.inspection.plots.panels import Heat, Panel

CLEAR = "the 3rd of March 2021"


def run(scale: Scale) -> Finding:
    """Teach, and follow every step of two dates; then compare greedy and beam search on many short ones."""
    long = date_pairs(scale.of(15_000, 1), scale.seed, split="train", languages=("en",))
    pairs = [*long, *short_dates(20_000, seed=scale.seed)]
    dates, iso = (Phrasebook.of([pair[side] for pair in pairs]) for side in (0, 1))
    translator = Translator(learn(dates, iso, scale), dates, iso)
    figures, shown = _searches(translator, scale)
    tests = date_pairs(500, scale.seed, split="test", languages=("en",))
    translations = translator.say(translator.greedy([text for text, _ in tests]))
    right = [a == b for a, (_, b) in zip(translations, tests, strict=True)]
    figures["unseen long dates right, greedy"] = sum(right) / len(right)
    steps = {text: translator.follow(text) for text in (CLEAR, shown)}
    figures |= {f"least sure step of “{text}”": min(row[0][1] for row in rows) for text, rows in steps.items()}
    hypotheses = [*translator.greedy([shown]), *translator.search([shown])[0]]
    for who, text, one in zip(("greedy", *["beam"] * BEAM), translator.say(hypotheses), hypotheses, strict=True):
        figures[f"“{shown}” as {text}, {who}"] = math.exp(one.log_prob)
    panels = [_candidates(shown, steps[shown]), _kept(translator, shown)]
    return Finding(figures, _text(figures, translator, shown, hypotheses), panels, PICTURE, height=4.0)


def _searches(translator: Translator, scale: Scale) -> tuple[dict[str, float], str]:
    """Greedy and beam search on dates with three readings, and the one on which they differ most."""
    parts = list(permutations(range(1, 13), 3))[:: scale.of(5, 20)]
    texts = ["/".join(f"{part:02}" for part in each) for each in parts]
    greedy, beams = translator.greedy(texts), translator.search(texts)
    gains = [beam[0].log_prob - one.log_prob for beam, one in zip(beams, greedy, strict=True)]
    readings = [set(translator.say(beam)) for beam in beams]
    all_three = [
        len(texts_found & {f"20{a:02}-{b:02}-{c:02}", f"20{c:02}-{b:02}-{a:02}", f"20{c:02}-{a:02}-{b:02}"}) == 3
        for texts_found, (a, b, c) in zip(readings, parts, strict=True)
    ]
    figures = {
        "short dates with three readings": len(texts),
        "beam finds something likelier than greedy": sum(gain > 1e-4 for gain in gains) / len(gains),
        "beam finds something less likely": sum(gain < -1e-4 for gain in gains) / len(gains),
        "all three readings in the beam": sum(all_three) / len(all_three),
    }
    return figures, texts[max(range(len(gains)), key=gains.__getitem__)]


def _candidates(text: str, rows: Steps) -> Panel:
    values = [[p for _, p in row] for row in rows]
    texts = [[f"{name}  {p:.2f}" for name, p in row] for row in rows]
    before = ["START", *(row[0][0] for row in rows[:-1])]
    return Heat(f"“{text}”: what may come next", values, rows=[f"{i + 1}  after {s}" for i, s in enumerate(before)],
                columns=["1st", "2nd", "3rd", "4th"], texts=texts, top=1.0,
                x_name="candidates, with probability")  # fmt: skip


def _kept(translator: Translator, text: str) -> Panel:
    """The prefixes a beam of three holds after each step."""
    values, texts = [], []
    for longest in range(1, LONGEST):
        row = translator.search([text], longest=longest)[0]
        values.append([math.exp(one.log_prob) for one in row])
        prefixes = zip(translator.say(row), values[-1], strict=True)
        texts.append([f"{prefix}\n{p:.2f}" for prefix, p in prefixes])
    return Heat(f"“{text}”: what a beam of three keeps", values, rows=[str(i + 1) for i in range(len(values))],
                columns=["1st", "2nd", "3rd"], texts=texts, top=1.0, x_name="prefixes, with probability",
                y_name="step")  # fmt: skip


def _text(figures: dict[str, float], translator: Translator, shown: str, hypotheses: list[Hypothesis]) -> str:
    dates = [
        f"{text} ({math.exp(one.log_prob):.2f})"
        for text, one in zip(translator.say(hypotheses), hypotheses, strict=True)
    ]
    right = figures["unseen long dates right, greedy"]
    return f"""
A recurrent translator of dates after a lesson of seconds ({right:.0%} of unseen long ones, such as "{CLEAR}", are right
to the last digit). The encoder reads the whole text once; the decoder begins with START and is given what it has said
so far, one piece a step (left). Short dates have three readings: in the lesson the year came first in two of five, the
day or the month in three of ten each. So the year more likely stands last; greedy decoding takes that, and then has to
choose between day and month. In "{shown}", where it matters most, it ends at {dates[0]}. A beam of {BEAM} goes on with
several ways (right) and ends with {dates[1]}, {dates[2]} and {dates[3]}. Over
{figures["short dates with three readings"]:.0f} such dates the beam finds something likelier than greedy in
{figures["beam finds something likelier than greedy"]:.0%} (in the others the model, which is not exact about the
shares, began with the likeliest reading's year), something less likely in
{figures["beam finds something less likely"]:.0%}, and holds all three readings in
{figures["all three readings in the beam"]:.0%}.

The slides' inference *samples* each word; greedy takes the best and a beam the best few. All three are options of
`regard.decoding`.
"""


TITLE = "Decoding step by step"
CLAIM = "Each step is a distribution over what may come next; greedy keeps one way through, a beam several."
PICTURE = "START → …: one piece at a time, and what is kept"
