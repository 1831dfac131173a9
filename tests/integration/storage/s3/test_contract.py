"""S3 does what every storage must do, and refuses what it cannot."""

from tests.support.storage_contract import FilesContract, ObjectsContract, StorageContract


class TestStorage(StorageContract):
    """List, read, write and delete."""


class TestObjects(ObjectsContract):
    """No renames."""


class TestFiles(FilesContract):
    """Read ranges, write parts."""
