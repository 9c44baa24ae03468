"""What is no difference of ours: where ONNX leaves the result open, and where the oracles disagree.

`open_result` sees a node with the values that it read, and says what its specification leaves open.
`DISAGREEMENTS` are operators for which onnxruntime differs from ONNX's text; we follow the text.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import onnx

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


def open_result(node: onnx.NodeProto, read: list[np.ndarray | None], made: np.dtype) -> str:
    """Why a node's result is open, or nothing; `made` is the dtype of its first output."""
    name, x = node.op_type, read[0] if read else None
    if name in ("Cast", "CastLike") and x.dtype in FLOATS and np.issubdtype(made, np.integer):
        if _out_of_range(x, made):
            return "a cast of what the integer can't hold"
    if name in ("Conv", "ConvTranspose") and not np.isfinite(read[1].astype(np.float64)).all():
        return "an infinite or NaN weight against padding"
    if name == "QuantizeLinear" and np.isnan(x.astype(np.float64)).any():
        return "NaN quantised"
    if name in ("Div", "Mod") and read[1].dtype not in FLOATS and (read[1] == 0).any():
        return "an integer divided by zero"
    if name == "Pow" and x.dtype not in FLOATS and np.any(np.asarray(read[1]) < 0):
        return "an integer to a negative power"
    if name == "MaxPool" and np.isnan(x.astype(np.float64)).any():
        return "NaN in a window"  # docs/limitations.md
    if name in ORDERED and x.dtype in FLOATS and np.isnan(x.astype(np.float64)).any():
        return "the order of NaN"
    if name == "Range" and len(read) == 3 and read[2] == 0:
        return "a range without a step"
    return ""


ORDERED = ("ArgMax", "ArgMin", "Hardmax", "TopK")
SQUARED = ("InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization",
           "MeanVarianceNormalization", "LpNormalization", "ReduceL2", "ReduceSumSquare", "LRN",
           "BatchNormalization")
PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "ReduceSum", "ReduceMean", "CumSum",
            "AveragePool", "GlobalAveragePool", "Mean", "Sum", "ReduceL1", "ReduceLogSum", "LSTM", "GRU",
            "RNN")


def overflows(node: onnx.NodeProto, read: list[np.ndarray | None], largest: float) -> str:
    """Where the order of sums decides whether a partial one is infinite."""
    floats = [np.abs(x.astype(np.float64)) for x in read if x is not None and x.dtype in FLOATS]
    with np.errstate(all="ignore"):
        peaks = [float(np.max(np.where(np.isfinite(x), x, 0), initial=0)) for x in floats]
        count = max((x.size for x in floats), default=1)
        if node.op_type in SQUARED and peaks and peaks[0] ** 2 * count > largest:
            return "a square that overflows"
        if node.op_type in PRODUCTS and math.prod(max(p, 1) for p in peaks[:3]) * count > largest:
            return "a partial sum that may overflow"
        if node.op_type == "ReduceProd" and floats and floats[0].size:
            logs = np.abs(np.log2(np.where((floats[0] > 0) & np.isfinite(floats[0]), floats[0], 1)))
            if float(np.sum(logs)) > math.log2(largest) - 2:
                return "a partial product that may overflow"
    return ""


@dataclasses.dataclass(frozen=True)
class Disagreement:
    operator: str
    reason: str
    applies: Callable[[onnx.NodeProto, list[np.ndarray | None]], bool] = lambda node, read: True


DISAGREEMENTS: list[Disagreement] = [
    Disagreement("MeanVarianceNormalization", "onnxruntime leaves the epsilon of ONNX's definition out"),
]


def disagreement(node: onnx.NodeProto, read: list[np.ndarray | None]) -> str:
    for one in DISAGREEMENTS:
        if one.operator == node.op_type and one.applies(node, read):
            return one.reason
    return ""
