"""Questions of people to a running controller: through the API server's proxy to its Service, or at its address."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from pydantic import TypeAdapter, ValidationError

from compaction_operator.api.why import PATH, Explanation
from compaction_operator.controller.kube.client import TIMEOUT, GoneError, KubeError, NotReadyError, connect, message_of
from compaction_operator.errors import OperatorError

TRIES, PAUSE = 20, 0.25
"""How often a controller is asked that cannot answer: behind one address, each try may reach another replica."""
PORT = "metrics"
"""The port of the operator's Service, by its name."""

_ANSWERS = TypeAdapter(list[Explanation])


class AskError(OperatorError):
    """A controller could not be asked, or refused the question."""


class StandbyError(AskError):
    """The controller that was asked does not lead, or has not read the policies yet."""


def ask(query: Mapping[str, str], *, operator: str, url: str | None, context: str | None = None) -> list[Explanation]:
    """Return what a controller answers at its address `url`, or else as the Service `operator` (namespace/name).

    `context` is that of kubeconfig, by default the current one. Raises AskError, which says what to do about it.
    """
    where = url or f"Service {operator}"
    body = _answer(partial(_at, url, query) if url else partial(_of_service, operator, query, context))
    try:
        return _ANSWERS.validate_json(body)
    except ValidationError as error:
        raise AskError(f"{where} does not answer as a controller of this version does") from error


def _answer(call: Callable[[], bytes]) -> bytes:
    """Ask until a replica answers that leads: a standby has read no policies."""
    for _ in range(TRIES - 1):
        try:
            return call()
        except StandbyError:
            time.sleep(PAUSE)
    return call()


def _of_service(operator: str, query: Mapping[str, str], context: str | None) -> bytes:
    namespace, slash, service = operator.partition("/")
    if not (namespace and slash and service) or "/" in service:
        raise AskError(f"--operator {operator!r}: write NAMESPACE/SERVICE")
    try:
        return connect(context=context).ask_service(namespace, f"{service}:{PORT}", PATH, query)
    except KubeError as error:
        # NB: a controller says 404, too, of a table without a policy.
        missing = isinstance(error, GoneError) and 'services "' in str(error)
        elsewhere = "; if the operator is elsewhere, give --operator NAMESPACE/SERVICE or set COMPACTION_OPERATOR"
        raise _refusal(
            f"Service {operator}: {error}{elsewhere if missing else ''}", standby=isinstance(error, NotReadyError)
        ) from error


def _at(url: str, query: Mapping[str, str]) -> bytes:
    if urlsplit(url).scheme not in ("http", "https"):
        raise AskError(f"--url {url!r}: write an address such as http://localhost:8081")
    try:
        with urlopen(f"{url.rstrip('/')}{PATH}?{urlencode(query)}", timeout=sum(TIMEOUT)) as answer:  # noqa: S310 - see above
            body: bytes = answer.read()
            return body
    except HTTPError as error:
        with error:
            message = f"{url}: {message_of(error.read().decode(errors='replace'))}"
            raise _refusal(message, standby=error.code == HTTPStatus.SERVICE_UNAVAILABLE) from error
    except (OSError, HTTPException, ValueError) as error:
        raise AskError(f"{url}: {error}") from error


def _refusal(message: str, *, standby: bool) -> AskError:
    return StandbyError(message) if standby else AskError(message)
