"""Renders install.yaml from the kustomization beside it; ``--check`` only tells whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

HERE = Path(__file__).parent
HEAD = "# Rendered from the kustomization beside this file by `make manifests`; apply it with `kubectl apply -f`.\n"


def resources(folder: Path) -> list[str]:
    """Return the resources of a folder's kustomization in its order; a folder among them stands for its own."""
    path = folder / "kustomization.yaml"
    kustomization = yaml.safe_load(path.read_text())
    unknown = kustomization.keys() - {"apiVersion", "kind", "resources"}
    if unknown:
        raise SystemExit(f"{path}: {', '.join(sorted(unknown))} cannot be rendered")
    parts: list[str] = []
    for name in kustomization["resources"]:
        resource = folder / name
        parts += resources(resource) if resource.is_dir() else [resource.read_text().removeprefix("---\n").strip()]
    return parts


def render() -> str:
    """Return the resources of the kustomization in its order, in one file."""
    return HEAD + "\n---\n".join(resources(HERE)) + "\n"


def main() -> None:
    """Render, or check."""
    target = HERE / "install.yaml"
    current = render()
    if "--check" not in sys.argv[1:]:
        target.write_text(current)
    elif not target.exists() or target.read_text() != current:
        raise SystemExit("manifests/install.yaml is not current: run `make manifests`")


if __name__ == "__main__":
    main()
