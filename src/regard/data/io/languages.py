"""Languages by the names that files and columns give them: `train.de`, `deu`, `German`, `deutsch` are all `de`."""

from __future__ import annotations

import re
from pathlib import PurePath

_NAMES = """
    ar ara arabic arabisch; bg bul bulgarian bulgarisch; bn; ca; cs ces cze czech tschechisch; da dan danish dänisch
    de deu ger german deutsch; el ell greek griechisch; en eng english englisch; es spa spanish spanisch
    et est estonian estnisch; eu; fa fas; fi fin finnish finnisch; fr fra fre french französisch; ga gle irish irisch
    gl; gu; he heb hebrew hebräisch; hi hin hindi; hr hrv croatian kroatisch; hu hun hungarian ungarisch; hy
    id ind indonesian; is; it ita italian italienisch; ja jpn japanese japanisch; ka; ko kor korean koreanisch
    lt lit lithuanian litauisch; lv lav latvian lettisch; mk; ml; mr; ms; mt; nb nob; nl nld dut dutch niederländisch
    nn; no nor norwegian norwegisch; pl pol polish polnisch; pt por portuguese portugiesisch
    ro ron rum romanian rumänisch; ru rus russian russisch; sk slk slovak slowakisch; sl slv slovenian slowenisch
    sq; sr srp; sv swe swedish schwedisch; sw; ta; te; th tha thai thailändisch; tl; tr tur turkish türkisch
    uk ukr ukrainian ukrainisch; ur; vi vie vietnamese; zh zho chi chinese chinesisch
"""
_CODES = {
    name: names[0]
    for line in _NAMES.strip().splitlines()
    for names in map(str.split, line.split(";"))
    for name in names
}
LANGUAGES = frozenset(_CODES)


def language_of(name: str) -> str | None:
    """The code of a language by its code or name, which may end a file's or a column's: `train.de.gz`, `text_en`."""
    ending = PurePath(name).name.lower().removesuffix(".gz").removesuffix(".txt").split(".")[-1]
    return _CODES.get(ending) or _CODES.get(re.split("[_-]", ending)[-1])


def languages_of(source: str, target: str) -> tuple[str, str] | None:
    """The codes of two languages by the names of their files or columns, where both tell one of their own."""
    first, second = language_of(source), language_of(target)
    return (first, second) if first and second and first != second else None
