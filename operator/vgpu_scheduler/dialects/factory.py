"""Makes every dialect by its name; :mod:`vgpu_scheduler.dialects` itself imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vgpu_scheduler.dialects.dialect import Dialect
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import volcano_dialect

DIALECTS: Final[Mapping[str, Callable[[], Dialect]]] = {
    "hami": hami_dialect,
    "volcano": volcano_dialect,
    "koordinator": koordinator_dialect,
}
"""The factories of the dialects with their default resource names."""
