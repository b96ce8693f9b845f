"""Commands import what they use: what takes long, or much memory, is not imported for nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLIENT = "kubernetes_asyncio.client"


def printed(program: str) -> str:
    """Return what a program in a process of its own prints."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("module", ["cli.explain", "cli.top", "cli.simulate", "ui.server", "shadow"])
def test_whatever_asks_a_cluster_imports_no_classes_of_the_kubernetes_client_and_no_kopf(module: str) -> None:
    loaded = printed(f"import sys, vgpu_scheduler.{module}; print(*sys.modules)").split()
    assert "kopf" not in loaded
    assert module.startswith("ui") or not {"aiohttp.web", "jinja2"}.intersection(loaded)
    assert f"{CLIENT}.models.v1_pod" not in loaded
    assert f"{CLIENT}.api.core_v1_api" not in loaded


def test_whoever_asks_for_such_a_class_gets_it() -> None:
    program = f"""
import vgpu_scheduler.apiclient as ours
import sys, kubernetes_asyncio
assert "{CLIENT}.models.v1_pod" not in sys.modules
from kubernetes_asyncio import config, watch
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api, V1Pod
assert config.ConfigException is ours.ConfigException
assert ApiClient.__module__ == "{CLIENT}.api_client" and Configuration.__module__ == "{CLIENT}.configuration"
assert V1Pod is kubernetes_asyncio.client.models.V1Pod is sys.modules["{CLIENT}.models.v1_pod"].V1Pod
assert not hasattr(kubernetes_asyncio.client, "nothing") and not hasattr(kubernetes_asyncio, "nothing")
print(CoreV1Api.__name__, watch.Watch.__name__)
"""
    assert printed(program) == "CoreV1Api Watch"


def test_several_threads_that_ask_at_once_get_it_and_so_does_whoever_asks_after_an_interruption() -> None:
    program = f"""
import vgpu_scheduler.apiclient, kubernetes_asyncio.client as client, sys
from concurrent.futures import ThreadPoolExecutor

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{CLIENT}.models.v1_pod":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
try:
    client.V1Pod
except KeyboardInterrupt:
    sys.meta_path.pop(0)
names = ["V1Pod", "V1Node", "CoreV1Api", "V1Secret"] * 4
with ThreadPoolExecutor(len(names)) as pool:
    found = list(pool.map(lambda name: getattr(client, name).__name__, names))
assert found == names, found
from {CLIENT}.models import V1Service
from {CLIENT} import *
print(V1Service.__name__, CoreV1Api.__name__)
import kubernetes_asyncio
assert kubernetes_asyncio.__version__ and client.__version__
"""
    assert printed(program) == "V1Service CoreV1Api"


def test_where_the_client_was_imported_before_it_stays_as_it_is() -> None:
    program = f"""
from kubernetes_asyncio import client
import vgpu_scheduler.apiclient, sys
assert client is sys.modules["{CLIENT}"]
print(client.V1Pod.__name__)
"""
    assert printed(program) == "V1Pod"
