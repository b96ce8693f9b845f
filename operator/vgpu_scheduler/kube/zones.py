"""The labels of nodes and volumes that name their host, zone and region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONE_LABELS: Final[Mapping[str, str]] = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""Each label with its current name, which nodes may have instead."""
ZONE_DELIMITER: Final = "__"
"""Separates the zones in the zone label of a volume."""
