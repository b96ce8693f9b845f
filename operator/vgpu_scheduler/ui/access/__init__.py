"""Access control of the page: one browser on a laptop; in a cluster, users whose rights the API server confirms."""

from vgpu_scheduler.ui.access.connections import BoundedSite, Bounds
from vgpu_scheduler.ui.access.deployed import DeployedGuard, PageAddresses
from vgpu_scheduler.ui.access.guard import JSON, Guard, User, Visitor, wants_json
from vgpu_scheduler.ui.access.laptop import Deletable, LocalKeyGuard
from vgpu_scheduler.ui.access.proxies import Proxies, SecretError
from vgpu_scheduler.ui.access.reviews import Reviews
from vgpu_scheduler.ui.access.tls import Certificate, CertificateError

__all__ = [
    "JSON",
    "BoundedSite",
    "Bounds",
    "Certificate",
    "CertificateError",
    "Deletable",
    "DeployedGuard",
    "Guard",
    "LocalKeyGuard",
    "PageAddresses",
    "Proxies",
    "Reviews",
    "SecretError",
    "User",
    "Visitor",
    "wants_json",
]
