"""What is wrong with settings that do not validate, in words of ours: what must be there, and what is."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from vgpu_scheduler.model import did_you_mean
from vgpu_scheduler.model import worded as plainly_worded
from vgpu_scheduler.settings.model import Settings


def worded(error: ErrorDetails) -> str:
    """Say what is wrong with a value, without the name of its setting; one that is not known may be meant otherwise."""
    place = error["loc"]
    if error["type"] == "extra_forbidden":
        return f"there is no such setting{did_you_mean(str(place[-1]), _names_in(place[:-1]))}"
    return plainly_worded(error)


def path_of(error: ErrorDetails) -> tuple[str, ...]:
    """Return the path to the setting that an error is about."""
    return tuple(map(str, error["loc"]))


def _names_in(section: tuple[int | str, ...]) -> list[str]:
    """Return the settings of a section."""
    model: type[BaseModel] = Settings
    for name in section:
        field = model.model_fields.get(str(name))
        if field is None or not isinstance(field.default, BaseModel):
            return []
        model = type(field.default)
    return list(model.model_fields)
