"""Who may ask: keys of a file, one a line, compared in constant time."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

from regard.errors import UsageError


class Keys:
    """The keys that are let in; without any, everybody is."""

    def __init__(self, keys: list[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The lines of a file; empty ones and those that begin with # are none."""
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(
                f"--keys {path}: cannot be read: {problem}", hint="give a text file, a key a line"
            ) from None
        keys = [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise UsageError(f"--keys {path}: there is no key in it", hint="write one a line")
        return cls(keys)

    @property
    def needed(self) -> bool:
        """Whether a key has to be given."""
        return bool(self._digests)

    def admit(self, key: str | None) -> bool:
        """Whether this one is let in; every key is looked at, so that time says nothing."""
        if not self.needed:
            return True
        given, found = _digest(key or ""), False
        for digest in self._digests:
            found |= hmac.compare_digest(given, digest)
        return found


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "replace")).digest()
