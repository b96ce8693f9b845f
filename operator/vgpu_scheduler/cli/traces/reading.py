"""Reads traces from folders, or makes a synthetic one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vgpu_scheduler.reading import FileError, read_text
from vgpu_scheduler.whatif.traces import TraceNode, TracePod, parse_nodes, parse_pods, synthetic_nodes, synthetic_pods

SYNTHETIC: Final = "synthetic"
"""In place of a folder: nodes and pods are made from a published distribution."""
_NODES: Final = "*node_list*.csv"
_WITH_CARDS: Final = "gpu_node"  # among the published node lists, the one used for the published results
_PODS: Final = "*pod_list*.csv"
_BEFORE_NAME: Final = "pod_list"


@dataclass(frozen=True, slots=True)
class Trace:
    """The content of a trace folder.

    Attributes
    ----------
    nodes
        The nodes; empty if they are not wanted.
    workloads
        The pods of each list, by the list's name.
    """

    nodes: Sequence[TraceNode]
    workloads: Mapping[str, Sequence[TracePod]]


def read_trace(source: str, wanted: Sequence[str], *, with_nodes: bool) -> Trace:
    """Read a trace.

    Parameters
    ----------
    source
        A folder, or ``synthetic``.
    wanted
        The workloads to read; all if empty.
    with_nodes
        Whether to read the nodes, too.

    Raises
    ------
    FileError, TraceError
        If the trace cannot be read.
    """
    if source == SYNTHETIC:
        _check_known(wanted, [SYNTHETIC], source)
        return Trace(synthetic_nodes() if with_nodes else [], {SYNTHETIC: synthetic_pods()})
    folder = Path(source)
    if not folder.is_dir():
        raise FileError(f"{folder}: there is no such folder; {SYNTHETIC} can be used where there is no trace")
    lists = {_workload(path): path for path in sorted(folder.glob(_PODS))}
    if not lists:
        raise FileError(f"{folder}: there is no list of pods in it ({_PODS})")
    _check_known(wanted, list(lists), source)
    nodes = parse_nodes(*_content(_node_list(folder))) if with_nodes else []
    names = dict.fromkeys(wanted) or lists
    return Trace(nodes, {name: parse_pods(*_content(lists[name])) for name in names})


def _node_list(folder: Path) -> Path:
    found = sorted(folder.glob(_NODES))
    if len(found) > 1:
        found = [path for path in found if _WITH_CARDS in path.name] or found
    if not found:
        raise FileError(f"{folder}: there is no list of nodes in it ({_NODES})")
    if len(found) > 1:
        raise FileError(f"{folder}: there are several lists of nodes: {', '.join(path.name for path in found)}")
    return found[0]


def _workload(path: Path) -> str:
    return path.stem.partition(_BEFORE_NAME)[2].strip("_-") or path.stem


def _check_known(wanted: Sequence[str], names: Sequence[str], source: str) -> None:
    for name in wanted:
        if name not in names:
            raise FileError(f"{source}: there is no workload {name}; there is {', '.join(names)}")


def _content(path: Path) -> tuple[str, str]:
    """Return the text of a list, and its name in errors."""
    return read_text(path, "utf-8-sig"), str(path)
