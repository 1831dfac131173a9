"""Receipts for people: a table, one line each."""

from collections.abc import Iterable, Iterator

from compaction_operator.api.model import counted
from compaction_operator.receipts.receipt import DamagedReceiptError, Kind, Receipt

COLUMNS = ("NUMBER", "TIME", "KIND", "TABLE", "COMPACTION", "WHAT")
ROW = "{:>7}  {:<19}  {:<10}  {:<30}  {:<30}  {}"


def about(lines: Iterable[tuple[int, bytes]], table: str | None) -> Iterator[tuple[bytes, Receipt]]:
    """Yield the lines, with their receipts, that are about a table; None is any.

    A table is `database.name` in any case, or a Hudi table's location. Raises DamagedReceiptError, naming the number.
    """
    for number, line in lines:
        try:
            receipt = Receipt.parse(line)
        except DamagedReceiptError as error:
            raise DamagedReceiptError(f"receipt {number} cannot be read: {error}") from error
        if table is None or receipt.table.lower() == table.lower():
            yield line, receipt


def rows(receipts: Iterable[Receipt]) -> Iterator[str]:
    """Yield the table's lines, with a heading. NB: the widths are fixed, so that the first lines need not wait."""
    yield ROW.format(*COLUMNS)
    for receipt in receipts:
        compaction = f"{receipt.namespace}/{receipt.compaction}"
        what = _what(receipt)
        yield ROW.format(receipt.number, receipt.time[:19], receipt.kind, receipt.table, compaction, what)


def _what(receipt: Receipt) -> str:
    if receipt.kind is Kind.COMPACTION:
        return f"{receipt.type} {receipt.reason}: {receipt.message}"
    size = f"{counted(receipt.directories, 'path')}, {counted(receipt.files, 'file')}, {receipt.size} bytes deleted"
    readers = receipt.waited_for.readers if receipt.waited_for else ()
    return size + (f", after {'; '.join(map(str, readers))}" if readers else "")
