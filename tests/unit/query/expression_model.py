"""Expressions that a user could have typed, by chance, and rows with the values that are hard.

`Wishes` writes texts whose types mostly go together. What they come to is for Spark to say.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("i", pa.int32()),
        ("big", pa.int64()),
        ("ratio", pa.float32()),
        ("score", pa.float64()),
        ("weight", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("rate", pa.decimal128(18, 6)),
        ("total", pa.decimal128(38, 18)),
        ("name", pa.string()),
        ("digits", pa.string()),
        ("flag", pa.bool_()),
        ("gone", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("clock", pa.timestamp("us")),
        ("place", pa.struct([("x", pa.int32()), ("the label", pa.string())])),
        ("tags", pa.list_(pa.string())),
    ]
)
_TEXTS = [
    *("", "a", "B", "ab", "Straße", "ΑΣ", "it's", "50%", "5_%", "x\\y", "İx", "ŉ", " a  b "),
    *("\ta", "z\n", "\U0001f600k", "${a}", "12", "-7", "ﬁn", "abcdefghij"),
]
_PATTERNS = ["%a%", "_", "a%", "%", "5\\_%", "x\\\\y", "%ß_"]
_DIGITS = ["0", "7", "-12", "+3", " 42", "127", "128\t", "2147483648", "-9223372036854775808"]
_FLOATS = [0.5, -0.5, 1.5, 2.5, 0.0, -0.0, 1.005, 0.1, -2.675, 100.0, 1e300, -1e-30, 2.0**53]
_ODD_FLOATS = [math.nan, math.inf, -math.inf, 123456.785, 1e15 + 0.5, -7.25, 3.0, 1e-7]
_HELD: dict[str, list[object]] = {
    "tiny": [0, 1, -1, 3, 127, -128, 7],
    "small": [0, 1, -2, 300, 32767, -32768],
    "i": [0, 1, -1, 2, 10, -7, 100, 2**31 - 1, -(2**31), 46341],
    "big": [0, 1, -3, 12, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 3037000500],
    "ratio": [0.5, 0.1, -1.25, 2.5, 0.0, -0.0, math.nan, math.inf, 16777217.0, 1e-7, 1e38],
    "score": [*_FLOATS, *_ODD_FLOATS],
    "weight": [*_ODD_FLOATS, *_FLOATS[::-1]],
    "price": [Decimal(text) for text in ("0.00", "1.25", "-1.25", "99999999.99", "0.05", "7.5")],
    "rate": [Decimal(text) for text in ("0", "0.000001", "-3.141592", "999999999999.999999", "2")],
    "total": [
        *(Decimal(text) for text in ("0", "1.5", "-0.000000000000000001", "3.333333333333333333")),
        *(Decimal(text) for text in ("99999999999999999999.000000000000000024", "-12.5")),
    ],
    "name": [*_TEXTS],
    "digits": [*_DIGITS],
    "flag": [True, False],
    "gone": [True, False, True],
    "day": [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1), date(9999, 12, 31)],
    "at": [datetime(2026, 1, day, 12, 30, 0, day, UTC) for day in (1, 2, 3)],
    "clock": [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 2, 3, 4, 5)],
    "tags": [[], ["a"], ["a", None, "b"]],
}


def rows(count: int, seed: int) -> pa.Table:
    """Rows of `SCHEMA`, numbered by `n`; about one value in six is null."""
    chance = random.Random(seed)

    def held(name: str) -> object:
        return None if chance.random() < 1 / 6 else chance.choice(_HELD[name])

    made = []
    for number in range(count):
        row = {name: held(name) for name in _HELD}
        place = {"x": held("i"), "the label": held("name")}
        made.append({"n": number, **row, "place": chance.choice([place, place, place, None])})
    return pa.Table.from_pylist(made, SCHEMA)


class Wishes:
    """Texts of expressions, one kind of value each."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._kinds: dict[str, Callable[[int], str]] = {
            "integer": self.integer,
            "decimal": self.decimal,
            "floating": self.floating,
            "text": self.text,
            "boolean": self.boolean,
            "day": lambda depth: self._plain("day", depth),
            "moment": lambda depth: self._plain("at", depth),
            "clock": lambda depth: self._plain("clock", depth),
            "list": lambda depth: self._plain("tags", depth),
            "struct": lambda depth: self._plain("place", depth),
        }

    def any(self, depth: int) -> str:
        kind = self._one(["integer", "decimal", "floating", "text", "boolean", *self._kinds])
        return self._kinds[kind](depth)

    def _one(self, choices: list[str]) -> str:
        return self._chance.choice(choices)

    def _choosing(self, kind: str, depth: int) -> str:
        """A value of the kind by a function that takes all kinds."""
        first, second = self._kinds[kind](depth - 1), self._kinds[kind](depth - 1)
        test = self.boolean(depth - 1)
        return self._one(
            [
                f"coalesce({first}, {second})",
                f"if({test}, {first}, {second})",
                f"case when {test} then {first} end",
                f"case when {test} then {first} when {self.boolean(depth - 1)} then null"
                f" else {second} end",
            ]
        )

    def _ordered(self, kind: str, depth: int) -> str:
        """A value of a kind that compares."""
        first, second = self._kinds[kind](depth - 1), self._kinds[kind](depth - 1)
        name = self._one(["greatest", "least", "nullif"])
        return self._one([f"{name}({first}, {second})", self._choosing(kind, depth)])

    def integer(self, depth: int) -> str:
        if depth <= 0:
            literal = str(self._chance.choice([0, 1, 2, -3, 7, 100, 2147483648, -2147483648]))
            columns = ["tiny", "small", "i", "i", "big", "place.x", "n"]
            return self._one([*columns, literal, literal])
        one, two = self.integer(depth - 1), self.integer(depth - 1)
        kind = self._one(["tinyint", "smallint", "int", "bigint", "bigint"])
        return self._one(
            [
                f"{one} {self._one(['+', '-', '*', '%'])} ({two})",
                f"({one}) {self._one(['+', '-', '*', '%'])} {two}",
                f"-({one})",
                f"{self._one(['abs', 'round'])}({one})",
                f"length({self.text(depth - 1)})",
                f"cast({one} as {kind})",
                f"cast({self.decimal(0)} as bigint)",
                f"cast({self._one(['price', '1.5', '-0.9'])} as {kind})",
                f"cast({self.floating(depth - 1)} as {kind})",
                f"cast(digits as {kind})",
                f"cast({self.boolean(depth - 1)} as {kind})",
                self._ordered("integer", depth),
                self._ordered("integer", depth),
            ]
        )

    def decimal(self, depth: int) -> str:
        if depth <= 0:
            literals = ["1.5", "-0.05", "10.00", "2BD", ".125"]
            return self._one(["price", "price", "rate", "total", *literals])
        one, two = self.decimal(depth - 1), self.decimal(depth - 1)
        whole = self.integer(0)
        sign = self._one(["+", "-", "*", "/"])
        return self._one(
            [
                f"({one}) {sign} ({two})",
                f"({one}) {sign} ({whole})",
                f"{whole} {sign} ({one})",
                f"-({one})",
                f"abs({one})",
                f"round({one}, {self._chance.randrange(5)})",
                f"round({one})",
                f"cast({whole} as decimal({self._one(['12,2', '20', '38,10', '3,1'])}))",
                f"cast({one} as decimal({self._one(['12,2', '20,1', '30,9', '5,3'])}))",
                f"coalesce({one}, {whole})",
                self._ordered("decimal", depth),
            ]
        )

    def floating(self, depth: int) -> str:
        if depth <= 0:
            columns = ["ratio", "score", "score", "weight"]
            return self._one([*columns, "1e0", "-2.5D", "1e-3", "0e0", "3D"])
        one, two = self.floating(depth - 1), self.floating(depth - 1)
        other = self._one([self.integer(depth - 1), self.decimal(0), two])
        sign = self._one(["+", "-", "*", "/", "%"])
        return self._one(
            [
                f"({one}) {sign} ({two})",
                f"({one}) {sign} ({other})",
                f"({other}) {sign} ({one})",
                f"({self.integer(depth - 1)}) / ({self.integer(depth - 1)})",
                f"-({one})",
                f"abs({one})",
                f"round({one}, {self._chance.randrange(5)})",
                f"cast({other} as {self._one(['double', 'float'])})",
                f"greatest({one}, {other}, {two})",
                self._ordered("floating", depth),
            ]
        )

    def text(self, depth: int) -> str:
        if depth <= 0:
            quoted = "'" + self._one(_TEXTS).replace("'", "''") + "'"
            return self._one(["name", "name", "digits", "place.`the label`", quoted])
        one, two = self.text(depth - 1), self.text(depth - 1)
        position = self._chance.choice([0, 1, 2, 4, -1, -3, -20])
        return self._one(
            [
                f"{one} || {two}",
                f"concat({one}, {two}, '!')",
                f"{self._one(['lower', 'upper', 'trim'])}({one})",
                f"substring({one}, {position})",
                f"substring({one}, {position}, {self._chance.choice([0, 1, 3, -1, 100])})",
                f"cast({self.integer(depth - 1)} as string)",
                f"cast({self._one(['price', 'rate', 'flag', '1.50', 'round(rate, 1)'])} as string)",
                self._ordered("text", depth),
            ]
        )

    def boolean(self, depth: int) -> str:
        if depth <= 0:
            return self._one(["flag", "gone", "flag", "true", "i = n", "name is null"])
        one, two = self.boolean(depth - 1), self.boolean(depth - 1)
        number = self._one([self.integer(depth - 1), self.decimal(0), self.floating(depth - 1)])
        return self._one(
            [
                f"({one}) {self._one(['and', 'or'])} ({two})",
                f"not ({one})",
                f"({one}) is {self._one(['', 'not'])} null",
                f"({number}) is {self._one(['', 'not'])} null",
                f"({self.text(depth - 1)}) {self._one(['', 'not'])} like '{self._one(_PATTERNS)}'",
                f"({number}) in ({self.integer(0)}, {self.decimal(0)})",
                f"({number}) not in (1, 2.5, {self._one(['null', '0', '-0.0'])})",
                f"({self.text(depth - 1)}) in ('a', {self.text(0)})",
                f"day in ('2026-01-01', {self._plain('day', 0)})",
                f"({number}) between {self.integer(0)} and {self.decimal(0)}",
                self._comparison(depth),
                self._comparison(depth),
                self._comparison(depth),
                self._choosing("boolean", depth),
            ]
        )

    def _comparison(self, depth: int) -> str:
        sign = self._one(["=", "!=", "<>", "<", "<=", ">", ">=", "<=>", "=="])
        numbers = ["integer", "decimal", "floating"]
        kind = self._one([*numbers, *numbers, "text", "day", "moment", "clock", "boolean"])
        other = self._one(numbers) if kind in numbers else kind
        depths = (depth - 1, depth - 1)
        one, two = (self._kinds[which](at) for which, at in zip((kind, other), depths, strict=True))
        return f"({one}) {sign} ({two})"

    def _plain(self, column: str, depth: int) -> str:
        """Values of kinds that have no operators of their own."""
        literals = {
            "day": "date '2026-01-01'",
            "at": "timestamp '2026-01-02 13:30:00.000002+01:00'",
            "clock": "timestamp_ntz '2026-01-02 03:04:05'",
        }
        kinds = {"day": "day", "at": "moment", "clock": "clock", "tags": "list", "place": "struct"}
        if depth <= 0:
            return self._one([column, column, literals.get(column, column)])
        if column == "clock" and self._chance.random() < 0.3:
            return f"cast({self._plain('day', 0)} as timestamp_ntz)"
        if column == "day" and self._chance.random() < 0.3:
            return f"cast({self._plain('clock', 0)} as date)"
        if column in literals:
            return self._ordered(kinds[column], depth)
        return self._choosing(kinds[column], depth)
