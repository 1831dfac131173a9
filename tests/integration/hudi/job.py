"""The operator's own job on a Hudi table, as its driver runs it, without Kubernetes: the lease is a stand-in."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext

from sandbox.hudi.session import HudiSession
from sandbox.hudi.table import SmallTable

from compaction_operator.api.compaction import CompactionType, TableRef
from compaction_operator.api.config import HudiSettings, Metastore, SparkProfile, Warehouse
from compaction_operator.api.hudi import HudiOptions, HudiStatus
from compaction_operator.api.request import DriverResult, JobRequest, Reason
from compaction_operator.api.stores import StoreSettings
from compaction_operator.driver.errors import JobError
from compaction_operator.driver.hudi.setup import compact, prepare
from tests.unit.driver.support import Reports

LOG_COMPACTION = CompactionType.LOG_COMPACTION
COMPACTION = CompactionType.COMPACTION


class Lease:
    """A lease that is lost as soon as `lost` says so."""

    def __init__(self, lost: Callable[[], bool]) -> None:
        self._lost = lost

    def confirm(self) -> None:
        if self._lost():
            raise JobError(Reason.LOCK_LOST, "the lease is lost")


class Jobs:
    """Runs jobs on a Spark session; `locks` are the options of a lock provider, `{}` for none.

    `stores` are the settings of the stores that the session knows already.
    """

    def __init__(self, session: HudiSession, locks: Mapping[str, str], *, stores: StoreSettings | None = None) -> None:
        self._session = session
        self._locks = locks
        self._stores = stores or StoreSettings()

    def run(
        self,
        table: SmallTable,
        kind: CompactionType,
        *,
        namespace: str = "team",
        uid: str = "job",
        partitions: tuple[str, ...] = (),
        lost: Callable[[], bool] = lambda: False,
        **hudi: object,
    ) -> DriverResult:
        """Compact, with these fields of `hudi`; raises JobError or HudiError as a driver's work does."""
        options = HudiOptions.model_validate({"bundle": self._session.version} | hudi)
        request = JobRequest(
            name="small-hudi",
            namespace=namespace,
            uid=uid,
            attempt=1,
            job="small-hudi-1",
            warehouse=self._warehouse(table),
            profile=SparkProfile(name="default", image="compaction-operator:1"),
            table=TableRef(location=table.uri),
            partitions=partitions,
            type=kind,
            hudi=options,
        )
        return compact(
            prepare(request, table.uri),
            request,
            lease=lambda: nullcontext(Lease(lost)),
            session=lambda: nullcontext(self._session.spark),
            report=Reports(),
        )

    def done(self, table: SmallTable, kind: CompactionType, **fields: object) -> HudiStatus:
        """Compact, and return what the status shows; raises AssertionError unless something was compacted."""
        result = self.run(table, kind, **fields)  # type: ignore[arg-type]
        assert result.reason is Reason.COMPACTED, result
        assert result.hudi is not None
        return result.hudi

    def _warehouse(self, table: SmallTable) -> Warehouse:
        return Warehouse(
            name="main",
            metastore=Metastore(uris=("thrift://unused:9083",)),
            namespaces=("team",),
            stores=self._stores,
            locations=(table.uri,),
            hudi=HudiSettings(options=dict(self._locks), locations=(table.uri,)),
        )
