"""The chart installs what the manifests install, with each of their components, and takes values by its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.render import CHART, LEFT_OUT, MANIFESTS, OPTIONS, documents, named_by_values
from charts.templating import Block, Choice, Each, Only, Text, document, merged, put, replaced
from charts.values import HAMI
from tests.charts.rendering import (
    BESIDE,
    COMPONENTS,
    NEEDS,
    NEWEST,
    OLDER,
    assert_equal,
    by_name,
    chart,
    kustomized,
    rendered,
    run,
    settings,
    without_given,
    without_helm,
)

from vgpu_scheduler.settings import load, read

pytestmark = [pytest.mark.apiserver, pytest.mark.helm]  # kubectl is built with the API server


# ------------------------------------------------------------------------------------------------ as the manifests


def test_the_chart_is_the_manifests() -> None:
    theirs = kustomized()
    assert theirs.pop(("Namespace", "vgpu-system"))
    assert {"namespace.yaml"} == LEFT_OUT
    assert_equal(without_helm(chart()), theirs)


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_chart_is_the_manifests_with_a_component(component: str) -> None:
    version, values = COMPONENTS[component]
    parents = [str(parent) for parent in Path(component).parents if str(parent) in COMPONENTS]
    parents += NEEDS.get(component, [])
    theirs = kustomized(*parents, component)
    theirs.pop(("Namespace", "vgpu-system"))
    assert theirs != kustomized(*parents)
    assert_equal(without_helm(without_given(chart(values, version), values)), theirs)


@pytest.mark.parametrize("folder", BESIDE)
def test_the_chart_brings_what_is_installed_beside_the_base(folder: str) -> None:
    more = chart(BESIDE[folder])
    base = chart()
    added = {key: obj for key, obj in more.items() if key not in base}
    assert_equal(without_helm(added), kustomized(resources=folder))


def test_all_components_together_are_the_manifests_with_all() -> None:
    values: dict[str, Any] = {}
    names = [name for name, (version, _) in COMPONENTS.items() if version == NEWEST]
    for name in names:
        values |= COMPONENTS[name][1]
    values["settings"] = {"dialects": ["hami", "volcano", "koordinator"], "scoring": {"system_spread": True}}
    theirs = kustomized(*names)
    theirs.pop(("Namespace", "vgpu-system"))
    assert_equal(without_helm(without_given(chart(values), values)), theirs)


def test_every_folder_of_the_manifests_has_its_place_in_the_chart() -> None:
    folders = {str(path.parent.relative_to(MANIFESTS)) for path in MANIFESTS.glob("*/**/kustomization.yaml")}
    assert folders == OPTIONS.keys(), "a new one gets a line in OPTIONS of charts/render.py"
    assert OPTIONS.keys() == COMPONENTS.keys() | BESIDE.keys()


def test_helm_finds_nothing_to_complain_of() -> None:
    done = run("helm", "lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_namespace_is_named_everywhere() -> None:
    everything = {
        "admissionWebhook": {"enabled": True, "certManager": True},
        "admissionPolicy": {"enabled": True},
        "preemption": {"enabled": True, "beyondBudgets": True},
        "settings": {"dialects": ["hami", "koordinator"], "scoring": {"system_spread": True}},
    }
    done = rendered(everything, namespace="gpus")
    assert "vgpu-system" not in done.stdout
    objects = by_name(done.stdout)
    assert {obj["metadata"]["namespace"] for obj in objects.values() if "namespace" in obj["metadata"]} == {"gpus"}
    assert settings({}, namespace="gpus")["lease"] == {"namespace": "gpus"}


def test_the_mutating_policy_is_of_a_version_that_is_served() -> None:
    for version, served in ((NEWEST, "v1"), (OLDER, "v1beta1")):
        objects = chart({"admissionPolicy": {"enabled": True}}, version)
        found = {obj["apiVersion"] for (kind, _), obj in objects.items() if kind.startswith("MutatingAdmission")}
        assert found == {f"admissionregistration.k8s.io/{served}"}


# ---------------------------------------------------------------------------------------------------------- values


def test_pods_are_deleted_beyond_budgets_only_where_they_may_be_evicted_at_all() -> None:
    assert chart({"preemption": {"beyondBudgets": True}}) == chart()


def test_preemption_is_set_with_its_rights_and_not_otherwise() -> None:
    done = rendered({"settings": {"preemption": True}})
    assert done.returncode != 0
    assert "preemption" in done.stderr


def test_one_replica_has_no_disruption_budget() -> None:
    assert ("PodDisruptionBudget", "vgpu-scheduler") in chart()
    assert ("PodDisruptionBudget", "vgpu-scheduler") not in chart({"replicas": 1})


def test_what_can_be_left_out_is_left_out() -> None:
    without = chart({"crds": {"enabled": False}, "volumeBinding": {"enabled": False}})
    assert chart().keys() - without.keys() == {
        ("CustomResourceDefinition", "vgpupolicies.vgpu-scheduler.io"),
        ("CustomResourceDefinition", "clustervgpupolicies.vgpu-scheduler.io"),
        ("ClusterRole", "vgpu-scheduler-volume-binding"),
        ("ClusterRoleBinding", "vgpu-scheduler-volume-binding"),
    }


def test_the_pods_are_what_values_say() -> None:
    values = {
        "image": {"repository": "registry/vgpu", "tag": "edge", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "replicas": 3,
        "resources": {"limits": {"memory": "2Gi"}},
        "nodeSelector": {"role": "system"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"team": "gpu"},
        "podLabels": {"tier": "system"},
    }
    spec = chart(values)["Deployment", "vgpu-scheduler"]["spec"]
    pod, metadata = spec["template"]["spec"], spec["template"]["metadata"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 3
    assert container["image"] == "registry/vgpu:edge"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"] == {"limits": {"memory": "2Gi"}} | {"requests": container["resources"]["requests"]}
    assert {name: pod[name] for name in values.keys() & pod.keys()} == {
        name: values[name] for name in values.keys() & pod
    }
    assert {"imagePullSecrets", "nodeSelector", "tolerations", "affinity"} <= pod.keys()
    assert metadata["annotations"]["team"] == "gpu"
    assert metadata["labels"] == {"app.kubernetes.io/name": "vgpu-scheduler", "tier": "system"}
    digest = "sha256:" + "0" * 64
    found = chart({"image": {"digest": digest}})["Deployment", "vgpu-scheduler"]
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == f"vgpu-scheduler@{digest}"


def test_the_page_is_what_values_say() -> None:
    ui = {
        "enabled": True,
        "hosts": ["gpus.example"],
        "certificate": "wildcard",
        "prometheus": "http://p:9090",
        "prometheusLabels": ["cluster=west"],
        "resources": {"limits": {"memory": "3Gi"}},
    }
    found = chart({"ui": ui, "nodeSelector": {"role": "system"}, "image": {"tag": "edge"}}, namespace="gpus")
    spec = found["Deployment", "vgpu-scheduler-ui"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"][-2:] == ["--prometheus=http://p:9090", "--prometheus-label=cluster=west"]
    hosts = [argument for argument in container["args"] if argument.startswith("--host")]
    assert hosts == ["--host=vgpu-scheduler-ui.gpus.svc", "--host=gpus.example"]
    assert "--scheduler-namespace=gpus" in container["args"]
    assert container["image"] == "vgpu-scheduler:edge"
    assert container["resources"]["limits"] == {"memory": "3Gi"}
    assert spec["volumes"][0]["secret"] == {"secretName": "wildcard"}
    assert spec["nodeSelector"] == {"role": "system"}
    assert found["ClusterRoleBinding", "vgpu-scheduler-ui"]["subjects"][0]["namespace"] == "gpus"


def test_whom_the_shadow_watches_is_what_values_say() -> None:
    values = {"shadow": {"enabled": True, "beside": "volcano", "storageClass": "fast"}}
    found = chart(values, namespace="gpus")
    (container,) = found["Deployment", "vgpu-scheduler-shadow"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["shadow", "--beside=volcano"]
    assert "--scheduler-namespace=gpus" in container["args"]
    assert found["PersistentVolumeClaim", "vgpu-scheduler-shadow"]["spec"]["storageClassName"] == "fast"


def test_accounts_of_device_plugins_are_let_in() -> None:
    binding = chart({"allocationWriters": [{"name": "dcu", "namespace": "gpu"}]})[
        "ClusterRoleBinding", "vgpu-scheduler-allocation-writers"
    ]
    assert [(one["kind"], one["namespace"], one["name"]) for one in binding["subjects"]] == [
        ("ServiceAccount", "vgpu-system", "vgpu-scheduler"),
        ("ServiceAccount", "gpu", "dcu"),
    ]


def test_replicas_restart_when_settings_change() -> None:
    def checksum(values: dict[str, Any]) -> str:
        template = chart(values)["Deployment", "vgpu-scheduler"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/settings"])

    assert checksum({}) == checksum({"replicas": 3})
    assert checksum({}) != checksum({"settings": {"profile": "HAMi210"}})


def test_settings_are_those_of_the_manifests_and_of_the_values() -> None:
    written = settings(
        {"settings": {"node_policy": "spread", "lease": {"duration": 20}, "bind": {"max_unlocked_binds": 8}}}
    )
    assert written == {
        "scheduler_names": ["vgpu-scheduler"],
        "profile": "Documented",
        "node_policy": "spread",
        "device_policy": "spread",
        "lease": {"duration": 20},
        "bind": {"max_unlocked_binds": 8},
    }
    assert read(written, {}).lease.duration == 20


HAMI_VALUES: dict[str, Any] = {
    "schedulerName": "hami-scheduler",
    "resourceName": "example.com/gpu",
    "resourceMem": "example.com/gpumem",
    "resourceMemPercentage": "example.com/gpumem-percentage",
    "resourceCores": "example.com/gpucores",
    "resourcePriority": "example.com/priority",
    "scheduler": {
        "defaultSchedulerPolicy": {"nodeSchedulerPolicy": "spread", "gpuSchedulerPolicy": "binpack"},
        "nodeLabelSelector": {"gpu": "on", "pool": "shared"},
        "overwriteEnv": "true",
        "forceOverwriteDefaultScheduler": False,
    },
}


def test_values_of_hamis_chart_mean_settings() -> None:
    found = read(settings(HAMI_VALUES), {})
    assert found.scheduler_names == ("vgpu-scheduler", "hami-scheduler")
    assert (found.node_policy, found.device_policy) == ("spread", "binpack")
    assert found.managed_nodes == "gpu=on,pool=shared"
    assert found.nvidia.resource_count_name == "example.com/gpu"
    assert found.nvidia.resource_memory_name == "example.com/gpumem"
    assert found.nvidia.resource_memory_percentage_name == "example.com/gpumem-percentage"
    assert found.nvidia.resource_core_name == "example.com/gpucores"
    assert found.nvidia.resource_priority_name == "example.com/priority"
    assert found.nvidia.overwrite_env
    assert not found.admission.overwrite_default_scheduler
    assert set(HAMI.values()) <= {f"nvidia.{name}" for name in type(found.nvidia).model_fields} | set(
        type(found).model_fields
    )


def test_settings_rank_above_values_of_hamis_chart() -> None:
    ours = {
        "node_policy": "binpack",
        "nvidia": {"overwrite_env": False},
        "admission": {"overwrite_default_scheduler": True},
        "managed_nodes": "",
    }
    found = read(settings(HAMI_VALUES | {"settings": ours}), {})
    assert found.node_policy == "binpack"
    assert not found.nvidia.overwrite_env
    assert found.admission.overwrite_default_scheduler
    assert found.managed_nodes == ""
    assert found.nvidia.resource_core_name == "example.com/gpucores"


def test_without_values_the_settings_are_the_operators_defaults() -> None:
    assert read(settings({}), {}).model_dump() == load(None, {}).model_dump()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"replica": 3}, "replica"),
        ({"guard": "off"}, "guard"),
        ({"image": {"tags": "x"}}, "tags"),
        ({"settings": {"profil": "HAMi210"}}, "profil"),
        ({"settings": {"node_policy": "fullest"}}, "node_policy"),
        ({"settings": {"lease": {"duration": 0}}}, "duration"),
        ({"settings": {"http_port": 9090}}, "http_port"),
        ({"settings": {"dialects": ["hami", "slurm"]}}, "dialects"),
        ({"scheduler": {"defaultSchedulerPolicy": {"nodeSchedulerPolicy": "fullest"}}}, "nodeSchedulerPolicy"),
        ({"scheduler": {"livenessProbe": True}}, "livenessProbe"),
        ({"allocationWriters": [{"name": "dcu"}]}, "namespace"),
        ({"hamiConfig": {"enabled": True}, "settings": {"profile": "Documented"}}, "settings.profile"),
        ({"admissionWebhook": {"enabled": True}, "settings": {"admission": {"port": 443}}}, "settings.admission.port"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_values_that_make_no_sense_are_refused_by_name(values: dict[str, Any], told: str) -> None:
    done = rendered(values)
    assert done.returncode != 0
    assert told in done.stderr


# -------------------------------------------------------------------------------------------------------- templates


def test_places_are_rendered() -> None:
    obj = {
        "kind": "Thing",
        "number": Text("{{ .n }}"),
        "lines": "one\n\ntwo\n",
        "block": Block("toYaml .b"),
        "list": [
            {"name": "a"},
            Only(".x", {"name": "b"}),
            Only(".x", {"name": "c"}),
            Each(".all", {"name": Text("{{ . }}")}),
        ],
        "choice": Choice(".y", "then", []),
        "": Only(".z", Block("toYaml .z")),
    }
    assert (
        document(obj, ".there")
        == """\
{{- if .there }}
kind: Thing
number: {{ .n }}
lines: |
  one

  two
block:
  {{- toYaml .b | nindent 2 }}
list:
  - name: a
  {{- if .x }}
  - name: b
  - name: c
  {{- end }}
  {{- range .all }}
  - name: {{ . }}
  {{- end }}
{{- if .y }}
choice: then
{{- else }}
choice: []
{{- end }}
{{- if .z }}
{{- toYaml .z | nindent 0 }}
{{- end }}
{{- end }}"""
    )


def test_expressions_of_others_are_not_helms(tmp_path: Path) -> None:
    """Alerts and dashboards have some."""
    (tmp_path / "rule.yaml").write_text("kind: Rule\nsummary: 'on {{ $labels.node }} of vgpu-system'\n")
    (obj,) = documents(tmp_path / "rule.yaml")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "rule.yaml").write_text(named_by_values(document(obj), "Rule"))
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: rules, version: 0.0.1}")
    done = run("helm", "template", "release", str(tmp_path), "--namespace", "gpus")
    assert yaml.safe_load(done.stdout) == {"kind": "Rule", "summary": "on {{ $labels.node }} of gpus"}


def test_patches_are_in_force_under_their_condition() -> None:
    base = {"a": 1, "list": [{"name": "x", "v": 1}], "plain": [1]}
    found = merged(base, {"a": 2, "b": 3, "list": [{"name": "x", "v": 2}, {"name": "y"}], "plain": [2]}, ".c")
    assert found == {
        "a": Choice(".c", 2, 1),
        "b": Only(".c", 3),
        "list": [{"name": "x", "v": Choice(".c", 2, 1)}, Only(".c", {"name": "y"})],
        "plain": Choice(".c", [2], [1]),
    }
    operations = [{"op": "test", "path": "/list/0/v", "value": 1}, {"op": "replace", "path": "/list/0/v", "value": 5}]
    assert replaced(base, operations, ".c")["list"] == [{"name": "x", "v": Choice(".c", 5, 1)}]
    assert base["list"] == [{"name": "x", "v": 1}]
    assert put(base, "/new", 1) == base | {"new": 1}
    with pytest.raises(AssertionError, match="is not 2"):
        replaced(base, [{"op": "test", "path": "/a", "value": 2}], ".c")
    with pytest.raises(ValueError, match="remove"):
        replaced(base, [{"op": "remove", "path": "/a"}], ".c")


ADDRESS = "https://docs.example.com/runbook.html"


@pytest.mark.parametrize(("settings", "page"), [({}, "docs/runbook.md"), ({"runbook_url": ADDRESS}, ADDRESS)])
def test_alerts_link_the_runbook_where_it_is_served(settings: dict[str, str], page: str) -> None:
    found = chart({"monitoring": {"enabled": True}, "settings": settings})
    groups = found["PrometheusRule", "vgpu-scheduler"]["spec"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 15
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"{page}#{rule['alert'].lower()}"
