"""How far a transcript is from what was said: word and character error rates, with intervals over recordings.

    WER = edits between the words / words said         CER = the same of characters, the spaces between words included

Edits are the fewest insertions, deletions and substitutions (Levenshtein, 1966). Texts are compared in lower case and
without punctuation, an apostrophe inside a word aside, unless that is switched off. Rates are per cent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from regard.data.audio.corpus import Utterances
from regard.errors import UsageError
from regard.metrics.bootstrap import Drawn, with_intervals
from regard.metrics.scores import Metric, exact_match
from regard.tasks.measuring import Scores
from regard.tasks.speech.config import SpeechOptions
from regard.tasks.speech.transcriber import Transcriber

Counts = npt.NDArray[np.int64]
_APOSTROPHES = re.compile(r"(?<=\w)['’](?=\w)")


def edit_distance(said: Sequence[object], wanted: Sequence[object]) -> int:
    """The fewest insertions, deletions and substitutions that turn one sequence into the other."""
    if not said or not wanted:
        return len(said) + len(wanted)
    names = {name: i for i, name in enumerate(dict.fromkeys([*said, *wanted]))}
    row, column = (np.array([names[name] for name in side]) for side in (wanted, said))
    places = np.arange(len(row) + 1)
    costs = places.copy()
    for i, name in enumerate(column, start=1):
        fresh = np.empty_like(costs)
        fresh[0] = i
        fresh[1:] = np.minimum(costs[:-1] + (row != name), costs[1:] + 1)
        # An insertion adds one to the cost at its left: a running minimum, once the distance walked is taken off.
        costs = np.minimum.accumulate(fresh - places) + places
    return int(costs[-1])


def plain_words(text: str) -> str:
    """A text as it is compared: lower case, no punctuation, single spaces."""
    kept = _APOSTROPHES.sub("\N{MODIFIER LETTER APOSTROPHE}", unicodedata.normalize("NFKC", text).lower())
    bare = "".join(" " if unicodedata.category(char)[0] in "PSC" else char for char in kept)
    return " ".join(bare.replace("\N{MODIFIER LETTER APOSTROPHE}", "'").split())


@dataclass(frozen=True)
class ErrorCounts:
    """Of each recording: edits of words, words said, edits of characters, characters said."""

    counts: Counts  # (n, 4)

    @classmethod
    def of(cls, hypotheses: Sequence[str], references: Sequence[str], *, plain: bool = True) -> ErrorCounts:
        """Compare line by line; `plain` puts both into the form in which they are compared."""
        if len(hypotheses) != len(references) or not references:
            raise UsageError(f"{len(hypotheses)} transcripts and {len(references)} texts do not pair up")
        rows = []
        for pair in zip(hypotheses, references, strict=True):
            said, wanted = (plain_words(text) if plain else " ".join(text.split()) for text in pair)
            words = edit_distance(said.split(), wanted.split()), len(wanted.split())
            rows.append((*words, edit_distance(said, wanted), len(wanted)))
        return cls(np.array(rows, np.int64))

    def figures(self, drawn: Drawn | None = None) -> dict[str, float]:
        """WER and CER in per cent, of all recordings or of those drawn."""
        total = (self.counts if drawn is None else self.counts[drawn]).sum(0)
        return {
            "WER": 100 * float(total[0]) / max(1, int(total[1])),
            "CER": 100 * float(total[2]) / max(1, int(total[3])),
        }

    def metrics(self, *, plain: bool = True) -> dict[str, Metric]:
        """Both with their 95 % intervals."""
        how = "case:lower|punctuation:no" if plain else "case:mixed|punctuation:yes"
        about = f"recordings:{len(self.counts)}|words:{int(self.counts[:, 1].sum())}|{how}"
        return with_intervals(self.figures, len(self.counts), about)


def score_transcripts(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Metric]:
    """All that is reported of transcripts: WER, CER, and the share of recordings without a mistake."""
    counts = ErrorCounts.of(hypotheses, references)
    sides = [[plain_words(text) for text in side] for side in (hypotheses, references)]
    return counts.metrics() | {"exact match": exact_match(sides[0], sides[1])}


def score_recordings(transcriber: Transcriber, recordings: Utterances, options: SpeechOptions) -> Scores:
    """What a transcriber hears in recordings, against what was said."""
    transcripts = transcriber([recordings.samples(i) for i in range(len(recordings))], options)
    texts, references = [best_first[0].text for best_first in transcripts], list(recordings.texts)
    counts = ErrorCounts.of(texts, references)
    metrics = partial(score_transcripts, texts, references)
    return Scores(len(recordings), "recordings", metrics, counts.figures, texts, digits=2)
