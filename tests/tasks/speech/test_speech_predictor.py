"""Transcribers as a whole: they write down what is said, say when, are scored, compared, looked into and verified."""

import itertools
import json

import numpy as np
import pytest
import torch

import tiny_speech
from regard.errors import ConfigError, DataError, UsageError
from regard.tasks.base import ScoreData
from regard.tasks.opening import load
from regard.tasks.speech.transcriber import pieces


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A Transformer that was trained on tones, and the table it was chosen by."""
    folder = tmp_path_factory.mktemp("speech")
    return tiny_speech.train_speech(folder, "train.steps=1000"), folder / "valid.csv"


@pytest.fixture(scope="module")
def model(made):
    return load(made[0], "cpu")


def heard(words, seed=77):
    return tiny_speech.spoken(words, seed=seed)


def test_it_writes_what_is_said_in_any_batch_and_by_any_strategy(model, tmp_path):
    texts = [["low"], ["top", "mid", "high"], ["mid", "low"]]
    paths = [str(tiny_speech.write_wav(tmp_path / f"{i}.wav", heard(words, i))) for i, words in enumerate(texts)]
    wanted = [" ".join(words) for words in texts]
    assert [said.text for said in model(paths)] == wanted
    assert [model(path).plain() for path in paths] == wanted
    for options in ({"beam": 3, "n_best": 2}, {"ctc": 1}, {"beam": 4, "ctc": 0.4}):
        assert [said.text for said in model(paths, **options)] == wanted, options
    record = model(paths[1], beam=3, n_best=3).record()
    assert len(record["alternatives"]) == 2
    assert record["tokens"] == ["▁top", "▁mid", "▁high"]
    assert record["seconds"] == pytest.approx(len(heard(texts[1], 1)) / 4000)
    assert json.loads(json.dumps(record)) == record


def test_another_rate_and_samples_in_memory_are_heard_alike(model, tmp_path):
    sound = heard(["high", "low"])
    twice = np.repeat(sound, 2)  # the same at twice the rate, but for overtones that resampling takes out
    assert model.transcribe(sound, 4000).text == model.transcribe(twice, 8000).text == "high low"
    with pytest.raises(UsageError, match="finite numbers"):
        model.transcribe(np.array([np.nan, 1.0]), 4000)
    with pytest.raises(DataError, match=r"gone.wav: no such file"):
        model(str(tmp_path / "gone.wav"))


def test_words_come_with_their_times(model):
    sound = heard(["low", "top", "mid"])
    words = model.transcribe(sound, 4000).words
    assert [word.word for word in words] == ["low", "top", "mid"]
    starts = [word.start for word in words]
    assert starts == sorted(starts)
    assert all(0 <= word.start < word.end <= len(sound) / 4000 + 0.05 for word in words)
    assert all(word.probability > 0.5 for word in words)
    middle = 0.03 + 0.12 + 0.045 + 0.06  # of the second tone
    assert words[1].start - 0.1 < middle < words[1].end + 0.1


def test_a_long_recording_is_cut_at_quiet_places(model):
    parts = [["low", "top", "mid"], ["high", "low", "top"]]
    sounds = [heard(words, i) for i, words in enumerate(parts)]
    long, most = np.concatenate(sounds), model.exact.most
    try:
        model.quick.most = model.exact.most = len(sounds[0]) + 60  # its pause lies within what is searched
        said = model.transcribe(long, 4000)
    finally:
        model.quick.most = model.exact.most = most
    assert said.text.split() == parts[0] + parts[1]
    assert [word.word for word in said.words] == said.text.split()
    starts = [word.start for word in said.words]
    assert starts == sorted(starts)
    assert said.words[3].start >= len(sounds[0]) / 4000 - 0.1
    assert said.finished


def test_pieces_end_where_it_is_quiet():
    chance = np.random.default_rng(0)
    loud = chance.standard_normal(1000).astype(np.float32)
    sound = np.concatenate([part for _ in range(5) for part in (loud, np.zeros(300, np.float32))])
    found = pieces(sound, 2700, 1000)
    assert (found[0][0], found[-1][1]) == (0, len(sound))
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(found))
    assert all(0 < end - begin <= 2700 for begin, end in found)
    assert all(1100 <= end % 1300 <= 1200 for _, end in found[:-1])  # in the middle: a word keeps silence behind it
    assert pieces(sound, len(sound), 1000) == [(0, len(sound))]
    assert pieces(loud, 1, 1000)[-1] == (999, 1000)


def test_scores_with_intervals(made, model):
    run, table = made
    found = next(iter(model.evaluate(ScoreData(files=[str(table)], made=run / "data"))))
    assert (found.n, found.unit) == (24, "recordings")
    assert found.metrics["WER"].value <= found.metrics["WER"].high <= 20
    assert found.outputs[0] == model.test_sets(ScoreData(files=[str(table)], made=run / "data"))[str(table)].texts[0]
    facts = json.loads((run / "run.json").read_text())
    assert facts["metrics"]["valid"]["WER"]["value"] == pytest.approx(found.metrics["WER"].value)
    with pytest.raises(UsageError, match="the recipe names no test set"):
        next(iter(model.evaluate(ScoreData(made=run / "data"))))


def test_two_models_are_compared_on_the_same_recordings(made, model):
    run, table = made
    worse = load(run, "cpu")
    with torch.no_grad():
        worse.exact.model.target_embedding.weight[4:] = 0
    worse.quick = worse.exact
    data = ScoreData(files=[str(table)], made=run / "data")
    compared = next(iter(model.compare(worse, data, resamples=50)))
    wer = {one.name: one for one in compared.comparisons}["WER"]
    assert compared.n == 24
    assert wer.score_b > wer.score_a + 50
    assert wer.low > 0
    same = next(iter(model.compare(load(run, "cpu"), data, resamples=20)))
    assert same.comparisons[0].difference == 0


def test_what_it_listened_to(made, model, tmp_path):
    sound = heard(["top", "low", "high"])
    path = tiny_speech.write_wav(tmp_path / "a.wav", sound)
    seen = model.look(str(path))
    assert seen.axes["target"].labels == ["▁top", "▁low", "▁high", "</s>"]
    n = model.exact.n_places(len(sound))
    assert (seen.axes["source"].kind, len(seen.axes["source"])) == ("frames", n)
    assert seen.axes["source"].labels[2] == "0.06 s"
    assert seen.weights["cross"].shape == (1, 2, 4, n)
    np.testing.assert_allclose(seen.weights["cross"].sum(-1), 1, rtol=1e-4)
    assert seen.listened().shape == (4, n)
    assert seen.plot(tmp_path / "seen.png").stat().st_size > 10_000
    assert seen.plot(tmp_path / "heads.png", picture="heads").exists()
    assert seen.page(tmp_path / "seen.html").exists()
    assert seen.outputs.given[0][1] > 0.5
    other = model.look(str(path), "low low", kinds=["self"])
    assert other.weights["self"].shape[2:] == (n, n)
    with pytest.raises(UsageError, match=r"not a picture's name"):
        seen.plot(tmp_path / "seen.txt")
    assert type(seen).load(seen.save(tmp_path / "seen.npz")).weights["cross"].shape == (1, 2, 4, n)


def test_every_window_of_a_long_recording_can_be_looked_at(model):
    parts = [["low", "top", "mid"], ["high", "low", "top"]]
    sounds = [heard(words, i) for i, words in enumerate(parts)]
    long, most = np.concatenate(sounds), model.exact.most
    try:
        model.quick.most = model.exact.most = len(sounds[0]) + 60
        first, second = model.looks((long, 4000))
        with pytest.raises(UsageError, match=r"window 2 was asked for; there are 0 to 1"):
            model.look((long, 4000), window=2)
        with pytest.raises(UsageError, match="a target was given, and the recording is read in 2 windows"):
            list(model.looks((long, 4000), "low"))
    finally:
        model.quick.most = model.exact.most = most
    assert [first.axes["target"].text, second.axes["target"].text] == ["low top mid", "high low top"]
    assert first.axes["source"].labels[0] == "0.00 s"
    begin = float(second.axes["source"].labels[0].split()[0])
    assert begin == pytest.approx(len(sounds[0]) / 4000, abs=0.1)
    assert second.sound.offset == pytest.approx(begin, abs=0.01)
    assert len(list(model.looks((sounds[0], 4000)))) == 1


def test_promises_hold(made, model):
    data = ScoreData(files=[str(made[1])], made=made[0] / "data")
    findings = list(model.verify(data, n=4)) + list(model.verify(ScoreData(made=made[0] / "data"), n=3))
    assert len(findings) == 18
    assert [one.promise for one in findings].count("a draw depends on its own text") == 2
    assert all(finding.kept for finding in findings), [f for f in findings if not f.kept]


def test_options_that_make_no_sense(model, tmp_path):
    path = str(tiny_speech.write_wav(tmp_path / "a.wav", heard(["low"])))
    with pytest.raises(ConfigError, match="which weighs the hypotheses of a beam"):
        model(path, ctc=0.3)
    with pytest.raises(ConfigError, match=r"decode\.ctc is 2\.0, from 0 to 1"):
        model(path, ctc=2)
    with pytest.raises(UsageError, match=r"decode\.prompt names '<\|nothing\|>'"):
        model(path, prompt=["<|nothing|>"])
    with pytest.raises(ConfigError, match=r"allowed are a layer and a head, such as '2\.5'"):
        model(path, heads=["two"])
    with pytest.raises(UsageError, match="names a head that is not there"):
        model(path, heads=["7.7"]).words  # noqa: B018 - read off when asked for


@pytest.mark.slow
@pytest.mark.parametrize("extra", [["model.attention=dot"], ["data.normal=global", "train.ctc=0.0"]])
def test_listen_attend_and_spell_learns_too(extra, tmp_path):
    run = tiny_speech.train_speech(tmp_path, "train.steps=320", "train.lr=0.01", *extra, model="las")
    found = json.loads((run / "run.json").read_text())["metrics"]["valid"]
    assert found["WER"]["value"] < 25
    model = load(run, "cpu")
    assert (model.front.scale is not None) == ("data.normal=global" in extra)
    if "train.ctc=0.0" in extra:
        path = str(tiny_speech.write_wav(tmp_path / "a.wav", heard(["low"])))
        with pytest.raises(UsageError, match="has no output for an alignment"):
            model(path, ctc=1)


def test_training_goes_on_from_a_run(made, tmp_path):
    more = ["train.steps=2", "train.eval_every=2", f"model.start={made[0]}"]
    run = tiny_speech.train_speech(tmp_path, *more)
    found = json.loads((run / "run.json").read_text())["metrics"]["valid"]
    assert found["WER"]["value"] < 30  # after two steps
