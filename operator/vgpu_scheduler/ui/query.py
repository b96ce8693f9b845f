"""What an address asks for: every parameter is known and has one value, or the answer says which is wrong."""

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
    """What a request says, and its answer says again: it tells nobody what they have not said."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of an address.

    Attributes
    ----------
    values
        By name; those without a value are left out.
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
            Those that the page has.
        texts
            Those of them that may be long.
        prefix
            Those that begin with this are known, too; empty for none.
        formats
            As what the page can be had.

        Raises
        ------
        BadQueryError
            If one is not known, is there twice or is too long.
        """
        found: dict[str, str] = {}
        for name, value in given:
            if name not in {*known, _FORMAT} and not (prefix and name.startswith(prefix)):
                raise BadQueryError(f"there is no parameter {quoted(name)}{did_you_mean(name, known)}")
            if name in found:
                raise BadQueryError(f"{name} is there twice")
            longest = _LONGEST_TEXT if name in texts else _LONGEST
            if len(value) > longest:
                raise BadQueryError(f"{name} is longer than {longest} characters")
            found[name] = value
        query = cls({name: value for name, value in found.items() if value})
        query.choice(_FORMAT, formats)
        return query

    def get(self, name: str) -> str:
        """Return a value; empty where there is none."""
        return self.values.get(name, "")

    def echo(self, name: str) -> RequestText:
        """Return a value to be said again."""
        return RequestText(self.get(name))

    def choice(self, name: str, choices: Collection[str]) -> str:
        """Return one of some values, the first of them where there is none.

        Raises
        ------
        BadQueryError
            If it is another one.
        """
        chosen = self.values.get(name) or next(iter(choices))
        if chosen not in choices:
            meant = did_you_mean(chosen, choices)
            raise BadQueryError(f"{name}: there is no {quoted(chosen)}{meant}; there are {', '.join(choices)}")
        return chosen

    @property
    def wants_json(self) -> bool:
        """Whether plain values are asked for."""
        return self.get(_FORMAT) == "json"

    @property
    def wants_csv(self) -> bool:
        """Whether a table for a spreadsheet is asked for."""
        return self.get(_FORMAT) == "csv"

    @property
    def wants_text(self) -> bool:
        """Whether the words of a command are asked for."""
        return self.get(_FORMAT) == "text"

    def with_values(self, page: str = "", **changed: str) -> RequestText:
        """Return the address of the same page, or of another one, with other values, as a link."""
        values = {name: value for name, value in {**self.values, **changed}.items() if value}
        return RequestText(f"{page}?{urlencode(values)}")
