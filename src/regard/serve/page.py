"""The page at `/`: every model that is served, asked in a browser.

It is one document, with its style sheet and its script inside, and it asks nobody but this server, by the routes that
others use, too. Its browser is told to run no script but this one (Content-Security-Policy). What a model looked at is
shown by the viewer's own page, in `/frame`: a document without an origin, which can reach neither this page nor the
server, and which the viewer's page then forbids whatever it does not need itself.

The script is written in parts, one idea each; `browser/main.js` comes last and begins.
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from regard.inspection.page import digests, file_text, filled

PATHS = ("/", "/frame")
_SCRIPTS = ("dom", "server", "options", "looking", "chart", "answers", "sound", "texts", "files", "writing",
            "translating", "comparing", "main")  # fmt: skip
_OWN = "connect-src 'self'; frame-src 'self'; img-src blob: data:; media-src blob:; frame-ancestors 'none'"
_FRAME = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; media-src data:; frame-ancestors 'self'"
)
_CLOSED = "base-uri 'none'; form-action 'none'"


def page_routes() -> APIRouter:
    """The page, and the frame in which it shows what a model looked at."""
    routes = APIRouter(include_in_schema=False)
    whole, policy = document()
    frame = file_text("regard.serve", "browser/frame.html")

    @routes.get("/")
    async def page() -> HTMLResponse:
        """The page."""
        return _answer(whole, policy)

    @routes.get("/frame")
    async def looking() -> HTMLResponse:
        """An empty document that becomes what it is sent."""
        return _answer(frame, f"{_FRAME}; {_CLOSED}")

    return routes


def document() -> tuple[str, str]:
    """The page as one text, and what a browser may do with it."""
    scripts = "\n".join(file_text("regard.serve", f"browser/{name}.js") for name in _SCRIPTS)
    parts = {
        "style": file_text("regard.serve", "browser/page.css"),
        "script": f'"use strict";\n(() => {{\n{scripts}\n}})();',
    }
    template = file_text("regard.serve", "browser/page.html")
    allowed = (f"{tag}-src {digests(template, tag, parts)}" for tag in ("script", "style"))
    return filled(template, parts), f"default-src 'none'; {'; '.join(allowed)}; {_OWN}; {_CLOSED}"


def _answer(text: str, policy: str) -> HTMLResponse:
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return HTMLResponse(text, headers=headers)
