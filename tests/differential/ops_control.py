"""Loops, and sequences that are resolved when a model is compiled."""

import numpy as np
from onnx import helper

from model import Builder, onnx_type
from table import row
from values import BOOL, F32, I64


def _info(name: str, dtype, shape):
    return helper.make_tensor_value_info(name, onnx_type(np.dtype(dtype)), shape)


def _change(b: Builder, read: str, other: str, made: str):
    return helper.make_node(b.one(["Add", "Sub", "Mul", "Max"]), [read, other], [made])


@row("Loop", since=11)
def _loop(b: Builder):
    """A state that each turn changes and gives out, with a count and a condition that are known or
    come with the run."""
    x = b.pick((F32,), 0, 3, kind="plain", fits=lambda v: min(v.shape, default=1) > 0)
    turns = b.between(0 if b.chance(0.15) else 1, 4)
    step = b.new(b.one([x.shape, ()]), F32, "plain", 0.5)
    prefix = b.name("loop")
    names = {key: f"{prefix}_{key}" for key in ("i", "c", "s", "c2", "s2", "y")}
    nodes = [helper.make_node("Identity", [names["c"]], [names["c2"]]),
             _change(b, names["s"], step.name, names["s2"])]
    outputs = [_info(names["c2"], BOOL, ()), _info(names["s2"], F32, x.shape)]
    made = [(F32, x.shape)]
    if b.chance(0.6):
        nodes.append(helper.make_node(b.one(["Tanh", "Neg", "Relu"]), [names["s2"]], [names["y"]]))
        outputs.append(_info(names["y"], F32, x.shape))
        made.append((F32, (turns, *x.shape)))
    body = helper.make_graph(nodes, "body", [_info(names["i"], I64, ()), _info(names["c"], BOOL, ()),
                                             _info(names["s"], F32, x.shape)], outputs)
    count = b.const(turns)
    condition = b.const(True, BOOL) if b.chance(0.7) else None
    return b.node("Loop", [count, condition, x], len(made), made=made, body=body)


@row("Scan", since=11)
def _scan(b: Builder):
    steps, sizes = b.between(1, 5), b.one([(3,), (2, 4), ()])
    state = b.new(sizes, F32, "plain", 0.2)
    x = b.new((steps, *sizes), F32, "plain", 0)
    prefix = b.name("scan")
    names = {key: f"{prefix}_{key}" for key in ("s", "x", "s2", "y")}
    body = helper.make_graph(
        [_change(b, names["s"], names["x"], names["s2"]),
         helper.make_node(b.one(["Tanh", "Neg"]), [names["s2"]], [names["y"]])], "body",
        [_info(names["s"], F32, sizes), _info(names["x"], F32, sizes)],
        [_info(names["s2"], F32, sizes), _info(names["y"], F32, sizes)])
    directions = {}
    if b.chance(0.4):
        directions = {"scan_input_directions": [b.below(2)], "scan_output_directions": [b.below(2)]}
    return b.node("Scan", [state, x], 2, made=[(F32, sizes), (F32, (steps, *sizes))], body=body,
                  num_scan_inputs=1, **directions)


def _sequence(b: Builder, count: int):
    """The name of a sequence of `count` tensors of one shape, and its parts."""
    first = b.pick((F32, I64), 1, 3, fits=lambda v: min(v.shape) > 0)
    parts = [first] + [b.new(first.shape, first.dtype) for _ in range(count - 1)]
    name = b.name("q")
    b.case.nodes.append(helper.make_node("SequenceConstruct", [p.name for p in parts], [name]))
    return name, parts


@row("ConcatFromSequence", since=11)
def _concat_from_sequence(b: Builder):
    name, parts = _sequence(b, b.between(1, 3))
    axis, new = b.below(parts[0].rank), b.below(2)
    sizes = list(parts[0].shape)
    if new:
        sizes.insert(axis, len(parts))
    else:
        sizes[axis] *= len(parts)
    node = helper.make_node("ConcatFromSequence", [name], [b.name("v")], axis=axis, new_axis=new)
    return b.append(node, [type(parts[0])(node.output[0], parts[0].dtype, tuple(sizes))])


@row("SequenceAt", since=11)
def _sequence_at(b: Builder):
    name, parts = _sequence(b, b.between(1, 3))
    place = b.const(b.between(-len(parts), len(parts) - 1))
    node = helper.make_node("SequenceAt", [name, place.name], [b.name("v")])
    return b.append(node, [type(parts[0])(node.output[0], parts[0].dtype, parts[0].shape)])


@row("SequenceLength", since=11)
def _sequence_length(b: Builder):
    name, parts = _sequence(b, b.between(1, 3))
    node = helper.make_node("SequenceLength", [name], [b.name("v")])
    return b.append(node, [type(parts[0])(node.output[0], I64, ())])
