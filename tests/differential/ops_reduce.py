"""Reductions, searches, normalisations, resizing and losses."""

import math

import numpy as np

from model import Builder, Skip
from ops_movement import axes_of, axis_of
from table import row
from values import BF16, F16, F32, F64, FLOATS, I8, I32, I64, U8


def _reduction(name: str, dtypes=(F32, F32, F16, F64, BF16, I32, I64), kind: str | None = None) -> None:
    attribute_until = 13 if name == "ReduceSum" else 18

    def make(b: Builder):
        x = b.pick(dtypes if b.opset >= 13 else dtypes[:2] + (F64,), kind=kind)
        axes = b.one([None, axes_of(b, x) if x.rank else None, axes_of(b, x) if x.rank else None])
        keep = b.one([None, 0, 1])
        if b.opset < attribute_until:
            return b.node(name, [x], axes=axes, keepdims=keep)
        if axes is None and b.chance(0.5):
            given = b.const([], I64) if b.chance(0.5) else None
            return b.node(name, [x, given], keepdims=keep, noop_with_empty_axes=b.one([None, 0, 1]))
        return b.node(name, [x, None if axes is None else b.const(axes)], keepdims=keep)
    row(name)(make)


for _name in ("ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceLogSumExp",
              "ReduceProd"):
    _reduction(_name)
_reduction("ReduceLogSum", (F32, F32, F64, F16), kind="positive")
for _name in ("ReduceMax", "ReduceMin"):
    _reduction(_name, (F32, F32, F16, F64, I32, I64, I8, U8))


def _arg_extreme(name: str) -> None:
    def make(b: Builder):
        x = b.pick((F32, F32, F64, F16, I32, I64, U8) if b.opset >= 13 else (F32, I32), low=1,
                   fits=lambda v: min(v.shape) > 0, kind="ties" if b.chance(0.5) else None)
        last = b.one([None, 0, 1]) if b.opset >= 12 else None
        return b.node(name, [x], axis=b.one([None, axis_of(b, x)]), keepdims=b.one([None, 0, 1]),
                      select_last_index=last)
    row(name)(make)


_arg_extreme("ArgMax")
_arg_extreme("ArgMin")


def _cumulative(name: str, since: int) -> None:
    def make(b: Builder):
        x = b.pick((F32, F32, F64, I32, I64), low=1)
        return b.node(name, [x, b.const(axis_of(b, x), b.one([I64, I32]))],
                      exclusive=b.one([None, 0, 1]), reverse=b.one([None, 0, 1]))
    row(name, since)(make)


_cumulative("CumSum", 11)
_cumulative("CumProd", 26)


@row("TopK")
def _top_k(b: Builder):
    x = b.pick((F32, F32, F64, I64, I32) if b.opset >= 11 else (F32,), low=1,
               kind="ties" if b.chance(0.4) else None)
    axis = axis_of(b, x)
    k = b.between(0 if b.chance(0.05) else min(1, x.shape[axis]), x.shape[axis])
    if b.opset < 10:
        return b.node("TopK", [x], 2, axis=axis, k=k)
    largest = b.one([None, 0, 1]) if b.opset >= 11 else None
    return b.node("TopK", [x, b.const([k])], 2, axis=axis, largest=largest)


def _softmax(name: str) -> None:
    def make(b: Builder):
        x = b.pick((b.dtype if b.dtype is not BF16 or b.opset >= 13 else F32, F32), low=1)
        axis = b.one([None, axis_of(b, x), axis_of(b, x)])
        if b.opset < 13 and axis is None and x.rank < 2:
            axis = 0
        return b.node(name, [x], axis=axis)
    row(name)(make)


for _name in ("Softmax", "LogSoftmax", "Hardmax"):
    _softmax(_name)


@row("LpNormalization")
def _lp_normalization(b: Builder):
    x = b.pick((F32, F64), low=1)
    return b.node("LpNormalization", [x], axis=b.one([None, axis_of(b, x)]), p=b.one([None, 1, 2]))


@row("LRN")
def _lrn(b: Builder):
    sizes = (b.size(3), b.between(1, 7), b.between(1, 4), b.between(1, 4))
    return b.node("LRN", [b.pick((F32,), shape=sizes)], size=b.one([1, 3, 5]), alpha=b.one([None, 0.01, 1.0]),
                  beta=b.one([None, 0.5, 1.0]), bias=b.one([None, 2.0]))


def _channels(b: Builder, low: int = 2, dtypes=None):
    return b.pick(dtypes or (b.dtype, F32), low=low, fits=lambda v: v.rank >= 2 and v.shape[1] > 0)


@row("BatchNormalization")
def _batch_normalization(b: Builder):
    x = _channels(b, dtypes=(F32, F32, F64, F16) if b.opset >= 9 else (F32,))
    c = x.shape[1]
    stats = [b.weights((c,), x.dtype) for _ in range(3)]
    variance = b.new((c,), x.dtype, "positive", 0.8)
    if b.opset >= 14 and b.chance(0.15):
        return b.node("BatchNormalization", [x, *stats, variance], 3, training_mode=1,
                      momentum=b.one([None, 0.5]))
    return b.node("BatchNormalization", [x, *stats, variance], epsilon=b.one([None, 1e-3, 0.1]))


@row("InstanceNormalization")
def _instance_normalization(b: Builder):
    x = _channels(b, low=3, dtypes=(F32, F32, F64))
    parameters = [b.weights((x.shape[1],), x.dtype) for _ in range(2)]
    return b.node("InstanceNormalization", [x, *parameters], epsilon=b.one([None, 1e-3]))


@row("LayerNormalization", since=17)
def _layer_normalization(b: Builder):
    x = b.pick((b.dtype, F32), low=1)
    axis = axis_of(b, x)
    sizes = x.shape[axis:]
    scale = b.weights(sizes if b.chance(0.8) else sizes[-1:], x.dtype)
    bias = b.weights(sizes, x.dtype) if b.chance(0.7) else None
    return b.node("LayerNormalization", [x, scale, bias], b.one([1, 1, 1, 3]), axis=axis,
                  epsilon=b.one([None, 1e-3]))


@row("RMSNormalization", since=23)
def _rms_normalization(b: Builder):
    x = b.pick((F32, F64, F16), low=1)
    axis = axis_of(b, x)
    return b.node("RMSNormalization", [x, b.weights(x.shape[axis:], x.dtype)], axis=axis,
                  epsilon=b.one([None, 1e-3]))


@row("GroupNormalization", since=21)
def _group_normalization(b: Builder):
    x = _channels(b, low=3, dtypes=(F32, F16))
    groups = b.one([g for g in (1, 2, 3, 4, x.shape[1]) if x.shape[1] % g == 0])
    parameters = [b.weights((x.shape[1],), x.dtype) for _ in range(2)]
    return b.node("GroupNormalization", [x, *parameters], made=[(x.dtype, x.shape)],
                  num_groups=groups, epsilon=b.one([None, 1e-3]))


@row("MeanVarianceNormalization", since=9)
def _mean_variance_normalization(b: Builder):
    x = b.pick((F32,), 4, 4)
    return b.node("MeanVarianceNormalization", [x], axes=b.one([None, [0, 2, 3], [2, 3], [1]]))


COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


@row("Resize", since=10)
def _resize(b: Builder):
    rank = b.one([3, 4, 4, 5])
    mode = b.one(["nearest", "nearest", "linear", "linear", "cubic"]) if b.opset >= 11 else \
        b.one(["nearest", "linear"])
    if mode == "cubic":
        rank = 4
    sizes = (1, b.between(1, 3), *(b.between(1, 7) for _ in range(rank - 2)))
    if b.opset >= 11 and rank == 3 and mode == "linear" and b.chance(0.5):
        raise Skip("drawn less often")
    x = b.pick((F32, F32, F64, U8, F16) if mode == "nearest" else (F32, F32, F32, U8), shape=sizes)
    factors = [b.one([1, 2, 0.5, 1.5, 3, 0.6, 1.37]) for _ in sizes[2:]]
    scales = b.const([1, 1, *factors], F32)
    if any(int(math.floor(n * f)) == 0 for n, f in zip(sizes[2:], factors)):
        raise Skip("nothing is left")
    if b.opset == 10:
        return b.node("Resize", [x, scales], mode=mode)
    given = {"mode": mode, "coordinate_transformation_mode": b.one([None, *COORDINATES])}
    if mode == "nearest":
        given["nearest_mode"] = b.one([None, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    if mode == "cubic":
        given |= {"cubic_coeff_a": b.one([None, -0.5]), "exclude_outside": b.one([None, 1])}
    if b.opset >= 18 and mode != "nearest" and b.chance(0.2):
        given["antialias"] = 1
    if b.chance(0.4):
        target = [*sizes[:2], *(max(1, int(n * f)) for n, f in zip(sizes[2:], factors))]
        empty = b.const([], F32)
        return b.node("Resize", [x, empty if b.opset < 13 else None,
                                 empty if b.opset < 13 else None, b.const(target)], **given)
    return b.node("Resize", [x, b.const([], F32) if b.opset < 13 else None, scales], **given)


@row("Upsample", until=9)
def _upsample(b: Builder):
    sizes = (1, b.between(1, 3), b.between(1, 6), b.between(1, 6))
    x = b.pick((F32,), shape=sizes)
    scales = [1.0, 1.0, b.one([1.0, 2.0, 3.0]), b.one([2.0, 1.5])]
    if b.opset < 9:
        return b.node("Upsample", [x], mode=b.one(["nearest", "linear"]), scales=scales)
    return b.node("Upsample", [x, b.const(scales, F32)], mode=b.one(["nearest", "linear"]))


def _loss(name: str) -> None:
    def make(b: Builder):
        n, c, extra = b.between(1, 4), b.between(1, 5), b.one([(), (3,), (2, 3)])
        scores = b.pick((F32, F64), shape=(n, c, *extra))
        ignore = b.one([None, 0, -1])
        target = b.add(b.rng.integers(0, c, (n, *extra)).astype(b.one([I64, I32])))
        weight = b.new((c,), scores.dtype, "positive", 0.7) if b.chance(0.4) else None
        outputs = 1 if name[0] == "N" else b.one([1, 2])
        return b.node(name, [scores, target, weight], outputs, ignore_index=ignore,
                      reduction=b.one([None, "none", "sum", "mean"]))
    row(name, since=12)(make)


_loss("NegativeLogLikelihoodLoss")
_loss("SoftmaxCrossEntropyLoss")

__all__ = ["FLOATS", "np"]
