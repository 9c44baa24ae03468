// Every op's case, changed in its attributes, operands, layouts and epilogue: each program is
// refused with an Error or runs, and then gives what the op's reference gives for the same call.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tilemesh/tilemesh.hpp"

#include "ops/op_cases.hpp"

namespace tilemesh {
namespace {

using ops::testing::all_cases;
using ops::testing::Case;
using Ints = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

/// A call as it will stand in a program, and the row-major bytes of its inputs.
struct Trial {
  OpCall call;
  std::vector<Bytes> inputs;
};

Trial trial_of(const Case& c) {
  Trial trial;
  trial.call = ops::testing::make_call(c.op_name(), c.inputs, c.attributes, c.outputs, c.epilogue);
  for (const ops::testing::Value& input : c.inputs) {
    trial.inputs.push_back(input.data);
  }
  return trial;
}

Program program_of(const OpCall& call) {
  Program program;
  program.name = "one";
  program.mesh = MeshShape{1, 1};
  ProgramOp op;
  op.op = call.def->name;
  op.attributes = call.attributes;
  op.epilogue = call.epilogue;
  const auto add = [&](const OperandType& type, Storage::Kind kind, std::size_t index) {
    TensorSpec spec{.shape = type.shape, .dtype = type.dtype, .layout = type.layout};
    spec.mesh = program.mesh;
    program.values.push_back({"v", spec, {kind, static_cast<std::uint32_t>(index), 0}});
    return static_cast<std::uint32_t>(program.values.size() - 1);
  };
  for (const OperandType& input : call.inputs) {
    op.inputs.push_back(ProgramOp::kAbsent);
    if (!input.present) continue;
    const std::size_t index = program.inputs.size();
    op.inputs.back() = add(input, Storage::Kind::input, index);
    program.inputs.push_back({"i" + std::to_string(index), op.inputs.back()});
  }
  for (const OperandType& output : call.outputs) {
    op.outputs.push_back(ProgramOp::kAbsent);
    if (!output.present) continue;
    const std::size_t index = program.outputs.size();
    op.outputs.back() = add(output, Storage::Kind::output, index);
    program.outputs.push_back({"o" + std::to_string(index), op.outputs.back()});
  }
  program.ops = {op};
  return program;
}

/// What the op's reference makes of the call on row-major operands.
std::vector<Bytes> expected_of(const OpCall& stated, const std::vector<Bytes>& inputs) {
  OpCall call = stated;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<Bytes> results;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    call.inputs[i].layout = {};
    from.push_back(call.inputs[i].present ? inputs[i].data() : nullptr);
  }
  for (OperandType& output : call.outputs) {
    output.layout = {};
    results.emplace_back(static_cast<std::size_t>(output.bytes()));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    to.push_back(call.outputs[i].present ? results[i].data() : nullptr);
  }
  run_reference(call, from, to);
  return results;
}

std::vector<double> as_doubles(const std::byte* data, const OperandType& type) {
  std::vector<double> values(static_cast<std::size_t>(type.shape.element_count()));
  copy_strided({data, type.dtype, type.shape, row_major_strides(type.shape)},
               {reinterpret_cast<std::byte*>(values.data()), DType::f64, type.shape,
                row_major_strides(type.shape)});
  return values;
}

void expect_equal(const OperandType& type, const std::byte* got, const Bytes& wanted,
                  const std::string& what) {
  const std::vector<double> a = as_doubles(got, type);
  const std::vector<double> b = as_doubles(wanted.data(), type);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double tolerance = is_float(type.dtype) ? 2e-3 * std::max(1.0, std::abs(b[i])) : 0;
    ASSERT_LE(std::abs(a[i] - b[i]), tolerance) << what << ": element " << i;
  }
}

class OneOp : public ::testing::TestWithParam<std::size_t> {
 protected:
  static Mesh& mesh() {
    static Mesh shared = Mesh::open({.dram_bytes = 64 << 20});
    return shared;
  }

  /// Through verification, preparation and a run; counts the programs that ran.
  void attempt(Trial trial) {
    const std::string what = to_string(trial.call);
    try {
      const std::vector<OperandType> stated = trial.call.outputs;
      infer_outputs(trial.call);
      for (std::size_t o = 0; o < std::min(stated.size(), trial.call.outputs.size()); ++o) {
        const bool fits = stated[o].shape.rank() == trial.call.outputs[o].shape.rank();
        if (fits) trial.call.outputs[o].layout = stated[o].layout;
      }
    } catch (const Error&) {
      // The program states what it does without the op's consent.
    }
    try {
      BinaryContents contents;
      contents.programs = {program_of(trial.call)};
      const Binary binary = Binary::from_contents(std::move(contents));
      const Executable executable = prepare(mesh(), binary.program());
      run_and_compare(executable, trial, what);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << what << ": " << error.what();
    }
  }

  void run_and_compare(const Executable& executable, const Trial& trial, const std::string& what) {
    OpCall call = shard_call(executable.program(), 0);
    std::vector<Argument> arguments;
    std::vector<Bytes> bytes;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const OperandType& type = call.inputs[i];
      OperandType plain = type;
      plain.layout = {};
      Bytes& data = bytes.emplace_back(i < trial.inputs.size() ? trial.inputs[i] : Bytes());
      data.resize(static_cast<std::size_t>(type.present ? plain.bytes() : 0));
      if (!type.present) continue;
      arguments.emplace_back(Tensor::copy_bytes(data, type.dtype, {.shape = type.shape}));
    }
    const std::vector<Tensor> results = run(executable, std::span<const Argument>(arguments));
    ++ran_;
    const std::vector<Bytes> expected = expected_of(call, bytes);
    std::size_t next = 0;
    for (std::size_t o = 0; o < call.outputs.size(); ++o) {
      if (!call.outputs[o].present) continue;
      OperandType plain = call.outputs[o];
      plain.layout = {};
      Bytes got(static_cast<std::size_t>(plain.bytes()));
      results[next++].to_host().read(got);
      expect_equal(plain, got.data(), expected[o], what);
    }
  }

  Trial trial_ = trial_of(all_cases()[GetParam()]);
  int ran_ = 0;
};

std::vector<AttributeValue> variants(const AttributeValue& value) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::vector<AttributeValue> result = {std::int64_t{0},    std::int64_t{-1},     std::int64_t{3},
                                        std::int64_t{kMax}, std::string(),        Ints{},
                                        Ints(6, 1),         std::vector<double>{}};
  if (const auto* list = std::get_if<Ints>(&value)) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      for (const std::int64_t number :
           {kMax, std::int64_t{0}, std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 33}) {
        Ints changed = *list;
        changed[i] = number;
        result.emplace_back(changed);
      }
    }
    if (!list->empty()) result.emplace_back(Ints(list->begin(), list->end() - 1));
  }
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      for (const double number : {0.0, -1.0, 0.4, 1e30, 3.0}) {
        std::vector<double> changed = *list;
        changed[i] = number;
        result.emplace_back(changed);
      }
    }
  }
  return result;
}

TEST_P(OneOp, AsItIs) {
  attempt(trial_);
  EXPECT_EQ(ran_, 1);
}

TEST_P(OneOp, WithOtherAttributes) {
  for (const Attributes::Item& item : trial_.call.attributes.items()) {
    for (const AttributeValue& value : variants(item.second)) {
      Trial changed = trial_;
      changed.call.attributes.set(item.first, value);
      attempt(changed);
    }
  }
  Trial bare = trial_;
  bare.call.attributes = {};
  attempt(bare);
}

TEST_P(OneOp, WithoutOperands) {
  for (std::size_t i = 0; i < trial_.call.inputs.size(); ++i) {
    Trial changed = trial_;
    changed.call.inputs[i].present = false;
    attempt(changed);
  }
  for (std::size_t o = 0; o < trial_.call.outputs.size(); ++o) {
    Trial changed = trial_;
    changed.call.outputs[o].present = false;
    attempt(changed);
  }
}

TEST_P(OneOp, OfOtherSizesAndTypes) {
  for (std::size_t i = 0; i < trial_.call.inputs.size(); ++i) {
    const Shape& shape = trial_.call.inputs[i].shape;
    for (int d = 0; d < shape.rank(); ++d) {
      for (const std::int64_t size : {0, 1, 7}) {
        Trial changed = trial_;
        changed.call.inputs[i].shape = shape.with(d, size);
        attempt(changed);
      }
    }
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      Trial changed = trial_;
      changed.call.inputs[i].dtype = static_cast<DType>(dtype);
      changed.inputs[i].clear();  // zeros
      attempt(changed);
    }
  }
  // Nothing along the first dim of all operands, as in a batch of nothing.
  Trial nothing = trial_;
  for (OperandType& input : nothing.call.inputs) {
    if (input.present && input.shape.rank() > 0) input.shape = input.shape.with(0, 0);
  }
  attempt(nothing);
}

TEST_P(OneOp, InOtherLayouts) {
  const auto layouts = [](int rank) {
    std::vector<Layout> result;
    if (rank < 2) return result;
    result = {Layout::blocked(1, 8), Layout::blocked(0, 16), Layout::tiled(rank, 4, 4)};
    if (rank > 2) result.push_back(Layout::channels_last(rank));
    return result;
  };
  for (const bool inputs : {true, false}) {
    const std::size_t count = inputs ? trial_.call.inputs.size() : trial_.call.outputs.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto operand = [&](Trial& trial) -> OperandType& {
        return inputs ? trial.call.inputs[i] : trial.call.outputs[i];
      };
      for (const Layout& layout : layouts(operand(trial_).shape.rank())) {
        Trial changed = trial_;
        operand(changed).layout = layout;
        attempt(changed);
      }
    }
  }
  for (std::size_t k = 0; k < 4; ++k) {
    Trial changed = trial_;
    for (auto* operands : {&changed.call.inputs, &changed.call.outputs}) {
      for (OperandType& operand : *operands) {
        const std::vector<Layout> all = layouts(operand.shape.rank());
        if (k < all.size()) operand.layout = all[k];
      }
    }
    attempt(changed);
  }
}

TEST_P(OneOp, WithAnEpilogue) {
  const int own = trial_.call.def->max_inputs;
  if (own < 0 || !trial_.call.epilogue.empty()) return;
  Trial changed = trial_;
  const OperandType absent{.dtype = DType::f32, .shape = {}, .layout = {}, .present = false};
  changed.call.inputs.resize(static_cast<std::size_t>(own), absent);
  changed.inputs.resize(static_cast<std::size_t>(own));
  changed.call.epilogue.steps = {{.fn = ScalarFn::tanh}};
  attempt(changed);
  changed.call.inputs.push_back(changed.call.outputs[0]);
  const auto operand = static_cast<std::int16_t>(ExpressionStep::kOperand + own);
  changed.call.epilogue.steps.push_back({.fn = ScalarFn::sub, .arguments = {operand, 0}});
  attempt(changed);
  changed.call.inputs.back().layout = Layout::blocked(0, 16);
  attempt(changed);
  changed.call.epilogue.steps = {{.fn = static_cast<ScalarFn>(60)}};
  attempt(changed);
}

INSTANTIATE_TEST_SUITE_P(AllOps, OneOp, ::testing::Range<std::size_t>(0, all_cases().size()));

}  // namespace
}  // namespace tilemesh
