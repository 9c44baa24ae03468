#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// ONNX LSTM, GRU and RNN 14 to 22, layout 0: x is [seq, batch, input]; y is
/// [seq, directions, batch, hidden], states are [directions, batch, hidden].
namespace tilemesh::ops {
namespace {

enum class Cell { rnn, gru, lstm };

/// Which input is what; the same for all three, but for what only lstm has.
enum Input : std::size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

constexpr std::int64_t gates_of(Cell cell) {
  return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1;
}
constexpr std::size_t activations_of(Cell cell) {
  return cell == Cell::lstm ? 3 : cell == Cell::gru ? 2 : 1;
}

struct Sizes {
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 1;
  bool reverse = false;  // the first direction runs backwards
};

Sizes sizes_of(const OpCall& call) {
  require_rank(call, kX, 3);
  const Shape& x = call.inputs[kX].shape;
  Sizes sizes{.steps = x[0],
              .batch = x[1],
              .input = x[2],
              .hidden = call.attributes.integer("hidden_size")};
  const std::string& direction = call.attributes.text("direction");
  sizes.directions = direction == "bidirectional" ? 2 : 1;
  sizes.reverse = direction == "reverse";
  return sizes;
}

/// An activation: a scalar function with its parameters, by default those that ONNX gives it.
struct Activation {
  enum class Fn { scalar, scaled_tanh, thresholded_relu };
  ScalarFn scalar = ScalarFn::tanh;
  double alpha = 0, beta = 0;
  Fn fn = Fn::scalar;

  double operator()(double x) const {
    switch (fn) {
      case Fn::scalar: break;
      case Fn::scaled_tanh: return alpha * std::tanh(beta * x);
      case Fn::thresholded_relu: return x > alpha || std::isnan(x) ? x : 0;
    }
    return evaluate(scalar, x, 0, alpha, beta);
  }
};

Activation activation_named(std::string_view name) {
  using enum Activation::Fn;
  constexpr std::pair<std::string_view, Activation> kKnown[] = {
      {"sigmoid", {ScalarFn::sigmoid}},
      {"tanh", {ScalarFn::tanh}},
      {"relu", {ScalarFn::relu}},
      {"softplus", {ScalarFn::softplus}},
      {"softsign", {ScalarFn::softsign}},
      {"elu", {ScalarFn::elu, 1}},
      {"leaky_relu", {ScalarFn::leaky_relu, 0.01}},
      {"hard_sigmoid", {ScalarFn::hard_sigmoid, 0.2, 0.5}},
      {"affine", {ScalarFn::linear, 1, 0}},
      {"scaled_tanh", {ScalarFn::tanh, 1, 1, scaled_tanh}},
      {"thresholded_relu", {ScalarFn::relu, 1, 0, thresholded_relu}},
  };
  for (const auto& [known, activation] : kKnown) {
    if (known == name) return activation;
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("there is no activation \"{}\"", name));
}

/// Those that a list of names, parted by commas, stands for.
std::vector<Activation> activations_named(std::string_view text, std::size_t wanted) {
  std::vector<Activation> result;
  std::string_view rest = text;
  while (true) {
    const std::size_t end = rest.find(',');
    result.push_back(activation_named(rest.substr(0, end)));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (result.size() == wanted) return result;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"activations\" wants {} names, got {} in \"{}\"", wanted,
                          result.size(), text));
}

/// One parameter for each activation; by default those that it has.
void parameter_form(AttributeForm& form, std::string_view name,
                    const std::vector<Activation>& activations, double Activation::*parameter) {
  std::vector<double> values;
  for (const Activation& activation : activations) {
    values.push_back(activation.*parameter);
  }
  form.numbers(name, std::move(values));
}

template <Cell cell>
void recurrent_form(AttributeForm& form) {
  form.integer("hidden_size", {.min = 1});
  const bool both =
      form.choice("direction", {"forward", "reverse", "bidirectional"}).front() == 'b';
  constexpr std::string_view kDefaults[] = {"tanh", "sigmoid,tanh", "sigmoid,tanh,tanh"};
  std::string names(kDefaults[static_cast<std::size_t>(cell)]);
  if (both) names += "," + names;
  const std::vector<Activation> activations =
      activations_named(form.text("activations", names), activations_of(cell) * (both ? 2 : 1));
  parameter_form(form, "activation_alpha", activations, &Activation::alpha);
  parameter_form(form, "activation_beta", activations, &Activation::beta);
  form.number("clip", 0);
  if (cell == Cell::lstm) form.flag("input_forget", false);
  if (cell == Cell::gru) form.flag("linear_before_reset", false);
}

/// `activations_of(cell)` for each direction.
std::vector<Activation> activations(const OpCall& call, Cell cell, std::int64_t directions) {
  std::vector<Activation> result =
      activations_named(call.attributes.text("activations"),
                        activations_of(cell) * static_cast<std::size_t>(directions));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i].alpha = call.attributes.numbers("activation_alpha")[i];
    result[i].beta = call.attributes.numbers("activation_beta")[i];
  }
  return result;
}

void check_operands(const OpCall& call, Cell cell, const Sizes& s) {
  const std::int64_t rows_of_gates = checked_mul(gates_of(cell), s.hidden);
  const std::int64_t d = s.directions;
  require_shape(call, kW, Shape{d, rows_of_gates, s.input}, "directions, gates, input size");
  require_shape(call, kR, Shape{d, rows_of_gates, s.hidden}, "directions, gates, hidden size");
  if (has_input(call, kB)) {
    require_shape(call, kB, Shape{d, checked_mul(2, rows_of_gates)}, "directions, both biases");
  }
  if (has_input(call, kLengths)) {
    require_type(call, kLengths, Types::index);
    require_shape(call, kLengths, Shape{s.batch}, "one length per batch entry");
  }
  for (const std::size_t state : {kInitialH, kInitialC}) {
    if (has_input(call, state) && (state == kInitialH || cell == Cell::lstm)) {
      require_shape(call, state, Shape{d, s.batch, s.hidden}, "directions, batch, hidden size");
    }
  }
  if (cell == Cell::lstm && has_input(call, kPeepholes)) {
    require_shape(call, kPeepholes, Shape{d, checked_mul(3, s.hidden)}, "directions, 3 gates");
  }
}

template <Cell cell>
std::vector<OperandType> infer_recurrent(const OpCall& call) {
  const Sizes sizes = sizes_of(call);
  for (std::size_t i = 0; i < own_input_count(call); ++i) {
    if (!has_input(call, i) || i == kLengths) continue;
    require_type(call, i, Types::real);
    require_same_type(call, 0, i);
  }
  check_operands(call, cell, sizes);
  const DType dtype = call.inputs[kX].dtype;
  const Shape state{sizes.directions, sizes.batch, sizes.hidden};
  std::vector<OperandType> outputs{
      rows(dtype, Shape{sizes.steps, sizes.directions, sizes.batch, sizes.hidden}),
      rows(dtype, state), rows(dtype, state)};
  outputs.resize(std::min<std::size_t>(wanted_outputs(call), cell == Cell::lstm ? 3 : 2));
  return outputs;
}

/// The batch: independent sequences.
Factors batch_factors(const OpCall& call) {
  FactorBuilder builder(call);
  const int batch = builder.add();
  builder.input(kX, 1, batch);
  builder.input(kLengths, 0, batch);
  builder.input(kInitialH, 1, batch);
  builder.input(kInitialC, 1, batch);
  builder.output(0, 2, batch);
  builder.output(1, 1, batch);
  builder.output(2, 1, batch);
  return builder.build();
}

/// All operands of a call in one float type.
template <class T>
struct Operands {
  std::array<std::vector<Loaded<T>>, 8> loaded;  // each empty or one
  std::vector<std::int64_t> lengths;

  Operands(const OpCall& call, Inputs inputs, const Sizes& sizes) {
    lengths.assign(static_cast<std::size_t>(sizes.batch), sizes.steps);
    for (std::size_t i = 0; i < own_input_count(call); ++i) {
      if (!has_input(call, i)) continue;
      if (i != kLengths) {
        loaded[i].emplace_back(inputs[i], call.inputs[i]);
        continue;
      }
      const Loaded<std::int64_t> given(inputs[i], call.inputs[i]);
      lengths.assign(given.data(), given.data() + sizes.batch);
      for (const std::int64_t length : lengths) {
        if (length >= 0 && length <= sizes.steps) continue;
        throw Error(ErrorCode::kernel_failed,
                    fmt::format("sequence length {} is outside [0,{}]", length, sizes.steps));
      }
    }
  }

  /// An operand's elements from `first` on; null if it isn't given.
  const T* at(std::size_t input, std::int64_t first) const {
    return loaded[input].empty() ? nullptr : loaded[input][0].data() + first;
  }
};

template <class T>
double dot_product(const T* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

/// One direction of a cell: its weights, and the arithmetic of one step on one batch entry.
template <class T>
class Direction {
 public:
  Direction(const OpCall& call, Cell cell, const Sizes& sizes, const Operands<T>& operands,
            std::int64_t number)
      : cell_(cell), sizes_(sizes), hidden_(static_cast<std::size_t>(sizes.hidden)) {
    const std::int64_t gate_rows = gates_of(cell) * sizes.hidden;
    w_ = operands.at(kW, number * gate_rows * sizes.input);
    r_ = operands.at(kR, number * gate_rows * sizes.hidden);
    b_ = operands.at(kB, number * 2 * gate_rows);
    if (cell == Cell::lstm) peepholes_ = operands.at(kPeepholes, number * 3 * sizes.hidden);
    const std::vector<Activation> all = activations(call, cell, sizes.directions);
    const auto count = static_cast<std::ptrdiff_t>(activations_of(cell));
    functions_.assign(all.begin() + number * count, all.begin() + (number + 1) * count);
    clip_ = call.attributes.number("clip");
    coupled_ = cell == Cell::lstm && call.attributes.integer("input_forget") != 0;
    reset_after_ = cell == Cell::gru && call.attributes.integer("linear_before_reset") != 0;
    from_x_.resize(static_cast<std::size_t>(gate_rows));
    from_h_.resize(static_cast<std::size_t>(gate_rows));
  }

  /// Advances the states `h` and `c` (only lstm's) by one element of the sequence.
  void step(const std::vector<double>& x, std::vector<double>& h, std::vector<double>& c) {
    for (std::size_t g = 0; g < from_x_.size(); ++g) {
      const auto row = static_cast<std::int64_t>(g);
      from_x_[g] = dot_product(w_ + row * sizes_.input, x.data(), sizes_.input) + bias(g);
      from_h_[g] =
          dot_product(r_ + row * sizes_.hidden, h.data(), sizes_.hidden) + bias(from_x_.size() + g);
    }
    switch (cell_) {
      case Cell::rnn: step_rnn(h); break;
      case Cell::gru: step_gru(h); break;
      case Cell::lstm: step_lstm(h, c); break;
    }
  }

 private:
  double bias(std::size_t row) const { return b_ == nullptr ? 0 : static_cast<double>(b_[row]); }

  double clipped(double x) const { return clip_ > 0 ? std::clamp(x, -clip_, clip_) : x; }

  /// The sum that goes into gate `gate` of unit `i`.
  double gate(std::size_t gate, std::size_t i) const {
    return from_x_[gate * hidden_ + i] + from_h_[gate * hidden_ + i];
  }

  double peephole(std::size_t gate, std::size_t i, double c) const {
    return peepholes_ == nullptr ? 0 : static_cast<double>(peepholes_[gate * hidden_ + i]) * c;
  }

  void step_rnn(std::vector<double>& h) const {
    for (std::size_t i = 0; i < hidden_; ++i) {
      h[i] = functions_[0](clipped(gate(0, i)));
    }
  }

  void step_gru(std::vector<double>& h) const {  // gates z, r, h
    std::vector<double> reset(hidden_);
    std::vector<double> old = h;
    for (std::size_t i = 0; i < hidden_; ++i) {
      reset[i] = functions_[0](clipped(gate(1, i)));
      old[i] *= reset[i];
    }
    std::vector<double> fresh(hidden_);
    for (std::size_t i = 0; i < hidden_; ++i) {
      const std::size_t row = 2 * hidden_ + i;
      const double recurrent =
          reset_after_ ? reset[i] * from_h_[row]
                       : dot_product(r_ + static_cast<std::int64_t>(row) * sizes_.hidden,
                                     old.data(), sizes_.hidden) +
                             bias(from_x_.size() + row);
      fresh[i] = functions_[1](clipped(from_x_[row] + recurrent));
    }
    for (std::size_t i = 0; i < hidden_; ++i) {
      const double update = functions_[0](clipped(gate(0, i)));
      h[i] = (1 - update) * fresh[i] + update * h[i];
    }
  }

  void step_lstm(std::vector<double>& h, std::vector<double>& c) const {  // gates i, o, f, c
    for (std::size_t i = 0; i < hidden_; ++i) {
      const double in = functions_[0](clipped(gate(0, i) + peephole(0, i, c[i])));
      const double forget =
          coupled_ ? 1 - in : functions_[0](clipped(gate(2, i) + peephole(2, i, c[i])));
      c[i] = forget * c[i] + in * functions_[1](clipped(gate(3, i)));
      const double out = functions_[0](clipped(gate(1, i) + peephole(1, i, c[i])));
      h[i] = out * functions_[2](c[i]);
    }
  }

  Cell cell_;
  Sizes sizes_;
  std::size_t hidden_;
  const T* w_ = nullptr;
  const T* r_ = nullptr;
  const T* b_ = nullptr;
  const T* peepholes_ = nullptr;
  std::vector<Activation> functions_;
  double clip_ = 0;
  bool coupled_ = false;
  bool reset_after_ = false;
  std::vector<double> from_x_, from_h_;
};

/// The results before they are stored.
struct Results {
  std::vector<double> y, h, c;
};

template <class T>
std::vector<double> initial(const T* state, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  if (state != nullptr) std::copy(state, state + count, values.begin());
  return values;
}

/// Runs one direction over one batch entry.
template <class T>
void run_sequence(const Sizes& s, const Operands<T>& operands, Direction<T>& direction,
                  std::int64_t number, std::int64_t entry, Results& results) {
  const std::int64_t state = (number * s.batch + entry) * s.hidden;
  std::vector<double> h = initial(operands.at(kInitialH, state), s.hidden);
  std::vector<double> c = initial(operands.at(kInitialC, state), s.hidden);
  const std::int64_t length = operands.lengths[static_cast<std::size_t>(entry)];
  // An entry that takes no step beside others that do leaves zeros, not its initial states.
  if (length == 0 && s.steps > 0) return;
  const bool backwards = s.reverse || number == 1;
  for (std::int64_t k = 0; k < length; ++k) {
    const std::int64_t step = backwards ? length - 1 - k : k;
    direction.step(initial(operands.at(kX, (step * s.batch + entry) * s.input), s.input), h, c);
    std::ranges::copy(
        h, results.y.begin() + ((step * s.directions + number) * s.batch + entry) * s.hidden);
  }
  std::ranges::copy(h, results.h.begin() + state);
  std::ranges::copy(c, results.c.begin() + state);
}

template <Cell cell>
void run_recurrent(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Sizes s = sizes_of(call);
  const std::int64_t state = s.directions * s.batch * s.hidden;
  Results results{zeros<double>(s.steps * state), zeros<double>(state), zeros<double>(state)};
  visit_product(call.inputs[kX].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      const Operands<T> operands(call, inputs, s);
      for (std::int64_t d = 0; d < s.directions; ++d) {
        Direction<T> direction(call, cell, s, operands, d);
        for (std::int64_t entry = 0; entry < s.batch; ++entry) {
          run_sequence(s, operands, direction, d, entry, results);
        }
      }
    }
  });
  if (has_output(call, outputs, 0)) store(results.y, call.outputs[0], outputs[0]);
  if (has_output(call, outputs, 1)) store(results.h, call.outputs[1], outputs[1]);
  if (has_output(call, outputs, 2)) store(results.c, call.outputs[2], outputs[2]);
}

template <Cell cell>
constexpr OpDef recurrent(std::string_view name) {
  return {.name = name,
          .min_inputs = 3,
          .max_inputs = cell == Cell::lstm ? 8 : 6,
          .max_outputs = cell == Cell::lstm ? 3 : 2,
          .required_outputs = 0,
          .canonical = recurrent_form<cell>,
          .infer = infer_recurrent<cell>,
          .factors = batch_factors,
          .reference = run_recurrent<cell>};
}

constexpr OpDef kOps[] = {
    recurrent<Cell::lstm>("lstm"),
    recurrent<Cell::gru>("gru"),
    recurrent<Cell::rnn>("rnn"),
};

}  // namespace

std::span<const OpDef> recurrent_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
