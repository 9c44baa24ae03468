#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/half.hpp"

#include "chunk.hpp"
#include "offers.hpp"
#include "testing.hpp"

namespace tilemesh::cpu::highway {
namespace {

using testing::call_of;
using testing::expect_like_reference;
using testing::laid;
using testing::Range;
using testing::rows;

constexpr Range kAnything{.low = -20, .high = 20, .specials = true};

Attributes alpha_beta(std::string_view op) {
  if (op == "clip") return {{"min", -0.5}, {"max", 2.0}};
  if (op == "linear") return {{"alpha", 2.5}, {"beta", -1.0}};
  return {};
}

const char* const kUnary[] = {
    "identity", "neg",  "abs",     "exp",          "log",        "sqrt",     "reciprocal",
    "erf",      "relu", "sigmoid", "tanh",         "hard_swish", "softplus", "softsign",
    "sin",      "cos",  "tan",     "atan",         "sinh",       "cosh",     "asinh",
    "floor",    "ceil", "round",   "sign",         "leaky_relu", "elu",      "selu",
    "celu",     "gelu", "clip",    "hard_sigmoid", "linear",     "swish"};

TEST(Elementwise, UnaryFunctionsAtAllSizes) {
  for (const char* op : kUnary) {
    for (const std::int64_t size : {0, 1, 3, 8, 15, 16, 17, 31, 1023, 1025, 4999}) {
      expect_like_reference(call_of(op, {rows({size})}, alpha_beta(op)), {kAnything},
                            {.relative = 2e-6, .absolute = 3e-7});
    }
  }
}

TEST(Elementwise, GeluByTanhHasItsOwnAttribute) {
  expect_like_reference(call_of("gelu", {rows({1000})}, {{"approximate", "tanh"}}),
                        {Range{.low = -8, .high = 8}}, {.relative = 4e-6, .absolute = 1e-7});
}

/// An element-wise scan of a function, from bit patterns so that all magnitudes are met.
void expect_within_ulps(ScalarFn fn, float low, float high, double ulps, double absolute = 0) {
  std::vector<float> x;
  for (std::uint32_t word = 0; word < 0xff800000u; word += 30011) {
    const auto value = std::bit_cast<float>(word);
    if (value >= low && value <= high) x.push_back(value);
  }
  std::vector<float> y(x.size());
  float_chunk(fn)({.in = {reinterpret_cast<const std::byte*>(x.data())},
                   .out = reinterpret_cast<std::byte*>(y.data()),
                   .count = static_cast<std::int64_t>(x.size()),
                   .alpha = 1});
  double worst = 0;
  float where = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = evaluate(fn, double{x[i]}, 0, 1, 0);
    const auto rounded = static_cast<float>(exact);
    if (std::isinf(rounded) || std::isinf(y[i])) {
      ASSERT_NEAR(std::isinf(rounded), std::isinf(y[i]), std::abs(exact) > 3.4028e38 ? 1 : 0)
          << to_string(fn) << "(" << x[i] << ")";
      continue;
    }
    const double unit =
        double{std::nextafter(std::abs(rounded), INFINITY)} - std::abs(double{rounded});
    const double error = (std::abs(double{y[i]} - exact) - absolute) / unit;
    if (!(error <= worst)) {
      worst = error;
      where = x[i];
    }
  }
  EXPECT_LE(worst, ulps) << to_string(fn) << " is worst at " << where;
}

TEST(Elementwise, FunctionsAreAccurate) {
  expect_within_ulps(ScalarFn::exp, -110, 90, 1.5);
  expect_within_ulps(ScalarFn::log, 0, 3.4e38f, 4);
  expect_within_ulps(ScalarFn::sigmoid, -110, 110, 3);
  expect_within_ulps(ScalarFn::tanh, -100, 100, 3);
  expect_within_ulps(ScalarFn::erf, -100, 100, 3);
  expect_within_ulps(ScalarFn::gelu, -3, 100, 16);
  expect_within_ulps(ScalarFn::gelu_tanh, -3, 100, 16);
  expect_within_ulps(ScalarFn::elu, -100, 100, 4);
  expect_within_ulps(ScalarFn::softplus, -90, 100, 4);
  expect_within_ulps(ScalarFn::swish, -80, 100, 4);
  expect_within_ulps(ScalarFn::softsign, -1e30f, 1e30f, 2);
  expect_within_ulps(ScalarFn::sin, -39, 39, 4, 1e-7);
  expect_within_ulps(ScalarFn::cos, -39, 39, 4, 1e-7);
  expect_within_ulps(ScalarFn::sqrt, 0, 3e38f, 0.5);
  expect_within_ulps(ScalarFn::reciprocal, -3e38f, 3e38f, 0.5);
}

TEST(Elementwise, BinaryFunctionsBroadcast) {
  const std::vector<std::array<Shape, 2>> shapes = {
      {Shape{}, Shape{}},
      {Shape{1, 16}, Shape{1, 16}},
      {Shape{5}, Shape{}},
      {Shape{}, Shape{7, 3}},
      {Shape{2, 3, 5}, Shape{5}},
      {Shape{2, 3, 5}, Shape{3, 1}},
      {Shape{2, 1, 5}, Shape{1, 3, 1}},
      {Shape{4, 1}, Shape{1, 4}},
      {Shape{0, 4}, Shape{4}},
      {Shape{3, 700}, Shape{700}},
      {Shape{3, 700}, Shape{3, 1}},
      {Shape{7, 11, 13, 5}, Shape{11, 1, 5}},
      {Shape{1, 1, 1, 1}, Shape{1, 1}},
      {Shape{2, 3001}, Shape{2, 1}},
  };
  for (const auto& [a, b] : shapes) {
    for (const char* op : {"add", "sub", "mul", "div", "min", "max"}) {
      expect_like_reference(call_of(op, {rows(a), rows(b)}), {kAnything}, {.relative = 1e-6});
    }
    expect_like_reference(call_of("pow", {rows(a), rows(b)}),
                          {Range{.low = 0.1, .high = 4}, Range{.low = -3, .high = 3}},
                          {.relative = 1e-6});
    expect_like_reference(call_of("pow", {rows(a), rows(b)}), {kAnything}, {.relative = 1e-6});
    expect_like_reference(call_of("equal", {rows(a), rows(b)}), {kAnything});
  }
}

TEST(Elementwise, UniformExponents) {
  std::vector<float> x = {-2, -0.0f, 0, 0.5f, 3, INFINITY, -INFINITY, NAN};
  for (const float exponent : {2.0f, 1.0f, -1.0f, 0.5f, 3.0f, 0.0f, -0.5f}) {
    std::vector<float> y(x.size());
    float_chunk(ScalarFn::pow)({.in = {reinterpret_cast<const std::byte*>(x.data()),
                                       reinterpret_cast<const std::byte*>(&exponent)},
                                .out = reinterpret_cast<std::byte*>(y.data()),
                                .count = static_cast<std::int64_t>(x.size()),
                                .uniform = 2});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float wanted = std::pow(x[i], exponent);
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(y[i])) << x[i] << "^" << exponent;
      } else {
        EXPECT_FLOAT_EQ(y[i], wanted) << x[i] << "^" << exponent;
      }
    }
  }
}

TEST(Elementwise, IntegersAndOtherTypes) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::i16,
                            DType::i8, DType::u64, DType::u32, DType::u16, DType::u8}) {
    for (const char* op : {"add", "sub", "mul", "min", "max"}) {
      expect_like_reference(call_of(op, {rows({3, 37}, dtype), rows({37}, dtype)}),
                            {Range{.low = -200, .high = 200}});
    }
    for (const char* op : {"less", "less_or_equal", "greater", "greater_or_equal", "equal"}) {
      expect_like_reference(call_of(op, {rows({3, 37}, dtype), rows({3, 1}, dtype)}),
                            {Range{.low = -2, .high = 2}});
    }
    expect_like_reference(call_of("div", {rows({3, 37}, dtype), rows({37}, dtype)}),
                          {Range{.low = -200, .high = 200}, Range{.low = 1, .high = 9}});
    expect_like_reference(call_of("relu", {rows({111}, dtype)}));
    expect_like_reference(call_of("identity", {rows({111}, dtype)}));
  }
}

TEST(Elementwise, IntegerDivisionByZeroIsAnError) {
  const OpCall call = call_of("div", {rows({4}, DType::i64), rows({4}, DType::i64)});
  const auto kernel = testing::kernel_of(call);
  std::array<std::int64_t, 4> a{1, 2, 3, 4};
  std::array<std::int64_t, 4> b{1, 0, 3, 4};
  std::array<std::int64_t, 4> c{};
  std::array<std::byte*, 3> operands{reinterpret_cast<std::byte*>(a.data()),
                                     reinterpret_cast<std::byte*>(b.data()),
                                     reinterpret_cast<std::byte*>(c.data())};
  EXPECT_THROW(kernel->run(operands.data(), nullptr), Error);
  a = {std::numeric_limits<std::int64_t>::min(), 1, 1, 1};
  b = {-1, 1, 1, 1};
  kernel->run(operands.data(), nullptr);
  EXPECT_EQ(c[0], std::numeric_limits<std::int64_t>::min());
}

TEST(Elementwise, LogicAndSelection) {
  for (const char* op : {"and", "or", "xor", "equal"}) {
    expect_like_reference(call_of(op, {rows({3, 37}, DType::boolean), rows({37}, DType::boolean)}));
  }
  expect_like_reference(call_of("not", {rows({99}, DType::boolean)}));
  expect_like_reference(call_of("is_nan", {rows({99})}), {kAnything});
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::u8, DType::i16}) {
    expect_like_reference(call_of(
        "where", {rows({3, 1}, DType::boolean), rows({37}, dtype), rows({2, 3, 37}, dtype)}));
    expect_like_reference(
        call_of("where", {rows({41}, DType::boolean), rows({}, dtype), rows({}, dtype)}));
  }
}

TEST(Elementwise, CastsBetweenAllTypes) {
  for (int from = 0; from < kComputedDTypeCount; ++from) {
    for (int to = 0; to < kComputedDTypeCount; ++to) {
      const OpCall call = call_of("cast", {rows({67}, static_cast<DType>(from))}, {{"to", to}});
      expect_like_reference(call, {Range{.low = -300, .high = 300, .specials = true}});
    }
  }
}

TEST(Elementwise, HalvesRoundToNearestEven) {
  for (const DType small : {DType::f16, DType::bf16}) {
    std::vector<float> x;
    for (std::uint32_t word = 0; word < 0xffffff00u - 4001; word += 4001) {
      x.push_back(std::bit_cast<float>(word));
    }
    std::vector<std::uint16_t> bits(x.size());
    std::vector<float> back(x.size());
    const auto count = static_cast<std::int64_t>(x.size());
    cast_chunk(DType::f32, small)({.in = {reinterpret_cast<const std::byte*>(x.data())},
                                   .out = reinterpret_cast<std::byte*>(bits.data()),
                                   .count = count});
    cast_chunk(small, DType::f32)({.in = {reinterpret_cast<const std::byte*>(bits.data())},
                                   .out = reinterpret_cast<std::byte*>(back.data()),
                                   .count = count});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float wanted =
          small == DType::f16 ? static_cast<float>(Half(x[i])) : static_cast<float>(BFloat16(x[i]));
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(back[i]));
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::bit_cast<std::uint32_t>(wanted))
            << x[i];
      }
    }
  }
}

TEST(Elementwise, BlockedLayoutsKeepTheirPaddingZero) {
  const Layout c16 = Layout::blocked(1, 16);
  for (const std::int64_t channels : {1, 16, 19, 50}) {
    const Shape shape = {2, channels, 3, 5};
    const OperandType x = laid(shape, c16);
    expect_like_reference(call_of("sigmoid", {x}, {}, c16));
    expect_like_reference(call_of("relu", {x}, {}, c16));
    expect_like_reference(call_of("add", {x, x}, {}, c16));
    expect_like_reference(call_of("div", {x, x}, {}, c16));
    expect_like_reference(call_of("add", {x, rows({})}, {}, c16));
    expect_like_reference(call_of("add", {x, rows({1, channels, 1, 1})}, {}, c16));
    expect_like_reference(call_of("add", {x, laid({1, channels, 1, 1}, c16)}, {}, c16));
    expect_like_reference(call_of("mul", {x, laid({2, channels, 1, 1}, c16)}, {}, c16));
    expect_like_reference(call_of("add", {x, rows({3, 1})}, {}, c16));
    expect_like_reference(call_of("add", {x, rows(shape)}, {}, c16));
    expect_like_reference(call_of("add", {rows(shape), x}));
    expect_like_reference(
        call_of("add", {x, laid(shape, Layout::channels_last(4))}, {}, Layout::channels_last(4)));
  }
}

TEST(Elementwise, ManyLayouts) {
  const std::vector<Layout> layouts = {Layout::rows(),
                                       Layout::channels_last(4),
                                       Layout::blocked(1, 8),
                                       Layout::blocked(0, 16),
                                       Layout::tiled(4, 8, 8),
                                       Layout::parse("aBcd16b"),
                                       Layout::parse("ABcd4b16a4b"),
                                       Layout::parse("dcba"),
                                       Layout::parse("ABcd16a2b")};
  const Shape shape = {5, 21, 6, 9};
  for (const Layout& out : layouts) {
    for (const Layout& in : layouts) {
      expect_like_reference(call_of("sub", {laid(shape, in), rows({21, 1, 9})}, {}, out));
      expect_like_reference(call_of("cast", {laid(shape, in)}, {{"to", 4}}, out));
    }
  }
}

OpCall map_of(std::vector<OperandType> inputs, std::vector<ExpressionStep> steps,
              const Layout& layout = {}) {
  OpCall call;
  call.def = &get_op("map");
  call.inputs = std::move(inputs);
  call.epilogue.steps = std::move(steps);
  infer_outputs(call);
  call.outputs[0].layout = layout;
  return call;
}

constexpr std::int16_t kOperand = ExpressionStep::kOperand;

TEST(Elementwise, Chains) {
  const std::vector<ExpressionStep> steps = {
      {.fn = ScalarFn::add, .arguments = {kOperand, kOperand + 1}},
      {.fn = ScalarFn::sigmoid, .arguments = {0, 0}},
      {.fn = ScalarFn::mul, .arguments = {0, 1}},
      {.fn = ScalarFn::exp, .arguments = {kOperand + 2, 0}},
      {.fn = ScalarFn::sub, .arguments = {2, 3}},
      {.fn = ScalarFn::clip, .arguments = {4, 0}, .alpha = -1.5f, .beta = 4},
      {.fn = ScalarFn::max, .arguments = {5, 1}},
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Shape& shape :
         {Shape{}, Shape{16}, Shape{0, 3}, Shape{3, 50, 11}, Shape{40, 7, 30}, Shape{2, 3, 1500}}) {
      const Shape scalar;
      const Shape last = shape.rank() == 0 ? scalar : Shape{shape[shape.rank() - 1]};
      expect_like_reference(
          map_of({rows(shape, dtype), rows(last, dtype), rows(scalar, dtype)}, steps), {Range{}},
          {.relative = 1e-5, .absolute = 2e-6});
    }
  }
  const Layout c16 = Layout::blocked(1, 16);
  expect_like_reference(map_of(
      {laid({2, 19, 4, 4}, c16), laid({2, 19, 4, 4}, c16), laid({1, 19, 1, 1}, c16)}, steps, c16));
}

TEST(Elementwise, LongChainsAndOneUsedOperandTwice) {
  std::vector<ExpressionStep> steps = {{.fn = ScalarFn::mul, .arguments = {kOperand, kOperand}}};
  for (std::int16_t i = 0; i < 40; ++i) {
    steps.push_back({.fn = ScalarFn::linear, .arguments = {i, 0}, .alpha = 0.9f, .beta = 0.1f});
    steps.back().arguments[0] = static_cast<std::int16_t>(steps.size() - 2);
  }
  steps.push_back({.fn = ScalarFn::add, .arguments = {0, 40}});
  expect_like_reference(map_of({rows({3, 777})}, steps));
}

TEST(Elementwise, BigOnesOnTwoThreads) {
  expect_like_reference(call_of("add", {rows({517, 1003}), rows({517, 1003})}));
  expect_like_reference(call_of("add", {rows({517, 1003}), rows({1003})}));
  expect_like_reference(call_of("tanh", {rows({200'001})}), {Range{}}, {.relative = 1e-6});
}

TEST(Elementwise, OutputMayBeAnInput) {
  const OpCall call = call_of("add", {rows({1000}), rows({1000})});
  const auto kernel = testing::kernel_of(call);
  std::vector<float> a(1000, 1.5f);
  std::vector<float> b(1000, 2.0f);
  std::array<std::byte*, 3> operands{reinterpret_cast<std::byte*>(a.data()),
                                     reinterpret_cast<std::byte*>(b.data()),
                                     reinterpret_cast<std::byte*>(a.data())};
  kernel->run(operands.data(), nullptr);
  EXPECT_EQ(a, std::vector<float>(1000, 3.5f));
}

TEST(Elementwise, LargeAngles) {
  for (const char* op : {"sin", "cos"}) {
    expect_like_reference(call_of(op, {rows({999})}), {Range{.low = -3e5, .high = 3e5}});
    expect_like_reference(call_of(op, {rows({999})}), {Range{.low = -3e4, .high = 3e4}});
  }
}

TEST(ViaF32, TakesWhatHasAKernelOfF32) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const OpCall call = call_of("softmax", {rows({3, 50}, dtype)}, {{"axis", 1}});
    const KernelOffer offer = offer_via_f32(call, {});
    ASSERT_NE(offer.kernel, nullptr) << offer.refusal;
    EXPECT_EQ(offer.kernel->name(), "highway:f32+highway:softmax");
    expect_like_reference(call);
    expect_like_reference(call_of("layer_normalization",
                                  {rows({3, 50}, dtype), rows({50}, dtype), rows({50}, dtype)},
                                  {{"axis", 1}}));
    expect_like_reference(call_of("matmul", {rows({3, 50}, dtype), rows({50, 7}, dtype)}),
                          {Range{}}, {.relative = 1e-4, .absolute = 1e-3});
    expect_like_reference(
        call_of("reduce_max", {laid({2, 19, 3, 4}, Layout::blocked(1, 16), dtype)},
                {{"axes", std::vector<std::int64_t>{2, 3}}}, Layout::blocked(1, 16)));
  }
  EXPECT_EQ(offer_via_f32(call_of("softmax", {rows({3, 50})}), {}).kernel, nullptr);
}

TEST(Elementwise, OpaqueLayoutsAreRefused) {
  OpCall call = call_of("relu", {rows({8})});
  call.inputs[0].layout = Layout::opaque({.backend = "cpu", .tag = "x", .bytes = 64});
  EXPECT_NE(testing::refusal_of(call), "");
}

}  // namespace
}  // namespace tilemesh::cpu::highway
