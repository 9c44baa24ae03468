#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "op_cases.hpp"

// The placement rules of all ops, judged by running them: cutting the operands along a factor and
// running both parts must give the two parts of the whole result.
namespace tilemesh::ops::testing {
namespace {

/// The dim of an operand that a factor indexes, if any.
std::optional<int> dim_of(const std::vector<int>& factors, int factor) {
  const auto at = std::ranges::find(factors, factor);
  if (at == factors.end()) return std::nullopt;
  return static_cast<int>(at - factors.begin());
}

/// Elements [begin, begin + size) of a value along a dim.
Value cut(const Value& whole, std::optional<int> dim, std::int64_t begin, std::int64_t size) {
  if (!dim) return whole;
  const Shape& shape = whole.type.shape;
  const Dims strides = row_major_strides(shape);
  Value part = empty_value(type_of(whole.type.dtype, shape.with(*dim, size)));
  const std::int64_t first = begin * strides[static_cast<std::size_t>(*dim)];
  copy_strided(
      {whole.data.data() + first * size_of(whole.type.dtype), whole.type.dtype, part.type.shape,
       strides},
      {part.data.data(), whole.type.dtype, part.type.shape, row_major_strides(part.type.shape)});
  return part;
}

/// A part of a factor: of `parts` equal ones, those from `begin` to `end`.
struct Part {
  std::int64_t parts = 1;
  std::int64_t begin = 0;
  std::int64_t end = 1;
  std::int64_t first(std::int64_t size) const { return begin * size / parts; }
  std::int64_t count(std::int64_t size) const { return (end - begin) * size / parts; }
};

Value cut(const Value& whole, std::optional<int> dim, const Part& part) {
  if (!dim) return whole;
  const std::int64_t size = whole.type.shape[*dim];
  return cut(whole, dim, part.first(size), part.count(size));
}

/// The call as one part of a mesh runs it, and its results.
std::vector<Value> run_part(const OpCall& call, const std::vector<Value>& inputs,
                            const Factors& factors, int factor, const Part& part) {
  OpCall own = call;
  std::vector<Value> own_inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    own_inputs.push_back(cut(inputs[i], dim_of(factors.inputs[i], factor), part));
    own.inputs[i] = own_inputs.back().type;
  }
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    if (const auto dim = dim_of(factors.outputs[o], factor)) {
      Shape& shape = own.outputs[o].shape;
      shape = shape.with(*dim, part.count(shape[*dim]));
    }
  }
  return run_call(own, own_inputs);
}

double together(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum: return a + b;
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::mean: return (a + b) / 2;
    case ReduceOp::prod: return a * b;
  }
  return 0;
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& wanted) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i]))) << "element " << i;
  }
}

/// All sizes that the factor indexes: one, but where dims are split or merged.
std::set<std::int64_t> sizes_of(const OpCall& call, const Factors& factors, int factor) {
  std::set<std::int64_t> sizes;
  const auto collect = [&](const std::vector<std::vector<int>>& operands,
                           const std::vector<OperandType>& types) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (const auto dim = dim_of(operands[i], factor)) sizes.insert(types[i].shape[*dim]);
    }
  };
  collect(factors.inputs, call.inputs);
  collect(factors.outputs, call.outputs);
  return sizes;
}

class EachCase : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EachCase, CutsAlongEveryFactor) {
  const Case& c = all_cases()[GetParam()];
  const OpCall call = make_call(c.op_name(), c.inputs, c.attributes, c.outputs, c.epilogue);
  const Factors factors = factors_of(call);
  ASSERT_EQ(factors.inputs.size(), call.inputs.size());
  ASSERT_EQ(factors.outputs.size(), call.outputs.size());
  std::set<int> numbers;
  for (const auto* operands : {&factors.inputs, &factors.outputs}) {
    for (const std::vector<int>& dims : *operands) {
      numbers.insert(dims.begin(), dims.end());
    }
  }
  numbers.erase(Factors::kNone);
  const std::vector<Value> whole = run_call(call, c.inputs);
  for (const int factor : numbers) {
    SCOPED_TRACE("factor " + std::to_string(factor));
    const std::set<std::int64_t> sizes = sizes_of(call, factors, factor);
    const bool reduces = std::ranges::none_of(
        factors.outputs, [&](const auto& dims) { return dim_of(dims, factor).has_value(); });
    const bool even = sizes.size() > 1 || (reduces && factors.reduction == ReduceOp::mean);
    if (even && std::ranges::any_of(sizes, [](std::int64_t size) { return size % 2 != 0; })) {
      EXPECT_EQ(can_cut(call, factors, factor, 2), sizes.size() == 1);
      continue;
    }
    EXPECT_TRUE(can_cut(call, factors, factor, even ? 2 : *sizes.begin() + 1));
    const std::int64_t parts = even ? 2 : *sizes.begin();
    const std::int64_t middle = even ? 1 : (parts + 1) / 3;
    const Part first{parts, 0, middle};
    const Part second{parts, middle, parts};
    if (parts == 0) continue;
    const auto left = run_part(call, c.inputs, factors, factor, first);
    const auto right = run_part(call, c.inputs, factors, factor, second);
    for (std::size_t o = 0; o < whole.size(); ++o) {
      const auto dim = dim_of(factors.outputs[o], factor);
      const auto a = elements<double>(left[o]);
      const auto b = elements<double>(right[o]);
      if (dim) {
        expect_close(a, elements<double>(cut(whole[o], dim, first)));
        expect_close(b, elements<double>(cut(whole[o], dim, second)));
        continue;
      }
      ASSERT_TRUE(reduces) << "output " << o << " lacks a factor that another output has";
      std::vector<double> both;
      for (std::size_t i = 0; i < a.size(); ++i) {
        both.push_back(together(factors.reduction, a[i], b[i]));
      }
      expect_close(both, elements<double>(whole[o]));
    }
  }
}

Value minus(const Value& whole, const Value& part) {
  Value rest = whole;
  const auto a = elements<float>(whole);
  const auto b = elements<float>(part);
  auto* out = reinterpret_cast<float*>(rest.data.data());
  for (std::size_t i = 0; i < a.size(); ++i)
    out[i] = a[i] - b[i];
  return rest;
}

/// Parts of a sum on the inputs that the rule names give parts of the sum.
TEST_P(EachCase, PassesPartsOfASumOn) {
  const Case& c = all_cases()[GetParam()];
  const OpCall call = make_call(c.op_name(), c.inputs, c.attributes, c.outputs, c.epilogue);
  if (call.def->partial == PartialRule::none || !call.epilogue.empty()) return;
  for (const Value& input : c.inputs) {
    if (input.type.dtype != DType::f32) return;
  }
  const bool one = call.def->partial == PartialRule::scales;
  const auto whole = run_call(call, c.inputs);
  for (std::size_t i = 0; i < (one ? c.inputs.size() : 1); ++i) {
    std::vector<Value> left = c.inputs;
    std::vector<Value> right = c.inputs;
    for (std::size_t k = one ? i : 0; k < (one ? i + 1 : c.inputs.size()); ++k) {
      left[k] = random(c.inputs[k].type.shape);
      right[k] = minus(c.inputs[k], left[k]);
    }
    const auto a = run_call(call, left);
    const auto b = run_call(call, right);
    for (std::size_t o = 0; o < whole.size(); ++o) {
      auto sum = elements<double>(a[o]);
      const auto other = elements<double>(b[o]);
      for (std::size_t k = 0; k < sum.size(); ++k)
        sum[k] += other[k];
      expect_close(sum, elements<double>(whole[o]));
    }
  }
}

std::string case_name(const ::testing::TestParamInfo<std::size_t>& info) {
  std::string name = all_cases()[info.param].name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Factors, EachCase, ::testing::Range<std::size_t>(0, all_cases().size()),
                         case_name);

TEST(Factors, EveryOpHasACase) {
  std::set<std::string_view> met;
  for (const Case& c : all_cases()) {
    met.insert(c.op_name());
  }
  for (const OpDef& def : all_ops()) {
    EXPECT_TRUE(met.contains(def.name)) << def.name;
  }
}

/// The rule of a case in einsum's manner: "ab,bc->ac", '.' for a dim that can't be cut.
std::string rule(const std::string& name) {
  const auto at = std::ranges::find(all_cases(), name, &Case::name);
  const OpCall call =
      make_call(at->op_name(), at->inputs, at->attributes, at->outputs, at->epilogue);
  const Factors factors = factors_of(call);
  std::map<int, char> letters;
  const auto text = [&](const std::vector<std::vector<int>>& operands) {
    std::string result;
    for (const std::vector<int>& dims : operands) {
      if (!result.empty()) result += ",";
      for (const int factor : dims) {
        const char next = static_cast<char>('a' + static_cast<int>(letters.size()));
        result += factor == Factors::kNone ? '.' : letters.try_emplace(factor, next).first->second;
      }
    }
    return result;
  };
  const std::string inputs = text(factors.inputs);
  return inputs + "->" + text(factors.outputs);
}

// What a rule leaves out would not fail above, so the rules that matter are spelled out.
TEST(Factors, AreAsComplete) {
  EXPECT_EQ(rule("exp"), "ab->ab");
  EXPECT_EQ(rule("add"), "abc,b.->abc");
  EXPECT_EQ(rule("map"), "ab,b->ab");
  EXPECT_EQ(rule("matmul"), "a.bc,dce->adbe");
  EXPECT_EQ(rule("matmul vectors"), "a,a->");
  EXPECT_EQ(rule("matmul transposed"), "ab,cda->cbd");
  EXPECT_EQ(rule("matmul with a chain"), "a.,.b,b->ab");
  EXPECT_EQ(rule("conv"), "ab..,cb..->ac..");
  EXPECT_EQ(rule("conv with bias"), "a...,b...,b->ab..");
  EXPECT_EQ(rule("conv in groups"), "a..,...->a..");
  EXPECT_EQ(rule("conv_transpose"), "ab..,bc..->ac..");
  EXPECT_EQ(rule("einsum"), "abc,acd->bda");
  EXPECT_EQ(rule("einsum with ellipsis"), ".ab,cab->ac");
  EXPECT_EQ(rule("einsum of a diagonal"), "..a->.a");
  EXPECT_EQ(rule("max_pool"), "ab..->ab..");
  EXPECT_EQ(rule("batch_normalization"), "abc,b,b,b,b->abc");
  EXPECT_EQ(rule("instance_normalization"), "ab.,b,b->ab.");
  EXPECT_EQ(rule("layer_normalization"), "ab..,..,.->ab..,ab..,ab..");
  EXPECT_EQ(rule("softmax"), "a.b->a.b");
  EXPECT_EQ(rule("reduce_sum"), "abc->.b.");
  EXPECT_EQ(rule("reduce_sum of dropped dims"), "abc->ac");
  EXPECT_EQ(rule("reduce_l2"), ".a.->.a.");
  EXPECT_EQ(rule("arg_max"), "a.b->ab");
  EXPECT_EQ(rule("top_k"), "a.b->a.b,a.b");
  EXPECT_EQ(rule("reshape"), "ab.c->ab.c");
  EXPECT_EQ(rule("reshape of a prefix"), "ab.->ab");
  EXPECT_EQ(rule("reshape of ones"), ".a.b->ab.");
  EXPECT_EQ(rule("transpose"), "abc->cab");
  EXPECT_EQ(rule("concat"), "a.,a.->a.");
  EXPECT_EQ(rule("split"), "a.->a.,a.,a.");
  EXPECT_EQ(rule("slice"), ".ab->.ab");
  EXPECT_EQ(rule("expand"), "a.->bac");
  EXPECT_EQ(rule("pad"), "a.,->a.");
  EXPECT_EQ(rule("resize"), "ab..->ab..");
  EXPECT_EQ(rule("one_hot"), "ab,.->a.b");
  EXPECT_EQ(rule("gather"), "a.b,cd->acdb");
  EXPECT_EQ(rule("gather_elements"), ".a.,ba.->ba.");
  EXPECT_EQ(rule("gather_nd"), "a.bc,ad.->adbc");
  EXPECT_EQ(rule("scatter_elements"), ".a,.a,.a->.a");
  EXPECT_EQ(rule("scatter_nd"), ".ab,..,.ab->.ab");
  EXPECT_EQ(rule("lstm"), ".a.,...,...,..,a,.a.,.a.,..->..a.,.a.,.a.");
}

TEST(Factors, NameTheReduction) {
  const auto reduction = [](const char* op) {
    return factors_of(make_call(op, {random({2, 3})})).reduction;
  };
  EXPECT_EQ(reduction("reduce_sum"), ReduceOp::sum);
  EXPECT_EQ(reduction("reduce_max"), ReduceOp::max);
  EXPECT_EQ(reduction("reduce_mean"), ReduceOp::mean);
}

}  // namespace
}  // namespace tilemesh::ops::testing
