"""The query of an address: parameters must be known and given once, or the answer names the wrong one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlencode

from vgpu_scheduler.model import did_you_mean, quoted
from vgpu_scheduler.ui.errors import BadQueryError

_FORMAT = "format"
FORMATS = ("html", "json")
_LONGEST = 300
_LONGEST_TEXT = 256 * 1024


class RequestText(str):
    """A text of the request that the answer repeats; it is not redacted, because its sender knows it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Query:
    """The query parameters of an address.

    Attributes
    ----------
    values
        The values by parameter; empty values are left out.
    """

    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        given: Iterable[tuple[str, str]],
        known: Collection[str],
        texts: Collection[str] = (),
        prefix: str = "",
        formats: Collection[str] = FORMATS,
    ) -> Query:
        """Read the parameters of an address.

        Parameters
        ----------
        known
            The parameters of the page.
        texts
            Those of the parameters that may be long.
        prefix
            A prefix of further allowed parameters; empty for none.
        formats
            The formats of the page.

        Raises
        ------
        BadQueryError
            If a parameter is unknown, given twice, or too long.
        """
        found: dict[str, str] = {}
        for name, value in given:
            if name not in {*known, _FORMAT} and not (prefix and name.startswith(prefix)):
                raise BadQueryError(f"there is no parameter {quoted(name)}{did_you_mean(name, known)}")
            if name in found:
                raise BadQueryError(f"{name} is given twice")
            longest = _LONGEST_TEXT if name in texts else _LONGEST
            if len(value) > longest:
                raise BadQueryError(f"{name} is longer than {longest} characters")
            found[name] = value
        query = cls({name: value for name, value in found.items() if value})
        query.choice(_FORMAT, formats)
        return query

    def get(self, name: str) -> str:
        """Return a value; empty if not given."""
        return self.values.get(name, "")

    def echo(self, name: str) -> RequestText:
        """Return a value to repeat in the answer."""
        return RequestText(self.get(name))

    def choice(self, name: str, choices: Collection[str]) -> str:
        """Return a value that must be one of some choices; the first choice if not given.

        Raises
        ------
        BadQueryError
            If the value is not one of the choices.
        """
        chosen = self.values.get(name) or next(iter(choices))
        if chosen not in choices:
            meant = did_you_mean(chosen, choices)
            raise BadQueryError(f"{name}: there is no {quoted(chosen)}{meant}; there are {', '.join(choices)}")
        return chosen

    @property
    def wants_json(self) -> bool:
        """Whether JSON is requested."""
        return self.get(_FORMAT) == "json"

    @property
    def wants_csv(self) -> bool:
        """Whether CSV is requested."""
        return self.get(_FORMAT) == "csv"

    @property
    def wants_text(self) -> bool:
        """Whether plain text is requested."""
        return self.get(_FORMAT) == "text"

    def with_values(self, page: str = "", **changed: str) -> RequestText:
        """Return a link to the same or another page with changed values."""
        values = {name: value for name, value in {**self.values, **changed}.items() if value}
        return RequestText(f"{page}?{urlencode(values)}")
