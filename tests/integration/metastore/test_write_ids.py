"""Write ids and transactions of a real metastore."""

from tests.support.metastore_contract import TransactionsContract


class TestTransactions(TransactionsContract):
    """As the fake's."""
