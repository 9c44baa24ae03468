"""Quantisation, and the integer products."""

from model import Builder
from ops_linear import window
from table import row
from values import F16, F32, FLOATS, I8, I16, I32, U8, U16

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


def pair(b: Builder, x):
    """Quantised and back, as published models have it between their layers."""
    dtype = b.one(EIGHT)
    scale = b.const(b.one([0.05, 0.1, 0.01, 1 / 127]), F32)
    zero = b.const(0 if dtype is I8 else b.one([0, 128, 10]), dtype)
    q = b.node("QuantizeLinear", [x, scale, zero])[0]
    return b.node("DequantizeLinear", [q, scale, zero])[0]


__all__ = ["FLOATS", "pair"]
