#include "compiler/onnx/recurrent.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

/// RNN, GRU and LSTM.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

/// What differs between the three.
struct Kind {
  std::string_view op;
  std::vector<std::string> activations;  ///< of one direction
  int inputs;
  int outputs;
};

Kind kind_of(const Node& node) {
  if (node.row().op == "lstm") return {"lstm", {"sigmoid", "tanh", "tanh"}, 8, 3};
  if (node.row().op == "gru") return {"gru", {"sigmoid", "tanh"}, 6, 2};
  return {"rnn", {"tanh"}, 6, 2};
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// An activation: what ONNX calls it, our name, and how many of alpha and beta it has, with their
/// defaults (none: they must be given).
struct Activation {
  std::string_view name, ours;
  int parameters = 0;
  std::optional<double> alpha = 0, beta = 0;
};

constexpr Activation kActivations[] = {
    {"affine", "affine", 2, 1, 0},
    {"elu", "elu", 1, 1},
    {"hardsigmoid", "hard_sigmoid", 2, 0.2, 0.5},
    {"leakyrelu", "leaky_relu", 1, 0.01},
    {"relu", "relu"},
    {"scaledtanh", "scaled_tanh", 2, std::nullopt, std::nullopt},
    {"sigmoid", "sigmoid"},
    {"softplus", "softplus"},
    {"softsign", "softsign"},
    {"tanh", "tanh"},
    {"thresholdedrelu", "thresholded_relu", 1, 1},
};

const Activation& activation_named(const Node& node, const std::string& name) {
  const auto found =
      std::find_if(std::begin(kActivations), std::end(kActivations),
                   [&](const Activation& known) { return known.name == lower(name); });
  if (found == std::end(kActivations)) node.invalid(fmt::format("it has an activation {}", name));
  return *found;
}

/// Takes the numbers of an attribute one by one.
class Parameters {
 public:
  Parameters(const Node& node, std::string_view name)
      : node_(node), name_(name), values_(node.numbers(name)) {}

  double next(const std::optional<double>& fallback, std::string_view activation) {
    if (taken_ < values_.size()) return values_[taken_++];
    if (!fallback) node_.invalid(fmt::format("its {} is too short for {}", name_, activation));
    return *fallback;
  }

 private:
  const Node& node_;
  std::string_view name_;
  std::vector<double> values_;
  std::size_t taken_ = 0;
};

void add_activations(const Node& node, const Kind& kind, int directions, Attributes& attributes) {
  std::vector<std::string> names;
  std::vector<double> alpha, beta;
  for (const CellActivation& activation : cell_activations(node, kind.activations, directions)) {
    names.push_back(activation.op);
    alpha.push_back(activation.alpha);
    beta.push_back(activation.beta);
  }
  attributes.set("activations", fmt::format("{}", fmt::join(names, ",")));
  attributes.set("activation_alpha", std::move(alpha));
  attributes.set("activation_beta", std::move(beta));
}

// Lengths that are known to be the whole sequence say nothing.
Value lengths_of(const Node& node, std::int64_t steps) {
  const Value lengths = node.in_or_none(4);
  if (lengths == kNoValue || !node.is_constant(lengths)) return lengths;
  const Integers values = node.known_integers(4, "sequence_lens");
  const bool whole = std::all_of(values.begin(), values.end(), [&](auto n) { return n == steps; });
  return whole ? kNoValue : lengths;
}

Attributes attributes_of(const Node& node, const Kind& kind, const Shape& recurrence) {
  const std::string direction = node.text("direction", "forward");
  const int directions = direction == "bidirectional" ? 2 : 1;
  const std::int64_t hidden = recurrence.rank() == 3 ? recurrence[2] : 0;
  if (node.integer("hidden_size", hidden) != hidden || hidden < 1) {
    node.invalid(fmt::format("its hidden_size is {}, its recurrence weights are {}",
                             node.integer("hidden_size", hidden), recurrence.to_string()));
  }
  Attributes attributes{{"hidden_size", hidden}, {"direction", direction}};
  add_activations(node, kind, directions, attributes);
  if (node.has_attribute("clip")) attributes.set("clip", node.number("clip", 0));
  if (kind.op == "lstm") attributes.set("input_forget", node.integer("input_forget", 0));
  if (kind.op == "gru") {
    attributes.set("linear_before_reset", node.integer("linear_before_reset", 0));
  }
  return attributes;
}

void recurrent(Node& node) {
  const Kind kind = kind_of(node);
  const bool batch_first = node.integer("layout", 0) != 0;
  const Value x = batch_first ? node.transpose(node.in(0), {1, 0, 2}) : node.in(0);
  if (node.rank(x) != 3) {
    node.invalid(fmt::format("its input is {}, rank 3 is wanted", node.shape(x).to_string()));
  }
  std::vector<Value> operands = {x, node.in(1), node.in(2), node.in_or_none(3),
                                 lengths_of(node, node.shape(x)[0])};
  for (int i = 5; i < kind.inputs; ++i) {
    const Value value = node.in_or_none(i);
    const bool state = value != kNoValue && i < 7;  // initial_h, initial_c; 7 is the peephole
    operands.push_back(state && batch_first ? node.transpose(value, {1, 0, 2}) : value);
  }
  while (operands.back() == kNoValue)
    operands.pop_back();
  const std::vector<Value> results = node.emit_many(
      kind.op, operands, attributes_of(node, kind, node.shape(node.in(2))), kind.outputs);
  for (int i = 0; i < kind.outputs; ++i) {
    const Value result = results[static_cast<std::size_t>(i)];
    if (!node.wants(i)) continue;
    node.set(i, !batch_first ? result
                : i == 0     ? node.transpose(result, {2, 0, 1, 3})
                             : node.transpose(result, {1, 0, 2}));
  }
}

constexpr OnnxOp kRows[] = {
    {.name = "GRU", .since = 7, .handler = recurrent, .op = "gru"},
    {.name = "LSTM", .since = 7, .handler = recurrent, .op = "lstm"},
    {.name = "RNN", .since = 7, .handler = recurrent, .op = "rnn"},
};

}  // namespace

std::vector<CellActivation> cell_activations(const Node& node,
                                             const std::vector<std::string>& defaults,
                                             int directions) {
  std::vector<std::string> names = node.texts("activations");
  const std::size_t wanted = defaults.size() * static_cast<std::size_t>(directions);
  if (names.empty()) {
    for (int i = 0; i < directions; ++i)
      names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != wanted) {
    node.invalid(fmt::format("it has {} activations, {} are wanted", names.size(), wanted));
  }
  Parameters alphas(node, "activation_alpha");
  Parameters betas(node, "activation_beta");
  std::vector<CellActivation> result;
  for (const std::string& name : names) {
    const Activation& activation = activation_named(node, name);
    const double alpha = activation.parameters > 0 ? alphas.next(activation.alpha, name) : 0;
    const double beta = activation.parameters > 1 ? betas.next(activation.beta, name) : 0;
    result.push_back({std::string(activation.ours), alpha, beta});
  }
  return result;
}

std::span<const OnnxOp> recurrent_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
