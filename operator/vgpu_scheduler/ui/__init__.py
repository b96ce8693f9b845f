"""The web page: what the command line says of a cluster, in a browser, and nothing that changes one."""

from vgpu_scheduler.ui.current import CurrentWorld, Witness
from vgpu_scheduler.ui.live import LiveCluster
from vgpu_scheduler.ui.meter import Ask
from vgpu_scheduler.ui.server import serve, serve_guarded
from vgpu_scheduler.ui.veil import Names
from vgpu_scheduler.ui.window import Window

__all__ = ["Ask", "CurrentWorld", "LiveCluster", "Names", "Window", "Witness", "serve", "serve_guarded"]
