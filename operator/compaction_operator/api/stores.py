"""Settings of the stores that hold a warehouse's files besides mounted volumes: HDFS and S3.

They are in Helm's values, in a driver's request and, as JSON, in the environment of executors. They name files, never
secrets themselves.
"""

from typing import Self

from pydantic import Field, model_validator

from compaction_operator.api.model import Model

STORES_VARIABLE = "COMPACTION_STORES"
"""Environment variable with the `StoreSettings` of a process that serves one warehouse."""

HDFS_SCHEMES = frozenset({"hdfs", "viewfs"})
S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
"""Three names of one store: which of them a location has depends on who wrote it into the metastore."""


def scheme_of(location: str) -> str:
    """Return the scheme of a location in lower case, `file` for a plain path."""
    return location.partition(":")[0].lower() if ":" in location.partition("/")[0] else "file"


class Secret(Model):
    """A Kubernetes secret that pods mount as files. It has the same name in each namespace."""

    name: str
    mount_path: str


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
    mount_path: str = "/etc/hadoop/conf"
    kerberos: KerberosLogin | None = None
    secret: Secret | None = None


class S3Connection(Model):
    """How to reach a bucket. Without `endpoint` it is AWS's; `region` defaults to that of the pod's environment.

    `credentials_file` is a file in AWS's format (`[default]`, aws_access_key_id, aws_secret_access_key) in a mounted
    secret. Without it the pod's identity is used: web identity (IRSA), or the instance's metadata.
    """

    endpoint: str | None = Field(default=None, pattern=r"^https?://[^/]+/?$")
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

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Two stores must not mount different secrets at one path."""
        mounts: dict[str, str] = {}
        for store in (self.hdfs, self.s3):
            if (
                store
                and store.secret
                and mounts.setdefault(store.secret.mount_path, store.secret.name) != store.secret.name
            ):
                raise ValueError(f"two secrets are mounted at {store.secret.mount_path}")
        return self
