"""regard's own routes: every task by `/v1/predict`, and what a model looked at by `/v1/look`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from regard.errors import RegardError
from regard.serve.asking import answers, decode_options, fields_of, kept_files, renamed, sent_file, texts, unless_left
from regard.serve.errors import ApiError, api_error
from regard.serve.looking import Asked
from regard.serve.served import Served, ServedModel
from regard.serve.tickets import Ask

_CALL = ("prefix", "stop")  # what a call takes besides its decoding options
_SHOWN = {"record": ("look.json", "application/json"), "page": ("look.html", "text/html"),
          "picture": ("look.png", "image/png")}  # fmt: skip


def own_routes(served: Served) -> APIRouter:
    """The routes, for these models."""
    routes = APIRouter()

    @routes.get("/v1/models")
    async def models() -> dict[str, Any]:
        """What is served."""
        return {"object": "list", "data": [one.card() for one in served.models.values()]}

    @routes.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        """One of them."""
        return served.model(name).card()

    @routes.post("/v1/predict")
    async def predict(request: Request) -> dict[str, Any]:
        """What `regard predict` says to each input: records, or errors in their places."""
        fields, files = await fields_of(request)
        chosen = served.model(fields.get("model"))
        options = decode_options(fields.get("decode")) | {
            name: fields[name] for name in _CALL if fields.get(name) is not None
        }
        if chosen.predictor.suffixes:
            sent = [(one.filename or "", await one.read()) for several in files.values() for one in several]
            sent += [sent_file(one) for one in _listed(fields)] if not sent else []
            records = await _of_files(request, chosen, sent, options, most=served.limits.inputs)
        else:
            inputs = texts(_listed(fields), "input", most=served.limits.inputs, longest=served.limits.text)
            records = await answers(request, chosen, [Ask(text, options, finish=_record) for text in inputs])
        if len(records) == 1 and isinstance(records[0], BaseException):
            raise api_error(records[0], param="input") from records[0]
        told = [api_error(one).body() if isinstance(one, BaseException) else one for one in records]
        return {"object": "predictions", "model": chosen.name, "task": chosen.task, "data": told}

    @routes.post("/v1/look")
    async def look(request: Request) -> Response:
        """What the model looked at: a record, a page or a picture."""
        fields, files = await fields_of(request)
        chosen = served.model(fields.get("model"))
        shown = str(fields.get("format", "record"))
        if shown not in _SHOWN:
            raise ApiError(400, f"format is {shown[:40]!r}; allowed are {', '.join(_SHOWN)}", param="format")
        target = fields.get("target")
        if target is not None:
            target = texts(target, "target", most=1, longest=served.limits.text)[0]
        with served.looking.place():
            if not chosen.predictor.suffixes:
                text = texts(fields.get("input"), "input", most=1, longest=served.limits.text)[0]
                return await _looked(request, served, Asked(chosen.place, chosen.precision, text, target), shown)
            sent = [(one.filename or "", await one.read()) for several in files.values() for one in several]
            with kept_files(sent or [sent_file(fields.get("input"))], chosen.predictor.suffixes) as kept:
                path, own = kept[0]
                try:
                    return await _looked(request, served, Asked(chosen.place, chosen.precision, path, target), shown)
                except RegardError as problem:
                    raise renamed(problem, path, own) from None

    return routes


async def _of_files(
    request: Request, model: ServedModel, files: Sequence[tuple[str, bytes]], options: dict[str, Any], *, most: int
) -> list[Any]:
    if not files or len(files) > most:
        raise ApiError(400, f"{len(files)} files were sent; allowed are 1 to {most}", param="input")
    with kept_files(files, model.predictor.suffixes) as kept:
        asks = [Ask(path, options, finish=_record) for path, _ in kept]
        given = await answers(request, model, asks)
    return [renamed(one, path, name) for one, (path, name) in zip(given, kept, strict=True)]


async def _looked(request: Request, served: Served, asked: Asked, shown: str) -> Response:
    """A look as it is to be shown; whoever leaves before it is begun is not worked for."""
    name, kind = _SHOWN[shown]
    return Response(await unless_left(request, served.looking.look(asked, name)), media_type=kind)


def _listed(fields: dict[str, Any]) -> list[Any]:
    given = fields.get("input")
    return given if isinstance(given, list) else [] if given is None else [given]


def _record(output: Any) -> Any:
    return output.record()
