"""Sampling, boxes, and other operators on images; spectra."""

import math

import numpy as np

from model import Builder, Skip
from table import row
from values import BOOL, F32, F64, I32, I64


@row("GridSample", since=16)
def _grid_sample(b: Builder):
    n, c, h, w = b.between(1, 2), b.between(1, 3), b.between(1, 5), b.between(1, 6)
    out = (b.between(1, 4), b.between(1, 5))
    mode = b.one(["nearest", "linear", "cubic"] if b.opset >= 20 else ["nearest", "bilinear", "bicubic"])
    x = b.new((n, c, h, w), F32, "plain", 0)
    grid = b.add((b.rng.uniform(-1.3, 1.3, (n, *out, 2))).astype(np.float32))
    return b.node("GridSample", [x, grid], mode=mode, align_corners=b.one([None, 0, 1]),
                  padding_mode=b.one([None, "zeros", "border", "reflection"]))


@row("RoiAlign", since=10)
def _roi_align(b: Builder):
    n, c, h, w, boxes = b.between(1, 2), b.between(1, 3), b.between(2, 8), b.between(2, 8), b.between(1, 4)
    x = b.new((n, c, h, w), F32, "plain", 0)
    corners = np.sort(b.rng.uniform(-1, 9, (boxes, 2, 2)), axis=1).reshape(boxes, 4)
    batch = b.add(b.rng.integers(0, n, boxes).astype(I64))
    out = (b.between(1, 3), b.between(1, 3))
    aligned = b.one([None, "half_pixel", "output_half_pixel"]) if b.opset >= 16 else None
    return b.node("RoiAlign", [x, b.add(corners.astype(np.float32)), batch], mode=b.one([None, "avg", "max"]),
                  output_height=out[0], output_width=out[1], sampling_ratio=b.one([None, 1, 2]),
                  spatial_scale=b.one([None, 0.5]), coordinate_transformation_mode=aligned)


@row("CenterCropPad", since=18)
def _center_crop_pad(b: Builder):
    x = b.pick((F32, F64, I32, I64), low=1, high=4)
    axes = sorted(int(a) for a in b.rng.choice(x.rank, b.between(1, x.rank), replace=False))
    sizes = [b.between(0 if b.chance(0.1) else 1, 7) for _ in axes]
    made = list(x.shape)
    for axis, size in zip(axes, sizes):
        made[axis] = size
    return b.node("CenterCropPad", [x, b.const(sizes)], made=[(x.dtype, made)],
                  axes=None if len(axes) == x.rank else axes)


@row("AffineGrid", since=20)
def _affine_grid(b: Builder):
    n, c, sizes = b.between(1, 2), b.between(1, 3), b.one([(2, 3), (1, 4), (2, 3, 4)])
    theta = b.new((n, len(sizes), len(sizes) + 1), F32, "plain", 0)
    return b.node("AffineGrid", [theta, b.const([n, c, *sizes])],
                  made=[(F32, (n, *sizes, len(sizes)))], align_corners=b.one([None, 0, 1]))


@row("Col2Im", since=18)
def _col2im(b: Builder):
    n, c, image = b.between(1, 2), b.between(1, 3), (b.between(3, 6), b.between(3, 6))
    block = (b.between(1, 3), b.between(1, 3))
    strides, pads = [b.one([1, 2]), b.one([1, 2])], [b.below(2) for _ in range(4)]
    counts = [(i + pads[d] + pads[d + 2] - k) // s + 1
              for d, (i, k, s) in enumerate(zip(image, block, strides))]
    x = b.new((n, c * math.prod(block), math.prod(counts)), F32, constant=0)
    return b.node("Col2Im", [x, b.const(image), b.const(block)], made=[(F32, (n, c, *image))],
                  strides=strides, pads=pads)


@row("Det", since=11)
def _det(b: Builder):
    n = b.between(1, 4)
    return b.node("Det", [b.new((*b.one([(), (2,), (2, 3)]), n, n), F32, "plain", 0)])


@row("MaxUnpool", since=11)
def _max_unpool(b: Builder):
    sizes = (1, b.between(1, 2), b.one([4, 6]), b.one([4, 6]))
    x = b.new(sizes, F32, "plain", 0)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    y, places = b.node("MaxPool", [x], 2, **window)
    return b.node("MaxUnpool", [y, places], made=[(F32, sizes)], **window)


@row("MelWeightMatrix", since=17)
def _mel_weight_matrix(b: Builder):
    bins, length, rate = b.one([4, 8]), b.one([16, 64]), b.one([8000, 16000])
    low, high = b.one([0.0, 100.0]), b.one([2000.0, 4000.0])
    return b.node("MelWeightMatrix", [b.const(bins), b.const(length), b.const(rate),
                                      b.const(low, F32), b.const(high, F32)],
                  made=[(F32, (length // 2 + 1, bins))])


@row("NonMaxSuppression", since=11)
def _non_max_suppression(b: Builder):
    """The rows that it finds depend on the data: the first alone are compared, through a Slice."""
    boxes = b.between(2, 8)
    centres = b.rng.uniform(0, 10, (1, boxes, 2))
    halves = b.rng.uniform(0.5, 3, (1, boxes, 2))
    corners = b.const(np.concatenate([centres - halves, centres + halves], axis=-1), F32)
    scores = b.const(b.rng.uniform(0, 1, (1, b.between(1, 2), boxes)), F32)
    if not b.chance(0.5):
        raise Skip("drawn less often")
    most = 1
    found = b.node("NonMaxSuppression", [corners, scores, b.const(most), b.const(0.5, F32),
                                         b.const(0.0, F32)],
                   made=[(I64, (scores.shape[1] * most, 3))])
    return found


@row("DFT", since=17)
def _dft(b: Builder):
    sizes = (b.between(1, 2), b.one([4, 5, 8, 12]), b.one([1, 2]))
    x = b.new(sizes, F32, "plain", 0)
    inverse = b.one([None, 0, 1]) if sizes[-1] == 2 else None
    onesided = b.one([None, 0, 1]) if sizes[-1] == 1 else None
    made = [(F32, (sizes[0], sizes[1] // 2 + 1 if onesided else sizes[1], 2))]
    if b.opset < 20:
        return b.node("DFT", [x], made=made, axis=1, inverse=inverse, onesided=onesided)
    return b.node("DFT", [x, None, b.const(1)], made=made, inverse=inverse, onesided=onesided)


@row("DeformConv", since=19)
def _deform_conv(b: Builder):
    n, c, size, filters, kernel = 1, b.one([1, 2]), b.between(3, 5), b.between(1, 3), b.one([1, 2, 3])
    out = size - kernel + 1
    x = b.new((n, c, size, size), F32, "plain", 0)
    w = b.new((filters, c, kernel, kernel), F32, "plain", 0.8)
    offset = b.add(b.rng.uniform(-1.5, 1.5, (n, 2 * kernel * kernel, out, out)).astype(np.float32))
    bias = b.new((filters,), F32, "plain", 0.8) if b.chance(0.5) else None
    mask = b.new((n, kernel * kernel, out, out), F32, "plain", 0) if b.chance(0.5) else None
    return b.node("DeformConv", [x, w, offset, bias, mask], made=[(F32, (n, filters, out, out))],
                  kernel_shape=[kernel, kernel], pads=[0, 0, 0, 0])


__all__ = ["BOOL"]
