#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// Losses and optimisers, by the formulas of the operators.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

/// One step on two tensors of one element: 1 and 2 with gradients -1 and 3, states of 2 and 3 (and
/// 1 and 4), a rate of 0.1.
std::vector<float> step(const std::string& op, std::int64_t number, int states,
                        const std::vector<std::pair<std::string, AttributeOf>>& attributes) {
  Model model(17);
  auto& set = *model.proto.add_opset_import();
  set.set_domain("ai.onnx.preview.training");
  set.set_version(1);
  model.initializer("rate", floats({}, {0.1F}));
  model.initializer("number", integer(number));
  Names inputs = {"rate", "number"};
  const std::vector<float> values = {1, 2, -1, 3, 2, 3, 1, 4};
  for (std::size_t i = 0; i < 4 + 2 * static_cast<std::size_t>(states); ++i) {
    inputs.push_back("x" + std::to_string(i));
    model.initializer(inputs.back(), floats({1}, {values[i]}));
  }
  Names outputs;
  for (int i = 0; i < 2 + 2 * states; ++i) {
    outputs.push_back("y" + std::to_string(i));
    model.output(outputs.back());
  }
  model.node(op, inputs, outputs, attributes).set_domain("ai.onnx.preview.training");
  std::vector<float> results;
  for (const ConstantData& data : run(model))
    results.push_back(read_as<float>(data)[0]);
  return results;
}

TEST(OnnxTraining, ALossIgnoresWhateverTheScoresOfIgnoredLabelsAre) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [reduction, wanted] :
       {std::pair<std::string, std::vector<float>>{"none", {0, -3, 0}},
        {"sum", {-3}},
        {"mean", {-3}}}) {
    Model model(17);
    model.initializer("scores", floats({3, 2}, {-kInfinity, 1, 2, 3, kNan, kNan}));
    model.initializer("labels", integers({0, 1, 0}));
    model.output("loss");
    model.node("NegativeLogLikelihoodLoss", {"scores", "labels"}, {"loss"},
               {{"ignore_index", std::int64_t{0}}, {"reduction", reduction}});
    EXPECT_EQ(run_floats(model), wanted) << reduction;
  }
}

TEST(OnnxTraining, AdagradDividesByAllGradients) {
  const auto near = [](float h, float x, float g) {
    return x - 0.1F / 1.5F * g / (std::sqrt(h) + 0.5F);
  };
  EXPECT_THAT(step("Adagrad", 5, 1, {{"decay_factor", 0.1F}, {"epsilon", 0.5F}}),
              Pointwise(FloatNear(1e-6F), {near(3, 1, -1), near(12, 2, 3), 3.0F, 12.0F}));
}

TEST(OnnxTraining, MomentumGoesOn) {
  const std::vector<std::pair<std::string, AttributeOf>> standard = {
      {"alpha", 0.5F},
      {"beta", 0.25F},
      {"norm_coefficient", 1.0F},
      {"mode", std::string("standard")}};
  // Gradients of 0 and 5; the first step takes them whole.
  EXPECT_THAT(step("Momentum", 0, 1, standard),
              Pointwise(FloatNear(1e-6F), {0.9F, 1.35F, 1.0F, 6.5F}));
  EXPECT_THAT(step("Momentum", 1, 1, standard),
              Pointwise(FloatNear(1e-6F), {0.9F, 1.725F, 1.0F, 2.75F}));
  auto nesterov = standard;
  nesterov[3].second = std::string("nesterov");
  EXPECT_THAT(step("Momentum", 1, 1, nesterov),
              Pointwise(FloatNear(1e-6F), {0.95F, 2 - 0.6375F, 1.0F, 2.75F}));
}

TEST(OnnxTraining, AdamKnowsTwoMeans) {
  const auto moved = [](float rate, float x, float v, float h) {
    return 0.5F * (x - rate * v / (std::sqrt(h) + 0.25F));
  };
  const std::vector<std::pair<std::string, AttributeOf>> attributes = {
      {"alpha", 0.5F}, {"beta", 0.75F}, {"epsilon", 0.25F}, {"norm_coefficient_post", 0.5F}};
  EXPECT_THAT(step("Adam", 0, 2, attributes),
              Pointwise(FloatNear(1e-6F), {moved(0.1F, 1, 0.5F, 1), moved(0.1F, 2, 3, 5.25F), 0.5F,
                                           3.0F, 1.0F, 5.25F}));
  const float rate = 0.1F * std::sqrt(1 - 0.5625F) / (1 - 0.25F);
  EXPECT_NEAR(step("Adam", 2, 2, attributes)[0], moved(rate, 1, 0.5F, 1), 1e-6);
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
