"""The calls of a metastore show its generation; an error shows none."""

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TApplicationException

from compaction_operator.metastore import Generation, MetastoreClient, MetastoreError


def unknown(*_: object) -> None:
    raise TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name")


def test_a_metastore_with_write_ids_but_without_the_newer_calls_is_hive_3(stub):
    metastore = stub(get_valid_write_ids=ttypes.GetValidWriteIdsResponse([]))
    with MetastoreClient(metastore.settings()) as client:
        assert client.generation() is Generation.HIVE3
        assert client.generation() is Generation.HIVE3
    assert metastore.handler.calls == ["get_valid_write_ids"]


def test_a_metastore_without_write_ids_is_refused(stub):
    client = MetastoreClient(stub(get_valid_write_ids=unknown).settings())
    with client, pytest.raises(MetastoreError, match="older than Hive 3"):
        client.generation()


def test_a_metastore_that_fails_is_of_no_generation_yet(stub):
    """Taken for Hive 3, a Hive 4 metastore would get unsuffixed directories."""

    def fail(*_: object) -> None:
        raise TApplicationException(TApplicationException.INTERNAL_ERROR, "out of connections")

    client = MetastoreClient(stub(get_valid_write_ids=fail).settings())
    with client, pytest.raises(MetastoreError, match="out of connections"):
        client.generation()
