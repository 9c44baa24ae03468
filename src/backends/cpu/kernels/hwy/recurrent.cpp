#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "chunk.hpp"
#include "dot_products.hpp"
#include "offers.hpp"

/// lstm and gru with their usual activations, f32, rows. The projection of the inputs is one
/// product over many steps of the sequence; then the steps run one by one.
namespace tilemesh::cpu::highway {
namespace {

enum Input : std::size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

/// Elements of projected gates that are kept at a time.
constexpr std::int64_t kProjected = 1 << 18;

struct Sizes {
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 1, gates = 4;
  std::int64_t rows() const { return gates * hidden; }
  std::int64_t state() const { return batch * hidden; }
};

void apply(ChunkFn fn, std::int64_t count, float* out, const float* x, const float* y = nullptr) {
  fn({.in = {reinterpret_cast<const std::byte*>(x), reinterpret_cast<const std::byte*>(y)},
      .out = reinterpret_cast<std::byte*>(out),
      .count = count});
}

class RecurrentKernel : public Kernel {
 public:
  RecurrentKernel(const OpCall& call, std::int64_t gates) : place_(call.inputs.size()) {
    const Shape& x = call.inputs[kX].shape;
    sizes_ = {.steps = x[0],
              .batch = x[1],
              .input = x[2],
              .hidden = call.attributes.integer("hidden_size"),
              .gates = gates};
    const std::string& direction = call.attributes.text("direction");
    reverse_ = direction == "reverse";
    sizes_.directions = direction == "bidirectional" ? 2 : 1;
    const auto present = [&](std::size_t i) {
      return i < call.inputs.size() && call.inputs[i].present;
    };
    has_bias_ = present(kB);
    has_h_ = present(kInitialH);
    has_c_ = gates == 4 && present(kInitialC);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      has_output_[i] = call.outputs[i].present;
    }
    const std::int64_t step_elements = std::max<std::int64_t>(sizes_.batch * sizes_.rows(), 1);
    group_ = std::clamp<std::int64_t>(kProjected / step_elements, 1,
                                      std::max<std::int64_t>(sizes_.steps, 1));
  }

  int threads() const override { return 1; }
  std::int64_t scratch_bytes() const override {
    const std::int64_t elements = group_ * sizes_.batch * sizes_.rows() + 2 * sizes_.state() +
                                  sizes_.rows() + work_elements();
    return elements * 4;
  }

  void run(std::byte* const* operands, std::byte* scratch) override {
    projected_ = reinterpret_cast<float*>(scratch);
    h_ = projected_ + group_ * sizes_.batch * sizes_.rows();
    c_ = h_ + sizes_.state();
    bias_ = c_ + sizes_.state();
    work_ = bias_ + sizes_.rows();
    for (std::int64_t d = 0; d < sizes_.directions; ++d) {
      run_direction(operands, d);
    }
  }

 protected:
  /// Elements of `work_`.
  virtual std::int64_t work_elements() const = 0;
  /// What is added to the projected inputs: `both` has the biases of W, then those of R.
  virtual void sum_bias(const float* both, float* bias) = 0;
  /// Advances h_ (and c_) by one step of the sequence, whose gates [batch, rows] hold what comes
  /// from the inputs.
  virtual void step(float* gates) = 0;

  Sizes sizes_;
  RowsOf r_;                     // of the direction at work
  const float* both_ = nullptr;  // its biases, or null
  float* h_ = nullptr;
  float* c_ = nullptr;
  float* work_ = nullptr;
  AddDotProductsFn add_products_ = add_dot_products();
  ChunkFn sigmoid_ = float_chunk(ScalarFn::sigmoid);
  ChunkFn tanh_ = float_chunk(ScalarFn::tanh);
  ChunkFn add_ = float_chunk(ScalarFn::add);
  ChunkFn sub_ = float_chunk(ScalarFn::sub);
  ChunkFn mul_ = float_chunk(ScalarFn::mul);

 private:
  static const float* floats(const std::byte* operand, std::int64_t offset) {
    return reinterpret_cast<const float*>(operand) + offset;
  }

  static void load_state(float* state, const float* from, std::int64_t count) {
    if (count == 0) return;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (from == nullptr) {
      std::memset(state, 0, bytes);
    } else {
      std::memcpy(state, from, bytes);
    }
  }

  void store_state(std::byte* const* operands, std::size_t output, std::int64_t direction,
                   const float* state) const {
    if (!has_output_[output] || sizes_.state() == 0) return;
    std::memcpy(operands[place_ + output] + direction * sizes_.state() * 4, state,
                static_cast<std::size_t>(sizes_.state()) * sizeof(float));
  }

  void run_direction(std::byte* const* operands, std::int64_t d) {
    const std::int64_t rows = sizes_.rows();
    const RowsOf w{floats(operands[kW], d * rows * sizes_.input), rows, sizes_.input};
    r_ = {floats(operands[kR], d * rows * sizes_.hidden), rows, sizes_.hidden};
    both_ = has_bias_ ? floats(operands[kB], d * 2 * rows) : nullptr;
    if (has_bias_) sum_bias(both_, bias_);
    const std::int64_t state = d * sizes_.state();
    load_state(h_, has_h_ ? floats(operands[kInitialH], state) : nullptr, sizes_.state());
    load_state(c_, has_c_ ? floats(operands[kInitialC], state) : nullptr, sizes_.state());
    const bool backwards = reverse_ || d == 1;
    for (std::int64_t done = 0; done < sizes_.steps; done += group_) {
      const std::int64_t count = std::min(group_, sizes_.steps - done);
      const std::int64_t first = backwards ? sizes_.steps - done - count : done;
      project(operands[kX], w, first, count);
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t at = backwards ? count - 1 - k : k;
        step(projected_ + at * sizes_.batch * rows);
        if (!has_output_[0] || sizes_.state() == 0) continue;
        const std::int64_t y = ((first + at) * sizes_.directions + d) * sizes_.state();
        std::memcpy(operands[place_] + y * 4, h_,
                    static_cast<std::size_t>(sizes_.state()) * sizeof(float));
      }
    }
    store_state(operands, 1, d, h_);
    store_state(operands, 2, d, c_);
  }

  /// The inputs' part of the gates of `count` steps from `first` on.
  void project(const std::byte* x, const RowsOf& w, std::int64_t first, std::int64_t count) {
    const std::int64_t rows = count * sizes_.batch;
    for (std::int64_t i = 0; i < rows; ++i) {
      load_state(projected_ + i * w.rows, both_ == nullptr ? nullptr : bias_, w.rows);
    }
    const RowsOf inputs{floats(x, first * sizes_.batch * sizes_.input), rows, sizes_.input};
    add_products_(inputs, w, sizes_.input, projected_, w.rows);
  }

  std::size_t place_;  // of the first output
  std::array<bool, 3> has_output_{};
  bool reverse_ = false;
  bool has_bias_ = false;
  bool has_h_ = false;
  bool has_c_ = false;
  std::int64_t group_ = 1;  // steps that are projected together
  float* projected_ = nullptr;
  float* bias_ = nullptr;
};

class LstmKernel final : public RecurrentKernel {
 public:
  explicit LstmKernel(const OpCall& call) : RecurrentKernel(call, 4) {}
  std::string_view name() const override { return "highway:lstm"; }

 private:
  std::int64_t work_elements() const override { return 0; }
  void sum_bias(const float* both, float* bias) override {
    apply(add_, sizes_.rows(), bias, both, both + sizes_.rows());
  }
  void step(float* gates) override {
    const std::int64_t n = sizes_.hidden;
    add_products_({h_, sizes_.batch, n}, r_, n, gates, sizes_.rows());
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      float* in = gates + b * sizes_.rows();  // then out, forget, cell
      float* out = in + n;
      float* forget = out + n;
      float* cell = forget + n;
      float* c = c_ + b * n;
      apply(sigmoid_, 3 * n, in, in);
      apply(tanh_, n, cell, cell);
      apply(mul_, n, in, in, cell);
      apply(mul_, n, c, c, forget);
      apply(add_, n, c, c, in);
      apply(tanh_, n, cell, c);
      apply(mul_, n, h_ + b * n, out, cell);
    }
  }
};

class GruKernel final : public RecurrentKernel {
 public:
  explicit GruKernel(const OpCall& call)
      : RecurrentKernel(call, 3),
        reset_after_(call.attributes.integer("linear_before_reset") != 0) {}
  std::string_view name() const override { return "highway:gru"; }

 private:
  std::int64_t work_elements() const override { return sizes_.state(); }
  void sum_bias(const float* both, float* bias) override {
    const std::int64_t n = sizes_.hidden;
    const std::int64_t summed = reset_after_ ? 2 * n : 3 * n;
    apply(add_, summed, bias, both, both + 3 * n);
    // The candidate's bias of R is multiplied by the reset gate as well.
    if (reset_after_) std::memcpy(bias + 2 * n, both + 2 * n, static_cast<std::size_t>(n) * 4);
  }

  void step(float* gates) override {
    const std::int64_t n = sizes_.hidden;
    const std::int64_t rows = sizes_.rows();
    const RowsOf of_gates{r_.data, 2 * n, n};
    const RowsOf of_candidate{r_.data + 2 * n * n, n, n};
    add_products_({h_, sizes_.batch, n}, of_gates, n, gates, rows);
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      float* update = gates + b * rows;  // then reset, candidate
      float* work = work_ + b * n;
      apply(sigmoid_, 2 * n, update, update);
      if (!reset_after_) {
        apply(mul_, n, work, update + n, h_ + b * n);
      } else if (both_ != nullptr) {
        std::memcpy(work, both_ + 5 * n, static_cast<std::size_t>(n) * 4);
      } else {
        std::memset(work, 0, static_cast<std::size_t>(n) * 4);
      }
    }
    if (reset_after_) {
      add_products_({h_, sizes_.batch, n}, of_candidate, n, work_, n);
    } else {
      add_products_({work_, sizes_.batch, n}, of_candidate, n, gates + 2 * n, rows);
    }
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      float* update = gates + b * rows;
      float* reset = update + n;
      float* candidate = reset + n;
      float* h = h_ + b * n;
      if (reset_after_) {
        apply(mul_, n, reset, reset, work_ + b * n);
        apply(add_, n, candidate, candidate, reset);
      }
      apply(tanh_, n, candidate, candidate);
      // (1 - z) n + z h = n + z (h - n)
      apply(sub_, n, h, h, candidate);
      apply(mul_, n, h, h, update);
      apply(add_, n, h, h, candidate);
    }
  }

  bool reset_after_;
};

/// Empty, or what of a call is not covered.
std::string why_not_recurrent(const OpCall& call, std::string_view activations) {
  if (std::string reason = why_not(call); !reason.empty()) return reason;
  for (std::size_t i = 0; i < call.inputs.size() + call.outputs.size(); ++i) {
    const OperandType& type =
        i < call.inputs.size() ? call.inputs[i] : call.outputs[i - call.inputs.size()];
    if (type.present && !type.layout.is_rows()) return "a layout other than rows";
  }
  if (call.inputs[kX].dtype != DType::f32) return "a dtype other than f32";
  for (const std::size_t input : {std::size_t{kLengths}, std::size_t{kPeepholes}}) {
    if (input < call.inputs.size() && call.inputs[input].present) {
      return input == kLengths ? "sequence lengths" : "peepholes";
    }
  }
  if (call.attributes.number("clip") != 0) return "clipping";
  const std::string& given = call.attributes.text("activations");
  const std::string twice = fmt::format("{0},{0}", activations);
  if (given != activations && given != twice) return "activations: " + given;
  return "";
}

}  // namespace

KernelOffer offer_lstm(const OpCall& call, const KernelContext& /*context*/) {
  if (std::string reason = why_not_recurrent(call, "sigmoid,tanh,tanh"); !reason.empty()) {
    return {nullptr, reason};
  }
  if (call.attributes.integer("input_forget") != 0) return {nullptr, "coupled gates"};
  return {std::make_unique<LstmKernel>(call), ""};
}

KernelOffer offer_gru(const OpCall& call, const KernelContext& /*context*/) {
  if (std::string reason = why_not_recurrent(call, "sigmoid,tanh"); !reason.empty()) {
    return {nullptr, reason};
  }
  return {std::make_unique<GruKernel>(call), ""};
}

}  // namespace tilemesh::cpu::highway
