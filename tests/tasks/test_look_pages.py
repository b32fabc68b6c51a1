"""A page and a picture of every task, from golden runs: what its header says, and what comes first."""

import json
import re
import shutil
from pathlib import Path

import pytest

import regard

GOLDEN = Path(__file__).parents[1] / "golden"
DATA = GOLDEN / "data"
INPUTS = {
    "images": (str(DATA / "images/test/lying/0.png"), "Image", "images · vit"),
    "captions": (str(next((DATA / "captions/pictures").glob("*.png"))), "Image", "captions · captioner"),
    "captions-transformer": (
        str(next((DATA / "captions/pictures").glob("*.png"))),
        "Image",
        "captions · transformer-captioner",
    ),
    "series": (str(DATA / "series/hours.csv"), "Series", "series · patch-forecaster · hours.csv"),
    "series-together": (str(DATA / "series/days.csv"), "Series", "series · series-transformer · days.csv"),
    "speech": (str(DATA / "speech/test-3.wav"), "Sound", "speech · speech-transformer"),
    "speech-las": (str(DATA / "speech/test-3.wav"), "Sound", "speech · las"),
    "translation": ("one two 🙂", None, "translation · transformer"),
    "language": ("the cat", None, "language · gpt"),
    "labels": ("the cat", None, "labels · classifier"),
}


def seen_by(name: str, folder: Path):
    run = shutil.copytree(GOLDEN / "finished" / name, folder / name)
    return regard.load(run, "cpu").look(INPUTS[name][0])


@pytest.mark.parametrize("name", INPUTS)
def test_every_task_has_a_page_in_the_same_frame(name, tmp_path):
    given, scene, about = INPUTS[name]
    path = seen_by(name, tmp_path).page(tmp_path / "seen.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 5e6
    record = json.loads(re.search(r'<script type="application/json" id="record">(.*?)</script>', text, re.DOTALL)[1])
    assert record["about"] == about
    assert (record["scene"]["name"] if scene else record.get("scene")) == scene
    if scene in ("Image", "Sound"):
        assert record["read"] == Path(given).name
    assert all(f'id="{part}"' in text for part in ("theme", "kicker", "scale", "grid", "tabs"))
    assert "{{" not in text
    assert not re.search(r"https?:|@import|url\(|<link|<img", text), "nothing is fetched from anywhere"


@pytest.mark.parametrize("name", ["images", "captions", "series", "speech"])
def test_pictures_are_drawn_on_both_papers(name, tmp_path):
    seen = seen_by(name, tmp_path)
    light, dark = seen.plot(tmp_path / "light.png"), seen.plot(tmp_path / "dark.png", dark=True)
    assert min(light.stat().st_size, dark.stat().st_size) > 5_000
    assert light.read_bytes() != dark.read_bytes()


def test_what_came_is_known_where_a_series_is_told_of_the_same_time(tmp_path):
    seen = seen_by("series-together", tmp_path)
    *_, last = (DATA / "series/days.csv").read_text().splitlines()
    assert seen.forecast.truth.tolist() == [pytest.approx(float(last.split(",")[1]), rel=1e-6)]
    bare = tmp_path / "bare.csv"
    rows = [line.split(",") for line in (DATA / "series/days.csv").read_text().splitlines()]
    bare.write_text("\n".join(f"{date},{b}" for date, _, b in rows) + "\n")
    alone = regard.load(tmp_path / "series-together", "cpu").look(str(bare))
    assert alone.forecast.truth is None
    assert seen_by("series", tmp_path).forecast.truth is None, "the future is not"


def test_a_record_keeps_whose_look_it_is(tmp_path):
    seen = seen_by("translation", tmp_path)
    again = regard.inspection.record.Look.load(seen.save(tmp_path / "a.json"))
    assert again.about == seen.about
    assert seen.by_words().about == seen.about
    assert seen.about.line == "translation · transformer"
