"""The process: an address taken, an application run at it, and an orderly end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from threading import Thread
from types import FrameType, TracebackType
from typing import Any

import uvicorn

from regard.config.process import short_turns
from regard.config.wording import several
from regard.errors import EnvironmentProblem
from regard.fast.cpu.native import why
from regard.serve.app import create_app
from regard.serve.connections import ConnectionLimits, bounded
from regard.serve.keys import Keys
from regard.serve.served import Served

_AFTER_GRACE = 5.0  # seconds in which the last answers, errors by then, are still sent


class Address:
    """A socket that listens; taken before anything is loaded, so that a port in use is known at once."""

    def __init__(self, host: str, port: int) -> None:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self.socket = socket.socket(family, socket.SOCK_STREAM)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((host, port))
        except OSError as problem:
            reason = problem.strerror or problem
            raise EnvironmentProblem(
                f"{host}:{port} cannot be listened at: {reason}", hint="--port 0 takes a free port"
            ) from None
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        self.url = f"http://{shown}:{self.socket.getsockname()[1]}"

    def __enter__(self) -> Address:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()


class Server(uvicorn.Server):
    """A server that, told to end, takes no more, finishes what it can, and ends the rest with an error."""

    def __init__(self, config: uvicorn.Config, served: Served, grace: float) -> None:
        super().__init__(config)
        self.served, self.grace, self.failed = served, grace, False
        served.on_loss(self.fail)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second signal ends at once. An end that was asked for is no failure: the exit code is 0."""
        self.should_exit, self.force_exit = True, self.should_exit
        if not self.served.stopping:
            self.served.stopping = True
            Thread(target=self.served.stop, args=(self.grace,), daemon=True).start()

    def fail(self) -> None:
        """Models were lost: there is nothing left to serve. Whoever started the server may start it again."""
        self.failed = self.served.stopping = self.should_exit = True


def run(
    served: Served,
    address: Address,
    *,
    keys: Keys,
    cors: Sequence[str] = (),
    grace: float = 10.0,
    connections: ConnectionLimits | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve until told to end."""
    app = create_app(served, keys=keys, cors=cors)
    config = uvicorn_config(app, connections or ConnectionLimits(), grace=grace)
    for line in introduction(served, address.url):
        say(line)
    server = Server(config, served, grace)
    try:
        with short_turns():
            server.run(sockets=[address.socket])
    finally:
        served.looking.stop()
    if server.failed:
        raise EnvironmentProblem(
            "the process with the models has ended: it was killed, or memory ran out",
            hint="start the server again; with fewer --rows it needs less memory",
        )
    say("stopped")


def uvicorn_config(app: Any, connections: ConnectionLimits, *, grace: float) -> uvicorn.Config:
    """How uvicorn is run: within bounds, and without a word about who asks."""
    return uvicorn.Config(
        app,
        http=bounded(connections),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_keep_alive=5,
        timeout_graceful_shutdown=int(grace + _AFTER_GRACE),
        h11_max_incomplete_event_size=64 * 1024,
    )


def introduction(served: Served, url: str) -> list[str]:
    """What is served where, and what cannot be promised."""
    models = served.models.values()
    lines = [f"serving {several(len(models), 'model', 'models')} at {url}"]
    lines += [f"  {model.name}  {model.engine.description}" for model in models]
    if not all(model.engine.exact for model in models):
        lines.append("answers are made in batches: their last digits may depend on who else is asking")
    elif any(model.engine.device == "cpu" for model in models) and (reason := why()):
        lines.append(f"without native kernels requests are decoded one after another: {reason}")
    return lines
