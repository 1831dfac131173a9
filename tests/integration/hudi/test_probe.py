"""The look at a bundle before a run: all that is called is there, and a bundle that lacks something is named."""

import pytest
from sandbox.hudi.session import HudiSession

from compaction_operator.hudi import UnsupportedVersionError
from compaction_operator.hudi.errors import NoLockProviderError
from compaction_operator.hudi.jvm import probe

OTHER = {"1.0.2": "1.2.0", "1.2.0": "1.0.2"}
ONLY_IN_THE_OTHER = {"1.0.2": "TransactionManager.beginStateChange/2", "1.2.0": "TransactionManager.beginTransaction/2"}


def test_a_bundle_has_all_that_is_called(hudi: HudiSession) -> None:
    probe.require_all_calls(hudi.jvm, hudi.version)


def test_a_bundle_of_another_line_is_refused_by_what_it_lacks(hudi: HudiSession) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"has no .*{ONLY_IN_THE_OTHER[hudi.version]}"):
        probe.require_all_calls(hudi.jvm, OTHER[hudi.version])


def test_a_bundle_of_another_release_of_its_line_is_refused(hudi: HudiSession) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"{hudi.version}9 says that it is of release {hudi.version}"):
        probe.require_all_calls(hudi.jvm, f"{hudi.version}9")


@pytest.mark.parametrize(
    ("name", "calls", "missing"),
    [
        ("client.NoSuchClient", "", "client.NoSuchClient"),
        ("client.SparkRDDWriteClient", "noSuchCall/1 compact/1", "client.SparkRDDWriteClient.noSuchCall/1"),
        ("client.SparkRDDWriteClient", "compact/7", "client.SparkRDDWriteClient.compact/7"),
        ("common.table.log.HoodieLogFormat$Reader", "new/0", r"common.table.log.HoodieLogFormat\$Reader.new/0"),
        ("common.model.WriteOperationType", "LOG_COMPACT NO_SUCH", "common.model.WriteOperationType.NO_SUCH"),
    ],
)
def test_what_is_missing_is_named(
    hudi: HudiSession, monkeypatch: pytest.MonkeyPatch, name: str, calls: str, missing: str
) -> None:
    monkeypatch.setattr(probe, "COMMON", {name: calls})
    with pytest.raises(UnsupportedVersionError, match=f"has no {missing}, which"):
        probe.require_all_calls(hudi.jvm, hudi.version)


LOCKS = "org.apache.hudi.client.transaction.lock"
STORE_CLIENT = "org.apache.hudi.aws.transaction.lock.S3StorageLockClient"
DYNAMO_DB = "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"


@pytest.mark.parametrize(
    ("provider", "missing"),
    [
        (f"{LOCKS}.StorageBasedLockProvider", STORE_CLIENT),
        (DYNAMO_DB, DYNAMO_DB),
        ("com.example.Locks", "com.example.Locks"),
    ],
)
def test_a_lock_provider_that_would_fail_at_its_first_lock_is_refused(
    hudi: HudiSession, provider: str, missing: str
) -> None:
    with pytest.raises(NoLockProviderError, match=f"has no {missing}, which {provider} needs"):
        probe.require_lock_provider(hudi.jvm, provider)


@pytest.mark.parametrize("name", ["ZookeeperBasedLockProvider", "FileSystemBasedLockProvider"])
def test_lock_providers_of_the_bundle_are_there(hudi: HudiSession, name: str) -> None:
    probe.require_lock_provider(hudi.jvm, f"{LOCKS}.{name}")
