#include <fmt/format.h>

#include "compiler/onnx/node.hpp"

/// The optimisers of ai.onnx.preview.training: one step for any number of tensors.
namespace tilemesh::onnx_importer {
namespace {

constexpr std::string_view kTraining = "ai.onnx.preview.training";

/// A node's operands: rate, step number, then all tensors, all gradients, and each kind of state.
class Step {
 public:
  Step(Node& node, int states) : node_(node) {
    const int lists = 2 + states;
    count_ = (node.input_count() - 2) / lists;
    if (count_ < 1 || 2 + count_ * lists != node.input_count()) {
      node.invalid(fmt::format("it has {} inputs, 2 and {} for each tensor are wanted",
                               node.input_count(), lists));
    }
  }

  int count() const { return count_; }
  Value rate() const { return node_.reshape(node_.in(0), {}); }
  /// The number of the step as a scalar of the tensors' dtype.
  Value number() const {
    return node_.cast(node_.reshape(node_.in(1), {}), node_.dtype(tensor(0)));
  }
  Value tensor(int i) const { return node_.in(2 + i); }
  Value state(int kind, int i) const { return node_.in(2 + (2 + kind) * count_ + i); }
  void set(int list, int i, Value value) { node_.set(list * count_ + i, value); }

  Value constant(double value) const { return node_.scalar(node_.dtype(tensor(0)), value); }
  Value add(Value a, Value b) const { return node_.emit("add", {a, b}); }
  Value sub(Value a, Value b) const { return node_.emit("sub", {a, b}); }
  Value mul(Value a, Value b) const { return node_.emit("mul", {a, b}); }
  Value div(Value a, Value b) const { return node_.emit("div", {a, b}); }
  Value scaled(double factor, Value a) const { return mul(constant(factor), a); }

  /// The gradient with the part that pulls towards zero.
  Value gradient(int i) const {
    const double norm = node_.number("norm_coefficient", 0);
    const Value given = node_.in(2 + count_ + i);
    return norm == 0 ? given : add(scaled(norm, tensor(i)), given);
  }
  /// `later`, but `first` in the step of number 0.
  Value unless_first(Value later, Value first) const {
    return node_.emit("where", {node_.emit("greater", {number(), constant(0)}), later, first});
  }

 private:
  Node& node_;
  int count_ = 0;
};

void adagrad(Node& node) {
  Step step(node, 1);
  const double epsilon = node.number("epsilon", 1e-6);
  const Value decay =
      step.add(step.constant(1), step.scaled(node.number("decay_factor", 0), step.number()));
  const Value rate = step.div(step.rate(), decay);
  for (int i = 0; i < step.count(); ++i) {
    const Value gradient = step.gradient(i);
    const Value squares = step.add(step.state(0, i), step.mul(gradient, gradient));
    const Value size = step.add(node.emit("sqrt", {squares}), step.constant(epsilon));
    step.set(0, i, step.sub(step.tensor(i), step.div(step.mul(rate, gradient), size)));
    step.set(1, i, squares);
  }
}

void momentum(Node& node) {
  Step step(node, 1);
  const std::string mode = node.text("mode", "");
  if (mode != "standard" && mode != "nesterov") {
    node.invalid(fmt::format("its mode is \"{}\": standard or nesterov is wanted", mode));
  }
  const double alpha = node.number("alpha", 0);
  const Value beta = step.unless_first(step.constant(node.number("beta", 0)), step.constant(1));
  for (int i = 0; i < step.count(); ++i) {
    const Value gradient = step.gradient(i);
    const Value speed = step.add(step.scaled(alpha, step.state(0, i)), step.mul(beta, gradient));
    const Value way = mode == "standard" ? speed : step.add(gradient, step.scaled(alpha, speed));
    step.set(0, i, step.sub(step.tensor(i), step.mul(step.rate(), way)));
    step.set(1, i, speed);
  }
}

void adam(Node& node) {
  Step step(node, 2);
  const double alpha = node.number("alpha", 0.9);
  const double beta = node.number("beta", 0.999);
  const auto rest = [&](double base) {
    return step.sub(step.constant(1), node.emit("pow", {step.constant(base), step.number()}));
  };
  const Value later = step.mul(step.rate(), step.div(node.emit("sqrt", {rest(beta)}), rest(alpha)));
  const Value rate = step.unless_first(later, step.rate());
  for (int i = 0; i < step.count(); ++i) {
    const Value gradient = step.gradient(i);
    const Value mean =
        step.add(step.scaled(alpha, step.state(0, i)), step.scaled(1 - alpha, gradient));
    const Value squares = step.add(step.scaled(beta, step.state(1, i)),
                                   step.scaled(1 - beta, step.mul(gradient, gradient)));
    const Value size =
        step.add(node.emit("sqrt", {squares}), step.constant(node.number("epsilon", 1e-6)));
    const Value moved = step.sub(step.tensor(i), step.div(step.mul(rate, mean), size));
    step.set(0, i, step.scaled(1 - node.number("norm_coefficient_post", 0), moved));
    step.set(1, i, mean);
    step.set(2, i, squares);
  }
}

constexpr OnnxOp kRows[] = {
    {.name = "Adagrad", .handler = adagrad, .domain = kTraining},
    {.name = "Adam", .handler = adam, .domain = kTraining},
    {.name = "Momentum", .handler = momentum, .domain = kTraining},
};

}  // namespace

std::span<const OnnxOp> training_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
