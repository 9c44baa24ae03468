"""Makes tests of onnxruntime's own operators (com.microsoft) in the layout of ONNX's node tests.

usage: make_contrib_tests.py FOLDER

Each is a model of one operator, random inputs, and what onnxruntime gives for them; `tilemesh
verify --data FOLDER` is the judge.
"""

import pathlib
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import contrib_quantized


class Maker:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.random = np.random.default_rng(2026)

    def floats(self, *shape: int) -> np.ndarray:
        return self.random.uniform(-1, 1, shape).astype(np.float32)

    def add(self, name, op, inputs, outputs=1, domain="com.microsoft", fixed=(), opset=17,
            **attributes):
        """`inputs`: arrays, None for one that isn't given. Those named in `fixed` are constants.

        `outputs`: how many, or which, by number. An attribute may end in _ where its name is an
        argument's.
        """
        wanted = range(outputs) if isinstance(outputs, int) else outputs
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
        results = [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
        node = helper.make_node(op, names, results, domain=domain)
        node.attribute.extend(helper.make_attribute(key.rstrip("_"), value)
                              for key, value in attributes.items())
        given = {n: x for n, x in zip(names, inputs) if x is not None}
        graph = helper.make_graph(
            [node], name,
            [helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for n, x in given.items() if n not in fixed],
            [helper.make_empty_tensor_value_info(r) for r in results if r],
            [numpy_helper.from_array(given[n], n) for n in fixed])
        model = helper.make_model(graph, ir_version=9, opset_imports=[
            helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])
        # With more threads onnxruntime cuts a batch, and quantizes each part by its own range.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        data = {n: x for n, x in given.items() if n not in fixed}
        expected = session.run(None, data)
        self.write(name, model, data, expected)

    def write(self, name, model, data, expected):
        target = self.folder / f"test_{name}"
        folder = target / "test_data_set_0"
        folder.mkdir(parents=True)
        onnx.save(model, target / "model.onnx")
        for kind, arrays in (("input", data.values()), ("output", expected)):
            for i, array in enumerate(arrays):
                tensor = numpy_helper.from_array(np.asarray(array))
                (folder / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())


def activations(make: Maker):
    x, bias = make.floats(2, 3, 8) * 3, make.floats(8)
    make.add("gelu", "Gelu", [x])
    make.add("bias_gelu", "BiasGelu", [x, bias])
    make.add("fast_gelu", "FastGelu", [x])
    make.add("fast_gelu_bias", "FastGelu", [x, bias])
    make.add("quick_gelu", "QuickGelu", [x])
    make.add("quick_gelu_alpha", "QuickGelu", [x], alpha=0.5)


def products(make: Maker):
    a, b = make.floats(2, 3, 4), make.floats(2, 4, 5)
    make.add("fused_matmul", "FusedMatMul", [a, b], alpha=0.5)
    make.add("fused_matmul_trans_a", "FusedMatMul", [make.floats(2, 4, 3), b], transA=1)
    make.add("fused_matmul_trans_b", "FusedMatMul", [a, make.floats(2, 5, 4)], transB=1, alpha=2.0)
    make.add("fused_matmul_batch_a", "FusedMatMul", [make.floats(3, 2, 4), b], transBatchA=1)
    make.add("fused_matmul_batch_b", "FusedMatMul", [a, make.floats(4, 2, 5)], transBatchB=1)
    make.add("fused_matmul_batch_both", "FusedMatMul",
             [make.floats(4, 2, 3), make.floats(5, 2, 4)],
             transBatchA=1, transBatchB=1, transA=1, transB=1)
    make.add("fused_matmul_rank_4", "FusedMatMul",
             [make.floats(3, 2, 5, 4), make.floats(2, 5, 4, 6)], transBatchA=1)
    x, w, c = make.floats(3, 4), make.floats(4, 5), make.floats(5)
    for name, more in {
        "relu": {"activation": "Relu"},
        "leaky": {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1},
        "hard": {"activation": "HardSigmoid", "activation_alpha": 0.1, "activation_beta": 0.3,
                 "alpha": 0.5, "beta": 2.0},
        "tanh": {"activation": "Tanh"},
    }.items():
        weights = w.T.copy() if more.get("transB") else w
        make.add(f"fused_gemm_{name}", "FusedGemm", [x, weights, c], **more)


def convolutions(make: Maker):
    x, w, b = make.floats(1, 3, 6, 6), make.floats(4, 3, 3, 3), make.floats(4)
    z = make.floats(1, 4, 6, 6)
    for name, activation, parameters in [
        ("relu", "Relu", None), ("leaky", "LeakyRelu", [0.2]), ("clip", "Clip", [-0.3, 0.4]),
        ("sigmoid", "Sigmoid", None), ("tanh", "Tanh", None),
        ("hard_sigmoid", "HardSigmoid", [0.3, 0.4]),
    ]:
        more = {"activation": activation, "pads": [1, 1, 1, 1]}
        if parameters:
            more["activation_params"] = parameters
        make.add(f"fused_conv_{name}", "FusedConv", [x, w, b], **more)
    make.add("fused_conv_sum", "FusedConv", [x, w, b, z], activation="Relu", pads=[1, 1, 1, 1])
    make.add("fused_conv_sum_no_bias", "FusedConv", [x, w, None, z], activation="Relu",
             pads=[1, 1, 1, 1])


def norms(make: Maker):
    x, skip, gamma, beta = make.floats(2, 3, 8), make.floats(2, 3, 8), make.floats(8), make.floats(8)
    bias = make.floats(8)
    make.add("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta], epsilon=1e-5)
    make.add("skip_layer_norm_bias_sum", "SkipLayerNormalization", [x, skip, gamma, beta, bias],
             outputs=(0, 3))
    make.add("skip_layer_norm_broadcast", "SkipLayerNormalization",
             [x, make.floats(3, 8), gamma, None])
    make.add("skip_layer_norm_broadcast_batch", "SkipLayerNormalization",
             [x, make.floats(1, 3, 8), gamma, beta])
    make.add("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma], outputs=(0, 3))
    make.add("skip_rms_norm_bias", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias],
             outputs=(0, 3), epsilon=1e-3)
    make.add("simplified_layer_norm", "SimplifiedLayerNormalization", [x, gamma], domain="")
    make.add("simplified_layer_norm_axis", "SimplifiedLayerNormalization",
             [x, make.floats(3, 8)], domain="", axis=1, epsilon=1e-3)
    for opset in (9, 16):
        make.add(f"layer_norm_opset_{opset}", "LayerNormalization", [x, gamma, beta], outputs=3,
                 domain="", opset=opset, axis=-1, epsilon=1e-3)
    make.add("layer_norm_no_bias", "LayerNormalization", [x, gamma], domain="", opset=12)
    words = make.random.integers(0, 10, (2, 3)).astype(np.int32)
    segments = make.random.integers(0, 2, (2, 3)).astype(np.int32)
    tables = make.floats(10, 8), make.floats(5, 8), make.floats(2, 8)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    make.add("embed_layer_norm", "EmbedLayerNormalization",
             [words, segments, *tables, gamma, beta, mask], outputs=2)
    make.add("embed_layer_norm_plain", "EmbedLayerNormalization",
             [words, None, *tables[:2], None, gamma, beta], outputs=2, epsilon=1e-5)
    places = np.array([[2, 1, 4], [0, 0, 3]], np.int32)
    make.add("embed_layer_norm_places", "EmbedLayerNormalization",
             [words, segments, *tables, gamma, beta, None, places], outputs=(0, 1, 2))


def angles(places: int, half: int):
    turns = np.outer(np.arange(places), 1.0 / 100 ** (np.arange(half) / half))
    return np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)


def rotations(make: Maker):
    x = make.floats(2, 3, 24)
    ids = np.array([[4, 1, 2], [0, 5, 3]], np.int64)
    first = np.array([3], np.int64)
    cos, sin = angles(10, 4)
    for interleaved in (0, 1):
        make.add(f"rotary_{interleaved}", "RotaryEmbedding", [x, ids, cos, sin],
                 interleaved=interleaved)
        make.add(f"rotary_offset_{interleaved}", "RotaryEmbedding", [x, first, cos, sin],
                 interleaved=interleaved)
    make.add("rotary_4d", "RotaryEmbedding", [make.floats(2, 3, 3, 8), ids, cos, sin])
    half_cos, half_sin = angles(10, 2)
    make.add("rotary_partial", "RotaryEmbedding", [x, ids, half_cos, half_sin],
             num_heads=3, rotary_embedding_dim=4)


def attentions(make: Maker):
    x, w, b = make.floats(2, 3, 8), make.floats(8, 24), make.floats(24)
    heads = {"num_heads": 2}
    make.add("attention", "Attention", [x, w, b], **heads)
    make.add("attention_causal", "Attention", [x, w, b], unidirectional=1, **heads)
    make.add("attention_scale", "Attention", [x, w, b], scale=0.3, **heads)
    make.add("attention_mask", "Attention",
             [x, w, b, np.array([[1, 1, 0], [1, 1, 1]], np.int32)], **heads)
    make.add("attention_mask_3d", "Attention",
             [x, w, b, make.random.integers(0, 2, (2, 3, 3)).astype(np.int32)], **heads)
    make.add("attention_lengths", "Attention", [x, w, b, np.array([2, 3], np.int32)], **heads)
    make.add("attention_ends_starts", "Attention",
             [x, w, b, np.array([3, 2, 1, 0], np.int32)], **heads)
    make.add("attention_past", "Attention", [x, w, b, None, make.floats(2, 2, 2, 5, 4)],
             outputs=2, unidirectional=1, **heads)
    make.add("attention_bias", "Attention",
             [x, w, b, None, None, make.floats(2, 2, 3, 3)], **heads)
    make.add("attention_bias_broadcast", "Attention",
             [x, w, b, None, None, make.floats(1, 2, 3, 3)], **heads)
    make.add("attention_sizes", "Attention", [x, make.floats(8, 20), make.floats(20)],
             qkv_hidden_sizes=[8, 8, 4], **heads)


def multi_heads(make: Maker):
    q, k, v = make.floats(2, 3, 8), make.floats(2, 5, 8), make.floats(2, 5, 8)
    heads = {"num_heads": 2}
    make.add("mha", "MultiHeadAttention", [q, k, v], **heads)
    make.add("mha_causal", "MultiHeadAttention", [q, make.floats(2, 3, 8), make.floats(2, 3, 8)],
             unidirectional=1, **heads)
    make.add("mha_bias", "MultiHeadAttention", [q, k, v, make.floats(24)], scale=0.7, **heads)
    make.add("mha_value_size", "MultiHeadAttention", [q, k, make.floats(2, 5, 12)], **heads)
    make.add("mha_padding", "MultiHeadAttention",
             [q, k, v, None, np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)], **heads)
    make.add("mha_attention_bias", "MultiHeadAttention",
             [q, k, v, None, None, make.floats(1, 2, 3, 5)], **heads)
    make.add("mha_past", "MultiHeadAttention",
             [q, make.floats(2, 3, 8), make.floats(2, 3, 8), None, None, None,
              make.floats(2, 2, 4, 4), make.floats(2, 2, 4, 4)], outputs=3, **heads)
    make.add("mha_present", "MultiHeadAttention", [q, k, v], outputs=3, **heads)
    make.add("mha_cross", "MultiHeadAttention",
             [q, make.floats(2, 2, 5, 4), make.floats(2, 2, 5, 4)], **heads)


def grouped(make: Maker):
    def case(name, batch, new, past, lengths, total, shared=0, packed=False, rotary=False, **more):
        size, queries, keys = 16, 4, 2
        q, k, v = (make.floats(batch, new, n * size) for n in (queries, keys, keys))
        cache = [make.floats(batch, keys, shared or past, size) for _ in range(2)]
        if packed:
            q, k, v = np.concatenate([q, k, v], -1), None, None
        inputs = [q, k, v, *(cache if shared or past else (None, None)),
                  np.array(lengths, np.int32), np.array(total, np.int32)]
        if rotary:
            inputs += angles(32, size // 2)
            more["do_rotary"] = 1
        make.add(f"gqa_{name}", "GroupQueryAttention", inputs, outputs=3, fixed=("x6",),
                 num_heads=queries, kv_num_heads=keys, **more)

    case("prompt", 2, 4, 0, [3, 3], 4)
    case("prompt_rotary", 2, 4, 0, [3, 3], 4, rotary=True)
    case("prompt_interleaved", 1, 4, 0, [3], 4, rotary=True, rotary_interleaved=1)
    case("prompt_packed", 1, 4, 0, [3], 4, packed=True, rotary=True)
    case("prompt_window", 1, 6, 0, [5], 6, local_window_size=3)
    case("prompt_softcap", 1, 4, 0, [3], 4, softcap=0.5)
    case("prompt_scale", 1, 4, 0, [3], 4, scale=0.2)
    case("token", 1, 1, 5, [5], 6, rotary=True)
    case("token_batch", 2, 1, 5, [5, 5], 6, rotary=True)
    case("token_window", 1, 1, 7, [7], 8, local_window_size=4)
    case("tokens", 1, 3, 5, [7], 8, rotary=True)
    case("token_packed", 1, 1, 5, [5], 6, packed=True, rotary=True)


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    maker = Maker(folder)
    for group in (activations, products, convolutions, norms, rotations, attentions, multi_heads,
                  grouped, *contrib_quantized.GROUPS):
        group(maker)
    return 0


if __name__ == "__main__":
    sys.exit(main())
