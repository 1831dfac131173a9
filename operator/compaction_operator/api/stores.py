"""Settings of the stores that hold a warehouse's files besides mounted volumes: HDFS and S3.

They are in Helm's values, in a driver's request and, as JSON, in the environment of executors. They name files, never
secrets themselves.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from compaction_operator.api.model import Model

STORES_VARIABLE = "COMPACTION_STORES"
"""Environment variable with the `StoreSettings` of a process that serves one warehouse."""

HDFS_SCHEMES = frozenset({"hdfs", "viewfs"})
S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
"""Three names of one store: which of them a location has depends on who wrote it into the metastore."""

ENDPOINT_PATTERN = r"^https?://[^/@]+/?$"
"""NB: no user and password: settings are in resources, where everyone may read them."""


def scheme_of(location: str) -> str:
    """Return the scheme of a location in lower case, `file` for a plain path."""
    return location.partition(":")[0].lower() if ":" in location.partition("/")[0] else "file"


MountPath = Annotated[str, AfterValidator(lambda path: path.rstrip("/") or "/")]
"""Where pods mount something. Paths are compared, so each has one spelling."""


class Secret(Model):
    """A Kubernetes secret that pods mount as files. It has the same name in each namespace."""

    name: str
    mount_path: MountPath


class KerberosLogin(Model):
    """The identity of a client: `keytab` holds the key of `client_principal`, `config_file` is a krb5.conf."""

    client_principal: str
    keytab: str
    config_file: str | None = None


class Hdfs(Model):
    """How to reach HDFS: Hadoop's client configuration and, if it requires Kerberos, who logs in.

    `config_map` has core-site.xml and hdfs-site.xml. Pods mount it at `mount_path`. It has the same name in each
    namespace.
    """

    config_map: str
    mount_path: MountPath = "/etc/hadoop/conf"
    kerberos: KerberosLogin | None = None
    secret: Secret | None = None


class S3Connection(Model):
    """How to reach a bucket. Without `endpoint` it is AWS's; `region` defaults to that of the pod's environment.

    `credentials_file` is a file in AWS's format (`[default]`, aws_access_key_id, aws_secret_access_key) in a mounted
    secret. Without it the pod's identity is used: web identity (IRSA), or the instance's metadata.
    """

    endpoint: str | None = Field(default=None, pattern=ENDPOINT_PATTERN)
    region: str | None = None
    path_style: bool = False
    ca_file: str | None = None
    credentials_file: str | None = None


class S3(S3Connection):
    """How to reach all buckets of a warehouse; `buckets` has those with settings of their own."""

    secret: Secret | None = None
    buckets: dict[str, S3Connection] = Field(default_factory=dict)

    def bucket(self, name: str) -> S3Connection:
        """Return the settings of a bucket. One with settings of its own takes nothing from the others."""
        return self.buckets.get(name, self)


class StoreSettings(Model):
    """How one warehouse's files are reached. Mounted volumes need no settings."""

    hdfs: Hdfs | None = None
    s3: S3 | None = None

    def secrets(self) -> dict[str, Secret]:
        """Return the secrets that pods need to read and write files, by the store's name."""
        stores = {"hdfs": self.hdfs, "s3": self.s3}
        return {name: store.secret for name, store in stores.items() if store and store.secret}

    def lacking(self, location: str) -> str | None:
        """Return the name of the settings that a location needs and that are missing, such as `stores.hdfs`."""
        scheme = scheme_of(location)
        if scheme in HDFS_SCHEMES and self.hdfs is None:
            return "stores.hdfs"
        return "stores.s3" if scheme in S3_SCHEMES and self.s3 is None else None
