"""What the API server's admission knows when pods are created: priority classes and limit ranges."""

from __future__ import annotations

from typing import Any, Final

from vgpu_scheduler.kube import LimitRange, Object, decode_limit_range
from vgpu_scheduler.model import did_you_mean_object
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.whatif.objects.admission import SYSTEM_CLASSES, missing_class
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError, decoded, metadata_of

_NO_CLASS: Final = "no PriorityClass with name {} was found{}"


class PodCreation:
    """The objects that admission reads, and the pods that it refuses.

    Attributes
    ----------
    priorities
        Priority by name of the class, with the classes of every cluster.
    knows_classes
        Whether all priority classes were read, so that one that is missing does not exist.
    refused
        Why the API server refuses to create pods, by UID: these are never placed.
    """

    def __init__(self) -> None:
        self.priorities = dict(SYSTEM_CLASSES)
        self.knows_classes = False
        self.refused: dict[str, str] = {}
        self._classes: dict[str, Object] = {}
        self._ranges: dict[tuple[str, str], LimitRange] = {}

    def add_priority_class(self, name: str, obj: Object) -> None:
        """Add a priority class, or replace an earlier version of it.

        Raises
        ------
        InvalidObjectsError
            If its value is not an integer.
        """
        value = obj.get("value")
        if type(value) is not int:
            raise InvalidObjectsError(f"PriorityClass {name}: value: {value!r} is not an integer")
        self.priorities[name] = value
        self._classes[name] = obj

    def add_limit_range(self, obj: Object) -> None:
        """Add a LimitRange, or replace an earlier version of it.

        Raises
        ------
        InvalidObjectsError
            If it cannot be understood.
        """
        found = decoded(decode_limit_range, obj, metadata_of(obj))
        self._ranges[found.namespace, found.name] = found

    def limit_ranges(self, namespace: str) -> list[LimitRange]:
        """Return the LimitRanges of a namespace, by name."""
        return [found for (home, _), found in sorted(self._ranges.items()) if home == namespace]

    def meant(self, class_name: str) -> str:
        """Suggest an existing class for one that does not exist, as the end of a sentence."""
        return did_you_mean_object(class_name, self.priorities)

    def class_refusal(self, pod: Object) -> str:
        """Return why the API server refuses a pod for the class that it names; empty if it is not known to."""
        name = missing_class(pod) if self.knows_classes else ""
        return _NO_CLASS.format(name, self.meant(name)) if name and name not in self.priorities else ""

    def with_class(self, pod: Object) -> Object:
        """Return a new pod with the default class of the cluster, if it names none, and what its class says.

        Of several default classes the API server takes the one with the lowest value.
        """
        spec = mapping_of(pod.get("spec"))
        if not spec or spec.get("priority") is not None:
            return pod
        added: dict[str, Any] = {}
        name = spec.get("priorityClassName")
        if not name:
            defaults = [name for name, each in self._classes.items() if each.get("globalDefault") is True]
            name = min(defaults, key=lambda each: (self.priorities[each], each), default="")
            added = {"priorityClassName": name} if name else {}
        policy = self._classes.get(str(name), {}).get("preemptionPolicy")
        if policy and spec.get("preemptionPolicy") is None:
            added["preemptionPolicy"] = policy
        return {**pod, "spec": {**spec, **added}} if added else pod
