"""Reading of YAML maps, with the line of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

Path = tuple[str, ...]
_MERGE: Final = "tag:yaml.org,2002:merge"


class MapError(ValueError):
    """A text that is not a YAML map; the message names the problem and the line."""


def with_unique_keys(loader: type[Any]) -> Any:
    """Return a safe loader of PyYAML that refuses a map with a repeated key.

    YAML forbids that, but PyYAML and kubectl accept it in silence, and the last value counts. The error of PyYAML
    (:class:`yaml.constructor.ConstructorError`) has the lines of both.
    """
    return type("UniqueKeyLoader", (loader,), {"flatten_mapping": _flatten_mapping})


def _flatten_mapping(loader: Any, node: yaml.MappingNode) -> None:
    """Merge into a map what its merge keys name, once its own keys are known to differ.

    Another map that merges this one may have merged its keys already, so each map is checked once.
    """
    if "has_unique_keys" not in vars(node):
        _refuse_repeated_keys(node)
        vars(node)["has_unique_keys"] = True
    yaml.constructor.SafeConstructor.flatten_mapping(loader, node)


def _refuse_repeated_keys(node: yaml.MappingNode) -> None:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if key.value in lines:
                problem = f"{key.value} is set already, in line {lines[key.value]}"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            lines[key.value] = key.start_mark.line + 1


_UniqueKeyLoader: Final = with_unique_keys(yaml.SafeLoader)


def yaml_problem(error: yaml.MarkedYAMLError) -> tuple[int, str]:
    """Return the line of a YAML error, 0 if unknown, and the problem in one line."""
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark else 0, ", ".join(filter(None, (error.context, error.problem)))


def read_map(text: str, of: str) -> Mapping[str, Any]:
    """Parse a YAML map; an empty text gives an empty map.

    Parameters
    ----------
    of
        The content of the map, for errors.

    Raises
    ------
    MapError
        If it is not valid YAML, or not a map.
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
    """Return the line of each key of a YAML map by its path; the text must be valid."""
    root = yaml.compose(text, yaml.SafeLoader)
    return dict(_lines(root, ())) if isinstance(root, yaml.MappingNode) else {}


def _lines(node: yaml.MappingNode, before: Path) -> Iterator[tuple[Path, int]]:
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            path = (*before, key.value)
            yield path, key.start_mark.line + 1
            if isinstance(value, yaml.MappingNode):
                yield from _lines(value, path)
