"""What goes wrong, as OpenAI's clients read it: a status, and {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

import math
from typing import Any

from fastapi.responses import JSONResponse

from regard.errors import DataError, RegardError, UsageError
from regard.serve.looking import LookingError
from regard.serve.tickets import BusyError, CancelledError, LateError, StoppingError

RETRY_AFTER = 1.0  # seconds after which a queue that was full is worth another try
_GONE = 499  # nobody is there any more to read it
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry = status, param, code, retry

    def body(self) -> dict[str, Any]:
        """As a JSON object."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": clean(str(self)), "type": kind, "param": self.param, "code": self.code}}

    def response(self, *, plain: bool = False) -> JSONResponse:
        """As an answer; a `plain` one is {"error": message}, as LibreTranslate has it."""
        body = {"error": clean(str(self))} if plain else self.body()
        headers = {} if self.retry is None else {"Retry-After": str(math.ceil(self.retry))}
        return JSONResponse(body, self.status, headers=headers)


def clean(text: str) -> str:
    """A text that can be written as UTF-8, whatever it quotes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def api_error(problem: BaseException, *, param: str | None = None) -> ApiError:
    """The answer that a problem is; what nobody foresaw says no more than that."""
    if isinstance(problem, ApiError):
        return problem
    if not isinstance(problem, RegardError):
        return ApiError(500, "the server failed at this request", code="internal_error")
    message = f"{problem}" + (f" ({problem.hint})" if problem.hint else "")
    if isinstance(problem, BusyError):
        return ApiError(429, message, code="queue_full", retry=RETRY_AFTER)
    if isinstance(problem, LateError | StoppingError):
        code = "deadline_exceeded" if isinstance(problem, LateError) else "stopping"
        return ApiError(503, message, code=code, retry=RETRY_AFTER)
    if isinstance(problem, LookingError):
        return ApiError(503, message, code="look_failed", retry=RETRY_AFTER)
    if isinstance(problem, CancelledError):
        return ApiError(_GONE, message, code="cancelled")
    usual = isinstance(problem, UsageError | DataError)
    return ApiError(400, message, param=param, code="invalid_value" if usual else "unusable_input")
