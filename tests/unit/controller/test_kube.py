"""The API server's errors as ours, and a job manifest that is there already."""

import json

import pytest
from kubernetes.client.exceptions import ApiException

from compaction_operator.controller.kube import AlreadyExistsError, ConflictError, GoneError, KubeError, _call


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (404, "NotFound", GoneError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (422, "Invalid", KubeError),
        (503, "ServiceUnavailable", KubeError),
    ],
)
def test_errors(status: int, reason: str, expected: type[KubeError]) -> None:
    """A conflict and a name that is taken share a code; the reason tells them apart."""

    def refuse(**_: object) -> None:
        error = ApiException(status=status, reason=reason)
        error.body = json.dumps({"reason": reason, "message": "because"})
        raise error

    with pytest.raises(expected, match="because") as raised:
        _call(refuse)
    assert type(raised.value) is expected


def test_every_call_has_a_timeout() -> None:
    seen = _call(lambda **options: options)
    assert all(seconds > 0 for seconds in seen["_request_timeout"])
