"""Makes a model on which something is wrong smaller while the same is wrong."""

import time
from collections.abc import Callable

import numpy as np

from judge import Verdict, run_onnxruntime
from model import Case
from reference import Unknown

MOST_STEPS = 150
MOST_SECONDS = 20.0


def shrink(case: Case, verdict: Verdict, judge: Callable[[Case], Verdict]) -> tuple[Case, Verdict]:
    """`judge` gives the verdict of a smaller case."""
    state = _Shrinking(case, verdict, judge)
    while not state.spent() and any(
            state.accept(other) for step in (_one_output, _cut_nodes, _bypass, _fewer_inputs)
            for other in step(state.case)):
        pass
    return state.case, state.verdict


class _Shrinking:
    def __init__(self, case: Case, verdict: Verdict, judge: Callable[[Case], Verdict]):
        self.case, self.verdict, self.steps = case, verdict, 0
        self._judge = judge
        self._end = time.monotonic() + MOST_SECONDS

    def spent(self) -> bool:
        return self.steps >= MOST_STEPS or time.monotonic() > self._end

    def accept(self, other: Case) -> bool:
        self.steps += 1
        if self.spent() or not other.nodes:
            return False
        found = self._judge(other)
        if found.kind != self.verdict.kind:
            return False
        self.case, self.verdict = other, found
        return True


def _one_output(case: Case):
    if len(case.outputs) > 1:
        for name in case.outputs:
            other = case.clone()
            other.outputs = [name]
            yield other.prune()


def _cut_nodes(case: Case):
    """A node's results become inputs, with the values that onnxruntime gives them."""
    for i in range(len(case.nodes)):
        names = [name for name in case.nodes[i].output if name]
        if any(name in case.outputs for name in names) or len(case.nodes) == 1:
            continue
        probe = case.clone()
        probe.outputs = names
        try:
            found = run_onnxruntime(probe.prune())
        except Unknown:
            continue
        other = case.clone()
        other.nodes = case.nodes[:i] + case.nodes[i + 1:]
        other.inputs |= {name: np.asarray(array) for name, array in found.items()}
        yield other.prune()


def _bypass(case: Case):
    """The last node's operand is given out instead of its result; or a node in between left out."""
    for i in reversed(range(len(case.nodes))):
        node = case.nodes[i]
        for name in node.input:
            known = case.types.get(name)
            if not known or not node.output or case.types.get(node.output[0]) is None:
                continue
            made = case.types[node.output[0]]
            other = case.clone()
            if node.output[0] in case.outputs:
                if name in case.inputs or name in case.constants:
                    continue
                other.outputs = [name]
            elif (known.dtype, known.shape) == (made.dtype, made.shape):
                other.nodes = [n if node.output[0] not in n.input else _renamed(n, node.output[0], name)
                               for n in case.nodes[:i] + case.nodes[i + 1:]]
            else:
                continue
            yield other.prune()


def _renamed(node, old: str, new: str):
    made = type(node)()
    made.CopyFrom(node)
    for k, name in enumerate(made.input):
        if name == old:
            made.input[k] = new
    return made


def _fewer_inputs(case: Case):
    """Data of one kind instead of another: ones where that does, too."""
    for store in ("inputs", "constants"):
        for name, array in getattr(case, store).items():
            if array.dtype.kind in "fV" and array.size and not np.all(array == 1):
                other = case.clone()
                getattr(other, store)[name] = np.ones_like(array)
                yield other
