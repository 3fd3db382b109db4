"""Which data files a plan names, whatever kind of plan it is.

Plans hold names and absolute paths in fields that differ from kind to kind. A file's name is its
own in the whole table, so that whether a plan names it can be asked without knowing the kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from lentic.format.avro import decode_container
from lentic.format.names import requested_at_of


def decode_named_files(data: bytes, where: str) -> frozenset[str]:
    """The names, without folders, of all data files that an Avro container names anywhere."""
    names = (text.rpartition("/")[2] for text in _texts(decode_container(data, where)))
    return frozenset(name for name in names if requested_at_of(name))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
