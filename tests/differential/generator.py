"""Random models: single operators, chains, products with epilogues, graphs, branches of an If."""

import numpy as np
import onnx
from onnx import helper

import ops_attention  # noqa: F401  (the files of rows fill the table)
import ops_control  # noqa: F401
import ops_elementwise
import ops_linear
import ops_movement  # noqa: F401
import ops_quantize
import ops_reduce  # noqa: F401
import ops_vision  # noqa: F401
import table
import values
from model import Builder, Case, Skip, onnx_type
from values import BF16, BOOL, F16, F32, F64

NEWEST_OPSET = 26
TRIES = 60
OPSETS = {7: 1, 8: 1, 9: 1, 10: 1, 11: 3, 12: 2, 13: 6, 14: 2, 15: 2, 16: 2, 17: 6, 18: 5, 19: 4,
          20: 4, 21: 5, 22: 2, 23: 2, 24: 2, 25: 1, 26: 1}
DTYPES = {F32: 14, F16: 2, BF16: 1, F64: 1.5}
SHAPES = {"single": 8, "chain": 6, "epilogue": 6, "graph": 5, "quantised": 1.5, "branch": 0.6}
# Shapes depend on the values of their operands, which have to be constants.
NEED_VALUES = ("BlackmanWindow", "HannWindow", "HammingWindow", "ConstantOfShape", "MelWeightMatrix",
               "NonZero", "Range")


class Generator:
    """Model number `number` of a seed; equal arguments give equal models."""

    def __init__(self, seed: int, only: list[str] | None = None, newest: int = NEWEST_OPSET):
        self._seed = seed
        self._only = only
        self._newest = newest

    def make(self, number: int) -> Case:
        rng = np.random.default_rng([self._seed, number])
        for _ in range(TRIES):
            opset = values.choose(rng, {k: v for k, v in OPSETS.items()
                                        if k <= self._newest and self._rows(k)})
            rows = self._rows(opset)
            dtype = values.choose(rng, DTYPES)
            if dtype == BF16 and opset < 13:
                dtype = F32
            builder = Builder(rng, opset, dtype)
            style = "single" if self._only else values.choose(rng, SHAPES)
            try:
                getattr(self, "_" + style)(builder, rows)
                return self._finish(builder)
            except Skip:
                continue
        raise Skip(f"model {number} of seed {self._seed}: nothing valid in {TRIES} tries")

    def _rows(self, opset: int) -> list[table.Row]:
        return [r for r in table.rows_of(opset) if self._only is None or r.name in self._only]

    # Styles

    def _single(self, b: Builder, rows) -> None:
        b.fresh = 1.0
        row = b.one(rows)
        for _ in range(TRIES):
            mark = b.mark()
            try:
                row.make(b)
                return
            except Skip:
                b.reset(mark)
        raise Skip(row.name)

    def _add(self, b: Builder, rows, tries: int = 12) -> bool:
        for _ in range(tries):
            mark = b.mark()
            try:
                b.one(rows).make(b)
                return True
            except Skip:
                b.reset(mark)
        return False

    def _chain(self, b: Builder, rows) -> None:
        b.fresh = 0.1
        for _ in range(b.between(2, 6)):
            self._add(b, rows)

    def _graph(self, b: Builder, rows) -> None:
        for _ in range(b.one([1, 2])):
            b.new(b.shape(1, 4), constant=0)
        b.fresh = 0.35
        for _ in range(b.between(3, 7)):
            self._add(b, rows)

    def _epilogue(self, b: Builder, rows) -> None:
        """A product or convolution and up to six steps on it, with values used again."""
        b.fresh = 1.0
        linear = [r for r in rows if r.name in ("Conv", "ConvTranspose", "MatMul", "Gemm")]
        x = b.one(linear).make(b)[0]
        if x.dtype not in values.FLOATS:
            raise Skip("integers have no epilogues")
        before = [x]
        for _ in range(b.between(1, 6)):
            mark = b.mark()
            try:
                x = ops_elementwise.step(b, x, before)
                before.append(x)
            except Skip:
                b.reset(mark)
        if b.chance(0.2):
            b.fresh = 0.0
            self._add(b, rows)

    def _quantised(self, b: Builder, rows) -> None:
        """Q and DQ around layers, as the tools of onnxruntime put them."""
        b.dtype = F32
        if b.opset < 11:
            raise Skip("older than quantised models are")
        b.fresh = 1.0
        x = b.new((b.between(1, 4), b.one([3, 8, 16])), F32, "plain", 0)
        for _ in range(b.between(1, 3)):
            x = ops_quantize.pair(b, x)
            w = b.new((x.shape[-1], b.one([4, 8, 17])), F32, "plain", 1)
            x = b.node("MatMul", [x, ops_quantize.pair(b, w) if b.chance(0.8) else w])[0]
            for _ in range(b.between(0, 2)):
                x = ops_elementwise.step(b, x, [])
        ops_quantize.pair(b, x)

    def _branch(self, b: Builder, rows) -> None:
        """An If whose branches compute from outer values what has one type."""
        if b.opset < 11:
            raise Skip("older Ifs have other rules")
        b.fresh = 0.2
        self._add(b, rows)
        x = b.pick((F32,), low=1)
        then, other = (self._block(b, x) for _ in range(2))
        condition = b.add(np.asarray(b.chance(0.5), np.bool_), constant=b.chance(0.2))
        node = helper.make_node("If", [condition.name], [b.name("v")], then_branch=then,
                                else_branch=other)
        b.append(node)
        self._add(b, rows)

    def _block(self, b: Builder, x) -> onnx.GraphProto:
        """Elementwise steps on `x`, as the graph of a branch."""
        mark, before = b.mark(), len(b.case.nodes)
        constants = set(b.case.constants)
        made = x
        for _ in range(b.between(1, 3)):
            made = ops_elementwise.step(b, made, [x])
        nodes = b.case.nodes[before:]
        own = {name: array for name, array in b.case.constants.items() if name not in constants}
        count, inputs = b._count, {**b.case.inputs}
        b.reset(mark)
        b._count = count
        for name, array in inputs.items():  # what a step reads from outside
            b.case.inputs[name] = array
            b.case.types.setdefault(name, type(x)(name, array.dtype, array.shape))
        output = helper.make_tensor_value_info(made.name, onnx_type(made.dtype), made.shape)
        return helper.make_graph(nodes, "branch", [], [output],
                                 [onnx.numpy_helper.from_array(a, n) for n, a in own.items()])

    # Outputs

    def _finish(self, b: Builder) -> Case:
        case = b.case
        if not case.nodes:
            raise Skip("empty")
        made = [name for node in case.nodes for name in node.output if name]
        used = {name for node in case.nodes for name in node.input}
        made = [name for name in made if name in case.types]  # others are sequences
        case.outputs = [name for name in made if name not in used]
        # A value that is used again and given out at once is written in another place.
        inner = [name for name in made if name in used]
        if inner and b.chance(0.25):
            case.outputs.append(b.one(inner))
        if len(case.outputs) > 1 and b.chance(0.3):
            case.outputs = case.outputs[-1:]
        case.prune()
        if not case.inputs and b.chance(0.9):
            first = next(iter(case.constants), None)
            if case.nodes[0].op_type not in NEED_VALUES and first is not None and first in case.nodes[0].input[:1]:
                case.inputs[first] = case.constants.pop(first)
        return case


__all__ = ["BOOL", "Generator", "ops_linear"]
