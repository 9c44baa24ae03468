#include "compiler/passes/rounding.hpp"

#include <cmath>
#include <functional>
#include <limits>

#include "compiler/passes/constants.hpp"
#include "compiler/passes/pass.hpp"
#include "compiler/passes/pass_test.hpp"

namespace tilemesh {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Builds one graph twice: in `dtype`, and on the same numbers in f64, which tells what it means.
class Maker {
 public:
  using Value = ProgramBuilder::Value;

  Maker(DType dtype, bool exact) : dtype_(dtype), exact_(exact) {}

  Value input(const std::string& name, const Shape& shape) {
    return in_type(builder_.input(name, {.shape = shape,
                                         .dtype = dtype_,
                                         .placements = {},
                                         .layout = {},
                                         .space = Space::dram,
                                         .mesh = {}}));
  }
  Value number(double value) { return rounded(builder_.constant(static_cast<float>(value))); }
  /// Numbers of `size` around `offset`.
  Value weights(const Shape& shape, unsigned seed, float size = 1, float offset = 0) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> real(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    for (float& value : values)
      value = offset + size * real(random);
    return rounded(builder_.constant(values, shape));
  }
  Value op(std::string_view name, const std::vector<Value>& inputs, Attributes attributes = {}) {
    return builder_.op(name, inputs, std::move(attributes))[0];
  }
  Graph graph(Value output) {
    builder_.output("y", output);
    return builder_.build();
  }
  DType dtype() const { return dtype_; }

 private:
  Value cast(Value value, DType to) {
    return op("cast", {value}, {{"to", static_cast<std::int64_t>(to)}});
  }
  Value in_type(Value value) { return exact_ ? cast(value, DType::f64) : value; }
  Value rounded(Value value) { return in_type(dtype_ == DType::f32 ? value : cast(value, dtype_)); }

  DType dtype_;
  bool exact_;
  ProgramBuilder builder_{"test"};
};

struct Case {
  std::string name;
  std::function<Maker::Value(Maker&)> build;
};

Maker::Value norm(Maker& m, Maker::Value x, float mean, float size) {
  return m.op("batch_normalization",
              {x, m.weights({4}, 2, size, 2 * size), m.weights({4}, 3, size),
               m.weights({4}, 4, 1, mean), m.weights({4}, 5, 0.5F, 1)},
              {{"epsilon", 1e-3}});
}

Maker::Value image(Maker& m) {
  return m.input("x", {2, 4, 3, 3});
}

Maker::Value conv(Maker& m, Maker::Value x, float size = 0.5F) {
  return m.op("conv", {x, m.weights({4, 4, 2, 2}, 7, size)});
}

/// Each rewrite where it may happen, and with numbers at which it may not.
std::vector<Case> cases() {
  std::vector<Case> list;
  const auto add = [&](std::string name, std::function<Maker::Value(Maker&)> build) {
    list.push_back({std::move(name), std::move(build)});
  };
  for (const double c : {1e-7, 1e-3, 0.125, 0.7, 3.0, 41.0, 1e3, 1e6, 12582912.0, 1e20, 1e-20}) {
    const std::string n = std::to_string(c);
    add("matmul * " + n, [c](Maker& m) {
      return m.op("mul",
                  {m.op("matmul", {m.input("x", {5, 8}), m.weights({8, 4}, 1)}), m.number(c)});
    });
    add("tiny weights * " + n, [c](Maker& m) {
      const auto product = m.op("matmul", {m.input("x", {5, 8}), m.weights({8, 4}, 1, 1e-30F)});
      return m.op("mul", {product, m.number(c)});
    });
    add("(x * c) @ y, " + n, [c](Maker& m) {
      return m.op("matmul",
                  {m.op("mul", {m.input("x", {5, 8}), m.number(c)}), m.input("y", {8, 4})});
    });
    add("conv(x * c), " + n, [c](Maker& m) {
      return conv(m, m.op("mul", {image(m), m.number(c)}));
    });
    add("conv(x - c), " + n, [c](Maker& m) {
      return conv(m, m.op("sub", {image(m), m.number(c)}));
    });
    add("conv * " + n, [c](Maker& m) { return m.op("mul", {conv(m, image(m)), m.number(c)}); });
    add("conv + " + n, [c](Maker& m) { return m.op("add", {m.number(c), conv(m, image(m))}); });
    add("x / " + n, [c](Maker& m) { return m.op("div", {image(m), m.number(c)}); });
    add("neg(x * c - c), " + n, [c](Maker& m) {
      return m.op("neg", {m.op("sub", {m.op("mul", {image(m), m.number(c)}), m.number(c)})});
    });
  }
  for (const double c : {kNan, kInfinity, -kInfinity, 0.0F, -0.0F}) {
    for (const char* op : {"add", "sub", "mul", "div", "pow", "max"}) {
      const std::string n = std::string(op) + " by " + std::to_string(c);
      add(n, [=](Maker& m) { return m.op(op, {image(m), m.number(c)}); });
      add(n + ", behind a conv", [=](Maker& m) {
        return m.op(op, {m.number(c), conv(m, image(m))});
      });
    }
  }
  for (const float mean : {0.0F, 10.0F, 1e3F, 1e6F}) {
    for (const float size : {1.0F, 1e-3F}) {
      const std::string n = std::to_string(mean) + ", " + std::to_string(size);
      add("norm of conv, " + n, [=](Maker& m) { return norm(m, conv(m, image(m)), mean, size); });
      add("norm, " + n, [=](Maker& m) { return norm(m, image(m), mean, size); });
      add("norm of conv with bias, " + n, [=](Maker& m) {
        const auto y =
            m.op("conv", {image(m), m.weights({4, 4, 1, 1}, 8), m.weights({4}, 9, mean)});
        return norm(m, y, mean, size);
      });
      add("norm of conv_transpose, " + n, [=](Maker& m) {
        const auto y = m.op("conv_transpose", {image(m), m.weights({4, 4, 2, 2}, 8)},
                            {{"strides", Integers{2, 2}}});
        return norm(m, y, mean, size);
      });
    }
  }
  add("hard_swish", [](Maker& m) {
    const auto x = image(m);
    const auto ramp = m.op("clip", {m.op("add", {x, m.number(3)})}, {{"min", 0.0}, {"max", 6.0}});
    return m.op("div", {m.op("mul", {x, ramp}), m.number(6)});
  });
  for (const double shift : {3.0, 1e6}) {
    add("hard_sigmoid " + std::to_string(shift), [=](Maker& m) {
      const auto sum = m.op("sub", {image(m), m.number(shift)});
      return m.op("div", {m.op("clip", {sum}, {{"min", 0.0}, {"max", 6.0}}), m.number(6)});
    });
  }
  add("gelu", [](Maker& m) {
    const auto x = image(m);
    const auto erf = m.op("erf", {m.op("div", {x, m.number(std::sqrt(2.0))})});
    return m.op("mul", {m.op("mul", {x, m.op("add", {erf, m.number(1)})}), m.number(0.5)});
  });
  add("swish", [](Maker& m) {
    const auto x = image(m);
    return m.op("mul", {m.op("sigmoid", {m.op("mul", {x, m.number(1.7)})}), x});
  });
  add("layer norm", [](Maker& m) {
    const auto x = m.input("x", {5, 8});
    const Attributes last{{"axes", Integers{1}}, {"keepdims", std::int64_t{1}}};
    const auto d = m.op("sub", {x, m.op("reduce_mean", {x}, last)});
    const auto variance = m.op("reduce_mean", {m.op("mul", {d, d})}, last);
    const auto root = m.op("sqrt", {m.op("add", {variance, m.number(1e-5)})});
    const auto y = m.op("div", {d, root});
    return m.op("add", {m.op("mul", {y, m.weights({8}, 5)}), m.weights({8}, 6)});
  });
  add("mean over space", [](Maker& m) {
    return m.op("reduce_mean", {image(m)},
                {{"axes", Integers{2, 3}}, {"keepdims", std::int64_t{1}}});
  });
  for (const double exponent : {2.0, -1.0, 1.0}) {
    add("power " + std::to_string(exponent), [=](Maker& m) {
      return m.op("pow", {image(m), m.number(exponent)});
    });
  }
  return list;
}

/// Values that bring out what is lost.
struct Numbers {
  std::string name;
  std::function<float(std::mt19937&)> draw;
};
std::vector<Numbers> numbers(DType dtype) {
  const auto uniform = [](float low, float high) {
    return [=](std::mt19937& random) {
      return std::uniform_real_distribution<float>(low, high)(random);
    };
  };
  const auto one_of = [](std::vector<float> values) {
    return [=](std::mt19937& random) {
      return values[random() % values.size()];
    };
  };
  std::vector<Numbers> list{{"ordinary", uniform(-3, 3)},
                            {"small", uniform(-1e-3F, 1e-3F)},
                            {"large", uniform(500, 1000)},
                            {"ties", one_of({0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 0.25F})},
                            {"zeros", one_of({0.0F, -0.0F})},
                            {"limits of f16", one_of({65504, -65504, 6e-5F, 1e-7F, 60000})},
                            {"NaN", one_of({kNan, 1, -2, 3})},
                            {"infinity", one_of({kInfinity, 1, 2, 3, -kInfinity, 0})}};
  if (dtype != DType::f16) {
    list.push_back({"offset", uniform(1e6F, 1e6F + 1)});
    list.push_back({"huge", uniform(1e29F, 1e30F)});
    list.push_back({"tiny", uniform(1e-30F, 1e-29F)});
    list.push_back({"subnormal", uniform(1e-40F, 1e-39F)});
  }
  return list;
}

ConstantData draw(const OperandType& type, const Numbers& from, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(type.shape.element_count()));
  for (float& value : values)
    value = from.draw(random);
  return passes::from_floats(type.dtype, type.shape, values);
}

std::vector<double> doubles(const ConstantData& data) {
  if (data.dtype == DType::f64) {
    const auto* values = reinterpret_cast<const double*>(data.bytes->data());
    return {values, values + data.shape.element_count()};
  }
  const std::vector<float> values = passes::to_floats(data);
  return {values.begin(), values.end()};
}

double epsilon(DType dtype) {
  return dtype == DType::f32 ? 0x1p-23 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
}
double smallest(DType dtype) {
  return dtype == DType::f16 ? 0x1p-24 : 0x1p-149;
}

/// The rewritten graph may be wrong by the error of the written one, a few times over, and by some
/// roundings of its own; what was NaN or infinite stays so.
void expect_no_more_lost(const std::vector<double>& exact, const std::vector<double>& written,
                         const std::vector<double>& got, DType dtype) {
  double error = 0;
  double scale = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(exact[i]) || !std::isfinite(written[i])) continue;
    error = std::max(error, std::abs(written[i] - exact[i]));
    scale = std::max(scale, std::abs(exact[i]));
  }
  const double allowed = 4 * error + 4 * epsilon(dtype) * scale + 4 * smallest(dtype);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const std::string where = "element " + std::to_string(i) + ": " + std::to_string(got[i]) +
                              ", written " + std::to_string(written[i]) + ", exact " +
                              std::to_string(exact[i]);
    if (std::isfinite(written[i])) {
      ASSERT_TRUE(std::isfinite(got[i])) << where;
      ASSERT_LE(std::abs(got[i] - exact[i]), allowed) << where;
    } else if (!std::isfinite(exact[i])) {
      const auto is = [&](double value) {
        return got[i] == value || (std::isnan(got[i]) && std::isnan(value));
      };
      ASSERT_TRUE(is(written[i]) || is(exact[i])) << where;
    }
  }
}

void check(const Case& test, DType dtype, const Target& target) {
  const auto graph_of = [&](bool exact) {
    Maker maker(dtype, exact);
    return maker.graph(test.build(maker));
  };
  const Graph written = graph_of(false);
  const Graph exact = graph_of(true);
  Graph rewritten = written;
  simplify(rewritten, {target, {1, 1}, true, {}});
  std::mt19937 random(3);
  for (const Numbers& from : numbers(dtype)) {
    SCOPED_TRACE(test.name + " of " + std::string(to_string(dtype)) + " on " + from.name + "\n" +
                 to_string(rewritten));
    testing::Values inputs;
    for (const GraphInput& input : written.inputs) {
      inputs[input.name] = draw(written[input.value].type, from, random);
    }
    expect_no_more_lost(doubles(interpret(exact, inputs)[0]),
                        doubles(interpret(written, inputs)[0]),
                        doubles(interpret(rewritten, inputs)[0]), dtype);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Rewrites, LoseNoMoreThanTheWrittenGraph) {
  for (const Case& test : cases()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      check(test, dtype, testing::blocked_target());
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Rewrites, LoseNothingWhereTheTargetComputesInAWiderType) {
  const WideningTarget target;
  for (const Case& test : cases()) {
    check(test, DType::f16, target);
    if (HasFatalFailure()) return;
  }
}

/// What rounds on purpose, or would round otherwise: not a bit may change.
TEST(Rewrites, KeepRoundingsThatAreSeen) {
  std::vector<Case> list;
  for (const double c : {12582912.0, 8388608.0, 1e6, 1000.0, 0.1, 41.0, 3.0}) {
    const std::string n = std::to_string(c);
    list.push_back({"x + c - c, " + n, [c](Maker& m) {
                      return m.op("sub", {m.op("add", {image(m), m.number(c)}), m.number(c)});
                    }});
    list.push_back({"x * c + c, " + n, [c](Maker& m) {
                      return m.op("add", {m.op("mul", {image(m), m.number(c)}), m.number(c)});
                    }});
    list.push_back({"x * c * 0.3, " + n, [c](Maker& m) {
                      return m.op("mul", {m.op("mul", {image(m), m.number(c)}), m.number(0.3)});
                    }});
    list.push_back({"floor(x / c), " + n, [c](Maker& m) {
                      return m.op("floor", {m.op("div", {image(m), m.number(c)})});
                    }});
    list.push_back({"c - x, " + n, [c](Maker& m) {
                      return m.op("neg", {m.op("sub", {image(m), m.number(c)})});
                    }});
  }
  for (const double c : {0.0, 1.0, -1.0, 2.0}) {
    // The reciprocal tells the zeros apart.
    list.push_back({"1 / (x * c), " + std::to_string(c), [c](Maker& m) {
                      return m.op("reciprocal", {m.op("mul", {image(m), m.number(c)})});
                    }});
    list.push_back({"1 / (x + c), " + std::to_string(c), [c](Maker& m) {
                      return m.op("reciprocal", {m.op("add", {image(m), m.number(c)})});
                    }});
    list.push_back({"1 / -(x + c), " + std::to_string(c), [c](Maker& m) {
                      const auto sum = m.op("add", {image(m), m.number(c)});
                      return m.op("reciprocal", {m.op("neg", {sum})});
                    }});
  }
  list.push_back({"x * 1e20 * 1e-20", [](Maker& m) {
                    return m.op("mul", {m.op("mul", {image(m), m.number(1e20)}), m.number(1e-20)});
                  }});
  list.push_back({"conv + c - c", [](Maker& m) {
                    const auto sum = m.op("add", {conv(m, image(m)), m.number(12582912)});
                    return m.op("sub", {sum, m.number(12582912)});
                  }});
  for (const Case& test : list) {
    Maker maker(DType::f32, false);
    const Graph written = maker.graph(test.build(maker));
    Graph rewritten = written;
    simplify(rewritten, {testing::blocked_target(), {1, 1}, true, {}});
    std::mt19937 random(3);
    for (const Numbers& from : numbers(DType::f32)) {
      const testing::Values inputs{
          {"x", draw(written[written.inputs[0].value].type, from, random)}};
      ASSERT_EQ(
          testing::difference(interpret(rewritten, inputs)[0], interpret(written, inputs)[0], 0),
          "")
          << test.name << " on " << from.name << "\n"
          << to_string(rewritten);
    }
  }
}

TEST(Rounding, KnowsExactReciprocals) {
  for (const double c : {1.0, -1.0, 2.0, 0.5, 1024.0, -0x1p-120}) {
    EXPECT_TRUE(passes::has_exact_reciprocal(c)) << c;
  }
  for (const double c :
       {0.0, 3.0, 0.1, 41.0, 0x1p-140, 0x1p127, 0x1p-127, HUGE_VAL, std::nan("")}) {
    EXPECT_FALSE(passes::has_exact_reciprocal(c)) << c;
  }
}

TEST(Rounding, ScalesWeightsThatStayOrdinary) {
  const auto by = [](double factor) {
    return [=](std::size_t) {
      return factor;
    };
  };
  const std::vector<float> weights{1, -2, 0, 1e-39F};
  ASSERT_TRUE(passes::scaled(weights, by(0.5)));
  EXPECT_EQ((*passes::scaled(weights, by(0.5)))[1], -1);
  EXPECT_TRUE(passes::scaled(weights, by(0)));
  EXPECT_FALSE(passes::scaled(weights, by(1e39)));
  EXPECT_FALSE(passes::scaled(weights, by(1e-31)));
  EXPECT_FALSE(passes::scaled(weights, by(1e-60)));
  EXPECT_TRUE(passes::scaled(std::vector<float>{0, 0}, by(3)));
  EXPECT_TRUE(passes::scaled(std::vector<float>{kInfinity, 1}, by(3)));
}

}  // namespace
}  // namespace tilemesh
