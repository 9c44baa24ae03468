#pragma once

#include <cstddef>
#include <vector>

#include "tilemesh/program/binary.hpp"

namespace tilemesh {

/// For tests: a small program that uses every kind of input, storage, op, attribute and placement,
/// and passes verification.
inline TensorSpec sample_spec(const Shape& shape, DType dtype = DType::f32) {
  TensorSpec spec;
  spec.shape = shape;
  spec.dtype = dtype;
  spec.mesh = MeshShape{1, 2};
  return spec;
}

inline Program sample_program() {
  using Kind = Storage::Kind;
  const auto rows = [](const Shape& shape) {
    TensorSpec spec = sample_spec(shape);
    spec.placements = {replicate(), shard(0)};
    return spec;
  };
  TensorSpec weights = sample_spec({3, 8});
  weights.layout = Layout::blocked(1, 16);
  TensorSpec fast = rows({4, 8});
  fast.space = Space::l1;

  Program program;
  program.name = "sample";
  program.mesh = MeshShape{1, 2};
  program.dram_workspace_bytes = 128;
  program.l1_workspace_bytes = 64;
  program.values = {
      {"x", rows({4, 3}), {Kind::input, 0, 0}},
      {"flag", sample_spec({}, DType::boolean), {Kind::input, 1, 0}},
      {"state", rows({4, 8}), {Kind::input, 2, 0}},
      {"w", weights, {Kind::constant, 0, 0}},
      {"bias", sample_spec({8}), {Kind::constant, 1, 0}},
      {"product", rows({4, 8}), {Kind::workspace, 0, 64}},
      {"fast", fast, {Kind::workspace, 0, 0}},
      {"y", rows({4, 8}), {Kind::output, 0, 0}},
      {"next", rows({4, 8}), {Kind::input, 2, 0}},
  };
  program.inputs = {{"x", 0, InputKind::activation},
                    {"flag", 1, InputKind::parameter},
                    {"state", 2, InputKind::state}};
  program.outputs = {{"y", 7, -1}, {"next", 8, 2}};
  program.constants = {{3, 0, 192, 7}, {4, 192, 32, 8}};

  const auto call = [](std::string op, std::vector<std::uint32_t> inputs,
                       std::vector<std::uint32_t> outputs, Attributes attributes = {}) {
    ProgramOp result;
    result.op = std::move(op);
    result.inputs = std::move(inputs);
    result.outputs = std::move(outputs);
    result.attributes = std::move(attributes);
    result.name = result.op + "_0";
    return result;
  };
  const auto jump = [](ProgramOp::Kind kind, std::uint32_t target) {
    ProgramOp result;
    result.kind = kind;
    result.target = target;
    return result;
  };
  ProgramOp matmul = call("matmul", {0, 3, 4}, {5});
  matmul.epilogue.steps = {{ScalarFn::add, {ExpressionStep::kResult, ExpressionStep::kOperand + 2}},
                           {ScalarFn::leaky_relu, {0, ExpressionStep::kResult}, 0.5F}};
  matmul.implementation = "reference";
  ProgramOp fail = jump(ProgramOp::Kind::fail, 0);
  fail.message = "never reached";
  program.ops = {
      matmul,
      jump(ProgramOp::Kind::jump_if_false, 5),
      call("softmax", {5}, {6}, {{"axis", std::int64_t{1}}}),
      call("leaky_relu", {6}, {7}, {{"alpha", 0.25}}),
      jump(ProgramOp::Kind::jump, 7),
      call("transpose", {5}, {7}, {{"order", std::vector<std::int64_t>{0, 1}}}),
      jump(ProgramOp::Kind::jump, 7),
      call("add", {5, 2}, {8}),
      jump(ProgramOp::Kind::jump, 10),
      fail,
  };
  program.ops[1].inputs = {1};
  return program;
}

inline BinaryContents sample_contents() {
  BinaryContents contents;
  contents.programs = {sample_program()};
  for (int i = 0; i < 224; ++i) {
    contents.constants.push_back(static_cast<std::byte>(i));
  }
  contents.target.processor = "none";
  contents.target.features = {"one", "two"};
  contents.target.cores = 2;
  contents.target.dram_bytes = std::int64_t{1} << 33;
  contents.metadata = {{"license", "Apache-2.0"}, {"empty", ""}};
  return contents;
}

/// The same for what is cut over the mesh: a constant of two shards, a value of parts, and reshards
/// that reduce, slice and gather.
inline Program cut_sample_program() {
  using Kind = Storage::Kind;
  const auto lying = [](const Shape& shape, const Placement& placement) {
    TensorSpec spec = sample_spec(shape);
    spec.placements = {replicate(), placement};
    return spec;
  };
  Program program;
  program.name = "cut";
  program.mesh = MeshShape{1, 2};
  program.dram_workspace_bytes = 512;
  program.values = {
      {"x", lying({4, 6}, shard(1)), {Kind::input, 0, 0}},
      {"w", lying({6, 8}, shard(0)), {Kind::constant, 0, 0}, "as \"x\" is cut"},
      {"product", lying({4, 8}, partial(ReduceOp::sum)), {Kind::workspace, 0, 0}},
      {"whole", sample_spec({4, 8}), {Kind::workspace, 0, 128}},
      {"relu", sample_spec({4, 8}), {Kind::workspace, 0, 256}},
      {"cut", lying({4, 8}, shard(0)), {Kind::workspace, 0, 384}},
      {"y", lying({4, 8}, shard(1)), {Kind::output, 0, 0}},
  };
  program.inputs = {{"x", 0, InputKind::activation}};
  program.outputs = {{"y", 6, -1}};
  program.constants = {{1, 0, 192, 9}};
  const auto call = [](std::string op, std::uint32_t input, std::uint32_t output) {
    ProgramOp result;
    result.op = std::move(op);
    result.inputs = {input};
    result.outputs = {output};
    return result;
  };
  program.ops = {call("matmul", 0, 2), call("reshard", 2, 3), call("relu", 3, 4),
                 call("reshard", 4, 5), call("reshard", 5, 6)};
  program.ops[0].inputs.push_back(1);
  program.ops[3].attributes.set("fill", std::int64_t{1});
  return program;
}

/// Each shard of the constant counts from its own number times 100.
inline BinaryContents cut_sample_contents() {
  BinaryContents contents;
  contents.programs = {cut_sample_program()};
  for (int i = 0; i < 192; ++i) {
    contents.constants.push_back(static_cast<std::byte>(i / 96 * 100 + i % 96));
  }
  return contents;
}

}  // namespace tilemesh
