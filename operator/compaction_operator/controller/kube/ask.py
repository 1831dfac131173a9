"""Questions of people to a running controller: through the API server's proxy to its Service, or at its address."""

from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from pydantic import TypeAdapter, ValidationError

from compaction_operator.api.why import PATH, Explanation
from compaction_operator.controller.kube.client import TIMEOUT, KubeError, connect, message_of
from compaction_operator.errors import OperatorError

PORT = "metrics"
"""The port of the operator's Service, by its name."""

_ANSWERS = TypeAdapter(list[Explanation])


class AskError(OperatorError):
    """A controller could not be asked, or refused the question."""


def ask(query: Mapping[str, str], *, operator: str, url: str | None) -> list[Explanation]:
    """Return what a controller answers at its address `url`, or else as the Service `operator` (namespace/name).

    Raises AskError, which says what to do about it.
    """
    where = url or f"Service {operator}"
    body = _at(url, query) if url else _of_service(operator, query)
    try:
        return _ANSWERS.validate_json(body)
    except ValidationError as error:
        raise AskError(f"{where} does not answer as a controller of this version does") from error


def _of_service(operator: str, query: Mapping[str, str]) -> bytes:
    namespace, slash, service = operator.partition("/")
    if not (namespace and slash and service) or "/" in service:
        raise AskError(f"--operator {operator!r}: write NAMESPACE/SERVICE")
    try:
        return connect().ask_service(namespace, f"{service}:{PORT}", PATH, query)
    except KubeError as error:
        raise AskError(f"Service {operator}: {error}") from error


def _at(url: str, query: Mapping[str, str]) -> bytes:
    if urlsplit(url).scheme not in ("http", "https"):
        raise AskError(f"--url {url!r}: write an address such as http://localhost:8081")
    try:
        with urlopen(f"{url.rstrip('/')}{PATH}?{urlencode(query)}", timeout=sum(TIMEOUT)) as answer:  # noqa: S310 - see above
            body: bytes = answer.read()
            return body
    except HTTPError as error:
        with error:
            raise AskError(f"{url}: {message_of(error.read().decode(errors='replace'))}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise AskError(f"{url}: {error}") from error
