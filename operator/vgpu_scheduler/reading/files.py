"""Read the files of commands that work offline."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from vgpu_scheduler.policy import GROUP, POLICY_KINDS, VERSION
from vgpu_scheduler.reading.options import STDIN
from vgpu_scheduler.settings import with_unique_keys, yaml_problem

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
# libyaml is ten times as fast, which matters for snapshots of clusters.
_Loader: Any = with_unique_keys(getattr(yaml, "CSafeLoader", yaml.SafeLoader))

_DEEPEST = 100
_MOST_VALUES = 200_000
_INDENTS = re.compile(r"^[ \-?]+", re.MULTILINE)
_BRACKETS = re.compile(r"[\[\]{}]")
TOO_DEEP = "it contains itself somewhere, or is nested too deeply"


class FileError(ValueError):
    """A file that cannot be read; the message names it, and the line if its content is malformed."""


def documents(path: Path) -> list[Any]:
    """Return the documents of a YAML or JSON file, without empty ones.

    Raises
    ------
    FileError
        If it cannot be read.
    """
    return documents_of(read_text(path), str(path), is_json=path.suffix == ".json")


def documents_of(text: str, origin: str, *, is_json: bool = False) -> list[Any]:
    """Return the documents of a text, without empty ones.

    Parameters
    ----------
    origin
        The source of the text, for messages.
    is_json
        Whether it is JSON rather than YAML.

    Raises
    ------
    FileError
        If it cannot be understood.
    """
    if not is_json and _may_be_deep(text):
        check_extent(text, origin, None)
    try:
        found = [_json(text)] if is_json else list(yaml.load_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        line, problem = yaml_problem(error)
        raise FileError(f"{origin}{f':{line}' if line else ''}: not valid YAML: {problem}") from None
    except json.JSONDecodeError as error:
        raise FileError(f"{origin}:{error.lineno}: not valid JSON: {error.msg}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise FileError(f"{origin}: {error}") from None
    except RecursionError:
        raise FileError(f"{origin}: {TOO_DEEP}") from None
    return [document for document in found if document is not None]


def _may_be_deep(text: str) -> bool:
    """Tell whether YAML may be nested so deeply that libyaml, which has no limit, would crash the process.

    In block style each level takes at least one column, or shares one with a list below its key.
    """
    columns = max(map(len, _INDENTS.findall(text)), default=0)
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest + 2 * columns > _DEEPEST


def check_extent(text: str, origin: str, most_values: int | None = _MOST_VALUES) -> None:
    """Refuse YAML that is nested too deeply, or has too many values once aliases are expanded.

    Parameters
    ----------
    origin
        The source of the text, for messages.
    most_values
        The most values; None for no limit.

    Raises
    ------
    FileError
        If a limit is exceeded; malformed YAML is not reported here.
    """
    sizes: dict[str, int] = {}
    opened: list[tuple[str, int]] = [("", 0)]  # the open collections: their anchors, and their values so far
    try:
        for event in yaml.parse(text, _Loader):
            name, size = str(getattr(event, "anchor", None) or ""), 0
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append((name, 1))
            elif isinstance(event, yaml.CollectionEndEvent):
                name, size = opened.pop()
            elif isinstance(event, yaml.AliasEvent):
                size = sizes.get(name, 0)
            elif isinstance(event, yaml.ScalarEvent):
                size = 1
            if name and size:
                sizes[name] = size
            opened[-1] = (opened[-1][0], opened[-1][1] + size)
            if len(opened) > _DEEPEST:
                raise FileError(f"{origin}: {TOO_DEEP}")
            if most_values is not None and opened[-1][1] > most_values:
                raise FileError(f"{origin}: it has more than {most_values} values")
    except yaml.YAMLError:
        return


def version_problem(obj: Mapping[str, Any]) -> str:
    """Say of a policy with an apiVersion that no API server has which one to write; empty for other objects."""
    kind, version, served = obj.get("kind"), obj.get("apiVersion"), f"{GROUP}/{VERSION}"
    if not isinstance(kind, str) or kind not in POLICY_KINDS or not version or version == served:
        return ""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{kind} {name or 'without a name'}: apiVersion: there is no {version}: write {served}"


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a file, or of stdin.

    Raises
    ------
    FileError
        If it cannot be read.
    """
    try:
        return sys.stdin.read() if path == STDIN else path.read_text(encoding=encoding)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise FileError(f"{path}: {reason}") from None


def _json(text: str) -> Any:
    """Parse JSON; repeated keys are not looked for, since programs write it, and that takes long for large clusters."""
    found = json.loads(text)
    if r"\ud" in text.lower():
        json.dumps(found, ensure_ascii=False).encode()  # raises for an unpaired surrogate
    return found


def yaml_files(path: Path) -> Iterator[Path]:
    """Yield a file or pipe, or all YAML and JSON files below a folder, by name."""
    if path == STDIN or (path.exists() and not path.is_dir()):
        yield path
        return
    for found in sorted(path.rglob("*")):
        if found.suffix in _SUFFIXES and found.is_file():
            yield found
