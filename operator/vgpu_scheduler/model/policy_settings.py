"""The settings of what holds where no policy says otherwise: those of the operator, and those of policy tests."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, field_validator

from vgpu_scheduler.model.device_policies import OrderKind, Profile, check_device_policy


class PolicySettings(BaseModel):
    """The settings of what holds where no policy says otherwise."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    profile: Profile = Profile.DOCUMENTED
    """The set of defaults for settings that are not set."""
    node_policy: Literal["binpack", "spread"] = "binpack"
    """The preferred node for pods that name no policy: the fullest or the emptiest."""
    device_policy: str = "spread"
    """The preferred card for pods that name no policy, in HAMi's words."""
    device_order: OrderKind | None = None
    """Order cards by NUMA node first or by score first; the profile decides if this is not set."""
    strict_annotations: bool = False
    """Refuse pods with suspicious values in their annotations or suspicious amounts of devices, such as an unknown
    policy word or a percentage of 0, instead of placing them as HAMi does, with a warning."""
    exclusive_when_unspecified: bool | None = None
    """Give all compute to containers that request whole NVIDIA cards and no compute, so that no other pod shares these;
    the profile decides if this is not set (HAMi's webhook does so)."""

    @field_validator("device_policy")
    @classmethod
    def _check_device_policy(cls, policy: str) -> str:
        check_device_policy(policy)
        return policy

    @property
    def whole_is_exclusive(self) -> bool:
        """Whether a claim of a whole card also takes all of its compute (HAMi: wholeIsExclusive)."""
        if self.exclusive_when_unspecified is not None:
            return self.exclusive_when_unspecified
        return self.profile is Profile.HAMI210

    @property
    def order(self) -> OrderKind:
        """The effective card order."""
        return self.device_order or self.profile.order
