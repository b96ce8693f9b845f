"""Claims in the files of ``simulate``: those that are there stay bound, and new ones get the default class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.test_cli_from_page import ADMIN, OURS, in_namespace, kubeconfig, objects, page
from tests.kube import storage_objects as storage
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

Object = dict[str, Any]
EVERYTHING = frozenset(KINDS.values())
ZONE = "topology.kubernetes.io/zone"
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def kind(name: str, obj: Object) -> Object:
    return {"kind": name, **obj}


def default_class(name: str, created: str, *, wait: bool) -> Object:
    found = kind("StorageClass", storage.storage_class(name, wait=wait))
    found["metadata"] |= {"annotations": {IS_DEFAULT: "true"}, "creationTimestamp": created}
    return found


THERE = kind("PersistentVolumeClaim", storage.claim("data", "blue", storage_class="now", volume="disk", phase="Bound"))
LATER = kind(
    "PersistentVolumeClaim", storage.claim("later", "blue", storage_class="newest", volume="d2", phase="Bound")
)
MORE: list[Object] = [
    node("west", labels={ZONE: "west"}),
    kind("StorageClass", storage.storage_class("now", wait=False)),
    default_class("z-older", "2026-01-01T00:00:00Z", wait=False),
    default_class("newest", "2026-02-01T00:00:00Z", wait=True),
    default_class("nyet", "2026-02-01T00:00:00Z", wait=False),
    THERE,
    kind("PersistentVolume", storage.volume("disk", storage_class="now", bound_to=THERE, nodes={ZONE: ["west"]})),
    LATER,
    kind("PersistentVolume", storage.volume("d2", storage_class="newest", bound_to=LATER, nodes={ZONE: ["gone"]})),
    *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("blue", "green")),
]


@pytest.fixture
def cluster(tmp_path: Path) -> list[str]:
    """The options of the cluster's files."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*objects(), *MORE]))
    return ["--cluster", str(file)]


@pytest.fixture
def given(tmp_path: Path) -> Iterator[list[str]]:
    """The options of the page, as a tenant."""
    config = kubeconfig(tmp_path, {"token": "token-of-tenant"})
    with page(tmp_path, MORE) as found:
        yield [word for pair in found.items() for word in pair] + ["--kubeconfig", config]


def written(folder: Path, claim: str, storage_class: str | None) -> str:
    """Write a claim, and a pod that mounts it, as a user does; return the path."""
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    asked = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}, "spec": spec}
    volumes = [storage.claim_volume(claim)]
    mounts = {**pod("new", {GPU: 1, MEMORY: 1000}, schedulerName=OURS, volumes=volumes), "apiVersion": "v1"}
    file = folder / "asked.yaml"
    file.write_text(yaml.safe_dump_all([in_namespace(asked, "blue"), in_namespace(mounts, "blue")]))
    return str(file)


CASES = {
    ("data", "now"): "west",
    ("data", None): "west",
    ("later", None): "didn't match PersistentVolume's node affinity",
    ("later", "newest"): "didn't match PersistentVolume's node affinity",
    ("made", None): "blue/new  placed",
    ("made", "z-older"): "pod has unbound immediate PersistentVolumeClaims",
    ("made", ""): "pod has unbound immediate PersistentVolumeClaims",
}


def test_claims_are_as_they_are_once_they_are_applied(given: list[str], cluster: list[str], tmp_path: Path) -> None:
    for (claim, storage_class), says in CASES.items():
        file = written(tmp_path, claim, storage_class)
        outputs = [run("simulate", "-f", file, *cluster).output]
        for who in ("tenant", ADMIN):
            kubeconfig(tmp_path, {"token": f"token-of-{who}"})
            outputs.append(run("simulate", "-f", file, *given).output)
        assert all(says in output for output in outputs), (claim, storage_class, outputs)


@pytest.mark.parametrize(
    ("claim", "storage_class", "unread", "says"),
    [
        ("data", "now", (), ""),
        ("data", None, ("StorageClass",), ""),
        ("made", None, (), ""),
        ("made", None, ("StorageClass",), "ask whether there is a default class, which you may not read"),
        ("made", "", ("StorageClass",), "it must be bound to a volume by hand"),
        ("made", "", (), "it must be bound to a volume by hand"),
    ],
)
def test_a_tenant_is_told_of_claims_as_they_are_once_they_are_applied(
    claim: str, storage_class: str | None, unread: tuple[str, ...], says: str, api: Api, tmp_path: Path
) -> None:
    api.objects = [*objects(), *MORE]
    api.refused = EVERYTHING - {"StorageClass"} | set(unread)
    told = run("simulate", "-f", written(tmp_path, claim, storage_class), "-n", "blue").stdout
    assert (says in told) if says else ("PersistentVolumeClaim" not in told), told


def test_what_cannot_be_changed_of_a_claim_is_told(cluster: list[str], tmp_path: Path) -> None:
    told = run("simulate", "-f", written(tmp_path, "data", "z-older"), *cluster)
    assert "PersistentVolumeClaim data: spec.storageClassName is not that of the one that is there" in told.stderr
    assert "west" in told.stdout


def test_a_class_that_the_file_makes_the_default_no_more_is_none(cluster: list[str], tmp_path: Path) -> None:
    file = Path(written(tmp_path, "made", None))
    classes = [default_class(name, "2026-02-01T00:00:00Z", wait=name == "newest") for name in ("newest", "nyet")]
    for each in classes:
        each["metadata"]["annotations"][IS_DEFAULT] = "false"
    file.write_text(yaml.safe_dump_all([*classes, *yaml.safe_load_all(file.read_text())]))
    told = run("simulate", "-f", str(file), *cluster).stdout
    assert "pod has unbound immediate PersistentVolumeClaims" in told, "the default is the older class"
