"""Operators in float64 where ONNX's reference evaluator has none, or gives something else than ONNX's
text: windows with ceil_mode or a partial last window, recurrent networks with lengths or other
activations, transposed convolutions, older quantisation.

Each function takes the node, its operands (None: not given) and the dtypes of its outputs.
"""

import itertools
import math

import numpy as np

from known import attribute
from values import I64

_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(node, read, made):
    x = read[0]
    return [np.where(np.isnan(x), np.nan, _erf(x)) if x.size else x]


def softplus(node, read, made):
    return [np.logaddexp(0.0, read[0])]


def global_pool(reduce):
    def run(node, read, made):
        return [reduce(read[0], axis=tuple(range(2, read[0].ndim)), keepdims=True)]
    return run


def global_lp_pool(node, read, made):
    p = attribute(node, "p", 2)
    x = np.abs(read[0]) ** p
    return [np.sum(x, axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)]


def lrn(node, read, made):
    x, size = read[0], attribute(node, "size")
    squares = np.zeros_like(x)
    for c in range(x.shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + math.ceil((size - 1) / 2) + 1)
        squares[:, c] = np.sum(x[:, low:high] ** 2, axis=1)
    base = attribute(node, "bias", 1.0) + attribute(node, "alpha", 1e-4) / size * squares
    return [x / base ** attribute(node, "beta", 0.75)]


def batch_normalization(node, read, made):
    x, scale, bias, mean, variance = read
    shape = [1, -1, *[1] * (x.ndim - 2)]
    axes = tuple(d for d in range(x.ndim) if d != 1)
    results = []
    if attribute(node, "training_mode", 0):
        momentum = attribute(node, "momentum", 0.9)
        old_mean, old_variance = mean, variance
        mean, variance = np.mean(x, axis=axes), np.var(x, axis=axes)
        results = [old_mean * momentum + mean * (1 - momentum),
                   old_variance * momentum + variance * (1 - momentum)]
    root = np.sqrt(variance + attribute(node, "epsilon", 1e-5)).reshape(shape)
    y = (x - mean.reshape(shape)) / root * scale.reshape(shape) + bias.reshape(shape)
    return [y, *results][:len(made)]


def spread_of(node, count: int, kernel):
    strides = attribute(node, "strides") or [1] * count
    dilations = attribute(node, "dilations") or [1] * count
    return strides, dilations, [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]


def pads_of(node, sizes, spread, strides) -> list[tuple[int, int]]:
    auto = (attribute(node, "auto_pad") or b"NOTSET").decode()
    if auto == "NOTSET":
        pads = attribute(node, "pads") or [0] * 2 * len(sizes)
        return list(zip(pads[:len(sizes)], pads[len(sizes):]))
    if auto == "VALID":
        return [(0, 0)] * len(sizes)
    found = []
    for n, s, k in zip(sizes, strides, spread):
        total = max(0, (-(-n // s) - 1) * s + k - n)
        less, more = total // 2, total - total // 2
        found.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return found


def pool(kind: str):
    """Every window by itself. The output's sizes are those that ONNX's inference gave."""
    def run(node, read, made):
        x = read[0]
        sizes = x.shape[2:]
        kernel = attribute(node, "kernel_shape")
        strides, dilations, spread = spread_of(node, len(sizes), kernel)
        pads = pads_of(node, sizes, spread, strides)
        out = np.zeros((*x.shape[:2], *made[0].shape[2:]))
        indices = np.zeros(out.shape, I64)
        for place in itertools.product(*(range(n) for n in out.shape[2:])):
            taps = [[p * s - pad[0] + i * d for i in range(k)]
                    for p, s, pad, k, d in zip(place, strides, pads, kernel, dilations)]
            inside = [[t for t in axis if 0 <= t < n] for axis, n in zip(taps, sizes)]
            window = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)]
            flat = window.reshape(*x.shape[:2], -1)
            counted = flat.shape[-1]
            if attribute(node, "count_include_pad", 0):
                counted = math.prod(sum(-pad[0] <= t < n + pad[1] for t in axis)
                                    for axis, n, pad in zip(taps, sizes, pads))
            at = (slice(None), slice(None), *place)
            out[at] = _window(kind, flat, counted, attribute(node, "p", 2))
            if kind == "max" and len(made) > 1 and flat.shape[-1]:
                indices[at] = _positions(node, x.shape, inside, np.argmax(flat, axis=-1))
        return [out, indices][:len(made)]
    return run


def _window(kind: str, flat, counted: int, p: int):
    if kind == "max":
        return np.max(flat, axis=-1) if flat.shape[-1] else -np.inf
    if kind == "average":
        return np.sum(flat, axis=-1) / counted
    return np.sum(np.abs(flat) ** p, axis=-1) ** (1 / p)


def _positions(node, shape, inside, chosen):
    """Numbers of the chosen elements in the whole tensor."""
    places = list(itertools.product(*inside))
    sizes = shape[2:]
    order = "F" if attribute(node, "storage_order", 0) else "C"
    numbers = np.array([np.ravel_multi_index(place, sizes, order=order) for place in places])
    images = np.arange(shape[0] * shape[1]).reshape(shape[:2]) * math.prod(sizes)
    return numbers[chosen] + images


def conv_transpose(node, read, made):
    x, w = read[0], read[1]
    groups = attribute(node, "group", 1)
    sizes, kernel = x.shape[2:], w.shape[2:]
    strides, dilations, spread = spread_of(node, len(sizes), kernel)
    whole = [(n - 1) * s + k for n, s, k in zip(sizes, strides, spread)]
    filters = w.shape[1]
    full = np.zeros((x.shape[0], filters * groups, *whole))
    per = x.shape[1] // groups
    for g, tap in itertools.product(range(groups), itertools.product(*(range(k) for k in kernel))):
        part = np.einsum("nc...,cf->nf...", x[:, g * per:(g + 1) * per],
                         w[(slice(g * per, (g + 1) * per), slice(None), *tap)])
        at = tuple(slice(t * d, t * d + (n - 1) * s + 1, s)
                   for t, d, n, s in zip(tap, dilations, sizes, strides))
        full[(slice(None), slice(g * filters, (g + 1) * filters), *at)] += part
    cut = _transpose_pads(node, whole, made[0].shape[2:])
    out = np.zeros((*full.shape[:2], *made[0].shape[2:]))
    target, source = [], []
    for (low, _), n, m in zip(cut, whole, out.shape[2:]):
        first = max(0, -low)
        count = max(0, min(m - first, n - (low + first)))
        target.append(slice(first, first + count))
        source.append(slice(low + first, low + first + count))
    out[(slice(None), slice(None), *target)] = full[(slice(None), slice(None), *source)]
    if len(read) > 2 and read[2] is not None:
        out += read[2].reshape(1, -1, *[1] * len(sizes))
    return [out]


def _transpose_pads(node, whole, wanted) -> list[tuple[int, int]]:
    auto = (attribute(node, "auto_pad") or b"NOTSET").decode()
    count = len(whole)
    if auto == "NOTSET" and attribute(node, "output_shape") is None:
        pads = attribute(node, "pads") or [0] * 2 * count
        return list(zip(pads[:count], pads[count:]))
    extra = attribute(node, "output_padding") or [0] * count
    found = []
    for n, m, o in zip(whole, wanted, extra):
        total = n + o - m if auto == "NOTSET" else max(0, n + o - m)
        if auto != "SAME_UPPER":
            found.append((total - total // 2, total // 2))
        else:
            found.append((total // 2, total - total // 2))
    return found


def _sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


_FUNCTIONS = {"Sigmoid": _sigmoid, "Tanh": np.tanh, "Relu": lambda x: np.maximum(x, 0),
              "Softsign": lambda x: x / (1 + np.abs(x)), "Softplus": lambda x: np.logaddexp(0.0, x),
              "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
              "Elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
              "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x)}


def recurrent(kind: str):
    gates, defaults = {"LSTM": (4, ["Sigmoid", "Tanh", "Tanh"]), "GRU": (3, ["Sigmoid", "Tanh"]),
                       "RNN": (1, ["Tanh"])}[kind]

    def run(node, read, made):
        read = [*read, *[None] * (8 - len(read))]
        x, w, r, bias, lengths, h0, c0, peepholes = read
        steps, batch, _ = x.shape
        count, hidden = w.shape[0], r.shape[-1]
        names = [n.decode() for n in attribute(node, "activations", [])] or \
            [name for _ in range(count) for name in defaults]
        lengths = np.full(batch, steps) if lengths is None else lengths
        clip = attribute(node, "clip", math.inf)
        y = np.zeros((steps, count, batch, hidden))
        last_h, last_c = np.zeros((count, batch, hidden)), np.zeros((count, batch, hidden))
        for d in range(count):
            f = [_FUNCTIONS[n] for n in names[d * len(defaults):(d + 1) * len(defaults)]]
            wb, rb = np.split(bias[d] if bias is not None else np.zeros(2 * gates * hidden), 2)
            p = np.split(peepholes[d] if peepholes is not None else np.zeros(3 * hidden), 3)
            backwards = d == 1 or attribute(node, "direction", b"forward") == b"reverse"
            for n in range(batch):
                h = np.zeros(hidden) if h0 is None else h0[d, n]
                c = np.zeros(hidden) if c0 is None else c0[d, n]
                order = range(int(lengths[n]))
                for t in reversed(order) if backwards else order:
                    h, c = _CELLS[kind](node, f, x[t, n] @ w[d].T + wb, r[d], rb, h, c, p, clip)
                    y[t, d, n] = h
                last_h[d, n], last_c[d, n] = h, c
        results = [y, last_h, last_c]
        return [results[i] for i, name in enumerate(node.output) if name]
    return run


def _lstm_cell(node, f, xw, r, rb, h, c, p, clip):
    i, o, g, u = np.split(xw + h @ r.T + rb, 4)
    i = f[0](np.clip(i + p[0] * c, -clip, clip))
    g = f[0](np.clip(g + p[2] * c, -clip, clip))
    if attribute(node, "input_forget", 0):
        g = 1 - i
    c = g * c + i * f[1](np.clip(u, -clip, clip))
    o = f[0](np.clip(o + p[1] * c, -clip, clip))
    return o * f[2](c), c


def _gru_cell(node, f, xw, r, rb, h, c, p, clip):
    (xz, xr, xh), (rz, rr, rh), (bz, br, bh) = np.split(xw, 3), np.split(r, 3), np.split(rb, 3)
    z = f[0](np.clip(xz + h @ rz.T + bz, -clip, clip))
    s = f[0](np.clip(xr + h @ rr.T + br, -clip, clip))
    if attribute(node, "linear_before_reset", 0):
        inner = xh + s * (h @ rh.T + bh)
    else:
        inner = xh + (s * h) @ rh.T + bh
    return (1 - z) * f[1](np.clip(inner, -clip, clip)) + z * h, c


def _rnn_cell(node, f, xw, r, rb, h, c, p, clip):
    return f[0](np.clip(xw + h @ r.T + rb, -clip, clip)), c


_CELLS = {"LSTM": _lstm_cell, "GRU": _gru_cell, "RNN": _rnn_cell}


def _along(array, axis: int, rank: int):
    if array is None or np.ndim(array) != 1 or np.size(array) == 1:
        return None if array is None else np.reshape(array, ()) if np.size(array) == 1 else array
    return np.reshape(array, [-1 if d == axis % rank else 1 for d in range(rank)])


def quantize_linear(node, read, made):
    if attribute(node, "block_size", 0):
        return None
    x, axis = read[0], attribute(node, "axis", 1)
    scale = _along(read[1], axis, x.ndim)
    zero = _along(read[2] if len(read) > 2 else None, axis, x.ndim)
    info = np.iinfo(made[0].dtype)
    y = np.rint(x / scale) + (0 if zero is None else zero.astype(np.float64))
    return [np.clip(np.nan_to_num(y, nan=0), info.min, info.max).astype(made[0].dtype)]


def dequantize_linear(node, read, made):
    if attribute(node, "block_size", 0):
        return None
    x, axis = read[0].astype(np.float64), attribute(node, "axis", 1)
    scale = _along(read[1], axis, x.ndim)
    zero = _along(read[2] if len(read) > 2 else None, axis, x.ndim)
    return [(x - (0 if zero is None else zero.astype(np.float64))) * scale]


def reduce_log_sum_exp(node, read, made):
    """Stable; of integers in float64, made an integer at the end."""
    x = read[0].astype(np.float64)
    axes = attribute(node, "axes") or (read[1].tolist() if len(read) > 1 and read[1] is not None else [])
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        return [read[0]]
    axes = tuple(axes) or tuple(range(x.ndim))
    most = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(most), most, 0)
    total = np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift
    keep = attribute(node, "keepdims", 1)
    return [total if keep else np.squeeze(total, axis=axes)]


def one_hot(node, read, made):
    indices, depth, (off, on) = read[0].astype(np.float64), int(np.ravel(read[1])[0]), read[2]
    axis = attribute(node, "axis", -1) % (indices.ndim + 1)
    wrapped = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    places = np.arange(depth).reshape([-1 if d == axis else 1 for d in range(wrapped.ndim)])
    return [np.where(wrapped == places, on, off)]


def mean_variance_normalization(node, read, made):
    x, axes = read[0], tuple(attribute(node, "axes", [0, 2, 3]))
    centred = x - np.mean(x, axis=axes, keepdims=True)
    return [centred / (np.sqrt(np.mean(centred**2, axis=axes, keepdims=True)) + 1e-9)]


OPERATORS = {
    "OneHot": one_hot, "MeanVarianceNormalization": mean_variance_normalization,
    "BatchNormalization": batch_normalization,
    "Erf": erf, "Softplus": softplus, "GlobalMaxPool": global_pool(np.max),
    "GlobalAveragePool": global_pool(np.mean), "GlobalLpPool": global_lp_pool, "LRN": lrn,
    "MaxPool": pool("max"), "AveragePool": pool("average"), "LpPool": pool("lp"),
    "ConvTranspose": conv_transpose, "LSTM": recurrent("LSTM"), "GRU": recurrent("GRU"),
    "RNN": recurrent("RNN"), "QuantizeLinear": quantize_linear, "DequantizeLinear": dequantize_linear,
    "ReduceLogSumExp": reduce_log_sum_exp,
}
