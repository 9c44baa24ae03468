"""Operators that move elements or look them up."""

import math

import numpy as np
from onnx import numpy_helper

from model import Builder, Skip, Value
from table import row
from values import (BOOL, F16, F32, F64, FLOATS, I8, I32, I64, NUMBERS, U8)

ANY = (*FLOATS, *FLOATS, F32, I32, I64, U8, I8, BOOL)


def axis_of(b: Builder, x: Value) -> int:
    if x.rank == 0:
        raise Skip("no axis")
    axis = b.below(x.rank)
    return axis - x.rank if b.chance(0.3) and b.opset >= 11 else axis


def axes_of(b: Builder, x: Value, least: int = 1) -> list[int]:
    if x.rank < least:
        raise Skip("no axes")
    count = b.between(least, max(least, x.rank))
    axes = sorted(int(a) for a in b.rng.choice(x.rank, count, replace=False))
    if b.opset >= 11 and b.chance(0.3):
        axes = [a - x.rank if b.chance(0.5) else a for a in axes]
    if b.opset >= 13 and b.chance(0.2):
        b.rng.shuffle(axes)
    return axes


@row("Reshape")
def _reshape(b: Builder):
    x = b.pick(ANY)
    count = math.prod(x.shape)
    sizes = []
    left = count
    while left > 1 and len(sizes) < 4:
        divisors = [d for d in range(2, left + 1) if left % d == 0]
        part = b.one(divisors)
        sizes.append(part)
        left //= part
    sizes.append(left)
    if b.chance(0.3):
        sizes.insert(b.below(len(sizes) + 1), 1)
    allow = None
    if count == 0:
        sizes = [0, *sizes] if b.opset >= 14 else [0] * x.rank
        allow = 1 if b.opset >= 14 else None
    elif b.chance(0.3):
        sizes[b.below(len(sizes))] = -1
    return b.node("Reshape", [x, b.const(sizes)], allowzero=allow)


@row("Flatten")
def _flatten(b: Builder):
    x = b.pick(ANY if b.opset >= 9 else (F32,), low=1)
    return b.node("Flatten", [x], axis=b.one([None, b.below(x.rank + 1)]))


@row("Transpose")
def _transpose(b: Builder):
    x = b.pick(ANY)
    order = [int(d) for d in b.rng.permutation(x.rank)]
    return b.node("Transpose", [x], perm=b.one([None, order, order, order]) if x.rank else None)


@row("Squeeze")
def _squeeze(b: Builder):
    x = b.pick(ANY, low=1)
    ones = [d - (x.rank if b.opset >= 11 and b.chance(0.3) else 0)
            for d, n in enumerate(x.shape) if n == 1]
    given = ones[:b.between(1, len(ones))] if ones and b.chance(0.7) else None
    if not ones and given is None and b.chance(0.9):
        raise Skip("nothing to squeeze")
    if b.opset < 13:
        return b.node("Squeeze", [x], axes=given)
    return b.node("Squeeze", [x, b.const(given) if given else None])


@row("Unsqueeze")
def _unsqueeze(b: Builder):
    x = b.pick(ANY, high=3)
    count = b.one([1, 1, 2])
    rank = x.rank + count
    axes = sorted(int(a) for a in b.rng.choice(rank, count, replace=False))
    if b.opset < 13:
        return b.node("Unsqueeze", [x], axes=axes)
    if b.chance(0.3):
        axes = [a - rank for a in axes]
    return b.node("Unsqueeze", [x, b.const(axes)])


@row("Concat")
def _concat(b: Builder):
    x = b.pick(ANY, low=1)
    axis = axis_of(b, x)
    operands = [x]
    for _ in range(b.one([0, 1, 1, 2, 3])):
        sizes = list(x.shape)
        sizes[axis] = b.size(5)
        operands.append(b.new(tuple(sizes), x.dtype) if b.chance(0.8) else x)
    b.rng.shuffle(operands)
    return b.node("Concat", operands, axis=axis)


@row("Split")
def _split(b: Builder):
    x = b.pick(ANY, low=1, fits=lambda v: max(v.shape) >= 2)
    axis = b.one([d for d, n in enumerate(x.shape) if n >= 2])
    length = x.shape[axis]
    if b.chance(0.4):
        parts = b.one([n for n in (1, 2, 3, 4, 5) if length % n == 0])
        extra = {"num_outputs": parts} if b.opset >= 18 else {}
        return b.node("Split", [x], parts, axis=axis, **extra)
    cuts = sorted(b.rng.integers(0, length + 1, b.between(1, 3)))
    sizes = [int(n) for n in np.diff([0, *cuts, length])]
    if b.opset < 13:
        return b.node("Split", [x], len(sizes), axis=axis, split=sizes)
    return b.node("Split", [x, b.const(sizes)], len(sizes), axis=axis)


@row("Slice")
def _slice(b: Builder):
    x = b.pick(ANY, low=1)
    axes = axes_of(b, x)
    starts, ends, steps = [], [], []
    for axis in axes:
        n = x.shape[axis]
        steps.append(b.one([1, 1, 1, 2, 3, -1, -2]) if b.opset >= 10 else 1)
        first, last = b.between(-n - 1, n), b.one([n, b.between(-n - 1, n + 2), 2**31 - 1, 2**63 - 1])
        starts.append(first if steps[-1] > 0 else last)
        ends.append(last if steps[-1] > 0 else b.one([first, -n - 1, -(2**31), -(2**63)]))
    if b.opset < 10:
        return b.node("Slice", [x], starts=starts, ends=ends, axes=axes)
    whole = b.chance(0.2)
    if whole:
        axes, starts, ends = [0], starts[:1], ends[:1]
        steps = steps[:1] if b.chance(0.5) else None
    dtype = b.one([I64, I64, I32])
    sizes = list(x.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps or [1]):
        sizes[axis] = _sliced(sizes[axis], start, end, step)
    bounds = [np.clip(v, np.iinfo(dtype).min, np.iinfo(dtype).max) for v in (starts, ends)]
    return b.node("Slice", [x, b.const(bounds[0], dtype), b.const(bounds[1], dtype),
                            None if whole else b.const(axes, dtype),
                            b.const(steps, dtype) if steps else None], made=[(x.dtype, sizes)])


def _sliced(size: int, start: int, end: int, step: int) -> int:
    """How many elements ONNX's text takes (its inference takes none from before the first backwards)."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (v + size if v < 0 else v for v in (start, end))
    start, end = min(max(start, 0), high), min(max(end, low), high)
    return max(0, -(-(end - start) // step))


@row("Pad")
def _pad(b: Builder):
    mode = b.one(["constant", "constant", "edge", "reflect", *(["wrap"] if b.opset >= 19 else [])])
    x = b.pick((F32, F64) if b.opset < 13 else ANY[:-1], low=1,
               fits=lambda v: mode == "constant" or min(v.shape) >= 2)
    low = -1 if b.chance(0.2) and min(x.shape) >= 3 else 0
    pads = [b.between(low, 2 if mode == "constant" else 1) for _ in range(2 * x.rank)]
    if b.opset < 11:
        return b.node("Pad", [x], pads=pads, mode=mode, value=b.one([None, 1.5]))
    fill = b.new((), x.dtype, "plain" if x.dtype in FLOATS else "small", 0.9)
    operands = [x, b.const(pads), fill if b.chance(0.6) and mode == "constant" else None]
    if b.opset >= 18 and b.chance(0.3):
        axes = axes_of(b, x)
        operands[1] = b.const([b.between(0, 1) for _ in range(2 * len(axes))])
        operands.append(b.const(axes))
    return b.node("Pad", operands, mode=mode)


@row("Expand", since=8)
def _expand(b: Builder):
    x = b.pick(ANY, high=3)
    sizes = [n if n != 1 or b.chance(0.4) else b.size(5) for n in x.shape]
    sizes = [1 if b.chance(0.2) else n for n in sizes]
    if b.chance(0.3):
        sizes.insert(0, b.between(1, 3))
    return b.node("Expand", [x, b.const(sizes)])


@row("Tile")
def _tile(b: Builder):
    x = b.pick(ANY[:-1], high=3)
    return b.node("Tile", [x, b.const([b.one([1, 1, 2, 3, 0]) for _ in x.shape])])


@row("DepthToSpace")
def _depth_to_space(b: Builder):
    block = b.one([2, 3, 1])
    sizes = (b.size(3), block * block * b.between(1, 3), b.size(4), b.size(5))
    x = b.pick((F32, F32, F64, F16), shape=sizes)
    mode = b.one([None, "DCR", "CRD"]) if b.opset >= 11 else None
    return b.node("DepthToSpace", [x], blocksize=block, mode=mode)


@row("SpaceToDepth")
def _space_to_depth(b: Builder):
    block = b.one([2, 3, 1])
    sizes = (b.size(3), b.size(3), block * b.between(1, 3), block * b.between(1, 2))
    return b.node("SpaceToDepth", [b.pick((F32, F32, F64, F16), shape=sizes)], blocksize=block)


@row("Gather")
def _gather(b: Builder):
    x = b.pick(ANY, low=1, fits=lambda v: min(v.shape) > 0)
    axis = axis_of(b, x)
    return b.node("Gather", [x, indices(b, b.shape(0, 2), x.shape[axis])], axis=axis)


def indices(b: Builder, shape: tuple, size: int) -> Value:
    """Inside of a dim of `size`, from its end too; an input or constant."""
    low = -size if b.opset >= 11 and b.chance(0.5) else 0
    found = b.rng.integers(low, size, shape) if size else np.zeros(shape)
    return b.add(np.asarray(found, b.one([I64, I64, I32])), constant=b.chance(0.5))


@row("GatherElements", since=11)
def _gather_elements(b: Builder):
    x = b.pick(ANY, low=1, fits=lambda v: min(v.shape) > 0)
    axis = axis_of(b, x)
    sizes = [b.between(1, n) for n in x.shape]
    sizes[axis] = b.size(5)
    return b.node("GatherElements", [x, indices(b, tuple(sizes), x.shape[axis])], axis=axis)


def _nd_indices(b: Builder, x: Value, batch: int, unique: bool = False) -> Value:
    """Tuples of indices into the dims after the first `batch`."""
    depth = b.between(1, x.rank - batch)
    sizes = x.shape[batch:batch + depth]
    outer = (*x.shape[:batch], *b.shape(0 if batch else 1, 2))
    if unique:
        flat = b.rng.permutation(math.prod(sizes))[:b.between(1, 4)]
        found = np.stack(np.unravel_index(flat, sizes), axis=-1)
    else:
        found = np.stack([b.rng.integers(-n if b.opset >= 11 else 0, n, outer) for n in sizes], axis=-1)
    return b.add(found.astype(I64), constant=b.chance(0.5))


@row("GatherND", since=11)
def _gather_nd(b: Builder):
    x = b.pick(ANY, low=1, fits=lambda v: min(v.shape) > 0)
    batch = b.below(min(x.rank, 2)) if b.opset >= 12 else 0
    return b.node("GatherND", [x, _nd_indices(b, x, batch)], batch_dims=batch or None)


def _reduction(b: Builder, since_minmax: int = 18) -> str | None:
    if b.opset < 16:
        return None
    return b.one([None, "none", "add", "mul", *(["max", "min"] if b.opset >= since_minmax else [])])


@row("ScatterElements", since=11)
def _scatter_elements(b: Builder):
    reduction = _reduction(b)
    x = b.pick((F32, F64, I64, I32) if reduction else ANY, low=1, fits=lambda v: min(v.shape) > 0)
    axis = axis_of(b, x)
    sizes = [b.between(1, n) for n in x.shape]
    found = np.stack([b.rng.permutation(x.shape[axis])[:sizes[axis]]
                      for _ in range(math.prod(sizes) // sizes[axis])])
    moved = found.reshape([n for d, n in enumerate(sizes) if d != axis % x.rank] + [sizes[axis]])
    index = b.add(np.moveaxis(moved, -1, axis).astype(I64), constant=b.chance(0.5))
    return b.node("ScatterElements", [x, index, b.new(tuple(sizes), x.dtype)], axis=axis,
                  reduction=reduction)


@row("ScatterND", since=11)
def _scatter_nd(b: Builder):
    reduction = _reduction(b)
    x = b.pick((F32, F64, I64, I32) if reduction else ANY, low=1, fits=lambda v: min(v.shape) > 0)
    index = _nd_indices(b, x, 0, unique=True)
    updates = (*index.shape[:-1], *x.shape[index.shape[-1]:])
    return b.node("ScatterND", [x, index, b.new(updates, x.dtype)], reduction=reduction)


@row("Scatter", since=9, until=10)
def _scatter(b: Builder):
    x = b.pick((F32, F64, I64), low=1, fits=lambda v: min(v.shape) > 0)
    sizes = (1, *x.shape[1:])
    return b.node("Scatter", [x, indices(b, sizes, x.shape[0]), b.new(sizes, x.dtype)], axis=0)


@row("OneHot", since=9)
def _one_hot(b: Builder):
    depth = b.between(1, 6)
    dtype = b.one([I64, F32, I32])
    found = b.rng.integers(-depth if b.opset >= 11 else 0, depth + 1, b.shape(0, 3))
    index = b.add(np.asarray(found, dtype), constant=b.chance(0.3))
    values = b.new((2,), b.one([F32, I64, I32]), constant=0.5)
    return b.node("OneHot", [index, b.const(b.one([depth, [depth]])), values],
                  axis=b.one([None, -1, 0]))


@row("ReverseSequence", since=10)
def _reverse_sequence(b: Builder):
    x = b.pick(ANY[:-1], low=2, fits=lambda v: min(v.shape[:2]) > 0)
    batch = b.below(2)
    lengths = b.rng.integers(0 if b.chance(0.2) else 1, x.shape[1 - batch] + 1, x.shape[batch])
    return b.node("ReverseSequence", [x, b.add(lengths.astype(I64))], batch_axis=batch,
                  time_axis=1 - batch)


@row("Trilu", since=14)
def _trilu(b: Builder):
    x = b.pick((*FLOATS[:2], F64, I64, I32, BOOL), low=2)
    k = b.const(b.one([0, 1, -1, 2, -3, 40, -40])) if b.chance(0.6) else None
    return b.node("Trilu", [x, k], upper=b.one([None, 0, 1]))


@row("Compress", since=9)
def _compress(b: Builder):
    x = b.pick(ANY, low=1)
    axis = b.one([None, b.below(x.rank)])
    length = math.prod(x.shape) if axis is None else x.shape[axis]
    flags = b.rng.random(b.between(0, length)) < 0.5
    if not flags.size:
        raise Skip("no flags")
    sizes = [int(n) for n in x.shape]
    count = int(np.count_nonzero(flags))
    if axis is None:
        sizes = [count]
    else:
        sizes[axis] = count
    return b.node("Compress", [x, b.const(flags, BOOL)], made=[(x.dtype, sizes)], axis=axis)


@row("NonZero", since=9)
def _non_zero(b: Builder):
    data = b.rng.integers(0, 2, b.shape(1, 3))
    node_input = b.const(data, b.one([F32, I64, BOOL, I32]))
    count = int(np.count_nonzero(data))
    return b.node("NonZero", [node_input], made=[(I64, (data.ndim, count))])


@row("Range", since=11)
def _range(b: Builder):
    start, limit, delta = b.one([(0, 7, 2), (3, -4, -3), (1, 1, 1), (0.5, 4, 0.75), (10, 0, -2.5)])
    dtype = b.one([F32, F64]) if 0.5 in (start % 1, delta % 1) or delta % 1 else b.one([I64, I32, F32])
    return b.node("Range", [b.const(v, dtype) for v in (start, limit, delta)])


@row("ConstantOfShape", since=9)
def _constant_of_shape(b: Builder):
    value = numpy_helper.from_array(np.array([b.one([0, 1, 2, 5])], b.one([F32, I64, I32, U8, F64, F16])))
    return b.node("ConstantOfShape", [b.const(b.shape(0, 3))], value=b.one([None, value]))


@row("EyeLike", since=9)
def _eye_like(b: Builder):
    x = b.pick((F32, F64, I64, I32), low=2, high=2)
    return b.node("EyeLike", [x], k=b.one([None, 0, 1, -1, 5]), dtype=b.one([None, 1, 7]))


@row("Shape")
def _shape(b: Builder):
    x = b.pick(ANY)
    cut = {"start": b.between(-2, 2), "end": b.one([None, -1, 2])} if b.opset >= 15 and b.chance(.5) else {}
    return b.node("Shape", [x], **cut)


@row("Size")
def _size(b: Builder):
    return b.node("Size", [b.pick(ANY)])


def _window(name: str) -> None:
    def make(b: Builder):
        return b.node(name, [b.const(b.one([1, 2, 5, 16, 31]))], periodic=b.one([None, 0, 1]),
                      output_datatype=b.one([None, 1, 11]))
    row(name, since=17)(make)


for _name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    _window(_name)

__all__ = ["NUMBERS", "axes_of", "axis_of", "indices"]
