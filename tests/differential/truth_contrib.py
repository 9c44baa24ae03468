"""onnxruntime's own operators in float64, by what their documentation says of them. As in truth_ops.py,
a function takes the node, its operands (None: not given) and the types of its outputs."""

import math

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from known import attribute



def _given(read, index: int):
    return read[index] if index < len(read) else None


def _sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


# Gelus. What cancels is written so that it doesn't.

def _gelu_of(x):
    return x * 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2)) if x.size else x


def gelu(node, read, made):
    return [_gelu_of(read[0] if _given(read, 1) is None else read[0] + read[1])]


def fast_gelu(node, read, made):
    x = read[0] if _given(read, 1) is None else read[0] + read[1]
    return [x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))]


def quick_gelu(node, read, made):
    return [read[0] * _sigmoid(attribute(node, "alpha", 1.702) * read[0])]


# Products with activations

_ACTIVATIONS = {
    "Relu": lambda x, p: np.maximum(x, 0), "Sigmoid": lambda x, p: _sigmoid(x),
    "Tanh": lambda x, p: np.tanh(x), "LeakyRelu": lambda x, p: np.where(x >= 0, x, p[0] * x),
    "Clip": lambda x, p: np.clip(x, p[0], p[1]), "HardSigmoid": lambda x, p: np.clip(p[0] * x + p[1], 0, 1)}


def fused_matmul(node, read, made):
    a, b = (np.swapaxes(x, -1, -2) if attribute(node, flag, 0) else x
            for x, flag in zip(read, ("transA", "transB")))
    return [attribute(node, "alpha", 1.0) * (a @ b)]


def fused_gemm(node, read, made):
    y = attribute(node, "alpha", 1.0) * (read[0] @ read[1])
    if _given(read, 2) is not None:
        y = y + attribute(node, "beta", 1.0) * read[2]
    return [_ACTIVATIONS[attribute(node, "activation").decode()](y, [attribute(node, "activation_alpha")])]


def fused_conv(node, read, made):
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    plain.domain, plain.op_type = "", "Conv"
    del plain.attribute[:]
    plain.attribute.extend(a for a in node.attribute if not a.name.startswith("activation"))
    del plain.input[:]
    plain.input.extend(f"x{i}" for i, x in enumerate(read[:3]) if x is not None)
    graph = helper.make_graph([plain], "one", [helper.make_value_info(n, onnx.TypeProto()) for n in plain.input],
                              [helper.make_value_info(plain.output[0], onnx.TypeProto())])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    y = ReferenceEvaluator(model).run(None, {n: read[int(n[1:])] for n in plain.input})[0]
    if _given(read, 3) is not None:
        y = y + read[3]
    return [_ACTIVATIONS[attribute(node, "activation").decode()](y, attribute(node, "activation_params"))]


def matmul_n_bits(node, read, made):
    x, packed, scales, zeros = [*read, None][:4]
    n, k, block = attribute(node, "N"), attribute(node, "K"), attribute(node, "block_size")
    if attribute(node, "bits", 4) != 4:
        return None
    blocks = -(-k // block)

    def halves(bytes_, count: int):
        return np.stack([bytes_ & 15, bytes_ >> 4], axis=-1).reshape(n, -1)[:, :count].astype(np.float64)

    zero = np.full((n, blocks), 8.0) if zeros is None else halves(zeros.reshape(n, -1), blocks)
    values = halves(packed.reshape(n, -1), blocks * block).reshape(n, blocks, block)
    w = ((values - zero[..., None]) * scales.reshape(n, blocks, 1)).reshape(n, -1)[:, :k]
    return [x @ w.T]


# Normalisations

def _scaled(x, scale, epsilon: float, centred: bool):
    if centred:
        x = x - np.mean(x, axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + epsilon) * scale


def simplified_layer_normalization(node, read, made):
    return [_scaled(read[0], read[1], attribute(node, "epsilon", 1e-5), False)]


def skip_layer_normalization(node, read, made):
    x, skip, scale, beta, bias = [*read, None, None][:5]
    y = _scaled(x + skip + (0 if bias is None else bias), scale, attribute(node, "epsilon", 1e-12), True)
    return [y if beta is None else y + beta]


def skip_simplified_layer_normalization(node, read, made):
    x, skip, scale, bias = [*read, None][:4]
    return [_scaled(x + skip + (0 if bias is None else bias), scale, attribute(node, "epsilon", 1e-12), False)]


# Attention

def _attend(node, q, k, v, causal: bool):
    """Operands [batch, length, size]; heads are parts of the size."""
    heads = attribute(node, "num_heads")
    q, k, v = (np.moveaxis(x.reshape(*x.shape[:2], heads, -1), 2, 1) for x in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (attribute(node, "scale") or 1 / math.sqrt(q.shape[-1]))
    if causal:
        seen = np.tri(scores.shape[-2], scores.shape[-1], scores.shape[-1] - scores.shape[-2])
        scores = np.where(seen > 0, scores, -np.inf)
    parts = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    y = np.moveaxis(parts / np.sum(parts, axis=-1, keepdims=True) @ v, 1, 2)
    return [y.reshape(*y.shape[:2], -1)]


def multi_head_attention(node, read, made):
    if any(x is not None for x in read[4:]):
        return None
    bias = _given(read, 3)
    parts = [0, 0, 0] if bias is None else np.split(bias, 3)
    return _attend(node, *(x + b for x, b in zip(read[:3], parts)), False)


def packed_attention(node, read, made):
    if any(x is not None for x in read[3:]):
        return None
    return _attend(node, *np.split(read[0] @ read[1] + read[2], 3, axis=-1),
                   bool(attribute(node, "unidirectional", 0)))


def rotary_embedding(node, read, made):
    x, places, cosines, sines = read
    if x.ndim != 4:
        return None
    if places.size == 1:
        places = np.broadcast_to(np.reshape(places, ()) + np.arange(x.shape[2]), (x.shape[0], x.shape[2]))
    cos, sin = cosines[places][:, None], sines[places][:, None]
    if attribute(node, "interleaved", 0):
        a, b = x[..., 0::2], x[..., 1::2]
        return [np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)]
    a, b = np.split(x, 2, axis=-1)
    return [np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)]


# Quantised operators

def _real(x, scale, zero):
    return (x.astype(np.float64) - (0 if zero is None else zero.astype(np.float64))) * scale


def _integer(y, scale, zero, made):
    info = np.iinfo(made[0].dtype)
    whole = np.rint(y / scale) + (0 if zero is None else zero.astype(np.float64))
    return [np.clip(whole, info.min, info.max).astype(made[0].dtype)]


def qlinear_binary(function):
    def run(node, read, made):
        return _integer(function(_real(*read[:3]), _real(*read[3:6])), *read[6:8], made)
    return run


def qlinear_unary(function):
    def run(node, read, made):
        return _integer(function(node, _real(*read[:3])), *read[3:5], made)
    return run


def _softmax(node, x):
    parts = np.exp(x - np.max(x, axis=attribute(node, "axis", -1), keepdims=True))
    return parts / np.sum(parts, axis=attribute(node, "axis", -1), keepdims=True)


def _leaky(node, x):
    return np.where(x >= 0, x, attribute(node, "alpha", 0.01) * x)


def _global_average(node, x):
    axes = tuple(range(1, x.ndim - 1)) if attribute(node, "channels_last", 0) else tuple(range(2, x.ndim))
    return np.mean(x, axis=axes, keepdims=True)


def qlinear_concat(node, read, made):
    parts = [_real(*read[i:i + 3]) for i in range(2, len(read), 3)]
    return _integer(np.concatenate(parts, axis=attribute(node, "axis")), read[0], read[1], made)


def matmul_integer_to_float(node, read, made):
    x, w, x_scale, w_scale, x_zero, w_zero, bias = [*read, None, None, None][:7]
    y = _real(x, x_scale, x_zero) @ _real(w, w_scale, w_zero)
    return [y if bias is None else y + bias]


def dynamic_quantize_matmul(node, read, made):
    """x is quantised with a scale and zero point of its own, as by DynamicQuantizeLinear."""
    x, w, scale, zero, bias = [*read, None, None][:5]
    low, high = min(0.0, float(np.min(x))), max(0.0, float(np.max(x)))
    step = (high - low) / 255 or 1.0
    origin = np.clip(np.rint(-low / step), 0, 255)
    whole = np.clip(np.rint(x / step) + origin, 0, 255)
    y = (whole - origin) * step @ _real(w, scale, zero)
    return [y if bias is None else y + bias]


def qgemm(node, read, made):
    """C is of the products' scale."""
    a, b = (x.T if attribute(node, flag, 0) else x for x, flag in ((read[0], "transA"), (read[3], "transB")))
    y = _real(a, *read[1:3]) @ _real(b, *read[4:6])  # the scales of b are those of its columns, turned or not
    if _given(read, 6) is not None:
        y = y + read[6] * read[1] * read[4]
    y = y * attribute(node, "alpha", 1.0)
    return [y] if _given(read, 7) is None else _integer(y, read[7], _given(read, 8), made)


def qlinear_where(node, read, made):
    return _integer(np.where(read[0], _real(*read[1:4]), _real(*read[4:7])), *read[7:9], made)


OPERATORS = {
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    **{f"com.microsoft.{name}": function for name, function in {
        "Gelu": gelu, "BiasGelu": gelu, "FastGelu": fast_gelu, "QuickGelu": quick_gelu,
        "FusedMatMul": fused_matmul, "FusedGemm": fused_gemm, "FusedConv": fused_conv,
        "MatMulNBits": matmul_n_bits, "SkipLayerNormalization": skip_layer_normalization,
        "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
        "MultiHeadAttention": multi_head_attention, "Attention": packed_attention,
        "RotaryEmbedding": rotary_embedding, "QLinearAdd": qlinear_binary(np.add),
        "QLinearMul": qlinear_binary(np.multiply),
        "QLinearSigmoid": qlinear_unary(lambda node, x: _sigmoid(x)),
        "QLinearLeakyRelu": qlinear_unary(_leaky), "QLinearSoftmax": qlinear_unary(_softmax),
        "QLinearGlobalAveragePool": qlinear_unary(_global_average), "QLinearConcat": qlinear_concat,
        "QGemm": qgemm, "QLinearWhere": qlinear_where,
        "DynamicQuantizeMatMul": dynamic_quantize_matmul,
        "MatMulIntegerToFloat": matmul_integer_to_float}.items()}}
