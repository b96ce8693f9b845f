"""The CRDs that come from the models, the files that are rendered from them, and the roles beside them."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from tests.policy.malformed_policies import MALFORMED
from tests.policy.policy_cases import CLUSTER, GOOD, NAMESPACED, resource_schema, rule_messages, walk

from vgpu_scheduler.policy.models import NAME_RULE, decode_policy
from vgpu_scheduler.policy.schema import Schema, crds, structural

ROOT = Path(__file__).parents[2]
BOTH = pytest.mark.parametrize("crd", crds(), ids=[NAMESPACED, CLUSTER])

# What a structural schema may say (apiextensions.k8s.io/v1), as far as it is used here.
STRUCTURAL = {
    "additionalProperties", "default", "description", "enum", "fieldPath", "format", "items", "maxItems", "maxLength",
    "maxProperties", "maximum", "minItems", "minLength", "minimum", "pattern", "properties", "required", "type",
    "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-validations",
}  # fmt: skip


def unwrap(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def rendered() -> dict[Path, str]:
    """Return what crds/render.py renders."""
    files: dict[Path, str] = runpy.run_path(str(ROOT / "crds" / "render.py"))["files"]()
    return files


# ------------------------------------------------------------------------------------------------------ the schemas


@BOTH
def test_schemas_are_structural(crd: Schema) -> None:
    for path, schema in walk(resource_schema(crd)):
        assert schema.keys() <= STRUCTURAL, path
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path
        assert not ("properties" in schema and "additionalProperties" in schema), path


@BOTH
def test_everything_is_bounded(crd: Schema) -> None:
    """The API server estimates what a rule may cost by these bounds, and refuses the CRD if one is missing."""
    for path, schema in walk(resource_schema(crd)["properties"]["spec"], "spec"):
        match schema.get("type"):
            case "string":
                assert "maxLength" in schema or "enum" in schema, path
            case "array":
                assert "maxItems" in schema, path
            case "object" if "additionalProperties" in schema:
                assert "maxProperties" in schema, path
            case "integer":
                assert {"minimum", "maximum", "format"} <= schema.keys(), path


@BOTH
def test_every_list_says_what_it_is(crd: Schema) -> None:
    kinds = {path: schema["x-kubernetes-list-type"] for path, schema in walk(resource_schema(crd)) if "items" in schema}
    assert kinds.pop("spec.nodes.scorers") == "map"
    assert kinds.pop("spec.nodes.scorers[].scoringStrategy.resources") == "map"
    assert kinds.pop("spec.nodes.scorers[].shape") == "map"
    assert kinds.pop("status.conditions") == "map"
    assert kinds.pop("status.evictions") == "atomic"
    sets = {path for path, kind in kinds.items() if kind == "set"}
    cluster_only = {"spec.enforce"} & set(kinds)
    assert sets == {"spec.devices.types.allow", "spec.devices.types.deny", "spec.devices.modes",
                    "spec.devices.apartFrom.matchLabelKeys", "spec.podOverrides.allow", *cluster_only}  # fmt: skip
    assert all(path.endswith(("matchExpressions", "values")) for path in kinds.keys() - sets)


@BOTH
def test_every_field_is_described_in_a_sentence(crd: Schema) -> None:
    for path, schema in walk(resource_schema(crd)["properties"]["spec"], "spec"):
        if path.endswith(("]", "}")) and "properties" not in schema:
            continue  # what a list or a map is of
        assert len(schema["description"]) > 10, path
        assert schema["description"].endswith((".", ")")), path
        assert "``" not in schema["description"], path
        assert not re.search(r"  |[^\n]\n[^\n]", schema["description"]), path  # paragraphs are not wrapped


@BOTH
def test_defaults(crd: Schema) -> None:
    defaults = {path: schema["default"] for path, schema in walk(resource_schema(crd)) if "default" in schema}
    assert defaults == {
        "spec.priority": 0,
        "spec.nodes.scorers[].scoringStrategy.type": "LeastAllocated",
        "spec.nodes.scorers[].scoringStrategy.resources[].weight": 1,
        "spec.nodes.together.mode": "Preferred",
        "spec.devices.weights.slots": 1,
        "spec.devices.weights.memory": 1,
        "spec.devices.weights.cores": 1,
    }


def test_the_kinds_differ_in_what_clusters_alone_may_say() -> None:
    namespaced, cluster = (dict(walk(resource_schema(crd))) for crd in crds())
    assert {path for path in cluster.keys() - namespaced.keys() if "[" not in path and "{" not in path} == {
        "spec.enforce",
        "spec.namespaceSelector",
        "spec.namespaceSelector.matchLabels",
        "spec.namespaceSelector.matchExpressions",
    }
    assert not namespaced.keys() - cluster.keys()


def test_names() -> None:
    namespaced, cluster = (crd["spec"] for crd in crds())
    assert (namespaced["scope"], cluster["scope"]) == ("Namespaced", "Cluster")
    assert namespaced["names"] == {
        "kind": "VGPUPolicy",
        "listKind": "VGPUPolicyList",
        "plural": "vgpupolicies",
        "singular": "vgpupolicy",
        "shortNames": ["vgp"],
        "categories": ["vgpu"],
    }
    assert (cluster["names"]["plural"], cluster["names"]["shortNames"]) == ("clustervgpupolicies", ["cvgp"])
    assert [crd["metadata"]["name"] for crd in crds()] == [
        "vgpupolicies.vgpu-scheduler.io",
        "clustervgpupolicies.vgpu-scheduler.io",
    ]


@BOTH
def test_columns_show_fields_that_exist(crd: Schema) -> None:
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    names = [column["name"] for column in columns]
    assert names == ["Ready", "Priority", "Nodes", "Devices", "Pods", "Age", "Preemption", "Reason"]
    assert [column["name"] for column in columns if column.get("priority")] == ["Preemption", "Reason"]
    known = dict(walk(resource_schema(crd)))
    for column in columns:
        path = re.sub(r"\[\?[^]]*\]", "[]", column["jsonPath"]).lstrip(".")
        assert path in known or path.startswith("metadata."), path


def test_what_a_structural_schema_cannot_say_is_an_error() -> None:
    class Model(BaseModel):
        either: int | str = 0

    with pytest.raises(ValueError, match="union"):
        structural(Model)


# -------------------------------------------------------------------------------------------- the cases cover it all


def test_every_rule_is_broken_by_a_malformed_case() -> None:
    errors = [decode_policy(case.policy()).error for case in MALFORMED.values()]
    unbroken = {message for message in rule_messages() if not any(message in error for error in errors)}
    assert not unbroken
    assert NAME_RULE.message in rule_messages()


def test_every_field_is_set_by_a_good_case() -> None:
    def paths(value: Any, path: str) -> Iterator[str]:
        yield path
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from paths(inner, f"{path}.{name}")
        if isinstance(value, list):
            for inner in value:
                yield from paths(inner, f"{path}[]")

    used = {path for case in GOOD.values() for path in paths(case.policy()["spec"], "spec")}
    known = {path for path, _ in walk(resource_schema(crds()[1])["properties"]["spec"], "spec") if "{}" not in path}
    selectors = re.compile(r"^spec\.(selector|namespaceSelector)\.match")  # the same as nodeSelector's
    assert {path for path in known - used if not selectors.match(path)} == set()


# ------------------------------------------------------------------------------------------------------------- files


def test_rendered_files_are_current() -> None:
    for path, text in rendered().items():
        assert path.read_text() == text, f"{path.name} is not current: run `make manifests`"


def test_rendered_crds_say_what_the_schemas_say() -> None:
    for crd in crds():
        text = (ROOT / "crds" / f"{crd['spec']['names']['plural']}.yaml").read_text()
        assert yaml.safe_load(text) == crd
        assert "&id" not in text


def test_the_reference_names_every_field_and_every_message() -> None:
    text = (ROOT / "docs" / "policy-reference.md").read_text()
    for path, schema in walk(resource_schema(crds()[1])["properties"]["spec"]):
        if path and not path.endswith(("]", "}")):
            selects = re.sub(r"^(selector|namespaceSelector|nodeSelector)\.", "", path)
            inside = selects if selects != path else path.partition(".")[2] or path
            heading, row = f"## spec.{path}\n", f"| `{inside}` | "
            assert heading in text or row in text, path
            assert schema["description"].partition("<")[0] in unwrap(text), path
    for message in rule_messages():
        assert message in unwrap(text)


def test_install_brings_the_crds_first() -> None:
    base = yaml.safe_load((ROOT / "manifests" / "kustomization.yaml").read_text())
    assert base["resources"][0] == "../crds"
    documents = list(yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text()))
    assert documents[:2] == list(crds())
    assert all(document["kind"] != "CustomResourceDefinition" for document in documents[2:])


# ------------------------------------------------------------------------------------------------------------- roles


def roles(name: str) -> dict[str, Schema]:
    """Return the ClusterRoles of a manifest by their names."""
    documents = yaml.safe_load_all((ROOT / "manifests" / name).read_text())
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == "ClusterRole"}


def granted(role: Schema) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of everything that a role grants."""
    return {
        (group, kind, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }


def verbs(role: Schema, kind: str) -> set[str]:
    return {verb for group, resource, verb in granted(role) if (group, resource) == ("vgpu-scheduler.io", kind)}


READ, WRITE = {"get", "list", "watch"}, {"create", "update", "patch", "delete", "deletecollection"}


def test_who_views_reads_both_kinds() -> None:
    viewer = roles("policy-roles.yaml")["vgpu-scheduler-policy-viewer"]
    assert viewer["metadata"]["labels"] == {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    assert verbs(viewer, "vgpupolicies") == verbs(viewer, "clustervgpupolicies") == READ
    assert len(granted(viewer)) == 6


def test_who_edits_writes_the_namespaced_kind_only() -> None:
    editor = roles("policy-roles.yaml")["vgpu-scheduler-policy-editor"]
    assert editor["metadata"]["labels"] == {
        "rbac.authorization.k8s.io/aggregate-to-edit": "true",
        "rbac.authorization.k8s.io/aggregate-to-admin": "true",
    }
    assert granted(editor) == {("vgpu-scheduler.io", "vgpupolicies", verb) for verb in WRITE}


def test_an_installation_may_leave_the_policies_of_namespaces_to_its_administrators() -> None:
    patch = roles("policies-by-admins/editor.yaml")["vgpu-scheduler-policy-editor"]["metadata"]["labels"]
    role = roles("policy-roles.yaml")["vgpu-scheduler-policy-editor"]["metadata"]["labels"]
    added_to = {label for label, value in role.items() if "aggregate-to" in label and value == "true"}
    assert added_to
    assert patch == dict.fromkeys(added_to, "false")


def test_cluster_policies_can_be_read_without_those_of_any_namespace() -> None:
    reader = roles("cluster-policy-readers/readers.yaml")["vgpu-scheduler-cluster-policy-reader"]
    assert "labels" not in reader["metadata"]
    assert granted(reader) == {("vgpu-scheduler.io", "clustervgpupolicies", verb) for verb in READ}


def test_cluster_policies_are_written_by_a_role_that_nobody_has_by_default() -> None:
    editor = roles("policy-roles.yaml")["vgpu-scheduler-cluster-policy-editor"]
    assert "labels" not in editor["metadata"]
    assert granted(editor) == {("vgpu-scheduler.io", "clustervgpupolicies", verb) for verb in READ | WRITE}


def test_the_operator_reads_policies_and_writes_their_status_only() -> None:
    operator = roles("rbac.yaml")["vgpu-scheduler"]
    for kind in ("vgpupolicies", "clustervgpupolicies"):
        assert verbs(operator, kind) == READ
        assert verbs(operator, f"{kind}/status") == {"patch"}
    assert {
        (kind, verb) for _, kind, verb in granted(operator) if kind in ("namespaces", "customresourcedefinitions")
    } == {
        ("namespaces", "list"),
        ("namespaces", "watch"),
        ("customresourcedefinitions", "list"),
        ("customresourcedefinitions", "watch"),
    }
