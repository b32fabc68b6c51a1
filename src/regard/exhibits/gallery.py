"""All exhibits in the lectures' order, and the pages they make.

hang(find("scaling"), "docs/exhibits")     writes scaling.png and scaling.md
write_index("docs/exhibits")               writes README.md, the way in
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from textwrap import fill

import torch

from regard.config.schema import nearest
from regard.errors import UsageError
from regard.exhibits.exhibit import Exhibit, Finding, Scale

NAMES = (
    "averaging", "similarity", "bottleneck", "crossing", "scaling", "order", "shift", "context", "cheating", "blanks",
    "heads", "patches", "decoding", "vanishing", "parallel", "quadratic", "account",
)  # fmt: skip
_MODULES = {name: import_module(f"regard.exhibits.{name}") for name in NAMES}
EXHIBITS: Mapping[str, Exhibit] = {
    name: Exhibit(name, module.TITLE, module.CLAIM, module.run) for name, module in _MODULES.items()
}


def find(name: str) -> Exhibit:
    """The exhibit of that name."""
    if name not in EXHIBITS:
        near = nearest(name, EXHIBITS)
        hint = f"did you mean {near}?" if near else "regard exhibits lists them"
        raise UsageError(f"no exhibit is called {name!r}; there are {', '.join(EXHIBITS)}", hint=hint)
    return EXHIBITS[name]


def hang(exhibit: Exhibit, folder: Path | str, *, scale: Scale | None = None) -> Finding:
    """Run an exhibit and write its picture and its page."""
    folder = Path(folder)
    with one_thread():
        finding = exhibit.run(scale or Scale())
    finding.draw(folder / f"{exhibit.name}.png")
    (folder / f"{exhibit.name}.md").write_text(page(exhibit, finding), encoding="utf-8")
    return finding


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread: these models are too small to share out, and figures would depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def page(exhibit: Exhibit, finding: Finding) -> str:
    """The page of an exhibit in Markdown."""
    name, paragraphs = exhibit.name, finding.text.strip().split("\n\n")
    text = "\n\n".join(fill(" ".join(part.split()), 118, break_on_hyphens=False) for part in paragraphs)
    rows = "\n".join(f"| {label} | {figure(value)} |" for label, value in finding.figures.items())
    return f"""# {exhibit.title}

**{exhibit.claim}**

![{exhibit.claim}]({name}.png)

{text}

| measured | |
|---|---:|
{rows}

`regard exhibits {name}` makes this page; the code is in [{name}.py](../../src/regard/exhibits/{name}.py). \
[All exhibits](README.md)
"""


def write_index(folder: Path | str) -> Path:
    """The way in: every exhibit with its claim."""
    rows = "\n".join(f"| [{e.title}]({e.name}.md) | {e.claim} | `{e.name}` |" for e in EXHIBITS.values())
    text = f"""# Exhibits

Every idea of the lectures, run and measured by the code that does the real work, each in under a minute on
one core. `regard exhibits` lists them, `regard exhibits NAME` runs one, `make exhibits` writes these pages.

| exhibit | what it shows | name |
|---|---|---|
{rows}
"""
    path = Path(folder) / "README.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def figure(value: float) -> str:
    """A number as people read it: whole ones with their thousands, others to three digits."""
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1000 or abs(value) >= 1e9 else f"{value:,.0f}"
