"""Plays the demo and draws what it showed: ``docs/demo.svg``.

The numbers in the picture are those of the run that drew it.
"""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI

from vgpu_devcluster.demo.session import run_demo
from vgpu_devcluster.demo.terminal import TerminalOutput

PICTURE = Path(__file__).parent / "demo.svg"
TITLE = "make demo"
_WIDTH = 112
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# rich's own frame fetches a font from elsewhere: pictures in a README may not
_FRAME = (
    '<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">\n'
    "<style>\n"
    f".rich-terminal {{{{ font-family: {_FONT}; }}}}\n"
    ".{unique_id}-matrix {{ font-size: {char_height}px; line-height: {line_height}px; }}\n"
    ".{unique_id}-title {{ font-size: 18px; font-weight: bold; }}\n"
    "{styles}\n</style>\n"
    '<defs>\n<clipPath id="{unique_id}-clip-terminal">\n'
    '<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />\n</clipPath>\n{lines}\n</defs>\n'
    "{chrome}\n"
    '<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">\n'
    '{backgrounds}\n<g class="{unique_id}-matrix">\n{matrix}\n</g>\n</g>\n</svg>\n'
)


def main() -> None:
    """Play, and write the picture."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="standard")
    asyncio.run(run_demo(TerminalOutput(console, live=False), 200, log=None, keep=False, kubeconfig=None))
    picture = console.export_svg(title=TITLE, theme=DIMMED_MONOKAI, code_format=_FRAME, unique_id="demo")
    PICTURE.write_text(picture)
    sys.stdout.write(f"{PICTURE.name} is drawn\n")


if __name__ == "__main__":
    main()
