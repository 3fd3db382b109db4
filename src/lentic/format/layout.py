"""Every path under a table, said once. Paths are relative to the table and `/`-separated.

.hoodie/hoodie.properties[.backup]      what the table is
.hoodie/timeline/                       instants; history/ beneath it holds the archived ones
.hoodie/.temp/<requested_at>/           markers of a write in progress
.hoodie/.completion/<requested_at>/     which shares of it are complete, and what was accepted
.hoodie/.completion/<requested_at>.finalized.json  nothing can be added to it any more
.hoodie/.heartbeat/<requested_at>       sign of life of a writer
.hoodie/.guard/<requested_at>/<number>  who may execute a plan: the latest
.hoodie/.planned/<action>               what a service looked at in vain, so that it need not again
.hoodie/.cancel/<requested_at>          a plan that must not complete, and who asked for it
.hoodie/.aborted.json                   the plans that ended so and left the active timeline
.hoodie/.locks/                         the table lock; staged/ beneath it what it decided; clock-*
                                        made to see how the storage dates files, and removed
.hoodie/.sweep                          dated, by the storage's clock: when orphans were swept last
.hoodie/metadata/                       the metadata table, a table of its own
<partition>/.hoodie_partition_metadata  makes a folder a partition
<partition>/<data file>
"""

from __future__ import annotations

from typing import Literal

from lentic.format.lsm_names import parse_manifest_name
from lentic.format.names import Action
from lentic.format.properties import encode_properties
from lentic.format.times import RequestedAt

HOODIE = ".hoodie"
PROPERTIES = ".hoodie/hoodie.properties"
PROPERTIES_BACKUP = ".hoodie/hoodie.properties.backup"
TIMELINE = ".hoodie/timeline"
HISTORY = ".hoodie/timeline/history"
HISTORY_VERSION = ".hoodie/timeline/history/_version_"
TEMP = ".hoodie/.temp"
COMPLETIONS = ".hoodie/.completion"
HEARTBEATS = ".hoodie/.heartbeat"
CANCEL = ".hoodie/.cancel"
ABORTED = ".hoodie/.aborted.json"
GUARDS = ".hoodie/.guard"
PLANNED = ".hoodie/.planned"
LOCKS = ".hoodie/.locks"
LOCK = ".hoodie/.locks/lentic.lock"
STORAGE_LOCK = ".hoodie/.locks/table_lock.json"
STAGED = ".hoodie/.locks/staged"
SWEEP = ".hoodie/.sweep"
METADATA_TABLE = ".hoodie/metadata"
PARTITION_METADATA = ".hoodie_partition_metadata"

MarkerKind = Literal["CREATE", "MERGE"]


def timeline_file(name: str) -> str:
    """Path of an instant file."""
    return f"{TIMELINE}/{name}"


def is_decidable_path(path: str) -> bool:
    """Whether `path` is one that the table lock decides about: a file directly in the active
    timeline, a manifest of the archived one, a plan's guard, or the request to cancel one."""
    directory, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        return False
    plans, _, plan = directory.rpartition("/")
    if directory == HISTORY:
        return parse_manifest_name(name) is not None
    if directory == CANCEL:
        return name.isdigit()
    return directory == TIMELINE or (plans == GUARDS and plan.isdigit() and name.isdigit())


def history_file(name: str) -> str:
    """Path of a file of the archived timeline."""
    return f"{HISTORY}/{name}"


def staged_intent(name: str) -> str:
    """Path of the content of a timeline file that was decided and is too large for the lock."""
    return f"{STAGED}/{name}"


def clock_probe(name: str) -> str:
    """Path of a file that is made to learn what time the storage has, and removed at once."""
    return f"{LOCKS}/clock-{name}"


def is_staged_path(path: str) -> bool:
    """Whether `path` is one that `staged_intent` makes."""
    directory, _, name = path.rpartition("/")
    return directory == STAGED and name not in ("", ".", "..")


def heartbeat(requested_at: RequestedAt) -> str:
    """Path of the heartbeat of the instant's writer."""
    return f"{HEARTBEATS}/{requested_at}"


def cancel_request(requested_at: RequestedAt) -> str:
    """Path of the request to cancel a plan."""
    return f"{CANCEL}/{requested_at}"


def guards(requested_at: RequestedAt) -> str:
    """Directory of the guards of a plan."""
    return f"{GUARDS}/{requested_at}"


def guard(requested_at: RequestedAt, number: int) -> str:
    """Path of one guard of a plan."""
    return f"{guards(requested_at)}/{number}"


def planned(action: Action) -> str:
    """Path of the note on what planners of a service looked at and found nothing to do."""
    return f"{PLANNED}/{action}"


def markers(requested_at: RequestedAt) -> str:
    """Directory of the markers of one write."""
    return f"{TEMP}/{requested_at}"


def marker(requested_at: RequestedAt, data_path: str, kind: MarkerKind) -> str:
    """Path of the marker that announces the data file at `data_path`."""
    return f"{markers(requested_at)}/{data_path}.marker.{kind}"


def completions(requested_at: RequestedAt) -> str:
    """Directory of the completion markers of one write, and of what was accepted of it."""
    return f"{COMPLETIONS}/{requested_at}"


def completion(requested_at: RequestedAt, share_digest: str) -> str:
    """Path of the marker that says that one share of a write is complete."""
    return f"{completions(requested_at)}/{share_digest}.completed.json"


def accepted_statuses(requested_at: RequestedAt) -> str:
    """Path of the statuses that the driver accepted."""
    return f"{completions(requested_at)}/statuses.json"


def finalized(requested_at: RequestedAt) -> str:
    """Path of the marker after which no attempt may add to the write."""
    return f"{COMPLETIONS}/{requested_at}.finalized.json"


def data_file(partition: str, name: str) -> str:
    """Path of a data file; the partition "" is the table's root."""
    return f"{partition}/{name}" if partition else name


def partition_metadata(partition: str) -> str:
    """Path of the file that makes the folder a partition."""
    return data_file(partition, PARTITION_METADATA)


def encode_partition_metadata(requested_at: RequestedAt, partition: str) -> bytes:
    """Content of a partition's metadata file: the instant that made it, and its depth."""
    depth = len(partition.split("/")) if partition else 0
    values = {"commitTime": str(requested_at), "partitionDepth": str(depth)}
    return encode_properties(values, "partition metadata")


def is_data_path(path: str) -> bool:
    """Whether a path read from metadata stays among the table's data files.

    False for one that leaves the table, is not in plain form, or reaches into `.hoodie`, so that
    whoever reads or deletes what metadata names cannot be led astray by it.
    """
    segments = path.split("/")
    return segments[0] != HOODIE and not any(segment in ("", ".", "..") for segment in segments)
