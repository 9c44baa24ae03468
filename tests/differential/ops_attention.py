"""Attention, what stands around it in published models, and state that grows."""

import math

import numpy as np

from model import Builder
from table import row
from values import BOOL, F16, F32, I64, U8


def _heads(b: Builder) -> tuple[int, int]:
    """Of queries and of keys."""
    return b.one([(1, 1), (2, 2), (4, 4), (4, 2), (6, 2), (4, 1)])


@row("Attention", since=23)
def _attention(b: Builder):
    batch, (heads, shared), rows = b.between(1, 2), _heads(b), b.between(1, 5)
    width, value_width, columns = b.one([4, 8, 16]), b.one([4, 8]), b.between(1, 7)
    dtype = b.one([F32, F32, F32, F16])
    past = b.between(1, 3) if b.chance(0.25) else 0

    def operand(count: int, length: int, size: int, flat: bool):
        shape = (batch, length, count * size) if flat else (batch, count, length, size)
        return b.new(shape, dtype, "plain", 0.05)

    flat = b.chance(0.4)
    operands = [operand(heads, rows, width, flat), operand(shared, columns, width, flat),
                operand(shared, columns, value_width, flat)]
    whole = columns + past
    mask = None
    if b.chance(0.5):
        shape = b.one([(rows, whole), (1, 1, rows, whole), (batch, 1, rows, whole),
                       (batch, heads, rows, whole)])
        mask = b.new(shape, b.one([BOOL, dtype]), "plain", 0.2)
    operands.append(mask)
    if past:
        operands += [operand(shared, past, width, False), operand(shared, past, value_width, False)]
    given = {"is_causal": b.one([None, 0, 1]), "scale": b.one([None, 0.3]),
             "softcap": b.one([None, None, 2.0, 50.0])}
    if flat:
        given |= {"q_num_heads": heads, "kv_num_heads": shared}
    y = (batch, rows, heads * value_width) if flat else (batch, heads, rows, value_width)
    made = [(dtype, y)]
    if past:
        made += [(dtype, (batch, shared, whole, width)), (dtype, (batch, shared, whole, value_width))]
    return b.node("Attention", operands, len(made), made=made, **given)


@row("RotaryEmbedding", since=23)
def _rotary_embedding(b: Builder):
    batch, heads, length, width = b.between(1, 2), b.one([1, 2, 3]), b.between(1, 5), b.one([4, 8, 16])
    dtype = b.one([F32, F32, F16])
    flat = b.chance(0.4)
    x = b.new((batch, length, heads * width) if flat else (batch, heads, length, width), dtype,
              constant=0.05)
    turned = b.one([0, 0, width // 2])
    half = (turned or width) // 2
    given = {"interleaved": b.one([None, 0, 1]), "num_heads": heads if flat else None,
             "rotary_embedding_dim": turned or None}
    if b.chance(0.6):
        most = length + b.between(0, 4)
        caches = [b.new((most, half), dtype, "plain", 0.7) for _ in range(2)]
        places = b.add(b.rng.integers(0, most, (batch, length)).astype(I64))
    else:
        caches = [b.new((batch, length, half), dtype, "plain", 0.7) for _ in range(2)]
        places = None
    return b.node("RotaryEmbedding", [x, *caches, places], made=[(dtype, x.shape)], **given)


@row("TensorScatter", since=24)
def _tensor_scatter(b: Builder):
    batch, most, length = b.between(1, 3), b.between(4, 8), b.between(1, 3)
    rest = b.one([(3,), (2, 5)])
    mode = b.one([None, "linear", "circular"])
    cache = b.new((batch, most, *rest), F32, constant=0.05)
    update = b.new((batch, length, *rest), F32, constant=0.1)
    places = None
    if b.chance(0.7):
        limit = most if mode == "circular" else most - length + 1
        places = b.add(b.rng.integers(0, limit, (batch,)).astype(I64))
    return b.node("TensorScatter", [cache, update, places], made=[(F32, cache.shape)], mode=mode, axis=1)


@row("SimplifiedLayerNormalization", since=11)
def _simplified_layer_normalization(b: Builder):
    """Of onnxruntime, in ONNX's own domain."""
    x = b.pick((F32,), low=2, fits=lambda v: min(v.shape) > 0)
    return b.node("SimplifiedLayerNormalization", [x, b.weights(x.shape[-1:], x.dtype)],
                  made=[(x.dtype, x.shape)], axis=-1, epsilon=b.one([1e-5, 1e-3]), stash_type=1)


def _microsoft(name: str):
    return row(f"com.microsoft.{name}", since=11)


@_microsoft("MultiHeadAttention")
def _multi_head_attention(b: Builder):
    batch, heads, width, rows, columns = (b.between(1, 2), b.one([1, 2, 4]), b.one([4, 8]),
                                          b.between(1, 4), b.between(1, 6))
    size = heads * width
    q = b.new((batch, rows, size), F32, "plain", 0)
    k, v = (b.new((batch, columns, size), F32, "plain", 0) for _ in range(2))
    bias = b.new((3 * size,), F32, "plain", 0.9) if b.chance(0.4) else None
    return b.node("MultiHeadAttention", [q, k, v, bias], domain="com.microsoft",
                  made=[(F32, (batch, rows, size))], num_heads=heads, scale=b.one([None, 0.25]))


@_microsoft("Attention")
def _packed_attention(b: Builder):
    batch, heads, width, length = b.between(1, 2), b.one([1, 2, 4]), b.one([4, 8]), b.between(1, 5)
    size = heads * width
    x = b.new((batch, length, size), F32, "plain", 0)
    weights, bias = b.new((size, 3 * size), F32, "plain", 1), b.new((3 * size,), F32, "plain", 1)
    return b.node("Attention", [x, weights, bias], domain="com.microsoft",
                  made=[(F32, (batch, length, size))], num_heads=heads,
                  unidirectional=b.one([None, 0, 1]))


@_microsoft("RotaryEmbedding")
def _microsoft_rotary(b: Builder):
    batch, heads, length, width = b.between(1, 2), b.one([1, 2]), b.between(1, 4), b.one([4, 8])
    x = b.new((batch, heads, length, width), F32, constant=0)
    most = length + 3
    caches = [b.new((most, width // 2), F32, "plain", 1) for _ in range(2)]
    places = b.add(b.rng.integers(0, most - length + 1, (1,)).astype(I64)) if b.chance(0.5) else \
        b.add(b.rng.integers(0, most, (batch, length)).astype(I64))
    return b.node("RotaryEmbedding", [x, places, *caches], domain="com.microsoft",
                  made=[(F32, x.shape)], interleaved=b.one([None, 0, 1]))


def _skip_norm(name: str, with_beta: bool) -> None:
    def make(b: Builder):
        batch, length, size = b.between(1, 3), b.between(1, 5), b.one([4, 7, 16, 33])
        x, skip = (b.new((batch, length, size), F32, constant=0.05) for _ in range(2))
        vectors = [b.weights((size,), F32) for _ in range(3)]
        operands = [x, skip, vectors[0]]
        if with_beta:
            operands.append(vectors[1] if b.chance(0.7) else None)
        operands.append(vectors[2] if b.chance(0.5) else None)
        return b.node(name, operands, domain="com.microsoft", made=[(F32, x.shape)],
                      epsilon=b.one([1e-5, 1e-3]))
    _microsoft(name)(make)


_skip_norm("SkipLayerNormalization", True)
_skip_norm("SkipSimplifiedLayerNormalization", False)


@_microsoft("FusedMatMul")
def _fused_matmul(b: Builder):
    m, k, n = b.between(1, 9), b.between(1, 17), b.between(1, 17)
    batch = b.one([(), (2,), (2, 3)])
    flip = [b.below(2), b.below(2)]
    x = b.new((*batch, k, m) if flip[0] else (*batch, m, k), F32, constant=0)
    w = b.weights((*batch, n, k) if flip[1] else (*batch, k, n), F32)
    return b.node("FusedMatMul", [x, w], domain="com.microsoft", made=[(F32, (*batch, m, n))],
                  transA=flip[0] or None, transB=flip[1] or None, alpha=b.one([None, 0.5, 2.0, -3.0]))


_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid")
_PARAMETERS = {"LeakyRelu": [0.2], "Clip": [-0.5, 1.5], "HardSigmoid": [0.3, 0.4]}


@_microsoft("FusedGemm")
def _fused_gemm(b: Builder):
    m, k, n = b.between(1, 9), b.between(1, 17), b.between(1, 17)
    activation = b.one(("Relu", "Sigmoid", "Tanh", "LeakyRelu"))
    given = {"activation_alpha": 0.2} if activation == "LeakyRelu" else {}
    return b.node("FusedGemm", [b.new((m, k), F32, constant=0), b.weights((k, n), F32),
                                b.weights((n,), F32)],
                  domain="com.microsoft", made=[(F32, (m, n))], alpha=b.one([None, 0.5]),
                  beta=b.one([None, 2.0]), activation=activation, **given)


@_microsoft("FusedConv")
def _fused_conv(b: Builder):
    channels, filters, size, kernel = b.one([1, 3, 8]), b.one([1, 4, 16]), b.between(3, 9), b.one([1, 3])
    x = b.new((b.between(1, 2), channels, size, size), F32, constant=0)
    w = b.weights((filters, channels, kernel, kernel), F32)
    activation = b.one(_ACTIVATIONS)
    made = (x.shape[0], filters, size, size)
    more = [b.new(made, F32, constant=0.2)] if b.chance(0.3) else []
    return b.node("FusedConv", [x, w, b.weights((filters,), F32), *more], domain="com.microsoft",
                  made=[(F32, made)], pads=[kernel // 2] * 4, kernel_shape=[kernel, kernel],
                  activation=activation, activation_params=_PARAMETERS.get(activation))


def _gelus(name: str, bias: float, **given) -> None:
    def make(b: Builder):
        x = b.pick((F32,), low=1, fits=lambda v: min(v.shape) > 0)
        operands = [x, b.weights(x.shape[-1:], F32)] if b.chance(bias) else [x]
        return b.node(name, operands, domain="com.microsoft", made=[(F32, x.shape)],
                      **{k: b.one(v) for k, v in given.items()})
    _microsoft(name)(make)


_gelus("Gelu", 0)
_gelus("BiasGelu", 1)
_gelus("FastGelu", 0.5)
_gelus("QuickGelu", 0, alpha=[None, 1.0, 1.5])


@_microsoft("MatMulNBits")
def _matmul_n_bits(b: Builder):
    m, k, n, block = b.between(1, 4), b.one([16, 32, 40]), b.between(1, 9), b.one([16, 32])
    blocks = math.ceil(k / block)
    x = b.new((m, k), F32, "plain", 0)
    packed = b.add(b.rng.integers(0, 256, (n, blocks, block // 2)).astype(np.uint8), constant=True)
    scales = b.new((n * blocks,), F32, "positive", 1)
    zeros = b.add(b.rng.integers(0, 256, n * math.ceil(blocks / 2)).astype(np.uint8), True) \
        if b.chance(0.4) else None
    return b.node("MatMulNBits", [x, packed, scales, zeros], domain="com.microsoft",
                  made=[(F32, (m, n))], K=k, N=n, bits=4, block_size=block)


__all__ = ["U8"]
