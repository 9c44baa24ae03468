"""Products, convolutions, pools and recurrent networks."""

import math

import numpy as np

from model import Builder, Skip, Value
from table import row
from values import BF16, F16, F32, F64, FLOATS, I32, I64


def window(b: Builder, spatial: tuple, kernel: tuple, strides=(1, 1, 2, 3), dilate: bool = True):
    """Drawn strides, pads and dilations of a window over these dims."""
    count = len(spatial)
    found = {"strides": [b.one(strides) for _ in range(count)],
             "dilations": [b.one([1, 1, 1, 2]) if dilate else 1 for _ in range(count)]}
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, found["dilations"])]
    how = b.below(5)
    if min(spatial) == 0:
        raise Skip("an image without elements")
    pads = [0] * 2 * count
    if how == 0:
        found["auto_pad"] = b.one(["SAME_UPPER", "SAME_LOWER", "VALID"])
        if found["auto_pad"] != "VALID":
            found["dilations"] = [1] * count
            return _shorten(b, found, count)
    elif how <= 2:
        pads = [b.between(0, max(0, k // 2)) for k in (*kernel, *kernel)]
    elif how == 3:
        pads = [k // 2 for k in (*kernel, *kernel)]
    for d in range(count):
        if spatial[d] + pads[d] + pads[d + count] < spread[d]:
            raise Skip("the window doesn't fit")
    if how:
        found["pads"] = pads
    return _shorten(b, found, count)


def _shorten(b: Builder, found: dict, count: int) -> dict:
    """Defaults are left out half the time."""
    plain = {"strides": [1] * count, "dilations": [1] * count, "pads": [0] * 2 * count}
    return {k: v for k, v in found.items() if v != plain.get(k) or b.chance(0.5)}


def _image(b: Builder, channels: int | None = None, dtypes=None) -> Value:
    def fits(value: Value) -> bool:
        return value.rank >= 3 and (channels is None or value.shape[1] == channels)
    rank = b.one([3, 4, 4, 4, 5])
    sizes = (b.between(1, 3), channels or b.one([1, 2, 3, 4, 8, 16, 17]),
             *(b.between(1, 13 if rank < 5 else 5) for _ in range(rank - 2)))
    found = [v for v in b.live if v.dtype in (dtypes or (b.dtype,)) and v.rank in (3, 4, 5)
             and fits(v) and max(v.shape) < 40]
    if found and not b.chance(b.fresh):
        return found[-1]
    return b.new(sizes, b.one(dtypes) if dtypes else None, constant=0.05)


@row("Conv")
def conv(b: Builder):
    x = _image(b)
    spatial = x.shape[2:]
    channels = x.shape[1]
    groups = b.one([g for g in (1, 1, 1, 2, 4, channels) if channels and channels % g == 0] or [1])
    filters = groups * b.one([1, 2, 3, 4, 8] if groups > 1 else [1, 2, 3, 5, 8, 16, 17])
    kernel = tuple(b.one([1, 1, 2, 3, 3, 5]) for _ in spatial)
    w = b.weights((filters, channels // groups, *kernel), x.dtype)
    bias = b.weights((filters,), x.dtype) if b.chance(0.5) else None
    extra = {"kernel_shape": list(kernel)} if b.chance(0.5) else {}
    return b.node("Conv", [x, w, bias], group=groups if groups > 1 else None,
                  **window(b, spatial, kernel), **extra)


@row("ConvTranspose")
def conv_transpose(b: Builder):
    x = _image(b, dtypes=(F32, F32, F16, F64))
    spatial = x.shape[2:]
    channels = x.shape[1]
    groups = b.one([g for g in (1, 1, 2, channels) if channels and channels % g == 0] or [1])
    kernel = tuple(b.one([1, 2, 2, 3, 4]) for _ in spatial)
    w = b.weights((channels, b.between(1, 4), *kernel), x.dtype)
    bias = b.weights((w.shape[1] * groups,), x.dtype) if b.chance(0.5) else None
    strides = [b.one([1, 2, 2, 3]) for _ in spatial]
    given = {"strides": strides, "dilations": [b.one([1, 1, 2]) for _ in spatial]}
    how = b.below(4)
    if how == 0:
        given["pads"] = [b.between(0, k - 1) for k in (*kernel, *kernel)]
    elif how == 1:
        given["output_padding"] = [b.between(0, s - 1) for s in strides]
    elif how == 2 and b.opset >= 11:
        given["auto_pad"] = b.one(["SAME_UPPER", "SAME_LOWER", "VALID"])
        given["dilations"] = [1] * len(spatial)
    made = None
    if given.get("auto_pad", "VALID") != "VALID":  # ONNX's inference has less where a kernel is small
        made = [(x.dtype, (x.shape[0], w.shape[1] * groups, *(n * s for n, s in zip(spatial, strides))))]
    return b.node("ConvTranspose", [x, w, bias], made=made, group=groups if groups > 1 else None, **given)


@row("MatMul")
def matmul(b: Builder):
    x = b.pick((b.dtype, F32) if b.chance(0.95) else (I32, I64) if b.opset >= 9 else None, low=1,
               fits=lambda v: v.shape[-1] < 200)
    k, n = x.shape[-1], b.one([1, 2, 3, 5, 8, 16, 17, 33, 48, 64])
    how = b.below(5)
    if how == 0 and x.rank >= 2:
        shape = (*x.shape[:-2], k, n)
    elif how == 1:
        shape = (k,)
    elif how == 2 and x.rank >= 2:
        shape = (b.between(1, 3), *[1 for _ in x.shape[:-2]], k, n)
    else:
        shape = (k, n)
    return b.node("MatMul", [x, b.weights(shape, x.dtype)])


@row("Gemm")
def gemm(b: Builder):
    x = b.pick((b.dtype if b.dtype is not BF16 or b.opset >= 13 else F32,), 2, 2)
    flip_a, flip_b = b.below(2), b.below(2)
    m, k = x.shape[::-1] if flip_a else x.shape
    n = b.one([1, 2, 3, 8, 16, 17, 33])
    w = b.weights((n, k) if flip_b else (k, n), x.dtype)
    c = b.weights(b.one([(n,), (m, n), (1, n), (m, 1), (1,), ()]), x.dtype)
    if b.opset >= 11 and b.chance(0.3):
        c = None
    given = {"alpha": b.one([None, 0.5, 2.0, -1.5, 0.0]), "beta": b.one([None, 0.25, 3.0, 0.0])}
    return b.node("Gemm", [x, w, c], transA=flip_a or None, transB=flip_b or None, **given)


EQUATIONS = ("ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "ij->i", "i,i->",
             "i,j->ij", "ij,ij->ij", "ijk->k", "bij,jk->bik", "bhid,bhjd->bhij", "ijk,kl->ijl",
             "...ij,...jk->...ik", "...i->...", "ij, jk", "ij,jk,kl->il", "bij,bij->b")


@row("Einsum", since=12)
def einsum(b: Builder):
    equation = b.one(EQUATIONS)
    sizes = {letter: b.between(1, 6) for letter in "abcdhijkl"}
    extra = b.shape(0, 2)
    dtype = b.one([F32, F32, F64, I32]) if b.dtype is F32 else b.one([F32, b.dtype])
    operands = []
    for term in equation.split("->")[0].replace(" ", "").split(","):
        shape = [sizes[c] for c in term.replace("...", "")]
        if "..." in term:
            shape = [*extra, *shape]
        operands.append(b.new(tuple(shape), dtype))
    return b.node("Einsum", operands, equation=equation)


def _pool(name: str, dtypes) -> None:
    def make(b: Builder):
        x = _image(b, dtypes=dtypes)
        spatial = x.shape[2:]
        kernel = tuple(b.one([1, 2, 2, 3, 3, 5]) for _ in spatial)
        largest = name == "MaxPool"
        given = window(b, spatial, kernel, dilate=b.opset >= (10 if largest else 19))
        if b.opset < (10 if largest else 18 if name == "LpPool" else 19):
            given.pop("dilations", None)
        if given.get("pads"):
            given["pads"] = [min(p, k - 1) for p, k in zip(given["pads"], (*kernel, *kernel))]
        if b.opset >= (18 if name == "LpPool" else 10) and b.chance(0.4) and "auto_pad" not in given:
            given["ceil_mode"] = 1
        outputs = 1
        if name == "AveragePool" and b.chance(0.5):
            given["count_include_pad"] = 1
        elif largest and b.opset >= 8 and b.chance(0.25):
            outputs = 2
            given["storage_order"] = b.one([0, 0, 1])
        elif name == "LpPool":
            given["p"] = b.one([1, 2, 3])
        made = None
        if given.get("ceil_mode"):
            shape = (*x.shape[:2], *(_rounded_up(n, k, given, d) for d, (n, k) in enumerate(zip(spatial, kernel))))
            made = [(x.dtype, shape), (I64, shape)][:outputs]
        return b.node(name, [x], outputs, made=made, kernel_shape=list(kernel), **given)
    row(name)(make)


def _rounded_up(size: int, kernel: int, given: dict, d: int) -> int:
    """Windows along dim `d` with ceil_mode. One that would begin behind the image isn't counted, which
    ONNX's inference doesn't know."""
    stride, dilation = (given[key][d] if key in given else 1 for key in ("strides", "dilations"))
    low, high = given["pads"][d::len(given["pads"]) // 2] if "pads" in given else (0, 0)
    count = -(-(size + low + high - (kernel - 1) * dilation - 1) // stride) + 1
    return count - 1 if (count - 1) * stride >= size + low else count


_pool("MaxPool", (F32, F32, F32, F16, F64))
_pool("AveragePool", (F32, F32, F32, F16, F64))
_pool("LpPool", (F32,))


def _global_pool(name: str) -> None:
    def make(b: Builder):
        extra = {"p": b.one([None, 1, 3])} if name == "GlobalLpPool" else {}
        return b.node(name, [_image(b, dtypes=(F32, F32, F16, F64))], **extra)
    row(name)(make)


for _name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
    _global_pool(_name)

# Functions of gates; their parameters are the defaults.
_ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus", "HardSigmoid", "Elu", "LeakyRelu")
_RECURRENT = {"LSTM": (4, 3, ("Sigmoid", "Tanh", "Tanh")), "GRU": (3, 2, ("Sigmoid", "Tanh")),
              "RNN": (1, 1, ("Tanh",))}


def _recurrent(name: str) -> None:
    gates, functions, _ = _RECURRENT[name]

    def make(b: Builder):
        steps, batch, features, hidden = b.between(1, 5), b.between(1, 3), b.between(1, 7), b.between(1, 6)
        direction = b.one(["forward", "forward", "reverse", "bidirectional"])
        count = 2 if direction == "bidirectional" else 1
        dtype = b.one([F32, F32, F32, F64])
        x = b.pick((dtype,), shape=(steps, batch, features), kind="plain")
        w = b.new((count, gates * hidden, features), dtype, "plain", 0.8)
        r = b.new((count, gates * hidden, hidden), dtype, "plain", 0.8)
        bias = b.new((count, 2 * gates * hidden), dtype, "plain", 0.8) if b.chance(0.6) else None
        lengths = None
        if b.chance(0.35):
            lengths = b.add(b.rng.integers(1, steps + 1, batch).astype(I32), constant=b.chance(0.3))
        state = [b.new((count, batch, hidden), dtype, "plain") if b.chance(0.4) else None
                 for _ in range(2 if name == "LSTM" else 1)]
        operands = [x, w, r, bias, lengths, *state]
        if name == "LSTM" and b.chance(0.25):
            operands.append(b.new((count, 3 * hidden), dtype, "plain", 0.8))
        given = {}
        if b.chance(0.25):
            given["activations"] = [b.one(_ACTIVATIONS) for _ in range(functions * count)]
        if b.chance(0.1):
            given["clip"] = b.one([0.5, 1.0])
        if name == "GRU" and b.chance(0.5):
            given["linear_before_reset"] = 1
        flags = [b.chance(0.8) for _ in range(3 if name == "LSTM" else 2)]
        if not any(flags):
            flags[-1] = True
        return b.node(name, operands, flags, hidden_size=hidden,
                      direction=None if direction == "forward" and b.chance(0.5) else direction, **given)
    row(name)(make)


for _name in _RECURRENT:
    _recurrent(_name)

__all__ = ["FLOATS", "I64", "conv", "conv_transpose", "gemm", "math", "matmul", "np", "window"]
