"""Iluvatar at admission: several cards come with all their compute."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft
from vgpu_scheduler.kube import to_int

_WHOLE = 100
_CONTAINER = "SOL_CONTINER_NAME"  # as the runtime spells it


def iluvatar_rule(count: str, cores: str) -> Admit:
    """Return the rules under these resource names."""

    def admit(draft: Draft) -> bool:
        asked = draft.limit(count)
        if asked is None:
            return False
        if draft.sound(count) and to_int(asked) > 1:
            draft.set_limit(cores, _WHOLE * to_int(asked))
        draft.set_env(_CONTAINER, draft.name)
        return True

    return admit
