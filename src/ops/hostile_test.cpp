#include <cmath>
#include <limits>

#include "tilemesh/base/error.hpp"

#include "op_cases.hpp"

// A file's attributes and shapes may say anything: inferring must accept or throw, never crash.
namespace tilemesh::ops::testing {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

/// True if the call is taken; anything but an Error about its arguments is a failure.
bool accepts(OpCall call) {
  try {
    infer_outputs(call);
    factors_of(call);
    to_string(call);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return false;
  }
}

OpCall call_of(const Case& c) {
  return make_call(c.op_name(), c.inputs, c.attributes, c.outputs, c.epilogue);
}

std::vector<AttributeValue> variants(const AttributeValue& value) {
  using Ints = std::vector<std::int64_t>;
  std::vector<AttributeValue> result = {std::int64_t{kMax},
                                        std::int64_t{kMin},
                                        std::int64_t{0},
                                        std::int64_t{-1},
                                        std::int64_t{9},
                                        std::string(),
                                        std::string("->"),
                                        std::string("......,->a"),
                                        std::numeric_limits<double>::quiet_NaN(),
                                        Ints{},
                                        std::vector<double>{},
                                        Ints(100, 1)};
  if (const auto* list = std::get_if<Ints>(&value)) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      for (const std::int64_t number : {kMax, kMin, std::int64_t{0}, std::int64_t{-1}, kMax / 2}) {
        Ints changed = *list;
        changed[i] = number;
        result.emplace_back(changed);
      }
    }
  }
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      for (const double number : {0.0, -1.0, 1e-300, 1e300, std::nan("")}) {
        std::vector<double> changed = *list;
        changed[i] = number;
        result.emplace_back(changed);
      }
    }
  }
  return result;
}

class HostileCase : public ::testing::TestWithParam<std::size_t> {};

TEST_P(HostileCase, AnyAttribute) {
  const OpCall call = call_of(all_cases()[GetParam()]);
  ASSERT_TRUE(accepts(call));
  for (const Attributes::Item& item : call.attributes.items()) {
    for (const AttributeValue& value : variants(item.second)) {
      OpCall changed = call;
      changed.attributes.set(item.first, value);
      accepts(changed);
    }
  }
  OpCall bare = call;
  bare.attributes = {};
  accepts(bare);
}

TEST_P(HostileCase, AnyShapeAndDType) {
  const OpCall call = call_of(all_cases()[GetParam()]);
  const Shape shapes[] = {{},
                          {0},
                          {1},
                          {7},
                          {0, 0},
                          {kMax},
                          {kMax, 0},
                          {1, kMax},
                          {2, 3, 4, 5, 6},
                          {1, 1, 1, 1, 1, 1, 1, 1},
                          {1 << 30, 1 << 30}};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    for (const Shape& shape : shapes) {
      OpCall changed = call;
      changed.inputs[i].shape = shape;
      accepts(changed);
    }
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      OpCall changed = call;
      changed.inputs[i].dtype = static_cast<DType>(dtype);
      accepts(changed);
    }
    OpCall changed = call;
    changed.inputs[i].present = false;
    accepts(changed);
    changed.inputs.resize(i);
    accepts(changed);
  }
  OpCall more = call;
  more.outputs.resize(50);
  EXPECT_EQ(accepts(more), call.def->max_outputs < 0);
}

INSTANTIATE_TEST_SUITE_P(Hostile, HostileCase,
                         ::testing::Range<std::size_t>(0, all_cases().size()));

TEST(Hostile, AnyChain) {
  const OpCall call = make_call("matmul", {random({2, 3}), random({3, 4})});
  for (int fn = 0; fn < 256; ++fn) {
    for (const int argument : {-32768, -2, -1, 0, 1, 0x3fff, 0x4000, 0x4002, 0x4003, 0x7fff}) {
      OpCall changed = call;
      ExpressionStep step;
      step.fn = static_cast<ScalarFn>(fn);
      step.arguments = {static_cast<std::int16_t>(argument), ExpressionStep::kResult};
      changed.epilogue.steps = {step};
      EXPECT_EQ(accepts(changed), arity(step.fn) > 0 && argument == -1)
          << "function " << fn << ", argument " << argument;
    }
  }
}

}  // namespace
}  // namespace tilemesh::ops::testing
