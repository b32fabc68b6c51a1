"""From a request to its answer: ask an engine, wait without holding anybody up, and let go when the client leaves."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import re
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from fastapi import Request
from starlette.datastructures import FormData, UploadFile

from regard.errors import RegardError
from regard.serve.errors import ApiError, api_error
from regard.serve.served import ServedModel
from regard.serve.tickets import Ask, CancelledError, Ticket

Answer = TypeVar("Answer")
# Seconds between two events of a stream: for a few streams, and for hundreds. Its end is not waited with, and with it
# there are at most 20 a second.
EVENT, BUSY_EVENT = 0.06, 0.2
FEW, HUNDREDS = 32, 256


async def answers(request: Request, model: ServedModel, asks: Sequence[Ask]) -> list[Any]:
    """The answer to each, or what is wrong with it; whoever leaves is no longer worked for."""
    tickets = model.engine.submit(asks)
    waiting: asyncio.Future[Any] = asyncio.gather(
        *(asyncio.wrap_future(one.future) for one in tickets), return_exceptions=True
    )
    leaving: asyncio.Future[Any] = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([waiting, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            cancel(tickets)
        return list(await waiting)
    finally:
        leaving.cancel()
        cancel(tickets)


async def unless_left(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """What some work gives; it is cancelled where the client leaves before."""
    working: asyncio.Future[Answer] = asyncio.ensure_future(work)
    leaving: asyncio.Future[Any] = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CancelledError("the request was cancelled")
        return await working
    finally:
        leaving.cancel()
        working.cancel()


def raised(given: Any) -> Any:
    """An answer; a problem is raised as an answer that is an error."""
    if isinstance(given, BaseException):
        raise api_error(given) from given
    return given


def cancel(tickets: Sequence[Ticket]) -> None:
    """Nobody waits for these any more."""
    for ticket in tickets:
        ticket.cancel()


class TokenQueue(asyncio.Queue[list[int] | None]):
    """The tokens of a stream as they come; None is its end."""

    def __init__(self) -> None:
        super().__init__()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def put_nowait(self, item: list[int] | None) -> None:
        """Add tokens, or the end."""
        super().put_nowait(item)
        if item is None and not self._ended.done():
            self._ended.set_result(None)

    async def pause(self, seconds: float) -> None:
        """Let tokens gather for so long; the end is not waited with: whoever has heard it may ask again."""
        await asyncio.wait([self._ended], timeout=seconds)


async def pieces(model: ServedModel, ask: Ask, *, told: dict[str, Any]) -> AsyncIterator[str]:
    """The text of a stream as it comes, in few large pieces; `told["end"]` is how it ended, when it has."""
    speech = model.predictor.detokenizer(ask.input, **ask.options)
    heard, deliveries = TokenQueue(), model.deliveries.here()

    def tell(tokens: list[int] | None) -> None:
        deliveries.add(heard, tokens)

    ticket = model.engine.submit([Ask(ask.input, ask.options, "stream", ask.finish, tell)])[0]
    ticket.future.add_done_callback(lambda _: tell(None))
    try:
        over = False
        while not over:
            joined = [await heard.get()]
            while not heard.empty():
                joined.append(heard.get_nowait())
            over = joined[-1] is None
            if text := speech.add([token for tokens in joined if tokens is not None for token in tokens]):
                yield text
            if not over:
                await heard.pause(_pause(model.engine.n_running))
        told["end"] = raised(ticket.future.exception() or ticket.future.result())
        if text := speech.rest():
            yield text
    finally:
        ticket.cancel()


def _pause(n_streams: int) -> float:
    """Seconds until the next event: the more streams there are, the larger their pieces."""
    crowded = min(1.0, max(0, n_streams - FEW) / (HUNDREDS - FEW))
    return EVENT + (BUSY_EVENT - EVENT) * crowded


async def fields_of(request: Request) -> tuple[dict[str, Any], dict[str, list[UploadFile]]]:
    """The fields of a request, which is JSON or a form, and the files of a form.

    `curl -d '{…}'` calls its JSON a form; what begins as an object is none.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return _form_fields(await _form(request))
    body = await request.body()
    if kind == "application/x-www-form-urlencoded" and not body.lstrip().startswith(b"{"):
        return _form_fields(await _form(request))
    if not body:
        return {}, {}
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        raise ApiError(400, "the body is neither JSON nor a form") from None
    if not isinstance(table, dict):
        raise ApiError(400, f"the body is JSON, but no object: {type(table).__name__}")
    return table, {}


async def _form(request: Request) -> FormData:
    try:
        return await request.form(max_files=256, max_fields=256)
    except ApiError:
        raise
    except Exception as problem:  # whatever a damaged form leads to
        raise ApiError(400, f"the form cannot be read: {str(problem)[:200]}") from None


def _form_fields(form: FormData) -> tuple[dict[str, Any], dict[str, list[UploadFile]]]:
    fields: dict[str, Any] = {}
    files: dict[str, list[UploadFile]] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.setdefault(name, []).append(value)
        elif name.endswith("[]"):
            fields.setdefault(name[:-2], []).append(value)
        else:
            fields[name] = value
    return fields, files


@contextmanager
def kept_files(files: Sequence[tuple[str, bytes]], suffixes: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Files where a model can read them, for as long as it does: (the path, its own name) each."""
    with TemporaryDirectory(prefix="regard-serve-") as folder:
        kept = []
        for number, (name, content) in enumerate(files):
            suffix = next((one for one in suffixes if name.lower().endswith(one)), None)
            if suffix is None:
                raise ApiError(400, f"{name[:100]!r} is no file for this model; it reads {', '.join(suffixes)}")
            own = os.path.basename(name.replace("\\", "/"))
            path = Path(folder, str(number), _harmless(own[: -len(suffix)]) + suffix)
            path.parent.mkdir()
            path.write_bytes(content)
            kept.append((str(path), own))
        yield kept


def _harmless(stem: str) -> str:
    """A file's name that a look at it can show, whatever was sent."""
    return re.sub(r"[^\w ()+-]", "_", stem)[:50].strip() or "file"


def sent_file(given: Any) -> tuple[str, bytes]:
    """A file in JSON: {"name": "dog.png", "data": base64}."""
    if not (isinstance(given, Mapping) and isinstance(given.get("name"), str) and isinstance(given.get("data"), str)):
        raise ApiError(400, 'this model reads files: send a form, or {"name": "a.png", "data": base64} as the input')
    try:
        return given["name"], base64.b64decode(given["data"], validate=True)
    except (ValueError, binascii.Error):
        raise ApiError(400, f"the data of {given['name'][:100]!r} is not base64") from None


def renamed(given: Any, path: str, name: str) -> Any:
    """A record or a problem that speaks of the file by the name it was sent with."""
    if isinstance(given, dict):
        return {key: name if value == path else value for key, value in given.items()}
    if isinstance(given, RegardError):
        told = type(given)(str(given).replace(path, name), hint=given.hint)
        return told.with_traceback(None)
    return given


def whole_number(value: Any, name: str, *, low: int, high: int) -> int:
    """A number within bounds, also of a form's text."""
    try:
        number = int(value)
        exact = not isinstance(value, bool) and float(value) == number
    except (TypeError, ValueError, OverflowError):
        exact = False
        number = low
    if not exact or not low <= number <= high:
        raise ApiError(400, f"{name} is {str(value)[:40]!r}; allowed is {low} to {high}", param=name)
    return number


def texts(value: Any, name: str, *, most: int, longest: int) -> list[str]:
    """One text or several, within bounds."""
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list) or not several or not all(isinstance(one, str) for one in several):
        raise ApiError(400, f"{name} has to be a text or a list of texts", param=name)
    if len(several) > most:
        raise ApiError(400, f"{name} holds {len(several)} texts; allowed are up to {most}", param=name)
    if (n := max(map(len, several))) > longest:
        raise ApiError(400, f"{name} has {n:,} characters; allowed are up to {longest:,}", param=name)
    return several


def decode_options(given: Any, *, name: str = "decode") -> dict[str, Any]:
    """Options of decoding: an object, in a form as JSON."""
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = None
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise ApiError(400, f'{name} has to be an object of settings, such as {{"beam": 5}}', param=name)
    plain = (str, int, float, bool)
    for key, value in given.items():
        listed = isinstance(value, list) and len(value) <= 1000 and all(isinstance(one, plain) for one in value)
        if not (isinstance(value, plain) or listed):
            raise ApiError(400, f"{name}.{key[:40]} is neither a number, a text, nor a list of them", param=name)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}


async def _left(request: Request) -> None:
    """Until the client is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
