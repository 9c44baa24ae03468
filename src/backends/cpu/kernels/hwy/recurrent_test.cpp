#include <gtest/gtest.h>

#include "testing.hpp"

namespace tilemesh::cpu::highway {
namespace {

using testing::absent;
using testing::call_of;
using testing::expect_like_reference;
using testing::Range;
using testing::rows;
using testing::Tolerance;

struct Case {
  std::int64_t steps, batch, input, hidden;
};
const std::vector<Case> kCases = {{1, 1, 128, 128}, {5, 2, 7, 5}, {3, 1, 1, 1}, {2, 5, 16, 33},
                                  {40, 3, 20, 24},  {0, 2, 3, 4}, {2, 0, 3, 4}};
constexpr Tolerance kTolerance{.relative = 1e-4, .absolute = 2e-6};
const std::vector<Range> kSmall = {Range{.low = -0.6, .high = 0.6}};

std::vector<OperandType> inputs_of(const Case& c, std::int64_t gates, std::int64_t directions) {
  const Shape state = {directions, c.batch, c.hidden};
  std::vector<OperandType> inputs = {rows({c.steps, c.batch, c.input}),
                                     rows({directions, gates * c.hidden, c.input}),
                                     rows({directions, gates * c.hidden, c.hidden}),
                                     rows({directions, 2 * gates * c.hidden}),
                                     absent(),
                                     rows(state)};
  if (gates == 4) inputs.push_back(rows(state));
  return inputs;
}

OpCall with_outputs(std::string_view op, std::vector<OperandType> inputs, Attributes attributes,
                    std::size_t outputs) {
  OpCall call;
  call.def = &get_op(op);
  call.inputs = std::move(inputs);
  call.attributes = std::move(attributes);
  call.outputs.resize(outputs);
  infer_outputs(call);
  return call;
}

TEST(Recurrent, LstmInAllDirections) {
  for (const Case& c : kCases) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      const std::int64_t directions = direction[0] == 'b' ? 2 : 1;
      const Attributes attributes = {{"hidden_size", c.hidden}, {"direction", direction}};
      std::vector<OperandType> inputs = inputs_of(c, 4, directions);
      expect_like_reference(with_outputs("lstm", inputs, attributes, 3), kSmall, kTolerance);
      expect_like_reference(with_outputs("lstm", inputs, attributes, 1), kSmall, kTolerance);
      inputs.resize(3);
      OpCall call = with_outputs("lstm", inputs, attributes, 3);
      call.outputs[0].present = false;
      expect_like_reference(call, kSmall, kTolerance);
    }
  }
}

TEST(Recurrent, LongSequencesAreProjectedInGroups) {
  const Case c{300, 2, 9, 200};
  expect_like_reference(
      with_outputs("lstm", inputs_of(c, 4, 2),
                   {{"hidden_size", c.hidden}, {"direction", "bidirectional"}}, 3),
      {Range{.low = -0.1, .high = 0.1}}, kTolerance);
}

TEST(Recurrent, GruBeforeAndAfterTheReset) {
  for (const Case& c : kCases) {
    for (const int after : {0, 1}) {
      for (const char* direction : {"forward", "reverse", "bidirectional"}) {
        const std::int64_t directions = direction[0] == 'b' ? 2 : 1;
        const Attributes attributes = {
            {"hidden_size", c.hidden}, {"direction", direction}, {"linear_before_reset", after}};
        std::vector<OperandType> inputs = inputs_of(c, 3, directions);
        expect_like_reference(with_outputs("gru", inputs, attributes, 2), kSmall, kTolerance);
        inputs.resize(3);
        expect_like_reference(with_outputs("gru", inputs, attributes, 2), kSmall, kTolerance);
      }
    }
  }
}

TEST(Recurrent, RareFormsAreLeftToOthers) {
  const Case c{2, 2, 3, 4};
  const auto lstm = [&](Attributes attributes) {
    attributes.set("hidden_size", c.hidden);
    return testing::refusal_of(with_outputs("lstm", inputs_of(c, 4, 1), attributes, 3));
  };
  EXPECT_EQ(lstm({}), "");
  EXPECT_EQ(lstm({{"activations", "sigmoid,tanh,tanh"}}), "");
  EXPECT_NE(lstm({{"activations", "tanh,tanh,tanh"}}), "");
  EXPECT_NE(lstm({{"clip", 1.0}}), "");
  EXPECT_NE(lstm({{"input_forget", 1}}), "");
}

}  // namespace
}  // namespace tilemesh::cpu::highway
