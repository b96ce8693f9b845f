"""MetaX shared GPUs (sGPU) at admission: a quality of service for all but online pods, which share one card."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal
from vgpu_scheduler.kube import to_int

APP_CLASS, QUALITY = "metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"
ONLINE, OFFLINE = "online", "offline"
QUALITIES = ("best-effort", "fixed-share", "burst-share")
"""The first is what a pod gets that does not say."""


def sgpu_rule(count: str) -> Admit:
    """Return the rules under this resource name."""

    def admit(draft: Draft) -> bool:
        asked = draft.limit(count)
        if asked is None:
            return False
        kind, quality = draft.annotation(APP_CLASS), draft.annotation(QUALITY)
        if kind not in (None, ONLINE, OFFLINE):
            raise Refusal(f"{APP_CLASS} must be set one of [{ONLINE}, {OFFLINE}]")
        if kind is not None and to_int(asked) != 1:
            raise Refusal("app-class pod must request single device")
        if kind == ONLINE:
            return True
        if quality is None:
            draft.annotate(QUALITY, QUALITIES[0])
        elif quality not in QUALITIES:
            raise Refusal(f"{QUALITY} must be set one of [{', '.join(QUALITIES)}]")
        return True

    return admit
