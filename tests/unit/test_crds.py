"""The CRDs are written by hand: these tests hold them equal to the models that the code reads and writes."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from sandbox.metastore.admin import name_of

from compaction_operator.acid.names import may_become_obsolete, parse_directory
from compaction_operator.api import cleanup, compaction, policy
from compaction_operator.api.model import DURATION_PATTERN, GROUP, VERSION
from compaction_operator.metastore.partition_specs import parse_spec

CRDS = Path(__file__).parents[2] / "crds"
Schema = dict[str, Any]


class Resource(NamedTuple):
    """One CRD and what it must agree with."""

    kind: str
    plural: str
    short_name: str
    spec: type[BaseModel]
    status: type[BaseModel]
    minimal: dict[str, Any]
    """A spec of required fields only."""


COMPACTION = Resource(
    compaction.KIND,
    compaction.PLURAL,
    "tcomp",
    compaction.TableCompactionSpec,
    compaction.TableCompactionStatus,
    {"warehouse": "main", "table": {"database": "default", "name": "t"}, "type": "Minor"},
)
CLEANUP = Resource(
    cleanup.KIND,
    cleanup.PLURAL,
    "ccl",
    cleanup.CompactionCleanupSpec,
    cleanup.CompactionCleanupStatus,
    {
        "warehouse": "main",
        "table": {"database": "default", "name": "t", "createTime": 1, "location": "/warehouse/t"},
        "compaction": {"name": "a", "uid": "u", "attempt": 1, "job": "a-1", "podUid": "p"},
        "partitions": [
            {
                "partition": "",
                "location": "/warehouse/t",
                "createTime": 1,
                "highestWriteId": 3,
                "obsolete": [{"name": "delta_0000001_0000001_0000", "reason": "covered by base_0000003"}],
            }
        ],
    },
)
POLICY = Resource(
    policy.KIND,
    policy.PLURAL,
    "tcp",
    policy.CompactionPolicySpec,
    policy.CompactionPolicyStatus,
    {"warehouse": "main", "tables": {"include": ["sales.*"]}},
)
each_resource = pytest.mark.parametrize("resource", [COMPACTION, CLEANUP, POLICY], ids=lambda resource: resource.kind)
each_immutable = pytest.mark.parametrize("resource", [COMPACTION, CLEANUP], ids=lambda resource: resource.kind)


def crd(resource: Resource) -> Schema:
    loaded: Schema = yaml.safe_load((CRDS / f"{GROUP}_{resource.plural}.yaml").read_text())
    return loaded


def version(resource: Resource) -> Schema:
    (only,) = crd(resource)["spec"]["versions"]
    found: Schema = only
    return found


def part(resource: Resource, name: str) -> Schema:
    found: Schema = version(resource)["schema"]["openAPIV3Schema"]["properties"][name]
    return found


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every schema below a schema, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")


def resolved(schema: Schema, definitions: Schema) -> Schema:
    """Return a model's JSON schema node without references and without `null`."""
    if "anyOf" in schema:
        (schema,) = [option for option in schema["anyOf"] if option != {"type": "null"}]
    if "$ref" in schema:
        found: Schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
        return found
    return schema


def differences(model: Schema, written: Schema, definitions: Schema, path: str) -> Iterator[str]:
    """Yield where a CRD's schema says something else than a model's JSON schema: fields, types, enums, patterns."""
    model = resolved(model, definitions)
    for key in ("type", "enum"):
        if model.get(key) != written.get(key):
            yield f"{path}: {key} {model.get(key)} in the model, {written.get(key)} in the CRD"
    if (model.get("pattern") == DURATION_PATTERN) != (written.get("pattern") == DURATION_PATTERN):
        yield f"{path}: a duration in one only"
    if model.get("pattern") not in {None, written.get("pattern")}:
        yield f"{path}: another pattern"
    if set(model.get("required", [])) != set(written.get("required", [])):
        yield f"{path}: required {model.get('required')} in the model, {written.get('required')} in the CRD"
    fields, properties = model.get("properties", {}), written.get("properties", {})
    for name in sorted(set(fields) ^ set(properties)):
        yield f"{path}.{name}: in {'the model' if name in fields else 'the CRD'} only"
    for name in sorted(set(fields) & set(properties)):
        yield from differences(fields[name], properties[name], definitions, f"{path}.{name}")
    if "items" in model:
        yield from differences(model["items"], written["items"], definitions, f"{path}[]")


def defaulted(value: Any, schema: Schema) -> Any:
    """Return a value with the schema's defaults, as the API server fills them in."""
    if isinstance(value, list):
        return [defaulted(item, schema["items"]) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    given = {name: child["default"] for name, child in properties.items() if "default" in child} | value
    return {name: defaulted(child, properties[name]) for name, child in given.items()}


@each_resource
@pytest.mark.parametrize("name", ["spec", "status"])
def test_fields_types_enums_and_required_are_the_models(resource: Resource, name: str) -> None:
    """Names, types, enums, required fields and durations agree at every depth."""
    model = (resource.spec if name == "spec" else resource.status).model_json_schema()
    assert list(differences(model, part(resource, name), model.get("$defs", {}), name)) == []


def test_a_difference_is_found() -> None:
    """The comparison itself sees a missing field, another enum, another type and another duration."""
    model = compaction.TableCompactionSpec.model_json_schema()
    changed = part(COMPACTION, "spec")
    del changed["properties"]["suspend"]
    changed["properties"]["type"]["enum"] = ["Minor"]
    changed["properties"]["spark"]["properties"]["driver"]["properties"]["cores"]["type"] = "string"
    changed["properties"]["cleanup"]["properties"]["gracePeriod"]["pattern"] = ".*"
    found = "\n".join(differences(model, changed, model["$defs"], "spec"))
    for path in ("spec.suspend: in the model only", "spec.type: enum", "driver.cores: type", "gracePeriod: a duration"):
        assert path in found


@each_resource
def test_defaults_are_the_models(resource: Resource) -> None:
    """A spec of required fields only means the same to the API server and to the code."""
    filled = defaulted(resource.minimal, part(resource, "spec"))
    assert filled == resource.spec.model_validate(resource.minimal).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )


def test_defaults_for_a_hudi_table_are_the_models() -> None:
    """Those of the options that only a Hudi table has, which are there as soon as one of them is given."""
    table = {"location": "/warehouse/t"}
    given = {"warehouse": "main", "table": table, "type": "LogCompaction", "hudi": {"clean": True}}
    filled = defaulted(given, part(COMPACTION, "spec"))
    model = compaction.TableCompactionSpec.model_validate(given).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    names = {"database": "", "name": ""}
    assert filled | {"table": names | table} == model


@each_resource
def test_a_status_has_no_defaults(resource: Resource) -> None:
    """A field that was never written is absent. A default would look like a written value."""
    assert [path for path, schema in walk(part(resource, "status")) if "default" in schema] == []


@each_resource
def test_names(resource: Resource) -> None:
    """Group, version, names, short name and category are those of the design, and there is a status subresource."""
    written = crd(resource)
    assert written["metadata"]["name"] == f"{resource.plural}.{GROUP}"
    assert (written["spec"]["group"], version(resource)["name"]) == (GROUP, VERSION)
    names = written["spec"]["names"]
    assert (names["kind"], names["plural"]) == (resource.kind, resource.plural)
    assert (names["shortNames"], names["categories"]) == ([resource.short_name], ["compaction"])
    assert version(resource)["subresources"] == {"status": {}}


@each_resource
def test_every_field_is_described(resource: Resource) -> None:
    """`kubectl explain` has a sentence for every field."""
    schema = version(resource)["schema"]["openAPIV3Schema"]
    undescribed = [path for path, field in walk(schema) if not field.get("description", "").endswith((".", "'"))]
    assert [path for path in undescribed if path != ".metadata" and not path.endswith("[]")] == []


@each_immutable
def test_only_the_switches_may_be_changed(resource: Resource) -> None:
    """Every field but the switches has the rule, and those that can be absent cannot come or go either."""
    spec = part(resource, "spec")
    switches = {"suspend", "approved"}
    for name, field in spec["properties"].items():
        if name in switches:
            assert "x-kubernetes-validations" not in field
            continue
        assert "self == oldSelf" in rules(field), name
        always_there = name in spec["required"] or "default" in field
        assert always_there or f"has(self.{name}) == has(oldSelf.{name})" in rules(spec), name


def rules(schema: Schema) -> list[str]:
    return [validation["rule"] for validation in schema.get("x-kubernetes-validations", [])]


def test_a_quarantine_is_refused_where_nothing_is_moved() -> None:
    """The API server says so at once: otherwise a user who wants an undo finds out when it is too late."""
    template = part(POLICY, "spec")["properties"]["template"]
    for spec in (part(COMPACTION, "spec"), template):
        assert "self.mode != 'Never' || !has(self.quarantine)" in rules(spec["properties"]["cleanup"])


def test_limits_are_the_models() -> None:
    """The API server refuses more partitions or blockers than the code ever writes."""
    assert part(CLEANUP, "spec")["properties"]["partitions"]["maxItems"] == cleanup.MAX_PARTITIONS
    assert part(CLEANUP, "status")["properties"]["blockers"]["maxItems"] == cleanup.MAX_BLOCKERS


class NameField(NamedTuple):
    """A field of a journal that holds names of the table's directory, and the grammar that such a name is of."""

    schema: Schema
    understood: Callable[[str], object]

    def accepts(self, name: str) -> bool:
        """Whether the API server does: it looks for RE2's pattern, in which `$` is the end of the text alone."""
        pattern: str = self.schema["pattern"]
        return len(name) <= self.schema["maxLength"] and bool(re.search(pattern.removesuffix("$") + r"\Z", name))


ENTRY_FIELDS = part(CLEANUP, "spec")["properties"]["partitions"]["items"]["properties"]
NAME_FIELDS = {
    "outputs": NameField(ENTRY_FIELDS["outputs"]["items"], parse_directory),
    "obsolete": NameField(ENTRY_FIELDS["obsolete"]["items"]["properties"]["name"], may_become_obsolete),
}
NUMBERS = ["0", "1", "7", "0000004", "10000001", str(2**31), str(2**63 - 1), str(2**63), "-1", str(-(2**63)), "", "٣"]
KINDS = [
    *("base_#", "base_#_v#", "delta_#_#", "delta_#_#_#", "delta_#_#_v#", "delta_#_#_#_v#", "delta_#", "_v#"),
    *("delete_delta_#_#", "delete_delta_#_#_#", "delete_delta_#_#_v#", "delete_delta_#_#_#_v#", "_tmp_delta_#_#"),
    *("00000#_#", "00000#_#_copy_#", "HIVE_UNION_SUBDIR_#", "HIVE_UNION_SUBDIR_#/00000#_0", "bucket_0000#", "prt=#"),
]


@st.composite
def made_up_names(draw: st.DrawFn) -> str:
    """Return a name of any kind, with numbers of any size, and perhaps with a character that has no place there."""
    numbers = st.sampled_from(NUMBERS) | st.integers(0, 20).map(str) | st.integers(0).map(str)
    name = "".join(draw(numbers) if part == "#" else part for part in re.split("(#)", draw(st.sampled_from(KINDS))))
    place = draw(st.integers(0, len(name)))
    return name[:place] + draw(st.sampled_from(["", "", "", "_", "/", "\n", ".", " ", "0", "x", "é"])) + name[place:]


each_field = pytest.mark.parametrize("field", NAME_FIELDS.values(), ids=NAME_FIELDS)


def test_a_policys_template_is_what_a_compaction_takes() -> None:
    """The same fields with the same limits, apart from the rule that they cannot be changed."""
    template, spec = part(POLICY, "spec")["properties"]["template"]["properties"], part(COMPACTION, "spec")
    for name, written in template.items():
        if name == "hudi":  # a part of the fields, described for a policy
            continue
        kept = [rule for rule in written.get("x-kubernetes-validations", []) if rule["rule"] != "self == oldSelf"]
        expected = dict(spec["properties"][name])
        limits = [rule for rule in expected.pop("x-kubernetes-validations", []) if rule["rule"] != "self == oldSelf"]
        assert ({key: value for key, value in written.items() if key != "x-kubernetes-validations"}, kept) == (
            expected,
            limits,
        )


def test_a_policys_options_of_hudi_are_some_of_those_of_a_compaction() -> None:
    """With the same types and limits. There is room for the options that the policy adds."""
    template = part(POLICY, "spec")["properties"]["template"]["properties"]["hudi"]["properties"]
    hudi = part(COMPACTION, "spec")["properties"]["hudi"]["properties"]
    assert hudi.keys() - template.keys() == {"mode", "metadataTable", "allInstants"}
    for name, written in template.items():
        for limit in ("type", "default", "pattern", "maxLength"):
            assert written.get(limit) == hudi[name].get(limit)
    assert template["options"]["maxProperties"] + 3 < hudi["options"]["maxProperties"]


def test_a_status_of_a_policy_has_no_longer_lists_than_the_api_server_takes() -> None:
    lists = part(POLICY, "status")["properties"]
    assert (lists["next"]["maxItems"], lists["keptBack"]["maxItems"]) == (policy.MAX_NEXT, policy.MAX_KEPT_BACK)


@each_field
@given(name=made_up_names())
def test_the_api_server_accepts_every_name_of_the_grammar(field: NameField, name: str) -> None:
    """A journal with a name that it refuses is never written, and its partition never compacted."""
    # NB: file systems take no longer names.
    if field.understood(name) and len(name) <= field.schema["maxLength"]:
        assert field.accepts(name)


@each_field
@given(data=st.data())
def test_the_api_server_accepts_no_other_names(field: NameField, data: st.DataObject) -> None:
    """A pattern cannot tell whether the numbers make sense (`delta_3_1`): the name is of the grammar when all are 1."""
    pattern: str = field.schema["pattern"]
    name = data.draw(made_up_names() | st.from_regex(pattern))
    if field.accepts(name):
        assert field.understood(re.sub("[0-9]+", "1", name))


PARTITIONS = part(COMPACTION, "spec")["properties"]["partitions"]["items"]
(HAS_VALUE,) = re.findall(r"partition\.matches\('(.*)'\)", "\n".join(rules(part(COMPACTION, "spec"))))


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2))
def test_a_partitions_name_that_is_a_spec_can_be_asked_for(values: list[str]) -> None:
    """Whatever is in its values, as Hive escapes them."""
    name = name_of(["p", "q"], values)
    try:
        parse_spec(name, ["p", "q"])
    except ValueError:
        return
    assert re.search(PARTITIONS["pattern"], name)
    assert re.search(HAS_VALUE, name)


def test_a_journal_takes_partitions_and_places_of_any_spelling() -> None:
    """Up to the length that the metastore itself has room for (PART_NAME, SDS.LOCATION)."""
    assert ENTRY_FIELDS["partition"] | {"description": ""} == {"description": "", "type": "string", "maxLength": 767}
    location = {"description": "", "type": "string", "minLength": 1, "maxLength": 4000}
    table = part(CLEANUP, "spec")["properties"]["table"]["properties"]
    assert ENTRY_FIELDS["location"] | {"description": ""} == table["location"] | {"description": ""} == location
    assert PARTITIONS["maxLength"] == 767


@each_resource
def test_printer_columns_read_fields_that_exist(resource: Resource) -> None:
    """No column stays empty because of a misspelt path."""
    paths = {path for path, _ in walk(version(resource)["schema"]["openAPIV3Schema"])}
    for column in version(resource)["additionalPrinterColumns"]:
        path, _, rest = column["jsonPath"].partition("[")
        read = [f"{path}.{name}" for name in re.findall(r"'(\w+)'", rest)] or [path]
        assert set(read) <= paths | {".metadata.creationTimestamp"}, column["name"]


@each_resource
def test_a_crd_fits_into_an_annotation(resource: Resource) -> None:
    """`kubectl apply` keeps what it applied in an annotation of at most 256 KiB."""
    assert (CRDS / f"{GROUP}_{resource.plural}.yaml").stat().st_size < 64 * 1024
