"""What a table is, when its properties file is missing, cut short or damaged."""

from __future__ import annotations

import pytest

from lentic.api import load_table_config
from lentic.errors import Corrupt, TableNotFound
from lentic.format.layout import PROPERTIES, PROPERTIES_BACKUP
from lentic.storage.memory import MemoryStorage
from tests.unit.builders import new_table


def a_table() -> MemoryStorage:
    storage = MemoryStorage()
    new_table(storage=storage)
    return storage


def test_a_properties_file_that_is_being_rewritten_is_read_from_its_backup() -> None:
    storage = a_table()
    storage.put_if_absent(PROPERTIES_BACKUP, storage.read(PROPERTIES))
    storage.delete(PROPERTIES)
    assert load_table_config(storage).name == "t"
    storage.delete(PROPERTIES_BACKUP)
    with pytest.raises(TableNotFound):
        load_table_config(storage)


@pytest.mark.parametrize("size", [0, 1, 40, 200])
def test_a_properties_file_that_is_written_in_part_is_read_from_its_backup(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = a_table()
    whole = storage.read(PROPERTIES)
    storage.put_if_absent(PROPERTIES_BACKUP, whole)
    storage.replace(PROPERTIES, whole[:size])
    assert load_table_config(storage).name == "t"
    assert "its backup is taken instead" in caplog.text


@pytest.mark.parametrize("backup", [None, b""])
def test_properties_that_nothing_stands_for_say_where_and_what_to_do(backup: bytes | None) -> None:
    storage = a_table()
    storage.replace(PROPERTIES, b"")
    if backup is not None:
        storage.put_if_absent(PROPERTIES_BACKUP, backup)
    with pytest.raises(Corrupt, match="is empty") as caught:
        load_table_config(storage)
    assert caught.value.where == f"{storage.root}/{PROPERTIES}"
    assert caught.value.safe == "nothing was read or written"
    assert "copy of the table" in caught.value.next_step
