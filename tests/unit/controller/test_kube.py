"""The API server's errors as ours, and a job manifest that is there already."""

import json

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from compaction_operator.controller.kube import (
    AlreadyExistsError,
    ConflictError,
    GoneError,
    KubeClient,
    KubeError,
    _call,
)


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


def test_a_cleanup_is_deleted_as_it_was_seen_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the same name that was made since, or that somebody changed, stays."""
    api, sent = client.ApiClient(), []
    kube = KubeClient(api)
    monkeypatch.setattr(kube._custom, "delete_namespaced_custom_object", lambda *args, **options: sent.append(options))
    kube.delete_cleanup({"metadata": {"namespace": "n", "name": "c", "uid": "u", "resourceVersion": "7"}})
    (options,) = sent
    assert api.sanitize_for_serialization(options["body"]) == {"preconditions": {"uid": "u", "resourceVersion": "7"}}
