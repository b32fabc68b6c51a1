"""Parts that fit together: what a part begins with, where that depends on the parts before it.

Texts of several lines stand apart by an empty line, and the header of tables stands once. A worker knows nothing of the
other parts: it takes it that outputs stand before its own, and no header. Once all parts are there, those that begin
otherwise than they should are written anew, which is a matter of a few bytes at their beginning.
"""

from __future__ import annotations

from dataclasses import replace

from regard.scale.manifest import Manifest, Record
from regard.tasks.predicting.outputs import Before


def fit_together(manifest: Manifest, names: list[str]) -> None:
    """Let every part begin as it does in the output of a single process."""
    before = Before()
    for number, name in enumerate(names):
        record = manifest.records[number]
        if record.lead is None:  # it has no outputs
            continue
        lead = _lead(record, before)
        if lead != record.lead:
            _rewrite(manifest, name, record, lead)
        before = Before(outputs=True, header=record.last_header or before.header)


def _lead(record: Record, before: Before) -> str:
    apart = "\n" if record.separates and before.outputs else ""
    if record.first_header is None or record.first_header == before.header:
        return apart
    return f"{apart}{record.first_header}\n"


def _rewrite(manifest: Manifest, name: str, record: Record, lead: str) -> None:
    old, new = ((text or "").encode("utf-8", "replace") for text in (record.lead, lead))
    content = new + (manifest.folder / name).read_bytes()[len(old) :]
    manifest.write_part(name, content, replace(record, lead=lead))
