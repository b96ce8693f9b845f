"""The pods that ``vgpu-scheduler simulate`` places, and the changes to the cluster before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpu_scheduler.cli.cluster.namespaces import did_you_mean_namespace
from vgpu_scheduler.cli.cluster.options import ForecastOptions, NamespaceOptions
from vgpu_scheduler.kube import LabelSelector
from vgpu_scheduler.reading import ClusterOptions, SimulatedPods, at_home, read_files
from vgpu_scheduler.whatif import FileObject, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The pods to place, and the changes to make to the cluster before.

    Attributes
    ----------
    pods
        Files with pods.
    home
        The namespace of pods that name none; with ``pending``, also that of the pending pods, unless all are placed.
    namespaces
        The namespace options as given.
    selector
        The labels of the pending pods to place; None for all.
    count
        Copies of each pod; 0 for the pods themselves.
    preempt
        Evict pods of lower priority, as the scheduler would.
    forecast
        The options of the forecast of waiting times; None for no forecast.
    """

    pods: Sequence[Path]
    pending: bool
    home: str
    namespaces: NamespaceOptions
    selector: LabelSelector | None
    count: int
    policies: Sequence[Path]
    added: Sequence[str]
    without: Sequence[str]
    preempt: bool = False
    forecast: ForecastOptions | None = None

    @property
    def where(self) -> str:
        """The names of the files with pods."""
        return ", ".join(map(str, self.pods))

    def written(self) -> list[FileObject]:
        """Return the objects in the files with pods.

        Raises
        ------
        FileError
            If a file cannot be read.
        """
        return at_home(read_files(self.pods), self.home, self.namespaces.name)

    def asked(self, written: Sequence[FileObject] | None = None) -> SimulatedPods:
        """Return the pods to place.

        Parameters
        ----------
        written
            The objects of the files; None to read them.
        """
        return SimulatedPods(
            written=self.written() if written is None else written,
            where=self.where,
            pending=self.pending,
            home=self.home,
            every=self.namespaces.every,
            selector=self.selector,
        )

    def nobody_waits(self, world: World, cluster: ClusterOptions) -> str:
        """Return a sentence that no pod waits among those asked about."""
        if self.selector is not None:
            return "no pod with the labels of -l waits"
        if self.namespaces.every:
            return "no pod waits"
        elsewhere = f"; {len(world.pending)} in other namespaces do: -A places them, too" if world.pending else ""
        return f"no pod waits in namespace {self.home}{elsewhere}{did_you_mean_namespace(self.home, cluster, world)}"
