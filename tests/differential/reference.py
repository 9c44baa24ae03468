"""The same model in float64, node by node, by ONNX's reference evaluator: who is nearer to the truth?

A trial adds the rounding that the written types allow: operands and results of every node that rounds
are changed by up to half a unit of their dtype, at random. What differs from trial to trial, no
implementation can be held to, be it the last bits of a sum or which of two near ties is larger.
"""

import math
import warnings

import ml_dtypes  # noqa: F401
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import known
import truth_contrib
import truth_layers
import truth_ops
from model import IR_OF_OPSET, Case, names_read, qualified
from values import BF16, BOOL, F64, FLOATS

ROUNDING = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float16): 2.0**-11, BF16: 2.0**-8,
            F64: 2.0**-53}

# Operators that round nothing: their results are exact for exact operands.
EXACT = {"Abs", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
         "BitwiseXor", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "Constant",
         "ConstantOfShape", "DepthToSpace", "Dropout", "Equal", "Expand", "EyeLike", "Flatten", "Floor",
         "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Hardmax", "Identity",
         "IsInf", "IsNaN", "Less", "LessOrEqual", "Max", "MaxPool", "GlobalMaxPool", "Min", "Neg",
         "NonZero", "Not", "OneHot", "Or", "Pad", "Range", "ReduceMax", "ReduceMin", "Relu", "Reshape",
         "ReverseSequence", "Round", "Shape", "Sign", "Size", "Slice", "SpaceToDepth",
         "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
         "MatMulInteger", "ConvInteger", "ThresholdedRelu", "ConcatFromSequence", "SequenceAt",
         "SequenceLength"}


# Their numbers are float32 also where the tensors are float64: attributes, or what they compute in.
SINGLE = {"Celu", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Selu", "Shrink", "Gemm", "LRN",
          "ThresholdedRelu", "LayerNormalization", "GroupNormalization", "RMSNormalization",
          "InstanceNormalization", "BatchNormalization", "Resize", "Upsample", "LpNormalization",
          "MeanVarianceNormalization", "BlackmanWindow", "HannWindow", "HammingWindow"}

# An error relative to the largest result (recurrent: of what is computed inside), or of this size.
OF_TENSOR = {"LSTM", "GRU", "RNN", "BlackmanWindow", "HannWindow", "HammingWindow",
             "Resize", "Upsample", "If", "Loop", "Scan",
             "DFT", "STFT", "GridSample"}
ABSOLUTE = {"BlackmanWindow": 1.5e-8, "HannWindow": 1.5e-8, "LogSoftmax": 6e-8, "SoftmaxCrossEntropyLoss": 6e-8}
# 1 + erf(x) or a sigmoid in float32, times x: an error relative to the operand.
OF_OPERAND = {"Gelu"} | {f"com.microsoft.{name}" for name in ("Gelu", "BiasGelu", "FastGelu", "QuickGelu")}

# Whether a 0 has a sign hangs on the order of the sum, or on which of two equal ones is taken.
OPEN_ZEROS = {*known.PRODUCTS, "Max", "Min", "ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool", "Clip"}

TRUTH = truth_ops.OPERATORS | truth_layers.OPERATORS | truth_contrib.OPERATORS


class Unknown(Exception):
    """The reference has no answer."""


def rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """As a value of that dtype, in float64 if it is a float."""
    if dtype not in FLOATS:
        return np.asarray(array).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.asarray(array, F64).astype(dtype), F64)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(F64) if array.dtype in FLOATS else array


def _wide_node(node: onnx.NodeProto) -> onnx.NodeProto:
    """With float64 where it names a float type."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    floats = {helper.np_dtype_to_tensor_dtype(t) for t in FLOATS}
    for attribute in made.attribute:
        if attribute.name in ("dtype", "output_datatype", "output_dtype") and attribute.i in floats:
            attribute.i = onnx.TensorProto.DOUBLE
        elif attribute.HasField("t") and attribute.t.data_type in floats:
            attribute.t.CopyFrom(numpy_helper.from_array(_wide(numpy_helper.to_array(attribute.t))))
        elif attribute.HasField("g"):
            attribute.g.CopyFrom(_wide_graph(attribute.g))
    return made


def _wide_graph(graph: onnx.GraphProto) -> onnx.GraphProto:
    return helper.make_graph(
        [_wide_node(node) for node in graph.node], graph.name,
        [helper.make_value_info(read.name, onnx.TypeProto()) for read in graph.input],
        [helper.make_value_info(output.name, onnx.TypeProto()) for output in graph.output],
        [numpy_helper.from_array(_wide(numpy_helper.to_array(t)), t.name) for t in graph.initializer])


_TRUE = "_true"  # an operand of loops without a condition, which the evaluator takes for false


def as_evaluated(node: onnx.NodeProto, opset: int) -> tuple[onnx.NodeProto, int]:
    """The node and opset that mean the same to ONNX's evaluator, where it knows newer forms alone."""
    made = _wide_node(node)
    if node.op_type == "RoiAlign" and opset < 16:
        made.attribute.append(helper.make_attribute("coordinate_transformation_mode", "output_half_pixel"))
        return made, 16
    linear = any(a.name == "mode" and a.s == b"linear" for a in node.attribute)
    if node.op_type in ("Resize", "Upsample") and len(node.input) == 2 and linear:
        scales = node.input[1]
        del made.input[1:]
        made.op_type = "Resize"
        made.input.extend(["", scales])
        made.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
        return made, 19
    if node.op_type == "Loop" and not node.input[1]:
        made.input[1] = _TRUE
    modes = {b"bilinear": b"linear", b"bicubic": b"cubic"}  # as GridSample called them before opset 20
    for attribute in made.attribute if node.op_type == "GridSample" else []:
        attribute.s = modes.get(attribute.s, attribute.s)
    if node.op_type == "GridSample":
        return made, 20
    if node.op_type == "Scatter":
        made.op_type = "ScatterElements"
        return made, 18
    return made, opset


def truth_of(node: onnx.NodeProto, opset: int):
    """Our own evaluation of the operator, or none."""
    name = qualified(node)
    older = truth_layers.BEFORE_13.get(name) if opset < 13 else None
    return older or TRUTH.get(name)


def _nearest(session: ReferenceEvaluator, node: onnx.NodeProto, feeds: dict) -> np.ndarray:
    """By the elements' numbers: the evaluator multiplies what isn't nearest by 0, which may be infinite."""
    x = feeds[node.input[0]]
    numbers = np.arange(x.size, dtype=F64).reshape(x.shape)
    places = session.run(None, feeds | {node.input[0]: numbers})[0]
    return x.reshape(-1)[np.rint(places).astype(np.int64)]


def _signs(noise: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Of elements: all alike, or each its own."""
    return noise.choice([-1.0, 1.0], shape if noise.random() < 0.5 else ())


def _kept(node: onnx.NodeProto, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """In float64, or the integers of the model; those that are interpolated are made integers later."""
    if dtype in FLOATS or node.op_type in ("Resize", "Upsample"):
        return array.astype(F64)
    return array.astype(dtype)


def as_integers(node: onnx.NodeProto, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Interpolated integers: cut off where they are linear, else rounded (docs/onnx.md)."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    rounds = given.get("mode") == b"cubic" or given.get("antialias", 0)
    info = np.iinfo(dtype)
    whole = np.rint(array) if rounds else np.trunc(array)
    return np.clip(whole, info.min, info.max).astype(dtype)


class Double:
    """Evaluates a case in float64."""

    def __init__(self, case: Case):
        self._case = case
        for node in case.nodes:
            if node.op_type != "SequenceConstruct" and any(n and n not in case.types for n in node.output):
                raise Unknown(f"{node.op_type}: its result is no tensor")
        self._nodes = [(node, self._session(node)) for node in case.nodes]

    def _session(self, node: onnx.NodeProto) -> ReferenceEvaluator | None:
        evaluated, opset = as_evaluated(node, self._case.opset)
        read = sorted(names_read(evaluated) & {*self._case.types, _TRUE})
        info = [helper.make_value_info(name, onnx.TypeProto()) for name in read]
        graph = helper.make_graph(
            [evaluated], "one", info,
            [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name])
        model = helper.make_model(graph, opset_imports=Case(opset, [node]).domains(),
                                  ir_version=IR_OF_OPSET[opset])
        try:
            return None if truth_of(node, self._case.opset) else ReferenceEvaluator(model)
        except Exception as error:  # noqa: BLE001: whatever it throws for what it doesn't have
            raise Unknown(str(error)) from error

    def run(self, noise: np.random.Generator | None = None, store: bool = False) -> dict[str, np.ndarray]:
        """All values. With noise: one trial. With `store`, results are rounded to their dtypes."""
        found = {name: _wide(array)
                 for name, array in (self._case.constants | self._case.inputs).items()}
        for node, session in self._nodes:
            feeds = {name: found[name] for name in sorted(names_read(node)) if name in found}
            if node.op_type in ("Resize", "Upsample"):  # not cut off before it is disturbed
                feeds[node.input[0]] = feeds[node.input[0]].astype(F64)
            if node.op_type == "SequenceConstruct":
                found[node.output[0]] = [found[name] for name in node.input]
                continue
            inexact = qualified(node) not in EXACT
            if noise is not None and inexact:
                feeds = {name: self._disturb(node, name, array, noise)
                         for name, array in feeds.items()}
            for name, array in zip((n for n in node.output if n), self._results(node, session, feeds)):
                dtype = self._case.types[name].dtype
                if noise is not None and node.op_type in OPEN_ZEROS and array.dtype == F64:
                    array = np.where(array == 0, np.copysign(array, _signs(noise, array.shape)), array)
                if noise is not None and inexact:
                    array = self._disturb(node, name, array, noise, result=True)
                    if qualified(node) in OF_OPERAND:
                        array = array + feeds[node.input[0]] * ROUNDING[dtype] * noise.choice([-1.0, 1.0])
                if array.dtype == F64 and dtype not in FLOATS:
                    array = as_integers(node, array, dtype)
                found[name] = rounded(array, dtype) if store else array
        return found

    def _results(self, node: onnx.NodeProto, session, feeds: dict) -> list[np.ndarray]:
        """In float64 or the integer types of the model."""
        wanted = [self._case.types[name].dtype for name in node.output if name]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results = self._special(node, feeds) or self._session_run(node, session, feeds)
                return [_kept(node, np.asarray(array), dtype) for array, dtype in zip(results, wanted)]
        except Exception as error:  # noqa: BLE001: whatever the evaluator throws
            raise Unknown(f"{node.op_type}: {error}") from error

    def _special(self, node: onnx.NodeProto, feeds: dict) -> list[np.ndarray] | None:
        """Where a float type in the model is a rounding in the meaning."""
        if node.op_type in ("Cast", "CastLike"):
            target = self._case.types[node.output[0]].dtype
            x = feeds[node.input[0]]
            if target in FLOATS:
                return [rounded(x, target)]
            if target == BOOL:
                return [x != 0]
            if x.dtype in FLOATS:
                return [np.trunc(x).astype(target)]
            return [x.astype(target)]
        return None

    def _session_run(self, node, session, feeds: dict) -> list[np.ndarray]:
        if session is not None:
            if node.op_type in ("Resize", "Upsample") and not any(a.s == b"linear" or a.s == b"cubic"
                                                                  for a in node.attribute):
                return [_nearest(session, node, feeds)]
            extra = {_TRUE: np.array(True)} if _TRUE in session.input_names else {}
            found = session.run(None, feeds | extra)
            if node.op_type != "Loop":
                return found
            # The evaluator joins what a loop gathers along its first dim instead of stacking it.
            shapes = [self._case.types[name].shape for name in node.output if name]
            return [x.reshape(shape) if np.size(x) == math.prod(shape) else x
                    for x, shape in zip(map(np.asarray, found), shapes)]
        made = [self._case.types[name] for name in node.output if name]
        found = truth_of(node, self._case.opset)(node, [feeds.get(n) for n in node.input], made)
        if found is None:
            raise Unknown(f"{node.op_type}: this form isn't known")
        return found

    def _disturb(self, node, name: str, array: np.ndarray, noise: np.random.Generator,
                 result: bool = False) -> np.ndarray:
        value = self._case.types.get(name)
        unit = value and ROUNDING.get(value.dtype)
        if node.op_type in ("Resize", "Upsample") and array.dtype == F64:
            unit = unit or 2.0**-24
        if unit is None or array.dtype != F64:
            return array
        if node.op_type in ("Resize", "Upsample") and name in node.input[1:]:
            return array  # scales decide shapes
        if node.op_type == "Pow" and not result and name == node.input[1] and np.all(array == np.rint(array)):
            return array  # a power that isn't whole has no odd or even
        if value.dtype == BF16 and node.op_type in known.PRODUCTS and not result and noise.random() < 0.5:
            array = np.where(np.abs(array) < 2.0**-126, 0 * array, array)  # docs/limitations.md
        if node.op_type in SINGLE:
            unit = max(unit, 2.0**-24)
        unit = max(unit, 2.0**-51)  # less would be rounded away here
        signs = noise.choice([-1.0, 1.0, 0.5, -0.5], array.shape)
        with np.errstate(all="ignore"):
            changed = array * (1 + unit * signs)
            if result and node.op_type in OF_TENSOR and array.size:
                changed = changed + unit * signs * np.nanmax(np.abs(array), initial=0)
            if result and node.op_type in ABSOLUTE:
                changed = changed + ABSOLUTE[node.op_type] * signs
        return changed


def perturbed(case: Case, noise: np.random.Generator) -> tuple[dict, dict]:
    """Inputs and constants changed by their rounding, for an oracle that can't tell its steps."""
    def change(array: np.ndarray) -> np.ndarray:
        unit = ROUNDING.get(array.dtype)
        if unit is None:
            return array
        with np.errstate(all="ignore"):
            wide = array.astype(F64) * (1 + 2 * unit * noise.choice([-1.0, 1.0], array.shape))
            return wide.astype(array.dtype)
    return ({k: change(v) for k, v in case.inputs.items()},
            {k: change(v) for k, v in case.constants.items()})
