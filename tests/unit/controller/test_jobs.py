"""The Job of an attempt: its name, what its pod runs as, and what is read back from it."""

import json
from typing import Any

import pytest

from compaction_operator.api.compaction import CleanupMode, CleanupOptions, DriverResources, SparkOptions
from compaction_operator.api.config import Metastore, Warehouse
from compaction_operator.api.request import REQUEST_VARIABLE, JobRequest
from compaction_operator.api.stores import StoreSettings
from compaction_operator.controller.kube.job import (
    JobState,
    driver_memory_mib,
    job_manifest,
    job_name,
    job_request,
    view_job,
)
from tests.unit.controller.sandbox import CONFIG, compaction


def request(**spec: Any) -> JobRequest:
    return job_request(compaction(partitions=["prt='p1'"], status={"attempt": 2}, **spec), CONFIG)


def pod_spec(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = job_manifest(request(**spec), ttl=600.0)["spec"]["template"]["spec"]
    return found


def test_name_is_a_function_of_its_arguments() -> None:
    """The same attempt gets the same name after a restart; another attempt or compaction another one."""
    name = job_name(compaction="nightly", uid="u", attempt=1)
    assert name == job_name(compaction="nightly", uid="u", attempt=1)
    assert name != job_name(compaction="nightly", uid="u", attempt=2)
    assert name != job_name(compaction="nightly", uid="v", attempt=1)


def test_name_is_a_valid_label_and_host_name() -> None:
    """Compactions may have 253 characters and dots; a Job's name ends up in a label and in the pod's host name."""
    name = job_name(compaction="a.b" + "x" * 250, uid="u", attempt=1000)
    assert len(name) <= 63
    assert name.startswith("a-b")
    assert "." not in name
    assert job_name(compaction="x" * 39 + ".y", uid="u", attempt=1)[39] == "-"


def test_job_is_tried_once_and_goes_with_its_compaction() -> None:
    """Trying again is the controller's; the owner reference takes the Job away with its compaction, without rights."""
    manifest = job_manifest(request(), ttl=600.0)
    assert manifest["spec"] | {"template": {}} == {
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "ttlSecondsAfterFinished": 600,
        "template": {},
    }
    assert manifest["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "compaction.dev/v1alpha1",
            "kind": "TableCompaction",
            "name": "nightly",
            "uid": "uid-default-nightly",
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]


def test_labels_are_on_job_and_pod() -> None:
    """By them the watch finds the Job, and people its pod."""
    manifest = job_manifest(request(), ttl=600.0)
    labels = manifest["metadata"]["labels"]
    assert labels["compaction.dev/compaction-uid"] == "uid-default-nightly"
    assert labels["compaction.dev/attempt"] == "2"
    assert manifest["spec"]["template"]["metadata"]["labels"] == labels


def test_request_reaches_the_driver_whole() -> None:
    """What the driver parses is what the controller meant."""
    container = pod_spec()["containers"][0]
    environment = {variable["name"]: variable for variable in container["env"]}
    assert JobRequest.model_validate_json(environment[REQUEST_VARIABLE]["value"]) == request()
    assert request().job == job_name(compaction="nightly", uid="uid-default-nightly", attempt=2)
    fields = {
        name: one["valueFrom"]["fieldRef"]["fieldPath"] for name, one in environment.items() if "valueFrom" in one
    }
    assert fields == {
        "POD_NAME": "metadata.name",
        "POD_UID": "metadata.uid",
        "POD_IP": "status.podIP",
    }
    assert container["args"] == ["compaction-operator", "job"]


def test_what_is_asked_for_reaches_the_driver() -> None:
    """For example, a compaction may run beside Hive's own. The driver asks the metastore again."""
    for allowed in (False, True):
        assert request(allowAutoCompaction=allowed).allow_auto_compaction is allowed
    mode = CleanupOptions(mode=CleanupMode.NEVER)
    assert (request().cleanup, request(cleanup={"mode": "Never"}).cleanup) == (CleanupOptions(), mode)
    assert request().partitions == ("prt='p1'",)
    handled = compaction(status={"attempt": 2, "operator": "compaction-system"})
    assert job_request(handled, CONFIG).operator == "compaction-system"


def test_pod_fits_the_restricted_profile() -> None:
    """Non-root, no privileges, no capabilities, the runtime's seccomp profile; one uid shares the warehouse."""
    spec = pod_spec()
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 185,
        "runAsGroup": 185,
        "fsGroup": 185,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    security = spec["containers"][0]["securityContext"]
    assert security == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert spec["restartPolicy"] == "Never"
    assert spec["terminationGracePeriodSeconds"] == 60
    assert spec["enableServiceLinks"] is False


def test_volumes() -> None:
    """The warehouse's claim where the metastore's locations point to, and a /tmp of its own."""
    spec = pod_spec()
    assert spec["volumes"] == [
        {"name": "tmp", "emptyDir": {}},
        {"name": "warehouse", "persistentVolumeClaim": {"claimName": "warehouse"}},
    ]
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts == {"tmp": "/tmp", "warehouse": "/warehouse"}


def test_the_metastores_secret() -> None:
    """The driver connects to the metastore: its pod has the files, and KRB5_CONFIG names the one of Kerberos."""
    metastore = Metastore.model_validate(
        {
            "uris": ["thrift://metastore:9083"],
            "kerberos": {
                "principal": "hive/_HOST@R",
                "clientPrincipal": "c@R",
                "keytab": "/etc/hive/c",
                "configFile": "/etc/hive/krb5.conf",
            },
            "secret": {"name": "hive-client", "mountPath": "/etc/hive"},
        }
    )
    warehouse = CONFIG.warehouses[0].model_copy(update={"metastore": metastore})
    manifest = job_manifest(request().model_copy(update={"warehouse": warehouse}), ttl=1.0)
    spec = manifest["spec"]["template"]["spec"]
    assert spec["volumes"][-1] == {"name": "metastore", "secret": {"secretName": "hive-client", "defaultMode": 0o440}}
    container = spec["containers"][0]
    assert container["volumeMounts"][-1] == {"name": "metastore", "mountPath": "/etc/hive", "readOnly": True}
    assert {"name": "KRB5_CONFIG", "value": "/etc/hive/krb5.conf"} in container["env"]


KERBERIZED = Warehouse.model_validate(
    {
        "name": "lake",
        "metastore": {
            "uris": ["thrift://metastore:9083"],
            "kerberos": {
                "principal": "hive/_HOST@R",
                "clientPrincipal": "c@R",
                "keytab": "/etc/client/c.keytab",
                "configFile": "/etc/client/krb5.conf",
            },
            "secret": {"name": "client", "mountPath": "/etc/client"},
        },
        "namespaces": ["default"],
        "locations": ["hdfs://ns/warehouse", "s3a://bucket/warehouse"],
        "stores": {
            "hdfs": {
                "configMap": "hadoop-conf",
                "kerberos": {
                    "clientPrincipal": "c@R",
                    "keytab": "/etc/client/c.keytab",
                    "configFile": "/etc/client/krb5.conf",
                },
                "secret": {"name": "client", "mountPath": "/etc/client/"},
            },
            "s3": {
                "credentialsFile": "/etc/s3/credentials",
                "secret": {"name": "s3-client", "mountPath": "/etc/s3"},
            },
        },
    }
)
"""HDFS and metastore share a secret."""


def test_what_reaches_the_stores() -> None:
    """Hadoop's configuration and the secrets, each once, and the settings in the environment."""
    manifest = job_manifest(request().model_copy(update={"warehouse": KERBERIZED}), ttl=1.0)
    spec = manifest["spec"]["template"]["spec"]
    container = spec["containers"][0]
    sources = {volume.pop("name"): volume for volume in spec["volumes"]}
    mounted = {mount["mountPath"]: sources[mount["name"]] for mount in container["volumeMounts"]}
    assert len(container["volumeMounts"]) == len(sources) == 4
    assert mounted == {
        "/tmp": {"emptyDir": {}},
        "/etc/hadoop/conf": {"configMap": {"name": "hadoop-conf"}},
        "/etc/client": {"secret": {"secretName": "client", "defaultMode": 0o440}},
        "/etc/s3": {"secret": {"secretName": "s3-client", "defaultMode": 0o440}},
    }
    assert all(mount.get("readOnly") or mount["name"] == "tmp" for mount in container["volumeMounts"])
    environment = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    assert StoreSettings.model_validate_json(environment["COMPACTION_STORES"]) == KERBERIZED.stores
    assert environment["HADOOP_CONF_DIR"] == "/etc/hadoop/conf"
    assert environment["KRB5_CONFIG"] == "/etc/client/krb5.conf"


def test_only_the_pod_reads_what_is_secret() -> None:
    """Secrets come as files: no variable of the container has its value from one, and no file is copied into one."""
    manifest = job_manifest(request().model_copy(update={"warehouse": KERBERIZED}), ttl=1.0)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    assert "envFrom" not in container
    sources = [set(one["valueFrom"]) for one in container["env"] if "valueFrom" in one]
    assert sources == [{"fieldRef"}] * 3
    assert manifest["spec"]["template"]["spec"].get("initContainers") is None


def test_warehouse_without_a_volume() -> None:
    """Nothing but /tmp is mounted."""
    warehouse = CONFIG.warehouses[0].model_copy(update={"volume": None})
    manifest = job_manifest(request().model_copy(update={"warehouse": warehouse}), ttl=1.0)
    assert [volume["name"] for volume in manifest["spec"]["template"]["spec"]["volumes"]] == ["tmp"]


@pytest.mark.parametrize(
    ("heap", "mebibytes"),
    [("1g", 1536), ("512m", 1024), ("2g", 2868), ("1024", 1536), ("1048576k", 1536), ("1gb", 1536)],
)
def test_memory_has_room_for_python(heap: str, mebibytes: int) -> None:
    """The heap as Spark reads it, and beside it 40 % but at least 512 MiB."""
    assert driver_memory_mib(heap) == mebibytes


def test_memory_that_is_no_size() -> None:
    """The message names the text."""
    with pytest.raises(ValueError, match="'much' is not a Spark memory size"):
        driver_memory_mib("much")


def test_resources_and_placement_come_from_spec_and_profile() -> None:
    """Cores are the CPU request unless the administrator has another; placement is the administrator's."""
    plain = pod_spec(spark={"driver": {"cores": 3, "memory": "1g"}})
    assert plain["containers"][0]["resources"] == {
        "requests": {"cpu": "3", "memory": "1536Mi"},
        "limits": {"memory": f"{1536 + 4 * 512}Mi"},
    }
    toleration = {"key": "batch", "operator": "Exists"}
    profile = CONFIG.profiles[0].model_copy(
        update={"driver_cpu_request": "250m", "node_selector": {"disk": "fast"}, "tolerations": (toleration,)}
    )
    small = job_manifest(request().model_copy(update={"profile": profile}), ttl=1.0)["spec"]["template"]["spec"]
    assert small["containers"][0]["resources"]["requests"]["cpu"] == "250m"
    assert (small["nodeSelector"], small["tolerations"]) == ({"disk": "fast"}, [toleration])
    assert small["serviceAccountName"] == "compaction-driver"


def test_a_driver_that_only_directs_executors_has_no_tasks_to_hold_anything_for() -> None:
    """Without executors, each of its cores runs one task at a time, after one in the driver's process.

    With Auto it may come to that.
    """
    plain = pod_spec(spark={"driver": {"cores": 3, "memory": "1g"}, "executors": {"instances": 2}})
    assert plain["containers"][0]["resources"]["limits"] == {"memory": "1536Mi"}
    for instances in (0, "Auto"):
        alone = pod_spec(spark={"driver": {"cores": 3, "memory": "1g"}, "executors": {"instances": instances}})
        assert alone["containers"][0]["resources"]["limits"] == {"memory": f"{1536 + 4 * 512}Mi"}


def test_after_a_lack_of_memory_a_driver_gets_more() -> None:
    """As much as the profile says, with the same heap; 1 means no more."""
    for factor, least, most in ((1.5, 2304, 3840), (1.0, 1536, 2560)):
        profile = CONFIG.profiles[0].model_copy(update={"oom_memory_factor": factor})
        made = job_manifest(request().model_copy(update={"profile": profile}), ttl=1.0, after_oom=True)
        container = made["spec"]["template"]["spec"]["containers"][0]
        assert container["resources"]["requests"]["memory"] == f"{least}Mi"
        assert container["resources"]["limits"]["memory"] == f"{most}Mi"


def test_manifest_is_json() -> None:
    """It goes over the wire as it is."""
    options = SparkOptions(driver=DriverResources(cores=2))
    assert json.loads(json.dumps(job_manifest(request().model_copy(update={"spark": options}), ttl=0.5)))


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({}, JobState.ACTIVE),
        ({"FailureTarget": "True"}, JobState.ACTIVE),
        ({"SuccessCriteriaMet": "True"}, JobState.ACTIVE),
        ({"Complete": "False"}, JobState.ACTIVE),
        ({"SuccessCriteriaMet": "True", "Complete": "True"}, JobState.SUCCEEDED),
        ({"FailureTarget": "True", "Failed": "True"}, JobState.FAILED),
    ],
)
def test_a_job_has_ended_only_when_its_pod_has(conditions: dict[str, str], state: JobState) -> None:
    """The two conditions that come before the pod is gone do not count: the fence must not race a living driver."""
    manifest = job_manifest(request(), ttl=1.0)
    manifest["metadata"]["resourceVersion"] = "7"
    listed = [{"type": type_, "status": status} for type_, status in conditions.items()]
    view = view_job({**manifest, "status": {"conditions": listed}})
    assert view.state is state
    assert view.ended is (state is not JobState.ACTIVE)
    assert (view.compaction, view.resource_version) == ("nightly", 7)


@pytest.mark.parametrize(
    ("suspend", "status", "suspended", "resumed"),
    [
        (None, None, False, None),
        (True, None, True, None),
        (True, "True", True, None),
        (False, "True", True, None),
        (False, "False", False, "2026-01-01T12:00:00Z"),
        (True, "False", True, None),
    ],
)
def test_a_job_that_a_queue_holds_back(
    suspend: bool | None, status: str | None, suspended: bool, resumed: str | None
) -> None:
    """By its spec, which is what Kueue changes, until the condition says since when it may start."""
    manifest = job_manifest(request(), ttl=1.0)
    manifest["metadata"] |= {"resourceVersion": "7", "labels": {"kueue.x-k8s.io/queue-name": "nightly"}}
    manifest["spec"] |= {} if suspend is None else {"suspend": suspend}
    known = [{"type": "Suspended", "status": status, "lastTransitionTime": "2026-01-01T12:00:00Z"}] if status else []
    view = view_job({**manifest, "status": {"conditions": known, "startTime": "2026-01-01T11:00:00Z"}})
    assert (view.suspended, view.resumed, view.queue, view.state) == (suspended, resumed, "nightly", JobState.ACTIVE)
