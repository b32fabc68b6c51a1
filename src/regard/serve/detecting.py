"""Which language a text is in, among a few: by its characters, three at a time (Cavnar and Trenkle, 1994).

Each language is known by one short text, article 1 of the Universal Declaration of Human Rights with a few everyday
words; a text belongs to the language under which its trigrams are the likeliest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache

_TEXTS = {
    "en": "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience "
    "and should act towards one another in a spirit of brotherhood. the a is are was with on in of to and that this "
    "what where who you he she it we they his her have has not for man woman people one two day house water good",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt "
    "und sollen einander im Geist der Brüderlichkeit begegnen. der die das ein eine einen einem ist sind war mit auf "
    "in von zu und dass dieser was wo wer du er sie es wir ihr sein haben hat nicht für Mann Frau Leute zwei Tag Haus",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de "
    "conscience et doivent agir les uns envers les autres dans un esprit de fraternité. le la les un une des est sont "
    "était avec sur dans de du à et que ce cette qui où vous il elle nous ils son sa ses avoir ne pas pour homme femme",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y "
    "conciencia, deben comportarse fraternalmente los unos con los otros. el la los las un una es son era con en de "
    "del a y que este esta quién dónde usted él ella nosotros ellos su haber no para hombre mujer gente dos día casa",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati di ragione e di "
    "coscienza e devono agire gli uni verso gli altri in spirito di fratellanza. il lo la i gli le un una è sono era "
    "con su in di del a e che questo questa chi dove lui lei noi loro suo avere non per uomo donna gente due giorno",
    "pt": "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Dotados de razão e de "
    "consciência, devem agir uns para com os outros em espírito de fraternidade. o a os as um uma é são era com em de "
    "do da para e que este esta quem onde você ele ela nós eles seu sua ter não homem mulher pessoas dois dia casa",
    "nl": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren. Zij zijn begiftigd met verstand en "
    "geweten, en behoren zich jegens elkander in een geest van broederschap te gedragen. de het een is zijn was met op "
    "in van naar en dat deze wat waar wie jij hij zij wij hun hebben heeft niet voor man vrouw mensen twee dag huis",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i "
    "sumieniem i powinni postępować wobec innych w duchu braterstwa. jest są był z na w do i że ten ta to co gdzie kto",
    "cs": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni rozumem a svědomím a mají "
    "spolu jednat v duchu bratrství. je jsou byl s na v do a že ten ta to co kde kdo ty on ona my oni jeho mít ne pro",
    "sv": "Alla människor är födda fria och lika i värde och rättigheter. De är utrustade med förnuft och samvete och "
    "bör handla gentemot varandra i en anda av broderskap. en ett är var med på i av till och att denna vad vem du han",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и "
    "должны поступать в отношении друг друга в духе братства. это был с на в к и что этот где кто ты он она мы они не",
    "uk": "Всі люди народжуються вільними і рівними у своїй гідності та правах. Вони наділені розумом і совістю і "
    "повинні діяти у відношенні один до одного в дусі братерства. це був з на в до і що цей де хто ти він вона ми вони",
}
_SMALLEST = 0.2  # what a trigram counts that a text does not have


def detect(text: str, codes: Sequence[str]) -> list[tuple[str, float]]:
    """The languages among these, the likeliest first, with how likely each is; those of no known text come last."""
    grams = _grams(text)
    known = [code for code in dict.fromkeys(codes) if code in _TEXTS]
    scores = {code: sum(n * _log_prob(gram, code) for gram, n in grams.items()) for code in known}
    top = max(scores.values(), default=0.0)
    shares = {code: math.exp(score - top) if grams else 1.0 for code, score in scores.items()}
    total = sum(shares.values()) or 1.0
    ranked = sorted(((code, share / total) for code, share in shares.items()), key=lambda pair: -pair[1])
    return ranked + [(code, 0.0) for code in dict.fromkeys(codes) if code not in _TEXTS]


def _log_prob(gram: str, code: str) -> float:
    counts, total = _profile(code)
    return math.log((counts.get(gram, 0) + _SMALLEST) / total)


@cache
def _profile(code: str) -> tuple[Counter[str], float]:
    counts = _grams(_TEXTS[code])
    return counts, sum(counts.values()) + _SMALLEST * 10_000


def _grams(text: str) -> Counter[str]:
    kept = "".join(sign if sign.isalpha() else " " for sign in text[:2000].lower())
    words = (f" {word} " for word in kept.split())
    return Counter(word[i : i + 3] for word in words for i in range(len(word) - 2))
