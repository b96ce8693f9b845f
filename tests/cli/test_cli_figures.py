"""What an answer is about is named in it: cards and amounts, figures of quotas, and what a status says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.live_cluster import Api, run
from tests.cli.test_cli_tenant_quotas import EVERYTHING, held, quota
from tests.cli.test_cli_tenants import asking, explained, waiting
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running


@pytest.mark.parametrize("seed", range(10))
def test_whoever_may_see_a_bound_pod_alone_is_told_its_cards(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, cores = int(rng.integers(1, 16000)), int(rng.integers(1, 100))
    made = running("bound", "a", "GPU-a-0", memory, cores)
    made["metadata"]["namespace"] = "team"
    api.objects[:] = [made]
    api.refused = EVERYTHING
    told = json.loads(run("explain", "bound", "-n", "team", "-o", "json").stdout)
    assert told["held"] == [f"GPU-a-0: 1 share, {memory} MiB memory, {cores} percent cores"]
    assert told["held"][0] in run("explain", "bound", "-n", "team").stdout


@pytest.mark.parametrize("seed", range(10))
def test_simulate_gives_the_figures_of_a_quota_that_keeps_a_pod_waiting(api: Api, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    used, memory = int(rng.integers(1, 5000)), int(rng.integers(100, 2000))
    limit = used + int(rng.integers(0, 3 * memory))
    fit = (limit - used) // memory
    api.objects[:] = [node("a", 2), quota(gpumem=limit), held(used)]
    asked = pod("p", {GPU: 1, MEMORY: memory}, schedulerName="vgpu-scheduler")
    asked["metadata"]["namespace"] = "team"
    path = asking(tmp_path, asked)
    one = run("simulate", "-f", path).stdout
    told = "ResourceQuotaNotFit. (namespace team uses {} of {} MiB of limits.nvidia.com/gpumem)"
    assert (told.format(used, limit) in one) is (fit == 0), one
    most = run("simulate", "-f", path, "--count", "max").stdout
    assert f"{fit} of team/p fit." in most
    assert told.format(used + fit * memory, limit) in most, most
    (plain,) = json.loads(run("simulate", "-f", path, "-o", "json").stdout)
    assert ("quotas" in plain) is (fit == 0)


@pytest.mark.parametrize(
    "message", ["", "0/3 nodes are available: 1 ResourceQuotaNotFit, {} node(s) had untolerated taint(s)."]
)
@pytest.mark.parametrize("tainted", [1, 2])
def test_where_a_node_lacks_the_quota_alone_nothing_is_said_of_the_taints_of_others(
    api: Api, message: str, tainted: int
) -> None:
    asked = waiting("p", message.format(tainted))
    asked["spec"]["containers"][0]["resources"]["limits"] |= {MEMORY: "3000"}
    api.objects[:] = [quota(gpumem=2000), asked]
    texts = explained(api, "p")["remedies"]
    assert texts
    assert not any("tolerate" in text for text in texts), texts


@pytest.mark.parametrize("memory", [1000, 99999])
@pytest.mark.parametrize("output", ["name", "json", "table"])
def test_the_status_of_explain_says_whether_the_pod_has_a_place_in_every_form(
    api: Api, output: str, memory: int
) -> None:
    asked = waiting("p")
    asked["spec"]["containers"][0]["resources"]["limits"] |= {MEMORY: str(memory)}
    api.objects[:] = [node("a"), asked]
    assert run("explain", "p", "-n", "team", "-o", output).exit_code == (memory > 16384)
    api.refused = frozenset({"Node"})
    if output != "name":  # no scheduler has tried the pod yet
        assert run("explain", "p", "-n", "team", "-o", output).exit_code == 2


def test_what_is_there_is_there_in_the_plain_values_always(api: Api) -> None:
    api.objects[:] = [node("a"), waiting("p")]
    assert json.loads(run("explain", "p", "-n", "team", "-o", "json").stdout)["causes"] == []


def test_a_label_that_no_node_has_is_told_by_defrag(api: Api) -> None:
    api.objects[:] = [node("a", labels={"pool": "x"})]
    assert run("defrag", "-l", "pool=zz").stdout == "No card can be freed: no node has the labels of -l.\n"
    assert run("defrag", "-l", "pool=x").stdout == "No card can be freed: all 2 are idle already.\n"


@pytest.mark.parametrize("named", ["A100", "nvidia-a1", "NVIDIA-A100"])
def test_top_takes_a_part_of_the_name_of_a_model(api: Api, named: str) -> None:
    api.objects[:] = [node("a"), node("b")]
    assert run("top", "models", named).stdout == run("top", "models").stdout
    assert "there is no model H200" in run("top", "models", "H200").stderr
