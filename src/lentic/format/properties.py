"""Java `.properties` text: the form of `hoodie.properties` and of partition metadata.

Bytes are ISO-8859-1; every other character is written as `\\uXXXX`, one per UTF-16 unit. Decoding
accepts all that `java.util.Properties.load` accepts; encoding writes what Java reads back as the
same values.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from lentic.errors import ConfigError, Corrupt

# A logical line: text up to a line end that no backslash escapes. A comment is never continued.
_LINE = re.compile(
    r"[ \t\f]*(?:[#!][^\r\n]*|(?P<text>(?:[^\\\r\n]|\\(?:\r\n|[\s\S]|\Z))*))(?:\r\n|\r|\n|\Z)"
)
# What continues a line (to drop), or any other escape (to keep for later, in group 1).
_CONTINUATION = re.compile(r"(?s)\\(?:(?:\r\n|\r|\n)[ \t\f]*|\Z)|(\\.)")
_KEY_AND_VALUE = re.compile(r"(?s)((?:[^\\ \t\f=:]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE = re.compile(r"(?s)\\(?:u([0-9A-Fa-f]{4})|(.))")
_FROM_ESCAPE = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TO_ESCAPE = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"} | {
    char: "\\" + char for char in "=:#!"
}


def decode_properties(data: bytes, where: str) -> dict[str, str]:
    """The values of a properties file; of a key given twice the last counts, as in Java."""
    text = data.decode("iso-8859-1")
    values: dict[str, str] = {}
    offset = 0
    while offset < len(text):
        line = _LINE.match(text, offset)
        assert line is not None and line.end() > offset, "every text starts with a line"
        text_of_line = _CONTINUATION.sub(lambda found: found[1] or "", line["text"] or "")
        pair = _KEY_AND_VALUE.fullmatch(text_of_line)
        assert pair is not None, "the pattern takes any text"
        if text_of_line:
            at = f"{where}@{offset}"
            values[_parse_escapes(pair[1], at)] = _parse_escapes(pair[2], at)
        offset = line.end()
    return values


def _parse_escapes(text: str, where: str) -> str:
    if "\\" not in text:
        return text

    def plain(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] == "u":
            raise Corrupt(r"A \u escape without four hexadecimal digits.", where=where)
        return _FROM_ESCAPE.get(found[2], found[2])

    units = _ESCAPE.sub(plain, text)
    try:
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError as error:
        raise Corrupt("Half a surrogate pair.", where=where) from error


def encode_properties(values: Mapping[str, str], comment: str) -> bytes:
    """A properties file with one comment and the values sorted by key."""
    lines = ["#" + _format_units(part, {}) for part in comment.splitlines()]
    for key, value in sorted(values.items()):
        lines.append(f"{_format_key(key)}={_format_value(value)}")
    return "".join(line + "\n" for line in lines).encode("ascii")


def _format_key(key: str) -> str:
    return _format_units(key, _TO_ESCAPE).replace(" ", "\\ ")


def _format_value(value: str) -> str:
    text = _format_units(value, _TO_ESCAPE)
    return "\\" + text if text.startswith(" ") else text


def _format_units(text: str, escapes: Mapping[str, str]) -> str:
    try:
        units = text.encode("utf-16-be")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{text!r} is not text: it holds half a surrogate pair.") from error
    codes = (int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2))
    return "".join(_format_unit(code, escapes) for code in codes)


def _format_unit(code: int, escapes: Mapping[str, str]) -> str:
    plain = chr(code)
    if plain in escapes:
        return escapes[plain]
    return plain if 0x20 <= code <= 0x7E else f"\\u{code:04X}"


def table_checksum(database: str, name: str) -> int:
    """The value of `hoodie.table.checksum`: CRC-32 of `<database>.<name>`."""
    return zlib.crc32(f"{database}.{name}".encode())
