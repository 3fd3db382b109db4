"""Which files a clustering plan is going to read, as paths relative to the table. Pure.

Plans name them by absolute locations. Their last segments with the partition beside them say the
same, and stay true where the table was moved: what is kept for a plan must not depend on that.
"""

from __future__ import annotations

from lentic.errors import Corrupt
from lentic.format.avro import Fields, decode_container
from lentic.format.layout import data_file, is_data_path


def decode_clustering_inputs(data: bytes, where: str) -> frozenset[str]:
    """Every file that the plan in `<requested_at>.clustering.requested` names; none if the file
    holds no plan, as that of a write which replaces file groups."""
    record = decode_container(data, where, ("HoodieRequestedReplaceMetadata",))
    if record is None:
        return frozenset()
    groups = Fields(record, where).record("clusteringPlan").records("inputGroups")
    return frozenset(
        _input_path(part.text("partitionPath"), location, where)
        for group in groups
        for part in group.records("slices")
        for location in (part.text("dataFilePath"), *part.texts("deltaFilePaths"))
        if location
    )


def _input_path(partition: str, location: str, where: str) -> str:
    path = data_file(partition, location.rpartition("/")[2])
    if not is_data_path(path):
        raise Corrupt(f"The clustering plan names {location!r}, no data file.", where=where)
    return path
