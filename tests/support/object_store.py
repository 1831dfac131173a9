"""A store that cannot rename, on local disk: what S3 promises and withholds, without its requests.

It is for the order of steps only. tests/integration/storage proves the same on real servers.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compaction_operator.api.cleanup import Upload
from compaction_operator.storage import (
    Abilities,
    AlreadyExistsError,
    LocalStorage,
    NotFoundError,
    StorageError,
    join,
    local_path,
)


@dataclass
class LocalUploads:
    """Uploads whose content waits in memory."""

    steps: list[str] = field(default_factory=list)
    pending: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    shortcoming: str | None = None

    @property
    def begun(self) -> int:
        """How many were begun so far."""
        return self.steps.count("begin")

    def begin(self, location: str, sources: Mapping[str, str]) -> tuple[Upload, ...]:
        """Keep the content of each source."""
        return tuple(self._begin(location, name, source) for name, source in sources.items())

    def _begin(self, location: str, name: str, source: str) -> Upload:
        upload = Upload(name=name, upload_id=uuid.uuid4().hex)
        self.pending[upload.upload_id] = (_place(location, name), Path(local_path(source)).read_bytes())
        self.steps.append("begin")
        return upload

    def complete(self, location: str, uploads: Iterable[Upload]) -> None:
        """Write each file."""
        for upload in uploads:
            if upload.upload_id not in self.pending:
                raise NotFoundError(f"{_place(location, upload.name)}: its upload was aborted")
            place, content = self.pending.pop(upload.upload_id)
            path = Path(local_path(place))
            if path.exists():
                raise AlreadyExistsError(f"{place} exists already")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            self.steps.append("complete")

    def abort(self, location: str, uploads: Iterable[Upload]) -> None:
        """Forget the content."""
        for upload in uploads:
            self.pending.pop(upload.upload_id, None)
            self.steps.append("abort")

    def abort_below(self, location: str, chosen: Callable[[str], bool]) -> int:
        """Forget the content of the chosen ones."""
        below = {key: place.removeprefix(f"{location}/") for key, (place, _) in self.pending.items()}
        doomed = [key for key, name in below.items() if name != self.pending[key][0] and chosen(name)]
        for key in doomed:
            del self.pending[key]
        return len(doomed)

    def probe(self, location: str) -> str | None:
        """Answer what the test has said."""
        self.steps.append(f"probe {location}")
        return self.shortcoming


class ObjectStore(LocalStorage):
    """Local disk without renames."""

    def __init__(self) -> None:
        super().__init__()
        self.own_uploads = LocalUploads()

    @property
    def abilities(self) -> Abilities:
        """Nothing is renamed."""
        return Abilities(atomic_directory_rename=False, durable_on_close=True)

    @property
    def uploads(self) -> LocalUploads:  # type: ignore[override]
        """How files are published."""
        return self.own_uploads

    def rename(self, source: str, target: str) -> None:
        """Refuse."""
        raise StorageError(f"{source}: this store cannot rename")

    def publish(self, source: str, target: str) -> None:
        """Refuse."""
        self.rename(source, target)


def _place(location: str, name: str) -> str:
    return join(location, *name.split("/"))
