"""Cases that go wrong in every way there is, to show that the harness notices."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

from lentic.errors import Corrupt
from lentic.storage.base import Storage
from tests.fuzz.case import Case, Kind, Outcome, Target

EXPECTED = (
    Outcome.EXACT,
    Outcome.REFUSED,
    Outcome.WRONG,
    Outcome.UNNAMED,
    Outcome.UNTYPED,
    Outcome.GREEDY,
    Outcome.DIED,
    Outcome.HUNG,
    Outcome.EXACT,
)


def _answer(storage: Storage) -> bytes:
    data = storage.read("file")
    match data.decode():
        case Outcome.REFUSED:
            raise Corrupt("damaged", where="file")
        case Outcome.UNNAMED:
            raise Corrupt("damaged")
        case Outcome.UNTYPED:
            raise KeyError("damaged")
        case Outcome.GREEDY:
            return bytes(1 << 30)
        case Outcome.DIED:
            os.abort()
        case Outcome.HUNG:
            time.sleep(60)
    return data


def _targets() -> Mapping[str, Target]:
    return {"t": Target({"file": Outcome.EXACT.encode()}, {"answer": _answer})}


def _cases(tables: Mapping[str, Target]) -> Iterator[Case]:
    for number, outcome in enumerate(EXPECTED):
        yield Case("all", f"{number}", "t", "answer", {"file": outcome.encode()}, ("file",))


KIND = Kind(groups=("all",), least=1, least_full=1, targets=_targets, cases=_cases)
