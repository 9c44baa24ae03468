#include "compiler/passes/pass_test.hpp"

namespace tilemesh {
namespace {

class Fuse : public PassTest {
 protected:
  Value x_ = input("x", {2, 4, 3, 5});
  Value y_ = input("y", {2, 4, 3, 5});

  Value conv(Value x, std::uint32_t seed) {
    return op("conv", {x, constant({4, 4, 1, 1}, seed), constant({4}, seed + 100)});
  }
};

// Takes epilogues of one argument only.
class UnaryTarget final : public Target {
 public:
  const TargetInfo& info() const override { return reference_target().info(); }
  std::vector<Candidate> candidates(const OpCall& call,
                                    const std::vector<bool>& constants) const override {
    return reference_target().candidates(call, constants);
  }
  double convert_seconds(const OperandType& from, const Layout& to) const override {
    return reference_target().convert_seconds(from, to);
  }
  bool can_fuse(const OpCall& call, const ExpressionStep& step,
                const OperandType* operand) const override {
    return call.def->name == "conv" && arity(step.fn) == 1 && operand == nullptr;
  }
};

TEST_F(Fuse, AChainIsOneMap) {
  const Value s = op("sigmoid", {op("add", {x_, y_})});
  EXPECT_EQ(ops_after(op("relu", {op("mul", {s, y_})})), "map");
  EXPECT_EQ(chain(0), "relu(mul(sigmoid(add(i0, i1)), i1))");
}

TEST_F(Fuse, AnIntermediateReadTwiceInsideIsInside) {
  const Value s = op("exp", {x_});
  EXPECT_EQ(ops_after(op("mul", {op("tanh", {s}), s})), "map");
  EXPECT_EQ(node(0).epilogue.steps.size(), 3u);
}

TEST_F(Fuse, AnIntermediateReadOutsideIsNot) {
  const Value s = op("exp", {x_});
  const Value t = op("tanh", {s});
  const Value pooled = op("max_pool", {s}, {{"kernel", Integers{1, 1}}});
  EXPECT_EQ(ops_after(op("mul", {pooled, t})), "map max_pool map");
}

TEST_F(Fuse, AnOutputIsNotSwallowed) {
  const Value s = op("exp", {x_});
  builder_.output("s", s);
  builder_.output("out", op("tanh", {s}));
  Graph graph = builder_.build();
  optimise(graph, {testing::blocked_target(), {1, 1}, true, {}});
  EXPECT_EQ(testing::op_names(graph), "map map");
}

TEST_F(Fuse, ASmallerOperandIsNotComputedAgainForEveryElement) {
  const Value gate = op("sigmoid", {input("g", {2, 4, 1, 1})});
  EXPECT_EQ(ops_after(op("mul", {x_, gate})), "map map");
}

TEST_F(Fuse, IntegersAndBoolsAreNotFused) {
  const Value n = input("n", {3}, DType::i64);
  EXPECT_EQ(ops_after(op("abs", {op("add", {n, n})})), "add abs");
}

TEST_F(Fuse, AChainHasABound) {
  Value x = x_;
  for (int i = 0; i < 40; ++i)
    x = op(i % 2 == 0 ? "tanh" : "sin", {x});
  EXPECT_EQ(ops_after(x), "map map map");
}

TEST_F(Fuse, ActivationsAndResidualsJoinTheConv) {
  const Value a = op("relu", {conv(x_, 1)});
  const Value b = conv(a, 2);
  EXPECT_EQ(ops_after(op("relu", {op("add", {a, b})})), "conv conv");
  EXPECT_EQ(chain(0), "relu(r)");
  EXPECT_EQ(chain(1), "relu(add(i3, r))");
}

TEST_F(Fuse, AConvWithoutBiasIsPadded) {
  const Value y = op("conv", {x_, constant({4, 4, 1, 1})});
  EXPECT_EQ(ops_after(op("add", {y, y_})), "conv");
  ASSERT_EQ(node(0).inputs.size(), 4u);
  EXPECT_EQ(node(0).inputs[2], kNoValue);
}

TEST_F(Fuse, TheLaterCallTakesTheChain) {
  const Value a = conv(x_, 1);
  const Value b = conv(y_, 2);
  EXPECT_EQ(ops_after(op("sub", {a, b})), "conv conv");
  EXPECT_TRUE(node(0).epilogue.empty());
  EXPECT_EQ(chain(1), "sub(i3, r)");
}

TEST_F(Fuse, AChainIsCutWhereTheTargetStops) {
  const UnaryTarget target;
  const Value a = op("tanh", {op("relu", {conv(x_, 1)})});
  EXPECT_EQ(ops_after(op("sin", {op("add", {a, y_})}), target), "conv map");
  EXPECT_EQ(chain(0), "tanh(relu(r))");
  EXPECT_EQ(chain(1), "sin(add(i0, i1))");
}

TEST_F(Fuse, AChainIsNotCutWhereMoreThanOneValueWouldCross) {
  const UnaryTarget target;
  const Value a = op("exp", {conv(x_, 1)});
  EXPECT_EQ(ops_after(op("mul", {op("tanh", {a}), op("sin", {a})}), target), "conv map");
  EXPECT_EQ(chain(0), "exp(r)");
}

TEST_F(Fuse, AMatmulTakesItsBias) {
  const Value a = input("a", {2, 3, 4});
  const Value y = op("add", {op("matmul", {a, constant({4, 6})}), constant({6}, 2)});
  EXPECT_EQ(ops_after(op("gelu", {y}, {{"approximate", std::string("tanh")}})), "matmul");
  EXPECT_EQ(chain(0), "gelu_tanh(add(r, i2))");
}

TEST_F(Fuse, AGrowingShapeKeepsTheMatmulApart) {
  const Value a = input("a", {1, 4});
  const Value y = op("matmul", {a, constant({4, 6})});
  EXPECT_EQ(ops_after(op("add", {y, input("b", {5, 6})})), "matmul map");
}

TEST_F(Fuse, HalfPrecisionIsFusedAndMixedDTypesAreNot) {
  const Value h = input("h", {2, 3}, DType::f16);
  const Value wide =
      op("cast", {op("tanh", {op("relu", {h})})}, {{"to", static_cast<std::int64_t>(DType::f32)}});
  EXPECT_EQ(ops_after(op("exp", {wide}), testing::blocked_target(), 2e-3), "map cast map");
}

}  // namespace
}  // namespace tilemesh
