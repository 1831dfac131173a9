"""Real metastores that want to be talked to in other ways than plain Thrift, and two that stand for one another."""

import base64
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from sandbox.metastore.server import Hive, MetastoreServer

from compaction_operator.api.config import Metastore
from compaction_operator.metastore import LockKind, LockWish, MetastoreClient, MetastoreError, MetastoreUnavailable

PASSWORD = "password"
HTTP = {"metastore.server.thrift.transport.mode": "http"}
HTTP_ADDRESS = "http://127.0.0.1:{port}/metastore"
WISH = LockWish(database="default", table="t", kind=LockKind.SHARED_READ, agent="test")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a keystore for 127.0.0.1 as Java has it, and its certificate."""
    folder = tmp_path_factory.mktemp("certificates")
    store = ["-keystore", "store", "-storepass", PASSWORD, "-alias", "metastore"]
    make = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=metastore", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
    run(folder, "keytool", *make, *store)
    run(folder, "keytool", "-exportcert", "-rfc", "-file", "ca.crt", *store)
    return folder


@pytest.fixture(scope="module")
def ssl_properties(certificates: Path) -> Mapping[str, str]:
    return {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(certificates / "store"),
        "hive.metastore.keystore.password": PASSWORD,
        # In HTTP mode these two have no defaults that Java knows.
        "metastore.keystore.type": "PKCS12",
        "metastore.keymanagerfactory.algorithm": "SunX509",
    }


def run(folder: Path, *command: str, stdin: bytes | None = None) -> bytes:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, input=stdin).stdout


def takes_and_gives_a_lock(settings: Metastore) -> None:
    with MetastoreClient(settings) as client:
        lock_id = client.lock(WISH).lock_id
        assert [lock.lock_id for lock in client.show_locks("default", "t")] == [lock_id]
        client.unlock(lock_id)
        assert client.show_locks("default", "t") == ()


WITH_TLS: dict[str, dict[str, Any]] = {
    "3.1.3": {},
    "4.0.1": {},
    "4.0.1-https": {"address": HTTP_ADDRESS.replace("http", "https")},
}


@pytest.mark.parametrize("kind", WITH_TLS)
def test_tls(hive4: Hive, tmp_path: Path, certificates: Path, ssl_properties: Mapping[str, str], kind: str) -> None:
    """The certificate is checked, and that it is one for the host, before anything is sent."""
    tls = {"ca_file": str(certificates / "ca.crt")}
    properties = {**ssl_properties, **(HTTP if "https" in kind else {})}
    hive: Hive = "3.1.3" if kind == "3.1.3" else hive4
    with MetastoreServer(
        tmp_path, hive=hive, properties=properties, connection={"tls": tls}, **WITH_TLS[kind]
    ) as server:
        takes_and_gives_a_lock(server.settings())
        by_name = server.uri.replace("127.0.0.1", "localhost")
        takes_and_gives_a_lock(Metastore.model_validate({"uris": [by_name], "tls": {**tls, "check_hostname": False}}))
        for wrong in ({"uris": [by_name], "tls": tls}, {"uris": [server.uri], "tls": {}}):
            with pytest.raises(MetastoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                takes_and_gives_a_lock(Metastore.model_validate(wrong))
        plain = Metastore(uris=(server.uri.replace("https", "http"),), timeout=2)
        with pytest.raises(MetastoreError):
            takes_and_gives_a_lock(plain)


def test_http(hive4: Hive, tmp_path: Path) -> None:
    """Each call carries the user's name: Hive requires one from a client without a token."""
    with MetastoreServer(tmp_path, hive=hive4, properties=HTTP, address=HTTP_ADDRESS) as server:
        takes_and_gives_a_lock(server.settings())
        with pytest.raises(MetastoreError, match="HTTP 405"):
            takes_and_gives_a_lock(Metastore(uris=(server.uri.replace("metastore", "elsewhere"),)))


class Issuer:
    """Signs tokens as an identity provider does; `jwks` is what a metastore checks them with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        run(folder, "openssl", "genrsa", "-out", "key", "2048")
        modulus = run(folder, "openssl", "rsa", "-in", "key", "-noout", "-modulus").decode().partition("=")[2].strip()
        key = {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": "k",
            "e": "AQAB",
            "n": _encode(bytes.fromhex(modulus)),
        }
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [key]}))

    def token(self, user: str) -> str:
        parts = (
            {"alg": "RS256", "kid": "k", "typ": "JWT"},
            {"sub": user, "iss": "test", "iat": 1, "exp": 4_000_000_000},
        )
        signed = ".".join(_encode(json.dumps(part).encode()) for part in parts)
        signature = run(self._folder, "openssl", "dgst", "-sha256", "-sign", "key", stdin=signed.encode())
        return f"{signed}.{_encode(signature)}"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_http_with_a_token(hive4: Hive, tmp_path: Path) -> None:
    """The client reads the file for each call: it uses a renewed token, and it reports an invalid one."""
    issuer, token = Issuer(tmp_path), tmp_path / "token"
    token.write_text(issuer.token("compactor") + "\n")
    properties = {
        **HTTP,
        "metastore.authentication": "JWT",
        "metastore.authentication.jwt.jwks.url": issuer.jwks.as_uri(),
    }
    connection = {"token_file": str(token)}
    with (
        MetastoreServer(
            tmp_path, hive=hive4, properties=properties, address=HTTP_ADDRESS, connection=connection
        ) as server,
        MetastoreClient(server.settings()) as client,
    ):
        assert client.show_locks("default", "t") == ()
        good = token.read_text()
        token.write_text(good[:-10])
        with pytest.raises(MetastoreError, match="HTTP 401"):
            client.show_locks("default", "t")
        token.write_text(good)
        assert client.show_locks("default", "t") == ()
        with pytest.raises(MetastoreError, match="HTTP 401"):
            takes_and_gives_a_lock(Metastore(uris=(server.uri,)))


def test_fail_over_between_two_processes(
    hive4: Hive, tmp_path: Path, metastores: Callable[[str], MetastoreServer]
) -> None:
    """One hangs, then it is killed: calls that were not sent yet go to the other one."""
    other = metastores("3.1.3")
    with MetastoreServer(tmp_path, hive=hive4) as server:
        with MetastoreClient(Metastore(uris=(server.uri, other.uri), timeout=2.0)) as client:
            client.show_locks("no_such_database", "t")
            server.pause()
            with pytest.raises(MetastoreUnavailable, match=f"{server.uri}: no answer in 2 s"):
                client.lock(WISH)
            assert client.show_locks("no_such_database", "t") == ()
            server.resume()
        with MetastoreClient(Metastore(uris=(server.uri, other.uri))) as client:
            client.show_locks("no_such_database", "t")
            server.kill()
            assert client.show_locks("no_such_database", "t") == ()
