"""A real server on a free port of this machine, in a thread, for as long as a test needs it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import uvicorn

from regard.serve.app import create_app
from regard.serve.connections import ConnectionLimits
from regard.serve.keys import Keys
from regard.serve.limits import Limits
from regard.serve.served import Served, open_served
from regard.serve.server import Address, uvicorn_config

RUNS = Path(__file__).parents[1] / "golden" / "finished"


@contextmanager
def serving(
    *names: str,
    keys: tuple[str, ...] = (),
    limits: Limits | None = None,
    places: dict[str, Path] | None = None,
    connections: ConnectionLimits | None = None,
    apart: bool = False,
) -> Iterator[tuple[str, Served]]:
    """The address of a server of golden runs, and what it serves."""
    runs = {name: RUNS / name for name in names} | (places or {})
    pairs = {"translation": ("en", "de")} if "translation" in names else {}
    served = open_served(runs, limits=limits or Limits(), device="cpu", languages=pairs, apart=apart)
    with Address("127.0.0.1", 0) as address:
        app = create_app(served, keys=Keys(list(keys)))
        config = uvicorn_config(app, connections or ConnectionLimits(), grace=0.1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: server.run(sockets=[address.socket]), daemon=True)
        thread.start()
        _wait_for(address.url)
        try:
            yield address.url, served
        finally:
            served.stop(0.1)
            server.should_exit = True
            thread.join(10)


def chat_model(folder: Path | str) -> Path:
    """A language model with a chat template beside it, made in this folder."""
    place = Path(folder) / "chatting"
    shutil.copytree(RUNS / "language", place)
    (place / "chat_template.jinja").write_text("{{ eos_token }}{% for one in messages %}{{ one.content }} {% endfor %}")
    return place


def _wait_for(url: str) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            with urlopen(f"{url}/live", timeout=1):
                return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(url)
