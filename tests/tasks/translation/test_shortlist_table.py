"""Translating out of a shortlist: the same by the twin, alone and in company; and what a run keeps of it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_translator import OPTIONS, TEXTS

import regard
import tiny_runs
from fast_only import needs_fast
from regard.checkpoints.run import RunFolder
from regard.data.batching.ragged import Ragged
from regard.data.text.corpus import Corpus
from regard.decoding import DecodeOptions
from regard.decoding.shortlist import ShortlistStepper
from regard.errors import CheckpointError, UsageError
from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.packed_linear import pack_linears
from regard.tasks.translation import shortlist
from regard.tasks.translation import translator as translating
from regard.tasks.translation.shortlist import NAME, ShortlistTable, read_shortlist
from regard.tasks.translation.translator import Translator
from tiny_pairs import learn, make_model, some_pairs

PAIRS = some_pairs(60)
LANGUAGES = learn(PAIRS)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs") / "corpus"
    corpus = Corpus.build(PAIRS, LANGUAGES.source.tokenizer, LANGUAGES.target.tokenizer, folder)
    return ShortlistTable.learn(corpus, LANGUAGES, n_best=3, n_frequent=12)


def plain(translations):
    return [[(one.text, one.ids, one.log_prob, one.score) for one in several] for several in translations]


def test_the_table_holds_likely_frequent_and_special_tokens(table):
    target = LANGUAGES.target.tokenizer
    assert table.best.shape == (len(LANGUAGES.source.tokenizer), 3)
    assert {target.pad_id, target.unk_id, target.bos_id, target.eos_id} <= set(table.frequent.tolist())
    assert 12 <= len(table.frequent) <= 16
    source, prefix = LANGUAGES.source.encode(["3. März 2021"])[0], LANGUAGES.target.encode(["1999-"])[0]
    shortlist = table.of([source], [prefix])
    assert {*prefix, target.eos_id, *table.best[source[0]].tolist()} - {-1} <= set(shortlist.columns.tolist())
    copied = ShortlistTable(table.best, table.frequent, copied=True).of([source], [[]])
    assert set(source) <= set(copied.columns.tolist())


@needs_fast
@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_in_every_strategy_it_is_what_the_twin_does_and_a_text_is_the_same_alone(case, precision, table, monkeypatch):
    if loaded() is None:
        pytest.skip(why())
    model = pack_linears(make_model(LANGUAGES).float(), precision)
    options = DecodeOptions(**{"max_length": 14} | OPTIONS[case])
    prefixes = ["19", "20", "", "2", "7", "", "1999-"] if case == "beam" else None
    found = Translator([model], LANGUAGES)(TEXTS, options, prefixes=prefixes, table=table)
    for row, text in enumerate(TEXTS):
        own = None if prefixes is None else [prefixes[row]]
        alone = Translator([model], LANGUAGES)([text], options, prefixes=own, table=table)[0]
        if case == "coverage":  # watched, so that PyTorch computes the blocks: whose rows feel their neighbours
            assert [one.ids for one in alone] == [one.ids for one in found[row]]
        else:
            assert plain([alone]) == plain([found[row]])
    monkeypatch.setattr(translating, "restricted", ShortlistStepper)
    assert plain(Translator([model], LANGUAGES)(TEXTS, options, prefixes=prefixes, table=table)) == plain(found)


@pytest.mark.parametrize("name", ["transformer", "recurrent"])
def test_only_listed_tokens_are_written_by_one_model_or_by_several(name, table):
    models = [make_model(LANGUAGES, name, seed=seed) for seed in range(2)]
    options = DecodeOptions(strategy="beam", beam=3, max_length=14)
    sources = LANGUAGES.source.encode(TEXTS)
    free = Translator(models[:1], LANGUAGES)(TEXTS, options)
    for several in (models[:1], models):
        found = Translator(several, LANGUAGES)(TEXTS, options, table=table)
        for source, translations in zip(sources, found, strict=True):
            if source:
                listed = set(table.of([source], [[]]).columns.tolist())
                assert all(set(one.ids) <= listed for one in translations)
        assert plain(found) != plain(free)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that has learnt no shortlist."""
    return tiny_runs.train_tiny(tmp_path_factory.mktemp("shortlist"))


@pytest.fixture(scope="module")
def listed(folder, tmp_path_factory):
    """The same run after the hint was followed."""
    copy = tmp_path_factory.mktemp("listed") / "run"
    shutil.copytree(folder, copy)
    return copy


def test_a_run_without_one_says_what_to_type_and_that_makes_one(folder, listed, command):
    refused = command("predict", folder, "one two", "decode.shortlist=true")
    hint = f"regard train --resume --out {folder} decode.shortlist=true"
    assert refused.code == 1
    assert [line for line in refused.err.splitlines() if line.startswith(("error:", "hint:"))] == [
        f"error: {folder}: has no shortlist ({NAME})",
        f"hint: learn one: {hint}",
    ]
    weights = (listed / "model.safetensors").read_bytes()
    made = command("train", "--resume", "--out", listed, "decode.shortlist=true")
    assert made.code == 0
    assert (listed / "model.safetensors").read_bytes() == weights, "nothing is trained"
    assert NAME in json.loads((listed / "hashes.json").read_text())["files"]
    words = list(tiny_runs.NUMERALS)
    answer = command("predict", listed, *words, "decode.shortlist=true")  # the recipe says so now, too
    assert (answer.code, answer.out.split()) == (0, [tiny_runs.translate(word) for word in words])
    assert command("predict", listed, *words).out == answer.out
    model = regard.load(listed, "cpu")
    assert model.config.decode.shortlist
    assert model("one two", shortlist=False).text == "eins zwei"
    assert model.ensemble(regard.load(listed, "cpu"))("one two").text == "eins zwei"
    [figures] = model.evaluate()
    assert figures.metrics["bleu"].value > 90
    bare = regard.load(folder, "cpu")
    with pytest.raises(CheckpointError, match="has no shortlist"):
        bare("one", shortlist=True)


def test_a_damaged_file_is_one_clear_error(folder, listed, tmp_path, command):
    if not (listed / NAME).exists():
        command("train", "--resume", "--out", listed, "decode.shortlist=true")
    copy = tmp_path / "run"
    shutil.copytree(listed, copy)
    whole = (copy / NAME).read_bytes()
    (copy / NAME).write_bytes(whole[:-7])
    answer = command("predict", copy, "one")
    assert answer.code == 1
    assert answer.err.count("error:") == 1
    assert f"{copy / NAME}: damaged: not as it was written" in answer.err
    answer = command("predict", copy, "one", "--no-check")
    assert answer.code == 1
    assert f"{copy / NAME}: not a whole safetensors file" in answer.err
    (copy / NAME).write_bytes(whole)
    assert command("predict", copy, "one").out == "eins\n"


BAD = {
    "none": lambda held: {},
    "of another vocabulary": lambda held: held | {"best": held["best"][:-1]},
    "of other numbers": lambda held: held | {"best": held["best"].float()},
    "beyond the vocabulary": lambda held: held | {"frequent": held["frequent"] + 100_000},
    "negative": lambda held: held | {"frequent": held["frequent"] - 100_000},
    "empty": lambda held: held | {"frequent": held["frequent"][:0]},
}


@pytest.mark.parametrize("wrong", BAD)
def test_a_table_that_does_not_belong_is_refused(wrong, table, tmp_path):
    run = RunFolder(tmp_path)
    table.save(run)
    again = read_shortlist(tmp_path, LANGUAGES, trained=True)
    np.testing.assert_array_equal(again.best, table.best)
    np.testing.assert_array_equal(again.frequent, table.frequent)
    held = {name: tensor.clone() for name, tensor in load_file(tmp_path / NAME).items()}
    save_file(BAD[wrong](held), tmp_path / NAME)
    with pytest.raises(CheckpointError, match=r"not a shortlist for \d+ source and \d+ target tokens"):
        read_shortlist(tmp_path, LANGUAGES, trained=True)


def test_pairs_of_ones_own_do_for_a_run_that_was_not_trained_here(folder, tmp_path, command):
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    model = regard.load(copy, "cpu")
    model.learn_shortlist([folder.parent / "train.en", folder.parent / "train.de"])
    assert model("one two", shortlist=True).text == "eins zwei"
    assert command("predict", copy, "three", "decode.shortlist=true").out == "drei\n"
    assert NAME in json.loads((copy / "hashes.json").read_text())["files"]
    model.folder = None
    with pytest.raises(UsageError, match="only a run keeps a shortlist"):
        model.learn_shortlist([folder.parent / "train.en", folder.parent / "train.de"])


def test_large_corpora_are_learnt_from_at_equal_steps(table, tmp_path, monkeypatch):
    corpus = Corpus.build(PAIRS, LANGUAGES.source.tokenizer, LANGUAGES.target.tokenizer, tmp_path / "corpus")
    links = int((corpus.source_lengths * corpus.target_lengths).sum())
    monkeypatch.setattr(shortlist, "MOST_LINKS", -(-links // 2))
    half = ShortlistTable.learn(corpus, LANGUAGES, n_best=3, n_frequent=12)
    every = np.arange(0, len(corpus), 2)
    sides = [Ragged.of(list(side(every))) for side in (corpus.sources, corpus.targets)]
    monkeypatch.undo()
    again = ShortlistTable.learn_from(*sides, LANGUAGES, n_best=3, n_frequent=12)
    np.testing.assert_array_equal(half.best, again.best)
    assert (half.best != table.best).any()


def test_a_model_of_others_has_nothing_to_learn_one_from(tmp_path):
    with pytest.raises(CheckpointError, match="has no shortlist") as problem:
        read_shortlist(tmp_path, LANGUAGES, trained=False)
    assert problem.value.hint == "translate without: decode.shortlist=false"


def test_a_translation_is_the_same_whichever_threads_do_it(table):
    model, options = make_model(LANGUAGES).float(), DecodeOptions(max_length=14)
    before = torch.get_num_threads()
    found = plain(Translator([pack_linears(model, "fp32")], LANGUAGES)(TEXTS, options, table=table))
    torch.set_num_threads(1)
    try:
        assert plain(Translator([pack_linears(model, "fp32")], LANGUAGES)(TEXTS, options, table=table)) == found
    finally:
        torch.set_num_threads(before)
