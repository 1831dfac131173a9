"""What the JVMs of a Hudi job get to know about the store of its table."""

from pathlib import Path

import pytest

from compaction_operator.api.stores import S3, Hdfs, KerberosLogin, S3Connection, StoreSettings
from compaction_operator.driver.hadoop import FROM_FILE, FROM_POD, Hadoop, hadoop

LOGIN = KerberosLogin(client_principal="compaction@LAKE", keytab="/keys/key", config_file="/keys/krb5.conf")
S3A = "spark.hadoop.fs.s3a.bucket"
SECOND = S3Connection(
    endpoint="https://s3.second:9000/", path_style=True, credentials_file="/keys/second", ca_file="/ca"
)
STORES = StoreSettings(
    hdfs=Hdfs(config_map="hadoop", kerberos=LOGIN),
    s3=S3(region="eu-west-1", buckets={"second": SECOND}),
)


@pytest.mark.parametrize("location", ["/warehouse/orders", "file:/warehouse/orders", "file:///warehouse/s3://orders"])
def test_a_mounted_volume_needs_nothing(location: str) -> None:
    assert hadoop(location, STORES, {}) == Hadoop()


def test_hdfs_without_kerberos_needs_hadoops_configuration_only() -> None:
    assert hadoop("hdfs://nn/orders", StoreSettings(hdfs=Hdfs(config_map="hadoop")), {}) == Hadoop()
    assert hadoop("hdfs://nn/orders", StoreSettings(), {}) == Hadoop()


def test_with_kerberos_spark_logs_in_and_gets_tokens_for_the_tables_file_system() -> None:
    found = hadoop("hdfs://nn:8020/orders", STORES, {})
    assert found.settings == {
        "spark.kerberos.principal": "compaction@LAKE",
        "spark.kerberos.keytab": "/keys/key",
        "spark.kerberos.access.hadoopFileSystems": "hdfs://nn:8020",
    }
    assert (
        hadoop("viewfs://lake/orders", STORES, {}).settings["spark.kerberos.access.hadoopFileSystems"]
        == "viewfs://lake"
    )


def test_the_default_file_system_needs_not_be_named() -> None:
    """Spark gets a token for it in any case."""
    assert "spark.kerberos.access.hadoopFileSystems" not in hadoop("hdfs:///orders", STORES, {}).settings


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_bucket_without_settings_of_its_own_is_reached_as_all_are(scheme: str) -> None:
    found = hadoop(f"{scheme}://lake/orders", STORES, {})
    assert found == Hadoop(
        {
            f"{S3A}.lake.endpoint.region": "eu-west-1",
            f"{S3A}.lake.path.style.access": "false",
            f"{S3A}.lake.aws.credentials.provider": ",".join(FROM_POD),
        }
    )


def test_the_region_is_that_of_the_pod_unless_the_settings_say_it() -> None:
    region, pod = f"{S3A}.lake.endpoint.region", {"AWS_REGION": "eu-north-1"}
    assert hadoop("s3a://lake/orders", StoreSettings(s3=S3()), pod).settings[region] == "eu-north-1"
    assert hadoop("s3a://lake/orders", STORES, pod).settings[region] == "eu-west-1"
    assert region not in hadoop("s3a://lake/orders", StoreSettings(), {}).settings


def test_a_bucket_with_settings_of_its_own_takes_nothing_from_the_others() -> None:
    found = hadoop("s3a://second/orders", STORES, {})
    assert found.settings == {
        f"{S3A}.second.endpoint": "https://s3.second:9000/",
        f"{S3A}.second.path.style.access": "true",
        f"{S3A}.second.aws.credentials.provider": FROM_FILE,
        "spark.executorEnv.AWS_CREDENTIAL_PROFILES_FILE": "/keys/second",
        "spark.executor.extraJavaOptions": "-Djavax.net.ssl.trustStore=s3-authorities.jks "
        "-Djavax.net.ssl.trustStoreType=jks",
    }
    assert found.environment == {"AWS_CREDENTIAL_PROFILES_FILE": "/keys/second"}
    assert found.authorities == "/ca"


def test_a_warehouse_without_settings_of_s3_is_on_aws_with_the_pods_identity() -> None:
    assert f"{S3A}.lake.aws.credentials.provider" in hadoop("s3a://lake/orders", StoreSettings(), {}).settings


def test_no_setting_holds_what_a_file_of_secrets_does(tmp_path: Path) -> None:
    secret = tmp_path / "credentials"
    secret.write_text("[default]\naws_access_key_id = KEY\naws_secret_access_key = SECRET\n")
    settings = S3(credentials_file=str(secret), endpoint="http://s3:9000")
    found = hadoop("s3a://lake/orders", StoreSettings(s3=settings), {})
    assert not {"KEY", "SECRET"} & set(" ".join([*found.settings.values(), *found.environment.values()]).split())
