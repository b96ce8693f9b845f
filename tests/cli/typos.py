"""What people type instead of a name."""

from __future__ import annotations


def letters_off(name: str) -> list[str]:
    """Return names that are one letter off."""
    found = [name[:at] + name[at + 1 :] for at in range(len(name))]
    found += [name[:at] + "x" + name[at:] for at in range(len(name))]
    found += [name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(len(name) - 1)]
    return sorted({*found} - {name})
