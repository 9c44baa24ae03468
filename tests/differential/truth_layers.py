"""More operators in float64, as in truth_ops.py: convolutions, normalisations, sums of several tensors."""

import itertools

import numpy as np

from known import attribute
from truth_contrib import fast_gelu
from truth_contrib import gelu as exact_gelu
from truth_ops import pads_of, spread_of


def conv(node, read, made):
    """A sum over taps. (The evaluator fills dilated kernels with zeros, which make NaN of infinities.)"""
    x, w, groups = read[0], read[1], attribute(node, "group", 1)
    sizes, count = x.shape[2:], x.ndim - 2
    strides, dilations, spread = spread_of(node, count, w.shape[2:])
    padded = np.pad(x, [(0, 0), (0, 0), *pads_of(node, sizes, spread, strides)])
    out = made[0].shape[2:]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    per_in, per_out = x.shape[1] // groups, w.shape[0] // groups
    for g, tap in itertools.product(range(groups), itertools.product(*(range(k) for k in w.shape[2:]))):
        at = tuple(slice(t * d, t * d + (n - 1) * s + 1, s)
                   for t, d, n, s in zip(tap, dilations, out, strides))
        part = padded[(slice(None), slice(g * per_in, (g + 1) * per_in), *at)]
        filters = slice(g * per_out, (g + 1) * per_out)
        y[:, filters] += np.einsum("nc...,fc->nf...", part, w[(filters, slice(None), *tap)])
    if len(read) > 2 and read[2] is not None:
        y += read[2].reshape(1, -1, *[1] * count)
    return [y]


def lp_normalization(node, read, made):
    x, p, axis = read[0], attribute(node, "p", 2), attribute(node, "axis", -1)
    norm = np.sum(np.abs(x) ** p, axis=axis, keepdims=True) ** (1 / p)
    return [np.where(norm == 0, 0 * x, x / norm)]


def group_normalization(node, read, made):
    """From opset 21 on, with a scale and bias a channel."""
    x, scale, bias = read
    parts = x.reshape(x.shape[0], attribute(node, "num_groups"), -1)
    centred = parts - np.mean(parts, axis=-1, keepdims=True)
    root = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + attribute(node, "epsilon", 1e-5))
    shape = [1, -1, *[1] * (x.ndim - 2)]
    return [(centred / root).reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)]


def gather_elements(node, read, made):
    x, index, axis = read[0], read[1], attribute(node, "axis", 0)
    places = list(np.indices(index.shape))
    places[axis] = np.where(index < 0, index + x.shape[axis], index)
    return [x[tuple(places)]]


def slice_(node, read, made):
    """A start before the first element, backwards, is the first, where Python takes none."""
    x = read[0]
    given = [*read[1:], None, None, None, None][:4]
    starts, ends, axes, steps = given if given[0] is not None else (
        attribute(node, name) for name in ("starts", "ends", "axes", "steps"))
    axes = range(len(starts)) if axes is None else axes
    for axis, start, end, step in zip(axes, starts, ends, [1] * len(starts) if steps is None else steps):
        size, step = x.shape[axis], int(step)
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start, end = (v + size if v < 0 else v for v in (int(start), int(end)))
        x = np.take(x, range(min(max(start, 0), high), min(max(end, low), high), step), axis=axis)
    return [x]


def gelu(node, read, made):
    """(The evaluator's numbers are of float32.)"""
    return (fast_gelu if attribute(node, "approximate") == b"tanh" else exact_gelu)(node, read, made)


def mean(node, read, made):
    return [sum(read) / len(read)]


def as_matrix(function):
    """Of a tensor taken for a matrix, as before opset 13; by rows."""
    def run(node, read, made):
        x, axis = read[0], attribute(node, "axis", 1)
        rows = int(np.prod(x.shape[:axis % x.ndim if x.ndim else 0]))
        return [function(x.reshape(rows, -1)).reshape(x.shape) if x.size else x]
    return run


def _log_softmax(x):
    return _log_softmax_along(x, 1)


def _hardmax(x):
    return (np.arange(x.shape[1]) == np.argmax(x, axis=1)[:, None]).astype(np.float64)


def log_softmax(node, read, made):
    """(The evaluator takes the logarithm of what may have become 0.)"""
    return [_log_softmax_along(read[0], attribute(node, "axis", -1))]


def _log_softmax_along(x, axis: int):
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def nll_loss(node, read, made):
    scores, target, weight = [*read, None][:3]
    count = scores.shape[1]
    ignored = attribute(node, "ignore_index")
    skip = np.zeros(target.shape, bool) if ignored is None else target == ignored
    label = np.where(skip, 0, target)
    label = np.where(label < 0, label + count, label)
    weights = np.where(skip, 0, 1.0 if weight is None else weight[label])
    picked = np.take_along_axis(scores, label[:, None], axis=1)[:, 0]
    loss = np.where(skip, 0, -picked * weights)
    reduction = attribute(node, "reduction", b"mean")
    if reduction == b"none":
        return [loss]
    return [np.sum(loss) / (1 if reduction == b"sum" else np.sum(weights))]


def softmax_cross_entropy_loss(node, read, made):
    logs = _log_softmax_along(read[0], 1)
    return [*nll_loss(node, [logs, *read[1:]], made), logs][:len(made)]


def dynamic_quantize_linear(node, read, made):
    """In float32, as its formula has it: ties are those of rounded quotients. Of zeros with a scale of
    1, as onnxruntime has it."""
    x = read[0].astype(np.float32)
    low, high = np.minimum(np.float32(0), np.min(x)), np.maximum(np.float32(0), np.max(x))
    scale = (high - low) / np.float32(255) or np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return [np.clip(np.rint(x / scale) + zero, 0, 255), np.array(scale), np.array(zero)]


def leaky_relu(node, read, made):
    return [np.where(read[0] < 0, read[0] * attribute(node, "alpha", 0.01), read[0])]


def prelu(node, read, made):
    """By the text, a zero is itself, also where the slope is infinite."""
    return [np.where(read[0] < 0, read[0] * read[1], read[0])]


def concat_from_sequence(node, read, made):
    join = np.stack if attribute(node, "new_axis", 0) else np.concatenate
    return [join(read[0], axis=attribute(node, "axis"))]


def sequence_at(node, read, made):
    return [read[0][int(read[1])]]


def sequence_length(node, read, made):
    return [np.array(len(read[0]))]


BEFORE_13 = {"Softmax": as_matrix(lambda x: np.exp(_log_softmax(x))), "LogSoftmax": as_matrix(_log_softmax),
             "Hardmax": as_matrix(_hardmax)}

OPERATORS = {"Conv": conv, "LpNormalization": lp_normalization, "GroupNormalization": group_normalization,
             "LogSoftmax": log_softmax, "NegativeLogLikelihoodLoss": nll_loss, "PRelu": prelu,
             "LeakyRelu": leaky_relu, "DynamicQuantizeLinear": dynamic_quantize_linear,
             "SoftmaxCrossEntropyLoss": softmax_cross_entropy_loss, "SequenceAt": sequence_at,
             "ConcatFromSequence": concat_from_sequence, "SequenceLength": sequence_length,
             "GatherElements": gather_elements, "Slice": slice_, "Gelu": gelu, "Mean": mean}
