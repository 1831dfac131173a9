"""The TableCompaction that a policy creates. Pure."""

from typing import Any

from compaction_operator.api import compaction as compaction_api
from compaction_operator.api import policy as policy_api
from compaction_operator.api.compaction import CleanupOptions, TableCompactionSpec, TableRef
from compaction_operator.api.model import GROUP, VERSION
from compaction_operator.api.policy import (
    ANNOTATION_BYTES,
    ANNOTATION_CPU,
    ANNOTATION_FAILURES,
    ANNOTATION_SEEN,
    LABEL_POLICY_UID,
)
from compaction_operator.controller.kube.resources import Policy
from compaction_operator.policy.candidates import Candidate

API_VERSION = f"{GROUP}/{VERSION}"
ANNOTATION_WHY = "compaction.dev/policy-reason"


def compaction_manifest(policy: Policy, candidate: Candidate, *, name: str, failures: int, cpu: int) -> dict[str, Any]:
    """Return the TableCompaction for a candidate, after failures in a row. It is deleted with its policy.

    `cpu` are the CPU milliseconds that it is expected to take.
    """
    template = policy.spec.template
    # NB: the cleanup of a Hudi table is Hudi's own; the API server refuses options of it.
    cleanup = CleanupOptions() if candidate.hudi else template.cleanup
    spec = TableCompactionSpec(
        warehouse=policy.spec.warehouse,
        table=TableRef.of(candidate.table),
        partitions=tuple(part.spec for part in candidate.parts if part.spec),
        type=candidate.type,
        hudi=candidate.hudi,
        cleanup=cleanup,
        spark=template.spark,
        retry=template.retry,
        allow_auto_compaction=template.allow_auto_compaction,
        deadline=template.deadline,
    )
    return {
        "apiVersion": API_VERSION,
        "kind": compaction_api.KIND,
        "metadata": {
            "name": name,
            "namespace": policy.meta.namespace,
            "labels": {LABEL_POLICY_UID: policy.meta.uid},
            "annotations": {
                ANNOTATION_BYTES: str(candidate.bytes),
                ANNOTATION_CPU: str(cpu),
                ANNOTATION_FAILURES: str(failures),
                ANNOTATION_SEEN: candidate.seen,
                ANNOTATION_WHY: candidate.reason,
            },
            "ownerReferences": [_owner(policy)],
        },
        "spec": spec.to_json(),
    }


def _owner(policy: Policy) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": policy_api.KIND,
        "name": policy.meta.name,
        "uid": policy.meta.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
