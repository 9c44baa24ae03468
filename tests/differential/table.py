"""The table of operators: a row each, filled by the ops_*.py files. A new operator is a row more."""

import dataclasses
from collections.abc import Callable

from model import Builder, Value


@dataclasses.dataclass(frozen=True)
class Row:
    name: str  # with its domain before a dot, unless that is ONNX's own
    make: Callable[[Builder], list[Value]]  # adds the operator to a model; Skip where it can't
    since: int = 7  # the first opset that has it in a form that we import
    until: int = 99
    elementwise: bool = False  # of one float tensor's shape: fit for an epilogue


ROWS: dict[str, Row] = {}


def row(name: str, since: int = 7, until: int = 99, elementwise: bool = False):
    """Puts the decorated function into the table."""
    def add(make):
        assert name not in ROWS, f"{name} has a row already"
        ROWS[name] = Row(name, make, since, until, elementwise)
        return make
    return add


def rows_of(opset: int) -> list[Row]:
    return [r for r in ROWS.values() if r.since <= opset <= r.until]
