"""OpenAI's routes, so that its clients can be used as they are: completions, chat, embeddings, transcriptions.

What is not given is as the model's own recipe has it, as `regard predict` does: without `temperature`, `top_p`, `seed`
and `n`, nothing is drawn unless the recipe says so. `decode` takes every setting of `[decode]` besides. What cannot be
done is refused rather than ignored.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from regard.serve.asking import (
    answers,
    decode_options,
    fields_of,
    kept_files,
    pieces,
    raised,
    renamed,
    texts,
    whole_number,
)
from regard.serve.errors import ApiError, api_error
from regard.serve.limits import Limits
from regard.serve.served import Served, ServedModel
from regard.serve.tickets import Ask
from regard.tasks.registry import Ability

Prompt = str | list[int]
WRITERS: tuple[Ability, ...] = ("continue", "translate")
_STOPS = 16
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "best_of": (None, 1),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0, 0.0),
    "frequency_penalty": (None, 0, 0.0),
    "suffix": (None, ""),
    "tools": (None, []),
    "functions": (None, []),
    "tool_choice": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "dimensions": (None,),
    "audio": (None,),
}
_INSTEAD: Mapping[str, str] = {
    "logprobs": "/v1/predict tells the log-probability of a whole answer",
    "top_logprobs": "/v1/predict tells the log-probability of a whole answer",
    "best_of": '{"decode": {"beam": 5}} searches for a likelier text',
    "logit_bias": '{"decode": {"banned": [7]}} keeps tokens from coming, by their ids',
    "presence_penalty": '{"decode": {"no_repeat_ngram": 3}} keeps words from coming again and again',
    "frequency_penalty": '{"decode": {"no_repeat_ngram": 3}} keeps words from coming again and again',
}


@dataclass(frozen=True)
class Wanted:
    """What a completion asks for: how to decode, and how to answer."""

    model: ServedModel
    options: dict[str, Any]
    stream: bool
    usage: bool
    echo: bool
    chat: bool

    @property
    def n(self) -> int:
        """How many choices a prompt has."""
        return int(self.options.get("n_samples", 1))


def openai_routes(served: Served) -> APIRouter:
    """The routes, for these models."""
    routes = APIRouter()

    @routes.post("/v1/completions")
    async def completions(request: Request) -> Response:
        """Go on with texts, or translate them."""
        fields, _ = await fields_of(request)
        _refuse_strange(fields)
        wanted = _wanted(served, fields, able=WRITERS, chat=False)
        prompts = _prompts(wanted.model, fields.get("prompt", ""), served.limits)
        return await _completed(request, wanted, prompts)

    @routes.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        """Go on with a conversation, by the chat template of the model's tokenizer."""
        fields, _ = await fields_of(request)
        _refuse_strange(fields)
        wanted = _wanted(served, fields, able=("continue",), chat=True)
        if wanted.model.chat is None:
            name = wanted.model.name
            raise ApiError(400, f"the model {name!r} has no chat template; use /v1/completions", param="model")
        messages = _messages(fields.get("messages"), longest=served.limits.text)
        prompt = await asyncio.to_thread(wanted.model.chat.prompt, messages, wanted.model.predictor.tokenizer)
        return await _completed(request, wanted, [prompt])

    @routes.post("/v1/embeddings")
    async def embeddings(request: Request) -> dict[str, Any]:
        """A vector for each text."""
        fields, _ = await fields_of(request)
        _refuse_strange(fields)
        model = served.model(fields.get("model"), able=("embed",))
        form = fields.get("encoding_format", "float")
        if form not in ("float", "base64"):
            raise ApiError(400, "encoding_format has to be float or base64", param="encoding_format")
        inputs = texts(fields.get("input"), "input", most=served.limits.inputs, longest=served.limits.text)
        asks = [Ask(text, {}, "embed", finish=lambda vector: vector.tolist()) for text in inputs]
        vectors = [raised(one) for one in await answers(request, model, asks)]
        shown = [_base64(vector) if form == "base64" else vector for vector in vectors]
        data = [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(shown)]
        n = sum(len(ids) for ids in model.predictor.tokenizer.encode_batch(inputs))
        return {"object": "list", "data": data, "model": model.name, "usage": {"prompt_tokens": n, "total_tokens": n}}

    @routes.post("/v1/audio/transcriptions")
    async def transcriptions(request: Request) -> Response:
        """Write down a recording."""
        fields, files = await fields_of(request)
        model = served.model(fields.get("model"), able=("transcribe",))
        form = str(fields.get("response_format") or "json")
        if form not in _TRANSCRIPTS:
            raise ApiError(400, f"response_format has to be one of {', '.join(_TRANSCRIPTS)}", param="response_format")
        if len(files.get("file", [])) != 1:
            raise ApiError(400, "send one recording as the file of a form", param="file")
        upload = files["file"][0]
        options = _speech_options(fields)
        sent = [(upload.filename or "", await upload.read())]
        with kept_files(sent, model.predictor.suffixes) as kept:
            ask = Ask(kept[0][0], options, finish=_TRANSCRIPTS[form])
            (given,) = await answers(request, model, [ask])
        told = raised(renamed(given, *kept[0]))
        return PlainTextResponse(told) if isinstance(told, str) else JSONResponse(told)

    return routes


# ---- what is asked for


def _refuse_strange(fields: Mapping[str, Any]) -> None:
    for name, allowed in _NEUTRAL.items():
        given = fields.get(name)
        if any(type(given) is type(one) and given == one for one in allowed):
            continue
        instead = _INSTEAD.get(name)
        told = f"{name} cannot be set here; leave it out" + (f" ({instead})" if instead else "")
        raise ApiError(400, told, param=name, code="unsupported_parameter")


def _wanted(served: Served, fields: Mapping[str, Any], *, able: Sequence[Ability], chat: bool) -> Wanted:
    model = served.model(fields.get("model"), able=able)
    stream = fields.get("stream") in (True, "true", "True")
    usage = isinstance(fields.get("stream_options"), dict) and fields["stream_options"].get("include_usage") is True
    options = _drawing(fields) | decode_options(fields.get("decode"))
    limit = fields.get("max_completion_tokens") if chat else None
    limit = fields.get("max_tokens") if limit is None else limit
    if limit is not None:
        options["max_length"] = whole_number(limit, "max_tokens", low=1, high=served.limits.length)
    if (stop := fields.get("stop")) not in (None, "", []):
        if not model.does("continue"):
            raise ApiError(400, f"stop means nothing to a model for {model.task}", param="stop")
        options["stop"] = texts(stop, "stop", most=_STOPS, longest=1000)
    echo = fields.get("echo") is True and model.does("continue")
    return Wanted(model, options, stream, usage, echo, chat)


def _drawing(fields: Mapping[str, Any]) -> dict[str, Any]:
    """How tokens are drawn, if at all: a temperature of 0 takes the likeliest."""
    given = {name: fields[name] for name in ("temperature", "top_p", "seed") if fields.get(name) is not None}
    n = whole_number(fields.get("n") or 1, "n", low=1, high=128)
    for name, most in (("temperature", 2.0), ("top_p", 1.0)):
        value = given.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise ApiError(400, f"{name} is {str(value)[:40]!r}; allowed is 0 to {most:g}", param=name)
    if "seed" in given:
        given["seed"] = whole_number(given["seed"], "seed", low=-(2**63), high=2**63 - 1)
    if given.get("temperature") == 0 or given.get("top_p") == 0:
        if n > 1:
            raise ApiError(400, "n is above 1 and nothing is drawn; give a temperature above 0", param="n")
        return {"strategy": "greedy"}
    return given | {"strategy": "sample", "n_samples": n} if given or n > 1 else {}


def _messages(given: Any, *, longest: int) -> list[dict[str, str]]:
    """The messages of a conversation, as texts."""
    if not isinstance(given, list) or not given or len(given) > 1000:
        raise ApiError(400, "messages has to be a list of 1 to 1000 messages", param="messages")
    messages = []
    for one in given:
        role, content = (one.get("role"), one.get("content")) if isinstance(one, dict) else (None, None)
        if isinstance(content, list):  # parts, of which only texts can be read
            parts: list[Any] = [part.get("text") if isinstance(part, dict) else None for part in content]
            content = "".join(parts) if all(isinstance(part, str) for part in parts) else None
        if not isinstance(role, str) or not isinstance(content, str):
            raise ApiError(400, "a message needs a role and a content, which are texts", param="messages")
        messages.append({"role": role, "content": content})
    if sum(len(one["content"]) for one in messages) > longest:
        raise ApiError(400, f"messages may have up to {longest:,} characters together", param="messages")
    return messages


def _prompts(model: ServedModel, given: Any, limits: Limits) -> Sequence[Prompt]:
    """One text or several; of a language model also their ids."""
    if not model.does("continue") or not isinstance(given, list) or all(isinstance(one, str) for one in given):
        return texts(given, "prompt", most=limits.inputs, longest=limits.text)
    several = [given] if all(type(one) is int for one in given) else given
    if len(several) > limits.inputs or any(not isinstance(one, list) or len(one) > limits.text for one in several):
        raise ApiError(400, f"prompt has to be up to {limits.inputs} texts or lists of ids", param="prompt")
    model.predictor.check_inputs(several)
    return several


# ---- answers


async def _completed(request: Request, wanted: Wanted, prompts: Sequence[Prompt]) -> Response:
    head = {
        "id": f"{'chatcmpl' if wanted.chat else 'cmpl'}-{uuid4().hex}",
        "object": "chat.completion" if wanted.chat else "text_completion",
        "created": int(time.time()),
        "model": wanted.model.name,
    }
    if wanted.stream and len(prompts) == 1 and _can_stream(wanted):
        events = _streamed(wanted, prompts[0], head)
        first = await anext(events)  # what is refused is refused before the answer begins
        return StreamingResponse(_followed(first, events), media_type="text/event-stream")
    asks = [Ask(text, wanted.options, finish=_choices(wanted, text)) for text in prompts]
    given = [raised(one) for one in await answers(request, wanted.model, asks)]
    choices = [choice for own, _ in given for choice in own]
    for index, choice in enumerate(choices):
        choice["index"] = index
    usage = _summed([counts for _, counts in given])
    if not wanted.stream:
        return JSONResponse(head | {"choices": choices, "usage": usage})
    return StreamingResponse(_at_once(wanted, head, choices, usage), media_type="text/event-stream")


def _can_stream(wanted: Wanted) -> bool:
    return bool(wanted.model.predictor.can_stream(**wanted.options))


def _choices(wanted: Wanted, prompt: Prompt) -> Callable[[Any], tuple[list[dict[str, Any]], dict[str, int]]]:
    """What becomes of a prediction, where the model is: its choices, and how many tokens there were."""

    def finish(output: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
        several = [output, *output.alternatives]
        choices = [_choice(wanted, prompt, one.text, finished=one.finished) for one in several]
        return choices, _usage(_n_prompt(wanted.model, prompt), sum(len(one.ids) for one in several))

    return finish


def _choice(wanted: Wanted, prompt: Prompt, text: str, *, finished: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"index": 0, "finish_reason": "stop" if finished else "length", "logprobs": None}
    if wanted.chat:
        return said | {"message": {"role": "assistant", "content": text, "refusal": None}}
    return said | {"text": _echo(wanted, prompt) + text}


def _echo(wanted: Wanted, prompt: Prompt) -> str:
    """The prompt, where it has to stand before its continuation."""
    if not wanted.echo:
        return ""
    return prompt if isinstance(prompt, str) else str(wanted.model.predictor.tokenizer.decode(prompt))


def _n_prompt(model: ServedModel, prompt: Prompt) -> int:
    if model.does("continue"):
        return len(model.predictor.writer.prompt(prompt))
    return len(model.predictor.languages.source.encode([prompt])[0])


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _summed(usages: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return _usage(sum(one["prompt_tokens"] for one in usages), sum(one["completion_tokens"] for one in usages))


# ---- streams


async def _streamed(wanted: Wanted, prompt: Prompt, head: Mapping[str, Any]) -> AsyncIterator[str]:
    """The events of one text that is sent as it comes; nothing before it has begun or failed to."""
    told: dict[str, Any] = {}
    n_prompt = _n_prompt(wanted.model, prompt)
    coming = pieces(wanted.model, Ask(prompt, wanted.options), told=told)
    try:
        first = await anext(coming, "")
        yield _event(wanted, head, _echo(wanted, prompt), begins=True)
        yield _event(wanted, head, first)
        async for text in coming:
            yield _event(wanted, head, text)
        end = told["end"]
        yield _event(wanted, head, "", reason="stop" if end.finished else "length")
        if wanted.usage:
            yield _usage_event(wanted, head, _usage(n_prompt, end.n_tokens))
        yield "data: [DONE]\n\n"
    finally:
        await coming.aclose()  # type: ignore[attr-defined]


async def _followed(first: str, events: AsyncIterator[str]) -> AsyncIterator[str]:
    """All events; an error that comes too late for a status is an event."""
    try:
        yield first
        async for event in events:
            yield event
    except Exception as problem:
        yield f"data: {json.dumps(api_error(problem).body())}\n\n"
    finally:
        await events.aclose()  # type: ignore[attr-defined]


async def _at_once(
    wanted: Wanted, head: Mapping[str, Any], choices: Sequence[Mapping[str, Any]], usage: Mapping[str, int]
) -> AsyncIterator[str]:
    """The events of texts that are known only when they are whole: beams, and several at a time."""
    for choice in choices:
        text = choice["message"]["content"] if wanted.chat else choice["text"]
        yield _event(wanted, head, text, begins=True, index=choice["index"])
        yield _event(wanted, head, "", reason=choice["finish_reason"], index=choice["index"])
    if wanted.usage:
        yield _usage_event(wanted, head, usage)
    yield "data: [DONE]\n\n"


def _event(
    wanted: Wanted,
    head: Mapping[str, Any],
    text: str,
    *,
    reason: str | None = None,
    begins: bool = False,
    index: int = 0,
) -> str:
    choice: dict[str, Any] = {"index": index, "finish_reason": reason, "logprobs": None}
    if wanted.chat:
        role = {"role": "assistant"} if begins else {}
        choice["delta"] = role | ({"content": text} if text or begins else {})
    else:
        choice["text"] = text
    kind = {"object": "chat.completion.chunk"} if wanted.chat else {}
    usage = {"usage": None} if wanted.usage else {}
    return f"data: {json.dumps({**head, **kind, 'choices': [choice], **usage}, ensure_ascii=False)}\n\n"


def _usage_event(wanted: Wanted, head: Mapping[str, Any], usage: Mapping[str, int]) -> str:
    kind = {"object": "chat.completion.chunk"} if wanted.chat else {}
    return f"data: {json.dumps({**head, **kind, 'choices': [], 'usage': dict(usage)})}\n\n"


# ---- vectors and recordings


def _base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


def _speech_options(fields: Mapping[str, Any]) -> dict[str, Any]:
    options = decode_options(fields.get("decode"))
    for theirs, ours in (("language", "language"), ("prompt", "initial_prompt")):
        if fields.get(theirs):
            options[ours] = str(fields[theirs])[:10_000]
    given = fields.get("temperature") or 0
    try:
        heat = float(given)
    except (TypeError, ValueError):
        heat = -1.0
    if not 0 <= heat <= 1:
        raise ApiError(400, f"temperature is {str(given)[:40]!r}; allowed is 0 to 1", param="temperature")
    return options | {"strategy": "sample", "temperature": heat} if heat else options


def _json(output: Any) -> dict[str, Any]:
    return {"text": output.text}


def _verbose(output: Any) -> dict[str, Any]:
    segments = [
        {"id": i, "seek": 0, "start": one.start, "end": one.end, "text": one.text, "tokens": [], "temperature": 0.0,
         "avg_logprob": output.score, "compression_ratio": 1.0, "no_speech_prob": 0.0}
        for i, one in enumerate(output.segments)
    ]  # fmt: skip
    words = [{"word": one.word, "start": one.start, "end": one.end} for one in output.words]
    facts = {"task": "transcribe", "language": output.language or "unknown", "duration": output.seconds}
    return facts | {"text": output.text, "segments": segments, "words": words}


def _subtitles(format: str) -> Callable[[Any], str]:
    def finish(output: Any) -> str:
        from regard.tasks.speech.segments import written

        return written(output.segments, format)

    return finish


_TRANSCRIPTS: Mapping[str, Callable[[Any], Any]] = {
    "json": _json,
    "text": lambda output: f"{output.plain()}\n",
    "verbose_json": _verbose,
    "srt": _subtitles("srt"),
    "vtt": _subtitles("vtt"),
}
