"""Continuing text: the likeliest by hand, alone or beside others, in one go or as it comes, beyond the context."""

import io
from itertools import pairwise

import pytest
import torch

from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.errors import UsageError
from regard.models.gpt import GPT
from regard.tasks.language.detokenizer import IncrementalDetokenizer, cut_at, text_after
from regard.tasks.language.few_shot import few_shot_prompt
from regard.tasks.language.writer import Writer
from tiny_texts import TEXT, learn, make_model

PROMPTS = ["The dog", "", "Who runs? 😀", "The cat sits,", "T"]
GREEDY = DecodeOptions(max_length=8)


def make_writer(
    tokenizer: Tokenizer | None = None, *, context: int = 24, separated: bool = True, **options: int
) -> Writer:
    tokenizer = tokenizer or learn()
    return Writer([make_model(tokenizer)], tokenizer, context=context, separated=separated, **options)


def greedy(model: GPT, ids: list[int], n: int, *, end: int | None, banned: list[int]) -> list[int]:
    """The likeliest tokens, one full pass each."""
    said: list[int] = []
    while len(said) < n:
        logits = model(torch.tensor([[*ids, *said]]))[0, -1]
        logits[banned] = -torch.inf
        token = int(logits.argmax())
        if token == end:
            break
        said.append(token)
    return said


@pytest.mark.parametrize("separated", [True, False])
def test_the_likeliest_continuation(separated: bool) -> None:
    writer = make_writer(separated=separated)
    found = writer(PROMPTS, GREEDY)
    for prompt, (continuation,) in zip(PROMPTS, found, strict=True):
        before = [3] if separated else []
        ids = [*before, *writer.tokenizer.encode(prompt)] or writer.tokenizer.encode("\n")
        end, banned = (3, [0, 1, 2]) if separated else (None, [0, 1, 2, 3])
        expected = greedy(writer.models[0], ids, 8, end=end, banned=banned)  # type: ignore[arg-type]
        assert continuation.ids == expected
        assert continuation.text == writer.tokenizer.decode(expected)
        assert continuation.finished == (len(expected) < 8)
        assert continuation.log_prob < 0


OPTIONS = {
    "greedy": GREEDY,
    "beam": DecodeOptions(strategy="beam", beam=3, n_best=2, max_length=8),
    "sample": DecodeOptions(strategy="sample", n_samples=2, top_p=0.9, max_length=40, seed=5),
    "at least": DecodeOptions(strategy="sample", min_length=35, max_length=40),
    "no repeat": DecodeOptions(no_repeat_ngram=2, max_length=30),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_neighbours_change_nothing(name: str) -> None:
    options = OPTIONS[name]
    writer = make_writer(learn("chars"))
    together = writer(PROMPTS, options)
    for batch_tokens in (1, 200):
        assert make_writer(learn("chars"), batch_tokens=batch_tokens)(PROMPTS, options) == together
    for i, prompt in enumerate(PROMPTS):
        (alone,) = writer([prompt], options)
        assert [c.ids for c in alone] == [c.ids for c in together[i]]
        assert [c.score for c in alone] == pytest.approx([c.score for c in together[i]], rel=1e-6)
        assert len(alone) == options.n_best * options.n_samples


def test_texts_grow_beyond_the_context_from_their_last_half() -> None:
    writer = make_writer(learn("chars"), context=10, separated=False)
    prompt = writer.prompt("The")
    (continuation,) = writer(["The"], DecodeOptions(max_length=30))[0]
    assert len(continuation.ids) == 30
    model, whole, start = writer.models[0], list(prompt), 0
    for token in continuation.ids:
        if len(whole) - start > 10:
            start = len(whole) - 5
        assert token == greedy(model, whole[start:], 1, end=None, banned=[0, 1, 2, 3])[0]  # type: ignore[arg-type]
        whole.append(token)


def test_sampling_draws_anew_after_each_new_start() -> None:
    writer = make_writer(learn("chars"), context=4, separated=False)
    with torch.no_grad():  # a model to which all characters are alike
        writer.models[0].output.weight.zero_()  # type: ignore[attr-defined]
    samples = writer(["T"], DecodeOptions(strategy="sample", n_samples=2, max_length=60))[0]
    for sample in samples:
        rounds = [tuple(sample.ids[i : i + 3]) for i in range(4, 58, 3)]
        assert len(set(rounds)) > len(rounds) / 2
    assert samples[0].ids != samples[1].ids
    assert all(a != b for a, b in pairwise([samples[0].ids[4:], samples[1].ids[4:]]))


def test_at_least_so_many_tokens() -> None:
    writer = make_writer(learn("chars"), context=10)
    with torch.no_grad():
        writer.models[0].embedding.weight.zero_()  # type: ignore[attr-defined]
        writer.models[0].output.weight.zero_()  # type: ignore[attr-defined]
    short = writer(["The"], DecodeOptions(strategy="sample", max_length=50, n_samples=30, seed=1))[0]
    long = writer(["The"], DecodeOptions(strategy="sample", max_length=50, n_samples=30, seed=1, min_length=33))[0]
    assert min(len(c.ids) for c in short) < 33 <= min(len(c.ids) for c in long)
    assert any(c.finished for c in long)


def test_a_prompt_too_long_loses_its_beginning_and_it_is_said() -> None:
    told: list[str] = []
    tokenizer = learn("chars")
    writer = Writer([make_model(tokenizer)], tokenizer, context=24, say=told.append)
    (long,), (short,) = writer([TEXT[:100], "The"], DecodeOptions(max_length=6))
    assert told == ["the prompt has 101 tokens and the model reads 24: the first 83 are left out"]
    ids = tokenizer.encode(TEXT[:100])[-18:]
    assert long.ids == greedy(writer.models[0], ids, 6, end=3, banned=[0, 1, 2])  # type: ignore[arg-type]
    assert short == writer(["The"], DecodeOptions(max_length=6))[0][0]
    (whole,) = writer([TEXT[:22]], DecodeOptions(max_length=2))[0]  # a prompt that fits is read whole
    assert len(told) == 1
    assert whole.ids


@pytest.mark.parametrize("name", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("separated", [True, False])
def test_stop_strings_end_a_text(name: str, separated: bool) -> None:
    options = {
        "greedy": DecodeOptions(max_length=40),
        "beam": DecodeOptions(strategy="beam", beam=2, max_length=20),
        "sample": DecodeOptions(strategy="sample", max_length=60, seed=2),
    }[name]
    writer = make_writer(learn("chars"), separated=separated)
    free = [c[0] for c in writer(PROMPTS, options)]
    stops = [free[0].text[3:5], "😀", "zz"]
    stopped = [c[0] for c in writer(PROMPTS, options, stop=stops)]
    assert stopped[0].finished
    for one, other in zip(free, stopped, strict=True):
        text, found = cut_at(one.text, stops)
        if name != "beam":
            assert other.text == text
            assert not found or other.finished
            assert len(other.ids) <= len(one.ids)
        assert not any(stop in other.text for stop in stops)
    assert len(stopped[0].ids) < len(free[0].ids) or name == "beam"


def test_a_stop_string_may_run_across_a_new_start() -> None:
    writer = make_writer(learn("chars"), context=10, separated=False)
    text = writer(["The"], DecodeOptions(strategy="sample", max_length=30))[0][0].text
    stop = text[5:12]  # eight characters are written before the context is full
    (stopped,) = writer(["The"], DecodeOptions(strategy="sample", max_length=30), stop=[stop])[0]
    assert (stopped.text, stopped.finished, len(stopped.ids)) == (text[:5], True, 12)


@pytest.mark.parametrize("kind", ["bpe", "chars", "bytes"])
@pytest.mark.parametrize("stop", [(), ("o", "zzz")])
def test_a_stream_is_the_same_text(kind: str, stop: tuple[str, ...]) -> None:
    writer = make_writer(learn(kind), context=12)
    for options in (DecodeOptions(max_length=20), DecodeOptions(strategy="sample", max_length=40, seed=1)):
        for prompt in PROMPTS[:3]:
            pieces = list(writer.stream(prompt, options, stop=stop))
            (expected,) = writer([prompt], options, stop=stop)[0]
            assert "".join(pieces) == expected.text
    with pytest.raises(UsageError, match="allowed for streaming"):
        list(writer.stream("a", DecodeOptions(strategy="beam", beam=2)))


def test_speech_waits_for_whole_characters_and_stop_strings() -> None:
    tokenizer = learn("bytes")
    speech = IncrementalDetokenizer(tokenizer, [], ["END"])
    said = [speech.add([token]) for token in tokenizer.encode("a😀EnE")]
    assert said == ["a", "", "", "", "😀", "", "En", ""]
    assert speech.rest() == "E"
    speech = IncrementalDetokenizer(tokenizer, [], ["END"])
    out = io.StringIO()
    for token in tokenizer.encode("x" * 300 + "ENDy"):
        out.write(speech.add([token]))
        if speech.over:
            break
    assert out.getvalue() == "x" * 300
    assert len(speech.ids) < 100  # what was said long ago is not spelled again
    speech = IncrementalDetokenizer(tokenizer, [], ["END"])
    assert speech.add(tokenizer.encode("aE")) + speech.add(tokenizer.encode("NDmore")) == "a"
    assert (speech.over, speech.n_tokens) == (True, 4)  # as if they had come one by one


def test_spaces_between_prompt_and_continuation_are_kept() -> None:
    tokenizer = learn("words", verbatim=False)
    before, after = tokenizer.encode("The dog"), tokenizer.encode("runs")
    assert tokenizer.decode(after) == "runs"
    assert text_after(tokenizer, before, after) == " runs"
    assert text_after(tokenizer, [], after) == "runs"


def test_several_models_vote() -> None:
    tokenizer = learn("chars")
    models = [make_model(tokenizer, seed=seed) for seed in (0, 1)]
    both = Writer(models, tokenizer, context=24)(["The"], GREEDY)[0][0]
    same = Writer([models[0]] * 2, tokenizer, context=24)(["The"], GREEDY)[0][0]
    assert same.ids == Writer(models[:1], tokenizer, context=24)(["The"], GREEDY)[0][0].ids
    assert both.ids != same.ids


def test_what_is_refused() -> None:
    writer = make_writer(learn("chars", verbatim=False), separated=False)
    with pytest.raises(UsageError, match="the prompt is empty, and the model has no mark"):
        writer([""], GREEDY)
    with pytest.raises(UsageError, match="a stop string is empty"):
        writer(["a"], GREEDY, stop=[""])
    with pytest.raises(UsageError, match="stop strings and min_length=2 were given"):
        writer(["a"], DecodeOptions(min_length=2, max_length=4), stop=["a"])
    with pytest.raises(UsageError, match="context is 1, at least 2"):
        make_writer(context=1)
    assert writer([], GREEDY) == []


def test_a_few_shots() -> None:
    examples = [("sea otter", "loutre de mer"), ("mint", "menthe")]
    prompt = few_shot_prompt("cheese", examples=examples, task="Translate English to French:")
    assert prompt == "Translate English to French:\nsea otter => loutre de mer\nmint => menthe\ncheese =>"
    assert few_shot_prompt("2+2", asks="Q: ", answers="\nA: ", between="\n\n", examples=[("1+1", "2")]) == (
        "Q: 1+1\nA: 2\n\nQ: 2+2\nA:"
    )
    assert few_shot_prompt("cheese") == "cheese =>"
    with pytest.raises(UsageError, match="answers is ' '; allowed is what sets answers off"):
        few_shot_prompt("cheese", answers=" ")
