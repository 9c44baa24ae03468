"""Compares quantised models with onnxruntime: those of tools/models.py, in the forms that
onnxruntime.quantization makes of them (calibrated on seeded random inputs), made afresh each time.

Each form is compared twice.

apart: every node by itself, on what its operands are in onnxruntime (without rewrites), so that no
difference grows on its way through the model. Integers have to be the same, but for one in a
thousand of those that a function of floats is rounded to, which may be a step away; floats have to
agree within 1e-5 of the largest and 2e-7, which is how far onnxruntime's sigmoid is from its own.

whole: the model's outputs. A quantised model is as sensitive as its roundings are coarse: a last
bit in an input may move an integer by a step, and that one others behind it. So the tolerance is
onnxruntime's own sensitivity: the largest difference, root mean square over that of the outputs,
between its outputs without rewrites and (1) those with all of its rewrites, (2) those for three
inputs that are changed by a relative 1e-6. We may be three times as far from it, and 1e-6. (2e-7 are taken off all of them, as above.)
The same holds on two devices, each with its part of the batch where there is one.

Exits with 1 when any differ.
"""

import argparse
import dataclasses
import logging
import pathlib
import sys
import tempfile
import time
import typing

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, version_converter
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType

import contrib_quantized
import models
import oracle

Values = dict[str, np.ndarray]

SEQUENCE = models.Case("silero_vad_16k_sequence.onnx",
                       {"input": (7, 576), "h": (1, 1, 128), "c": (1, 1, 128)})
CASES = (SEQUENCE, models.Case(models.CLS.file, {"x": (2, 3, 48, 192)}), models.REC, models.DET, models.ENCODER)

PLAIN = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
EXTENDED = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
FULL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL

# Operators whose integers follow from a function that every library computes in its own way.
OF_FUNCTIONS = {"QLinearSigmoid", "QLinearSoftmax"}
FEW = 1e-3
NEAR = 1e-5
OF_A_SIGMOID = 2e-7


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, case: models.Case):
        self.inputs = iter([case.make_inputs(100 + i) for i in range(2)])

    def get_next(self):
        return next(self.inputs, None)


def dynamic(source, target, case, **options):
    quantization.quantize_dynamic(source, target, **options)


def static(source, target, case, **options):
    quantization.quantize_static(source, target, Calibration(case), **options)


def rewritten(make: typing.Callable, *of, **options):
    """What `make` makes, as onnxruntime's optimizer saves it, with operators of its own."""
    source, target, case = of
    plain = target.with_suffix(".plain.onnx")
    make(source, plain, case, **options)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4  # it warns that such files are for this machine
    settings.graph_optimization_level = EXTENDED
    settings.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(plain, settings, providers=["CPUExecutionProvider"])


def four_bits(source, target, case):
    """Products with constant matrices as MatMulNBits, in blocks of 32 with zero points."""
    model = onnx.load(source)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in stored:
            continue
        weights = numpy_helper.to_array(stored[node.input[1]])
        depth, columns = weights.shape
        blocks = np.pad(weights.T, ((0, 0), (0, -depth % 32))).reshape(columns, -1, 32)
        low, high = blocks.min(-1, keepdims=True), blocks.max(-1, keepdims=True)
        scales = np.maximum((high - low) / 15, 1e-9).astype(np.float32)
        points = np.clip(np.rint(-low / scales), 0, 15)
        integers = np.clip(np.rint(blocks / scales) + points, 0, 15)
        parts = {"b": contrib_quantized.packed(integers.astype(np.uint8), 4),
                 "scales": scales.reshape(-1),
                 "points": contrib_quantized.packed(points[..., 0].astype(np.uint8), 4).reshape(-1)}
        name = node.input[1]
        model.graph.initializer.extend(
            numpy_helper.from_array(part, f"{name}_{node.output[0]}_{which}")
            for which, part in parts.items())
        inputs = [node.input[0], *(f"{name}_{node.output[0]}_{which}" for which in parts)]
        node.CopyFrom(helper.make_node(
            "MatMulNBits", inputs, list(node.output), node.name, domain="com.microsoft",
            K=depth, N=columns, bits=4, block_size=32))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, target)


FORMS: dict[str, typing.Callable] = {
    "dynamic": dynamic,
    "dynamic, u8 by channel": lambda *of: dynamic(*of, per_channel=True,
                                                  weight_type=QuantType.QUInt8),
    "operators": lambda *of: static(*of, quant_format=QuantFormat.QOperator),
    "operators, i8 by channel": lambda *of: static(
        *of, quant_format=QuantFormat.QOperator, per_channel=True,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8),
    "QDQ": lambda *of: static(*of, quant_format=QuantFormat.QDQ),
    "QDQ, i8 by channel": lambda *of: static(
        *of, quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8),
    "QDQ, i16 and i4": lambda *of: static(
        *of, quant_format=QuantFormat.QDQ, activation_type=QuantType.QInt16,
        weight_type=QuantType.QInt4),
    "dynamic, rewritten": lambda *of: rewritten(dynamic, *of),
    "QDQ, rewritten": lambda *of: rewritten(static, *of, quant_format=QuantFormat.QDQ),
    "four bits": four_bits,
}


def prepare(path: pathlib.Path, target: pathlib.Path):
    """The same model with what the quantiser wants: opset 13 at least, for scales by channel, and
    initializers in place of Constants."""
    model = onnx.load(path)
    if min(of.version for of in model.opset_import if of.domain in ("", "ai.onnx")) < 13:
        model = version_converter.convert_version(model, 13)
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensor = node.attribute[0].t
            tensor.name = node.output[0]
            model.graph.initializer.append(tensor)
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, target)


def outputs(model: onnx.ModelProto, inputs: Values, level=PLAIN) -> Values:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


@dataclasses.dataclass(frozen=True)
class Made:
    """A model of ours to run, as oracle.our_outputs takes it."""

    path: pathlib.Path


def ours(tool: pathlib.Path, folder: pathlib.Path, model: onnx.ModelProto, inputs: Values,
         names: list[str], mesh: str, split: str) -> Values:
    path = folder / "run.onnx"
    onnx.save(model, path)
    return oracle.our_outputs(tool, Made(path), inputs, names, mesh, split)


# --- whole --------------------------------------------------------------------------------------

def distance(got: Values, want: Values) -> float:
    def size(values):
        return float(np.sqrt(np.mean(np.square(values.astype(np.float64)))))

    worst = 0.0
    for name, value in want.items():
        if got[name].shape != value.shape or got[name].dtype != value.dtype:
            return float("inf")
        apart = size(got[name].astype(np.float64) - value.astype(np.float64))
        if not np.isfinite(apart):
            return float("inf")
        worst = max(worst, max(apart - OF_A_SIGMOID, 0) / max(size(value), 1e-30))
    return worst


def nudged(inputs: Values, seed: int) -> Values:
    random = np.random.default_rng(seed)
    return {name: (x * (1 + 1e-6 * random.standard_normal(x.shape))).astype(x.dtype)
            if x.dtype == np.float32 else x for name, x in inputs.items()}


def compare_whole(tool, folder, model, inputs) -> tuple[str, str]:
    want = outputs(model, inputs)
    others = [outputs(model, inputs, FULL)]
    others += [outputs(model, nudged(inputs, seed)) for seed in range(3)]
    sensitivity = max(distance(other, want) for other in others)
    allowed = 3 * sensitivity + 1e-6
    split = "data" if len(inputs) == 1 and next(iter(inputs.values())).shape[0] > 1 else ""
    one, two = (distance(ours(tool, folder, model, inputs, list(want), *how), want)
                for how in (("1x1", ""), ("1x2", split)))
    text = f"{one:.1e} of {sensitivity:.1e}"
    if one > allowed:
        return text, f"the outputs are {text}"
    return text, f"on two devices the outputs are {two:.1e}" if two > allowed else ""


# --- apart --------------------------------------------------------------------------------------

def all_values(model: onnx.ModelProto, inputs: Values) -> Values:
    """What every node gives, by name, and the inputs."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(helper.make_empty_tensor_value_info(name)
                              for node in whole.graph.node for name in node.output if name)
    return inputs | outputs(whole, inputs)


def is_size(value: np.ndarray) -> bool:
    """Shapes, axes and the like: what programs have to know beforehand."""
    return value.dtype in (np.int64, np.int32) and value.size <= 16


def cut_apart(model: onnx.ModelProto, values: Values):
    """The model with every value between nodes as an input, what the inputs are, and the node and
    the name in `values` of each output."""
    names = {name: f"v{i}" for i, name in enumerate(values)}
    nodes, given, made = [], {}, {}
    for number, node in enumerate(model.graph.node):
        own = onnx.NodeProto()
        own.CopyFrom(node)
        for i, name in enumerate(node.input):
            if name in values:
                own.input[i] = names[name]
                given[names[name]] = values[name]
        for i, name in enumerate(node.output):
            if name:
                own.output[i] = "of_" + names[name]
                made[own.output[i]] = (node, name)
        own.name = f"node_{number}"
        nodes.append(own)
    constants = [numpy_helper.from_array(value, name) for name, value in given.items()
                 if is_size(value)]
    given = {name: value for name, value in given.items() if not is_size(value)}
    graph = helper.make_graph(
        nodes, "apart",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for name, x in given.items()],
        [helper.make_empty_tensor_value_info(name) for name in made],
        [*model.graph.initializer, *constants])
    cut = helper.make_model(graph, ir_version=model.ir_version, opset_imports=model.opset_import)
    return cut, given, made


def fault(op: str, got: np.ndarray, want: np.ndarray) -> str:
    """What is wrong with a node's result, if anything is."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if want.size == 0:
        return ""
    apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
    if np.issubdtype(want.dtype, np.floating):
        largest = float(np.max(np.abs(want)))
        return "" if apart.max() <= NEAR * largest + OF_A_SIGMOID else f"{apart.max():.1e} beside {largest:.1e}"
    wrong = int(np.count_nonzero(apart))
    if op in OF_FUNCTIONS and apart.max() <= 1 and wrong <= max(1, FEW * want.size):
        return ""
    return f"{wrong} of {want.size} differ, by up to {apart.max():.0f}" if wrong else ""


def compare_apart(tool, folder, model, inputs) -> tuple[str, str]:
    values = all_values(model, inputs)
    cut, given, made = cut_apart(model, values)
    got = ours(tool, folder, cut, given, list(made), "1x1", "")
    faults = [f"{node.op_type} \"{name}\": {text}" for output, (node, name) in made.items()
              if (text := fault(node.op_type, got[output], values[name]))]
    text = f"{len(made) - len(faults)} of {len(made)}"
    shown = "; ".join(faults[:3])
    return text, f"{len(faults)} nodes differ: {shown}" if faults else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", type=pathlib.Path, default=oracle.TOOL)
    parser.add_argument("--model", default="", help="only those whose name and form hold this")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the models in this folder")
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    onnxruntime.set_default_logger_severity(3)

    differing = compared = 0
    print(f"{'model':44} {'form':26} {'nodes':>12} {'outputs':>19}")
    for case in CASES:
        inputs = case.make_inputs()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            prepare(case.path, folder / "float.onnx")
            for form, make in FORMS.items():
                if options.model not in f"{case.name} {form}":
                    continue
                start = time.monotonic()
                target = folder / "quantised.onnx"
                make(folder / "float.onnx", target, case)
                model = onnx.load(target)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    onnx.save(model, options.keep / f"{case.path.stem} {form}.onnx")
                texts, faults = [], []
                for compare in (compare_apart, compare_whole):
                    try:
                        text, wrong = compare(options.tool, folder, model, inputs)
                    except RuntimeError as error:
                        text, wrong = "-", str(error)
                    texts.append(text)
                    faults += [wrong] if wrong else []
                compared += 1
                differing += bool(faults)
                print(f"{case.name:44} {form:26} {texts[0]:>12} {texts[1]:>19} "
                      f"{'; '.join(faults) or 'equal'} ({time.monotonic() - start:.1f} s)",
                      flush=True)
    print(f"{compared - differing} of {compared} are equal to onnxruntime")
    return 1 if differing or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
