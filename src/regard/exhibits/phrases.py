"""A little language whose every sentence can be checked, for models that learn in seconds.

    the small dog sees some old cats .          the cats near a tree sleep .

A subject, perhaps with a place, and a verb that agrees with the subject in number, with or without an object. What
stands between subject and verb may be of the other number, so the verb has to look back to the right noun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from regard.attention import Rows
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer

NOUNS = ("dog", "cat", "bird", "horse", "child", "girl", "boy", "farmer")
PLACES = ("tree", "house", "river", "road")
ADJECTIVES = ("small", "old", "young", "quiet", "hungry")
ACTIONS, STATES = ("see", "follow", "like", "hear", "know"), ("sleep", "wait", "run", "sing")
_PLURAL = {"child": "children"}


def plural(noun: str) -> str:
    """More than one of it."""
    return _PLURAL.get(noun, f"{noun}s")


_ALL = (*NOUNS, *PLACES)
NUMBER = dict.fromkeys(_ALL, "one") | dict.fromkeys(map(plural, _ALL), "many")
DETERMINERS = {"one": ("the", "a"), "many": ("the", "some")}


def sentences(n: int, *, seed: int) -> list[str]:
    """So many sentences, drawn anew from the same seed."""
    random = Random(f"phrases/{seed}")
    return [_sentence(random) for _ in range(n)]


def _sentence(random: Random) -> str:
    number = random.choice(("one", "many"))
    words = _noun_phrase(random, NOUNS, number)
    if random.random() < 0.5:
        words += ["near", *_noun_phrase(random, PLACES, random.choice(("one", "many")))]
    acts = random.random() < 0.6
    verb = random.choice(ACTIONS if acts else STATES)
    words += [f"{verb}s" if number == "one" else verb]
    if acts:
        words += _noun_phrase(random, NOUNS, random.choice(("one", "many")))
    return " ".join([*words, "."])


def _noun_phrase(random: Random, nouns: Sequence[str], number: str) -> list[str]:
    noun = random.choice(nouns)
    adjective = [random.choice(ADJECTIVES)] if random.random() < 0.4 else []
    return [random.choice(DETERMINERS[number]), *adjective, noun if number == "one" else plural(noun)]


def is_sentence(text: str) -> bool:
    """Whether a text is one whole sentence of the language, agreement included."""
    words = text.split()
    number, rest = _read_noun_phrase(words, NOUNS)
    if number and rest[:1] == ["near"]:
        near, rest = _read_noun_phrase(rest[1:], PLACES)
        number = number if near else ""
    verbs = {verb if number == "many" else f"{verb}s": verb for verb in (*ACTIONS, *STATES)}
    if not number or not rest or rest[0] not in verbs:
        return False
    if verbs[rest[0]] in STATES:
        return rest[1:] == ["."]
    thing, rest = _read_noun_phrase(rest[1:], NOUNS)
    return bool(thing) and rest == ["."]


def _read_noun_phrase(words: list[str], nouns: Sequence[str]) -> tuple[str, list[str]]:
    """The number of a noun phrase at the start, "" where there is none, and what follows it."""
    index = 2 if words[1:2] and words[1] in ADJECTIVES else 1
    noun = words[index] if len(words) > index else ""
    known = noun in nouns or noun in [plural(each) for each in nouns]
    if not known or words[0] not in DETERMINERS[NUMBER[noun]]:
        return "", words
    return NUMBER[noun], words[index + 1 :]


@dataclass(frozen=True)
class Phrasebook:
    """Sentences as rows of ids (N, T), each <s> … </s> and padding, and the words they are made of."""

    tokenizer: Tokenizer
    ids: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, texts: Sequence[str], *, tokenizer: Tokenizer | None = None, kind: str = "words") -> Phrasebook:
        """Read texts by words or characters, with the pieces of another book where one is given."""
        words = tokenizer or learn_tokenizer(texts, kind, size=400, mask=True)
        rows = [[words.bos_id, *words.encode(text), words.eos_id] for text in texts]
        width = max(map(len, rows))
        ids = torch.tensor([row + [words.pad_id] * (width - len(row)) for row in rows])
        return cls(words, ids, torch.tensor([len(row) for row in rows]))

    @property
    def rows(self) -> Rows:
        """The sentences as models read them."""
        return Rows(self.ids, self.lengths)

    def picked(self, rows: Tensor) -> Phrasebook:
        """Some of the sentences, by their numbers or by yes and no."""
        return Phrasebook(self.tokenizer, self.ids[rows], self.lengths[rows])

    def some(self, n: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """Rows drawn at random, cut to the longest of them, and their lengths."""
        chosen = self.picked(torch.randint(len(self.ids), (n,), generator=draw))
        return chosen.ids[:, : int(chosen.lengths.max())], chosen.lengths
