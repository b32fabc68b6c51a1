"""Masked words against next words: BERT sees both sides of a blank, GPT only what stands before it.

Both learn from the same sentences. BERT fills blanks (15 % of the words; of these 80 % read <mask>, 10 % another word,
10 % stay as they are), GPT predicts every next word. Where what comes later decides, only BERT can know; but only GPT
can write, one word after another.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import Causal, Rows
from regard.exhibits.cheating import learn as learn_next_words
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import teach
from regard.exhibits.phrases import NUMBER, Phrasebook, plural, sentences
from regard.inspection.plots.panels import Bars, Heat, Panel
from regard.models.bert import Bert, BertConfig
from regard.models.gpt import GPT
from regard.tasks.masked.masking import UNUSED, Masking

SHOWN, BLANK = "the old dogs near the tree see a cat .", 2  # the verb says that it was more than one


def run(scale: Scale) -> Finding:
    """Teach both, and ask both for the subject of sentences they have not seen."""
    book = Phrasebook.of(_texts(4000, scale.seed, scale))
    bert = learn_blanks(book, steps=scale.of(500, 180), seed=scale.seed)
    gpt = learn_next_words(book, Causal(), scale, steps=scale.of(400, 60))[0]
    new = Phrasebook.of(_texts(600, 99, scale), tokenizer=book.tokenizer)
    figures: dict[str, float] = {}
    models: dict[str, Bert | GPT] = {"BERT": bert, "GPT": gpt}
    for name, model in models.items():
        figures |= {f"{what}, {name}": value for what, value in subject_guesses(model, new).items()}
    shown = Phrasebook.of([SHOWN], tokenizer=book.tokenizer)
    candidates = {name: _candidates(model, shown) for name, model in models.items()}
    return Finding(figures, _text(figures, candidates), _panels(candidates), PICTURE, height=3.9)


def _texts(n: int, seed: int, scale: Scale) -> list[str]:
    """Sentences, in the small version only the shortest: there the verb stands beside its subject."""
    return [
        text for text in sentences(n, seed=seed) if not scale.small or (len(text.split()) < 7 and "near" not in text)
    ]


def learn_blanks(book: Phrasebook, *, steps: int, seed: int) -> Bert:
    """A small BERT after a lesson in filling blanks."""
    torch.manual_seed(seed)
    words = book.tokenizer
    model = Bert(
        BertConfig(n_tokens=words.size, d_model=64, n_heads=4, d_feedforward=256, n_layers=1, n_positions=32,
                   n_segments=0, dropout=0.0, attention_dropout=0.0, pooler=False, nsp=False)
    )  # fmt: skip
    assert words.mask_id is not None
    masking = Masking(n_ids=words.size, mask_id=words.mask_id, special_ids=tuple(words.special_ids), seed=seed)
    draw, batches = torch.Generator().manual_seed(seed), iter(range(steps))

    def loss() -> Tensor:
        ids, lengths = book.some(96, draw)
        rows = masking.apply(ids.numpy(), lengths.numpy(), examples=np.arange(len(ids)), epoch=next(batches))
        encoded = model.encode(Rows(torch.from_numpy(rows.ids), lengths))
        places = torch.from_numpy(rows.places)[..., None].expand(-1, -1, 64)
        logits = model.unembed(model.mlm_hidden(encoded.gather(1, places)))
        return F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(rows.labels).flatten(), ignore_index=UNUSED)

    teach(model, loss, steps=steps, lr=4e-3)
    return model


def _blank_out(model: Bert | GPT, book: Phrasebook, position: Tensor) -> Tensor:
    """What each row's word at its place is taken for (N, V), by the model that may see the rest or what precedes."""
    rows = torch.arange(len(position))
    ids = book.ids.clone()
    with torch.no_grad():
        if isinstance(model, GPT):
            logits: Tensor = model(ids)[rows, position - 1]
        else:
            assert book.tokenizer.mask_id is not None
            ids[rows, position] = book.tokenizer.mask_id
            logits = model(Rows(ids, book.lengths))[rows, position]
    return logits.softmax(-1)


def subject_guesses(model: Bert | GPT, book: Phrasebook) -> dict[str, float]:
    """How a model does on the subject of every sentence: the right number, and the right word."""
    words = book.tokenizer
    numbers = {words.encode(noun)[0]: number for noun, number in NUMBER.items()}
    many = torch.tensor([numbers.get(i) == "many" for i in range(words.size)])
    noun = torch.tensor([i in numbers for i in range(words.size)])
    the = words.encode("the")[0]
    position = noun[book.ids].int().argmax(1)  # the first noun
    open_ = book.ids[torch.arange(len(position)), 1] == the  # "a" and "some" would give the number away
    chosen, position = book.picked(open_), position[open_]
    guess = _blank_out(model, chosen, position)
    truth = chosen.ids[torch.arange(len(position)), position]
    right = (guess[:, many].sum(-1) > guess[:, noun & ~many].sum(-1)) == many[truth]
    return {
        "number of the subject right": float(right.float().mean()),
        "probability of the word that stood there": float(guess.gather(1, truth[:, None]).mean()),
    }


def _candidates(model: Bert | GPT, shown: Phrasebook) -> dict[str, float]:
    """How likely each noun is to stand in the blank of the sentence shown."""
    guess = _blank_out(model, shown, torch.tensor([BLANK + 1]))[0]
    return {noun: float(guess[shown.tokenizer.encode(noun)[0]]) for noun in NUMBER}


def _panels(candidates: dict[str, dict[str, float]]) -> list[Panel]:
    words = ["<s>", *SHOWN.split()]
    causal = Causal().dense(len(words), len(words), n_leading=0, device=torch.device("cpu"))
    everything = torch.ones_like(causal)
    panels: list[Panel] = []
    for name, allowed, row in (("BERT", everything, BLANK + 1), ("GPT", causal, BLANK)):
        who = "the blank" if name == "BERT" else f"“{words[BLANK]}”"
        seen = allowed.float() * 0.25
        seen[row] *= 3
        panels.append(Heat(f"{name}: who sees whom (dark: what {who} sees)", seen.tolist(), rows=words,
                           columns=[w if i != BLANK + 1 else "?" for i, w in enumerate(words)], top=1.0))  # fmt: skip
    for name, chances in candidates.items():
        shares = {
            word: 100 * chances[word] for noun in ("dog", "cat", "child", "farmer") for word in (noun, plural(noun))
        }
        strong = [word for word in shares if NUMBER[word] == "many"]
        panels.append(Bars(f"{name}: “the old ____ near the tree see a cat.”", shares, "probability (%); blue: plural",
                           strong, "{:.1f} %", x_range=(0, 1.25 * max(shares.values()))))  # fmt: skip
    return panels


def _text(figures: dict[str, float], candidates: dict[str, dict[str, float]]) -> str:
    number = {name: f"{figures[f'number of the subject right, {name}']:.0%}" for name in ("BERT", "GPT")}
    chance = {name: figures[f"probability of the word that stood there, {name}"] for name in ("BERT", "GPT")}
    plurals = {name: sum(p for w, p in chances.items() if NUMBER[w] == "many") for name, chances in candidates.items()}
    return f"""
One sentence, one blank: *the old \\_\\_\\_\\_ near the tree see a cat.* The verb "see", four words later, says that the
subject is plural. BERT, which sees both sides, puts {plurals["BERT"]:.0%} of its probability on plurals; GPT, which has
read "the old" and nothing else, {plurals["GPT"]:.0%}. Over new sentences that begin with
"the", BERT gets the number of the subject right in {number["BERT"]}, GPT in {number["GPT"]}, which is guessing; the
word that really stood there gets {chance["BERT"]:.3f} against {chance["GPT"]:.3f} on average. The price: every word
BERT reads has already been looked at by all others, so it cannot write one word after another, as GPT does in
[cheating](cheating.md).

Where the slides slip: of the 15 % chosen words 10 % do not "revert back", they stay what they are, and have to be
predicted all the same.
"""


TITLE = "Masked words against next words"
CLAIM = "BERT fills a blank from both sides; GPT, reading left to right, cannot know what later words decide."
PICTURE = "A blank seen from both sides, and from the left only"
