"""Publication by uploads: nothing is visible before its time, what is taken stays, and an aborted upload stays so."""

import threading
import uuid
from collections.abc import Mapping

import pytest
from sandbox.s3.proxy import Answer, Call, Fault, Forward, MisbehavingProxy, lost, refused
from sandbox.s3.server import S3Server

from compaction_operator.api.cleanup import Upload
from compaction_operator.storage import AlreadyExistsError, NotFoundError, StorageError, join
from compaction_operator.storage.s3 import S3Storage, multipart
from compaction_operator.storage.s3.multipart import Multipart, Range
from compaction_operator.storage.s3.objects import S3Error
from tests.integration.storage.s3.conftest import PARAMETERS, QUICK, STORES, storage_at
from tests.integration.storage.s3.test_trees import key_of

NAMES = ("base_1_v7/bucket_00000", "base_1_v7/bucket_00001", "base_1_v7/_orc_acid_version")
CONTENT = b"rows" * 10
RACES = 60

only_minio = pytest.mark.parametrize(PARAMETERS, [STORES["minio"], STORES["minio-versioned"]], scope="session")
"""NB: versitygw completes an upload although it was aborted meanwhile. `probe` finds it out."""


@pytest.fixture
def sources(storage: S3Storage, place: str) -> dict[str, str]:
    """Staged files by the names under which they are published. One of them is empty."""
    staged = {name: join(place, "_staging", *name.split("/")) for name in NAMES}
    for name, uri in staged.items():
        storage.write(uri, b"" if name == NAMES[1] else CONTENT)
    return staged


def published(storage: S3Storage, place: str) -> list[str]:
    """The names of all that readers would see."""
    prefix = f"{key_of(place)}/"
    keys = (found.key.removeprefix(prefix) for found in storage.bucket.below(prefix))
    return [key for key in keys if key and not key.startswith("_staging")]


def one(sources: Mapping[str, str]) -> dict[str, str]:
    return {NAMES[0]: sources[NAMES[0]]}


def test_outputs_appear_when_they_are_completed(storage: S3Storage, place: str, sources: dict[str, str]):
    uploads = storage.uploads.begin(place, sources)
    assert [upload.name for upload in uploads] == list(NAMES)
    assert published(storage, place) == []
    storage.uploads.complete(place, uploads)
    assert published(storage, place) == sorted(NAMES)
    assert [storage.read(join(place, *name.split("/"))) for name in NAMES] == [CONTENT, b"", CONTENT]


def test_another_process_completes_by_the_ids_alone(server: S3Server, storage: S3Storage, place: str, sources):
    """It knows what the journal names."""
    uploads = storage.uploads.begin(place, sources)
    storage_at(server, storage.bucket.name).uploads.complete(place, uploads)
    assert published(storage, place) == sorted(NAMES)


def test_a_large_object_is_copied_in_parts(storage: S3Storage, place: str, monkeypatch: pytest.MonkeyPatch):
    """The last one is never too small."""
    monkeypatch.setattr(multipart, "COPY_BYTES", 5 << 20)
    content = bytes(range(256)) * (43 << 10)
    storage.write(join(place, "_staged"), content)
    uploads = storage.uploads.begin(place, {"base_1_v7/bucket_00000": join(place, "_staged")})
    storage.uploads.complete(place, uploads)
    assert storage.read(join(place, "base_1_v7", "bucket_00000")) == content


def test_completing_again_is_done_already(storage: S3Storage, place: str, sources: dict[str, str]):
    uploads = storage.uploads.begin(place, sources)
    for _ in range(2):
        storage.uploads.complete(place, uploads)
    assert published(storage, place) == sorted(NAMES)


def test_an_object_that_is_there_is_kept(storage: S3Storage, place: str, sources: dict[str, str]):
    uploads = storage.uploads.begin(place, one(sources))
    storage.write(join(place, *NAMES[0].split("/")), b"other")
    with pytest.raises(AlreadyExistsError, match="bucket_00000 exists already"):
        storage.uploads.complete(place, uploads)
    assert storage.read(join(place, *NAMES[0].split("/"))) == b"other"
    storage.uploads.abort(place, uploads)


def test_of_two_uploads_to_one_name_one_wins(storage: S3Storage, place: str, sources: dict[str, str]):
    """Even if they have the same content: the loser's upload is still there."""
    first, second = storage.uploads.begin(place, one(sources)), storage.uploads.begin(place, one(sources))
    storage.uploads.complete(place, first)
    with pytest.raises(AlreadyExistsError):
        storage.uploads.complete(place, second)
    storage.uploads.abort(place, second)
    assert storage.read(join(place, *NAMES[0].split("/"))) == CONTENT


def test_what_was_aborted_is_not_completed(storage: S3Storage, place: str, sources: dict[str, str]):
    uploads = storage.uploads.begin(place, sources)
    for _ in range(2):
        storage.uploads.abort(place, uploads)
    with pytest.raises(NotFoundError, match="aborted"):
        storage.uploads.complete(place, uploads)
    assert published(storage, place) == []


def test_aborting_leaves_completed_objects(storage: S3Storage, place: str, sources: dict[str, str]):
    uploads = storage.uploads.begin(place, sources)
    storage.uploads.complete(place, uploads[:1])
    storage.uploads.abort(place, uploads)
    assert published(storage, place) == [NAMES[0]]


def test_an_unknown_id_is_aborted_and_not_completed(storage: S3Storage, place: str):
    """A journal may name an upload whose object was completed and deleted long ago."""
    unknown = [Upload(name=NAMES[0], upload_id=uuid.uuid4().hex)]
    storage.uploads.abort(place, unknown)
    with pytest.raises(NotFoundError):
        storage.uploads.complete(place, unknown)


def test_a_source_that_is_missing_begins_nothing(storage: S3Storage, place: str, sources: dict[str, str]):
    storage.delete_tree(sources[NAMES[2]])
    with pytest.raises(NotFoundError, match="_orc_acid_version"):
        storage.uploads.begin(place, sources)


@pytest.mark.parametrize("operation", ["head", "begin", "copy_part", "put_part"])
def test_what_was_begun_is_aborted_when_the_rest_fails(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str, sources: dict[str, str], operation: str
):
    begun: set[str] = set()
    aborted: set[str] = set()

    def note(ids: set[str]) -> Fault:
        def forwarded(call: Call, forward: Forward) -> Answer:
            answer = forward()
            ids.add(call.upload_id(answer))
            return answer

        return forwarded

    watched = {"begin": note(begun), "abort": note(aborted)}
    proxy.behave(**watched | {operation: _but_once(watched.get(operation))})
    with pytest.raises(StorageError):
        behind_proxy.uploads.begin(place, sources)
    assert begun == aborted


def _but_once(fault: Fault | None) -> Fault:
    """Refuse the second call, and let the others through."""
    number = iter(range(100))

    def answer(call: Call, forward: Forward) -> Answer | None:
        if next(number) == (0 if call.operation == "put_part" else 1):
            return refused(403, "AccessDenied")(call, forward)
        return fault(call, forward) if fault else forward()

    return answer


@pytest.mark.parametrize("after", [True, False])
def test_a_completion_whose_answer_is_lost_is_known_again(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str, sources: dict[str, str], after: bool
):
    """The client asks again, and finds its upload gone. So does a caller that asks again after an error."""
    uploads = behind_proxy.uploads.begin(place, one(sources))
    proxy.misbehave(QUICK.attempts if after else 1, complete=lost)
    if after:
        with pytest.raises(StorageError, match="complete an upload"):
            behind_proxy.uploads.complete(place, uploads)
    behind_proxy.uploads.complete(place, uploads)
    assert published(behind_proxy, place) == [NAMES[0]]


def test_a_success_that_is_none_is_not_believed(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str, sources: dict[str, str]
):
    """A gateway that answers 200 to the completion of an upload that it does not carry out."""
    uploads = behind_proxy.uploads.begin(place, one(sources))
    body = b"<CompleteMultipartUploadResult><ETag>&quot;0&quot;</ETag></CompleteMultipartUploadResult>"
    proxy.behave(complete=lambda _call, _forward: Answer(200, {"Content-Type": "application/xml"}, body))
    with pytest.raises(NotFoundError, match="does not exist"):
        behind_proxy.uploads.complete(place, uploads)
    behind_proxy.write(join(place, *NAMES[0].split("/")), b"another's")
    with pytest.raises(AlreadyExistsError, match="not what was uploaded"):
        behind_proxy.uploads.complete(place, uploads)
    behind_proxy.uploads.abort(place, uploads)


@only_minio
def test_nothing_appears_once_an_upload_was_aborted(storage: S3Storage, place: str, sources: dict[str, str]):
    """What ends an attempt looks for completed objects after aborting, and must then have found them all."""
    outcomes = {_race(storage, f"{key_of(place)}/race/{number}", sources[NAMES[0]]) for number in range(RACES)}
    assert all(seen or not late for seen, late in outcomes)


def _race(storage: S3Storage, key: str, source: str) -> tuple[bool, bool]:
    """Complete an upload while it is aborted. Return whether its object was there after the abort, and at the end."""
    upload = Multipart.begin(storage.bucket, key, {})
    found = storage.bucket.head(key_of(source))
    assert found
    parts = [upload.copy(1, Range(storage.bucket.name, found, 0, found.size))]
    ready = threading.Barrier(2)

    def complete() -> None:
        ready.wait()
        try:
            upload.complete(parts)
        except S3Error as error:
            assert error.code in multipart.GONE

    driver = threading.Thread(target=complete)
    driver.start()
    ready.wait()
    location, _, name = key.rpartition("/")
    storage.uploads.abort(f"s3a://{storage.bucket.name}/{location}", [Upload(name=name, upload_id=upload.upload_id)])
    seen = storage.bucket.first(key) is not None
    driver.join()
    return seen, storage.bucket.first(key) is not None


@only_minio
def test_a_completion_that_arrives_after_the_abort_is_refused(
    server: S3Server, proxy: MisbehavingProxy, storage: S3Storage, place: str, sources: dict[str, str]
):
    """The driver's call was long on its way."""
    patient = storage_at(server, storage.bucket.name, endpoint=proxy.endpoint)
    uploads = patient.uploads.begin(place, one(sources))
    aborted, arrived = threading.Event(), threading.Event()

    def late(_call: Call, forward: Forward) -> Answer:
        arrived.set()
        assert aborted.wait(60)
        return forward()

    proxy.behave(complete=late)
    errors: list[Exception] = []

    def complete() -> None:
        try:
            patient.uploads.complete(place, uploads)
        except StorageError as error:
            errors.append(error)

    driver = threading.Thread(target=complete)
    driver.start()
    assert arrived.wait(60)
    storage.uploads.abort(place, uploads)
    aborted.set()
    driver.join()
    assert [type(error) for error in errors] == [NotFoundError]
    assert published(storage, place) == []


@pytest.mark.parametrize("writes", ["copy", "put"])
def test_a_part_that_arrives_after_the_abort_revives_nothing(
    storage: S3Storage, place: str, sources: dict[str, str], writes: str
):
    (upload,) = storage.uploads.begin(place, one(sources))
    storage.uploads.abort(place, [upload])
    key = f"{key_of(place)}/{NAMES[0]}"
    late = Multipart(storage.bucket, key, upload.upload_id)
    source = storage.bucket.head(key_of(sources[NAMES[0]]))
    assert source
    with pytest.raises(S3Error, match="NoSuchUpload"):
        if writes == "put":
            late.put(1, CONTENT)
        else:
            late.copy(1, Range(storage.bucket.name, source, 0, source.size))
    with pytest.raises(NotFoundError):
        storage.uploads.complete(place, [upload])
    assert published(storage, place) == []


@pytest.mark.parametrize("code", ["InternalError", "SlowDown"])
def test_an_abort_that_fails_is_an_error(
    behind_proxy: S3Storage, proxy: MisbehavingProxy, place: str, sources: dict[str, str], code: str
):
    """Who ends an attempt must not go on as if its uploads were revoked."""
    uploads = behind_proxy.uploads.begin(place, one(sources))
    proxy.behave(abort=refused(503, code))
    with pytest.raises(StorageError, match=f"abort an upload: S3 answered {code}"):
        behind_proxy.uploads.abort(place, uploads)
    proxy.behave(abort=lambda _call, _forward: Answer(204, {}, b""))
    with pytest.raises(StorageError, match="still there after it was aborted"):
        behind_proxy.uploads.abort(place, uploads)
    proxy.behave()
    behind_proxy.uploads.abort(place, uploads)
