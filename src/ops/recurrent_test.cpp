#include <cmath>

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::int64_t kOne = 1;

/// One unit, one input, one batch entry: the formulas of the ONNX operators by hand.
struct Unit {
  double h = 0, c = 0;
};
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

void expect_near(const Value& actual, const std::vector<double>& wanted) {
  const auto values = elements<double>(actual);
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(values[i], wanted[i], 1e-5) << "element " << i;
  }
}

const std::vector<float> kX = {0.5F, -1, 2};

/// x of [3,1,1] and weights for so many gates of one unit.
std::vector<Value> unit_inputs(std::int64_t gates) {
  return {f32({3, 1, 1}, kX), random({1, gates, 1}), random({1, gates, 1}), random({1, 2 * gates})};
}

/// One step of an rnn that gives its activation of x, for each of some x.
std::vector<double> activated(const std::string& name, double alpha, double beta) {
  const std::vector<Value> inputs = {f32({1, 4, 1}, {-2, -0.5F, 0.5F, 2}), f32({1, 1, 1}, {1}),
                                     f32({1, 1, 1}, {0})};
  const Attributes attributes = {{"hidden_size", kOne},
                                 {"activations", name},
                                 {"activation_alpha", std::vector<double>{alpha}},
                                 {"activation_beta", std::vector<double>{beta}}};
  return elements<double>(run("rnn", inputs, attributes));
}

TEST(Rnn, ActivationsHaveParameters) {
  using ::testing::DoubleNear;
  using ::testing::ElementsAre;
  const auto near = [](double x) {
    return DoubleNear(x, 1e-6);
  };
  EXPECT_THAT(activated("affine", 3, 1), ElementsAre(-5, -0.5, 2.5, 7));
  EXPECT_THAT(activated("leaky_relu", 0.25, 9), ElementsAre(-0.5, -0.125, 0.5, 2));
  EXPECT_THAT(activated("thresholded_relu", 0.5, 9), ElementsAre(0, 0, 0, 2));
  EXPECT_THAT(activated("hard_sigmoid", 0.5, 0.25), ElementsAre(0, 0, 0.5, 1));
  EXPECT_THAT(activated("scaled_tanh", 2, 0.5),
              ElementsAre(near(2 * std::tanh(-1.0)), near(2 * std::tanh(-0.25)),
                          near(2 * std::tanh(0.25)), near(2 * std::tanh(1.0))));
  EXPECT_THAT(activated("elu", 2, 0),
              ElementsAre(near(2 * std::expm1(-2)), near(2 * std::expm1(-0.5)), 0.5, 2));
}

TEST(Rnn, WantsAParameterForEachActivation) {
  EXPECT_THAT(infer_error("rnn", unit_inputs(1),
                          {{"hidden_size", kOne}, {"activation_alpha", std::vector<double>{1, 2}}}),
              HasSubstr("attribute \"activation_alpha\" wants 1 numbers, got 2"));
}

TEST(Lstm, OneUnitByHand) {
  std::vector<Value> inputs = unit_inputs(4);
  inputs.insert(inputs.end(), {absent(), f32({1, 1, 1}, {0.3F}), f32({1, 1, 1}, {-0.2F}),
                               f32({1, 3}, {0.1F, 0.2F, 0.3F})});
  const auto w = elements<double>(inputs[1]);
  const auto r = elements<double>(inputs[2]);
  const auto b = elements<double>(inputs[3]);
  Unit unit{0.3, -0.2};
  std::vector<double> y;
  for (const float x : kX) {
    const auto gate = [&](std::size_t g) {
      return double{x} * w[g] + unit.h * r[g] + b[g] + b[4 + g];
    };
    const double fresh = std::tanh(gate(3));
    const double in = sigmoid(gate(0) + 0.1 * unit.c);
    const double forget = sigmoid(gate(2) + 0.3 * unit.c);
    const double out = gate(1);
    unit.c = forget * unit.c + in * fresh;
    unit.h = sigmoid(out + 0.2 * unit.c) * std::tanh(unit.c);
    y.push_back(unit.h);
  }
  const auto results = run_all("lstm", inputs, {{"hidden_size", kOne}}, 3);
  EXPECT_EQ(results[0].type.shape, (Shape{3, 1, 1, 1}));
  expect_near(results[0], y);
  expect_near(results[1], {unit.h});
  expect_near(results[2], {unit.c});
}

TEST(Lstm, CouplesTheForgetGateAndClips) {
  const std::vector<Value> inputs = unit_inputs(4);
  const auto w = elements<double>(inputs[1]);
  const auto b = elements<double>(inputs[3]);
  const auto gate = [&](std::size_t g) {
    return std::clamp(0.5 * w[g] + b[g] + b[4 + g], -0.4, 0.4);
  };
  const double c = sigmoid(gate(0)) * std::tanh(gate(3));
  const Value first =
      run("lstm", inputs, {{"hidden_size", kOne}, {"clip", 0.4}, {"input_forget", kOne}});
  EXPECT_NEAR(elements<double>(first)[0], sigmoid(gate(1)) * std::tanh(c), 1e-6);
}

TEST(Gru, BothPlacesOfTheReset) {
  const std::vector<Value> inputs = unit_inputs(3);
  const auto w = elements<double>(inputs[1]);
  const auto r = elements<double>(inputs[2]);
  const auto b = elements<double>(inputs[3]);
  for (const std::int64_t after : {0, 1}) {
    double h = 0;
    std::vector<double> y;
    for (const float x : kX) {
      const double update = sigmoid(double{x} * w[0] + h * r[0] + b[0] + b[3]);
      const double reset = sigmoid(double{x} * w[1] + h * r[1] + b[1] + b[4]);
      const double recurrent = after != 0 ? reset * (h * r[2] + b[5]) : reset * h * r[2] + b[5];
      h = (1 - update) * std::tanh(double{x} * w[2] + b[2] + recurrent) + update * h;
      y.push_back(h);
    }
    expect_near(run("gru", inputs, {{"hidden_size", kOne}, {"linear_before_reset", after}}), y);
  }
}

TEST(Rnn, ActivationsByName) {
  const std::vector<Value> inputs = {f32({2, 1, 1}, {1, -3}), f32({1, 1, 1}, {2}),
                                     f32({1, 1, 1}, {1})};
  expect_near(run("rnn", inputs, {{"hidden_size", kOne}, {"activations", std::string("relu")}}),
              {2, 0});
  EXPECT_THAT(
      infer_error("rnn", inputs, {{"hidden_size", kOne}, {"activations", std::string("swoosh")}}),
      HasSubstr("no activation \"swoosh\""));
  EXPECT_THAT(infer_error("rnn", inputs,
                          {{"hidden_size", kOne}, {"activations", std::string("relu,relu")}}),
              HasSubstr("wants 1 names, got 2"));
}

Value reversed_in_time(const Value& x) {
  Value y = x;
  const std::size_t step = x.data.size() / static_cast<std::size_t>(x.type.shape[0]);
  for (std::size_t at = 0; at < x.data.size(); at += step) {
    std::copy_n(x.data.begin() + static_cast<std::ptrdiff_t>(at), step,
                y.data.end() - static_cast<std::ptrdiff_t>(at + step));
  }
  return y;
}

TEST(Recurrent, ReverseIsForwardOnTheReversedInput) {
  for (const char* op : {"lstm", "gru", "rnn"}) {
    const std::int64_t gates = std::string(op) == "lstm" ? 4 : std::string(op) == "gru" ? 3 : 1;
    const Value x = random({4, 2, 3});
    const Value w = random({1, gates * 2, 3});
    const Value r = random({1, gates * 2, 2});
    Attributes attributes = {{"hidden_size", std::int64_t{2}}};
    const auto forward = run_all(op, {reversed_in_time(x), w, r}, attributes, 2);
    attributes.set("direction", std::string("reverse"));
    const auto backward = run_all(op, {x, w, r}, attributes, 2);
    expect_near(backward[0], elements<double>(reversed_in_time(forward[0])));
    expect_near(backward[1], elements<double>(forward[1]));
  }
}

TEST(Recurrent, LengthsEndASequence) {
  const Value x = random({4, 2, 3});
  const Value w = random({1, 8, 3});
  const Value r = random({1, 8, 2});
  const Attributes attributes = {{"hidden_size", std::int64_t{2}}};
  const auto whole = run_all("lstm", {x, w, r}, attributes, 3);
  const auto cut =
      run_all("lstm", {x, w, r, absent(), value<int>(DType::i32, {2}, {2, 4})}, attributes, 3);
  const auto all = elements<double>(whole[0]);
  const auto y = elements<double>(cut[0]);
  for (std::size_t step = 0; step < 4; ++step) {
    for (std::size_t i = 0; i < 4; ++i) {
      const bool over = step >= 2 && i < 2;  // of batch entry 0
      EXPECT_EQ(y[step * 4 + i], over ? 0 : all[step * 4 + i]);
    }
  }
  const auto state = elements<double>(cut[1]);
  EXPECT_EQ(state[0], all[4]);   // entry 0 after two steps
  EXPECT_EQ(state[2], all[14]);  // entry 1 after four
  EXPECT_THROW(run("lstm", {x, w, r, absent(), i64({2}, {2, 5})}, attributes), Error);
}

TEST(Recurrent, AnEntryOfLengthZeroLeavesZeros) {
  const std::vector<Value> inputs = {f32({1, 2, 1}, {1, 1}),
                                     f32({1, 1, 1}, {1}),
                                     f32({1, 1, 1}, {0}),
                                     absent(),
                                     value<int>(DType::i32, {2}, {0, 1}),
                                     f32({1, 2, 1}, {0.25F, 0.25F})};
  const auto results = run_all("rnn", inputs, {{"hidden_size", kOne}}, 2);
  expect_near(results[0], {0, std::tanh(1)});
  expect_near(results[1], {0, std::tanh(1)});
}

TEST(Recurrent, EmptySequenceGivesTheInitialState) {
  const std::vector<Value> inputs = {f32({0, 1, 1}, {}), random({1, 1, 1}),
                                     random({1, 1, 1}),  absent(),
                                     absent(),           f32({1, 1, 1}, {0.25F})};
  const auto results = run_all("rnn", inputs, {{"hidden_size", kOne}}, 2);
  EXPECT_EQ(results[0].count(), 0);
  expect_near(results[1], {0.25});
}

TEST(Recurrent, Errors) {
  const Value x = random({4, 2, 3});
  EXPECT_THAT(
      infer_error("lstm", {x, random({1, 6, 3}), random({1, 8, 2})},
                  {{"hidden_size", std::int64_t{2}}}),
      HasSubstr("input 1 wants shape [1,8,3] (directions, gates, input size), got [1,6,3]"));
  EXPECT_THAT(
      infer_error("gru", {x, x, x}, {{"hidden_size", kOne}, {"direction", std::string("up")}}),
      HasSubstr("got \"up\""));
  EXPECT_THAT(infer_error("rnn", {x, x, x}), HasSubstr("\"hidden_size\" is missing"));
}

}  // namespace
}  // namespace tilemesh::ops::testing
