"""Valid write ids and transactions of a snapshot: Hive's ValidWriteIdList and ValidTxnList."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Self

from compaction_operator.acid.names import INT64_MAX


class RangeValidity(StrEnum):
    """How many write ids of a range are valid (Hive's RangeResponse)."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


@dataclass(frozen=True)
class _ValidIds:
    """All numbers up to the high watermark, except open and aborted ones. `min_open` is the lowest open one or None."""

    high_watermark: int
    open: frozenset[int]
    aborted: frozenset[int]
    min_open: int | None

    def __str__(self) -> str:
        min_open = INT64_MAX if self.min_open is None else self.min_open
        return f"{self.high_watermark}:{min_open}:{_join(self.open)}:{_join(self.aborted)}"

    def is_valid(self, number: int) -> bool:
        """Whether the reader or snapshot sees what was written under that number."""
        return number <= self.high_watermark and number not in self.open and number not in self.aborted


@dataclass(frozen=True)
class ValidWriteIdList(_ValidIds):
    """The write ids of one table that a reader sees."""

    table: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Hive's format `db.table:highWatermark:minOpen:open,..:aborted,..`.

        Raises ValueError naming what is malformed.
        """
        table, separator, rest = text.strip().partition(":")
        if not table or not separator:
            raise ValueError(f"{text!r} is not a write-id list: write db.table:highWatermark:minOpen:open:aborted")
        return cls(*_parse_fields(rest, text), table=table)

    def __str__(self) -> str:
        return f"{self.table}:{super().__str__()}"

    @property
    def watermark(self) -> int:
        """The highest write id below the lowest open one. All writes up to it have ended."""
        lowest_open = min((*self.open, *(() if self.min_open is None else (self.min_open,))), default=INT64_MAX)
        return min(self.high_watermark, lowest_open - 1)

    def capped(self, highest: int) -> Self:
        """Return the list as if no write id above `highest` had been allocated."""
        return replace(
            self,
            high_watermark=min(self.high_watermark, highest),
            open=frozenset(number for number in self.open if number <= highest),
            aborted=frozenset(number for number in self.aborted if number <= highest),
            min_open=self.min_open if self.min_open is not None and self.min_open <= highest else None,
        )

    def valid_range(self, low: int, high: int) -> RangeValidity:
        """Return how many of the write ids `low..high` are valid (ValidReaderWriteIdList.isWriteIdRangeValid)."""
        invalid = _count(self._invalid, low, min(high, self.high_watermark))
        invalid += max(0, high - max(self.high_watermark, low - 1))
        if invalid == 0:
            return RangeValidity.ALL
        return RangeValidity.NONE if invalid == high - low + 1 else RangeValidity.SOME

    def aborted_range(self, low: int, high: int) -> bool:
        """Whether every write id of `low..high` is aborted (ValidReaderWriteIdList.isWriteIdRangeAborted: ALL)."""
        return _count(self._aborted, low, high) == high - low + 1

    @cached_property
    def _invalid(self) -> list[int]:
        return sorted(self.open | self.aborted)

    @cached_property
    def _aborted(self) -> list[int]:
        return sorted(self.aborted)


@dataclass(frozen=True)
class ValidTxnList(_ValidIds):
    """The transactions that a snapshot sees as committed."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Hive's format `highWatermark:minOpen:open,..:aborted,..`.

        Raises ValueError naming what is malformed.
        """
        return cls(*_parse_fields(text.strip(), text))


def _parse_fields(rest: str, text: str) -> tuple[int, frozenset[int], frozenset[int], int | None]:
    fields = rest.split(":")
    if len(fields) != 4:
        raise ValueError(f"{text!r} is malformed: highWatermark:minOpen:open:aborted has 4 fields, not {len(fields)}")
    high_watermark, min_open = _number(fields[0], "highWatermark", text), _number(fields[1], "minOpen", text)
    open_ids, aborted = _numbers(fields[2], "open", text), _numbers(fields[3], "aborted", text)
    if both := open_ids & aborted:
        raise ValueError(f"{text!r} is malformed: {min(both)} is both open and aborted")
    return high_watermark, open_ids, aborted, None if min_open == INT64_MAX else min_open


def _numbers(field: str, what: str, text: str) -> frozenset[int]:
    return frozenset(_number(number, what, text) for number in field.split(",")) if field else frozenset()


def _number(field: str, what: str, text: str) -> int:
    if not (field.isascii() and field.isdigit() and int(field) <= INT64_MAX):
        raise ValueError(f"{text!r} is malformed: {what} {field!r} is not a number")
    return int(field)


def _join(numbers: Iterable[int]) -> str:
    return ",".join(str(number) for number in sorted(numbers))


def _count(ordered: list[int], low: int, high: int) -> int:
    return max(0, bisect_right(ordered, high) - bisect_left(ordered, low))
