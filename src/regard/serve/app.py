"""The HTTP application: who may ask, how much, and which routes there are."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import regard
from regard.errors import RegardError
from regard.serve.description import openapi
from regard.serve.errors import RETRY_AFTER, ApiError, api_error
from regard.serve.keys import Keys
from regard.serve.libretranslate import PATHS as PLAIN_PATHS
from regard.serve.libretranslate import libretranslate_routes
from regard.serve.openai import openai_routes
from regard.serve.own import own_routes
from regard.serve.page import PATHS as PAGE_PATHS
from regard.serve.page import page_routes
from regard.serve.served import Served

OPEN_PATHS = ("/live", "/health", *PAGE_PATHS)  # the page asks for a key itself, and holds nothing without one
log = logging.getLogger("regard.serve")


def create_app(served: Served, *, keys: Keys | None = None, cors: Sequence[str] = ()) -> FastAPI:
    """The application for these models."""
    app = FastAPI(title="regard", version=regard.__version__, docs_url=None, redoc_url=None)
    known = keys or Keys([])
    _add_state_routes(app, served)
    app.include_router(own_routes(served))
    app.include_router(openai_routes(served))
    app.include_router(libretranslate_routes(served, known))
    app.include_router(page_routes())
    _add_error_handlers(app)
    app.openapi = lambda: openapi(served, keys=known.needed)  # type: ignore[method-assign]
    app.add_middleware(Gate, keys=known, longest=served.limits.body)
    if cors:
        app.add_middleware(CORSMiddleware, allow_origins=list(cors), allow_methods=["*"], allow_headers=["*"])
    return app


def _add_state_routes(app: FastAPI, served: Served) -> None:
    @app.get("/live")
    async def live() -> dict[str, str]:
        """Whether the process is there."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        """Whether it takes requests."""
        if served.stopping:
            raise ApiError(503, "the server is stopping", code="stopping", retry=RETRY_AFTER)
        return {"status": "ok"}

    @app.get("/metrics")
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(served.exposition(), media_type=CONTENT_TYPE_LATEST)


def _add_error_handlers(app: FastAPI) -> None:
    def respond(request: Request, problem: ApiError) -> JSONResponse:
        return problem.response(plain=request.url.path in PLAIN_PATHS)

    @app.exception_handler(ApiError)
    async def known(request: Request, problem: ApiError) -> JSONResponse:
        return respond(request, problem)

    @app.exception_handler(RegardError)
    async def refused(request: Request, problem: RegardError) -> JSONResponse:
        return respond(request, api_error(problem))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, problem: RequestValidationError) -> JSONResponse:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first.get("loc", ()) if part != "body")
        return respond(request, ApiError(400, f"{where}: {first.get('msg', 'is wrong')}", param=where or None))

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, problem: HTTPException) -> JSONResponse:
        told = ApiError(problem.status_code, f"{request.method} {request.url.path}: {problem.detail}")
        answer = respond(request, told)
        answer.headers.update(problem.headers or {})  # which methods there are, where this is none of them
        return answer

    @app.exception_handler(Exception)
    async def failed(request: Request, problem: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=problem)
        return respond(request, api_error(problem))


class Gate:
    """Lets in who has a key, and no body that is longer than allowed: neither said to be, nor found to be."""

    def __init__(self, app: ASGIApp, *, keys: Keys, longest: int) -> None:
        self.app, self.keys, self.longest = app, keys, longest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it before its body is read."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is not None:
            response = problem.response(plain=scope["path"] in PLAIN_PATHS)
            await response(scope, receive, send)
            return
        await self.app(scope, self._counted(receive), send)

    def _problem(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        said = headers.get("content-length", "0")
        if not said.isdecimal() or int(said) > self.longest:
            return self._too_long()
        # LibreTranslate's clients send their key in the body: those routes look there themselves.
        if scope["path"] in (*OPEN_PATHS, *PLAIN_PATHS) or self.keys.admit(_key(headers)):
            return None
        return ApiError(401, "a key is needed: Authorization: Bearer KEY", code="invalid_api_key")

    def _too_long(self) -> ApiError:
        return ApiError(413, f"a request may have up to {self.longest:,} bytes", code="request_too_large")

    def _counted(self, receive: Receive) -> Receive:
        n = 0

        async def counted() -> Message:
            nonlocal n
            message = await receive()
            n += len(message.get("body", b""))
            if n > self.longest:
                raise self._too_long()
            return message

        return counted


def _key(headers: Headers) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key else headers.get("x-api-key")
