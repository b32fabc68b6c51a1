"""`regard.load`: a run folder becomes something that answers."""

import json
import shutil

import pytest
import torch

import regard
import tiny_runs
from fast_only import needs_fast
from regard.errors import CheckpointError, ConfigError, UsageError
from regard.tasks.translation.config import TranslationDecode


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.train_tiny(tmp_path_factory.mktemp("load"))


@pytest.fixture(scope="module")
def model(folder):
    return regard.load(folder, "cpu")


def test_it_translates_one_text_and_several(model):
    one = model("one two three")
    assert one.text == "eins zwei drei"
    assert one.tokens == ["▁eins", "▁zwei", "▁drei"]
    assert one.alternatives == []
    assert one.log_prob < 0
    several = model(["one two three", "", "ten"])
    assert [prediction.text for prediction in several] == ["eins zwei drei", "", "zehn"]
    assert several[0].score == pytest.approx(one.score, abs=1e-5)
    assert model([]) == []


@pytest.mark.parametrize("precision", ["fp32", "bf16", pytest.param("int8", marks=needs_fast)])
def test_every_precision_says_the_same(folder, precision):
    quick = regard.load(folder, "cpu", precision=precision)
    assert [found.text for found in quick(["one two three", "ten"])] == ["eins zwei drei", "zehn"]
    assert quick.ensemble(quick).precision == precision


def test_an_unknown_precision_is_refused(folder):
    with pytest.raises(UsageError, match="precision is 'int4'; allowed are auto, fp32, bf16, int8"):
        regard.load(folder, "cpu", precision="int4")


def test_a_beam_is_chosen_by_asking_for_one(model):
    best = model("one two three", beam=4, n_best=3)
    assert best.text == "eins zwei drei"
    assert len(best.alternatives) == 2
    scores = [best.score, *(other.score for other in best.alternatives)]
    assert scores == sorted(scores, reverse=True)
    assert model.options({"beam": 4}).strategy == "beam"
    assert model.options({"top_k": 3}).strategy == "sample"
    assert model.options({"beam": 1}).strategy == "greedy"
    assert model.options({"beam": "3"}).beam == 3
    with pytest.raises(ConfigError, match=r"did you mean decode\.beam"):
        model("one", baem=4)


def test_another_strategy_leaves_the_recipes_options_for_its_own_aside(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    config = (copy / "config.toml").read_text().replace('strategy = "greedy"', 'strategy = "beam"')
    (copy / "config.toml").write_text(config.replace("beam = 1\n", "beam = 5\n"))
    with pytest.raises(CheckpointError, match=r"config\.toml: damaged: not as it was written"):
        regard.load(copy, "cpu")
    beam = regard.load(copy, "cpu", check=False)  # changed on purpose
    assert beam.config.decode.beam == 5
    assert beam.options({}) == beam.config.decode
    assert beam.options({"strategy": "greedy"}) == TranslationDecode(max_length=24)
    assert beam.options({"temperature": 0.5}) == TranslationDecode(strategy="sample", temperature=0.5, max_length=24)


def test_a_sample_depends_on_its_own_text(model):
    hot = {"strategy": "sample", "temperature": 5.0}
    texts = ["one two", "three", "one two", "four five", "three"]
    together = [prediction.ids for prediction in model(texts, **hot)]
    assert together[0] == together[2] != together[1] == together[4] != together[3]
    assert together == [model(text, **hot).ids for text in texts]
    assert together == [prediction.ids for prediction in model(texts[::-1], **hot)][::-1]
    several = model(texts, n_samples=4, **hot)
    assert [one.ids for one in several] == together, "the first sample is the only one of a call for one"
    assert len({tuple(one.ids) for one in (several[0], *several[0].alternatives)}) == 4
    assert [one.ids for one in model(texts, **hot, seed=1)] != together


def test_an_output_begins_as_it_is_told_to(model):
    assert model("one two", prefix="drei").tokens[0] == "▁drei"


def test_it_shows_what_it_looked_at(model):
    seen = model.look("one two three")
    assert seen.source_words.texts == ["one", "two", "three"]
    assert seen.target_words.texts == ["eins", "zwei", "drei"]
    assert seen.align().pairs == [(0, 0), (1, 1), (2, 2)]
    told = model.look("one two three", "zehn neun")
    assert told.target == ["▁zehn", "▁neun", "</s>"]
    assert model.align("one two", model("one two")).pharaoh() == "0-0 1-1"
    assert model.align("", model("")).pairs == []


def test_it_weighs_translations_given(model):
    right, wrong = model.log_probs(["one two"] * 2, ["eins zwei", "zwei eins"])
    assert len(right) == len(wrong) == 3
    assert sum(right) == pytest.approx(model("one two").log_prob, abs=1e-4)
    assert sum(wrong) < sum(right) - 3


def test_an_ensemble_of_a_model_with_itself_is_the_model(model):
    both = model.ensemble(model)
    assert len(both.modules) == 2
    assert both("four five").text == "vier fünf"
    assert both("four five").score == pytest.approx(model("four five").score, abs=1e-5)


def test_loading_leaves_the_random_numbers_alone(folder):
    before = torch.get_rng_state()
    regard.load(folder, "cpu")
    assert torch.equal(before, torch.get_rng_state())


def test_inputs_are_texts(model):
    with pytest.raises(UsageError, match="input 1 is int"):
        model(["one", 2])
    with pytest.raises(UsageError, match="input 0 is not valid Unicode"):
        model("\udcff")


def test_a_folder_of_a_newer_version_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    facts = json.loads((copy / "run.json").read_text())
    (copy / "hashes.json").unlink()  # the newer version's own would fit
    (copy / "run.json").write_text(json.dumps(facts | {"format": 99}))
    with pytest.raises(CheckpointError, match="newer regard"):
        regard.load(copy)
    (copy / "run.json").unlink()
    (copy / "config.toml").write_text((folder / "config.toml").read_text() + "\n[future]\nkey = 1\n")
    with pytest.raises(CheckpointError, match=r"\[future\] is not a section") as problem:
        regard.load(copy)
    assert "another version" in problem.value.hint
