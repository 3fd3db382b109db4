"""Column groups: columns of a row that one source owns, with the column that orders its versions.

Text form, in options and in the table's properties: `a_ts:a_name,a_price;b_ts:b_stock`, per group
the ordering column, a colon and the other columns.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """Columns that are decided together, by the value of `ordering`."""

    ordering: str
    columns: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the group, the ordering column first."""
        return (self.ordering, *self.columns)


ColumnGroups = tuple[ColumnGroup, ...]
NO_GROUPS: ColumnGroups = ()


def parse_column_groups(text: str) -> ColumnGroups:
    """The groups that a text names; `ValueError` if it has another form or names a column twice."""
    groups = tuple(_parse_group(part) for part in text.split(";") if part.strip())
    names = [name for group in groups for name in group.names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"column {twice[0]} occurs twice, and one group decides a column")
    return groups


def format_column_groups(groups: ColumnGroups) -> str:
    """The text of some groups."""
    return ";".join(f"{group.ordering}:{','.join(group.columns)}" for group in groups)


def _parse_group(text: str) -> ColumnGroup:
    ordering, colon, rest = (part.strip() for part in text.partition(":"))
    columns = tuple(name.strip() for name in rest.split(","))
    if not (ordering and colon and all(columns)):
        raise ValueError("a group has the form ordering_column:column,column")
    return ColumnGroup(ordering, columns)
