"""A task to learn in minutes, without a download: dates as people write them → ISO 8601.

    "Dienstag, den 2. März 2021" → "2021-03-02"          "the 3rd of March 2021" → "2021-03-03"

Endless, seeded, in four languages, for the years 1900 to 2099. Calendar days, not texts, are dealt out to train, valid
and test, by a hash of the day: a model that is right on test has understood dates that it has never seen.
"""

import datetime
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random

from regard.data.synthetic.calendars import CALENDARS, Calendar
from regard.errors import UsageError

LANGUAGES = tuple(CALENDARS)
SPLITS = ("train", "valid", "test")
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)


def split_of(day: datetime.date) -> str:
    """The split a calendar day belongs to: 85 % train, 5 % valid, 10 % test."""
    bucket = int.from_bytes(blake2b(day.isoformat().encode(), digest_size=8).digest()) % 20
    return "train" if bucket >= 3 else "valid" if bucket == 2 else "test"


def date_pairs(
    n: int, seed: int, *, split: str | None = None, languages: Sequence[str] = LANGUAGES
) -> list[tuple[str, str]]:
    """The first `n` pairs (text, ISO date) of a stream that has no end, and is the same for the same seed."""
    unknown = [language for language in languages if language not in CALENDARS]
    if unknown or not languages:
        raise UsageError(f"dates are written in {', '.join(LANGUAGES)}; given {', '.join(unknown) or 'none'}")
    if split not in (None, *SPLITS):
        raise UsageError(f"split '{split}' is not known; allowed: {', '.join(SPLITS)}")
    # A string seed is hashed the same way on every machine; the split keeps the streams apart.
    random = Random(f"dates/{seed}/{split}")
    pairs: list[tuple[str, str]] = []
    while len(pairs) < n:
        day = datetime.date.fromordinal(random.randint(FIRST.toordinal(), LAST.toordinal()))
        if split in (None, split_of(day)):
            calendar = CALENDARS[random.choice(languages)]
            pairs.append((_write(day, calendar, random), day.isoformat()))
    return pairs


def _write(day: datetime.date, calendar: Calendar, random: Random) -> str:
    text = calendar.write(day, random.choice(calendar.forms_for(day)))
    if random.random() < 0.15:
        for usual, other in calendar.variants.items():
            text = text.replace(usual, other)
    return random.choices((str, str.lower, str.upper, _capital), weights=(70, 12, 6, 12))[0](text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def write_dates(
    folder: Path | str, *, n_train: int, n_valid: int, n_test: int, seed: int, languages: Sequence[str] = LANGUAGES
) -> dict[str, Path]:
    """Write train.tsv, valid.tsv and test.tsv (text, tab, ISO date; no header); the path of each."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {split: folder / f"{split}.tsv" for split in SPLITS}
    for split, n in zip(SPLITS, (n_train, n_valid, n_test), strict=True):
        with open(paths[split], "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{text}\t{iso}\n" for text, iso in date_pairs(n, seed, split=split, languages=languages))
    return paths
