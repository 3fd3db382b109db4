"""How many random histories were equal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """How the random histories of this run ended; `operations` are those of the equal ones."""

    equal: int = 0
    refused: int = 0
    differing: int = 0
    operations: int = 0

    def __str__(self) -> str:
        return (
            f"random histories: {self.equal} equal to Apache Hudi, {self.operations} operations"
            f" in all; {self.differing} not equal; {self.refused} that Hudi itself refused to play"
        )
