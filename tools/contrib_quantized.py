"""The quantized operators of com.microsoft, for make_contrib_tests.py.

Scales are often round numbers here: exact halves show in which order an operator rounds.
"""

import ml_dtypes
import numpy as np

BOTH = (np.uint8, np.int8)


def integers(make, dtype, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return make.random.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scale(value) -> np.ndarray:
    return np.array(value, np.float32)


def point(dtype, above_lowest: int) -> np.ndarray:
    return np.array(np.iinfo(dtype).min + above_lowest, dtype)


def elementwise(make):
    for dtype in BOTH:
        name = np.dtype(dtype).name

        def x(*shape, by=0.0471, zero=120):
            return [integers(make, dtype, *shape), scale(by), point(dtype, zero)]

        y = [scale(0.0612), point(dtype, 131)]
        round_y = [scale(0.5), point(dtype, 97)]
        for op in ("Add", "Mul"):
            case = f"qlinear_{op.lower()}_{name}"
            op = "QLinear" + op
            make.add(case, op, [*x(3, 257), *x(3, 257, by=0.0173, zero=131), *y])
            make.add(f"{case}_halves", op,
                     [*x(999, by=0.5), *x(999, by=0.25, zero=117), *round_y],
                     fixed=("x1", "x2", "x4", "x5", "x6", "x7"))
            make.add(f"{case}_thirds", op,
                     [*x(999, by=0.15), *x(999, by=0.05, zero=117), scale(0.1), point(dtype, 98)])
            # Of a real model: halves come about where a product isn't rounded before it is summed.
            make.add(f"{case}_close", op,
                     [*x(9, 999, by=0.031661537, zero=103), *x(by=0.023622047, zero=128),
                      scale(0.023529412), point(dtype, 0)])
            make.add(f"{case}_broadcast", op, [*x(2, 3, 5, 7), *x(3, 1, 1), *y])
            make.add(f"{case}_scalar", op, [*x(), *x(2, 9), *y])
            make.add(f"{case}_repeated", op,
                     [*x(3, 1, by=0.013, zero=228), *x(2, 3, 999, by=0.05), scale(0.017),
                      point(dtype, 131)])
        make.add(f"qlinear_add_{name}_empty", "QLinearAdd", [*x(0, 4), *x(0, 4), *y])
        make.add(f"qlinear_sigmoid_{name}", "QLinearSigmoid",
                 [*x(3, 99), scale(1 / 256), point(dtype, 0)])
        make.add(f"qlinear_leaky_relu_{name}", "QLinearLeakyRelu", [*x(3, 99), *y], alpha=0.1)
        make.add(f"qlinear_leaky_relu_{name}_halves", "QLinearLeakyRelu",
                 [*x(3, 99, by=0.5), scale(0.25), point(dtype, 77)], alpha=0.25)
        make.add(f"qlinear_concat_{name}", "QLinearConcat",
                 [*y, *x(2, 3, 4), *x(2, 2, 4, by=0.0612, zero=131), *x(2, 1, 4, by=0.5)], axis=1)
        make.add(f"qlinear_concat_{name}_last", "QLinearConcat",
                 [*round_y, *x(3, 5, by=0.25), *x(3, 7, by=0.75)], axis=-1)
        make.add(f"qlinear_where_{name}", "QLinearWhere",
                 [make.random.integers(0, 2, (4, 33)).astype(bool), *x(4, 33),
                  *x(4, 33, by=0.25, zero=100), *y])
        make.add(f"qlinear_where_{name}_broadcast", "QLinearWhere",
                 [make.random.integers(0, 2, (4, 1)).astype(bool), *x(33),
                  *x(2, 4, 33, by=0.25, zero=100), *y])
        make.add(f"qlinear_softmax_{name}_steps", "QLinearSoftmax",
                 [*x(7, 5), scale(0.0123), point(dtype, 5)], axis=-1, opset_=13)
        for axis in (-1, 1):
            for opset in (12, 13):
                make.add(f"qlinear_softmax_{name}_{axis % 3}_{opset}", "QLinearSoftmax",
                         [*x(3, 5, 7), scale(1 / 256), point(dtype, 0)], axis=axis, opset_=opset)


def pools(make):
    for dtype in BOTH:
        name = np.dtype(dtype).name
        x = [integers(make, dtype, 2, 3, 9, 11), scale(0.047), point(dtype, 120)]
        y = [scale(0.0123), point(dtype, 100)]
        last = [np.ascontiguousarray(x[0].transpose(0, 2, 3, 1)), *x[1:]]
        make.add(f"qlinear_global_average_pool_{name}", "QLinearGlobalAveragePool", x + y)
        make.add(f"qlinear_global_average_pool_{name}_last", "QLinearGlobalAveragePool", last + y,
                 channels_last=1)
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        make.add(f"qlinear_average_pool_{name}", "QLinearAveragePool", x + y, **window)
        make.add(f"qlinear_average_pool_{name}_pads", "QLinearAveragePool", x + y,
                 count_include_pad=1, strides=[2, 2], **window)
        make.add(f"qlinear_average_pool_{name}_ceil", "QLinearAveragePool", x + y,
                 kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
        make.add(f"qlinear_average_pool_{name}_last", "QLinearAveragePool", last + y,
                 channels_last=1, **window)
        line = [integers(make, dtype, 1, 2, 17), *x[1:]]
        make.add(f"qlinear_average_pool_{name}_1d", "QLinearAveragePool", line + y,
                 kernel_shape=[4], strides=[3], auto_pad="SAME_UPPER")


def products(make):
    a = make.floats(2, 5, 19)
    for dtype in BOTH:
        name = np.dtype(dtype).name
        b = integers(make, dtype, 19, 13)
        one = [scale(0.02), point(dtype, 130)]
        many = [np.abs(make.floats(13)) / 30, integers(make, dtype, 13)]
        bias = make.floats(13)
        op = "DynamicQuantizeMatMul"
        make.add(f"dynamic_matmul_{name}", op, [a, b, *one, bias], fixed=("x1", "x2", "x3"))
        make.add(f"dynamic_matmul_{name}_columns", op, [a, b, *many, bias], fixed=("x1",))
        make.add(f"dynamic_matmul_{name}_plain", op, [np.abs(a) + 1, b, one[0]])
        make.add(f"dynamic_matmul_{name}_zeros", op, [a * 0, b, *one])
        op = "MatMulIntegerToFloat"
        x = integers(make, np.uint8, 2, 5, 19)
        given = [x, b, scale(0.1)]
        make.add(f"matmul_to_float_{name}", op,
                 [*given, one[0], point(np.uint8, 99), one[1], bias])
        make.add(f"matmul_to_float_{name}_columns", op,
                 [*given, many[0], point(np.uint8, 99), many[1]], fixed=("x1",))
        make.add(f"matmul_to_float_{name}_plain", op, [*given, one[0]])
    make.add("matmul_to_float_signed", "MatMulIntegerToFloat",
             [integers(make, np.int8, 5, 19), integers(make, np.int8, 19, 13), scale(0.1),
              scale(0.02), point(np.int8, 3), point(np.int8, 140)])


def gemms(make):
    for left, right in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        name = f"{np.dtype(left).name}_{np.dtype(right).name}"
        a = [integers(make, left, 7, 19), scale(0.1), point(left, 120)]
        b = [integers(make, right, 19, 13), scale(0.02), point(right, 131)]
        c = make.random.integers(-3000, 3000, (13,)).astype(np.int32)
        many = [np.abs(make.floats(13)) / 30, integers(make, right, 13)]
        y = [scale(0.4), point(left, 111)]
        make.add(f"qgemm_{name}", "QGemm", [*a, *b, c, *y])
        make.add(f"qgemm_{name}_columns", "QGemm", [*a, b[0], *many, c, *y], fixed=("x3",))
        make.add(f"qgemm_{name}_halves", "QGemm",
                 [a[0], scale(0.5), a[2], b[0], scale(0.25), b[2], c, scale(16), y[1]])
        make.add(f"qgemm_{name}_float", "QGemm", [*a, *b, c], alpha=0.5)
        make.add(f"qgemm_{name}_no_bias", "QGemm", [*a, *b, None, *y])
        make.add(f"qgemm_{name}_transposed", "QGemm",
                 [a[0].T.copy(), *a[1:], b[0].T.copy(), *b[1:],
                  make.random.integers(-3000, 3000, (7, 13)).astype(np.int32), *y],
                 transA=1, transB=1, alpha=0.7)


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """Along the last dim, the lowest bits first."""
    count = 8 // bits
    short = -values.shape[-1] % count
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, short)])
    parts = values.reshape(*values.shape[:-1], -1, count).astype(np.uint8)
    return np.bitwise_or.reduce(parts << (np.arange(count, dtype=np.uint8) * bits), axis=-1)


def n_bits(make):
    for bits in (2, 4, 8):
        for depth, block in ((64, 32), (50, 16), (128, 128)):
            blocks, columns = -(-depth // block), 11
            weights = make.random.integers(0, 2 ** bits, (columns, blocks, block))
            points = packed(make.random.integers(0, 2 ** bits, (columns, blocks)), bits)
            scales = np.abs(make.floats(columns * blocks)) / 2 ** bits
            given = [make.floats(2, 3, depth), packed(weights, bits), scales]
            sizes = {"K": depth, "N": columns, "bits": bits, "block_size": block}
            case = f"matmul_{bits}_bits_{depth}_{block}"
            fixed = ("x1", "x2", "x3")
            make.add(case, "MatMulNBits", given, fixed=fixed[:2], **sizes)
            make.add(f"{case}_points", "MatMulNBits", [*given, points.reshape(-1)], fixed=fixed,
                     **sizes)
            make.add(f"{case}_bias", "MatMulNBits",
                     [*given, points.reshape(-1), None, make.floats(columns)], fixed=fixed, **sizes)
    weights = make.random.integers(0, 16, (11, 2, 32))
    given = [make.floats(3, 64), packed(weights, 4), np.abs(make.floats(11, 2)) / 16]
    sizes = {"K": 64, "N": 11, "bits": 4, "block_size": 32}
    make.add("matmul_4_bits_real_points", "MatMulNBits",
             [*given, (make.floats(11, 2) * 8 + 8).astype(np.float32)], fixed=("x1", "x2", "x3"),
             **sizes)
    make.add("matmul_4_bits_groups", "MatMulNBits",
             [*given, None, make.random.integers(0, 2, 64).astype(np.int32)],
             fixed=("x1", "x2", "x4"), **sizes)


def gathers(make):
    rows = np.array([[3, 0], [1, 4]], np.int64)
    for dtype, name in ((ml_dtypes.uint4, "u4"), (ml_dtypes.int4, "i4")):
        low = 0 if name == "u4" else -8

        def four(*shape):
            return (make.random.integers(0, 16, shape) + low).astype(dtype)

        data, points = four(5, 48), four(5, 3)
        scales = np.abs(make.floats(5, 3))
        op, by = "GatherBlockQuantized", {"block_size": 16}
        fixed = ("x0", "x2", "x3")
        make.add(f"gather_blocks_{name}", op, [data, rows, scales], fixed=fixed[:2], **by)
        make.add(f"gather_blocks_{name}_points", op, [data, rows, scales, points], fixed=fixed,
                 **by)
        make.add(f"gather_blocks_{name}_axes", op,
                 [four(32, 5, 3), np.array([2, -1], np.int64), np.abs(make.floats(2, 5, 3))],
                 fixed=fixed[:2], gather_axis=1, quantize_axis=0, **by)
    for bits in (4, 8):
        data = packed(make.random.integers(0, 2 ** bits, (5, 48)), bits)
        points = packed(make.random.integers(0, 2 ** bits, (5, 3)), bits)
        scales = np.abs(make.floats(5, 3))
        more = {"bits": bits, "block_size": 16, "quantize_axis": 1}
        make.add(f"gather_blocks_{bits}_bits", "GatherBlockQuantized",
                 [data, rows.astype(np.int32), scales], fixed=("x0", "x2"), **more)
        make.add(f"gather_blocks_{bits}_bits_points", "GatherBlockQuantized",
                 [data, rows, scales, points], fixed=("x0", "x2", "x3"), **more)


def attentions(make):
    x = [integers(make, np.uint8, 2, 3, 8), scale(0.02), point(np.uint8, 120)]
    for dtype in BOTH:
        name = np.dtype(dtype).name
        w, bias = integers(make, dtype, 8, 24), make.floats(24)

        def case(case, by, zero, mask=None, past=None, outputs=1, **more):
            make.add(f"qattention_{name}{case}", "QAttention",
                     [x[0], w, bias, x[1], by, mask, x[2], zero, past], outputs=outputs,
                     fixed=("x1",), num_heads=2, **more)

        one = scale(0.02), point(dtype, 130)
        case("", *one)
        case("_columns", np.abs(make.floats(24)) / 30, integers(make, dtype, 24))
        case("_causal", *one, unidirectional=1)
        case("_mask", *one, mask=np.array([[1, 1, 0], [1, 1, 1]], np.int32))
        case("_past", *one, past=make.floats(2, 2, 2, 5, 4), outputs=2, unidirectional=1)


def embeddings(make):
    words = make.random.integers(0, 10, (2, 3)).astype(np.int32)
    segments = make.random.integers(0, 2, (2, 3)).astype(np.int32)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    for dtype in BOTH:
        tables = [integers(make, dtype, *shape) for shape in ((10, 8), (5, 8), (2, 8), (8,), (8,))]
        scales = [scale(by) for by in (0.02, 0.013, 0.05, 0.1, 0.07)]
        points = [point(dtype, zero) for zero in (128, 100, 131, 5, 128)]
        name = np.dtype(dtype).name
        make.add(f"qembed_{name}", "QEmbedLayerNormalization",
                 [words, segments, *tables, mask, *scales, *points], outputs=2)
        none = [None]
        make.add(f"qembed_{name}_plain", "QEmbedLayerNormalization",
                 [words, None, *tables[:2], None, *tables[3:], None, *scales[:2], None, *scales[3:],
                  *points[:2], *none, *points[3:]], outputs=2, epsilon=1e-5)


def convolutions(make):
    for dtype, weights in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        name = f"{np.dtype(dtype).name}_{np.dtype(weights).name}"
        x = [integers(make, dtype, 1, 9, 7, 4), scale(0.04), point(dtype, 120)]
        w = [integers(make, weights, 6, 4, 3, 3), np.abs(make.floats(6)) / 30,
             np.full(6, point(weights, 128))]
        y = [scale(0.3), point(dtype, 111)]
        bias = make.random.integers(-3000, 3000, (6,)).astype(np.int32)
        more = {"pads": [1, 1, 1, 1], "strides": [2, 1]}
        fixed = ("x3", "x4", "x5")
        make.add(f"ms_qlinear_conv_{name}", "QLinearConv",
                 [x[0].transpose(0, 3, 1, 2).copy(), *x[1:], *w, *y, bias], fixed=fixed, **more)
        make.add(f"ms_qlinear_conv_{name}_last", "QLinearConv", [*x, *w, *y, bias], fixed=fixed,
                 channels_last=1, **more)


def recurrent(make):
    steps, batch, size, hidden = 5, 2, 6, 8
    for dtype in BOTH:
        name = np.dtype(dtype).name

        def case(case, directions=1, columns=False, lengths=None, states=False, holes=False,
                 count=steps, **more):
            def by():
                shape = (directions, 4 * hidden) if columns else (directions,)
                return [np.abs(make.floats(*shape)) / 100 + 0.002,
                        np.full(shape, point(dtype, 128))]  # onnxruntime wants but one value

            def state():
                return make.floats(directions, batch, hidden) if states else None

            make.add(f"dynamic_lstm_{name}{case}", "DynamicQuantizeLSTM",
                     [make.floats(count, batch, size),
                      integers(make, dtype, directions, size, 4 * hidden),
                      integers(make, dtype, directions, hidden, 4 * hidden),
                      make.floats(directions, 8 * hidden), lengths, state(), state(),
                      make.floats(directions, 3 * hidden) if holes else None, *by(), *by()],
                     outputs=3, fixed=("x1", "x2", "x8", "x9", "x10", "x11"), hidden_size=hidden,
                     **more)

        case("")
        case("_long", count=40)
        case("_reverse", direction="reverse")
        case("_both", directions=2, direction="bidirectional", states=True)
        case("_columns", columns=True)
        case("_lengths", lengths=np.array([5, 3], np.int32), states=True)
        case("_lengths_both", lengths=np.array([3, 5], np.int32), states=True, directions=2,
             direction="bidirectional")
        case("_peepholes", holes=True, clip=1.5)
        case("_coupled", input_forget=1)
        case("_hard", activations=["HardSigmoid", "Tanh", "Relu"], activation_alpha=[0.25],
             activation_beta=[0.4])


def linear(make):
    x = make.floats(3, 5, 7) * 3
    for dtype in (np.uint8, np.int8, np.uint16, np.int16):
        name = np.dtype(dtype).name
        by, zero = scale(0.021 if dtype in BOTH else 0.0002), point(dtype, 131)
        make.add(f"ms_quantize_{name}", "QuantizeLinear", [x, by, zero])
        make.add(f"ms_dequantize_{name}", "DequantizeLinear",
                 [integers(make, dtype, 3, 5, 7), by, zero])
        make.add(f"ms_quantize_{name}_axis", "QuantizeLinear",
                 [x, np.abs(make.floats(5)) / 9 + scale(0.01), integers(make, dtype, 5)])
        make.add(f"ms_dequantize_{name}_axis", "DequantizeLinear",
                 [integers(make, dtype, 3, 5, 7), np.abs(make.floats(7)), integers(make, dtype, 7)],
                 axis=-1)
    make.add("ms_dequantize_int32", "DequantizeLinear",
             [make.random.integers(-9999, 9999, (3, 4)).astype(np.int32), scale(0.013)])


def shapes(make):
    """Batches, vectors, scalars, and nothing at all."""
    for dtype in BOTH:
        name = np.dtype(dtype).name
        x, y = [scale(0.1), point(dtype, 3)], [scale(0.05), point(dtype, 9)]
        empty = [integers(make, dtype, 0, 3), *x]
        b = integers(make, dtype, 2, 19, 13)
        columns = [np.abs(make.floats(2, 1, 13)) / 30, integers(make, dtype, 2, 1, 13)]
        a = integers(make, np.uint8, 2, 5, 19)
        make.add(f"dynamic_matmul_{name}_batch", "DynamicQuantizeMatMul",
                 [make.floats(2, 5, 19), b, *x])
        make.add(f"dynamic_matmul_{name}_repeated", "DynamicQuantizeMatMul",
                 [make.floats(5, 19), b, *x])
        make.add(f"dynamic_matmul_{name}_empty", "DynamicQuantizeMatMul",
                 [make.floats(0, 19), b[0], *x])
        make.add(f"matmul_to_float_{name}_batch", "MatMulIntegerToFloat",
                 [a, b, scale(0.1), columns[0], point(np.uint8, 9), columns[1]])
        make.add(f"qgemm_{name}_empty", "QGemm",
                 [integers(make, dtype, 0, 4), *x, integers(make, dtype, 4, 5), *x, None, *y])
        make.add(f"qgemm_{name}_bias_column", "QGemm",
                 [integers(make, dtype, 5, 4), *x, integers(make, dtype, 4, 5), *x,
                  make.random.integers(-99, 99, (5, 1)).astype(np.int32), *y])
        make.add(f"qlinear_sigmoid_{name}_empty", "QLinearSigmoid", [*empty, *y])
        make.add(f"qlinear_mul_{name}_empty", "QLinearMul", [*empty, *empty, *y])
        make.add(f"qlinear_concat_{name}_empty", "QLinearConcat",
                 [*y, *empty, integers(make, dtype, 4, 3), *x], axis=0)
        make.add(f"qlinear_where_{name}_scalars", "QLinearWhere",
                 [np.array(True), integers(make, dtype), *x, integers(make, dtype, 3), *x, *y])
        make.add(f"qlinear_global_average_pool_{name}_1d", "QLinearGlobalAveragePool",
                 [integers(make, dtype, 2, 3, 17), *x, *y])
        make.add(f"qlinear_global_average_pool_{name}_3d", "QLinearGlobalAveragePool",
                 [integers(make, dtype, 2, 3, 4, 5, 3), *x, *y])
    weights = packed(make.random.integers(0, 16, (11, 2, 32)), 4)
    scales = np.abs(make.floats(22)) / 16
    sizes = {"K": 64, "N": 11, "bits": 4, "block_size": 32}
    for name, a in (("empty", make.floats(0, 64)), ("vector", make.floats(64)),
                    ("f16", make.floats(3, 64).astype(np.float16))):
        make.add(f"matmul_4_bits_{name}", "MatMulNBits", [a, weights, scales.astype(a.dtype)],
                 fixed=("x1", "x2"), **sizes)
    op, more, fixed = "GatherBlockQuantized", {"bits": 4, "block_size": 16}, ("x0", "x2")
    rows = np.array([1, 3], np.int64)
    make.add("gather_blocks_scalar", op,
             [integers(make, np.uint8, 5, 8), np.array(3, np.int64), make.floats(5, 1)],
             fixed=fixed, quantize_axis=1, **more)
    make.add("gather_blocks_part", op, [integers(make, np.uint8, 5, 12), rows, make.floats(5, 2)],
             fixed=fixed, quantize_axis=1, **more)
    make.add("gather_blocks_3d", op,
             [integers(make, np.uint8, 5, 2, 16), rows, make.floats(5, 2, 2)], fixed=fixed,
             quantize_axis=2, **more)
    make.add("gather_blocks_f16", op,
             [integers(make, np.uint8, 5, 8), rows, make.floats(5, 1).astype(np.float16)],
             fixed=fixed, quantize_axis=1, **more)


GROUPS = (elementwise, pools, products, gemms, n_bits, gathers, attentions, embeddings,
          convolutions, recurrent, linear, shapes)
