"""An embedded API server in Python, and the node side that plays on it: for the demo, examples, tests and faults.

:class:`DevCluster` answers kopf, kubernetes-asyncio and plain HTTP clients the way a kube-apiserver does, as far as a
scheduler can notice; the contract tests run the same cases against both. :class:`NodeSide` plays HAMi's device plugin
and the kubelet on either of them. The docstrings of the modules say what is simulated and what is not.
"""

from __future__ import annotations

from .cards import A100_PROFILES, CATALOGUE, Card, CardModel, MigProfile, equip, registration
from .cluster import DevCluster
from .ecosystems import Ecosystem
from .faults import Fault
from .koordlet import Injection, Koordlet, device_object, injected
from .log import WRITES, OnRequest, RequestKey, RequestLog
from .nodeside import NodeSide
from .plugin import BEHAVIOUR, Behaviour
from .resources import Resource
from .vendors import ASCEND_910B3, CAMBRICON, ENFLAME_DRS, HYGON, MTHREADS, NVIDIA, Vendor, made_cards
from .volcano import VolcanoPlugin

__all__ = [
    "A100_PROFILES",
    "ASCEND_910B3",
    "BEHAVIOUR",
    "CAMBRICON",
    "CATALOGUE",
    "ENFLAME_DRS",
    "HYGON",
    "MTHREADS",
    "NVIDIA",
    "WRITES",
    "Behaviour",
    "Card",
    "CardModel",
    "DevCluster",
    "Ecosystem",
    "Fault",
    "Injection",
    "Koordlet",
    "MigProfile",
    "NodeSide",
    "OnRequest",
    "RequestKey",
    "RequestLog",
    "Resource",
    "Vendor",
    "VolcanoPlugin",
    "device_object",
    "equip",
    "injected",
    "made_cards",
    "registration",
]
