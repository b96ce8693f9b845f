"""Maps in YAML: what they say, and in which lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

Path = tuple[str, ...]
_MERGE: Final = "tag:yaml.org,2002:merge"


class MapError(ValueError):
    """A text that is no map in YAML; the message says why, and in which line."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that is there twice: YAML forbids it, and PyYAML takes the last one in silence."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - the signature is PyYAML's
    ) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in lines:
                    problem = f"{key.value} is there already, in line {lines[key.value]}"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)


def yaml_problem(error: yaml.MarkedYAMLError) -> tuple[int, str]:
    """Return the line of what is no YAML, 0 if it is not known, and what is wrong with it, in one line."""
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark else 0, ", ".join(filter(None, (error.context, error.problem)))


def read_map(text: str, of: str) -> Mapping[str, Any]:
    """Return a map that is written in YAML; an empty one for an empty text.

    Parameters
    ----------
    of
        What the map has, in errors.

    Raises
    ------
    MapError
        If it is no YAML, or no map.
    """
    try:
        content = yaml.load(text, _UniqueKeyLoader)  # noqa: S506 - it is a safe loader
    except yaml.MarkedYAMLError as error:
        line, problem = yaml_problem(error)
        raise MapError(f"{f'line {line}: ' if line else ''}not valid YAML: {problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise MapError(str(error)) from None
    except RecursionError:
        raise MapError("nested too deeply") from None
    if not isinstance(content, dict | None):
        raise MapError(f"not a map of {of}")
    return content or {}


def lines_of(text: str) -> Mapping[Path, int]:
    """Return in which line each key of a map in YAML is, by the path to it; the text has been read before."""
    root = yaml.compose(text, yaml.SafeLoader)
    return dict(_lines(root, ())) if isinstance(root, yaml.MappingNode) else {}


def _lines(node: yaml.MappingNode, before: Path) -> Iterator[tuple[Path, int]]:
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            path = (*before, key.value)
            yield path, key.start_mark.line + 1
            if isinstance(value, yaml.MappingNode):
                yield from _lines(value, path)
