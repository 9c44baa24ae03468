#include <cmath>
#include <limits>

#include "op_cases.hpp"

namespace tilemesh::ops::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

void expect_near(const Value& actual, const Shape& shape, const std::vector<double>& wanted) {
  ASSERT_EQ(actual.type.shape, shape);
  const auto values = elements<double>(actual);
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(values[i], wanted[i], 1e-4 * (1 + std::abs(wanted[i]))) << "element " << i;
  }
}

TEST(MatMul, SmallByHand) {
  const Value a = f32({2, 2}, {1, 2, 3, 4});
  const Value b = f32({2, 2}, {5, 6, 7, 8});
  const Attributes left = {{"transpose_a", std::int64_t{1}}};
  const Attributes right = {{"transpose_b", std::int64_t{1}}};
  EXPECT_THAT(elements<float>(run("matmul", {a, b})), ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(elements<float>(run("matmul", {a, b}, left)), ElementsAre(26, 30, 38, 44));
  EXPECT_THAT(elements<float>(run("matmul", {a, b}, right)), ElementsAre(17, 23, 39, 53));
}

TEST(MatMul, BatchesBroadcast) {
  const Value a = random({2, 1, 3, 4});
  const Value b = random({5, 4, 2});
  const auto x = elements<double>(a);
  const auto w = elements<double>(b);
  std::vector<double> wanted;
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t m = 0; m < 5; ++m) {
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 2; ++j) {
          double sum = 0;
          for (std::size_t k = 0; k < 4; ++k) {
            sum += x[(n * 3 + i) * 4 + k] * w[(m * 4 + k) * 2 + j];
          }
          wanted.push_back(sum);
        }
      }
    }
  }
  expect_near(run("matmul", {a, b}), {2, 5, 3, 2}, wanted);
}

TEST(MatMul, Vectors) {
  const Value v = f32({2}, {1, 2});
  const Value m = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(run("matmul", {v, v}), {}, {5});
  expect_near(run("matmul", {v, m}), {3}, {9, 12, 15});
  expect_near(run("matmul", {f32({3, 2}, {1, 2, 3, 4, 5, 6}), v}), {3}, {5, 11, 17});
}

TEST(MatMul, ZeroSizes) {
  expect_near(run("matmul", {f32({2, 0}, {}), f32({0, 2}, {})}), {2, 2}, {0, 0, 0, 0});
  EXPECT_EQ(run("matmul", {f32({0, 2}, {}), f32({2, 3}, {1, 2, 3, 4, 5, 6})}).type.shape,
            (Shape{0, 3}));
  EXPECT_EQ(run("matmul", {f32({0, 1, 2}, {}), random({1, 2, 3})}).type.shape, (Shape{0, 1, 3}));
}

TEST(MatMul, IntegersWrapAndNanSpreads) {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  EXPECT_THAT(elements<std::int64_t>(run("matmul", {i64({1}, {big}), i64({1}, {3})})),
              ElementsAre(3 * big));
  const Value nan = f32({1, 2}, {std::numeric_limits<float>::quiet_NaN(), 1});
  EXPECT_TRUE(std::isnan(elements<float>(run("matmul", {nan, f32({2, 1}, {0, 1})}))[0]));
}

TEST(MatMul, ErrorsHaveBothShapes) {
  EXPECT_THAT(infer_error("matmul", {random({2, 3}), random({4, 5})}),
              HasSubstr("[2,3] and [4,5] don't multiply: the inner sizes are 3 and 4"));
  EXPECT_THAT(infer_error("matmul", {random({2, 3, 4}), random({3, 4, 5})}),
              HasSubstr("[2] and [3] don't broadcast"));
  EXPECT_THAT(infer_error("matmul", {random({}), random({1})}), HasSubstr("rank 1 or more"));
}

/// Convolution as its formula says, for two spatial dims.
std::vector<double> naive_conv(const Value& x, const Value& w, const Shape& out,
                               const Ints& strides, const Ints& pads, const Ints& dilations,
                               std::int64_t group) {
  const Shape& in = x.type.shape;
  const Shape& kernel = w.type.shape;
  const auto a = elements<double>(x);
  const auto b = elements<double>(w);
  std::vector<double> y(static_cast<std::size_t>(out.element_count()));
  Dims i = {0, 0, 0, 0};
  const auto at = [](const Shape& s, std::int64_t n, std::int64_t c, std::int64_t h,
                     std::int64_t v) {
    return static_cast<std::size_t>(((n * s[1] + c) * s[2] + h) * s[3] + v);
  };
  for (i[0] = 0; i[0] < out[0]; ++i[0]) {
    for (i[1] = 0; i[1] < out[1]; ++i[1]) {
      for (i[2] = 0; i[2] < out[2]; ++i[2]) {
        for (i[3] = 0; i[3] < out[3]; ++i[3]) {
          double& sum = y[at(out, i[0], i[1], i[2], i[3])];
          for (std::int64_t c = 0; c < kernel[1]; ++c) {
            const std::int64_t channel = i[1] / (out[1] / group) * kernel[1] + c;
            for (std::int64_t p = 0; p < kernel[2]; ++p) {
              for (std::int64_t q = 0; q < kernel[3]; ++q) {
                const std::int64_t h = i[2] * strides[0] - pads[0] + p * dilations[0];
                const std::int64_t v = i[3] * strides[1] - pads[1] + q * dilations[1];
                if (h < 0 || h >= in[2] || v < 0 || v >= in[3]) continue;
                sum += a[at(in, i[0], channel, h, v)] * b[at(kernel, i[1], c, p, q)];
              }
            }
          }
        }
      }
    }
  }
  return y;
}

TEST(Conv, EqualsItsFormula) {
  struct Setting {
    Ints strides, pads, dilations;
    std::int64_t group;
    Shape out;
  };
  const Setting settings[] = {
      {{1, 1}, {0, 0, 0, 0}, {1, 1}, 1, {2, 6, 5, 5}},
      {{2, 3}, {1, 2, 0, 1}, {1, 1}, 2, {2, 6, 3, 3}},
      {{1, 2}, {3, 0, 3, 2}, {3, 2}, 2, {2, 6, 7, 3}},
      {{5, 7}, {0, 0, 0, 0}, {1, 1}, 1, {2, 6, 1, 1}},
  };
  for (const Setting& s : settings) {
    const Value x = random({2, 4, 7, 6});
    const Value w = random({6, 4 / s.group, 3, 2});
    const Value y = run(
        "conv", {x, w},
        {{"strides", s.strides}, {"pads", s.pads}, {"dilations", s.dilations}, {"group", s.group}});
    expect_near(y, s.out, naive_conv(x, w, s.out, s.strides, s.pads, s.dilations, s.group));
  }
}

TEST(Conv, OneAndThreeSpatialDimsWithBias) {
  expect_near(run("conv", {f32({1, 1, 4}, {1, 2, 3, 4}), f32({2, 1, 2}, {1, 1, 1, -1}),
                           f32({2}, {10, 20})}),
              {1, 2, 3}, {13, 15, 17, 19, 19, 19});
  expect_near(run("conv", {f32({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                           f32({1, 1, 2, 2, 2}, std::vector<float>(8, 1))}),
              {1, 1, 1, 1, 1}, {36});
}

TEST(Conv, EmptyBatchAndChannels) {
  EXPECT_EQ(run("conv", {random({0, 1, 3}), random({2, 1, 2})}).type.shape, (Shape{0, 2, 2}));
  expect_near(run("conv", {random({1, 0, 3}), random({1, 0, 2}), f32({1}, {4})}), {1, 1, 2},
              {4, 4});
}

TEST(Conv, ErrorsHaveBothValues) {
  const Value x = random({1, 3, 5, 5});
  EXPECT_THAT(infer_error("conv", {x, random({2, 4, 3, 3})}), HasSubstr("has 3 channels"));
  EXPECT_THAT(infer_error("conv", {x, random({2, 3, 6, 3})}), HasSubstr("spans 6"));
  EXPECT_THAT(infer_error("conv", {x, random({2, 3, 3})}), HasSubstr("input 1 wants rank 4"));
  EXPECT_THAT(infer_error("conv", {x, random({2, 3, 3, 3}), random({3})}),
              HasSubstr("wants shape [2]"));
  EXPECT_THAT(infer_error("conv", {x, random({2, 3, 3, 3})}, {{"pads", Ints{0, 0, 0, -1}}}),
              HasSubstr("\"pads\" wants at least 0, got -1"));
  EXPECT_THAT(infer_error("conv", {x, random({2, 3, 3, 3})}, {{"strides", Ints{1}}}),
              HasSubstr("wants 2 numbers, got 1"));
  EXPECT_THAT(infer_error("conv", {x, random({2, 1, 3, 3})}, {{"group", std::int64_t{3}}}),
              HasSubstr("group 3 doesn't divide 3 input and 2 output"));
}

/// The sum of products of two tensors of one shape.
double inner(const Value& a, const Value& b) {
  const auto x = elements<double>(a);
  const auto y = elements<double>(b);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

// conv_transpose is the transpose of conv as a linear map: <conv(x), y> = <x, conv_transpose(y)>.
TEST(ConvTranspose, IsTheTransposeOfConv) {
  struct Setting {
    Ints strides, pads, dilations, output_padding;
    std::int64_t group;
  };
  const Setting settings[] = {
      {{1, 1}, {0, 0, 0, 0}, {1, 1}, {0, 0}, 1},
      {{2, 3}, {1, 1, 0, 1}, {1, 1}, {0, 1}, 2},
      {{2, 1}, {2, 0, 1, 1}, {2, 2}, {1, 0}, 2},
  };
  for (const Setting& s : settings) {
    const Value w = random({6, 4 / s.group, 3, 2});
    const Value y = random({2, 6, 4, 3});
    const Attributes attributes = {
        {"strides", s.strides}, {"pads", s.pads}, {"dilations", s.dilations}, {"group", s.group}};
    Attributes transposed = attributes;
    transposed.set("output_padding", s.output_padding);
    const Value back = run("conv_transpose", {y, w}, transposed);
    const Value x = random(back.type.shape);
    const Value forth = run("conv", {x, w}, attributes);
    ASSERT_EQ(forth.type.shape, y.type.shape);
    EXPECT_NEAR(inner(forth, y), inner(x, back), 1e-3);
  }
}

TEST(ConvTranspose, SmallByHand) {
  const Value x = f32({1, 1, 2}, {1, 2});
  const Value w = f32({1, 1, 3}, {1, 10, 100});
  expect_near(run("conv_transpose", {x, w}), {1, 1, 4}, {1, 12, 120, 200});
  expect_near(run("conv_transpose", {x, w, f32({1}, {5})}, {{"strides", Ints{2}}}), {1, 1, 5},
              {6, 15, 107, 25, 205});
  expect_near(run("conv_transpose", {x, w}, {{"pads", Ints{1, 1}}}), {1, 1, 2}, {12, 120});
  expect_near(run("conv_transpose", {x, w}, {{"strides", Ints{3}}, {"output_padding", Ints{1}}}),
              {1, 1, 7}, {1, 10, 100, 2, 20, 200, 0});
}

// (size - 1) * stride + kernel, also of no elements: what is left of the kernel is the bias.
TEST(ConvTranspose, OfNothing) {
  const Value x = f32({1, 1, 0}, {});
  const Value w = f32({1, 1, 3}, {1, 10, 100});
  expect_near(run("conv_transpose", {x, w, f32({1}, {5})}), {1, 1, 2}, {5, 5});
  EXPECT_EQ(run("conv_transpose", {x, w}, {{"strides", Ints{3}}}).type.shape, (Shape{1, 1, 0}));
  EXPECT_THAT(infer_error("conv_transpose", {x, w}, {{"strides", Ints{4}}}),
              HasSubstr("output dim 2 has -1 elements before 0 are cut as pads"));
}

TEST(Einsum, ManyEquations) {
  const Value a = f32({2, 2}, {1, 2, 3, 4});
  const Value b = f32({2, 2}, {5, 6, 7, 8});
  const auto with = [](const char* equation) {
    return Attributes{{"equation", std::string(equation)}};
  };
  expect_near(run("einsum", {a, b}, with("ij,jk->ik")), {2, 2}, {19, 22, 43, 50});
  expect_near(run("einsum", {a, b}, with("ij, jk")), {2, 2}, {19, 22, 43, 50});
  expect_near(run("einsum", {a}, with("ij->ji")), {2, 2}, {1, 3, 2, 4});
  expect_near(run("einsum", {a}, with("ji")), {2, 2}, {1, 3, 2, 4});
  expect_near(run("einsum", {a}, with("ii->i")), {2}, {1, 4});
  expect_near(run("einsum", {a}, with("ii")), {}, {5});
  expect_near(run("einsum", {a}, with("ij->")), {}, {10});
  expect_near(run("einsum", {a, b}, with("ij,kl->ik")), {2, 2}, {33, 45, 77, 105});
  expect_near(run("einsum", {a, f32({2}, {1, 10})}, with("...j,j->...")), {2}, {21, 43});
  expect_near(run("einsum", {f32({0, 2}, {}), f32({2}, {1, 2})}, with("ij,j->i")), {0}, {});
  expect_near(run("einsum", {f32({2, 0}, {}), f32({0}, {})}, with("ij,j->i")), {2}, {0, 0});
  EXPECT_THAT(infer_error("einsum", {a}, with("ij,jk->ik")), HasSubstr("2 terms for 1 inputs"));
  EXPECT_THAT(infer_error("einsum", {a, random({3, 2})}, with("ij,jk->ik")),
              HasSubstr("dims of 2 and 3 elements"));
  EXPECT_THAT(infer_error("einsum", {a}, with("ij->ijk")), HasSubstr("no input has"));
  EXPECT_THAT(infer_error("einsum", {a}, with("i->i")), HasSubstr("names 1 dims of input 0"));
  EXPECT_THAT(infer_error("einsum", {a}, with("i-j")), HasSubstr("has '-'"));
}

}  // namespace
}  // namespace tilemesh::ops::testing
