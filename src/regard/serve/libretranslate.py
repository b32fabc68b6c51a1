"""LibreTranslate's routes, so that its clients can be used as they are: `libretranslatepy`, browsers' extensions, apps.

A text is translated line by line, HTML by the stretches of text between its tags. Languages are those that the recipes
of the served translators name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Request

from regard.serve.asking import answers, fields_of, raised, texts, whole_number
from regard.serve.detecting import detect
from regard.serve.errors import ApiError
from regard.serve.keys import Keys
from regard.serve.markup import Piece, pieces, written
from regard.serve.served import Served, ServedModel
from regard.serve.tickets import Ask

PATHS = ("/translate", "/languages", "/detect", "/health", "/frontend/settings")
_MOST_ALTERNATIVES = 10
_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "fi": "Finnish", "fr": "French", "ga": "Irish", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sv": "Swedish", "th": "Thai",
    "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def libretranslate_routes(served: Served, keys: Keys) -> APIRouter:
    """The routes, for the translators among these models."""
    routes = APIRouter()

    async def admitted(request: Request) -> dict[str, Any]:
        """The fields of a request that has a key, wherever it stands."""
        bearer = request.headers.get("authorization", "").partition(" ")[2].strip()
        told = bearer or request.headers.get("x-api-key") or request.query_params.get("api_key")
        if keys.needed and told and not keys.admit(told):
            raise ApiError(403, "Invalid API key")
        fields, _ = await fields_of(request)
        fields = dict(request.query_params) | fields
        if not keys.admit(told or str(fields.get("api_key") or "")):
            raise ApiError(403, "Invalid API key" if fields.get("api_key") else "Please contact the server operator "
                           "to get an API key")  # fmt: skip
        return fields

    @routes.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process is there."""
        return {"status": "ok"}

    @routes.get("/languages")
    async def languages(request: Request) -> list[dict[str, Any]]:
        """What can be translated into what."""
        await admitted(request)
        pairs = [model.languages for model in served.models.values() if model.languages is not None]
        sources = sorted({source for source, _ in pairs})
        return [
            {"code": code, "name": _NAMES.get(code, code), "targets": [to for source, to in pairs if source == code]}
            for code in sources
        ]

    @routes.post("/detect")
    async def detected(request: Request) -> list[dict[str, Any]]:
        """Which of the served languages a text is in."""
        fields = await admitted(request)
        text = texts(fields.get("q"), "q", most=1, longest=served.limits.text)[0]
        return _detected(text, _sources(served))

    @routes.post("/translate")
    async def translate(request: Request) -> dict[str, Any]:
        """Translate a text, or several."""
        fields = await admitted(request)
        several = texts(fields.get("q"), "q", most=served.limits.inputs, longest=served.limits.text)
        if fields.get("format") not in (None, "", "text", "html"):
            raise ApiError(400, "format has to be text or html")
        marked = fields.get("format") == "html"
        n = whole_number(fields.get("alternatives") or 0, "alternatives", low=0, high=_MOST_ALTERNATIVES)
        found = _detected(" ".join(several)[:5000], _sources(served)) if fields.get("source") == "auto" else []
        source = str(found[0]["language"] if found else fields.get("source"))
        model = _translator(served, source, str(fields.get("target")))
        parted = [pieces(text) if marked else _lines(text) for text in several]
        said = await _translated(request, model, parted, n_alternatives=n, most=served.limits.inputs)
        translated = [_joined(own, written if marked else str) for own in said]
        told: dict[str, Any] = {"translatedText": [text for text, _ in translated]}
        told |= {"alternatives": [others for _, others in translated]} if n else {}
        told |= {"detectedLanguage": [found[0]] * len(several)} if found else {}
        return told if isinstance(fields.get("q"), list) else {name: value[0] for name, value in told.items()}

    @routes.get("/frontend/settings")
    async def settings(request: Request) -> dict[str, Any]:
        """What a page should know about this server."""
        await admitted(request)
        first = next((model.languages for model in served.models.values() if model.languages), ("en", "en"))
        names = [{"code": code, "name": _NAMES.get(code, code)} for code in first]
        return {
            "apiKeys": keys.needed,
            "charLimit": served.limits.text,
            "frontendTimeout": 500,
            "keyRequired": keys.needed,
            "language": {"source": names[0], "target": names[1]},
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    return routes


def _sources(served: Served) -> list[str]:
    return sorted({model.languages[0] for model in served.models.values() if model.languages is not None})


def _detected(text: str, codes: Sequence[str]) -> list[dict[str, Any]]:
    if not codes:
        raise ApiError(400, "no translator with known languages is served")
    return [{"language": code, "confidence": round(100 * share, 1)} for code, share in detect(text, codes)]


def _translator(served: Served, source: str, target: str) -> ServedModel:
    for model in served.models.values():
        if model.languages == (source, target):
            return model
    pairs = ", ".join("-".join(model.languages) for model in served.models.values() if model.languages) or "none"
    raise ApiError(400, f"{source[:20]}-{target[:20]} is not supported; served are: {pairs}")


def _lines(text: str) -> list[Piece]:
    """The lines of a text, each to be translated by itself; empty ones stay as they are."""
    lines = [line.strip("\r") if line.strip() else line for line in text.split("\n")]
    parted = [piece for line in lines for piece in (("\n", False), (line, bool(line.strip())))]
    return parted[1:]


async def _translated(
    request: Request, model: ServedModel, parted: Sequence[Sequence[Piece]], *, n_alternatives: int, most: int
) -> list[list[str | list[str]]]:
    """The pieces of each text: those that are translated in as many ways as asked for, the others as they are."""
    places = [(i, j) for i, own in enumerate(parted) for j, (_, translated) in enumerate(own) if translated]
    if len(places) > most:
        raise ApiError(400, f"q has {len(places)} lines or pieces of text; allowed are up to {most}")
    width = n_alternatives + 1
    options = {"beam": max(width, 2), "n_best": width} if n_alternatives else {}
    asks = [Ask(parted[i][j][0], options, finish=_all_texts) for i, j in places]
    said = {place: raised(one) for place, one in zip(places, await answers(request, model, asks), strict=True)}
    return [[said.get((i, j), piece) for j, (piece, _) in enumerate(own)] for i, own in enumerate(parted)]


def _joined(own: Sequence[str | list[str]], write: Callable[[str], str]) -> tuple[str, list[str]]:
    """A text of its pieces, and other ways to say it."""
    width = max((len(piece) for piece in own if isinstance(piece, list)), default=1)
    ways = ["".join(_nth(piece, k, write) for piece in own) for k in range(width)]
    return ways[0], list(dict.fromkeys(way for way in ways[1:] if way != ways[0]))


def _nth(piece: str | list[str], k: int, write: Callable[[str], str]) -> str:
    return piece if isinstance(piece, str) else write(piece[min(k, len(piece) - 1)])


def _all_texts(output: Any) -> list[str]:
    return [output.text, *(other.text for other in output.alternatives)]
