from random import Random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.data.text.documents import Document
from regard.models.word_vectors import WordVectors, WordVectorsConfig
from regard.tasks.words import training as skipgram
from regard.tasks.words.skipgrams import cutter, read_words
from regard.tasks.words.training import SkipGramOptions, learn_vectors

GROUPS = (("cat", "dog", "cow", "pig"), ("red", "green", "blue", "black"), ("one", "two", "three", "four"))
AROUND = (("the", "eats", "grass"), ("paint", "it", "bright"), ("count", "to", "slowly"))


def stream_of(n=1500, seed=0):
    """Sentences in which words of a group stand among the same others."""
    chance, texts = Random(seed), []
    for _ in range(n):
        group = chance.randrange(3)
        a, b, c = AROUND[group]
        texts.append(f"{a} {chance.choice(GROUPS[group])} {b} {c}")
    return read_words([Document(t, "") for t in texts], cutter("spaces", lowercase=False), min_count=1)


def learnt(stream, *, threads=2, **options):
    torch.manual_seed(0)
    model = WordVectors(WordVectorsConfig(n_tokens=len(stream.words) + 2, d_model=16))
    told, before = [], torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        options = {"sample": 0.0, "epochs": 8.0, "window": 3} | options
        learn_vectors(model, stream, SkipGramOptions(**options), tell=lambda t: told.append(t) or True)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    return model, told


def test_words_of_a_kind_come_to_lie_together():
    stream = stream_of()
    model, told = learnt(stream)
    ids = {word: i + 2 for i, word in enumerate(stream.words)}
    for group in GROUPS:
        for word in group:
            near = model.nearest(model.vectors[ids[word]], 3, without=[ids[word]])
            assert {stream.words[i - 2] for i, _ in near} == set(group) - {word}
    assert told[-1].loss < 0.7 * told[0].loss
    assert told[-1].done == 1.0
    assert (model.vectors[:2] == 0).all()


def test_seeds_decide_and_threads_do_not():
    stream = stream_of(200)
    one, _ = learnt(stream, threads=1, epochs=1.5)
    two, _ = learnt(stream, threads=2, epochs=1.5)
    other, _ = learnt(stream, threads=2, epochs=1.5, seed=2)
    assert torch.equal(one.input, two.input)
    assert torch.equal(one.output, two.output)
    assert not torch.equal(one.input, other.input)


def test_gradients_are_those_of_the_loss():
    stream = stream_of(60)
    torch.manual_seed(0)
    model = WordVectors(WordVectorsConfig(n_tokens=len(stream.words) + 2, d_model=8)).double()
    with torch.no_grad():
        model.input[2:].normal_()
        model.output[2:].normal_()
    learner = skipgram._Learner(model, stream, SkipGramOptions(window=3, sample=0.0, negatives=4))
    learner.bands = learner.bands.double()
    batch = learner._batches(0)[0]
    found = learner._gradients(batch)
    x, y = learner.inputs.clone().requires_grad_(), learner.outputs.clone().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for words, places, radii, noise in zip(*batch, strict=True):
        for i in range(skipgram.CENTRES):
            near = [j for j in range(len(words)) if 0 < abs(j - i - 3) <= radii[i] and places[j] == places[i + 3] >= 0]
            centre = x[words[i + 3]]
            total = total + sum((F.logsigmoid(centre @ y[words[j]]) for j in near), torch.zeros(()))
            total = total + len(near) * 4 / skipgram.NOISE * F.logsigmoid(-(y[noise] @ centre)).sum()
    total.backward()
    sums = torch.zeros_like(x).index_add_(0, batch.words[:, 3:-3].reshape(-1), found.centres)
    torch.testing.assert_close(sums, x.grad)
    others = torch.cat((batch.words, batch.noise), 1).view(-1)
    torch.testing.assert_close(torch.zeros_like(y).index_add_(0, others, found.others), y.grad)


def test_pairs_do_not_cross_documents():
    texts = ["a b"] * 50 + ["c d"] * 50
    stream = read_words([Document(t, "") for t in texts], cutter("spaces", lowercase=False), min_count=1)
    learner = skipgram._Learner(
        WordVectors(WordVectorsConfig(n_tokens=6, d_model=4)), stream, SkipGramOptions(window=3, sample=0.0)
    )
    pairs = sum(learner._gradients(batch).pairs for batch in learner._batches(0))
    assert pairs == 2 * len(texts)


def test_rows_move_by_the_root_of_how_often_they_occur():
    table = torch.zeros(4, 2)
    skipgram._ascend(table, torch.tensor([2, 0, 2]), torch.tensor([[1.0, 0], [0, 1], [1, 0]]), 0.1)
    np.testing.assert_allclose(table.numpy(), [[0, 0.1], [0, 0], [0.2 / 2**0.5, 0], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize("lr", [5.0, 1000.0])
def test_a_rate_far_too_high_gives_numbers_still(lr):
    model, _ = learnt(stream_of(200), epochs=2.0, lr=lr)
    assert torch.isfinite(model.input).all()


def test_the_rate_falls_evenly_to_almost_nothing(monkeypatch):
    rates = []
    monkeypatch.setattr(skipgram._Learner, "_step", lambda *_, rate: rates.append(rate) or 0.0)
    learnt(stream_of(200), epochs=2.0, lr=0.5)
    n = len(rates)
    assert n > 20
    assert rates == pytest.approx([0.5 * (1 - i / n) for i in range(n)])
    rates.clear()
    learnt(stream_of(200), epochs=1 / n, lr=0.5)
    assert rates[0] == 0.5


def test_it_stops_when_told():
    told = []
    stream = stream_of(200)
    model = WordVectors(WordVectorsConfig(n_tokens=len(stream.words) + 2, d_model=4))
    learn_vectors(model, stream, SkipGramOptions(epochs=3.0), tell=lambda t: bool(told.append(t)))
    assert len(told) == 1
    assert told[0].done < 1


@pytest.mark.parametrize("stops", [[0], [1, 2], [3]])
def test_a_run_that_is_stopped_goes_on_to_the_same_bits(stops):
    stream, options = stream_of(200), SkipGramOptions(epochs=2.5, sample=0.01)

    def begun():
        torch.manual_seed(0)
        return WordVectors(WordVectorsConfig(n_tokens=len(stream.words) + 2, d_model=8))

    whole, parts, last, told = begun(), begun(), None, []
    learn_vectors(whole, stream, options, tell=lambda t: told.append(t) or True)
    for stop in stops:
        heard = []
        learn_vectors(parts, stream, options, tell=lambda t: heard.append(t) or len(heard) <= stop, after=last)  # noqa: B023
        last = heard[-1]
        assert last.done < 1
    rest = []
    learn_vectors(parts, stream, options, tell=lambda t: rest.append(t) or True, after=last)
    assert torch.equal(parts.input, whole.input)
    assert torch.equal(parts.output, whole.output)
    assert rest[-1] == told[-1]
    learn_vectors(parts, stream, options, tell=lambda t: rest.append(t) or True, after=rest[-1])
    assert rest[-1] == told[-1], "nothing is left to do"
    assert torch.equal(parts.input, whole.input)
