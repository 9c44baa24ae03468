#include "op_cases.hpp"

#include <cmath>
#include <random>

namespace tilemesh::ops::testing {
namespace {

using Ints = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

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
  for (const char* op : {"bit_and", "bit_or", "bit_xor"}) {
    cases.push_back({op, {random({2, 3}, DType::i32), random({3}, DType::i32)}});
  }
  cases.push_back({"bit_not", {random({2, 3}, DType::u8)}});
  cases.push_back({"bit_cast", {random({2, 3})}, {{"to", number(DType::i32)}}});
  cases.push_back({"cast_narrow",
                   {random({2, 3})},
                   {{"to", number(DType::f8e4m3fn)}, {"saturate", std::int64_t{0}}}});
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
  cases.push_back({"cum_prod", {random({2, 3, 4})}, {{"axis", std::int64_t{1}}}});
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
  cases.push_back({"reshard", {random({2, 3})}});
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

void add_quantized(std::vector<Case>& cases) {
  const Value x = random({2, 6, 3});
  cases.push_back({"quantize", {x, random({6, 1}), random({6, 1}, DType::u8)}});
  cases.push_back({"quantize in blocks",
                   {x, random({2, 2, 3}), random({2, 2, 3}, DType::i8)},
                   {{"axis", std::int64_t{1}}, {"block_size", std::int64_t{4}}},
                   0,
                   {},
                   "quantize"});
  cases.push_back({"dequantize", {random({4, 3}, DType::i8), random({}), random({}, DType::i8)}});
  cases.push_back({"requantize",
                   {random({2, 3, 4}, DType::i32), random({3, 1}), random({}, DType::u8),
                    random({3, 1}, DType::i32)}});
  cases.push_back({"range_to_scale", {random({3}), random({3})}});
  cases.push_back({"quantized_add",
                   {random({2, 3, 4}, DType::u8), random({3, 1}, DType::u8), random({}),
                    random({3, 1}), random({})}});
  cases.push_back({"quantized_mul",
                   {random({2, 3, 4}, DType::i8), random({3, 1}, DType::i8), random({}), random({}),
                    random({}, DType::i8), random({3, 1}, DType::i8)}});
  cases.push_back({"matmul_integer",
                   {random({2, 3, 4}, DType::u8), random({4, 5}, DType::i8),
                    random({3, 1}, DType::u8), random({5}, DType::i8)}});
  cases.push_back({"conv_integer",
                   {random({3, 4, 5, 6}, DType::u8), random({2, 4, 3, 2}, DType::i8),
                    random({}, DType::u8), random({2, 1, 1, 1}, DType::i8)},
                   {{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 2}}}});
}

}  // namespace

Value random(const Shape& shape, DType dtype) {
  static std::mt19937 generator(7);
  std::uniform_real_distribution<double> distribution(0.05, 0.95);
  std::vector<double> elements(static_cast<std::size_t>(shape.element_count()));
  for (double& element : elements) {
    element = distribution(generator);
    if (!is_float(dtype)) element = std::floor(1 + 9 * element);
  }
  return value(dtype, shape, elements);
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
    add_vision(result);
    add_quantized(result);
    return result;
  }();
  return cases;
}

}  // namespace tilemesh::ops::testing
