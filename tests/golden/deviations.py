"""The list of intended differences from those that made the cases: quirk, reason, and the cases that show it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.naive.hami26.quirks import Quirk26
from tests.naive.hami_quirks import ALL
from tests.naive.koordinator_quirks import KOORDINATOR
from tests.naive.kubernetes_quirks import KubernetesQuirk
from tests.naive.vendors.quirks import VendorQuirk
from tests.naive.volcano_quirks import VOLCANO
from tests.naive.webhook.quirks import WebhookQuirk

KNOWN = frozenset(
    quirk.value for quirk in (*ALL, *Quirk26, *VendorQuirk, *WebhookQuirk, *KubernetesQuirk, *KOORDINATOR, *VOLCANO)
)
"""The quirks of all twins."""
LIST = Path(__file__).parent.parent / "vectors" / "deviations.toml"


@dataclass(frozen=True)
class Deviation:
    """One quirk of theirs that this scheduler does not share.

    Attributes
    ----------
    reason
        Why not.
    cases
        Ids of cases, or patterns for them, in which it makes a difference.
    test
        The test that shows it, where no case does: file and function, separated by ``::``.
    """

    quirk: str
    reason: str
    cases: tuple[str, ...]
    test: str = ""

    def covers(self, case_id: str) -> bool:
        """Tell whether the case is on the list."""
        return case_id in self.cases or any(fnmatchcase(case_id, pattern) for pattern in self.cases if "*" in pattern)


class Deviations:
    """The whole list."""

    def __init__(self, deviations: tuple[Deviation, ...]) -> None:
        self.all = deviations

    @classmethod
    def read(cls, path: Path = LIST) -> Deviations:
        """Read the list.

        Raises
        ------
        ValueError
            If it names no quirk, or one twice, or gives no reason, or neither cases nor a test that show it.
        """
        found = []
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if name not in KNOWN:
                raise ValueError(f"{path}: {name!r} is no quirk of a twin")
            cases, test = tuple(entry.get("cases", ())), entry.get("test", "")
            if not entry.get("reason") or bool(cases) is bool(test):
                raise ValueError(f"{path}: {name!r} needs a reason, and cases or a test")
            found.append(Deviation(name, entry["reason"], cases, test))
        return cls(tuple(found))

    def listed(self, case_id: str) -> frozenset[str]:
        """Return the quirks that are listed for a case."""
        return frozenset(deviation.quirk for deviation in self.all if deviation.covers(case_id))

    def unlisted(self, quirks: frozenset[str]) -> frozenset[str]:
        """Return those of the quirks that have no reason here."""
        return quirks - {deviation.quirk for deviation in self.all}

    def unused(self, case_ids: frozenset[str]) -> list[str]:
        """Return the ids and patterns that match none of the cases, each with its quirk."""
        return [
            f"{deviation.quirk}: {pattern}"
            for deviation in self.all
            for pattern in deviation.cases
            if pattern not in case_ids and not any(fnmatchcase(case_id, pattern) for case_id in case_ids)
        ]
