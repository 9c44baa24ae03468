"""A model under construction: nodes, values with their types, and the data of inputs and constants."""

import copy
import dataclasses

import ml_dtypes  # noqa: F401  (numpy learns bfloat16 by it)
import numpy as np
import onnx
from onnx import helper, numpy_helper

import values
from values import BOOL, F32, I64

MOST_ELEMENTS = 20_000
IR_OF_OPSET = {opset: 4 if opset < 10 else 7 if opset < 15 else 8 if opset < 19 else 9
               for opset in range(7, 21)} | {opset: 10 for opset in range(21, 27)}


class Skip(Exception):
    """What was drawn makes no valid node: draw again."""


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)


def onnx_type(dtype: np.dtype) -> int:
    return helper.np_dtype_to_tensor_dtype(dtype)


@dataclasses.dataclass
class Case:
    """A whole model with its data. `nodes` are in order; `types` knows every value."""
    opset: int
    nodes: list[onnx.NodeProto] = dataclasses.field(default_factory=list)
    inputs: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    constants: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    outputs: list[str] = dataclasses.field(default_factory=list)
    types: dict[str, Value] = dataclasses.field(default_factory=dict)

    def clone(self) -> "Case":
        return Case(self.opset, list(self.nodes), dict(self.inputs), dict(self.constants),
                    list(self.outputs), dict(self.types))

    def operators(self) -> list[str]:
        return [qualified(node) for node in self.nodes]

    def domains(self) -> list[onnx.OperatorSetIdProto]:
        found = [helper.make_opsetid("", self.opset)]
        if any(node.domain for node in self.nodes):
            found.append(helper.make_opsetid("com.microsoft", 1))
        return found

    def prune(self) -> "Case":
        """Without what no output hangs on."""
        wanted = set(self.outputs)
        kept = []
        for node in reversed(self.nodes):
            if wanted & set(node.output):
                kept.append(node)
                wanted |= names_read(node)
        self.nodes = kept[::-1]
        self.inputs = {k: v for k, v in self.inputs.items() if k in wanted}
        self.constants = {k: v for k, v in self.constants.items() if k in wanted}
        return self

    def proto(self, name: str = "case") -> onnx.ModelProto:
        def info(value: str) -> onnx.ValueInfoProto:
            known = self.types[value]
            return helper.make_tensor_value_info(value, onnx_type(known.dtype), known.shape)

        graph = helper.make_graph(
            self.nodes, name, [info(v) for v in self.inputs], [info(v) for v in self.outputs],
            [numpy_helper.from_array(v, k) for k, v in self.constants.items()])
        return helper.make_model(graph, opset_imports=self.domains(),
                                 ir_version=IR_OF_OPSET[self.opset])


def qualified(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def names_read(node: onnx.NodeProto) -> set[str]:
    found = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else []:
            found |= {name for inner in graph.node for name in names_read(inner)}
            found |= {output.name for output in graph.output}
    return found


def infer(case: Case, node: onnx.NodeProto) -> list[Value]:
    """The types of a node's outputs by ONNX's own rules; Skip where it is invalid."""
    read = [name for name in dict.fromkeys(n for n in names_read(node)) if name in case.types]
    constants = {name: case.constants[name] for name in read if name in case.constants}
    graph = helper.make_graph(
        [node], "one",
        [helper.make_tensor_value_info(n, onnx_type(case.types[n].dtype), case.types[n].shape)
         for n in read if n not in constants],
        [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=Case(case.opset, [node]).domains(),
                              ir_version=IR_OF_OPSET[case.opset])
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:  # noqa: BLE001: its exceptions are of C++ classes of several kinds
        raise Skip(str(error).splitlines()[0]) from error
    found = []
    for output in inferred.graph.output:
        tensor = output.type.tensor_type
        if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
            raise Skip(f"{node.op_type}: the shape of {output.name} isn't known")
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        found.append(Value(output.name, dtype, tuple(d.dim_value for d in tensor.shape.dim)))
    return found


class Builder:
    """What the operators' rows draw from: a random source, the values so far, means to add nodes."""

    def __init__(self, rng: np.random.Generator, opset: int, dtype: np.dtype):
        self.rng = rng
        self.case = Case(opset)
        self.dtype = dtype  # of most float values
        self.live: list[Value] = []
        self.fresh = 0.3  # how often an operand is a new one though others would do
        self._count = 0

    @property
    def opset(self) -> int:
        return self.case.opset

    # Draws

    def below(self, count: int) -> int:
        return int(self.rng.integers(count))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one(self, options):
        return options[self.below(len(options))]

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def size(self, most: int = 13) -> int:
        if self.chance(0.03):
            return 0
        return self.one([n for n in (1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 24, 32, 33, 64)
                         if n <= most])

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        rank = self.between(low, high)
        return tuple(self.size(64 if rank == 1 else 33 if rank == 2 else 8) for _ in range(rank))

    # Values

    def name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def add(self, array: np.ndarray, constant: bool = False) -> Value:
        array = np.asarray(array)
        value = Value(self.name("c" if constant else "x"), array.dtype, array.shape)
        (self.case.constants if constant else self.case.inputs)[value.name] = array
        self.case.types[value.name] = value
        if not constant:
            self.live.append(value)
        return value

    def const(self, data, dtype: np.dtype = I64) -> Value:
        return self.add(np.asarray(data, dtype), constant=True)

    def new(self, shape: tuple, dtype: np.dtype | None = None, kind: str | None = None,
            constant: float = 0.3) -> Value:
        if min(shape, default=0) < 0:
            raise Skip("a negative size")
        array = values.tensor(self.rng, dtype or self.dtype, shape, kind)
        return self.add(array, constant=self.chance(constant))

    def weights(self, shape: tuple, dtype: np.dtype | None = None) -> Value:
        """Mostly constant; not so large that sums overflow, but of any kind now and then."""
        kind = "plain" if self.chance(0.75) else None
        return self.new(shape, dtype, kind, constant=0.8)

    def pick(self, dtypes=None, low: int = 0, high: int = 5, fits=lambda value: True,
             shape: tuple | None = None, kind: str | None = None) -> Value:
        """A value there is, mostly one of the last, or a new one of a shape that fits."""
        dtypes = dtypes or (self.dtype,)
        found = [v for v in self.live if v.dtype in dtypes and low <= v.rank <= high and fits(v)
                 and (shape is None or v.shape == shape)]
        if found and not self.chance(self.fresh):
            back = self.below(len(found)) if self.chance(0.3) else self.below(min(2, len(found)))
            return found[len(found) - 1 - back]
        dtype = self.dtype if self.dtype in dtypes and self.chance(0.7) else self.one(dtypes)
        for _ in range(20):
            made = self.shape(low, min(high, 4) if high >= low else low) if shape is None else shape
            if fits(Value("", dtype, made)):
                return self.new(made, dtype, kind, constant=0.1)
        raise Skip("no shape fits")

    def broadcast(self, like: Value, dtype: np.dtype | None = None, one_way: bool = False) -> Value:
        """An operand that goes together with `like`: of its shape, a row, a scalar, ..."""
        dtype = dtype or like.dtype
        same = [v for v in self.live if v.dtype == dtype and v.shape == like.shape]
        if same and self.chance(0.3):
            return self.one(same)
        sizes = list(like.shape)
        how = self.below(5)
        if how == 0:
            sizes = []
        elif how == 1:
            sizes = sizes[self.below(len(sizes) + 1):]
        elif how == 2:
            sizes = [n if self.chance(0.5) else 1 for n in sizes]
        elif how == 3 and not one_way and len(sizes) < 4 and self.chance(0.4):
            sizes = [self.between(1, 3), *sizes]
        return self.new(tuple(sizes), dtype, constant=0.5)

    # Nodes

    def node(self, op: str, inputs: list, outputs: int = 1, domain: str = "",
             made: list[tuple] | None = None, **attributes):
        """Adds a node; its outputs become values that others may pick. Skip where it is invalid.
        An output is asked for where `outputs`, a count or a list of flags, says so. `made` are dtype
        and shape of each output that is asked for, where ONNX's inference doesn't tell."""
        flags = [True] * outputs if isinstance(outputs, int) else outputs
        names = ["" if i is None else i.name for i in inputs]
        while names and not names[-1]:
            names.pop()
        node = helper.make_node(op, names, [self.name("v") if flag else "" for flag in flags],
                                domain=domain or None,
                                **{k: v for k, v in attributes.items() if v is not None})
        names = [name for name in node.output if name]
        return self.append(node, made and [Value(n, np.dtype(t), tuple(int(d) for d in shape))
                                           for n, (t, shape) in zip(names, made)])

    def append(self, node: onnx.NodeProto, types: list[Value] | None = None) -> list[Value]:
        made = types or infer(self.case, node)
        if any(int(np.prod(value.shape)) > MOST_ELEMENTS for value in made):
            raise Skip("too large")
        self.case.nodes.append(node)
        for value in made:
            self.case.types[value.name] = value
            self.live.append(value)
        return made

    def mark(self):
        return (copy.copy(self.live), self.case.clone())

    def reset(self, mark) -> None:
        live, case = mark
        self.live, self.case = copy.copy(live), case.clone()


__all__ = ["BOOL", "F32", "Builder", "Case", "Skip", "Value", "infer", "onnx_type", "qualified"]
