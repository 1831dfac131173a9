"""What goes between this process and S3: requests by operation, and the bytes of their bodies."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from compaction_operator.storage import Storage
from compaction_operator.storage.s3 import S3Storage

READS = {"GetObject", "HeadObject"}
"""Operations that read input."""


class Traffic:
    """Counts from the moment it is entered; always zero on a store that is not S3."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._bytes = 0

    @classmethod
    @contextmanager
    def of(cls, storage: Storage) -> Iterator[Self]:
        """Yield the traffic of a storage for as long as the context lasts."""
        traffic = cls()
        if not isinstance(storage, S3Storage):
            yield traffic
            return
        events = storage.bucket.client.meta.events
        events.register("before-send.s3", traffic._sent)
        events.register("after-call.s3", traffic._answered)
        try:
            yield traffic
        finally:
            events.unregister("before-send.s3", traffic._sent)
            events.unregister("after-call.s3", traffic._answered)

    def figures(self) -> dict[str, int]:
        """Return the requests, how many of them read input, and the bytes of bodies in either direction."""
        reads = sum(self._requests[name] for name in READS)
        return {"requests": self._requests.total(), "reads": reads, "bytes_through": self._bytes}

    def _sent(self, request: Any, **_: Any) -> None:
        self._bytes += int(request.headers.get("Content-Length") or 0)

    def _answered(self, model: Any, http_response: Any, **_: Any) -> None:
        self._requests[model.name] += 1
        if model.name != "HeadObject":
            self._bytes += int(http_response.headers.get("Content-Length") or 0)
