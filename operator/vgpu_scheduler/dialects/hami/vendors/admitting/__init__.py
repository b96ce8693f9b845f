"""What each maker's rules do with a container at admission: tell whether it asks for cards, and complete what it asks.

They are HAMi's webhook, maker by maker, as pure functions over a :class:`Draft`; a maker's file names its own
(``Vendor.admit``). Makers without one only look whether a limit names their count resource.
"""

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal

__all__ = ["Admit", "Draft", "Refusal"]
