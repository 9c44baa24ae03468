"""Quantisation, and the integer products."""

from model import Builder
from ops_linear import window
from table import row
from values import BOOL, F16, F32, FLOATS, I8, I16, I32, U8, U16

EIGHT = (U8, I8)


def quantised_types(b: Builder):
    return b.one([*EIGHT, *EIGHT, *([I16, U16] if b.opset >= 21 else [])])


def scale_of(b: Builder, shape: tuple = ()):
    kind = "positive"
    made = b.new(shape, F32, kind, constant=0.9)
    return made


def zero_point(b: Builder, shape: tuple, dtype):
    return b.new(shape, dtype, "small", constant=0.9)


@row("QuantizeLinear", since=10)
def quantize_linear(b: Builder):
    x = b.pick((F32, F32, F16) if b.opset >= 19 else (F32,), low=1)
    per_axis = b.opset >= 13 and b.chance(0.4)
    axis = b.below(x.rank) if per_axis else None
    shape = (x.shape[axis],) if per_axis else ()
    scale = b.new(shape, x.dtype, "positive", constant=0.9)
    if b.opset < 21 and b.chance(0.15):
        return b.node("QuantizeLinear", [x, scale], axis=axis)
    return b.node("QuantizeLinear", [x, scale, zero_point(b, shape, quantised_types(b))], axis=axis)


@row("DequantizeLinear", since=10)
def dequantize_linear(b: Builder):
    x = b.pick((*EIGHT, *EIGHT, *((I32,) if b.chance(0.2) else ())), low=1)
    per_axis = b.opset >= 13 and b.chance(0.4)
    axis = b.below(x.rank) if per_axis else None
    shape = (x.shape[axis],) if per_axis else ()
    zero = zero_point(b, shape, x.dtype) if b.chance(0.7) and x.dtype is not I32 else None
    return b.node("DequantizeLinear", [x, scale_of(b, shape), zero], axis=axis)


@row("DynamicQuantizeLinear", since=11)
def _dynamic_quantize_linear(b: Builder):
    return b.node("DynamicQuantizeLinear", [b.pick((F32,), low=1, fits=lambda v: min(v.shape) > 0)], 3)


@row("MatMulInteger", since=10)
def _matmul_integer(b: Builder):
    m, k, n = b.between(1, 8), b.between(1, 33), b.between(1, 17)
    batch = b.one([(), (), (2,)])
    x = b.pick(EIGHT, shape=(*batch, m, k))
    w = b.new((k, n), b.one(EIGHT), "small", 0.8)
    zeros = [zero_point(b, (), t) if b.chance(0.6) else None for t in (x.dtype, w.dtype)]
    return b.node("MatMulInteger", [x, w, *zeros])


@row("ConvInteger", since=10)
def _conv_integer(b: Builder):
    c, kernel = b.between(1, 5), (b.one([1, 3]), b.one([1, 3]))
    x = b.new((b.between(1, 2), c, b.between(3, 8), b.between(3, 8)), U8, constant=0)
    w = b.new((b.between(1, 5), c, *kernel), b.one(EIGHT), constant=0.8)
    zeros = [zero_point(b, (), t) if b.chance(0.6) else None for t in (x.dtype, w.dtype)]
    return b.node("ConvInteger", [x, w, *zeros], **window(b, x.shape[2:], kernel))


@row("QLinearMatMul", since=10)
def _qlinear_matmul(b: Builder):
    m, k, n = b.between(1, 8), b.between(1, 33), b.between(1, 17)
    t = b.one(EIGHT)
    x, w = b.new((m, k), t, constant=0.1), b.new((k, n), t, constant=0.8)
    return b.node("QLinearMatMul", [x, scale_of(b), zero_point(b, (), t), w, scale_of(b),
                                    zero_point(b, (), t), scale_of(b), zero_point(b, (), t)])


@row("QLinearConv", since=10)
def _qlinear_conv(b: Builder):
    c, kernel = b.between(1, 5), (b.one([1, 3]), b.one([1, 3]))
    t = b.one(EIGHT)
    x = b.new((b.between(1, 2), c, b.between(3, 8), b.between(3, 8)), t, constant=0)
    filters = b.between(1, 5)
    w = b.new((filters, c, *kernel), b.one([t, I8]), constant=1)
    per = (filters,) if b.chance(0.5) else ()
    w_zero = b.const([0] * filters if per else 0, w.dtype)
    bias = b.new((filters,), I32, "small", 1) if b.chance(0.5) else None
    return b.node("QLinearConv", [x, scale_of(b), zero_point(b, (), t), w, scale_of(b, per), w_zero,
                                  scale_of(b), zero_point(b, (), t), bias],
                  **window(b, x.shape[2:], kernel))


def _microsoft(name: str):
    return row(f"com.microsoft.{name}", since=11)


def _parameters(b: Builder, dtype) -> list:
    """A scale and a zero point."""
    return [b.const(b.one([0.05, 0.1, 0.013]), F32), b.const(b.one([0, 3, 100]), dtype)]


def _qlinear_binary(name: str) -> None:
    def make(b: Builder):
        t = b.one(EIGHT)
        x = b.new(b.shape(1, 3), t, "wide", 0.05)
        other = b.new(b.one([x.shape, x.shape[-1:], ()]), t, "wide", 0.5)
        return b.node(name, [x, *_parameters(b, t), other, *_parameters(b, t), *_parameters(b, t)],
                      domain="com.microsoft", made=[(t, x.shape)])
    _microsoft(name)(make)


_qlinear_binary("QLinearAdd")
_qlinear_binary("QLinearMul")


def _qlinear_unary(name: str, **given) -> None:
    def make(b: Builder):
        t = b.one(EIGHT)
        x = b.new(b.shape(1, 3), t, "wide", 0.05)
        return b.node(name, [x, *_parameters(b, t), *_parameters(b, t)], domain="com.microsoft",
                      made=[(t, x.shape)], **{k: b.one(v) for k, v in given.items()})
    _microsoft(name)(make)


_qlinear_unary("QLinearSigmoid")
_qlinear_unary("QLinearLeakyRelu", alpha=[0.1, 0.5])


@_microsoft("QLinearConcat")
def _qlinear_concat(b: Builder):
    t, rows = b.one(EIGHT), b.between(1, 4)
    widths = [b.between(1, 5) for _ in range(b.between(1, 3))]
    parts = [[b.new((rows, w), t, "wide", 0.05), *_parameters(b, t)] for w in widths]
    return b.node("QLinearConcat", [*_parameters(b, t), *(v for part in parts for v in part)],
                  domain="com.microsoft", made=[(t, (rows, sum(widths)))], axis=1)


@_microsoft("QLinearSoftmax")
def _qlinear_softmax(b: Builder):
    t = b.one(EIGHT)
    x = b.new((b.between(1, 4), b.between(1, 9)), t, "wide", 0.05)
    last = [b.const(1 / 256, F32), b.const(0 if t == U8 else -128, t)]
    return b.node("QLinearSoftmax", [x, *_parameters(b, t), *last], domain="com.microsoft",
                  made=[(t, x.shape)], axis=-1, opset=13)


@_microsoft("QLinearGlobalAveragePool")
def _qlinear_pool(b: Builder):
    t = b.one(EIGHT)
    x = b.new((b.between(1, 2), b.between(1, 5), b.between(1, 6), b.between(1, 6)), t, "wide", 0.05)
    return b.node("QLinearGlobalAveragePool", [x, *_parameters(b, t), *_parameters(b, t)],
                  domain="com.microsoft", made=[(t, (*x.shape[:2], 1, 1))], channels_last=0)


@_microsoft("DynamicQuantizeMatMul")
def _dynamic_quantize_matmul(b: Builder):
    m, k, n = b.between(1, 5), b.between(1, 17), b.between(1, 9)
    t = b.one(EIGHT)
    w = b.new((k, n), t, "wide", 1)
    bias = b.new((n,), F32, "plain", 1) if b.chance(0.5) else None
    return b.node("DynamicQuantizeMatMul", [b.new((m, k), F32, "plain", 0), w, *_parameters(b, t), bias],
                  domain="com.microsoft", made=[(F32, (m, n))])


@_microsoft("MatMulIntegerToFloat")
def _matmul_integer_to_float(b: Builder):
    m, k, n = b.between(1, 5), b.between(1, 17), b.between(1, 9)
    t, u = b.one(EIGHT), b.one(EIGHT)
    x, w = b.new((m, k), t, "wide", 0), b.new((k, n), u, "wide", 1)
    (sx, zx), (sw, zw) = _parameters(b, t), _parameters(b, u)
    bias = b.new((n,), F32, "plain", 1) if b.chance(0.5) else None
    return b.node("MatMulIntegerToFloat", [x, w, sx, sw, zx, zw, bias], domain="com.microsoft",
                  made=[(F32, (m, n))])


@_microsoft("QGemm")
def _qgemm(b: Builder):
    m, k, n = b.between(1, 8), b.between(1, 33), b.between(1, 17)
    t = b.one(EIGHT)
    u = I8 if t == I8 else b.one(EIGHT)
    turned = [b.below(2), b.below(2)]
    x = b.new((k, m) if turned[0] else (m, k), t, "wide", 0)
    w = b.new((n, k) if turned[1] else (k, n), u, "wide", 0.8)
    columns = b.chance(0.4)
    w_scale = b.new((n,), F32, "positive", 0.9) if columns else b.const(0.05, F32)
    w_zero = b.new((n,), u, "small", 0.9) if columns else b.const(3, u)
    bias = b.new(b.one([(n,), (m, n), (1, n)]), I32, "small", 0.8) if b.chance(0.6) else None
    last = [b.const(b.one([0.5, 1.0, 7.0]), F32), b.const(5, t)] if b.chance(0.7) else []
    return b.node("QGemm", [x, *_parameters(b, t), w, w_scale, w_zero, bias, *last],
                  domain="com.microsoft", made=[(t if last else F32, (m, n))],
                  transA=turned[0], transB=turned[1], alpha=b.one([1.0, 1.0, 0.5]))


@_microsoft("QLinearWhere")
def _qlinear_where(b: Builder):
    t = b.one(EIGHT)
    shape = b.shape(1, 3)
    x = b.new(shape, t, "wide", 0.05)
    other = b.new(b.one([shape, shape[-1:]]), t, "wide", 0.3)
    chosen = b.new(b.one([shape, shape[-1:]]), BOOL)
    return b.node("QLinearWhere", [chosen, x, *_parameters(b, t), other, *_parameters(b, t),
                                   *_parameters(b, t)], domain="com.microsoft", made=[(t, shape)])


def pair(b: Builder, x):
    """Quantised and back, as published models have it between their layers."""
    dtype = b.one(EIGHT)
    scale = b.const(b.one([0.05, 0.1, 0.01, 1 / 127]), F32)
    zero = b.const(0 if dtype is I8 else b.one([0, 128, 10]), dtype)
    q = b.node("QuantizeLinear", [x, scale, zero])[0]
    return b.node("DequantizeLinear", [q, scale, zero])[0]


__all__ = ["FLOATS", "pair"]
