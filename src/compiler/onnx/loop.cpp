#include <onnx/onnx_pb.h>

#include <fmt/format.h>

#include "compiler/onnx/importer.hpp"
#include "compiler/onnx/repetition.hpp"

/// Loop and Scan. What they carry keeps its shape in a loop of the program; where it doesn't, and
/// the number of iterations is known and not large, they are unrolled.
namespace tilemesh::onnx_importer {
namespace {

std::int64_t node_count(const onnx::GraphProto& graph) {
  std::int64_t count = 0;
  for (const onnx::NodeProto& node : graph.node()) {
    ++count;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count += node_count(attribute.g());
    }
  }
  return count;
}

void require_one(Node& node, Value value, bool boolean, std::string_view what) {
  const DType dtype = node.dtype(value);
  const bool fits = boolean ? dtype == DType::boolean : is_integer(dtype);
  if (fits && node.shape(value).element_count() == 1) return;
  node.invalid(fmt::format("its {} must be one {}, not {}{}", what, boolean ? "bool" : "integer",
                           to_string(dtype), node.shape(value).to_string()));
}

void set_results(Node& node, const std::vector<Value>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (std::cmp_less(i, node.output_count())) node.set(static_cast<int>(i), results[i]);
  }
}

void loop_op(Node& node) {
  const onnx::GraphProto& graph = node.graph("body");
  Repetition what;
  what.trips = node.in_or_none(0);
  what.condition = node.in_or_none(1);
  if (what.trips != kNoValue) require_one(node, what.trips, false, "trip count");
  if (what.condition != kNoValue) require_one(node, what.condition, true, "condition");
  for (int i = 2; i < graph.input_size(); ++i)
    what.initial.push_back(node.in(i));
  const std::size_t results = static_cast<std::size_t>(graph.output_size());
  if (results < 1 + what.initial.size()) {
    node.invalid(fmt::format("its body gives {} results for a condition and {} carried values",
                             results, what.initial.size()));
  }
  what.gathered = results - 1 - what.initial.size();
  what.body_nodes = node_count(graph);
  what.body = [&](Value iteration, const std::vector<Value>& carried) {
    std::vector<Value> inputs = {iteration, node.scalar(DType::boolean, 1)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    return node.importer().inline_graph(graph, node.scope(), inputs);
  };
  set_results(node, repeat(node, what));
}

/// The directions and axes of a Scan's inputs or outputs: `count` numbers, zeros if there are none.
std::vector<std::int64_t> per_operand(Node& node, std::string_view name, std::size_t count) {
  std::vector<std::int64_t> values = node.integers(name);
  if (values.empty()) values.assign(count, 0);
  if (values.size() != count) {
    node.invalid(fmt::format("its {} has {} numbers for {} operands", name, values.size(), count));
  }
  return values;
}

/// A Scan on sequences along one axis each, from opset 9 on.
class Scan {
 public:
  Scan(Node& node, std::vector<Value> states, std::vector<Value> sequences)
      : node_(node),
        graph_(node.graph("body")),
        states_(std::move(states)),
        sequences_(std::move(sequences)) {
    const bool by_batch = node.version() < 9;
    const auto results = static_cast<std::size_t>(graph_.output_size());
    if (results < states_.size()) {
      node.invalid(fmt::format("its body gives {} results for {} states", results, states_.size()));
    }
    gathered_ = results - states_.size();
    in_axes_ = by_batch ? std::vector<std::int64_t>(sequences_.size(), 0)
                        : per_operand(node, "scan_input_axes", sequences_.size());
    backward_ =
        per_operand(node, by_batch ? "directions" : "scan_input_directions", sequences_.size());
    out_axes_ = by_batch ? std::vector<std::int64_t>(gathered_, 0)
                         : per_operand(node, "scan_output_axes", gathered_);
    out_backward_ = by_batch ? std::vector<std::int64_t>(gathered_, 0)
                             : per_operand(node, "scan_output_directions", gathered_);
    measure();
  }

  std::vector<Value> run() {
    Repetition what;
    what.trips = node_.constant(make_constant<std::int64_t>(Shape{}, {length_}));
    what.initial = states_;
    what.gathered = gathered_;
    what.body_nodes = node_count(graph_) + std::ssize(sequences_);
    what.body = [this](Value iteration, const std::vector<Value>& carried) {
      return step(iteration, carried);
    };
    std::vector<Value> results = repeat(node_, what);
    for (std::size_t i = 0; i < gathered_; ++i) {
      Value& result = results[states_.size() + i];
      if (result != kPoison) result = arranged(result, i);
    }
    return results;
  }

 private:
  void measure() {
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const Shape shape = node_.shape(sequences_[i]);
      in_axes_[i] = node_.normal_axis(in_axes_[i], shape.rank());
      const std::int64_t length = shape[static_cast<int>(in_axes_[i])];
      if (i > 0 && length != length_) {
        node_.invalid(fmt::format("its sequences have {} and {} elements: they must be as long",
                                  length_, length));
      }
      length_ = length;
    }
  }

  std::vector<Value> step(Value iteration, const std::vector<Value>& carried) {
    std::vector<Value> inputs = carried;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      Value at = iteration;
      if (backward_[i] != 0) {
        const Value last = node_.constant(make_constant<std::int64_t>(Shape{}, {length_ - 1}));
        at = node_.emit("sub", {last, iteration});
      }
      inputs.push_back(node_.emit("gather", {sequences_[i], at}, {{"axis", in_axes_[i]}}));
    }
    std::vector<Value> results = node_.importer().inline_graph(graph_, node_.scope(), inputs);
    results.insert(results.begin(), node_.scalar(DType::boolean, 1));
    return results;
  }

  // What was gathered along dim 0, in its direction and along its axis.
  Value arranged(Value value, std::size_t i) {
    if (out_backward_[i] != 0 && length_ > 0) {
      value = node_.emit("slice", {value},
                         {{"starts", std::vector<std::int64_t>{length_ - 1}},
                          {"ends", std::vector<std::int64_t>{-1}},
                          {"axes", std::vector<std::int64_t>{0}},
                          {"steps", std::vector<std::int64_t>{-1}}});
    }
    const int rank = node_.rank(value);
    const std::int64_t axis = node_.normal_axis(out_axes_[i], rank);
    std::vector<std::int64_t> order;
    for (std::int64_t dim = 1; dim < rank; ++dim)
      order.push_back(dim);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    return node_.transpose(value, order);
  }

  Node& node_;
  const onnx::GraphProto& graph_;
  std::vector<Value> states_, sequences_;
  std::vector<std::int64_t> in_axes_, backward_, out_axes_, out_backward_;
  std::size_t gathered_ = 0;
  std::int64_t length_ = 0;
};

/// Opset 8: dim 0 of all operands is a batch, whose elements go through the scan by themselves.
std::vector<Value> scan_batch(Node& node, const std::vector<Value>& operands, std::size_t states) {
  if (node.has(0)) node.unsupported("sequence_lens of opset 8 isn't: pad the sequences alike");
  std::int64_t batch = -1;
  for (const Value operand : operands) {
    const Shape shape = node.shape(operand);
    if (shape.rank() < 1 || (batch >= 0 && shape[0] != batch)) {
      node.invalid("its operands want one batch, as dim 0 of each");
    }
    batch = shape[0];
  }
  if (batch < 1) node.unsupported("it has no batch");
  std::vector<std::vector<Value>> parts;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<Value> own;
    const Value at = node.constant(make_constant<std::int64_t>(Shape{}, {b}));
    for (const Value operand : operands)
      own.push_back(node.emit("gather", {operand, at}, {{"axis", std::int64_t{0}}}));
    const auto middle = own.begin() + static_cast<std::ptrdiff_t>(states);
    const std::vector<Value> results = Scan(node, {own.begin(), middle}, {middle, own.end()}).run();
    parts.resize(results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i] == kPoison) return std::vector<Value>(results.size(), kPoison);
      Dims sizes{1};
      for (const std::int64_t size : node.shape(results[i]))
        sizes.push_back(size);
      parts[i].push_back(node.reshape(results[i], Shape(sizes)));
    }
  }
  std::vector<Value> joined;
  for (const std::vector<Value>& rows : parts) {
    joined.push_back(rows.size() == 1 ? rows[0]
                                      : node.emit("concat", rows, {{"axis", std::int64_t{0}}}));
  }
  return joined;
}

void scan_op(Node& node) {
  const std::int64_t sequences = node.required_integer("num_scan_inputs");
  const int first = node.version() < 9 ? 1 : 0;
  const int count = node.input_count() - first;
  if (sequences < 1 || sequences > count) {
    node.invalid(
        fmt::format("it has {} operands, of which {} are to be scanned", count, sequences));
  }
  std::vector<Value> operands;
  for (int i = first; i < node.input_count(); ++i)
    operands.push_back(node.in(i));
  const std::size_t states = operands.size() - static_cast<std::size_t>(sequences);
  if (node.version() < 9) return set_results(node, scan_batch(node, operands, states));
  const auto middle = operands.begin() + static_cast<std::ptrdiff_t>(states);
  set_results(node, Scan(node, {operands.begin(), middle}, {middle, operands.end()}).run());
}

constexpr OnnxOp kRows[] = {
    {.name = "Loop", .handler = loop_op, .values_needed = 0b11, .takes_lists = true},
    {.name = "Scan", .since = 8, .handler = scan_op},
};

}  // namespace

std::span<const OnnxOp> loop_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
