"""Packing a directory into one archive that is the same bytes each time, and unpacking it safely.

Members are sorted by name and carry nothing of the machine that packed them: no times, owners or
directories, one mode. To pack the tables anew, from a directory that holds `<name>/` and
`<name>.expected.json` for each of them:

    python -m tests.golden.archive DIRECTORY
"""

from __future__ import annotations

import io
import json
import lzma
import sys
import tarfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TABLES = HERE / "tables.tar.xz"
EXPECTED = HERE / "expected.tar.xz"
EXPECTED_SUFFIX = ".expected.json"


def pack(root: Path, files: list[Path], archive: Path) -> None:
    """Write `files`, which lie under `root`, into `archive`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(files, key=lambda path: path.relative_to(root).as_posix()):
            member = tarfile.TarInfo(file.relative_to(root).as_posix())
            member.size = file.stat().st_size
            member.mode = 0o644
            with file.open("rb") as content:
                tar.addfile(member, content)
    archive.write_bytes(lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def pack_tables(source: Path) -> None:
    """Write both archives anew from the tables in `source`."""
    tables = [f for d in sorted(source.iterdir()) if d.is_dir() for f in d.rglob("*")]
    pack(source, [file for file in tables if file.is_file()], TABLES)
    pack(source, list(source.glob(f"*{EXPECTED_SUFFIX}")), EXPECTED)


def unpack(archive: Path, into: Path) -> None:
    """Unpack `archive`; a member that would leave `into`, or is no plain file, is refused."""
    # Early releases of Python 3.11 do not know extraction filters, so files are written by hand.
    with tarfile.open(archive, "r:xz") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is None or ".." in Path(member.name).parts or member.name.startswith("/"):
                raise ValueError(f"{member.name!r} in {archive.name} is no plain file inside it")
            target = into / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())


def members(archive: Path) -> list[tarfile.TarInfo]:
    """What the archive holds."""
    with tarfile.open(archive, "r:xz") as tar:
        return tar.getmembers()


def load_expected() -> dict[str, dict[str, Any]]:
    """What Apache Hudi read from each table, by its name."""
    found: dict[str, dict[str, Any]] = {}
    with tarfile.open(EXPECTED, "r:xz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None, member.name
            found[member.name.removesuffix(EXPECTED_SUFFIX)] = json.load(content)
    return found


if __name__ == "__main__":
    pack_tables(Path(sys.argv[1]))
