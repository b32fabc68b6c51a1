"""Translation: the same alone and in company, in order, and with scores that the model itself would give."""

import threading
from typing import Any

import pytest
import torch

from fast_only import needs_fast
from regard.attention import Rows
from regard.decoding import DecodeOptions
from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.packed_linear import pack_linears
from regard.models.interfaces.text import Seq2SeqModel, as_seq2seq
from regard.tasks.predictions import Prediction
from regard.tasks.translation.data import Languages, TextSide
from regard.tasks.translation.translator import Translator
from tiny_pairs import learn, make_model, some_pairs

LANGUAGES = learn(some_pairs(60))
TEXTS = ["3. März 2021", "", "the 3rd of March 2021 and the fourth", "x", "  ", "lunes, 5 de mayo de 1997", "12/12/12"]
WORDLESS = {1, 4}
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "no repeat": {"no_repeat_ngram": 2, "min_length": 3},
    "beam": {"strategy": "beam", "beam": 4, "n_best": 3},
    "beam to the bound": {"strategy": "beam", "beam": 3, "patience": float("inf"), "length_penalty": 0.5},
    "coverage": {"strategy": "beam", "beam": 3, "n_best": 2, "coverage_penalty": 0.3},
    "diverse beam": {"strategy": "beam", "beam": 4, "n_best": 4, "groups": 2, "diversity": 0.8},
    "sample": {"strategy": "sample", "n_samples": 3, "seed": 5},
    "shaped sample": {"strategy": "sample", "top_k": 20, "top_p": 0.9, "temperature": 1.5, "no_repeat_ngram": 2},
    "short": {"max_ratio": 0.5, "max_extra": 2},
}
PREFIXES = ["19", "20", "", "2", "7", "", "1999-"]
both_models = pytest.mark.parametrize("name", ["transformer", "recurrent"])


def options_of(case: str) -> DecodeOptions:
    return DecodeOptions(**{"max_length": 14} | OPTIONS[case])


def assert_same(one: list[Prediction], other: list[Prediction]) -> None:
    assert [(t.text, t.ids, t.tokens, t.finished) for t in one] == [
        (t.text, t.ids, t.tokens, t.finished) for t in other
    ]
    assert [t.score for t in one] == pytest.approx([t.score for t in other], rel=1e-6, abs=1e-5)
    assert [t.log_prob for t in one] == pytest.approx([t.log_prob for t in other], rel=1e-6, abs=1e-5)


@both_models
@pytest.mark.parametrize("case", OPTIONS)
def test_a_batch_is_its_texts_one_by_one(name: str, case: str) -> None:
    model, options = make_model(LANGUAGES, name), options_of(case)
    together = Translator([model], LANGUAGES)(TEXTS, options)
    apart = Translator([model], LANGUAGES, batch_tokens=1)(TEXTS, options)
    for place, text in enumerate(TEXTS):
        assert_same(together[place], apart[place])
        assert_same(together[place], Translator([model], LANGUAGES)([text], options)[0])
    assert len({several[0].text for several in together}) >= 4  # they really differ
    n = {"beam": 3, "coverage": 2, "diverse beam": 4, "sample": 3}.get(case, 1)
    assert [len(several) for several in together] == [1 if place in WORDLESS else n for place in range(len(TEXTS))]


@needs_fast
@pytest.mark.parametrize("batch_tokens", [8192, 60])
@pytest.mark.parametrize("case", OPTIONS)
def test_threads_share_sentences_and_change_nothing(
    monkeypatch: pytest.MonkeyPatch, case: str, batch_tokens: int
) -> None:
    if loaded() is None:
        pytest.skip(why())
    module = make_model(LANGUAGES, "transformer")
    assert isinstance(module, torch.nn.Module)
    translator = Translator([as_seq2seq(pack_linears(module, "int8"))], LANGUAGES, batch_tokens=batch_tokens)
    texts, options, who, before = TEXTS * 4, options_of(case), set(), torch.get_num_threads()
    decode = Translator._decode
    monkeypatch.setattr(Translator, "_decode", lambda *args: who.add(threading.get_ident()) or decode(*args))
    try:
        torch.set_num_threads(1)
        alone = translator(texts, options)
        assert who == {threading.get_ident()}
        torch.set_num_threads(2)
        who.clear()
        assert translator(texts, options) == alone
    finally:
        torch.set_num_threads(before)
    if case == "coverage":  # watched steps are not shared
        assert who == {threading.get_ident()}
    else:
        assert threading.get_ident() not in who


@both_models
@pytest.mark.parametrize("case", ["greedy", "beam", "sample", "diverse beam"])
def test_given_beginnings_are_kept(name: str, case: str) -> None:
    translator = Translator([make_model(LANGUAGES, name)], LANGUAGES)
    found = translator(TEXTS, options_of(case), prefixes=PREFIXES)
    free = translator(TEXTS, options_of(case))
    for place, prefix in enumerate(PREFIXES):
        if place in WORDLESS:
            continue
        forced = LANGUAGES.target.encode([prefix])[0]
        assert all(one.ids[: len(forced)] == forced for one in found[place])
        alone = translator([TEXTS[place]], options_of(case), prefixes=[prefix])
        assert_same(found[place], alone[0])
        if not prefix:
            assert_same(found[place], free[place])


@both_models
def test_order_is_kept_whatever_the_lengths(name: str) -> None:
    translator = Translator([make_model(LANGUAGES, name)], LANGUAGES, batch_tokens=60)
    forwards = translator(TEXTS, options_of("greedy"))
    backwards = translator(TEXTS[::-1], options_of("greedy"))
    for one, other in zip(forwards, backwards[::-1], strict=True):
        assert_same(one, other)


def test_texts_without_words_have_translations_without_words() -> None:
    translator = Translator([make_model(LANGUAGES)], LANGUAGES)
    assert translator([], options_of("greedy")) == []
    assert translator(["", " \t\n "], options_of("beam")) == [[Prediction("")], [Prediction("")]]


def log_prob(model: Seq2SeqModel, text: str, translation: Prediction, *, languages: Languages) -> float:
    """What the model says of a translation when it is fed to it."""
    source = [*languages.source.encode([text])[0], 3]
    said = [*translation.ids, 3] if translation.finished else translation.ids
    logits = model.forward(Rows(torch.tensor([source])), Rows(torch.tensor([[2, *said[:-1]]])))[0]
    return logits.log_softmax(-1).gather(1, torch.tensor(said)[:, None]).sum().item()


@both_models
@pytest.mark.parametrize("case", OPTIONS)
def test_scores_are_those_of_the_model(name: str, case: str) -> None:
    model = make_model(LANGUAGES, name)
    found = Translator([model], LANGUAGES)(TEXTS, options_of(case), prefixes=PREFIXES if case == "beam" else None)
    checked = 0
    for place, several in enumerate(found):
        for one in several if place not in WORDLESS else []:
            assert one.log_prob == pytest.approx(log_prob(model, TEXTS[place], one, languages=LANGUAGES), abs=1e-4)
            length = len(one.ids) + one.finished
            if case != "coverage":
                alpha = OPTIONS[case].get("length_penalty", 1.0)
                assert one.score == pytest.approx(one.log_prob / length**alpha, abs=1e-5)
            assert one.text == LANGUAGES.target.decode(one.ids)
            assert one.tokens == LANGUAGES.target.tokenizer.tokens(one.ids)
            checked += 1
    assert checked >= len(TEXTS) - 2
    if "beam" in case:
        ranks = [[(not one.finished, -one.score) for one in several] for several in found]
        assert all(rank == sorted(rank) for rank in ranks)  # those that came to an end first


@both_models
@pytest.mark.parametrize("case", ["greedy", "beam"])
def test_an_ensemble_of_one_or_of_equals_is_that_one(name: str, case: str) -> None:
    model = make_model(LANGUAGES, name)
    alone = Translator([model], LANGUAGES)(TEXTS, options_of(case))
    for models in ([model], [model, make_model(LANGUAGES, name)]):
        for one, other in zip(alone, Translator(models, LANGUAGES)(TEXTS, options_of(case)), strict=True):
            assert_same(one, other)


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    models = [make_model(LANGUAGES, "transformer", seed=1), make_model(LANGUAGES, "recurrent", seed=2)]
    [[found]] = Translator(models, LANGUAGES)(TEXTS[:1], options_of("greedy"))
    source = torch.tensor([[*LANGUAGES.source.encode(TEXTS[:1])[0], 3]])
    fed, total = [2], 0.0
    for step in range(len(found.ids) + found.finished):
        probs = torch.stack([m.forward(Rows(source), Rows(torch.tensor([fed])))[0, -1].softmax(-1) for m in models])
        best = int(probs.mean(0).argmax())
        assert best == [*found.ids, 3][step]
        total += probs.mean(0)[best].log().item()
        fed.append(best)
    assert found.log_prob == pytest.approx(total, abs=1e-4)


def test_moses_text_is_cut_and_put_together_again() -> None:
    pytest.importorskip("sacremoses")
    pairs = some_pairs(60)
    plain = learn(pairs)
    side = TextSide(plain.target.tokenizer, "de")
    assert side.normal("Ein Hund, ja!") == "Ein Hund , ja !"
    assert side.decode(side.encode(["Ein Hund, ja!"])[0]) == "Ein Hund, ja!"


def test_languages_are_saved_and_loaded(tmp_path: Any) -> None:
    for joint in (False, True):
        languages = learn(some_pairs(40), joint=joint)
        languages.save(tmp_path / str(joint))
        loaded = Languages.load(tmp_path / str(joint), moses=("en", "de"))
        assert loaded.joint is joint
        assert (loaded.source.language, loaded.target.language) == ("en", "de")
        for side in ("source", "target"):
            before, after = getattr(languages, side).tokenizer, getattr(loaded, side).tokenizer
            assert before.fingerprint() == after.fingerprint()
