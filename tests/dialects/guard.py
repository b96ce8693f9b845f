"""What the guard of allocations in the manifests knows."""

from __future__ import annotations

from pathlib import Path

import yaml

POLICIES = yaml.safe_load_all((Path(__file__).parents[2] / "manifests" / "admission.yaml").read_text())
VARIABLES = {one["name"]: one["expression"] for one in next(iter(POLICIES))["spec"]["variables"]}
KEYS, PREFIXES, COUNTS = (yaml.safe_load(VARIABLES[name]) for name in ("keys", "prefixes", "counts"))  # lists of CEL


def guarded(key: str) -> bool:
    """Tell whether only the writers of allocations may touch an annotation of pods; as the policy's ``touched``."""
    shaped = key.startswith("hami.io/") and key.endswith(("-devices-allocated", "-devices-to-allocate"))
    runtime = key.startswith("huawei.com/") and key != "huawei.com/vnpu-mode"
    return key in KEYS or key.startswith(tuple(PREFIXES)) or shaped or runtime
