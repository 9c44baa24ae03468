#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "testing.hpp"

// The placement rules of all ops, judged by running them: cutting the operands along a factor and
// running both parts must give the two parts of the whole result.
namespace tilemesh::ops::testing {
namespace {

using Ints = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

struct Case {
  std::string name;
  std::vector<Value> inputs;
  Attributes attributes = {};
  std::size_t outputs = 0;
  Expression epilogue = {};
  std::string op = {};  // if it isn't the name

  std::string_view op_name() const { return op.empty() ? name : op; }
};

/// Numbers in (0, 1) or, for integers, 1 to 9: in the domain of every function.
Value random(const Shape& shape, DType dtype = DType::f32) {
  static std::mt19937 generator(7);
  std::uniform_real_distribution<double> distribution(0.05, 0.95);
  std::vector<double> elements(static_cast<std::size_t>(shape.element_count()));
  for (double& element : elements) {
    element = distribution(generator);
    if (!is_float(dtype)) element = std::floor(1 + 9 * element);
  }
  return value(dtype, shape, elements);
}

std::int64_t number(DType dtype) {
  return static_cast<std::int64_t>(dtype);
}

void add_elementwise(std::vector<Case>& cases) {
  for (const char* op : {"identity",     "neg",
                         "abs",          "exp",
                         "log",          "sqrt",
                         "reciprocal",   "erf",
                         "relu",         "sigmoid",
                         "tanh",         "hard_swish",
                         "softplus",     "softsign",
                         "sin",          "cos",
                         "tan",          "asin",
                         "acos",         "atan",
                         "sinh",         "cosh",
                         "asinh",        "atanh",
                         "floor",        "ceil",
                         "round",        "sign",
                         "leaky_relu",   "elu",
                         "selu",         "celu",
                         "hard_sigmoid", "gelu",
                         "clip",         "linear",
                         "swish",        "thresholded_relu",
                         "shrink",       "is_nan",
                         "is_inf",       "convert"}) {
    cases.push_back({op, {random({3, 4})}});
  }
  cases.push_back({"acosh", {value<float>(DType::f32, {3}, {1, 2, 3})}});
  cases.push_back({"not", {boolean({4}, {0, 1, 1, 0})}});
  cases.push_back({"cast", {random({2, 3})}, {{"to", number(DType::i32)}}});
  cases.push_back({"trilu", {random({2, 4, 3})}, {{"upper", std::int64_t{0}}}});
  for (const char* op : {"add", "sub", "mul", "div", "pow", "min", "max", "prelu", "equal", "less",
                         "less_or_equal", "greater", "greater_or_equal"}) {
    cases.push_back({op, {random({2, 3, 4}), random({3, 1})}});
  }
  cases.push_back({"mod", {random({2, 5}, DType::i64), random({5}, DType::i64)}});
  cases.push_back({"bit_shift",
                   {random({4}, DType::u8), random({1}, DType::u8)},
                   {{"direction", std::string("LEFT")}}});
  for (const char* op : {"and", "or", "xor"}) {
    cases.push_back({op, {boolean({2, 2}, {0, 1, 0, 1}), boolean({2, 1}, {0, 1})}});
  }
  cases.push_back({"where", {boolean({2, 1}, {0, 1}), random({2, 3}), random({3})}});
  const std::int16_t operand = ExpressionStep::kOperand;
  const auto second = static_cast<std::int16_t>(operand + 1);
  cases.push_back({"map",
                   {random({4, 3}), random({3})},
                   {},
                   0,
                   {{{.fn = ScalarFn::add, .arguments = {operand, second}},
                     {.fn = ScalarFn::tanh, .arguments = {0, 0}}}}});
}

void add_linear(std::vector<Case>& cases) {
  cases.push_back({"matmul", {random({2, 1, 3, 4}), random({5, 4, 2})}});
  cases.push_back({"matmul vectors", {random({4}), random({4})}, {}, 0, {}, "matmul"});
  cases.push_back({"matmul transposed",
                   {random({4, 3}), random({2, 5, 4})},
                   {{"transpose_a", std::int64_t{1}}, {"transpose_b", std::int64_t{1}}},
                   0,
                   {},
                   "matmul"});
  const auto bias = static_cast<std::int16_t>(ExpressionStep::kOperand + 2);
  cases.push_back({"matmul with a chain",
                   {random({3, 4}), random({4, 2}), random({2})},
                   {},
                   0,
                   {{{.fn = ScalarFn::add, .arguments = {ExpressionStep::kResult, bias}},
                     {.fn = ScalarFn::sigmoid, .arguments = {0, 0}}}},
                   "matmul"});
  const Attributes window = {{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 2}}};
  cases.push_back({"conv", {random({3, 4, 5, 6}), random({2, 4, 3, 2})}, window});
  cases.push_back({"conv with bias",
                   {random({3, 4, 5, 6}), random({2, 4, 3, 2}), random({2})},
                   window,
                   0,
                   {},
                   "conv"});
  cases.push_back({"conv in groups",
                   {random({2, 4, 7}), random({6, 2, 3})},
                   {{"group", std::int64_t{2}}, {"dilations", Ints{2}}},
                   0,
                   {},
                   "conv"});
  cases.push_back({"conv_transpose", {random({3, 4, 3, 3}), random({4, 2, 2, 3})}, window});
  cases.push_back({"conv_transpose in groups",
                   {random({2, 4, 3}), random({4, 3, 3}), random({6})},
                   {{"group", std::int64_t{2}}},
                   0,
                   {},
                   "conv_transpose"});
  cases.push_back({"einsum",
                   {random({2, 3, 4}), random({2, 4, 5})},
                   {{"equation", std::string("bij,bjk->ikb")}}});
  cases.push_back({"einsum with ellipsis",
                   {random({1, 2, 3}), random({4, 2, 3})},
                   {{"equation", std::string("...ij,...ij->i...")}},
                   0,
                   {},
                   "einsum"});
  cases.push_back({"einsum of a diagonal",
                   {random({3, 3, 2})},
                   {{"equation", std::string("iij->ij")}},
                   0,
                   {},
                   "einsum"});
}

void add_windows_and_norms(std::vector<Case>& cases) {
  const Attributes pool = {{"kernel", Ints{2, 3}}, {"pads", Ints{1, 1, 0, 1}}};
  cases.push_back({"max_pool", {random({2, 3, 4, 5})}, pool});
  cases.push_back({"max_pool with indices", {random({2, 3, 4, 5})}, pool, 2, {}, "max_pool"});
  cases.push_back({"average_pool", {random({2, 3, 4, 5})}, pool});
  cases.push_back({"global_average_pool", {random({2, 3, 4, 5})}});
  cases.push_back({"global_max_pool", {random({2, 3, 4})}});
  cases.push_back({"batch_normalization",
                   {random({2, 3, 4}), random({3}), random({3}), random({3}), random({3})}});
  cases.push_back({"instance_normalization", {random({2, 3, 4}), random({3}), random({3})}});
  cases.push_back({"layer_normalization",
                   {random({2, 3, 4, 2}), random({4, 2}), random({2})},
                   {{"axis", std::int64_t{2}}},
                   3});
  cases.push_back({"lrn", {random({2, 5, 3})}, {{"size", std::int64_t{3}}}});
  for (const char* op : {"softmax", "log_softmax", "hardmax", "lp_normalization"}) {
    cases.push_back({op, {random({2, 3, 4})}, {{"axis", std::int64_t{1}}}});
  }
}

void add_reductions(std::vector<Case>& cases) {
  for (const char* op :
       {"sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum", "log_sum_exp", "sum_square"}) {
    const std::string name = std::string("reduce_") + op;
    cases.push_back({name, {random({4, 3, 2})}, {{"axes", Ints{0, 2}}}});
    cases.push_back({name + " of dropped dims",
                     {random({4, 3, 2})},
                     {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}},
                     0,
                     {},
                     name});
  }
  for (const char* op : {"arg_max", "arg_min"}) {
    cases.push_back(
        {op, {random({2, 3, 4})}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}});
  }
  cases.push_back({"cum_sum", {random({2, 3, 4})}, {{"axis", std::int64_t{1}}}});
  cases.push_back(
      {"top_k", {random({2, 5, 3})}, {{"axis", std::int64_t{1}}, {"k", std::int64_t{2}}}});
}

void add_movement(std::vector<Case>& cases) {
  cases.push_back({"reshape", {random({2, 3, 4, 5})}, {{"shape", Ints{2, 12, 1, 5}}}});
  cases.push_back(
      {"reshape of a prefix", {random({6, 4, 5})}, {{"shape", Ints{6, 20}}}, 0, {}, "reshape"});
  cases.push_back(
      {"reshape of ones", {random({1, 3, 1, 2})}, {{"shape", Ints{3, 2, 1}}}, 0, {}, "reshape"});
  cases.push_back({"transpose", {random({2, 3, 4})}, {{"order", Ints{2, 0, 1}}}});
  cases.push_back({"concat", {random({2, 3}), random({2, 1})}, {{"axis", std::int64_t{1}}}});
  cases.push_back(
      {"split", {random({2, 5})}, {{"axis", std::int64_t{1}}, {"sizes", Ints{3, 0, 2}}}});
  cases.push_back({"slice",
                   {random({4, 5, 6})},
                   {{"starts", Ints{3, 0}},
                    {"ends", Ints{-1, 5}},
                    {"axes", Ints{0, 1}},
                    {"steps", Ints{-2, 1}}}});
  cases.push_back({"expand", {random({3, 1})}, {{"shape", Ints{2, 3, 4}}}});
  cases.push_back({"tile", {random({2, 3})}, {{"repeats", Ints{1, 2}}}});
  cases.push_back({"pad", {random({2, 3}), random({})}, {{"pads", Ints{0, 1, 0, 2}}}});
  cases.push_back({"depth_to_space", {random({2, 8, 1, 2})}, {{"blocksize", std::int64_t{2}}}});
  cases.push_back({"space_to_depth", {random({2, 1, 4, 2})}, {{"blocksize", std::int64_t{2}}}});
  cases.push_back({"resize",
                   {random({2, 3, 4, 5})},
                   {{"mode", std::string("linear")},
                    {"scales", Numbers{1, 1, 2, 1.5}},
                    {"sizes", Ints{2, 3, 8, 7}}}});
  cases.push_back({"one_hot",
                   {i64({2, 2}, {0, 3, -1, 9}), random({2})},
                   {{"depth", std::int64_t{4}}, {"axis", std::int64_t{1}}}});
  cases.push_back({"reverse_sequence", {random({3, 2, 4}), i64({2}, {3, 2})}});
}

void add_indexing(std::vector<Case>& cases) {
  cases.push_back(
      {"gather", {random({3, 4, 2}), i64({2, 2}, {0, -1, 2, 3})}, {{"axis", std::int64_t{1}}}});
  cases.push_back({"gather_elements",
                   {random({3, 2, 2}), i64({2, 2, 1}, {0, 1, 2, -1})},
                   {{"axis", std::int64_t{0}}}});
  cases.push_back({"gather_nd",
                   {random({2, 3, 4, 2}), i64({2, 2, 1}, {0, 2, 1, -1})},
                   {{"batch_dims", std::int64_t{1}}}});
  cases.push_back({"scatter_elements",
                   {random({3, 2}), i64({2, 2}, {0, 1, 2, 2}), random({2, 2})},
                   {{"reduction", std::string("add")}}});
  cases.push_back({"scatter_nd", {random({4, 3, 2}), i64({2, 1}, {3, 1}), random({2, 3, 2})}});
}

void add_recurrent(std::vector<Case>& cases) {
  const Attributes attributes = {{"hidden_size", std::int64_t{2}},
                                 {"direction", std::string("bidirectional")}};
  cases.push_back({"lstm",
                   {random({4, 3, 5}), random({2, 8, 5}), random({2, 8, 2}), random({2, 16}),
                    i64({3}, {4, 1, 0}), random({2, 3, 2}), random({2, 3, 2}), random({2, 6})},
                   attributes,
                   3});
  cases.push_back({"gru",
                   {random({4, 3, 5}), random({2, 6, 5}), random({2, 6, 2}), random({2, 12})},
                   attributes,
                   2});
  cases.push_back(
      {"rnn", {random({4, 3, 5}), random({2, 2, 5}), random({2, 2, 2})}, attributes, 2});
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> result;
    add_elementwise(result);
    add_linear(result);
    add_windows_and_norms(result);
    add_reductions(result);
    add_movement(result);
    add_indexing(result);
    add_recurrent(result);
    return result;
  }();
  return cases;
}

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

/// The call as one part of a mesh runs it, and its results.
std::vector<Value> run_part(const OpCall& call, const std::vector<Value>& inputs,
                            const Factors& factors, int factor, std::int64_t begin,
                            std::int64_t size) {
  OpCall part = call;
  std::vector<Value> part_inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    part_inputs.push_back(cut(inputs[i], dim_of(factors.inputs[i], factor), begin, size));
    part.inputs[i] = part_inputs.back().type;
  }
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    if (const auto dim = dim_of(factors.outputs[o], factor)) {
      part.outputs[o].shape = part.outputs[o].shape.with(*dim, size);
    }
  }
  return run_call(part, part_inputs);
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

/// All sizes that the factor indexes; a rule is wrong unless they are one.
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
    ASSERT_EQ(sizes.size(), 1U);
    const std::int64_t size = *sizes.begin();
    const bool reduces = std::ranges::none_of(
        factors.outputs, [&](const auto& dims) { return dim_of(dims, factor).has_value(); });
    const bool even = reduces && factors.reduction == ReduceOp::mean;
    if (even && size % 2 != 0) continue;
    const std::int64_t first = even ? size / 2 : (size + 1) / 3;
    const auto left = run_part(call, c.inputs, factors, factor, 0, first);
    const auto right = run_part(call, c.inputs, factors, factor, first, size - first);
    for (std::size_t o = 0; o < whole.size(); ++o) {
      const auto dim = dim_of(factors.outputs[o], factor);
      const auto a = elements<double>(left[o]);
      const auto b = elements<double>(right[o]);
      if (dim) {
        expect_close(a, elements<double>(cut(whole[o], dim, 0, first)));
        expect_close(b, elements<double>(cut(whole[o], dim, first, size - first)));
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
  EXPECT_EQ(rule("reshape"), "a..b->a..b");
  EXPECT_EQ(rule("reshape of a prefix"), "a..->a.");
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
