"""Makes a transformer encoder as an ONNX model, with seeded weights, in the form of exporters.

Input `x` is [batch, sequence, hidden] of f32, output `y` alike; the batch is a symbolic dim. A layer
is attention and a feed-forward part, each with its residual and layer norm, as in BERT. Initializers
have names such as `layers.0.attn.q.weight`, weights lie [in, out].
"""

import argparse
import dataclasses
import math
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 6
    hidden: int = 384
    heads: int = 12
    feed_forward: int = 1536
    sequence: int = 128
    seed: int = 0
    fused_qkv: bool = False
    pre_norm: bool = False

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "heads", "feed_forward", "sequence"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} isn't a multiple of heads {self.heads}")

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads


class Builder:
    """Nodes and initializers in the order in which they are added."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(config.seed)

    def node(self, op: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def constant(self, name: str, value: np.ndarray) -> str:
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """x @ weight + bias: the weights keep the size of what they multiply."""
        weight = self.random.standard_normal((inputs, outputs)) / math.sqrt(inputs)
        bias = 0.1 * self.random.standard_normal(outputs)
        self.constant(f"{name}.weight", weight.astype(np.float32))
        self.constant(f"{name}.bias", bias.astype(np.float32))
        product = self.node("MatMul", [x, f"{name}.weight"], f"{name}.matmul")
        return self.node("Add", [product, f"{name}.bias"], f"{name}.out")

    def layer_norm(self, x: str, name: str) -> str:
        size = self.config.hidden
        scale = 1 + 0.1 * self.random.standard_normal(size)
        bias = 0.1 * self.random.standard_normal(size)
        self.constant(f"{name}.weight", scale.astype(np.float32))
        self.constant(f"{name}.bias", bias.astype(np.float32))
        return self.node("LayerNormalization", [x, f"{name}.weight", f"{name}.bias"],
                         f"{name}.out", axis=-1, epsilon=1e-12)

    def gelu(self, x: str, name: str) -> str:
        """x * 0.5 * (1 + erf(x / sqrt(2))), in the words of exporters."""
        scaled = self.node("Div", [x, "sqrt_2"], f"{name}.scaled")
        erf = self.node("Erf", [scaled], f"{name}.erf")
        plus = self.node("Add", [erf, "one"], f"{name}.plus")
        product = self.node("Mul", [x, plus], f"{name}.product")
        return self.node("Mul", [product, "half"], f"{name}.out")

    def query_key_value(self, x: str, name: str) -> list[str]:
        size = self.config.hidden
        if not self.config.fused_qkv:
            return [self.linear(x, f"{name}.{part}", size, size) for part in "qkv"]
        fused = self.linear(x, f"{name}.qkv", size, 3 * size)
        parts = [f"{name}.{part}.out" for part in "qkv"]
        self.nodes.append(helper.make_node("Split", [fused, "thirds"], parts, f"{name}.split",
                                           axis=-1))
        return parts

    def attention(self, x: str, name: str) -> str:
        query, key, value = (
            self.node("Transpose",
                      [self.node("Reshape", [part, "heads_shape"], f"{name}.{letter}.heads")],
                      f"{name}.{letter}.transposed", perm=perm)
            for part, letter, perm in zip(self.query_key_value(x, name), "qkv",
                                          ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))
        scores = self.node("MatMul", [query, key], f"{name}.scores")
        scaled = self.node("Div", [scores, "head_scale"], f"{name}.scaled")
        weights = self.node("Softmax", [scaled], f"{name}.weights", axis=-1)
        mixed = self.node("MatMul", [weights, value], f"{name}.mixed")
        back = self.node("Transpose", [mixed], f"{name}.back", perm=[0, 2, 1, 3])
        joined = self.node("Reshape", [back, "joined_shape"], f"{name}.joined")
        return self.linear(joined, f"{name}.out", self.config.hidden, self.config.hidden)

    def feed_forward(self, x: str, name: str) -> str:
        sizes = self.config.hidden, self.config.feed_forward
        inner = self.gelu(self.linear(x, f"{name}.up", *sizes), f"{name}.gelu")
        return self.linear(inner, f"{name}.down", *reversed(sizes))

    def layer(self, x: str, name: str) -> str:
        for part, block in (("attn", self.attention), ("mlp", self.feed_forward)):
            inner = self.layer_norm(x, f"{name}.{part}.norm") if self.config.pre_norm else x
            x = self.node("Add", [x, block(inner, f"{name}.{part}")], f"{name}.{part}.residual")
            if not self.config.pre_norm:
                x = self.layer_norm(x, f"{name}.{part}.norm")
        return x

    def constants(self) -> None:
        config = self.config
        self.constant("sqrt_2", np.array(math.sqrt(2), np.float32))
        self.constant("one", np.array(1, np.float32))
        self.constant("half", np.array(0.5, np.float32))
        self.constant("head_scale", np.array(math.sqrt(config.head_size), np.float32))
        self.constant("heads_shape", np.array([0, config.sequence, config.heads, config.head_size]))
        self.constant("joined_shape", np.array([0, config.sequence, config.hidden]))
        if config.fused_qkv:
            self.constant("thirds", np.array([config.hidden] * 3))


def make_encoder(config: Config) -> onnx.ModelProto:
    builder = Builder(config)
    builder.constants()
    x = "x"
    for i in range(config.layers):
        x = builder.layer(x, f"layers.{i}")
    if config.pre_norm:
        x = builder.layer_norm(x, "norm")
    builder.node("Identity", [x], "y")
    shape = ["batch", config.sequence, config.hidden]
    graph = helper.make_graph(builder.nodes, "encoder",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              builder.initializers)
    model = helper.make_model(graph, ir_version=IR_VERSION, producer_name="tilemesh",
                              opset_imports=[helper.make_opsetid("", OPSET)])
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = Config()
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=usual.layers)
    parser.add_argument("--hidden", type=int, default=usual.hidden)
    parser.add_argument("--heads", type=int, default=usual.heads)
    parser.add_argument("--feed-forward", type=int, help="default: 4 times hidden")
    parser.add_argument("--sequence", type=int, default=usual.sequence)
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--fused-qkv", action="store_true",
                        help="one product for query, key and value, then a split")
    parser.add_argument("--pre-norm", action="store_true",
                        help="layer norms before the parts instead of after the residuals")
    options = vars(parser.parse_args())
    output = options.pop("output")
    options["feed_forward"] = options["feed_forward"] or 4 * options["hidden"]
    try:
        model = make_encoder(Config(**options))
    except ValueError as error:
        parser.error(str(error))
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(output.name + ".partial")
    partial.write_bytes(model.SerializeToString())
    partial.replace(output)


if __name__ == "__main__":
    main()
