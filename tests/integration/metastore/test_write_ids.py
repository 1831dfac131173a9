"""Tables, write ids and transactions of a real metastore."""

from tests.support.metastore_contract import TablesContract, TransactionsContract


class TestTables(TablesContract):
    """As the fake's."""


class TestTransactions(TransactionsContract):
    """As the fake's."""
