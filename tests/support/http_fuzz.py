"""Requests made of a server's own description, right ones and wrong ones, and what has to hold of each answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from http_server import chat_model, serving
from regard.serve.limits import Limits

TASKS = ("translation", "language", "masked", "labels", "answers", "images", "captions", "speech", "series", "words")
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SMALL = Limits(length=16, text=400, inputs=4, rows=8, body=100_000)


@contextmanager
def described_server() -> Iterator[tuple[str, schemathesis.BaseSchema]]:
    """A server of every task with small limits, and what it says about itself."""
    with TemporaryDirectory() as folder, serving(*TASKS, limits=SMALL, places={"chat": chat_model(folder)}) as (url, _):
        told = requests.get(f"{url}/openapi.json", timeout=30).json()
        yield url, schemathesis.openapi.from_dict(told)


def operations(schema: schemathesis.BaseSchema) -> dict[str, schemathesis.APIOperation]:
    """Every operation by its method and path."""
    found = [result.ok() for result in schema.get_all_operations()]
    return {f"{one.method.upper()} {one.path}": one for one in found}


def fuzz(url: str, operation: schemathesis.APIOperation, *, each: int, fresh: bool = False) -> Counter[int]:
    """Send so many right and so many wrong requests, others each time if they are to be `fresh`.

    Gives what came back, by status; an answer that is not as described raises.
    """
    counts: Counter[int] = Counter()
    wrong = [GenerationMode.NEGATIVE] if operation.body or operation.path_parameters else []  # else nothing can be
    with requests.Session() as session:
        for mode in (GenerationMode.POSITIVE, *wrong):

            @settings(
                max_examples=each,
                deadline=None,
                derandomize=not fresh,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode), plain=st.integers(0, 3))
            def ask(case: schemathesis.Case, plain: int) -> None:
                if plain and isinstance(case.body, dict):  # most settings of chance contradict each other
                    case.body = {name: value for name, value in case.body.items() if name != "decode"}
                response = case.call(base_url=url, session=session, timeout=60)
                counts[response.status_code] += 1
                case.validate_response(response, checks=CHECKS)

            ask()
    return counts
