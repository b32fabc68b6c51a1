"""The server does what its own description says: requests are made of it, and every answer is held to it."""

from __future__ import annotations

import pytest

pytest.importorskip("schemathesis")

from http_fuzz import described_server, fuzz, operations
from regard.serve.app import create_app
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.served import Served

EACH = 8  # right requests a route, and as many wrong ones; `python tests/fuzz/fuzz_http.py --each 1000` sends thousands
ROUTES = (
    *("GET /live", "GET /ready", "GET /metrics", "GET /v1/models", "GET /v1/models/{name}"),
    *("POST /v1/predict", "POST /v1/look", "POST /v1/completions", "POST /v1/chat/completions"),
    *("POST /v1/embeddings", "POST /v1/audio/transcriptions", "POST /translate", "POST /detect"),
    *("GET /languages", "GET /frontend/settings", "GET /health"),
)


@pytest.fixture(scope="module")
def described():
    with described_server() as found:
        yield found


def test_every_route_is_described(described):
    assert set(operations(described[1])) == set(ROUTES)
    app = create_app(Served([], Limits(), Metrics()))
    paths = {route.path.replace(":path", "") for route in _routes(app.routes) if route.include_in_schema}
    assert paths == set(app.openapi()["paths"])


def _routes(routes):
    for route in routes:
        if hasattr(route, "path"):
            yield route
        else:
            yield from _routes(route.original_router.routes)


@pytest.mark.parametrize("route", ROUTES)
def test_no_request_is_a_500_and_every_answer_is_as_described(described, route):
    url, schema = described
    counts = fuzz(url, operations(schema)[route], each=EACH)
    assert counts
    if "transcriptions" not in route:  # which wants a recording, and no text of chance is one
        assert counts[200] or route.startswith("GET /v1/models/"), counts
