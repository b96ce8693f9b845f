"""Conditions on interned columns: evaluated once per distinct value, then looked up per row."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import NodeSelectorTerm, Operator, PodSpec, Requirement
from vgpu_scheduler.kube.selectors import FieldRequirement, label_equals
from vgpu_scheduler.state import NodeTable
from vgpu_scheduler.state.columns import InternedColumn

_Value = TypeVar("_Value", bound=Hashable)


class ValueLookup(Generic[_Value]):
    """Evaluates a condition on the values of an interned column.

    Parameters
    ----------
    absent
        The answer for rows without a value.
    accepts
        Returns the answer for a value; called once per value.
    exceptions
        An optimisation for conditions on few values among many: these values, and the common answer for all others.
        ``accepts`` is then called for these values only.
    """

    __slots__ = ("_absent", "_accepts", "_column", "_epoch", "_exceptions", "_table", "_values")

    def __init__(
        self,
        *,
        absent: bool,
        accepts: Callable[[_Value], bool],
        exceptions: tuple[frozenset[_Value], bool] | None = None,
    ) -> None:
        self._absent = absent
        self._accepts = accepts
        self._exceptions = exceptions
        self._column: InternedColumn[_Value] | None = None
        self._epoch = 0
        self._values = 0
        self._table: NDArray[np.bool_] = np.array([absent])

    def __call__(self, column: InternedColumn[_Value], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Answer for each of the rows; shape as ``rows``."""
        if column is not self._column or column.epoch != self._epoch:
            self._column, self._epoch, self._values = column, column.epoch, 0
            self._table = np.array([self._absent])
        if self._values != len(column.values):
            # The answer for absence stays last, at index -1, which is the id of absent values.
            self._table = np.concatenate((self._table[:-1], self._answers(column), self._table[-1:]))
            self._values = len(column.values)
        return self._table.take(column.ids.take(rows))

    def _answers(self, column: InternedColumn[_Value]) -> NDArray[np.bool_]:
        """Return the answers for the values that are new in the column."""
        first = self._values
        if self._exceptions is None:
            return np.fromiter((self._accepts(value) for value in column.values[first:]), dtype=np.bool_)
        values, others = self._exceptions
        answers = np.full(len(column.values) - first, others)
        for value in values:
            value_id = column.find(value)
            if value_id is not None and value_id >= first:
                answers[value_id - first] = self._accepts(value)
        return answers


class NumberLookup(Generic[_Value]):
    """A number for each row of an interned column, by its value; 0 for rows without one.

    Parameters
    ----------
    number
        Returns the number of a value; called once per value.
    """

    __slots__ = ("_column", "_epoch", "_number", "_table")

    def __init__(self, number: Callable[[_Value], int]) -> None:
        self._number = number
        self._column: InternedColumn[_Value] | None = None
        self._epoch = 0
        self._table: list[int] = []

    def __call__(self, column: InternedColumn[_Value], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each of the rows; shape as ``rows``."""
        if column is not self._column or column.epoch != self._epoch:
            self._column, self._epoch, self._table = column, column.epoch, []
        self._table += [self._number(value) for value in column.values[len(self._table) :]]
        # The number for absence comes last, at index -1, which is the id of absent values.
        return np.array([*self._table, 0], dtype=np.int64).take(column.ids.take(rows))


class LabelLookup:
    """Evaluates a requirement on a node label."""

    __slots__ = ("_key", "_lookup")

    def __init__(self, requirement: Requirement) -> None:
        self._key = requirement.key
        compares = requirement.operator in (Operator.GT, Operator.LT)
        others = requirement.operator in (Operator.NOT_IN, Operator.EXISTS)
        self._lookup: ValueLookup[str] = ValueLookup(
            absent=requirement.matches(None),
            accepts=requirement.matches,
            exceptions=None if compares else (requirement.values, others),
        )

    def __call__(self, nodes: NodeTable, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Answer for each of the rows; shape as ``rows``."""
        return self._lookup(nodes.labels.column(self._key), rows)


class TermLookup:
    """Evaluates a term of a node affinity: all its expressions and fields."""

    __slots__ = ("_fields", "_labels")

    def __init__(self, term: NodeSelectorTerm) -> None:
        self._labels = [LabelLookup(requirement) for requirement in term.expressions]
        self._fields = term.fields

    def __call__(self, nodes: NodeTable, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Answer for each of the rows; shape as ``rows``."""
        answers = np.ones(rows.shape[0], dtype=np.bool_)
        for field in self._fields:
            answers &= _field(field, nodes, rows)
        for label in self._labels:
            answers &= label(nodes, rows)
        return answers


class NodeAffinityLookup:
    """Evaluates a pod's node selector and required node affinity; falsy if the pod has neither."""

    __slots__ = ("_selector", "_terms")

    def __init__(self, spec: PodSpec) -> None:
        self._selector = [LabelLookup(requirement) for requirement in label_equals(spec.node_selector)]
        self._terms = None if spec.node_affinity is None else [TermLookup(term) for term in spec.node_affinity.terms]

    def __bool__(self) -> bool:
        return bool(self._selector) or self._terms is not None

    def __call__(self, nodes: NodeTable, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Answer for each of the rows; shape as ``rows``."""
        matches = np.ones(rows.shape[0], dtype=np.bool_)
        for label in self._selector:
            matches &= label(nodes, rows)
        if self._terms is not None:
            chosen = np.zeros(rows.shape[0], dtype=np.bool_)
            for term in self._terms:
                chosen |= term(nodes, rows)
            matches &= chosen
        return matches


def _field(field: FieldRequirement, nodes: NodeTable, rows: NDArray[np.int64]) -> NDArray[np.bool_] | bool:
    if field.key != "metadata.name":
        return field.matches("")
    row = nodes.row(field.value)
    if row is None:
        return field.negated
    there: NDArray[np.bool_] = rows == row
    return ~there if field.negated else there
