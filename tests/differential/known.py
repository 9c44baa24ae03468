"""What is no difference of ours: where ONNX leaves the result open, and where the oracles disagree.

`open_result` sees a node with the values that it read, and says what its specification leaves open.
`DISAGREEMENTS` are operators for which onnxruntime differs from ONNX's text; we follow the text. Where
it gives another shape, `not_asked` says so: the float64 evaluation judges such models alone.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import onnx

from model import Case
from values import FLOATS


def attribute(node: onnx.NodeProto, name: str, fallback=None):
    for found in node.attribute:
        if found.name == name:
            return onnx.helper.get_attribute_value(found)
    return fallback


def _out_of_range(array: np.ndarray, target: np.dtype) -> bool:
    info = np.iinfo(target)
    wide = array.astype(np.float64)
    whole = np.trunc(wide)
    return bool(np.any(~np.isfinite(wide) | (whole < info.min) | (whole > info.max)
                       | (np.abs(whole) >= 2.0**63)))


def not_as_reference(node: onnx.NodeProto, read: list[np.ndarray | None], opset: int) -> str:
    """Why we don't do as ONNX's evaluator, but as onnxruntime: docs/onnx.md."""
    name, x = node.op_type, read[0] if read else None
    if name == "Clip" and opset >= 11 and np.isinf(x.astype(np.float64)).any() and (
            len(read) < 3 or read[1] is None or read[2] is None):
        return "bounds that aren't given hold infinities"
    if name == "ReduceMean" and x.dtype not in FLOATS and x.size == 0:
        return "a mean of no integers is 0"
    if name == "Resize" and attribute(node, "mode", b"nearest") == b"nearest":
        return "positions are counted in f32"
    if name == "Resize" and attribute(node, "coordinate_transformation_mode") == b"pytorch_half_pixel" and (
            any(int(n * s) == 1 for n, s in zip(x.shape, read[2] if len(read) > 2 and read[2] is not None else []))
            or len(read) > 3 and read[3] is not None and 1 in read[3]):
        return "pytorch_half_pixel reads the begin of a dim for one element"
    if name == "GridSample" and attribute(node, "mode") in (b"cubic", b"bicubic") and (
            attribute(node, "padding_mode") == b"border"):
        return "each neighbour is held at the border, not the position"
    return ""


def open_result(node: onnx.NodeProto, read: list[np.ndarray | None], made: np.dtype) -> str:
    """Why a node's result is open, or nothing; `made` is the dtype of its first output."""
    name, x = node.op_type, read[0] if read else None
    if name in ("Resize", "Upsample") and x.dtype in FLOATS and not np.isfinite(x.astype(np.float64)).all() and (
            attribute(node, "mode", b"nearest") != b"nearest"):
        return "an infinity or NaN beside a weight of 0"
    if name in ("ReduceL2", "ReduceLogSumExp") and x.dtype not in FLOATS and x.size:
        wide = x.astype(np.float64)
        most = np.linalg.norm(wide) if name == "ReduceL2" else np.max(wide) + math.log(x.size)
        if most >= np.iinfo(x.dtype).max:
            return "a result that the integer can't hold"
    if name in ("Cast", "CastLike") and x.dtype in FLOATS and np.issubdtype(made, np.integer):
        if _out_of_range(x, made):
            return "a cast of what the integer can't hold"
    if name in ("Conv", "ConvTranspose") and not np.isfinite(read[1].astype(np.float64)).all():
        return "an infinite or NaN weight against padding"
    if name in PRODUCTS and _any(read, np.isinf) and _any(read, lambda a: (a != 0) & (np.abs(a) < 2.0**-126)):
        return "an infinity times a subnormal weight, which may become 0"  # docs/rewrites.md
    if name == "AffineGrid" and attribute(node, "align_corners", 0) and 1 in read[1][2:]:
        return "where the one element of a dim lies between corners"  # docs/onnx.md
    if name == "DynamicQuantizeLinear" and not np.isfinite(x).all():
        return "the zero point is a cast of NaN"
    if name == "DynamicQuantizeLinear" and 0 < np.ptp([0.0, *x.reshape(-1)]) / 255 < 2.0**-126:
        return "a scale that is subnormal or 0"
    if name == "MaxPool" and len(node.output) > 1 and _has_window_of_padding(node, x.shape[2:]):
        return "the index of a window of padding alone"
    if name == "QuantizeLinear" and np.isnan(x.astype(np.float64)).any():
        return "NaN quantised"
    if name in ("Div", "Mod") and read[1].dtype not in FLOATS and (read[1] == 0).any():
        return "an integer divided by zero"
    if name == "Pow" and x.dtype not in FLOATS and read[1].dtype in FLOATS and _out_of_range(
            np.power(x.astype(np.float64), read[1].astype(np.float64)), x.dtype):
        return "a power that the integer can't hold"
    if name == "Pow" and x.dtype not in FLOATS and np.any(np.asarray(read[1]) < 0):
        return "an integer to a negative power"
    if name == "MaxPool" and np.isnan(x.astype(np.float64)).any():
        return "NaN in a window"  # docs/limitations.md
    if name in ORDERED and x.dtype in FLOATS and np.isnan(x.astype(np.float64)).any():
        return "the order of NaN"
    if name.startswith("Scatter") and attribute(node, "reduction") in (b"min", b"max") and any(
            np.isnan(a.astype(np.float64)).any() for a in (x, read[2])):
        return "the order of NaN"
    if name == "ReduceMean" and x.dtype not in FLOATS and float(np.abs(x.astype(np.float64)).sum()) > 2.0**53:
        return "a mean of integers with more digits than a double"
    if name == "Range" and len(read) == 3 and read[2] == 0:
        return "a range without a step"
    return ""


def _any(read: list, holds: Callable[[np.ndarray], np.ndarray]) -> bool:
    return any(isinstance(a, np.ndarray) and a.dtype in FLOATS and bool(holds(a.astype(np.float64)).any())
               for a in read)


def _has_window_of_padding(node: onnx.NodeProto, sizes: tuple[int, ...]) -> bool:
    kernel, count = attribute(node, "kernel_shape"), len(sizes)
    pads = attribute(node, "pads") or [0] * 2 * count
    strides, dilations = (attribute(node, name) or [1] * count for name in ("strides", "dilations"))
    for d, n in enumerate(sizes):
        spread = (kernel[d] - 1) * dilations[d] + 1
        windows = -(-(n + pads[d] + pads[d + count] - spread) // strides[d]) + 1
        for p in range(windows):
            taps = (p * strides[d] - pads[d] + i * dilations[d] for i in range(kernel[d]))
            if not any(0 <= tap < n for tap in taps):
                return True
    return False


ORDERED = ("ArgMax", "ArgMin", "Hardmax", "TopK")
SQUARED = ("LpPool", "GlobalLpPool", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
           "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization",
           "MeanVarianceNormalization", "LpNormalization", "ReduceL2", "ReduceSumSquare", "LRN",
           "BatchNormalization")
PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "ReduceSum", "ReduceMean", "CumSum",
            "AveragePool", "GlobalAveragePool", "Mean", "Sum", "ReduceL1", "ReduceLogSum", "LSTM", "GRU",
            "RNN", "RotaryEmbedding", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "FusedMatMul", "FusedGemm", "FusedConv", "Attention", "MultiHeadAttention")


def overflows(node: onnx.NodeProto, read: list[np.ndarray | None], largest: float) -> str:
    """Where the order of sums decides whether a partial one is infinite."""
    floats = [np.abs(x.astype(np.float64))
              for x in read if isinstance(x, np.ndarray) and x.dtype in FLOATS]
    with np.errstate(all="ignore"):
        peaks = [np.max(np.where(np.isfinite(x), x, 0), initial=0) for x in floats]
        count = max((x.size for x in floats), default=1)
        peak = sum(peaks if node.op_type.startswith("Skip") else peaks[:1])
        if node.op_type in SQUARED and peak ** attribute(node, "p", 2) * count > largest:
            return "a square that overflows"
        if node.op_type in SQUARED and math.prod(max(p, 1) for p in peaks[:3]) * count > largest:
            return "a scaled value that overflows"
        if node.op_type in PRODUCTS and math.prod(max(p, 1) for p in peaks[:3]) * count > largest:
            return "a partial sum that may overflow"
        if node.op_type == "ReduceProd" and floats and floats[0].size:
            logs = np.abs(np.log2(np.where((floats[0] > 0) & np.isfinite(floats[0]), floats[0], 1)))
            if float(np.sum(logs)) > math.log2(largest) - 2:
                return "a partial product that may overflow"
    return ""


def not_asked(node: onnx.NodeProto, case: Case) -> str:
    """Why onnxruntime isn't asked about a model with this node, or nothing."""
    if node.op_type == "ConvTranspose" and (attribute(node, "auto_pad") or b"").startswith(b"SAME"):
        kernel = case.types[node.input[1]].shape[2:]
        strides, dilations = (attribute(node, n) or [1] * len(kernel) for n in ("strides", "dilations"))
        if any((k - 1) * d + 1 < s for k, d, s in zip(kernel, dilations, strides)):
            return "it gives less than input * stride where the kernel is below the stride"
    if node.op_type.startswith("Reduce") and 0 in case.types[node.input[0]].shape:
        axes = attribute(node, "axes") or (
            case.constants.get(node.input[1], []) if len(node.input) > 1 else [])
        if any(axis < 0 for axis in axes):
            return "it passes over negative axes of tensors without elements"
    return ""


def aligned_unevenly(node: onnx.NodeProto, read: list[np.ndarray | None]) -> bool:
    if attribute(node, "coordinate_transformation_mode") != b"align_corners" or len(read) < 3 or read[2] is None:
        return False
    return any(float(n * s) != int(n * s) for n, s in zip(read[0].shape, read[2]))


@dataclasses.dataclass(frozen=True)
class Disagreement:
    operator: str
    reason: str
    applies: Callable[[onnx.NodeProto, list[np.ndarray | None]], bool] = lambda node, read: True


DISAGREEMENTS: list[Disagreement] = [
    Disagreement("Resize", "onnxruntime aligns corners of the whole length, and ONNX's node tests those of "
                 "size * scale", lambda node, read: aligned_unevenly(node, read)),
    Disagreement("MeanVarianceNormalization", "onnxruntime leaves the epsilon of ONNX's definition out"),
    Disagreement("QLinearSoftmax", "onnxruntime's integers overflow in lanes of one or two elements",
                 lambda node, read: read[0].shape[-1] <= 2),
]


def disagreement(node: onnx.NodeProto, read: list[np.ndarray | None]) -> str:
    for one in DISAGREEMENTS:
        if one.operator == node.op_type and one.applies(node, read):
            return one.reason
    return ""
