"""`regard serve`: models behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import Device, NoCheck, Precision
from regard.cli.console import say
from regard.errors import EnvironmentProblem


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Runs, or models of others; NAME=RUN gives one another name.", show_default=False
        ),
    ],
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is everybody's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    keys: Annotated[
        Path | None, typer.Option(help="A file with a key a line: who asks has to send one.", show_default=False)
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(help="A web address whose pages may ask, or *; may be repeated.")
    ] = None,
    languages: Annotated[
        list[str] | None, typer.Option(help="NAME=en-de: what a translator translates, where its recipe does not say.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows that a model decodes at a time; a beam takes its width.", min=1)] = 64,
    queue: Annotated[int, typer.Option(help="Requests that may wait for a model; others get 429.", min=1)] = 256,
    deadline: Annotated[float, typer.Option(help="Seconds that a request may take.", min=0.1)] = 120.0,
    max_body: Annotated[int, typer.Option(help="Megabytes that a request may have.", min=1)] = 32,
    max_connections: Annotated[int, typer.Option(help="Connections at a time; others get 503.", min=1)] = 512,
    max_length: Annotated[int, typer.Option(help="Tokens that an output may have.", min=1)] = 4096,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--batched",
            help="Keep an answer's bits from depending on who else asks; a CPU does so by itself, a GPU if it is told.",
            show_default=False,
        ),
    ] = None,
    grace: Annotated[float, typer.Option(help="Seconds to finish in when the server is told to end.", min=0)] = 10.0,
    device: Device = "auto",
    no_check: NoCheck = False,
    precision: Precision = "auto",
) -> None:
    """Serve models over HTTP: OpenAI's and LibreTranslate's interfaces, and /v1/predict and /v1/look for every task.

    Every answer is the one that `regard predict` gives to that input alone. Ctrl-C or SIGTERM ends it.
    """
    try:
        from regard.serve.server import Address, run
    except ModuleNotFoundError as problem:
        raise EnvironmentProblem(
            f"{problem.name} is not installed, and a server needs it", hint="pip install 'regard[serve]'"
        ) from None
    from regard.serve.connections import ConnectionLimits
    from regard.serve.keys import Keys
    from regard.serve.limits import Limits
    from regard.serve.served import language_pairs, named_places, open_served

    known = Keys.read(keys) if keys else Keys([])
    limits = Limits(
        rows=rows,
        queue=queue,
        deadline=deadline,
        body=max_body * 1024 * 1024,
        inputs=min(Limits.inputs, queue),  # more could never wait, however often they came again
        length=max_length,
    )
    places, pairs = named_places(runs), language_pairs(languages or [])
    with Address(host, port) as address:
        served = open_served(
            places,
            limits=limits,
            device=device,
            precision=precision,
            check=not no_check,
            exact=exact,
            languages=pairs,
        )
        connections = ConnectionLimits(most=max_connections)
        run(served, address, keys=known, cors=cors or (), grace=grace, connections=connections, say=say)
