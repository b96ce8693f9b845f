"""The web page: what the command line says of a cluster, in a browser; it changes nothing."""

from vgpu_scheduler.ui.current import CurrentWorld
from vgpu_scheduler.ui.live import LiveCluster
from vgpu_scheduler.ui.name_redaction import Names
from vgpu_scheduler.ui.page_setup import PageSetup
from vgpu_scheduler.ui.prometheus_polling import Ask
from vgpu_scheduler.ui.server import serve, serve_guarded

__all__ = ["Ask", "CurrentWorld", "LiveCluster", "Names", "PageSetup", "serve", "serve_guarded"]
