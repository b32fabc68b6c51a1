"""Connections within bounds: how many there are, how long a request may take to arrive, and a reader to read.

uvicorn bounds how long a connection may be idle between two requests. Here are the bounds that it has not: whoever
sends a header or a body drop by drop, or stops reading, is hung up on, and whoever comes when too many are there is
told to come again before anything is read.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

_LATE = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_TOLD = b'{"error": {"message": "too many connections", "type": "server_error", "param": null, "code": "connections"}}'
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_TOLD), _TOLD)
)


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Bounds on connections.

    most       connections at a time
    header     seconds in which the header of a request has to be there
    body       seconds in which its body has to be there
    stalled    seconds that a client may read nothing while there is something to read
    """

    most: int = 512
    header: float = 10.0
    body: float = 120.0
    stalled: float = 60.0


def bounded(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """uvicorn's HTTP protocol, within these bounds."""
    base: Any = AutoHTTPProtocol

    class BoundedProtocol(base):  # type: ignore[misc]
        """One connection."""

        _stage = ""  # what is being waited for: a "header", a "body", or nothing of the client's
        _arrival: asyncio.TimerHandle | None = None
        _stall: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.most:
                transport.write(_FULL)
                transport.close()
            else:
                self._wait_for("header")

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            cycle = self.cycle
            idle = cycle is None or cycle.response_complete
            self._wait_for("header" if idle else "body" if cycle.more_body else "")

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_for("")
            self.resume_writing()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._stall is None:
                self._watch_reader()

        def resume_writing(self) -> None:
            if self._stall is not None:
                self._stall.cancel()
                self._stall = None
            super().resume_writing()

        def _watch_reader(self) -> None:
            """Look again in a while: by then something has to be read of what there is to read."""
            size = self.transport.get_write_buffer_size()
            self._stall = self.loop.call_later(limits.stalled, self._check_reader, size)

        def _check_reader(self, before: int) -> None:
            if self.transport.get_write_buffer_size() >= before:
                self.transport.abort()
            else:
                self._watch_reader()

        def _wait_for(self, stage: str) -> None:
            if stage == self._stage:
                return
            if self._arrival is not None:
                self._arrival.cancel()
            seconds = {"header": limits.header, "body": limits.body}.get(stage)
            self._stage = stage
            self._arrival = None if seconds is None else self.loop.call_later(seconds, self._late)

        def _late(self) -> None:
            """Hang up on who has not sent what was waited for."""
            if not self.transport.is_closing() and (self.cycle is None or not self.cycle.response_started):
                self.transport.write(_LATE)
            self.transport.close()

    return BoundedProtocol
