#pragma once

#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/testing.hpp"

namespace tilemesh {

/// The tests' usual target, but f16 is computed in f32, as most processors do.
class WideningTarget final : public Target {
 public:
  const TargetInfo& info() const override { return inner_.info(); }
  std::vector<Candidate> candidates(const OpCall& call,
                                    const std::vector<bool>& constants) const override {
    return inner_.candidates(call, constants);
  }
  double convert_seconds(const OperandType& from, const Layout& to) const override {
    return inner_.convert_seconds(from, to);
  }
  DType arithmetic_type(DType dtype) const override {
    return dtype == DType::f16 ? DType::f32 : dtype;
  }
  bool can_fuse(const OpCall& call, const ExpressionStep& step,
                const OperandType* operand) const override {
    return inner_.can_fuse(call, step, operand);
  }

 private:
  const Target& inner_ = testing::blocked_target();
};

/// Builds a graph op by op, optimises it, and checks that it means the same.
class PassTest : public ::testing::Test {
 protected:
  using Value = ProgramBuilder::Value;
  using Integers = std::vector<std::int64_t>;

  Value input(const std::string& name, const Shape& shape, DType dtype = DType::f32) {
    return builder_.input(name, {.shape = shape,
                                 .dtype = dtype,
                                 .placements = {},
                                 .layout = {},
                                 .space = Space::dram,
                                 .mesh = {}});
  }

  Value op(std::string_view name, const std::vector<Value>& inputs, Attributes attributes = {}) {
    return builder_.op(name, inputs, std::move(attributes))[0];
  }

  Value scalar(float value) { return builder_.constant(value); }

  Value constant(const Shape& shape, std::uint32_t seed = 1, float offset = 0) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> real(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    for (float& value : values)
      value = offset + real(random);
    return builder_.constant(values, shape);
  }

  /// Names the output, optimises, and gives the ops that are left.
  std::string ops_after(Value output, const Target& target = testing::blocked_target(),
                        double tolerance = 1e-5) {
    builder_.output("out", output);
    const Graph graph = builder_.build();
    optimised_ = graph;
    optimise(optimised_, {target, {1, 1}, true, {}});
    const testing::Values inputs = testing::random_inputs(graph, 7);
    const auto wanted = interpret(graph, inputs);
    const auto got = interpret(optimised_, inputs);
    EXPECT_EQ(testing::difference(got[0], wanted[0], tolerance), "") << to_string(optimised_);
    return testing::op_names(optimised_);
  }

  const GraphNode& node(std::size_t i) const { return optimised_.body.nodes.at(i); }
  std::string chain(std::size_t i) const { return to_string(node(i).epilogue); }
  const ConstantData& constant_input(std::size_t i, std::size_t input) const {
    return *optimised_[node(i).inputs.at(input)].constant;
  }

  ProgramBuilder builder_{"test"};
  Graph optimised_;
};

}  // namespace tilemesh
