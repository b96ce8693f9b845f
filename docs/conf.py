"""How the pages become a site (`make docs`): Sphinx with MyST, from the root of the tree, strictly."""

import tomllib
from pathlib import Path

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

project = _PROJECT["name"]
version = release = _PROJECT["version"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "*.md", "charts/vgpu-scheduler/README.md"]
exclude_patterns = [".venv", ".git", "build", "tests", "operator", "benchmarks"]

extensions = ["myst_parser"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"vgpu-scheduler {version}"
html_show_copyright = False
