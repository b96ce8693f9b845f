"""vgpu-scheduler: a Kubernetes scheduler for shared GPUs."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("vgpu-scheduler")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0.0.0"
