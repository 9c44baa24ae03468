#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/onnx/quantization.hpp"
#include "compiler/onnx/recurrent.hpp"
#include "compiler/onnx/repetition.hpp"

/// com.microsoft's DynamicQuantizeLSTM: an LSTM whose weights are integers, and whose input and
/// states become integers before each product, by the range that they have then.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

enum Input { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes, kScaleW, kScaleR = 10 };

Value sliced(Node& node, Value x, std::int64_t axis, std::int64_t from, std::int64_t to) {
  return node.emit("slice", {x},
                   {{"starts", Integers{from}},
                    {"ends", Integers{to}},
                    {"axes", Integers{axis}},
                    {"steps", Integers{1}}});
}

// Element `at` of dim 0, which goes.
Value element(Node& node, Value x, Value at) {
  return node.emit("gather", {x, at}, {{"axis", std::int64_t{0}}});
}

Value number(Node& node, std::int64_t value) {
  return node.constant(make_constant<std::int64_t>({}, {value}));
}

/// The sizes of a node; x is [steps, batch, inputs].
struct Sizes {
  std::int64_t steps, batch, inputs, hidden;
  int directions;
  bool reverse;  ///< the first direction runs backwards
};

Sizes sizes_of(const Node& node) {
  const Shape x = node.shape(node.in(kX));
  const Shape r = node.shape(node.in(kR));
  const std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    node.invalid(fmt::format("its direction is \"{}\": forward, reverse or bidirectional is wanted",
                             direction));
  }
  const int directions = direction == "bidirectional" ? 2 : 1;
  if (x.rank() != 3 || r.rank() != 3) {
    node.invalid(fmt::format("its input {} and recurrence weights {} want rank 3", x.to_string(),
                             r.to_string()));
  }
  const Sizes sizes{x[0], x[1], x[2], r[1], directions, direction == "reverse"};
  const auto require = [&](Input input, const Shape& shape) {
    if (node.has(input) && !(node.shape(node.in(input)) == shape)) {
      node.invalid(fmt::format("its input {} is {}, {} is wanted", static_cast<int>(input),
                               node.shape(node.in(input)).to_string(), shape.to_string()));
    }
  };
  const std::int64_t gates = checked_mul(4, sizes.hidden);
  const Shape state{directions, sizes.batch, sizes.hidden};
  require(kW, {directions, sizes.inputs, gates});
  require(kR, {directions, sizes.hidden, gates});
  require(kB, {directions, 2 * gates});
  require(kLengths, {sizes.batch});
  require(kInitialH, state);
  require(kInitialC, state);
  require(kPeepholes, {directions, 3 * sizes.hidden});
  if (sizes.steps < 1) node.unsupported("a sequence of no steps isn't supported");
  if (node.integer("hidden_size", sizes.hidden) != sizes.hidden) {
    node.invalid(fmt::format("its hidden_size is {}, its recurrence weights are {}",
                             node.integer("hidden_size", 0), r.to_string()));
  }
  return sizes;
}

Value activated(Node& node, Value x, const CellActivation& activation) {
  const std::string& op = activation.op;
  if (op == "sigmoid" || op == "tanh" || op == "relu") return node.emit(op, {x});
  if (op == "hard_sigmoid") {
    return node.emit(op, {x}, {{"alpha", activation.alpha}, {"beta", activation.beta}});
  }
  node.unsupported(fmt::format(
      "its activation {} isn't supported: Sigmoid, Tanh, Relu and HardSigmoid are", op));
}

/// One direction of the node.
class Direction {
 public:
  Direction(Node& node, const Sizes& sizes, int number, const Quantized& x)
      : node_(node), sizes_(sizes), number_(number) {
    const auto all = cell_activations(node, {"sigmoid", "tanh", "tanh"}, sizes.directions);
    activations_.assign(all.begin() + 3 * number, all.begin() + 3 * (number + 1));
    recurrence_ = weights(kR, kScaleR);
    if (node.has(kLengths)) lengths_ = node.cast(node.in(kLengths), DType::i64);
    if (node.has(kPeepholes)) peepholes_ = own(node.in(kPeepholes));
    from_x_ = product_of_reals(node, x, weights(kW, kScaleW), bias());
    backwards_ = sizes.reverse || number == 1;
    if (backwards_) from_x_ = reversed(from_x_);
  }

  /// The last h and c, [batch, hidden], then all h, [steps, batch, hidden].
  std::vector<Value> run() {
    constexpr std::int64_t kNodesOfAStep = 30;
    Repetition what;
    what.trips = number(node_, sizes_.steps);
    what.initial = {initial(kInitialH), initial(kInitialC)};
    what.gathered = 1;
    what.body_nodes = kNodesOfAStep;
    what.body = [&](Value iteration, const std::vector<Value>& carried) {
      return step(iteration, carried[0], carried[1]);
    };
    std::vector<Value> results = repeat(node_, what);
    if (backwards_) results[2] = reversed(results[2]);
    return results;
  }

 private:
  // What belongs to this direction.
  Value own(Value x) { return element(node_, x, number(node_, number_)); }

  // The scale of a direction, or of each of its columns; zero points likewise.
  Quantized weights(Input values, Input scale) {
    Quantized result{own(node_.in(values))};
    const auto parameter = [&](int input) {
      if (!node_.has(input)) return kNoValue;
      const Value given = node_.in(input);
      return node_.shape(given).element_count() == 1 ? node_.reshape(given, {}) : own(given);
    };
    result.scale = node_.has(scale) ? parameter(scale) : node_.in(scale);
    result.zero_point = parameter(scale + 1);
    return result;
  }

  // Of the input's and the state's product together.
  Value bias() {
    if (!node_.has(kB)) return kNoValue;
    const Value both = own(node_.in(kB));
    const std::int64_t gates = 4 * sizes_.hidden;
    return node_.emit("add",
                      {sliced(node_, both, 0, 0, gates), sliced(node_, both, 0, gates, 2 * gates)});
  }

  Value initial(Input input) {
    if (node_.has(input)) return own(node_.in(input));
    return node_.expand(node_.scalar(DType::f32, 0), {sizes_.batch, sizes_.hidden});
  }

  // Each sequence of the batch from its end on.
  Value reversed(Value x) {
    if (lengths_ != kNoValue) {
      return node_.emit("reverse_sequence", {x, lengths_},
                        {{"time_axis", std::int64_t{0}}, {"batch_axis", std::int64_t{1}}});
    }
    return node_.emit("slice", {x},
                      {{"starts", Integers{sizes_.steps - 1}},
                       {"ends", Integers{-1}},
                       {"axes", Integers{0}},
                       {"steps", Integers{-1}}});
  }

  Value clipped(Value x) {
    const double clip = node_.number("clip", 0);
    return clip > 0 ? node_.emit("clip", {x}, {{"min", -clip}, {"max", clip}}) : x;
  }

  Value times(Value a, Value b) { return node_.emit("mul", {a, b}); }

  // The peephole's share of a gate: its weights times a state of the cell.
  Value with_peephole(Value gate, std::int64_t which, Value c) {
    if (peepholes_ == kNoValue) return gate;
    const Value weights =
        sliced(node_, peepholes_, 0, which * sizes_.hidden, (which + 1) * sizes_.hidden);
    return node_.emit("add", {gate, times(weights, c)});
  }

  Value gate(Value x, std::size_t activation) {
    return activated(node_, clipped(x), activations_[activation]);
  }

  // `value` while a sequence of the batch has an element `at`, `otherwise` behind its end.
  Value within_length(Value at, Value value, Value otherwise) {
    if (lengths_ == kNoValue) return value;
    const Value lives = node_.emit("less", {at, node_.reshape(lengths_, {sizes_.batch, 1})});
    return node_.emit("where", {lives, value, otherwise});
  }

  // Whether to go on, then h and c, then h as it is written down.
  std::vector<Value> step(Value at, Value h, Value c) {
    const Value zero = node_.scalar(DType::f32, 0);
    // What has ended mustn't widen the range.
    const Value before = node_.emit("sub", {at, number(node_, 1)});
    const Quantized state = dynamically_quantized(node_, within_length(before, h, zero));
    const Value sums = product_of_reals(node_, state, recurrence_, element(node_, from_x_, at));
    const std::int64_t n = sizes_.hidden;
    const std::vector<Value> gates = node_.emit_many(
        "split", {sums}, {{"axis", std::int64_t{1}}, {"sizes", Integers{n, n, n, n}}}, 4);
    const Value in = gate(with_peephole(gates[0], 0, c), 0);
    const bool coupled = node_.integer("input_forget", 0) != 0;
    const Value forget = coupled ? node_.emit("sub", {node_.scalar(DType::f32, 1), in})
                                 : gate(with_peephole(gates[2], 2, c), 0);
    const Value next_c = node_.emit("add", {times(forget, c), times(in, gate(gates[3], 1))});
    const Value out = gate(with_peephole(gates[1], 1, next_c), 0);
    const Value next_h = times(out, activated(node_, next_c, activations_[2]));
    return {node_.scalar(DType::boolean, 1), within_length(at, next_h, h),
            within_length(at, next_c, c), within_length(at, next_h, zero)};
  }

  Node& node_;
  Sizes sizes_;
  int number_;
  std::vector<CellActivation> activations_;
  Quantized recurrence_;
  Value from_x_ = kNoValue;  ///< [steps, batch, gates]
  Value peepholes_ = kNoValue;
  Value lengths_ = kNoValue;  ///< [batch] of i64
  bool backwards_ = false;
};

void dynamic_quantize_lstm(Node& node) {
  const Sizes sizes = sizes_of(node);
  const Quantized x = dynamically_quantized(node, node.in(kX));
  const std::int64_t axes[] = {0, 0, 1};  // of the directions in h, c and all h
  std::vector<std::vector<Value>> results(3);
  for (int direction = 0; direction < sizes.directions; ++direction) {
    const std::vector<Value> own = Direction(node, sizes, direction, x).run();
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Shape shape = node.shape(own[i]);
      Integers with_direction(shape.begin(), shape.end());
      with_direction.insert(with_direction.begin() + axes[i], 1);
      results[i].push_back(
          node.reshape(own[i], Shape(std::span<const std::int64_t>(with_direction))));
    }
  }
  const auto joined = [&](std::size_t i) {
    return results[i].size() == 1 ? results[i][0]
                                  : node.emit("concat", results[i], {{"axis", axes[i]}});
  };
  const std::size_t order[] = {2, 0, 1};
  for (int i = 0; i < 3; ++i) {
    if (node.wants(i)) node.set(i, joined(order[i]));
  }
}

constexpr OnnxOp kRows[] = {
    microsoft("DynamicQuantizeLSTM", dynamic_quantize_lstm),
};

}  // namespace

std::span<const OnnxOp> dynamic_lstm_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
