"""CIDEr-D against another way to compute it, BLEU against sacreBLEU, both against numbers worked by hand."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from regard.errors import UsageError
from regard.tasks.captions.cider import CiderD
from regard.tasks.captions.metrics import CaptionJudge, bleu_of, plain

REFERENCES = [
    ["a black dog runs on the beach", "a dog is running along the sand", "the dog runs"],
    ["two children play football in a park", "kids playing with a ball"],
    ["a man rides a red bicycle", "a man on a bike", "the man is cycling", "a red bicycle and its rider"],
    ["a black cat sleeps on the sofa"],
]
CAPTIONS = ["a black dog runs along the beach", "two kids play in a park", "a man rides a bike", "a dog on the beach"]


def grams_of(text):
    words = text.split()
    return [tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1)]


def dense_cider(captions, references):
    """CIDEr-D as vectors over every n-gram there is, written down from the paper's equations."""
    texts = [*captions, *(text for several in references for text in several)]
    grams = sorted({gram for text in texts for gram in grams_of(text)})
    orders = np.array([len(gram) for gram in grams])

    def counts(text):
        found = Counter(grams_of(text))
        return np.array([found[gram] for gram in grams], float)

    images = np.array([sum(any(counts(text)[k] > 0 for text in several) for several in references)
                       for k in range(len(grams))])  # fmt: skip
    rarity = np.log(len(references)) - np.log(np.maximum(images, 1))
    scores = []
    for caption, several in zip(captions, references, strict=True):
        total = 0.0
        for text in several:
            gap = len(caption.split()) - len(text.split())
            for n in range(1, 5):
                g, r = (counts(t) * rarity * (orders == n) for t in (caption, text))
                norm = np.linalg.norm(g) * np.linalg.norm(r)
                if norm > 0:
                    total += np.minimum(g, r) @ r / norm * math.exp(-(gap**2) / (2 * 6**2)) / 4
        scores.append(10 * total / len(several))
    return scores


def cider(captions, references):
    judge = CiderD([[text.split() for text in several] for several in references])
    return judge.scores([text.split() for text in captions])


def test_cider_is_that_of_the_equations():
    found = cider(CAPTIONS, REFERENCES)
    assert found == pytest.approx(dense_cider(CAPTIONS, REFERENCES), rel=1e-12)
    assert found[0] > 1
    assert min(found) > 0


word = st.sampled_from(["a", "dog", "cat", "red", "runs"])
text = st.lists(word, min_size=1, max_size=7).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(text, st.lists(text, min_size=1, max_size=3)), min_size=2, max_size=5))
def test_cider_of_any_captions_is_that_of_the_equations(pairs):
    captions, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert cider(captions, references) == pytest.approx(dense_cider(captions, references), rel=1e-9, abs=1e-12)


def test_cider_by_hand():
    """Two images of one word each: the word is in one of two, so any caption equal to it has cosine 1 for n = 1."""
    assert cider(["dog", "dog"], [["dog"], ["cat"]]) == pytest.approx([10 / 4, 0.0])
    # One word too many: the cosine is log 2 / √2 log 2, and the length costs exp(−1/72).
    assert cider(["dog bird", "cat"], [["dog"], ["cat"]])[0] == pytest.approx(10 / 4 / math.sqrt(2) * math.exp(-1 / 72))
    # Saying it twice gains nothing: counts are clipped at the reference's.
    assert cider(["dog dog", "cat"], [["dog"], ["cat"]])[0] == pytest.approx(10 / 4 * 0.5 * math.exp(-1 / 72))


def test_what_everybody_says_counts_for_nothing_and_one_image_is_not_enough():
    assert cider(["a", "a"], [["a dog"], ["a cat"]]).tolist() == [0, 0]
    assert cider(["a dog"], [["a dog"]]).tolist() == [0]
    assert cider(["", "a"], [["a dog"], ["a cat"]]).tolist() == [0, 0]


def test_bleu_is_sacrebleus_for_every_order_and_for_images_with_fewer_references():
    scores = CaptionJudge(REFERENCES).score(CAPTIONS)
    streams = [[several[i] if i < len(several) else None for several in REFERENCES] for i in range(4)]
    for n in range(1, 5):
        expected = BLEU(max_ngram_order=n, tokenize="none", smooth_method="none", force=True)
        assert scores.figures()[f"BLEU-{n}"] == pytest.approx(expected.corpus_score(CAPTIONS, streams).score)
    assert scores.metrics()["bleu-4"].signature.startswith("nrefs:var|case:lc|eff:no|tok:none|smooth:none|version:")
    assert scores.metrics()["cider-d"].signature.startswith("n:4|sigma:6")


def test_bleu_by_hand():
    """Five words, the closest reference six: 4 of 5 words and 2 of 4 pairs are right."""
    scores = CaptionJudge([["the dog runs on the beach"]]).score(["a dog runs the beach"])
    brevity = math.exp(1 - 6 / 5)
    assert scores.figures()["BLEU-1"] == pytest.approx(100 * brevity * 4 / 5)
    assert scores.figures()["BLEU-2"] == pytest.approx(100 * brevity * math.sqrt(4 / 5 * 2 / 4))
    assert scores.figures()["BLEU-3"] == 0
    assert bleu_of(np.zeros(10), 4) == 0


def test_case_and_punctuation_do_not_count():
    assert plain("A well-known dog 's ball , isn't it ?") == "a well-known dog s ball isn't it"
    scores = CaptionJudge([["A dog runs , fast .", "x"], ["A cat"]]).score(["a dog runs fast", "A dog!"])
    assert scores.exact.tolist() == [1, 0]
    assert scores.figures()["exact match"] == 0.5
    shouted = CaptionJudge([[text.upper() + " !" for text in several] for several in REFERENCES]).score(CAPTIONS)
    assert shouted.figures() == pytest.approx(CaptionJudge(REFERENCES).score(CAPTIONS).figures())


def test_figures_of_images_drawn_with_replacement():
    scores = CaptionJudge(REFERENCES).score(CAPTIONS)
    drawn = np.array([0, 0, 2, 3])
    assert scores.figures(drawn)["CIDEr-D"] == pytest.approx(100 * scores.cider[drawn].mean())
    twice = [REFERENCES[i] for i in drawn]
    again = CaptionJudge(twice).score([CAPTIONS[i] for i in drawn])
    assert scores.figures(drawn)["BLEU-4"] == pytest.approx(again.figures()["BLEU-4"])


def test_what_cannot_be_scored():
    with pytest.raises(UsageError, match="every image needs a reference"):
        CaptionJudge([["a dog"], []])
    with pytest.raises(UsageError, match="1 captions do not pair up with 2 images"):
        CaptionJudge([["a dog"], ["a cat"]]).score(["a dog"])
