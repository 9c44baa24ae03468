#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/onnx/testing.hpp"

/// Attention and what goes with it, against the formula written out in loops.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const ConstantData kAbsent{};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Small numbers that repeat late.
ConstantData numbers(const Shape& shape, int seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 11) % 29 - 14) / 10;
  return floats(shape, values);
}

/// One node on constants, as the importer computes it.
std::vector<ConstantData> computed(
    std::int64_t opset, const std::string& op, const std::vector<ConstantData>& inputs,
    const std::vector<std::pair<std::string, AttributeOf>>& attributes, int outputs = 1,
    const std::string& domain = "") {
  Model model = one_node(opset, op, {}, inputs, attributes, outputs);
  model.graph().mutable_node(0)->set_domain(domain);
  return run(model);
}

/// How much is added to the score of query s and key t of a sample; minus infinity hides it.
using Bias = std::function<double(std::int64_t sample, std::int64_t s, std::int64_t t)>;

struct Attended {
  std::vector<float> y;        // [B, N, S, E]
  std::vector<float> scores;   // [B, N, S, T]
  std::vector<float> weights;  // likewise
};

/// The definition. q is [B, N, S, D], k [B, M, T, D], v [B, M, T, E].
Attended attended(const ConstantData& q_data, const ConstantData& k_data,
                  const ConstantData& v_data, double scale, double softcap, const Bias& bias) {
  const auto q = read_as<double>(q_data);
  const auto k = read_as<double>(k_data);
  const auto v = read_as<double>(v_data);
  const Shape& shape = q_data.shape;
  const std::int64_t heads = k_data.shape[1];
  const std::int64_t keys = k_data.shape[2];
  const std::int64_t size = shape[3];
  const std::int64_t out = v_data.shape[3];
  Attended result;
  for (std::int64_t row = 0; row < shape[0] * shape[1] * shape[2]; ++row) {
    const std::int64_t s = row % shape[2];
    const std::int64_t head = row / shape[2] % shape[1];
    const std::int64_t sample = row / shape[2] / shape[1];
    const std::int64_t other = sample * heads + head / (shape[1] / heads);
    std::vector<double> score(static_cast<std::size_t>(keys));
    for (std::int64_t t = 0; t < keys; ++t) {
      double dot = 0;
      for (std::int64_t d = 0; d < size; ++d)
        dot += q[static_cast<std::size_t>(row * size + d)] *
               k[static_cast<std::size_t>((other * keys + t) * size + d)];
      dot *= scale;
      result.scores.push_back(static_cast<float>(dot));
      if (softcap > 0) dot = softcap * std::tanh(dot / softcap);
      score[static_cast<std::size_t>(t)] = dot + bias(sample, s, t);
    }
    double sum = 0;
    for (double& x : score)
      sum += x = std::exp(x);
    std::vector<double> y(static_cast<std::size_t>(out));
    for (std::int64_t t = 0; t < keys; ++t) {
      const double weight = sum == 0 ? 0 : score[static_cast<std::size_t>(t)] / sum;
      result.weights.push_back(static_cast<float>(weight));
      for (std::int64_t e = 0; e < out; ++e)
        y[static_cast<std::size_t>(e)] +=
            weight * v[static_cast<std::size_t>((other * keys + t) * out + e)];
    }
    result.y.insert(result.y.end(), y.begin(), y.end());
  }
  return result;
}

double none(std::int64_t /*sample*/, std::int64_t /*s*/, std::int64_t /*t*/) {
  return 0;
}

TEST(OnnxAttention, IsItsFormula) {
  const auto q = numbers({2, 3, 4, 8}, 1);
  const auto k = numbers({2, 3, 6, 8}, 2);
  const auto v = numbers({2, 3, 6, 5}, 3);
  const Attended want = attended(q, k, v, 1 / std::sqrt(8.0), 0, none);
  const auto got = computed(23, "Attention", {q, k, v}, {}, 4);
  EXPECT_THAT(read_as<float>(got[0]), Pointwise(FloatNear(1e-5F), want.y));
  EXPECT_EQ(read_as<float>(got[1]), read_as<float>(k));
  EXPECT_THAT(read_as<float>(got[3]), Pointwise(FloatNear(1e-5F), want.scores));
}

TEST(OnnxAttention, CapsScoresBeforeTheMask) {
  const auto q = numbers({1, 2, 3, 4}, 1);
  const auto k = numbers({1, 2, 3, 4}, 2);
  const auto v = numbers({1, 2, 3, 4}, 3);
  const float hidden = -std::numeric_limits<float>::infinity();
  const auto mask = floats({3, 3}, {0, hidden, 0.5F, hidden, hidden, hidden, 0, 0, 1});
  const auto values = read_as<double>(mask);
  const Attended want =
      attended(q, k, v, 2, 0.7, [&](std::int64_t, std::int64_t s, std::int64_t t) {
        return values[static_cast<std::size_t>(s * 3 + t)];
      });
  const auto got =
      computed(23, "Attention", {q, k, v, mask},
               {{"scale", 2.0F}, {"softcap", 0.7F}, {"qk_matmul_output_mode", std::int64_t{3}}}, 1);
  EXPECT_THAT(read_as<float>(got[0]), Pointwise(FloatNear(1e-5F), want.y));
  for (std::size_t i = 4; i < 8; ++i)
    EXPECT_EQ(read_as<float>(got[0])[i], 0) << "a query that sees nothing gives zeros";
}

TEST(OnnxAttention, SharesKeysAmongHeadsAndKeepsThePast) {
  const auto q = numbers({1, 2, 4 * 6}, 1);  // four heads of six
  const auto k = numbers({1, 2, 2 * 6}, 2);
  const auto v = numbers({1, 2, 2 * 6}, 3);
  const auto past_k = numbers({1, 2, 3, 6}, 4);
  const auto past_v = numbers({1, 2, 3, 6}, 5);
  const auto got = computed(24, "Attention", {q, k, v, kAbsent, past_k, past_v},
                            {{"q_num_heads", std::int64_t{4}},
                             {"kv_num_heads", std::int64_t{2}},
                             {"is_causal", std::int64_t{1}}},
                            3);
  const auto by_heads = [](const ConstantData& x, std::int64_t heads) {
    const std::int64_t length = x.shape[1];
    const std::int64_t size = x.shape[2] / heads;
    const auto from = read_as<float>(x);
    std::vector<float> to;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t s = 0; s < length; ++s) {
        const auto first = from.begin() + (s * heads + h) * size;
        to.insert(to.end(), first, first + size);
      }
    }
    return floats({1, heads, length, size}, to);
  };
  const auto joined = [](const ConstantData& past, const ConstantData& fresh) {
    std::vector<float> to;
    for (std::int64_t h = 0; h < 2; ++h) {
      for (const ConstantData* part : {&past, &fresh}) {
        const std::int64_t row = part->shape[2] * 6;
        const auto from = read_as<float>(*part);
        to.insert(to.end(), from.begin() + h * row, from.begin() + (h + 1) * row);
      }
    }
    return floats({1, 2, 5, 6}, to);
  };
  const ConstantData keys = joined(past_k, by_heads(k, 2));
  const ConstantData values = joined(past_v, by_heads(v, 2));
  EXPECT_EQ(read_as<float>(got[1]), read_as<float>(keys));
  EXPECT_EQ(read_as<float>(got[2]), read_as<float>(values));
  const ConstantData queries = by_heads(q, 4);
  const Attended want = attended(
      queries, keys, values, 1 / std::sqrt(6.0), 0,
      [](std::int64_t, std::int64_t s, std::int64_t t) { return t <= s + 3 ? 0 : -kInfinity; });
  EXPECT_THAT(read_as<float>(by_heads(got[0], 4)), Pointwise(FloatNear(1e-5F), want.y));
}

TEST(OnnxAttention, SeesWhatIsNoPadding) {
  const auto q = numbers({2, 1, 2, 4}, 1);
  const auto k = numbers({2, 1, 5, 4}, 2);
  const auto v = numbers({2, 1, 5, 4}, 3);
  const auto mask = filled(DType::boolean, {2, 4}, 1);  // shorter than the keys
  const Attended want =
      attended(q, k, v, 0.5, 0, [](std::int64_t sample, std::int64_t s, std::int64_t t) {
        const std::int64_t length = sample == 0 ? 3 : 5;
        return t < length && t < 4 && t <= s + length - 2 ? 0 : -kInfinity;
      });
  const auto got = computed(24, "Attention", {q, k, v, mask, kAbsent, kAbsent, integers({3, 5})},
                            {{"is_causal", std::int64_t{1}}});
  EXPECT_THAT(read_as<float>(got[0]), Pointwise(FloatNear(1e-5F), want.y));
}

TEST(OnnxAttention, RefusesWhatDoesntGoTogether) {
  const auto q = numbers({1, 3, 2, 4}, 1);
  const auto k = numbers({1, 2, 2, 4}, 2);
  EXPECT_THAT(error_of([&] {
                computed(23, "Attention", {q, k, k}, {});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("[1,3,2,4]")));
  const auto flat = numbers({1, 2, 7}, 1);
  EXPECT_THAT(error_of([&] {
                computed(23, "Attention", {flat, flat, flat},
                         {{"q_num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{2}}});
              }),
              HasSubstr("has no 2 heads"));
}

// One sample, one head of four numbers, two places with angles of 90 and 180 degrees.
TEST(OnnxRotaryEmbedding, TurnsHalvesOrPairs) {
  const auto x = floats({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto cos = floats({1, 2, 2}, {0, 0, -1, -1});
  const auto sin = floats({1, 2, 2}, {1, 1, 0, 0});
  EXPECT_THAT(read_as<float>(computed(23, "RotaryEmbedding", {x, cos, sin}, {})[0]),
              ElementsAre(-3, -4, 1, 2, -5, -6, -7, -8));
  EXPECT_THAT(read_as<float>(computed(23, "RotaryEmbedding", {x, cos, sin},
                                      {{"interleaved", std::int64_t{1}}})[0]),
              ElementsAre(-2, 1, -4, 3, -5, -6, -7, -8));
  const auto narrow_cos = floats({1, 2, 1}, {0, -1});
  const auto narrow_sin = floats({1, 2, 1}, {1, 0});
  EXPECT_THAT(read_as<float>(computed(23, "RotaryEmbedding", {x, narrow_cos, narrow_sin},
                                      {{"rotary_embedding_dim", std::int64_t{2}}})[0]),
              ElementsAre(-2, 1, 3, 4, -5, -6, 7, 8));
  EXPECT_THAT(error_of([&] {
                computed(23, "RotaryEmbedding", {x, narrow_cos, narrow_sin}, {});
              }),
              HasSubstr("half as many are wanted"));
}

TEST(OnnxRotaryEmbedding, LooksAnglesUpByPosition) {
  const auto x = floats({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});  // two heads of two
  const auto cos = floats({3, 1}, {1, 0, -1});
  const auto sin = floats({3, 1}, {0, 1, 0});
  auto places = integers({2, 1});
  places.shape = Shape{1, 2};
  EXPECT_THAT(read_as<float>(computed(23, "RotaryEmbedding", {x, cos, sin, places},
                                      {{"num_heads", std::int64_t{2}}})[0]),
              ElementsAre(-1, -2, -3, -4, -6, 5, -8, 7));
}

TEST(OnnxRmsNormalization, DividesByTheRoot) {
  const auto x = floats({2, 2}, {3, 4, 6, 8});
  const auto got = read_as<float>(
      computed(23, "RMSNormalization", {x, floats({2}, {1, 10})}, {{"epsilon", 0.0F}})[0]);
  const float root = std::sqrt(12.5F);
  EXPECT_THAT(got, Pointwise(FloatNear(1e-6F),
                             std::vector<float>{3 / root, 40 / root, 3 / root, 40 / root}));
}

TEST(OnnxTensorScatter, WritesAtEachSamplesPlace) {
  const auto cache = filled(DType::f32, {2, 3, 1}, 0);
  const auto update = floats({2, 2, 1}, {1, 2, 3, 4});
  EXPECT_THAT(
      read_as<float>(computed(24, "TensorScatter", {cache, update, integers({1, 0})}, {})[0]),
      ElementsAre(0, 1, 2, 3, 4, 0));
  EXPECT_THAT(read_as<float>(computed(24, "TensorScatter", {cache, update, integers({2, 1})},
                                      {{"mode", std::string("circular")}})[0]),
              ElementsAre(2, 0, 1, 0, 3, 4));
  EXPECT_THAT(read_as<float>(computed(24, "TensorScatter", {cache, update}, {})[0]),
              ElementsAre(1, 2, 0, 3, 4, 0));
}

TEST(OnnxSwish, HasAlpha) {
  const auto got =
      read_as<float>(computed(24, "Swish", {floats({2}, {0, 2})}, {{"alpha", 0.5F}})[0]);
  EXPECT_THAT(got, Pointwise(FloatNear(1e-6F), std::vector<float>{0, 2 / (1 + std::exp(-1.0F))}));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
