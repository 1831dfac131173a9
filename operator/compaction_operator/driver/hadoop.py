"""How Spark's JVMs reach HDFS and S3: Hudi reads and writes through Hadoop's file systems, in driver and executors.

Hadoop's own configuration is on the class path of both (HADOOP_CONF_DIR). What is here comes from the warehouse's
settings. Nothing of it is secret: it names files.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compaction_operator.api.stores import HDFS_SCHEMES, S3, S3_SCHEMES, Hdfs, S3Connection, StoreSettings, scheme_of

CREDENTIALS_VARIABLE = "AWS_CREDENTIAL_PROFILES_FILE"
"""The environment variable by which AWS's SDK for Java 1 finds the credentials file."""

REGION_VARIABLES = ("AWS_DEFAULT_REGION", "AWS_REGION")
"""What pods with an identity on AWS have in their environment; the driver's own client looks at the first."""

FROM_FILE = "com.amazonaws.auth.profile.ProfileCredentialsProvider"
"""Reads the file again after 5 minutes, if it has changed."""

FROM_POD = (
    "com.amazonaws.auth.WebIdentityTokenCredentialsProvider",
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
)
"""Web identity (IRSA), else the container's or the instance's metadata. Both renew what is about to expire."""

AUTHORITIES = "s3-authorities.jks"
"""The trust store's name. Executors find it where Spark puts the files that it brings them: in their working folder."""


@dataclass(frozen=True)
class Hadoop:
    """Settings of Spark, and environment variables of the driver's JVM, for the store of one location.

    `authorities` is a file with the certificates of the authorities to trust; None for those that Java knows.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    authorities: str | None = None


def hadoop(location: str, stores: StoreSettings, environment: Mapping[str, str]) -> Hadoop:
    """Return what the JVMs need at a location, by its warehouse's settings and the pod's environment."""
    scheme = scheme_of(location)
    authority = location.partition("://")[2].partition("/")[0]
    if scheme in HDFS_SCHEMES and stores.hdfs:
        return _hdfs(f"{scheme}://{authority}" if authority else None, stores.hdfs)
    if scheme in S3_SCHEMES:
        return _s3(authority, (stores.s3 or S3()).bucket(authority), environment)
    return Hadoop()


def _hdfs(address: str | None, hdfs: Hdfs) -> Hadoop:
    """Let the driver log in from its keytab, and executors work with the delegation tokens that it gets and renews.

    NB: it gets one for the default file system in any case.
    """
    login = hdfs.kerberos
    if login is None:
        return Hadoop()
    settings = {
        "spark.kerberos.principal": login.client_principal,
        "spark.kerberos.keytab": login.keytab,
    }
    if address:
        settings["spark.kerberos.access.hadoopFileSystems"] = address
    return Hadoop(settings)


def _s3(bucket: str, connection: S3Connection, environment: Mapping[str, str]) -> Hadoop:
    """NB: settings of the bucket go over those for all buckets, which a profile or a core-site.xml may have."""
    file = connection.credentials_file
    # NB: without a region S3A assumes one of AWS's, and does not look at the environment.
    region = connection.region or next((environment[name] for name in REGION_VARIABLES if name in environment), None)
    options = {
        "endpoint": connection.endpoint,
        "endpoint.region": region,
        "path.style.access": str(connection.path_style).lower(),
        "aws.credentials.provider": FROM_FILE if file else ",".join(FROM_POD),
    }
    settings = {f"spark.hadoop.fs.s3a.bucket.{bucket}.{key}": value for key, value in options.items() if value}
    if file:
        settings[f"spark.executorEnv.{CREDENTIALS_VARIABLE}"] = file
    if connection.ca_file:
        trust = f"-Djavax.net.ssl.trustStore={AUTHORITIES} -Djavax.net.ssl.trustStoreType=jks"
        settings["spark.executor.extraJavaOptions"] = trust
    return Hadoop(settings, {CREDENTIALS_VARIABLE: file} if file else {}, connection.ca_file)


def trust(spark: Any, authorities: str) -> None:
    """Let the JVMs of a session trust the certificates in a PEM file, and no others. NB: before their first use of TLS.

    Java has no trust store of that format, and executors read theirs from a file that they get from the driver.
    """
    jvm = spark._jvm
    store = jvm.java.security.KeyStore.getInstance("jks")
    store.load(None, None)
    source = jvm.java.io.ByteArrayInputStream(Path(authorities).read_bytes())
    found = jvm.java.security.cert.CertificateFactory.getInstance("X.509").generateCertificates(source)
    for number, certificate in enumerate(found.toArray()):
        store.setCertificateEntry(str(number), certificate)
    path = str(Path(tempfile.mkdtemp(prefix="authorities-")) / AUTHORITIES)
    stream = jvm.java.io.FileOutputStream(path)
    # The store holds certificates only: an empty password.
    store.store(stream, spark.sparkContext._gateway.new_array(jvm.char, 0))
    stream.close()
    jvm.java.lang.System.setProperty("javax.net.ssl.trustStore", path)
    jvm.java.lang.System.setProperty("javax.net.ssl.trustStoreType", "jks")
    spark.sparkContext.addFile(path)
