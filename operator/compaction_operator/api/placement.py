"""What a Spark profile adds to the pods of drivers and executors: where they run, and what they have besides."""

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from compaction_operator.api.model import Model
from compaction_operator.api.stores import MountPath

KEY_PATTERN = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
"""Keys of labels and annotations: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/."""
LABEL_VALUE_PATTERN = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
OBJECT_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
MOUNT_PATTERN = r"^(/[^/:]+)+/?$"

OWN_KEYS = (
    r"^(app\.kubernetes\.io/(name|component|instance)$|([^/]+\.)?compaction\.dev/|batch\.kubernetes\.io/"
    r"|spark-|job-name$|controller-uid$)"
)
"""Labels and annotations by which the operator, Kubernetes or Spark finds pods. The chart's policies select by them."""
OWN_VARIABLES = (
    r"^((COMPACTION|POD|SPARK|PYSPARK|HADOOP|HUDI|KRB5|LD|JAVA|_JAVA|JDK_JAVA)_.*|PYTHON.*|PATH|HOME|IFS|ENV|BASH_ENV)$"
)
"""Environment variables that the operator or the image sets, or that change which code runs."""
OWN_VOLUMES = ("tmp", "warehouse", "hadoop", "metastore", "hdfs", "s3")
OWN_PATHS = (
    *("/tmp", "/opt", "/usr", "/bin", "/sbin", "/lib", "/dev", "/proc", "/sys", "/run", "/var/run", "/var/data"),  # noqa: S108
    "/etc/passwd",
)
"""Where the operator mounts something for all warehouses, and where the image and Spark have what they run."""

Strings = dict[Annotated[str, Field(pattern=KEY_PATTERN)], str]
Labels = dict[Annotated[str, Field(pattern=KEY_PATTERN)], Annotated[str, Field(pattern=LABEL_VALUE_PATTERN)]]
ObjectName = Annotated[str, Field(pattern=OBJECT_NAME_PATTERN, max_length=253)]


class Placement(Model):
    """Where pods run, and their labels and annotations. Kubernetes has fields of the same names."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    affinity: dict[str, Any] = Field(default_factory=dict)
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    priority_class_name: ObjectName | None = None
    scheduler_name: ObjectName | None = None
    labels: Labels = Field(default_factory=dict)
    annotations: Strings = Field(default_factory=dict)

    def own_keys(self) -> Iterable[str]:
        """Yield each label and annotation that belongs to the operator, as `labels: compaction.dev/attempt`."""
        for field, keys in ("labels", self.labels), ("annotations", self.annotations):
            yield from (f"{field}: {key}" for key in keys if re.search(OWN_KEYS, key))

    def with_role(self, role: "Placement") -> "Placement":
        """Return this with what one role adds: its keys and its own values prevail, its lists are appended."""
        return Placement(
            node_selector=self.node_selector | role.node_selector,
            tolerations=(*self.tolerations, *role.tolerations),
            affinity=role.affinity or self.affinity,
            topology_spread_constraints=(*self.topology_spread_constraints, *role.topology_spread_constraints),
            priority_class_name=role.priority_class_name or self.priority_class_name,
            scheduler_name=role.scheduler_name or self.scheduler_name,
            labels=self.labels | role.labels,
            annotations=self.annotations | role.annotations,
        )

    def pod_fields(self) -> dict[str, Any]:
        """Return the fields of a pod's spec that are set."""
        given = self.to_json()
        return {name: value for name, value in given.items() if value and name not in ("labels", "annotations")}


class KeyRef(Model):
    """A key of a Secret or ConfigMap, which has the same name in each namespace."""

    name: ObjectName
    key: str = Field(pattern=r"^[-._a-zA-Z0-9]+$")
    optional: bool = False


class ValueFrom(Model):
    """Where a variable's value is. NB: there is no plain value: Jobs are for all to read."""

    secret_key_ref: KeyRef | None = None
    config_map_key_ref: KeyRef | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.secret_key_ref is None) is (self.config_map_key_ref is None):
            raise ValueError("give one of secretKeyRef and configMapKeyRef")
        return self


class Variable(Model):
    """An environment variable of drivers and executors."""

    name: str = Field(pattern=VARIABLE_PATTERN)
    value_from: ValueFrom


class ExtraVolume(Model):
    """A volume of drivers and executors: one of the kinds that the restricted Pod Security Standard allows.

    https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
    """

    name: str = Field(pattern=NAME_PATTERN, max_length=63)
    config_map: dict[str, Any] | None = None
    secret: dict[str, Any] | None = None
    projected: dict[str, Any] | None = None
    empty_dir: dict[str, Any] | None = None
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None
    csi: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if len(self.to_json()) != 2:
            raise ValueError(f"volume {self.name} must have one source, such as configMap or secret")
        return self


class ExtraMount(Model):
    """Where drivers and executors mount one of the profile's volumes."""

    name: str
    mount_path: Annotated[MountPath, Field(pattern=MOUNT_PATTERN)]
    sub_path: str | None = None
    read_only: bool = False

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if posixpath.normpath(self.mount_path) != self.mount_path:
            raise ValueError(f"mountPath {self.mount_path}: write it without . and ..")
        return self


class PodAdditions(Placement):
    """A profile's placement of both roles, what only one has, and what the containers of both have besides.

    `clashes` is called by the profile, which knows its name.
    """

    driver: Placement = Placement()
    executor: Placement = Placement()
    env: tuple[Variable, ...] = ()
    volumes: tuple[ExtraVolume, ...] = ()
    volume_mounts: tuple[ExtraMount, ...] = ()
    image_pull_secrets: tuple[ObjectName, ...] = ()
    runtime_class_name: ObjectName | None = None

    @property
    def of_driver(self) -> Placement:
        """Where drivers run."""
        return self.with_role(self.driver)

    @property
    def of_executor(self) -> Placement:
        """Where executors run."""
        return self.with_role(self.executor)

    def pod_spec_fields(self, role: Placement) -> dict[str, Any]:
        """Return what the profile sets in a pod's spec, besides its containers and volumes."""
        fields = role.pod_fields()
        if self.image_pull_secrets:
            fields["imagePullSecrets"] = [{"name": name} for name in self.image_pull_secrets]
        if self.runtime_class_name:
            fields["runtimeClassName"] = self.runtime_class_name
        return fields

    def clashes(self) -> Iterable[str]:
        """Yield each thing that would override one of the operator's own, or another one of the profile."""
        yield from (f"{key} is the operator's own" for key in self.own_keys())
        for role, placement in ("driver", self.driver), ("executor", self.executor):
            yield from (f"{role}.{key} is the operator's own" for key in placement.own_keys())
        variables, volumes = [one.name for one in self.env], [one.name for one in self.volumes]
        yield from (f"env: {name} is the operator's own" for name in variables if re.search(OWN_VARIABLES, name))
        yield from (f"volumes: {name} is the operator's own" for name in volumes if name in OWN_VOLUMES)
        paths = [one.mount_path for one in self.volume_mounts]
        for field, names in ("env", variables), ("volumes", volumes), ("volumeMounts", paths):
            yield from (f"{field}: two have {name}" for name in dict.fromkeys(names) if names.count(name) > 1)
        for mount in self.volume_mounts:
            if mount.name not in volumes:
                yield f"volumeMounts: {mount.name} is none of the profile's volumes"
        yield from self.path_clashes(dict.fromkeys(OWN_PATHS, "the operator's image or Spark"))

    def path_clashes(self, taken: Mapping[str, str]) -> Iterable[str]:
        """Yield each mount that would hide, or lie in, one of these paths; the values say what is there."""
        for mount in self.volume_mounts:
            for path, what in taken.items():
                if overlap(mount.mount_path, path):
                    yield f"volumeMounts: mountPath {mount.mount_path} and {path} of {what} lie in each other"


def overlap(one: str, other: str) -> bool:
    """Whether one of two absolute paths is the other one, or lies in it."""
    paths = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return paths[0].startswith(paths[1]) or paths[1].startswith(paths[0])
