"""A realm in which HDFS and the metastore require Kerberos: `with Realm(folder) as realm: realm.store(login)`."""

from pathlib import Path

from compaction_operator.api.config import Kerberos
from compaction_operator.api.stores import KerberosLogin, Secret, StoreSettings
from sandbox.harness.server import Server
from sandbox.hdfs.path import HdfsPath, log_in
from sandbox.hdfs.server import SERVICE as HDFS
from sandbox.hdfs.server import HdfsServer
from sandbox.kerberos.kdc import Kdc
from sandbox.plane.store import Store

HIVE = "hive/localhost"
"""The metastore's principal. It makes tables' directories in the name of each client, as Hive's always does there."""

PROXY = {"hadoop.proxyuser.hive.hosts": "*", "hadoop.proxyuser.hive.users": "*"}


class Realm(Server):
    """A KDC and an HDFS; metastores and their clients come to it by `store`."""

    def __init__(self, folder: Path) -> None:
        self.kdc = Kdc(folder / "kdc")
        self.hdfs = HdfsServer(folder / "hdfs", kdc=self.kdc, properties=PROXY)

    def start(self) -> None:
        """Start both. This process's paths on HDFS act as its superuser."""
        self.kdc.start()
        self.hdfs.start()
        assert self.hdfs.service_keytab
        log_in(
            self.hdfs.uri,
            configuration=self.hdfs.configuration,
            principal=self.kdc.principal(HDFS),
            keytab=self.hdfs.service_keytab,
        )
        self._hive = self.kdc.keytab(HIVE)

    def stop(self) -> None:
        """Stop both."""
        self.hdfs.stop()
        self.kdc.stop()

    def login(self, name: str, *, max_life: str = "1h") -> KerberosLogin:
        """Return a new principal, whose tickets are valid for that long."""
        keytab = self.kdc.keytab(name, max_life=max_life)
        return self.login_by(name, keytab)

    def login_by(self, name: str, keytab: Path) -> KerberosLogin:
        """Return a principal who logs in by that file."""
        return KerberosLogin(
            client_principal=self.kdc.principal(name), keytab=str(keytab), config_file=str(self.kdc.config_file)
        )

    def client(self, login: KerberosLogin) -> Kerberos:
        """Return how a principal connects to a metastore of the realm."""
        return Kerberos(principal=self.kdc.principal("hive/_HOST"), **login.model_dump())

    def stores(self, login: KerberosLogin) -> StoreSettings:
        """Return how a principal reaches HDFS, as docs/install.md has it."""
        hdfs = {"config_map": "hadoop-conf", "mount_path": str(self.hdfs.configuration)}
        return StoreSettings.model_validate({"hdfs": {**hdfs, "kerberos": login, "secret": _secret(login)}})

    def store(self, name: str, login: KerberosLogin) -> Store:
        """Return a warehouse on HDFS, whose metastore requires Kerberos. The realm starts and ends HDFS."""
        metastore = {
            "hadoop": self.hdfs.configuration,
            "overrides": {"java.security.krb5.conf": str(self.kdc.config_file)},
            "address": "thrift://localhost:{port}",
            "connection": {"kerberos": self.client(login), "secret": _secret(login)},
        }
        return Store(
            warehouse=HdfsPath(self.hdfs.uri) / name,
            hadoop={
                "hive.metastore.sasl.enabled": "true",
                "hive.metastore.kerberos.principal": self.kdc.principal(HIVE),
                "hive.metastore.kerberos.keytab.file": str(self._hive),
            },
            values=self.stores(login).to_json(),
            start=lambda: None,
            kill=lambda: None,
            pause=lambda: self.hdfs.pause("NameNode"),
            resume=lambda: self.hdfs.resume("NameNode"),
            metastore=metastore,
        )


def _secret(login: KerberosLogin) -> Secret:
    """Return the secret that holds keytab and krb5.conf. A process here finds the files where they lie."""
    return Secret(name="hadoop-client", mount_path=str(Path(login.keytab).parent))
