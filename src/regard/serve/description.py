"""What a server understands and answers, as an OpenAPI document: `/openapi.json`.

Bodies are read by hand, for they may be JSON or forms and are bounded before they are believed; so they are described
by hand, too, and tests hold what is described to what is answered. Models, languages, suffixes and limits are those of
the server that describes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args, get_origin

import regard
from regard.config.settings import Setting, settings_of
from regard.serve.served import Served
from regard.tasks.registry import Ability

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer"}
_TRUTH: Schema = {"type": "boolean"}
_BINARY: Schema = {"type": "string", "format": "binary"}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "required": True, "schema": {"type": "integer"}}}


def openapi(served: Served, *, keys: bool) -> Schema:
    """The whole document; `keys` says whether one has to be sent."""
    paths = _state_paths() | _own_paths(served) | _openai_paths(served) | _libretranslate_paths(served)
    needed: Schema = {"security": [{"bearer": []}, {"header": []}]} if keys else {}
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "regard", "version": regard.__version__},
        "paths": paths,
        "components": {"schemas": _SCHEMAS | {"Decode": _decode(served)}, "securitySchemes": schemes},
        **needed,
    }


# ---- parts of a description


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Schema, **bounds: int) -> Schema:
    return {"type": "array", "items": items, **bounds}


def _object(required: Sequence[str] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _or(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def _optional(schema: Schema) -> Schema:
    return _or(schema, {"type": "null"})


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _answer(what: str, content: Schema, *, headers: Schema | None = None) -> Schema:
    return {"description": what, "content": content, **({"headers": headers} if headers else {})}


def _errors(schema: str, *, asks: bool) -> Schema:
    """What may be answered instead; whoever asks a model may come too early, too late or too often."""
    error = _json(_ref(schema))
    found = {
        "400": _answer("Something is wrong with the request.", error),
        "401": _answer("A key is needed.", error),
        "403": _answer("The key is not known.", error),
        "404": _answer("There is no such model.", error),
        "413": _answer("The request is too long.", error),
    }
    busy = {
        "429": _answer("Too many are waiting.", error, headers=_RETRY),
        "503": _answer("It took too long, or the server is stopping.", error, headers=_RETRY),
    }
    return found | (busy if asks else {})


def _get(what: str, schema: Schema, *, error: str = "Error", parameters: Sequence[Schema] = ()) -> Schema:
    answers = {"200": _answer(what, _json(schema))} | _errors(error, asks=False)
    return {"get": {"summary": what, "responses": answers, **({"parameters": list(parameters)} if parameters else {})}}


def _post(what: str, body: Schema, content: Schema, *, error: str = "Error") -> Schema:
    answers = {"200": _answer(what, content)} | _errors(error, asks=True)
    return {"post": {"summary": what, "requestBody": {"required": True, "content": body}, "responses": answers}}


# ---- what is known of the models


def _models(served: Served, *able: Ability) -> Schema:
    names = [one.name for one in served.models.values() if not able or any(map(one.does, able))]
    return {"type": "string", "enum": names} if names else {"type": "string"}


def _input(served: Served, **bounds: int) -> Schema:
    return {"type": "string", "maxLength": served.limits.text, **bounds}


def _decode(served: Served) -> Schema:
    """Every setting of a [decode] section that one of the models has."""
    found: dict[str, Setting] = {}
    for model in served.models.values():
        own = settings_of(type(model.predictor.config.decode))
        found |= {name: one for name, one in own.items() if not one.unused and name not in found}
    properties = {name: _setting(one, served.limits.length) for name, one in found.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _setting(one: Setting, longest: int) -> Schema:
    schema = _type(one.type)
    bounds = {"minimum": one.bounds.ge, "exclusiveMinimum": one.bounds.gt, "maximum": one.bounds.le}
    inner = schema.get("items", schema)
    if inner.get("type") in ("integer", "number"):
        inner |= {name: value for name, value in bounds.items() if value is not None}
    if one.name == "max_length":
        inner["maximum"] = longest
    if one.choices:
        schema = {"enum": list(one.choices)}
    return schema | ({"description": one.what} if one.what else {})


def _type(annotation: Any) -> Schema:
    names: Mapping[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
    if annotation in names:
        return {"type": names[annotation]}
    if get_origin(annotation) is tuple:
        return _list(_type(get_args(annotation)[0]))
    return {}


# ---- the routes


def _state_paths() -> Schema:
    state = _object(["status"], status={"const": "ok"})
    stopping = {"503": _answer("The server is stopping.", _json(_ref("Error")), headers=_RETRY)}
    ready = _get("Whether it takes requests.", state)
    ready["get"]["responses"] |= stopping
    figures = _get("Figures for Prometheus.", _TEXT)
    figures["get"]["responses"]["200"]["content"] = {"text/plain": {"schema": _TEXT}}
    live = _get("Whether the process is there.", state)
    live["get"]["security"] = []
    return {"/live": live, "/ready": ready, "/metrics": figures}


def _own_paths(served: Served) -> Schema:
    limits = served.limits
    one = _or(_input(served), _ref("File"))
    fields = {
        "model": _models(served),
        "input": _or(one, _list(one, minItems=1, maxItems=limits.inputs)),
        "decode": _ref("Decode"),
        "prefix": _TEXT,
        "stop": _or(_TEXT, _list(_TEXT)),
    }
    form = {"model": _models(served), "file": _BINARY, "input": _input(served), "decode": _TEXT}
    look = {"model": fields["model"], "input": one, "target": _input(served), "format": {"enum": list(_LOOKS)}}
    sent = {"model": fields["model"], "file": _BINARY, "format": look["format"]}
    parameter = {"name": "name", "in": "path", "required": True, "schema": _models(served)}
    predict = _json(_object(["model", "input"], **fields)) | _form(_object(["model"], **form))
    shown = {kind: {"schema": schema} for kind, schema in _LOOKS.values()}
    return {
        "/v1/models": _get("What is served.", _object(["object", "data"], object=_TEXT, data=_list(_ref("Model")))),
        "/v1/models/{name}": _get("One of the models.", _ref("Model"), parameters=[parameter]),
        "/v1/predict": _post("What `regard predict` says to each input.", predict, _json(_ref("Predictions"))),
        "/v1/look": _post(
            "What the model looked at.",
            _json(_object(["model", "input"], **look)) | _form(_object(["model", "file"], **sent)),
            shown,
        ),
    }


_LOOKS: Mapping[str, tuple[str, Schema]] = {
    "record": ("application/json", {"type": "object"}),
    "page": ("text/html", _TEXT),
    "picture": ("image/png", {}),
}


def _form(schema: Schema) -> Schema:
    return {"multipart/form-data": {"schema": schema}}


def _openai_paths(served: Served) -> Schema:
    limits = served.limits
    several = _list(_input(served), minItems=1, maxItems=limits.inputs)
    ids = _list({"type": "integer", "minimum": 0}, minItems=1)
    prompt = _or(_input(served), several, ids, _list(ids, minItems=1, maxItems=limits.inputs))
    message = _object(["role", "content"], role=_TEXT, content=_or(_input(served), _list(_ref("Part"))))
    events: Schema = {"text/event-stream": {}}  # each a chunk in OpenAI's shape
    writing = _writing(served) | {"model": _models(served, "continue", "translate")}
    chat = writing | {"model": _models(served, "continue"), "max_completion_tokens": writing["max_tokens"]}
    drawn: Schema = {"type": "string", "enum": ["float", "base64"]}
    embedding = {"model": _models(served, "embed"), "input": _or(_input(served), several), "encoding_format": drawn}
    recording = {
        "file": _BINARY,
        "model": _models(served, "transcribe"),
        "response_format": {"enum": ["json", "text", "srt", "vtt", "verbose_json"]},
        "language": _TEXT,
        "prompt": _TEXT,
        "temperature": {"type": "number", "minimum": 0, "maximum": 1},
        "decode": _TEXT,
    }
    return {
        "/v1/completions": _post(
            "Go on with texts, or translate them.",
            _json(_object(["model", "prompt"], prompt=prompt, echo=_TRUTH, **writing)),
            _json(_ref("Completion")) | events,
        ),
        "/v1/chat/completions": _post(
            "Go on with a conversation.",
            _json(_object(["model", "messages"], messages=_list(message, minItems=1, maxItems=1000), **chat)),
            _json(_ref("ChatCompletion")) | events,
        ),
        "/v1/embeddings": _post(
            "A vector for each text.", _json(_object(["model", "input"], **embedding)), _json(_ref("Embeddings"))
        ),
        "/v1/audio/transcriptions": _post(
            "Write down a recording.",
            _form(_object(["model", "file"], **recording)),
            _json(_ref("Transcription")) | {"text/plain": {"schema": _TEXT}},
        ),
    }


def _writing(served: Served) -> dict[str, Schema]:
    """What completions and chat have in common."""
    return {
        "max_tokens": _optional({"type": "integer", "minimum": 1, "maximum": served.limits.length}),
        "temperature": _optional({"type": "number", "minimum": 0, "maximum": 2}),
        "top_p": _optional({"type": "number", "minimum": 0, "maximum": 1}),
        "n": _optional({"type": "integer", "minimum": 1, "maximum": 128}),
        "seed": _optional({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}),
        "stop": _optional(_or({"type": "string", "maxLength": 1000}, _list(_TEXT, maxItems=16))),
        "stream": _optional(_TRUTH),
        "stream_options": _optional(_object(include_usage=_TRUTH)),
        "decode": _ref("Decode"),
    }


def _libretranslate_paths(served: Served) -> Schema:
    pairs = [model.languages for model in served.models.values() if model.languages is not None]
    texts = _or(_input(served), _list(_input(served), minItems=1, maxItems=served.limits.inputs))
    asked = {
        "q": texts,
        "source": {"enum": sorted({"auto", *(source for source, _ in pairs)})},
        "target": _codes(target for _, target in pairs),
        "format": {"enum": ["text", "html"]},
        "alternatives": {"type": "integer", "minimum": 0, "maximum": 10},
        "api_key": _TEXT,
    }
    whole = _object(["q", "source", "target"], **asked)
    found = _list(_ref("Detection"))
    health = _get("Whether the process is there.", _object(["status"], status=_TEXT), error="PlainError")
    health["get"]["security"] = []
    return {
        "/translate": _post(
            "Translate a text, or several.", _json(whole), _json(_ref("Translation")), error="PlainError"
        ),
        "/detect": _post(
            "Which language a text is in.",
            _json(_object(["q"], q=_input(served), api_key=_TEXT)),
            _json(found),
            error="PlainError",
        ),
        "/languages": _get("What can be translated into what.", _list(_ref("Language")), error="PlainError"),
        "/frontend/settings": _get("What a page should know.", {"type": "object"}, error="PlainError"),
        "/health": health,
    }


def _codes(codes: Iterable[str]) -> Schema:
    found = sorted(set(codes))
    return {"type": "string", "enum": found} if found else {"type": "string"}


# ---- the shapes of answers

_CHOICE: dict[str, Schema] = {
    "index": _WHOLE,
    "finish_reason": {"enum": ["stop", "length"]},
    "logprobs": {"type": "null"},
}
_HEAD: dict[str, Schema] = {"id": _TEXT, "object": _TEXT, "created": _WHOLE, "model": _TEXT}
_SCHEMAS: dict[str, Schema] = {
    "Error": _object(
        ["error"],
        error=_object(
            ["message", "type", "param", "code"],
            message=_TEXT,
            type=_TEXT,
            param=_optional(_TEXT),
            code=_optional(_TEXT),
        ),
    ),
    "PlainError": _object(["error"], error=_TEXT),
    "Model": _object(
        ["id", "object", "created", "owned_by", "task", "suffixes"],
        id=_TEXT,
        object={"const": "model"},
        created=_WHOLE,
        owned_by=_TEXT,
        task=_TEXT,
        suffixes=_list(_TEXT),
        languages=_list(_TEXT),
    ),
    "File": _object(["name", "data"], name=_TEXT, data={"type": "string", "contentEncoding": "base64"}),
    "Part": _object(["type", "text"], type={"const": "text"}, text=_TEXT),
    "Predictions": _object(
        ["object", "model", "task", "data"], object=_TEXT, model=_TEXT, task=_TEXT, data=_list({"type": "object"})
    ),
    "Usage": _object(
        ["prompt_tokens", "total_tokens"], prompt_tokens=_WHOLE, completion_tokens=_WHOLE, total_tokens=_WHOLE
    ),
    "Completion": _object(
        [*_HEAD, "choices", "usage"],
        **_HEAD,
        choices=_list(_object([*_CHOICE, "text"], **_CHOICE, text=_TEXT)),
        usage=_ref("Usage"),
    ),
    "ChatCompletion": _object(
        [*_HEAD, "choices", "usage"],
        **_HEAD,
        choices=_list(
            _object(
                [*_CHOICE, "message"],
                **_CHOICE,
                message=_object(["role", "content"], role={"const": "assistant"}, content=_TEXT),
            )
        ),
        usage=_ref("Usage"),
    ),
    "Embeddings": _object(
        ["object", "data", "model", "usage"],
        object=_TEXT,
        data=_list(
            _object(["object", "index", "embedding"], object=_TEXT, index=_WHOLE, embedding=_or(_list(_NUMBER), _TEXT))
        ),
        model=_TEXT,
        usage=_ref("Usage"),
    ),
    "Transcription": _object(
        ["text"], text=_TEXT, language=_TEXT, duration=_NUMBER, segments=_list({"type": "object"}),
        words=_list(_object(["word", "start", "end"], word=_TEXT, start=_NUMBER, end=_NUMBER)),
    ),
    "Translation": _object(
        ["translatedText"],
        translatedText=_or(_TEXT, _list(_TEXT)),
        alternatives=_or(_list(_TEXT), _list(_list(_TEXT))),
        detectedLanguage=_or(_ref("Detection"), _list(_ref("Detection"))),
    ),
    "Detection": _object(["language", "confidence"], language=_TEXT, confidence=_NUMBER),
    "Language": _object(["code", "name", "targets"], code=_TEXT, name=_TEXT, targets=_list(_TEXT)),
}  # fmt: skip
