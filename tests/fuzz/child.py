"""Runs the cases of one kind in a process of its own, from a given case on: one JSON line each.

    python -m tests.fuzz.child KIND FIRST

The process may use so much address space beyond what it has after its tables are made, and no
more; what a case really touched is measured as well. Should damaged bytes crash a library, only
this process dies, and its parent knows at which case.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.fuzz import base_files, broken, history_files, log_files, timeline_files
from tests.fuzz.case import Case, Kind, Outcome, Target, Verdict, encode_verdict, judge

KINDS: dict[str, Kind] = {
    "base": base_files.KIND,
    "log": log_files.KIND,
    "timeline": timeline_files.KIND,
    "history": history_files.KIND,
}
MEMORY_BYTES_MAX = 512 << 20

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def run(kind: Kind, first: int) -> Iterator[Verdict]:
    """The verdicts from case `first` on. The first case of each question also finds its truth."""
    for number, (target, case) in enumerate(kind):
        target.truth(case.ask)
        if number == 0:
            _limit_memory()
        if number >= first:
            yield Verdict(number, case.group, case.note, Outcome.BEGUN, "", case.excuse)
            yield _verdict(number, target, case)


def _verdict(number: int, target: Target, case: Case) -> Verdict:
    before = _restart_peak()
    start = time.perf_counter()
    outcome, detail = judge(target, case)
    ms = (time.perf_counter() - start) * 1000
    mib = max(0, _memory_kib("VmHWM") - before) / 1024
    if mib > MEMORY_BYTES_MAX >> 20:
        outcome, detail = Outcome.GREEDY, f"{mib:.0f} MiB; {outcome}: {detail}"
    return Verdict(number, case.group, case.note, outcome, detail, case.excuse, mib, ms)


def _limit_memory() -> None:
    used = _memory_kib("VmSize") << 10
    if used:
        limit = used + MEMORY_BYTES_MAX
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _restart_peak() -> int:
    """Let the peak of used memory start anew at what is used now, which is returned."""
    with suppress(OSError):
        _CLEAR.write_text("5")
    return _memory_kib("VmRSS")


def _memory_kib(name: str) -> int:
    """A figure of this process as Linux reports it; 0 on other systems."""
    with suppress(OSError):
        for line in _STATUS.read_text("ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0


def main() -> None:
    name, first = sys.argv[1], int(sys.argv[2])
    for verdict in run((KINDS | {"broken": broken.KIND})[name], first):
        print(encode_verdict(verdict), flush=True)


if __name__ == "__main__":
    main()
    # All verdicts are out. Native threads that could not be ended under the memory limit abort a
    # process that shuts down in good order, now and then.
    os._exit(0)
