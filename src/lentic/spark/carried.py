"""Our errors across Spark's border.

What a Python worker raises reaches the driver as text inside Spark's own exception. A worker
therefore wraps our errors in one line that the driver finds again, and only errors of our own tree
can come out of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from lentic.errors import LenticError, from_fields

_MARK = re.compile(r"lentic-error:([A-Za-z0-9+/=]+):")


class WorkerError(RuntimeError):
    """One of our errors on its way from a worker to the driver."""


@contextmanager
def carry() -> Iterator[None]:
    """In a worker: send our errors on in a form that survives the journey."""
    try:
        yield
    except LenticError as error:
        packed = base64.b64encode(json.dumps(error.to_fields()).encode()).decode()
        raise WorkerError(f"{error}\nlentic-error:{packed}:") from error


@contextmanager
def unpack() -> Iterator[None]:
    """In the driver: raise what the worker raised, instead of Spark's exception around it."""
    try:
        yield
    except PySparkException as error:
        if (found := _find(str(error))) is not None:
            raise found from error
        raise


def _find(text: str) -> LenticError | None:
    if (mark := _MARK.search(text)) is None:
        return None
    try:
        fields = json.loads(base64.b64decode(mark[1]))
        return from_fields(fields)
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
