"""Receipts: what was compacted and deleted, kept as a chain in which each line has the hash of the one before."""

from compaction_operator.receipts.chain import Head, verify
from compaction_operator.receipts.history import about, rows
from compaction_operator.receipts.ledger import Ledger, stored
from compaction_operator.receipts.receipt import (
    GENESIS,
    DamagedReceiptError,
    DeletedName,
    Kind,
    Part,
    Receipt,
    WaitedFor,
    digest,
)

__all__ = [
    "GENESIS",
    "DamagedReceiptError",
    "DeletedName",
    "Head",
    "Kind",
    "Ledger",
    "Part",
    "Receipt",
    "WaitedFor",
    "about",
    "digest",
    "rows",
    "stored",
    "verify",
]
