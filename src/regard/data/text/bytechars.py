"""Every byte as one printable character: the alphabet that byte-level tokenizers write their pieces in.

The 188 bytes that print as themselves in Latin-1 stay; the others (space, controls, …) move to U+0100 and on. This is
the table of GPT-2, which the `tokenizers` library uses inside its ByteLevel parts; a space becomes "Ġ".
"""

from functools import cache


@cache
def byte_to_char() -> tuple[str, ...]:
    """The character of each byte; entry b belongs to byte b."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    moved = iter(range(256, 512))
    return tuple(chr(byte) if byte in printable else chr(next(moved)) for byte in range(256))


@cache
def char_to_byte() -> dict[str, int]:
    """The byte of each character: the inverse of `byte_to_char`."""
    return {char: byte for byte, char in enumerate(byte_to_char())}


def readable(piece: str) -> str:
    """A byte-level piece as people would write it; bytes that are not whole characters show as <0xE2>."""
    raw = bytes(char_to_byte()[char] for char in piece)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 0x80 else f"<0x{byte:02X}>" for byte in raw)
