"""Written dates: real forms, right weekdays, one reading each, and days kept apart by split."""

import datetime
import re
from collections import defaultdict
from pathlib import Path

import pytest

from regard.data.synthetic.calendars import CALENDARS
from regard.data.synthetic.dates import LANGUAGES, SPLITS, date_pairs, split_of, write_dates
from regard.data.text.pairs import PairSource
from regard.errors import UsageError

GOLDEN = [
    ("el lunes, 27 de diciembre del 1965", "1965-12-27"),
    ("October 24th, 2045", "2045-10-24"),
    ("2055-10-12", "2055-10-12"),
]


@pytest.mark.parametrize(
    ("language", "day", "text"),
    [
        ("en", (2021, 3, 3), "the 3rd of March 2021"),
        ("en", (2021, 3, 3), "March 3rd, 2021"),
        ("en", (2021, 3, 3), "3 Mar 2021"),
        ("en", (2021, 3, 3), "Wednesday, March 3, 2021"),
        ("en", (1999, 12, 31), "the thirty-first of December 1999"),
        ("en", (2021, 12, 25), "12/25/2021"),
        ("de", (2021, 3, 2), "2. März 2021"),
        ("de", (2021, 3, 2), "Dienstag, den 2. März 2021"),
        ("de", (2021, 4, 3), "03.04.2021"),
        ("de", (2021, 5, 3), "am dritten Mai 2021"),
        ("fr", (2020, 5, 1), "le 1er mai 2020"),
        ("fr", (2021, 3, 2), "mardi 2 mars 2021"),
        ("fr", (2021, 12, 25), "25/12/2021"),
        ("es", (2021, 3, 3), "3 de marzo de 2021"),
        ("es", (2021, 3, 2), "martes, 2 de marzo de 2021"),
        ("es", (2021, 10, 31), "el treinta y uno de octubre de 2021"),
    ],
)
def test_forms_in_use(language: str, day: tuple[int, int, int], text: str) -> None:
    date, calendar = datetime.date(*day), CALENDARS[language]
    assert text in [calendar.write(date, form) for form in calendar.forms_for(date)]


def test_english_ordinals() -> None:
    ordinals = [CALENDARS["en"].ordinal(day) for day in range(1, 32)]
    assert [ordinals[day - 1] for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th", "31st"]
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_complete(language: str) -> None:
    calendar = CALENDARS[language]
    assert [len(set(names)) for names in (calendar.weekdays, calendar.short_weekdays)] == [7, 7]
    assert [len(set(names)) for names in (calendar.months, calendar.short_months)] == [12, 12]
    assert len(set(calendar.spelled)) == 31
    assert len(calendar.forms) + len(calendar.clear_forms) >= 15


def test_no_text_has_two_readings() -> None:
    readings: dict[str, set[datetime.date]] = defaultdict(set)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(n) for n in range(366)]
    for calendar in CALENDARS.values():
        for day in days:
            for form in calendar.forms_for(day):
                readings[calendar.write(day, form).lower()].add(day)
    assert [text for text, found in readings.items() if len(found) > 1] == []


def test_slashes_and_dashes_only_where_the_order_cannot_matter() -> None:
    for text, iso in date_pairs(20_000, 5):
        match = re.search(r"\b(\d{1,2})[/-](\d{1,2})[/-]\d{4}", text)
        if match:
            first, second = int(match[1]), int(match[2])
            assert first == second or max(first, second) > 12, (text, iso)


def test_weekdays_and_years_are_right() -> None:
    names = {name.lower(): n for n, name in enumerate(CALENDARS["en"].weekdays)}
    seen = 0
    for text, iso in date_pairs(5_000, 1, languages=("en",)):
        day = datetime.date.fromisoformat(iso)
        assert 1900 <= day.year <= 2099
        assert str(day.year) in text
        first = re.split(r"[ ,]", text.lower())[0]
        if first in names:
            seen += 1
            assert names[first] == day.weekday(), (text, iso)
    assert seen > 300


def test_seeded_endless_and_from_the_start_each_time() -> None:
    assert date_pairs(50, 7) == date_pairs(50, 7)
    assert date_pairs(60, 7)[:50] == date_pairs(50, 7)
    assert date_pairs(50, 8) != date_pairs(50, 7)


def test_the_stream_is_the_same_on_every_machine() -> None:
    assert date_pairs(3, 0, split="train") == GOLDEN


def test_languages_and_cases_vary() -> None:
    texts = [text for text, _ in date_pairs(4_000, 2)]
    assert len(set(texts)) > 3_800
    for sign in (
        "March",
        "März",
        "février",
        "fevrier",
        "septiembre",
        "setiembre",
        "Jänner",
        "sonntag",
        "OCTOBER",
        "Le ",
    ):
        assert any(sign in text for text in texts), sign
    assert not any("März" in text for text, _ in date_pairs(500, 2, languages=("en", "es")))


def test_splits_share_no_day() -> None:
    days = {split: {iso for _, iso in date_pairs(3_000, 1, split=split)} for split in SPLITS}
    assert not days["train"] & days["test"]
    assert not days["train"] & days["valid"]
    assert not days["valid"] & days["test"]
    calendar = [datetime.date(1900, 1, 1) + datetime.timedelta(n) for n in range(0, 73_049, 7)]
    shares = {split: sum(split_of(day) == split for day in calendar) / len(calendar) for split in SPLITS}
    assert shares == pytest.approx({"train": 0.85, "valid": 0.05, "test": 0.10}, abs=0.02)


def test_written_files_are_read_back(tmp_path: Path) -> None:
    paths = write_dates(tmp_path / "dates", n_train=40, n_valid=5, n_test=6, seed=9)
    assert {split: path.name for split, path in paths.items()} == {split: f"{split}.tsv" for split in SPLITS}
    for split, n in zip(SPLITS, (40, 5, 6), strict=True):
        found = [(pair.source, pair.target) for pair in PairSource(paths[split]).pairs()]
        assert found == date_pairs(n, 9, split=split)


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="dates are written in en, de, fr, es; given it"):
        date_pairs(1, 0, languages=("en", "it"))
    with pytest.raises(UsageError, match="given none"):
        date_pairs(1, 0, languages=())
    with pytest.raises(UsageError, match="split 'dev' is not known; allowed: train, valid, test"):
        date_pairs(1, 0, split="dev")
