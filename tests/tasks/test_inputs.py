"""What people have is taken as it is: a file, and the same in memory, give the same output."""

import shutil
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.data.images.inputs import pixels_of
from regard.data.series.inputs import series_of
from regard.errors import DataError, UsageError
from regard.models.bert import Bert
from regard.tasks.labels.predictor import LabelPredictor
from regard.tasks.masked.predictor import MaskedPredictor

GOLDEN = Path(__file__).parents[1] / "golden"
BARS = GOLDEN / "data" / "images" / "test" / "lying" / "0.png"
HALVES = GOLDEN / "data" / "captions" / "pictures" / "red-blue-2.png"
TONES = GOLDEN / "data" / "speech" / "test-0.wav"
HOURS = GOLDEN / "data" / "series" / "hours.csv"


def golden(name):
    return regard.load(GOLDEN / "finished" / name, "cpu")


@pytest.fixture(scope="module")
def images():
    return golden("images")


@pytest.fixture(scope="module")
def captions():
    return golden("captions")


@pytest.fixture(scope="module")
def speech():
    return golden("speech")


@pytest.fixture(scope="module")
def series():
    return golden("series")


def forms_of(path):
    """An image in every form it may have."""
    pixels = np.array(Image.open(path).convert("RGB"))
    first = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    return {
        "text": str(path),
        "path": path,
        "pillow": Image.open(path),
        "channels last": pixels,
        "channels first": first,
        "floats": pixels / 255,
        "tensor": torch.from_numpy(first),
        "tensor of floats": torch.from_numpy(first).float() / 255,
        "tensor, channels last": torch.from_numpy(pixels),
    }


@pytest.mark.parametrize("form", [*forms_of(BARS)])
def test_images_of_every_form_are_the_same_class(images, form):
    assert images(forms_of(BARS)[form]) == images(str(BARS))
    assert images([forms_of(BARS)[form], str(BARS)]) == images([str(BARS)] * 2)


@pytest.mark.parametrize("form", [*forms_of(HALVES)])
def test_images_of_every_form_have_the_same_caption(captions, form):
    one, other = captions(forms_of(HALVES)[form], beam=2, n_best=2), captions(HALVES, beam=2, n_best=2)
    assert (one.text, one.ids, one.alternatives[0].text) == (other.text, other.ids, other.alternatives[0].text)
    assert one.score == pytest.approx(other.score)
    assert one.image == (str(HALVES) if form in ("text", "path", "pillow") else "")


def test_an_array_of_images_is_several_and_grey_is_all_channels(images):
    pixels = np.array(Image.open(BARS).convert("RGB"))
    assert images(np.stack([pixels, pixels])) == images([BARS, BARS])
    grey = np.array(Image.open(BARS).convert("L"))
    assert (
        images(grey) == images(np.stack([grey] * 3)) == images(grey[..., None]) == images(Image.open(BARS).convert("L"))
    )
    assert images([]) == []


def test_larger_images_are_cut_as_their_files_are(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    expected = pixels_of(tmp_path / "a.png", size=12)
    assert expected.shape == (3, 12, 12)
    for form in forms_of(tmp_path / "a.png").values():
        assert torch.equal(pixels_of(form, size=12), expected)


def test_what_is_looked_at_may_be_in_memory(images, captions):
    for model, path in ((images, BARS), (captions, HALVES)):
        pixels = np.array(Image.open(path).convert("RGB"))
        one, other = model.look(pixels), model.look(path)
        assert one.maps.keys() == other.maps.keys()
        for kind, found in one.maps.items():
            np.testing.assert_allclose(found.weights, other.maps[kind].weights, atol=1e-6)


def test_what_is_no_image(images):
    with pytest.raises(UsageError, match=r"input 2 is a dict; a path, an image, an array or a tensor was expected"):
        images([BARS, BARS, {}])
    with pytest.raises(UsageError, match=r"input 0 is a dict"):
        images({"image": 1})
    with pytest.raises(UsageError, match=r"input 0 is an int"):
        images(3)
    with pytest.raises(UsageError, match=r"input 1 has the shape \(4, 4, 7\); \(H, W, 3\), \(3, H, W\) or \(H, W\)"):
        images([BARS, np.zeros((4, 4, 7), np.uint8)])
    with pytest.raises(UsageError, match=r"input 0 holds float64 from -1 to 1; uint8 from 0 to 255 or floats from 0"):
        images(np.linspace(-1, 1, 12).reshape(2, 2, 3))
    with pytest.raises(UsageError, match=r"input 0 holds int64"):
        images(np.zeros((2, 2, 3), np.int64))
    with pytest.raises(DataError, match=r"gone.png: cannot be read"):
        images("gone.png")


def recording():
    with wave.open(str(TONES)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2"), file.getframerate()


def test_recordings_of_every_form_are_written_alike(speech):
    whole, rate = recording()
    floats = whole / np.float32(32768)
    expected = speech(str(TONES))
    forms = [TONES, (floats, rate), (whole, rate), (torch.from_numpy(floats), rate), (floats.tolist(), rate)]
    forms += [(np.stack([floats, floats], 1), rate), (np.stack([floats, floats]), rate)]
    for form in forms:
        said = speech(form)
        assert (said.text, said.ids) == (expected.text, expected.ids)
        assert said.score == pytest.approx(expected.score, abs=1e-5)
    for form in (floats, torch.from_numpy(floats), floats.tolist()):
        assert speech(form, rate=rate).text == expected.text
    assert [one.text for one in speech([floats, floats], rate=rate, beam=2)] == [speech(TONES, beam=2).text] * 2
    assert speech.transcribe(floats, rate).text == expected.text
    assert speech.look((floats, rate)).weights["cross"].shape == speech.look(TONES).weights["cross"].shape


def test_what_is_no_recording(speech):
    with pytest.raises(UsageError, match=r"input 1 is a dict; a path, samples, or \(samples, rate\) was expected"):
        speech([TONES, {}])
    with pytest.raises(UsageError, match=r"input 0 is samples without a rate"):
        speech(np.zeros(400, np.float32))
    with pytest.raises(UsageError, match=r"input 0 has samples of shape \(2, 2, 2\)"):
        speech((np.zeros((2, 2, 2)), 2000))
    with pytest.raises(UsageError, match=r"input 0 has samples of shape \(3,\); allowed are finite numbers"):
        speech((np.array([0.0, np.nan, 0.0]), 2000))


class Frame(dict):
    """What a table of pandas looks like from here."""

    @property
    def columns(self):
        return list(self)


class Index(list):
    dtype, name = "datetime64[ns]", None


def columns_of_hours():
    header, *rows = (line.split(",") for line in HOURS.read_text().splitlines())
    dates, one, two = zip(*rows, strict=True)
    return header, list(dates), [float(value) for value in one], [float(value) for value in two]


def assert_same_forecast(one, other):
    assert (list(one.times), one.targets) == (list(other.times), other.targets)
    np.testing.assert_allclose(one.values, other.values)


def test_tables_of_every_form_are_forecast_alike(series):
    header, dates, one, two = columns_of_hours()
    assert header == ["date", "one", "two"]
    expected = series(str(HOURS))
    table = {"date": dates, "one": one, "two": two}
    frame = Frame(one=np.array(one), two=np.array(two))
    frame.index = Index(np.array(dates, "datetime64[s]"))
    moments = table | {"date": np.array(dates, "datetime64[s]")}
    for form in (HOURS, table, moments, Frame(table), frame):
        assert_same_forecast(series(form), expected)
    for forecast in series([table, HOURS]):
        assert_same_forecast(forecast, expected)
    assert series.look(table).maps.keys() == series.look(HOURS).maps.keys()


def test_a_frame_of_pandas(series):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(HOURS)
    assert_same_forecast(series(frame), series(HOURS))
    dated = frame.assign(date=pandas.to_datetime(frame["date"])).set_index("date")
    assert_same_forecast(series(dated), series(HOURS))


def test_an_array_goes_by_the_order_of_its_columns():
    found = series_of(np.arange(6.0).reshape(3, 2), columns=["a", "b"])
    assert found.columns == ("a", "b")
    assert found.values.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert series_of(np.arange(3), columns=["a"]).values[:, 0].tolist() == [0, 1, 2]
    with pytest.raises(UsageError, match=r"input 0 has the shape \(3,\); \(n, 2\) was expected: a, b"):
        series_of(np.arange(3), columns=["a", "b"], name="input 0")


def test_what_is_no_series(series):
    with pytest.raises(UsageError, match=r"input 1 is an int; a path, a table of columns or an array was expected"):
        series([HOURS, 3])
    with pytest.raises(DataError, match=r"input 0: its columns have date 2, one 1 rows"):
        series({"date": ["2020-01-01", "2020-01-02"], "one": [1.0]})
    with pytest.raises(DataError, match=r"input 0:1: no column 'two'; it has: date, one"):
        series({"date": ["2020-01-01"], "one": [1.0]})
    with pytest.raises(DataError, match=r"input 0:2: two is 'x'"):
        series({"date": ["2020-01-01"], "one": [1.0], "two": ["x"]})
    with pytest.raises(DataError, match="has no date column, and the model was trained on dates"):
        series(np.zeros((40, 2)))


def test_a_run_is_scored_on_files_as_on_the_command_line(tmp_path, monkeypatch):
    for name in ("data/pairs", "finished/translation"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    model = regard.load("finished/translation", "cpu")
    (recipes,) = model.evaluate()
    (given,) = model.evaluate("data/pairs/test.tsv")
    (found,) = model.evaluate(Path("pairs/test.tsv"), data_root="data")
    assert (recipes.data, given.data, found.data) == ("numerals", "data/pairs/test.tsv", "pairs/test.tsv")
    assert recipes.metrics == given.metrics == found.metrics
    assert str(given).splitlines()[0] == "data/pairs/test.tsv: 10 pairs"
    assert str(given).splitlines()[1].split()[:2] == ["BLEU", f"{given.metrics['bleu'].value:.2f}"]
    assert repr(given).startswith("<Evaluation on data/pairs/test.tsv, 10 pairs: BLEU ")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    assert model.evaluate(["pairs/test.tsv"], by_length=True)[0].by_length[0].n == 10
    (compared,) = model.compare(model, "pairs/test.tsv", resamples=10)
    assert [each.name for each in compared.comparisons] == ["BLEU", "chrF", "TER"]
    assert str(compared).count("no significant difference") == 3
    assert all(check.kept for check in model.verify("pairs/test.tsv", n=4))
    with pytest.raises(DataError, match=r"gone.tsv: there is no such file"):
        model.evaluate("gone.tsv")


def test_texts_have_the_parts_that_a_model_reads():
    assert golden("answers").parts == ("question", "passage")
    labels = golden("labels")
    assert labels.parts == ("text",)
    config = replace(labels.config, data=replace(labels.config.data, pair="second"))
    pairs = LabelPredictor(labels.module, labels.labeller.template, labels.space, config)
    assert pairs.parts == ("first text", "second text")
    masked = golden("masked")
    for heads, parts in ((("mlm",), ("text",)), (("nsp",), ("first text", "second text")), ((), ())):
        model = Bert(replace(masked.bert.config, mlm="mlm" in heads, nsp="nsp" in heads))
        assert MaskedPredictor(model, masked.tokenizer, masked.config).parts == parts
