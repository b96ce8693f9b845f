"""What to do about a pod's volume claims before it can be placed anywhere."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Final

from vgpu_scheduler.kube import WAIT_FOR_FIRST_CONSUMER, Object, PersistentVolumeClaim, StorageClass
from vgpu_scheduler.model import did_you_mean_object

_LOST: Final = "Lost"


def volume_claim_problems(
    written: Object,
    claims: Mapping[str, PersistentVolumeClaim] | None,
    classes: Mapping[str, StorageClass] | None,
    volumes: Container[str] | None = None,
    *,
    uids: Collection[str] = (),
    unobjected: bool = False,
) -> Iterator[str]:
    """Yield what to do about a pod's claims that are missing, or that have to be bound first and are not.

    Parameters
    ----------
    written
        The pod.
    claims, classes
        The claims of the pod's namespace and the storage classes, by name; None if the reader may not list them.
    volumes
        The names of the volumes; None if the reader may not list them.
    uids
        The pod's UIDs, as read and at present; empty for a pod that is not created yet, since the claims of its
        ephemeral volumes do not exist yet either.
    unobjected
        Whether the scheduler has tried the pod and does not object to its claims. An unbound claim whose class may not
        be read does not keep the pod waiting then: its class waits for the first consumer.
    """
    if claims is None:
        return
    metadata = written.get("metadata") or {}
    for volume in (written.get("spec") or {}).get("volumes") or ():
        if named := str((volume.get("persistentVolumeClaim") or {}).get("claimName") or ""):
            if (claim := claims.get(named)) is None:
                yield create_volume_claim(named, claims)
            else:
                yield from _unusable(claim, classes, volumes, unobjected=unobjected)
        elif volume.get("ephemeral") and uids:
            made = f"{metadata.get('name', '')}-{volume.get('name', '')}"
            if made in claims:
                yield from _of_ephemeral(volume, claims[made], uids, classes, volumes, unobjected=unobjected)
            else:
                yield (
                    f"wait until PersistentVolumeClaim {made} of its ephemeral volume {volume.get('name')} is made; if"
                    " it is not, the events of the pod say why (a quota of claims, as a rule)"
                )


def create_volume_claim(name: str, known: Iterable[str] = ()) -> str:
    """Say what to do about a missing claim.

    Parameters
    ----------
    known
        The claims of the namespace, as far as they are known.
    """
    return f"create the PersistentVolumeClaim {name}, or correct the name{did_you_mean_object(name, known)}"


def _of_ephemeral(
    volume: Object,
    claim: PersistentVolumeClaim,
    uids: Collection[str],
    classes: Mapping[str, StorageClass] | None,
    volumes: Container[str] | None,
    *,
    unobjected: bool,
) -> Iterator[str]:
    """Yield what to do about the claim of an ephemeral volume; ``uids`` are its pod's."""
    if claim.controller not in uids:
        yield (
            f"delete PersistentVolumeClaim {claim.name}, which was not made for this pod, or rename the pod or "
            f"its volume {volume.get('name')}"
        )
    else:
        yield from _unusable(claim, classes, volumes, unobjected=unobjected)


def _unusable(
    claim: PersistentVolumeClaim,
    classes: Mapping[str, StorageClass] | None,
    volumes: Container[str] | None,
    *,
    unobjected: bool,
) -> Iterator[str]:
    title = f"PersistentVolumeClaim {claim.name}"
    if claim.phase == _LOST:
        yield f"make {title} anew: its volume {claim.volume_name} is gone"
    elif claim.deleting:
        yield f"make {title} anew once it is gone: it is being deleted"
    elif claim.bound:
        if volumes is not None and claim.volume_name not in volumes:
            yield f"make {title} anew, or PersistentVolume {claim.volume_name}, to which it is bound: that is gone"
    elif claim.class_name and classes is None and unobjected:
        return
    elif claim.volume_name:
        yield (
            f"wait until {title} is bound to PersistentVolume {claim.volume_name}, which it names; if it is not, see"
            " that this volume is there, free and as the claim asks"
        )
    else:
        yield from _unbound(title, claim, classes)


def _unbound(title: str, claim: PersistentVolumeClaim, classes: Mapping[str, StorageClass] | None) -> Iterator[str]:
    wanted = claim.class_name
    if wanted is None and classes is None and not claim.uid:  # admission has not seen it yet
        yield (
            f"name a storage class in {title}, or ask whether there is a default class, which you may not read: if"
            " there is one, it decides whether the claim is bound before pods are placed; if not, it must be bound to"
            " a volume by hand"
        )
    elif not wanted:
        yield f"have {title} bound: it names no storage class, so it must be bound to a volume by hand"
    elif classes is None:
        yield (
            f"wait until {title} is bound, or see its events: its storage class {wanted}, which you may not read, says"
            " whether it is bound before pods are placed"
        )
    elif wanted not in classes:
        yield (
            f"have storage class {wanted} made, or make {title} anew with another one: it is not bound, and there is no"
            f" class of that name{did_you_mean_object(wanted, classes)}"
        )
    elif classes[wanted].binding_mode != WAIT_FOR_FIRST_CONSUMER:
        yield (
            f"wait until {title} is bound, or see its events: its storage class {wanted} has it bound before pods are"
            " placed"
        )
