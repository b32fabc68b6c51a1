"""Which columns of a table are meant, by the names that people give them.

    match_columns(["Review", "stars"], ("text", "label"), where="a.csv:1")    {"text": "Review", "label": "stars"}
    flat({"translation": {"en": "a", "de": "b"}})                       {"translation.en": "a", "translation.de": "b"}

A role (text, label, source, …) is found under its own name, else under one of its common names in English and German,
else as the last word of a longer name (`review_text`), else under a name that other columns often have too (`title`).
Two columns that are equally good are an error, not a guess; its hint names settings that can be typed as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from regard.data.io.languages import LANGUAGES
from regard.errors import DataError

_NUMBERING = ("id", "no")  # Indonesian and Norwegian, but more often the number of a row

_PATHS = "path file filename filepath datei dateiname pfad"
_TEXTS = (
    "text texts sentence sentences review comment body content message tweet post utterance document query prompt"
    " transcript transcription"
)
_TEXTS_DE = "transkript satz inhalt kommentar bewertungstext rezension nachricht beitrag dokument anfrage"
_NAMES = {  # role: common names; those after "|" are weak, for other columns often have them too
    "text": f"{_TEXTS} {_TEXTS_DE} | question frage description beschreibung title titel headline überschrift summary",
    "label": "label labels class classes category categories target sentiment stars rating score tag topic intent"
    " emotion kategorie klasse etikett ziel stimmung sterne bewertung note thema | y output type typ art genre",
    "source": "source src input original quelle ausgangstext eingabe | text",
    "target": "target tgt trg output translation translated ziel zieltext übersetzung ausgabe | label",
    "image": f"image images img picture photo pic jpg png bild foto {_PATHS} | name id url",
    "caption": "caption captions text description comment sentence alt bildunterschrift beschreibung untertitel satz"
    " | title titel label",
    "audio": f"audio recording wav mp3 flac sound clip speech aufnahme tonaufnahme {_PATHS} | name id url",
    "ds": "ds date dates datetime time timestamp day datum zeit zeitpunkt zeitstempel tag | month year week monat jahr"
    " woche period index",
    "y": "y value values target wert werte zielwert messwert | sales demand close price load amount count quantity"
    " total umsatz absatz menge preis anzahl verbrauch",
    "unique_id": "uniqueid series seriesid item itemid ticker symbol sku product productid store storeid station sensor"
    " reihe zeitreihe artikel artikelnummer filiale produkt | id key name group gruppe",
    "question": "question query frage",
    "answer": "answer response reply antwort | output",
}
STRONG = {role: frozenset(names.partition("|")[0].split()) for role, names in _NAMES.items()}
_WEAK = {role: frozenset(names.partition("|")[2].split()) for role, names in _NAMES.items()}
_ROW_NUMBERS = re.compile(r"(id|uid|uuid|guid|key|index|nr|no|row|line|zeile)?|unnamed\d*|\d+")
_MEASURES = "id ids nr no num number count length len size date time url lang language source"  # last words
_WORD = re.compile(r"[A-ZÄÖÜ]?[a-zäöüßé]+|[A-ZÄÖÜ]+(?![a-zäöü])|\d+|[^\W\d_]+")
_DEPTH = 8


def match_columns(
    header: Sequence[str],
    roles: Sequence[str],
    *,
    where: str,
    optional: Sequence[str] = (),
    keys: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The column of each role, by its name. An `optional` role that no column fits is left out; others are an error.

    `keys` are the settings that name the columns, for the hint: {"text": "data.text"}, which is also the default.
    """
    chosen, rivals = _by_names(header, [*roles, *optional])
    if {"source", "target"} <= set(roles):
        _by_languages(header, chosen, rivals)
    free = [name for name in header if name not in chosen.values() and not _ROW_NUMBERS.fullmatch(_joined(name))]
    lacking = [role for role in roles if role not in chosen and role not in rivals]
    if len(lacking) == len(free) == 1 and not rivals:
        chosen[lacking.pop()] = free[0]  # the only column that is left
    if not lacking and not rivals:
        return {role: chosen[role] for role in (*roles, *optional) if role in chosen}
    problems = [f"several columns could be the {role}: {_listed(names)}" for role, names in rivals.items()]
    if lacking:
        problems.append(f"no column looks like the {' or the '.join(lacking)}; it has: {_listed(header)}")
    wanted = [role for role in (*roles, *optional) if role in roles or role in chosen or role in rivals]
    raise DataError(f"{where}: {'; '.join(problems)}", hint=_hint(wanted, chosen, rivals, free, keys or {}))


def is_known_name(name: str) -> bool:
    """Whether a cell reads as the name of a column: one of the common names of a role, a language, a row number."""
    joined = _joined(name)
    if not joined or joined.isdigit():
        return False
    known = joined in LANGUAGES or any(joined in names for names in STRONG.values())
    return known or _ROW_NUMBERS.fullmatch(joined) is not None


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a JSON object by their paths, such as "translation.de"; lists stay whole, and so do empty objects.

    A key that is itself written with a point goes before a path that reads the same.
    """
    return dict(_leaves(record, "", _DEPTH)) | {key: value for key, value in record.items() if not _holds(value)}


def flat_names(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of JSON objects, in the order in which they turn up."""
    return list(dict.fromkeys(name for record in records for name in flat(record)))


def _leaves(record: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if depth and _holds(value):
            yield from _leaves(value, f"{prefix}{key}.", depth - 1)
        else:
            yield f"{prefix}{key}", value


def _holds(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value)


def _by_names(header: Sequence[str], roles: Sequence[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The columns that are the best of their role, and those that are best together with others."""
    chosen: dict[str, str] = {}
    rivals: dict[str, list[str]] = {}
    for tier in range(4):
        for role in roles:
            if role in chosen or role in rivals:
                continue
            fitting = [name for name in header if name not in chosen.values() and _tier(name, role) == tier]
            if len(fitting) == 1:
                chosen[role] = fitting[0]
            elif fitting:
                rivals[role] = fitting
    return chosen, rivals


def _tier(name: str, role: str) -> int | None:
    """How well a name fits a role: 0 is the role itself, 3 a weak guess, None not at all."""
    words, joined = _words(name), _joined(name)
    strong, weak = STRONG.get(role, frozenset()), _WEAK.get(role, frozenset())
    if joined == _joined(role):
        return 0
    if joined in strong:
        return 1
    if words and (words[-1] in strong or words[-1] == role):
        return 2
    begins = bool(words) and (words[0] in strong or words[0] == role) and words[-1] not in _MEASURES.split()
    return 3 if joined in weak or begins else None


def _by_languages(header: Sequence[str], chosen: dict[str, str], rivals: dict[str, list[str]]) -> None:
    """Two columns called by languages are source and target, in the order of the table."""
    if any(_tier(chosen[role], role) != 3 for role in ("source", "target") if role in chosen):
        return
    found = [name for name in header if _is_language(name)]
    if len(found) > 2:
        found = [name for name in found if _joined(name) not in _NUMBERING]
    if len(found) < 2:
        return
    for role in ("source", "target"):
        chosen.pop(role, None)
        rivals.pop(role, None)
        if len(found) > 2:
            rivals[role] = found
    if len(found) == 2:
        chosen["source"], chosen["target"] = found


def _is_language(name: str) -> bool:
    words = _words(name)
    return bool(words) and (words[-1] in LANGUAGES or (words[0] in LANGUAGES and len(words) == 2))


def _words(name: str) -> list[str]:
    """`reviewText`, `review_text` and `Review text` are two words each."""
    return [word.lower() for word in _WORD.findall(name)]


def _joined(name: str) -> str:
    return "".join(_words(name))


def _hint(
    roles: Sequence[str],
    chosen: Mapping[str, str],
    rivals: Mapping[str, Sequence[str]],
    free: Sequence[str],
    keys: Mapping[str, str],
) -> str:
    taken = set(chosen.values())
    settings = []
    for role in roles:
        offered = [chosen[role]] if role in chosen else [name for name in rivals.get(role, free) if name not in taken]
        if not offered:
            return "a table with a column for each is needed"
        taken.add(offered[0])
        value = offered[0].replace("\\", "\\\\").replace('"', '\\"')
        settings.append(f'{keys.get(role, f"data.{role}")}="{value}"')
    return f"say which: {' '.join(settings)}"


def _listed(names: Sequence[str]) -> str:
    return (", ".join(names[:12]) + (", …" if len(names) > 12 else "")) or "none"
