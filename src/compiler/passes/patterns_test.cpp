#include "compiler/passes/pass_test.hpp"

namespace tilemesh {
namespace {

class Patterns : public PassTest {
 protected:
  Value x_ = input("x", {2, 4, 3, 5});

  Value clip(Value x, double low, double high) {
    return op("clip", {x}, {{"min", low}, {"max", high}});
  }
};

TEST_F(Patterns, Swish) {
  EXPECT_EQ(ops_after(op("mul", {op("sigmoid", {x_}), x_})), "map");
  EXPECT_EQ(chain(0), "swish(i0; 1)");
}

TEST_F(Patterns, SwishWithAFactor) {
  EXPECT_EQ(ops_after(op("mul", {x_, op("sigmoid", {op("mul", {x_, scalar(1.702f)})})})), "map");
  EXPECT_NE(chain(0).find("swish(i0"), std::string::npos) << chain(0);
  EXPECT_EQ(node(0).epilogue.steps.size(), 1u);
}

TEST_F(Patterns, HardSwishAsPaddleWritesIt) {
  const Value six = clip(op("add", {x_, scalar(3)}), 0, 6);
  EXPECT_EQ(ops_after(op("div", {op("mul", {x_, six}), scalar(6)})), "map");
  EXPECT_EQ(chain(0), "hard_swish(i0)");
}

TEST_F(Patterns, HardSwishWithTheDivisionFirst) {
  const Value gate = op("div", {clip(op("add", {x_, scalar(3)}), 0, 6), scalar(6)});
  EXPECT_EQ(ops_after(op("mul", {gate, x_})), "map");
  EXPECT_EQ(chain(0), "hard_swish(i0)");
}

TEST_F(Patterns, HardSwishFromHardSigmoid) {
  const Value gate = op("hard_sigmoid", {x_}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
  EXPECT_EQ(ops_after(op("mul", {x_, gate})), "map");
  EXPECT_EQ(chain(0), "hard_swish(i0)");
}

TEST_F(Patterns, AnotherSlopeIsNoHardSwish) {
  const Value gate = op("hard_sigmoid", {x_}, {{"alpha", 0.2}, {"beta", 0.5}});
  EXPECT_EQ(ops_after(op("mul", {x_, gate})), "map");
  EXPECT_EQ(node(0).epilogue.steps.size(), 2u) << chain(0);
}

TEST_F(Patterns, HardSigmoidFromClip) {
  EXPECT_EQ(ops_after(op("div", {clip(op("add", {x_, scalar(3)}), 0, 6), scalar(6)})), "map");
  EXPECT_EQ(node(0).epilogue.steps.size(), 1u);
  EXPECT_EQ(node(0).epilogue.steps[0].fn, ScalarFn::hard_sigmoid);
}

TEST_F(Patterns, GeluInThreeForms) {
  const auto gate = [&](Value x) {
    return op("add", {op("erf", {op("div", {x, scalar(1.41421356f)})}), scalar(1)});
  };
  const Value a = op("mul", {op("mul", {x_, gate(x_)}), scalar(0.5f)});
  const Value b = op("mul", {op("mul", {a, scalar(0.5f)}), gate(a)});
  const Value c = op("mul", {b, op("mul", {gate(b), scalar(0.5f)})});
  EXPECT_EQ(ops_after(c), "map");
  EXPECT_EQ(chain(0), "gelu(gelu(gelu(i0)))");
}

TEST_F(Patterns, LinearFromArithmetic) {
  Value x = op("div", {x_, scalar(4)});
  x = op("sub", {scalar(1), x});
  x = op("neg", {x});
  EXPECT_EQ(ops_after(x), "map");
  EXPECT_EQ(chain(0), "linear(linear(linear(i0; 0.25, -0); -1, 1); -1, -0)");
}

TEST_F(Patterns, DivisionsWithoutAnExactReciprocalStay) {
  Value x = x_;
  for (const float divisor : {1e-39f, 41.0f, 0.1f})
    x = op("div", {x, scalar(divisor)});
  EXPECT_EQ(ops_after(x), "map");
  for (const ExpressionStep& step : node(0).epilogue.steps)
    EXPECT_EQ(step.fn, ScalarFn::div);
}

TEST_F(Patterns, IntegersAreLeftAlone) {
  const Value n = input("n", {3}, DType::i64);
  EXPECT_EQ(ops_after(op("add", {op("mul", {n, builder_.constant(std::int64_t{1})}), n})),
            "mul add");
}

TEST_F(Patterns, LayerNorm) {
  const Value x = input("t", {2, 3, 8});
  const auto mean = [&](Value v) {
    return op("reduce_mean", {v}, {{"axes", Integers{-1}}, {"keepdims", std::int64_t{1}}});
  };
  const Value d = op("sub", {x, mean(x)});
  const Value again = op("sub", {x, mean(x)});
  const Value variance = mean(op("pow", {again, scalar(2)}));
  const Value q = op("div", {d, op("sqrt", {op("add", {variance, scalar(1e-5f)})})});
  const Value y = op("add", {op("mul", {q, constant({8}, 5)}), constant({8}, 6)});
  EXPECT_EQ(ops_after(y), "layer_normalization");
  EXPECT_EQ(node(0).inputs.size(), 3u);
  EXPECT_EQ(node(0).attributes.integer("axis"), 2);
  EXPECT_NEAR(node(0).attributes.number("epsilon"), 1e-5, 1e-9);
}

TEST_F(Patterns, LayerNormWithoutScale) {
  const Value x = input("t", {3, 8});
  const Attributes last{{"axes", Integers{1}}, {"keepdims", std::int64_t{1}}};
  const Value d = op("sub", {x, op("reduce_mean", {x}, last)});
  const Value variance = op("reduce_mean", {op("mul", {d, d})}, last);
  const Value inverse = op("reciprocal", {op("sqrt", {op("add", {variance, scalar(1e-3f)})})});
  EXPECT_EQ(ops_after(op("mul", {d, inverse})), "layer_normalization");
}

TEST_F(Patterns, AMeanOverAnotherDimIsNoLayerNorm) {
  const Value x = input("t", {3, 8});
  const Attributes first{{"axes", Integers{0}}, {"keepdims", std::int64_t{1}}};
  const Value d = op("sub", {x, op("reduce_mean", {x}, first)});
  const Value variance = op("reduce_mean", {op("mul", {d, d})}, first);
  const Value q = op("div", {d, op("sqrt", {op("add", {variance, scalar(1e-3f)})})});
  EXPECT_EQ(ops_after(q).find("layer_normalization"), std::string::npos);
}

TEST_F(Patterns, BatchNormFoldsIntoConv) {
  const Value y = op("conv", {x_, constant({6, 4, 3, 3})}, {{"pads", Integers{1, 1, 1, 1}}});
  const Value z = op("batch_normalization",
                     {y, constant({6}, 2), constant({6}, 3), constant({6}, 4), constant({6}, 5, 2)},
                     {{"epsilon", 1e-3}});
  EXPECT_EQ(ops_after(z), "conv");
  EXPECT_EQ(constant_input(0, 2).shape, (Shape{6}));
}

TEST_F(Patterns, ArithmeticFoldsIntoGroupedConvTranspose) {
  const Value y = op("conv_transpose", {x_, constant({4, 3, 2, 2}), constant({6}, 8)},
                     {{"group", std::int64_t{2}}, {"strides", Integers{2, 2}}});
  const Value z = op("add", {op("mul", {y, constant({1, 6, 1, 1}, 2)}), constant({6, 1, 1}, 3)});
  EXPECT_EQ(ops_after(z), "conv_transpose");
}

TEST_F(Patterns, ASharedConvIsNotFoldedInto) {
  const Value y = op("conv", {x_, constant({4, 4, 1, 1})});
  EXPECT_EQ(ops_after(op("max", {op("mul", {y, scalar(2)}), y})), "conv");
  EXPECT_EQ(node(0).epilogue.steps.size(), 2u);
}

TEST_F(Patterns, AProductBeforeAConvFoldsIntoIt) {
  const Value scaled = op("mul", {op("tanh", {x_}), scalar(2)});
  const Value y = op("conv", {scaled, constant({6, 2, 2, 3})}, {{"group", std::int64_t{2}}});
  EXPECT_EQ(ops_after(y), "map conv");
  EXPECT_EQ(chain(0), "tanh(i0)");
}

TEST_F(Patterns, ASumBeforeAConvStays) {
  const Value shifted = op("add", {op("tanh", {x_}), scalar(0.5f)});
  const Value y = op("conv", {shifted, constant({6, 4, 3, 3})});
  EXPECT_EQ(ops_after(y), "map conv");
  EXPECT_EQ(node(0).epilogue.steps.size(), 2u);
}

TEST_F(Patterns, AProductBeforeAPaddedConvFoldsIntoIt) {
  const Value scaled = op("mul", {op("tanh", {x_}), scalar(3)});
  const Value y = op("conv", {scaled, constant({6, 4, 3, 3}), constant({6}, 2)},
                     {{"pads", Integers{1, 1, 1, 1}}});
  EXPECT_EQ(ops_after(y), "map conv");
  EXPECT_EQ(chain(0), "tanh(i0)");
}

TEST_F(Patterns, ZeroPaddingGoesIntoTheConv) {
  const Value padded = op(
      "pad", {x_}, {{"pads", Integers{0, 0, 1, 2, 0, 0, 0, 3}}, {"mode", std::string("constant")}});
  const Value y = op("conv", {padded, constant({6, 4, 3, 3})}, {{"pads", Integers{1, 1, 1, 1}}});
  EXPECT_EQ(ops_after(y), "conv");
  EXPECT_EQ(node(0).attributes.integers("pads"), (Integers{2, 3, 1, 4}));
}

TEST_F(Patterns, OtherPaddingStays) {
  const Attributes reflect{{"pads", Integers{0, 0, 1, 1, 0, 0, 1, 1}},
                           {"mode", std::string("reflect")}};
  const Attributes channels{{"pads", Integers{0, 1, 0, 0, 0, 1, 0, 0}},
                            {"mode", std::string("constant")}};
  const Attributes cropped{{"pads", Integers{0, 0, -1, 0, 0, 0, 0, 0}},
                           {"mode", std::string("constant")}};
  const Attributes ones{{"pads", Integers{0, 0, 1, 0, 0, 0, 0, 0}},
                        {"mode", std::string("constant")}};
  Value x = op("pad", {x_}, reflect);
  x = op("conv", {x, constant({4, 4, 2, 2})});
  x = op("conv", {op("pad", {x}, channels), constant({4, 6, 2, 2})});
  x = op("conv", {op("pad", {x}, cropped), constant({4, 4, 1, 1})});
  x = op("conv", {op("pad", {x, scalar(1)}, ones), constant({4, 4, 1, 1})});
  EXPECT_EQ(ops_after(x), "pad conv pad conv pad conv pad conv");
}

TEST_F(Patterns, BatchNormAloneBecomesAChain) {
  const Value z = op("batch_normalization", {x_, constant({4}, 2), constant({4}, 3),
                                             constant({4}, 4), constant({4}, 5, 2)});
  EXPECT_EQ(ops_after(op("relu", {z})), "map");
  EXPECT_EQ(chain(0), "relu(add(mul(i0, i1), i2))");
}

TEST_F(Patterns, TransposesGoIntoMatmul) {
  const Value a = input("a", {2, 5, 3});
  const Value b = input("b", {2, 7, 5});
  const Attributes swap{{"order", Integers{0, 2, 1}}};
  EXPECT_EQ(ops_after(op("matmul", {op("transpose", {a}, swap), op("transpose", {b}, swap)})),
            "matmul");
  EXPECT_EQ(node(0).attributes.integer("transpose_a"), 1);
  EXPECT_EQ(node(0).attributes.integer("transpose_b"), 1);
}

TEST_F(Patterns, AScaleGoesIntoConstantWeights) {
  const Value a = input("a", {5, 3});
  EXPECT_EQ(ops_after(op("mul", {op("matmul", {a, constant({3, 4})}), scalar(0.125f)})), "matmul");
  EXPECT_TRUE(node(0).epilogue.empty());
}

TEST_F(Patterns, AScaleOfAnArgumentMovesBehindTheProduct) {
  const Value q = op("mul", {input("q", {2, 5, 3}), scalar(0.5f)});
  const Value k = op("mul", {input("k", {2, 3, 4}), scalar(3)});
  EXPECT_EQ(ops_after(op("matmul", {q, k})), "matmul");
  EXPECT_EQ(chain(0), "linear(r; 1.5, -0)");
}

TEST_F(Patterns, AScaledMatrixTimesItselfStays) {
  const Value q = op("mul", {input("q", {3, 3}), scalar(0.5f)});
  EXPECT_EQ(ops_after(op("matmul", {q, q})), "map matmul");
}

class SplitProducts : public PassTest {
 protected:
  Value x_ = input("x", {3, 5, 7});

  // The second part, then the first: neither can be taken for the whole.
  Value swapped_parts(Value whole, const Integers& sizes, std::int64_t axis = -1) {
    const std::vector<Value> parts =
        builder_.op("split", {whole}, {{"axis", axis}, {"sizes", sizes}}, 2);
    return builder_.op("concat", {parts[1], parts[0]}, {{"axis", axis}})[0];
  }
};

TEST_F(SplitProducts, BecomeOneForEachPart) {
  const Value product = op("matmul", {x_, constant({7, 97})});
  EXPECT_EQ(ops_after(swapped_parts(product, {32, 65})), "matmul matmul concat");
  EXPECT_EQ(constant_input(0, 1).shape, (Shape{7, 32}));
  EXPECT_EQ(constant_input(1, 1).shape, (Shape{7, 65}));
}

TEST_F(SplitProducts, TakeTheirBiasAlong) {
  for (const Shape& bias : {Shape{70}, Shape{1, 1, 70}, Shape{5, 70}, Shape{5, 1}}) {
    for (const bool bias_first : {false, true}) {
      const Value product = op("matmul", {x_, constant({7, 70})});
      const Value b = constant(bias, 3);
      const Value sum = bias_first ? op("add", {b, product}) : op("add", {product, b});
      EXPECT_EQ(ops_after(swapped_parts(sum, {33, 37})).find("split"), std::string::npos);
      builder_ = ProgramBuilder("test");
      x_ = input("x", {3, 5, 7});
    }
  }
}

TEST_F(SplitProducts, OfTransposedWeights) {
  const Value product = op("matmul", {x_, constant({64, 7})}, {{"transpose_b", std::int64_t{1}}});
  EXPECT_EQ(ops_after(swapped_parts(product, {32, 32}, 2)), "matmul matmul concat");
  EXPECT_EQ(constant_input(0, 1).shape, (Shape{32, 7}));
}

TEST_F(SplitProducts, WithAPartThatNobodyReads) {
  const Value product = op("matmul", {x_, constant({7, 96})});
  const std::vector<Value> parts = builder_.op(
      "split", {product}, {{"axis", std::int64_t{-1}}, {"sizes", Integers{32, 32, 32}}}, 3);
  EXPECT_EQ(ops_after(op("relu", {parts[1]})), "matmul");
  EXPECT_EQ(constant_input(0, 1).shape, (Shape{7, 32}));
}

TEST_F(SplitProducts, StayWherePartsAreNarrow) {
  EXPECT_EQ(ops_after(swapped_parts(op("matmul", {x_, constant({7, 48})}), {17, 31})),
            "matmul split concat");
}

TEST_F(SplitProducts, StayWhereRowsAreCut) {
  EXPECT_EQ(
      ops_after(swapped_parts(op("matmul", {input("y", {64, 7}), constant({7, 64})}), {32, 32}, 0)),
      "matmul split concat");
}

TEST_F(SplitProducts, StayWhereTheWholeIsReadToo) {
  const Value product = op("matmul", {x_, constant({7, 64})});
  EXPECT_EQ(ops_after(op("add", {swapped_parts(product, {32, 32}), product})),
            "matmul split concat map");
}

TEST_F(SplitProducts, StayWhereTheWeightsAreNoConstant) {
  EXPECT_EQ(ops_after(swapped_parts(op("matmul", {x_, input("w", {7, 64})}), {32, 32})),
            "matmul split concat");
}

TEST_F(Patterns, AMeanOverSpaceIsAPool) {
  EXPECT_EQ(ops_after(op("reduce_mean", {x_}, {{"axes", Integers{2, 3}}})), "global_average_pool");
}

}  // namespace
}  // namespace tilemesh
