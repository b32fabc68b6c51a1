"""What a model looked at: the right maps between the right words, whichever way the model computes them."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Core
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer

from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError, ShapeError, UsageError
from regard.inspection.look import Look, Words, look_at, text_case
from regard.inspection.record import Axis, Map
from regard.models.registry import build
from regard.tasks.translation.data import Languages, TextSide
from regard.tasks.translation.look import pair_case

TEXTS = ["a dog runs along the beach", "ein Hund läuft am Strand entlang", "naïve 😀"]


def languages(kind: str) -> Languages:
    tokenizer = learn_tokenizer(TEXTS, kind, size=300 if kind != "words" else 40)
    return Languages(TextSide(tokenizer), TextSide(tokenizer))


def model(name: str, tokenizer_size: int, **options: object) -> torch.nn.Module:
    sizes = {"n_source": tokenizer_size, "n_target": tokenizer_size}
    return build(name, sizes | options).eval()


def recurrent(size: int, **options: object) -> torch.nn.Module:
    return model("recurrent", size, **({"d_embedding": 16, "d_hidden": 16, "n_layers": 1} | options))


def look(module: torch.nn.Module, both: Languages, source: list[int], target: list[int], **options: object) -> Look:
    return look_at(pair_case(module, both, source=source, target=target), **options)


@pytest.mark.parametrize("kind", ["bpe", "words", "bytes"])
def test_words_are_those_between_spaces(kind):
    tokenizer = languages(kind).source.tokenizer
    ids = tokenizer.encode("a dog naïve")
    words = Words.of(tokenizer, ids)
    assert words.texts == ["a", "dog", "naïve"]
    assert words.of_piece == tokenizer.word_ids("a dog naïve")
    assert len(words.of_piece) == len(ids)


def test_characters_stand_for_themselves_and_unknown_ones_are_shown():
    tokenizer = languages("chars").source.tokenizer
    words = Words.of(tokenizer, tokenizer.encode("a d€"))
    assert words.texts == ["a", " ", "d", "<unk>"]
    assert words.of_piece == [0, 1, 2, 3]


def test_marks_are_no_words_and_part_what_stands_beside_them():
    tokenizer = languages("bpe").source.tokenizer
    ids = [tokenizer.bos_id, *tokenizer.encode("dog"), tokenizer.eos_id, *tokenizer.encode("dog"), tokenizer.eos_id]
    words = Words.of(tokenizer, ids)
    assert words.texts == ["dog", "dog"]
    assert [words.of_piece[i] for i in (0, -1)] == [-1, -1]
    assert words.groups()[0] == [0]
    assert Axis(tokenizer.tokens(ids), words=words).real == [i for i, word in enumerate(words.of_piece) if word >= 0]


def test_a_piece_after_a_mark_begins_a_word_whatever_it_looks_like():
    tokenizer = languages("bpe").source.tokenizer
    inner = next(i for i in range(5, len(tokenizer)) if not tokenizer.tokens([i])[0].startswith("▁"))
    assert Words.of(tokenizer, [tokenizer.bos_id, inner, inner, tokenizer.eos_id, inner]).of_piece == [-1, 0, 0, -1, 1]


def test_words_of_a_foreign_wordpiece():
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "run": 3, "##ning": 4, "dogs": 5, ".": 6}
    core = Core(WordPiece(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = BertPreTokenizer()
    tokenizer = Tokenizer.foreign(core, special_tokens=SpecialTokens(unk=0, cls=1, sep=2))
    words = Words.of(tokenizer, [1, *tokenizer.encode("running dogs."), 2])
    assert words.of_piece == [-1, 0, 0, 1, 2, -1]
    assert Axis(tokenizer.tokens([1, 3, 4, 5, 6, 2]), words=words).shown == [
        "[CLS]",
        "run",
        "·ning",
        "dogs",
        ".",
        "[SEP]",
    ]


def test_labels_as_people_read_them():
    words = Words(["running", "dogs."], [0, 0, 1, 1, -1])
    assert Axis(["▁run", "ning", "▁dogs", ".", "</s>"], words=words).shown == ["run", "·ning", "dogs", ".", "</s>"]
    assert Axis(["run", "##ning", "dogs", ".", "[SEP]"], words=words).shown == ["run", "·ning", "dogs", ".", "[SEP]"]
    assert Axis(["▁", "\n"], words=Words(["", ""], [0, 1])).shown == ["␣", "⏎"]


def test_a_transformer_shows_every_kind_of_attention():
    both = languages("words")
    size = len(both.source.tokenizer)
    module = model("transformer", size, d_model=16, n_heads=2, d_feedforward=16, n_encoder_layers=3, n_decoder_layers=2)
    source, target = both.source.encode(["a dog runs", "ein Hund"])
    seen = look(module, both, source, target)
    assert seen.source == ["▁a", "▁dog", "▁runs", "</s>"]
    assert seen.target == ["▁ein", "▁Hund", "</s>"]
    assert seen.axes["fed"].labels == ["<s>", "▁ein", "▁Hund"]
    shapes = {kind: maps.shape for kind, maps in seen.weights.items()}
    assert shapes == {"cross": (2, 2, 3, 4), "masked": (2, 2, 3, 3), "self": (3, 2, 4, 4)}
    for maps in seen.weights.values():
        np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    assert seen.align().matrix.shape == (2, 3)
    one = seen.align(layer=1).matrix
    expected = seen.cross[1].mean(0)[:2, :3]
    np.testing.assert_allclose(one, expected / expected.sum(-1, keepdims=True), rtol=1e-5)
    with pytest.raises(UsageError, match="no layer 2; there are 0 to 1"):
        seen.align(layer=2)


def test_what_was_said_is_kept_with_what_might_have_been():
    both = languages("words")
    module = recurrent(len(both.source.tokenizer), attention="dot")
    source, target = both.source.encode(["a dog runs", "ein Hund"])
    said = look(module, both, source, target, alternatives=3).outputs
    assert (said.axis, said.says) == ("target", "here")
    assert [token for token, _ in said.given] == ["▁ein", "▁Hund", "</s>"]
    case = pair_case(module, both, source=source, target=target)
    with torch.inference_mode():
        probabilities = case.log_probs(case.run()).exp()
    assert said.probabilities[1] == pytest.approx(probabilities[1].topk(3).values.tolist())
    assert said.given[1][1] == pytest.approx(float(probabilities[1, target[1]]))
    assert look(module, both, source, target, alternatives=0).outputs is None
    with pytest.raises(UsageError, match="-1 alternatives"):
        look(module, both, source, target, alternatives=-1)


def test_input_feeding_gives_one_map_of_all_steps():
    both = languages("words")
    torch.manual_seed(0)
    module = recurrent(len(both.source.tokenizer), attention="additive", input_feeding=True)
    source, target = both.source.encode(["a dog runs", "ein Hund"])
    seen = look(module, both, source, target, queries=True)
    assert seen.weights["cross"].shape == (1, 1, 3, 4)
    assert seen.maps["cross"].computed.queries.shape == (1, 1, 3, 16)
    assert seen.maps["cross"].computed.keys.shape == (1, 1, 4, 16)
    shorter = look(module, both, source, target[:1])
    np.testing.assert_allclose(seen.cross[:, :, :2], shorter.cross, atol=1e-6)
    assert not np.allclose(seen.cross[0, 0, 0], seen.cross[0, 0, 1]), "each step has a row of its own"


def test_only_what_was_asked_for_is_computed(monkeypatch):
    both = languages("words")
    size = len(both.source.tokenizer)
    module = model("transformer", size, d_model=16, n_heads=2, d_feedforward=16, n_encoder_layers=4, n_decoder_layers=4)
    from regard.attention import taps

    calls = []
    explicit = taps.attention_weights
    monkeypatch.setattr(taps, "attention_weights", lambda *a, **k: calls.append(1) or explicit(*a, **k))
    seen = look(module, both, [5, 6], [7], layers=[3], kinds=["cross", "self"])
    assert len(calls) == 2
    assert {kind: found.layers for kind, found in seen.maps.items()} == {"cross": (3,), "self": (3,)}
    assert seen.maps["self"].of_layer(3).shape == (2, 3, 3)
    assert "fed" not in seen.axes
    with pytest.raises(UsageError, match=r"no layer 0; there are \(3,\)"):
        seen.maps["self"].of_layer(0)
    with pytest.raises(UsageError, match="no attention of kind 'pool' is in this model; there may be self, masked"):
        look(module, both, [5, 6], [7], kinds=["pool"])


def test_a_model_without_attention_says_so():
    both = languages("words")
    module = recurrent(len(both.source.tokenizer), attention="none")
    with pytest.raises(UsageError, match="no attention to look at") as problem:
        look(module, both, [5], [5])
    assert "model.attention" in problem.value.hint


def test_nothing_to_read_and_nothing_between_two_sentences():
    both = languages("words")
    tokenizer = both.source.tokenizer
    module = recurrent(len(tokenizer), attention="dot")
    with pytest.raises(UsageError, match="the text is empty"):
        pair_case(module, both, source=[], target=[5])
    gpt = build("gpt", {"n_tokens": len(tokenizer), "d_model": 16, "n_heads": 2, "n_layers": 1}).eval()
    with pytest.raises(UsageError, match="the text is empty"):
        text_case(gpt, tokenizer, [])
    seen = look_at(text_case(gpt, tokenizer, [5, 6], says="next"))
    assert seen.source == seen.target == tokenizer.tokens([5, 6])
    assert seen.outputs.given[-1] is None, "nothing is known of what comes after the last"
    with pytest.raises(UsageError, match="no attention between two sentences was seen; there is masked"):
        seen.align()
    with pytest.raises(UsageError, match="no attention of kind 'self' was seen; there is masked"):
        seen.of("self")


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_a_record_comes_back_from_a_file(tmp_path, suffix):
    both = languages("bpe")
    module = recurrent(len(both.source.tokenizer), attention="additive")
    source, target = both.source.encode(["naïve 😀"])[0], both.target.encode(["Hund"])[0]
    seen = look(module, both, source, target, queries=True)
    again = Look.load(seen.save(tmp_path / "new" / f"a.{suffix}"))
    assert again.axes == seen.axes
    assert again.outputs == seen.outputs
    for name in ("queries", "keys", "vector"):
        mine, theirs = (getattr(one.maps["cross"].computed, name) for one in (seen, again))
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(again.cross, seen.cross)
    half = Look.load(seen.save(tmp_path / f"half.{suffix}", half=True))
    np.testing.assert_array_equal(half.cross, seen.cross.astype(np.float16).astype(np.float32))
    assert half.maps["cross"].heads == seen.maps["cross"].heads
    assert half.maps["cross"].computed.form == "tanh"


def test_a_foreign_file_is_no_record(tmp_path):
    for text in ("{", "[1]", '{"source": []}', '{"format": "regard attention 99"}'):
        with pytest.raises(DataError, match="not a record as to_json writes it"):
            Look.from_json(text)
    (tmp_path / "a.npz").write_text("nothing")
    with pytest.raises(DataError, match=r"a\.npz: not a record as Look\.save writes it"):
        Look.load(tmp_path / "a.npz")
    with pytest.raises(DataError, match=r"b\.json: there is no such file"):
        Look.load(tmp_path / "b.json")
    seen = Look({"text": Axis(["a"])}, {})
    with pytest.raises(UsageError, match=r"a\.txt: not a record's name; allowed are \.json, \.npz"):
        seen.save(tmp_path / "a.txt")


def test_weights_that_do_not_fit_their_axes_are_refused():
    axes = {"text": Axis(["a", "b"])}
    with pytest.raises(ShapeError, match=r"\(1, 1, 2, 3\) do not fit \(L, H, T, S\) = \(1, 1, 2, 2\)"):
        Look(axes, {"self": Map("self", "text", "text", np.zeros((1, 1, 2, 3), np.float32), (0,), (0,))})
    with pytest.raises(UsageError, match="between 'text' and 'source'"):
        Look(axes, {"self": Map("self", "text", "source", np.zeros((1, 1, 2, 2), np.float32), (0,), (0,))})


def test_words_get_the_sum_of_their_pieces_and_ask_with_the_mean():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4], [0.25, 0.25, 0.25, 0.25], [0, 0, 0, 1.0]])
    axis = Axis(["▁a", "b", "▁c", "</s>"], words=Words(["ab", "c"], [0, 0, 1, -1]))
    one = Look({"text": axis}, {"self": Map("self", "text", "text", np.float32(weights)[None, None], (0,), (0,))})
    merged = one.by_words()
    assert merged.axes["text"].labels == ["ab", "c", "</s>"]
    assert merged.axes["text"].kind == "words"
    expected = [[0.4, 0.2, 0.4], [0.5, 0.25, 0.25], [0, 0, 1]]
    np.testing.assert_allclose(merged.maps["self"].weights[0, 0], expected, atol=1e-6)
    np.testing.assert_array_equal(merged.by_words().maps["self"].weights, merged.maps["self"].weights)


def test_a_picture_has_a_pictures_name(tmp_path):
    both = languages("words")
    module = recurrent(len(both.source.tokenizer), attention="dot")
    seen = look(module, both, [5, 6], [7])
    assert seen.plot(tmp_path / "a.svg").read_text().startswith("<?xml")
    with pytest.raises(UsageError, match=r"allowed are \.png, \.svg, \.pdf"):
        seen.plot(tmp_path / "a.gif")
