#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// onnxruntime's own operators, on numbers worked out by hand. tools/make_contrib_tests.py compares
/// more of them with onnxruntime itself.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const ConstantData kAbsent{};

std::vector<ConstantData> computed(
    const std::string& op, const std::vector<ConstantData>& inputs,
    const std::vector<std::pair<std::string, AttributeOf>>& attributes = {}, int outputs = 1) {
  Model model = one_node(17, op, {}, inputs, attributes, outputs);
  model.graph().mutable_node(0)->set_domain("com.microsoft");
  return run(model);
}

std::vector<float> first(const std::vector<ConstantData>& outputs) {
  return read_as<float>(outputs.at(0));
}

TEST(MicrosoftOps, FusedMatMulTransposesAndScales) {
  const auto a = floats({2, 2}, {1, 2, 3, 4});
  const auto b = floats({2, 2}, {1, 0, 0, 1});
  EXPECT_THAT(first(computed("FusedMatMul", {a, b}, {{"alpha", 0.5F}})),
              ElementsAre(0.5F, 1, 1.5F, 2));
  EXPECT_THAT(first(computed("FusedMatMul", {a, b}, {{"transA", std::int64_t{1}}})),
              ElementsAre(1, 3, 2, 4));
  // Rows before the batch: a[m][b][k] times the identity is a with both swapped.
  const auto rows = floats({2, 2, 1}, {1, 2, 3, 4});
  const auto one = floats({2, 1, 1}, {1, 1});
  EXPECT_THAT(first(computed("FusedMatMul", {rows, one}, {{"transBatchA", std::int64_t{1}}})),
              ElementsAre(1, 3, 2, 4));
}

TEST(MicrosoftOps, FusedGemmAndConvActivate) {
  const auto a = floats({1, 2}, {1, -2});
  const auto b = floats({2, 1}, {1, 1});
  EXPECT_THAT(first(computed("FusedGemm", {a, b}, {{"activation", std::string("Relu")}})),
              ElementsAre(0));
  EXPECT_THAT(
      first(computed("FusedGemm", {a, b},
                     {{"activation", std::string("LeakyRelu")}, {"activation_alpha", 0.25F}})),
      ElementsAre(-0.25F));
  const auto x = floats({1, 1, 3}, {1, 2, -9});
  const auto w = floats({1, 1, 1}, {2});
  const auto z = floats({1, 1, 3}, {1, -5, 0});
  EXPECT_THAT(first(computed("FusedConv", {x, w, kAbsent, z},
                             {{"activation", std::string("Clip")},
                              {"activation_params", std::vector<float>{-1.5F, 2}}})),
              ElementsAre(2, -1, -1.5F));
  EXPECT_THAT(error_of([&] {
                computed("FusedConv", {x, w}, {{"activation", std::string("Mish")}});
              }),
              AllOf(HasSubstr("unsupported"), HasSubstr("Mish")));
}

TEST(MicrosoftOps, GelusHaveTheirOwnFormula) {
  const auto x = floats({2}, {1, -2});
  const auto erf = [](double v) {
    return static_cast<float>(v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))));
  };
  const auto near = [](const std::vector<float>& want) {
    return Pointwise(FloatNear(1e-6F), want);
  };
  EXPECT_THAT(first(computed("Gelu", {x})), near({erf(1), erf(-2)}));
  EXPECT_THAT(first(computed("BiasGelu", {x, floats({2}, {1, 1})})), near({erf(2), erf(-1)}));
  const auto by_tanh = [](double v) {
    return static_cast<float>(
        0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v))));
  };
  EXPECT_THAT(first(computed("FastGelu", {x})), near({by_tanh(1), by_tanh(-2)}));
  const auto quick = [](double v) {
    return static_cast<float>(v / (1 + std::exp(-1.702 * v)));
  };
  EXPECT_THAT(first(computed("QuickGelu", {x})), near({quick(1), quick(-2)}));
  EXPECT_THAT(first(computed("BiasSplitGelu", {floats({1, 1, 2}, {3, 0}), floats({2}, {0, 1})})),
              near({3 * erf(1)}));
}

TEST(MicrosoftOps, SkipNormsGiveTheirSum) {
  const auto x = floats({1, 1, 2}, {1, 2});
  const auto skip = floats({1, 1, 2}, {2, 2});
  const auto gamma = floats({2}, {1, 1});
  const auto layer = computed("SkipLayerNormalization", {x, skip, gamma, floats({2}, {0, 5})},
                              {{"epsilon", 0.0F}}, 4);
  EXPECT_THAT(read_as<float>(layer[0]), Pointwise(FloatNear(1e-5F), std::vector<float>{-1, 6}));
  EXPECT_THAT(read_as<float>(layer[3]), ElementsAre(3, 4));
  Model rms = one_node(17, "SkipSimplifiedLayerNormalization", {}, {x, skip, gamma}, {}, 1);
  onnx::NodeProto& node = *rms.graph().mutable_node(0);
  node.set_domain("com.microsoft");
  node.add_output("");
  node.add_output("");
  node.add_output("sum");
  rms.output("sum");
  const auto results = run(rms);
  const float root = std::sqrt(12.5F);
  EXPECT_THAT(read_as<float>(results[0]),
              Pointwise(FloatNear(1e-6F), std::vector<float>{3 / root, 4 / root}));
  EXPECT_THAT(read_as<float>(results[1]), ElementsAre(3, 4));
}

// Two places before the new one of which a window of two sees itself and its neighbour.
TEST(MicrosoftOps, GroupQueryAttentionKeepsACache) {
  const auto query = floats({1, 1, 2}, {0, 0});  // two heads of one number see all keys alike
  const auto key = floats({1, 1, 1}, {7});
  const auto value = floats({1, 1, 1}, {9});
  const auto past_key = floats({1, 1, 2, 1}, {1, 2});
  const auto past_value = floats({1, 1, 2, 1}, {3, 6});
  const auto lengths = make_constant<std::int32_t>(Shape{1}, {2});
  const auto total = make_constant<std::int32_t>({}, {3});
  const auto attributes = [](std::int64_t window) {
    return std::vector<std::pair<std::string, AttributeOf>>{{"num_heads", std::int64_t{2}},
                                                            {"kv_num_heads", std::int64_t{1}},
                                                            {"local_window_size", window}};
  };
  const auto all =
      computed("GroupQueryAttention", {query, key, value, past_key, past_value, lengths, total},
               attributes(-1), 3);
  EXPECT_THAT(read_as<float>(all[0]), ElementsAre(6, 6));
  EXPECT_THAT(read_as<float>(all[1]), ElementsAre(1, 2, 7));
  EXPECT_THAT(read_as<float>(all[2]), ElementsAre(3, 6, 9));
  const auto near =
      computed("GroupQueryAttention", {query, key, value, past_key, past_value, lengths, total},
               attributes(2), 3);
  EXPECT_THAT(read_as<float>(near[0]), ElementsAre(7.5F, 7.5F));
}

TEST(MicrosoftOps, OthersAreRefusedByName) {
  EXPECT_THAT(error_of([] { computed("NoSuchOp", {floats({1}, {1})}); }),
              AllOf(HasSubstr("unsupported"), HasSubstr("com.microsoft.NoSuchOp")));
  Model trees = one_node(17, "TreeEnsembleClassifier", {{2}}, {});
  trees.graph().mutable_node(0)->set_domain("ai.onnx.ml");
  EXPECT_THAT(error_of([&] { trees.import(); }),
              AllOf(HasSubstr("unsupported"), HasSubstr("classical models")));
}

TEST(MicrosoftOps, LayerNormalizationBelowOpset17) {
  const Model model = one_node(9, "LayerNormalization", {{1, 2}},
                               {floats({2}, {1, 1}), floats({2}, {0, 0})}, {{"epsilon", 0.0F}});
  EXPECT_THAT(run_floats(model), Pointwise(FloatNear(1e-5F), std::vector<float>{-1, 1}));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
