"""Compiles parts of a fit ahead of time, so that two processes can share the work.

A kernel is compiled with everything that it calls, and :func:`fit_nodes` calls most kernels. Its two halves are about
equally large. Each process finds in the shared cache directory what the other has compiled.
"""

from __future__ import annotations

from typing import Any

from numba import typeof

from vgpu_scheduler.kernels.choice_scores import add_choice_score
from vgpu_scheduler.kernels.choose.dispatch import choose
from vgpu_scheduler.kernels.claim import book
from vgpu_scheduler.kernels.collect import offer_card
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.hami import open_container, why_not_on_node
from vgpu_scheduler.kernels.order import sort_cards, write_keys
from vgpu_scheduler.kernels.request import CardClaim, FitResult, Request, Scratch

_NUMBER = 0


def compile_choosing(columns: DeviceColumns, request: Request, scratch: Scratch, result: FitResult) -> None:
    """Compile the kernels that choose among candidates, for the argument types of :func:`fit_nodes`."""
    _compile(choose, columns, request, scratch, _claim(scratch, result), _NUMBER)


def compile_collecting(columns: DeviceColumns, request: Request, scratch: Scratch, result: FitResult) -> None:
    """Compile the kernels that find, book and score candidates, for the argument types of :func:`fit_nodes`."""
    here = _claim(scratch, result)
    _compile(offer_card, columns, request, scratch, here, _NUMBER, _NUMBER)
    _compile(open_container, columns, request, scratch, here)
    _compile(why_not_on_node, columns, request, here)
    _compile(write_keys, columns, request, scratch, here)
    _compile(sort_cards, scratch.keys, here.order)
    _compile(book, columns, request, scratch, here)
    _compile(add_choice_score, columns, request, scratch, here, result.choice_score[0])


def _claim(scratch: Scratch, result: FitResult) -> CardClaim:
    order, used, counts = scratch.order[0], scratch.used[0], result.counts[0]
    return CardClaim(_NUMBER, _NUMBER, _NUMBER, order, used, counts, result.cards[:1])


def _compile(function: Any, *arguments: object) -> None:
    types = [typeof(argument) for argument in arguments]  # type: ignore[no-untyped-call]
    function.compile(tuple(types))
