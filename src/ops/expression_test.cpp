#include "tilemesh/ops/expression.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "tilemesh/ops/target.hpp"

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int16_t kResult = ExpressionStep::kResult;

std::int16_t operand(int k) {
  return static_cast<std::int16_t>(ExpressionStep::kOperand + k);
}

TEST(Attributes, AreSortedReplacedAndTyped) {
  Attributes attributes = {{"b", std::int64_t{2}}, {"a", 1.5}};
  attributes.set("c", std::string("x"));
  attributes.set("b", std::int64_t{3});
  ASSERT_EQ(attributes.items().size(), 3U);
  EXPECT_EQ(attributes.items()[0].first, "a");
  EXPECT_EQ(attributes.integer("b"), 3);
  EXPECT_EQ(attributes.number("a"), 1.5);
  EXPECT_EQ(attributes.text("c"), "x");
  EXPECT_FALSE(attributes.has("d"));
  EXPECT_EQ(attributes, (Attributes{{"a", 1.5}, {"c", std::string("x")}, {"b", std::int64_t{3}}}));
}

TEST(Attributes, ErrorsNameTheAttributeAndBothTypes) {
  const Attributes attributes = {{"axis", std::string("x")}};
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { attributes.integer("axis"); }),
            "attribute \"axis\" wants an integer, got text");
  EXPECT_EQ(message([&] { attributes.integers("axis"); }),
            "attribute \"axis\" wants a list of integers, got text");
  EXPECT_EQ(message([&] { attributes.number("alpha"); }), "attribute \"alpha\" is missing");
}

TEST(ScalarFn, NumbersAndNamesAgreeWithTheTableOfOps) {
  for (const OpDef& def : all_ops()) {
    if (def.scalar_fn < 0) continue;
    EXPECT_EQ(to_string(static_cast<ScalarFn>(def.scalar_fn)), def.name);
    EXPECT_EQ(arity(static_cast<ScalarFn>(def.scalar_fn)), def.min_inputs) << def.name;
  }
  EXPECT_EQ(static_cast<int>(ScalarFn::add), 64);
  EXPECT_EQ(arity(static_cast<ScalarFn>(63)), 0);
  EXPECT_EQ(arity(static_cast<ScalarFn>(72)), 0);
  EXPECT_EQ(to_string(ScalarFn::gelu_tanh), "gelu_tanh");
}

TEST(ScalarFn, Values) {
  const auto at = [](ScalarFn fn, double x, double alpha = 0, double beta = 0) {
    return evaluate(fn, x, 0, alpha, beta);
  };
  EXPECT_DOUBLE_EQ(at(ScalarFn::gelu, 1), 0.8413447460685429);
  EXPECT_NEAR(at(ScalarFn::gelu_tanh, 1), 0.8411919906082768, 1e-12);
  EXPECT_NEAR(at(ScalarFn::gelu, -12) / -2.1317785344932424e-32, 1, 1e-12);
  EXPECT_NEAR(at(ScalarFn::gelu_tanh, -6) / -8.43964670076231e-11, 1, 1e-9);
  EXPECT_DOUBLE_EQ(at(ScalarFn::hard_swish, 1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(at(ScalarFn::hard_sigmoid, 1, 0.2, 0.5), 0.7);
  EXPECT_DOUBLE_EQ(at(ScalarFn::selu, -1, 2, 3), 6 * (std::exp(-1) - 1));
  EXPECT_DOUBLE_EQ(at(ScalarFn::celu, -1, 2), 2 * (std::exp(-0.5) - 1));
  EXPECT_DOUBLE_EQ(at(ScalarFn::swish, 2, 0.5), 2 / (1 + std::exp(-1)));
  EXPECT_DOUBLE_EQ(at(ScalarFn::linear, 2, 3, 4), 10);
  EXPECT_DOUBLE_EQ(at(ScalarFn::clip, 9, 5, 3), 3);  // as ONNX: the upper bound wins
  EXPECT_DOUBLE_EQ(at(ScalarFn::softplus, 800), 800);
  EXPECT_DOUBLE_EQ(at(ScalarFn::sigmoid, -800), 0);
}

TEST(ScalarStep, TakesParametersFromAttributes) {
  const Value x = f32({1}, {1});
  const auto step = scalar_step(make_call("clip", {x}, {{"min", -1.0}, {"max", 6.0}}));
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->fn, ScalarFn::clip);
  EXPECT_EQ(step->alpha, -1);
  EXPECT_EQ(step->beta, 6);
  EXPECT_EQ(scalar_step(make_call("clip", {x}))->beta, std::numeric_limits<float>::infinity());
  EXPECT_EQ(scalar_step(make_call("gelu", {x}, {{"approximate", std::string("tanh")}}))->fn,
            ScalarFn::gelu_tanh);
  EXPECT_FALSE(scalar_step(make_call("softmax", {x})).has_value());
}

TEST(Expression, Text) {
  Expression chain;
  EXPECT_EQ(to_string(chain), "");
  chain.steps = {{.fn = ScalarFn::add, .arguments = {kResult, operand(2)}},
                 {.fn = ScalarFn::relu, .arguments = {0, 0}}};
  EXPECT_EQ(to_string(chain), "relu(add(r, i2))");
  chain.steps = {{.fn = ScalarFn::exp, .arguments = {kResult, 0}},
                 {.fn = ScalarFn::mul, .arguments = {0, 0}},
                 {.fn = ScalarFn::clip, .arguments = {1, 0}, .alpha = 0, .beta = 6}};
  EXPECT_EQ(to_string(chain), "s0 = exp(r); clip(mul(s0, s0); 0, 6)");
}

TEST(Expression, TextOfSharedStepsStaysShort) {
  Expression chain;
  chain.steps.push_back({.fn = ScalarFn::add, .arguments = {kResult, kResult}});
  for (std::int16_t k = 0; k < 100; ++k) {
    chain.steps.push_back({.fn = ScalarFn::add, .arguments = {k, k}});
  }
  EXPECT_LT(to_string(chain).size(), 10000U);  // written out it would be 2^100
}

TEST(Epilogue, AppliesToTheResultWithBroadcastOperands) {
  Expression chain;
  chain.steps = {{.fn = ScalarFn::add, .arguments = {kResult, operand(2)}},
                 {.fn = ScalarFn::mul, .arguments = {0, operand(3)}},
                 {.fn = ScalarFn::relu, .arguments = {1, 0}}};
  const std::vector<Value> inputs = {f32({2, 1}, {1, 2}), f32({1, 2}, {1, -1}), f32({2}, {10, 0}),
                                     f32({}, {2})};
  const OpCall call = make_call("matmul", inputs, {}, 0, chain);
  EXPECT_EQ(to_string(call),
            "matmul(f32[2,1], f32[1,2], f32[2], f32[]) -> f32[2,2] then "
            "relu(mul(add(r, i2), i3))");
  EXPECT_THAT(elements<float>(run_call(call, inputs)[0]), ElementsAre(22, 0, 24, 0));
}

TEST(Epilogue, OperandsFollowThePaddedInputs) {
  Expression chain;
  chain.steps = {{.fn = ScalarFn::add, .arguments = {kResult, operand(3)}}};
  const std::vector<Value> inputs = {f32({1, 1, 2}, {1, 2}), f32({1, 1, 1}, {3}), absent(),
                                     f32({1, 1, 2}, {10, 20})};
  const OpCall call = make_call("conv", inputs, {}, 0, chain);
  EXPECT_THAT(elements<float>(run_call(call, inputs)[0]), ElementsAre(13, 26));
}

TEST(Epilogue, ErrorsNameWhatIsWrong) {
  const auto message = [](std::string_view op, const std::vector<Value>& inputs,
                          const ExpressionStep& step) -> std::string {
    try {
      make_call(op, inputs, {}, 0, {{step}});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const Value x = random({2, 3});
  const Value w = random({3, 4});
  const ExpressionStep add2{.fn = ScalarFn::add, .arguments = {kResult, operand(2)}};
  EXPECT_THAT(message("matmul", {x, w}, add2), HasSubstr("argument 16386"));
  EXPECT_THAT(message("matmul", {x, w, random({5, 2, 4})}, add2),
              HasSubstr("broadcasts to [2,4], got f32[5,2,4]"));
  EXPECT_THAT(message("conv", {random({1, 1, 2}), random({1, 1, 1})}, add2),
              HasSubstr("wants 3 inputs before its epilogue's, got 2"));
  EXPECT_THAT(message("matmul", {random({1, 1}, DType::i32), random({1, 1}, DType::i32)},
                      {.fn = ScalarFn::neg}),
              HasSubstr("wants a float result, got i32"));
  EXPECT_THAT(message("concat", {x}, {.fn = ScalarFn::neg}), HasSubstr("no epilogue"));
  EXPECT_THAT(message("map", {x}, {.fn = ScalarFn::neg}), HasSubstr("argument -1"));
}

TEST(Map, EvaluatesChainsOverBroadcastInputs) {
  Expression chain;
  chain.steps = {{.fn = ScalarFn::mul, .arguments = {operand(0), operand(1)}},
                 {.fn = ScalarFn::linear, .arguments = {0, 0}, .alpha = 2, .beta = 1},
                 {.fn = ScalarFn::sub, .arguments = {1, 0}}};
  const std::vector<Value> inputs = {f32({2, 1}, {1, 2}), f32({3}, {1, 2, 3})};
  const OpCall call = make_call("map", inputs, {}, 0, chain);
  EXPECT_EQ(call.outputs[0].shape, (Shape{2, 3}));
  EXPECT_THAT(elements<float>(run_call(call, inputs)[0]), ElementsAre(2, 3, 4, 3, 5, 7));
  EXPECT_THAT(infer_error("map", inputs), HasSubstr("at least one step"));
  EXPECT_THAT(infer_error("map", {i64({1}, {1})}), HasSubstr("wants f32, f16 or bf16, got i64"));
}

/// Runs a call with other layouts, and gives the outputs in row-major order again.
std::vector<Value> run_in_layouts(OpCall call, const std::vector<Value>& inputs,
                                  const std::vector<Layout>& in, const Layout& out) {
  std::vector<Value> packed;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OperandType& type = inputs[i].type;
    call.inputs[i].layout = in[i];
    packed.push_back(empty_value(call.inputs[i]));
    pack({inputs[i].data.data(), type.dtype, type.shape, row_major_strides(type.shape)}, in[i],
         type.dtype, packed.back().data.data());
  }
  for (OperandType& output : call.outputs) {
    output.layout = out;
  }
  std::vector<Value> results;
  for (const Value& value : run_call(call, packed)) {
    results.push_back(empty_value(type_of(value.type.dtype, value.type.shape)));
    unpack(value.data.data(), value.type.dtype, out,
           {results.back().data.data(), value.type.dtype, value.type.shape,
            row_major_strides(value.type.shape)});
  }
  return results;
}

TEST(RunReference, TakesAnyLayout) {
  const std::vector<Value> inputs = {random({2, 3, 4, 5}), random({6, 3, 3, 3}), random({6})};
  const OpCall call = make_call("conv", inputs);
  const auto plain = elements<float>(run_call(call, inputs)[0]);
  const Layout blocked = Layout::blocked(1, 4);
  const Layout last = Layout::channels_last(4);
  EXPECT_EQ(elements<float>(run_in_layouts(call, inputs, {blocked, last, {}}, blocked)[0]), plain);
  EXPECT_EQ(elements<float>(run_in_layouts(call, inputs, {last, blocked, {}}, last)[0]), plain);
}

TEST(RunReference, PaddingOfOutputsIsZero) {
  const Value x = f32({1, 3}, {1, 2, 3});
  OpCall call = make_call("exp", {x});
  call.outputs[0].layout = Layout::blocked(1, 4);
  const Value y = run_call(call, {x})[0];
  ASSERT_EQ(y.data.size(), 16U);
  float last = -1;
  std::memcpy(&last, y.data.data() + 12, 4);
  EXPECT_EQ(last, 0);
}

TEST(RunReference, WorksInPlace) {
  Value x = f32({4}, {1, 2, 3, 4});
  const OpCall call = make_call("add", {x, x});
  const std::byte* const from[] = {x.data.data(), x.data.data()};
  std::byte* const to[] = {x.data.data()};
  run_reference(call, from, to);
  EXPECT_THAT(elements<float>(x), ElementsAre(2, 4, 6, 8));
}

TEST(ReferenceTarget, OffersRowMajor) {
  const Target& target = reference_target();
  const OpCall call = make_call("matmul", {random({2, 3}), random({3, 4})});
  const auto candidates = target.candidates(call, {false, true});
  ASSERT_EQ(candidates.size(), 1U);
  EXPECT_EQ(candidates[0].inputs.size(), 2U);
  EXPECT_TRUE(candidates[0].outputs.at(0).is_rows());
  EXPECT_GT(candidates[0].seconds, 0);
  EXPECT_TRUE(target.can_fuse(call, {}, nullptr));
  EXPECT_FALSE(target.can_fuse(make_call("softmax", {random({2, 3})}), {}, nullptr));
}

}  // namespace
}  // namespace tilemesh::ops::testing
