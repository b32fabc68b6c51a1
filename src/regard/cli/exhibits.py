"""`regard exhibits`: the ideas of the lectures, each run and seen in a minute."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import Json
from regard.cli.console import put, say
from regard.errors import UsageError


def exhibits(
    name: Annotated[str | None, typer.Argument(help="Which one; without a name, a list.", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the page.")] = Path("exhibits"),
    every: Annotated[bool, typer.Option("--all", help="Run them all, and write an index.")] = False,
    as_json: Json = False,
) -> None:
    """List the lectures' ideas, or run one: its claim, its figures, its picture."""
    from regard.exhibits.gallery import EXHIBITS, find, write_index

    if every and name:
        raise UsageError(f"both --all and the name {name!r} were given", hint="give one of them")
    if not every and name is None:
        width = max(map(len, EXHIBITS))
        for exhibit in EXHIBITS.values():
            about = {"name": exhibit.name, "title": exhibit.title, "claim": exhibit.claim}
            put(json.dumps(about, ensure_ascii=False) if as_json else f"{exhibit.name:<{width}}  {exhibit.title}")
        return
    for chosen in EXHIBITS if every else [find(name or "").name]:
        _show(chosen, out, as_json=as_json)
    if every:
        say(f"index: {write_index(out)}")


def _show(name: str, out: Path, *, as_json: bool) -> None:
    """Run one exhibit and say what it found: figures to stdout, all else as talk."""
    from regard.exhibits.gallery import figure, find, hang

    exhibit = find(name)
    say(f"{exhibit.name}: {exhibit.claim}")
    begin = time.monotonic()
    finding = hang(exhibit, out)
    if as_json:
        facts = {"name": name, "figures": dict(finding.figures), "picture": str(out / f"{name}.png")}
        put(json.dumps(facts, ensure_ascii=False))
    else:
        for label, value in finding.figures.items():
            put(f"{label}\t{figure(value)}")
    say(f"{time.monotonic() - begin:.0f} s; picture: {out / name}.png, page: {out / name}.md")
