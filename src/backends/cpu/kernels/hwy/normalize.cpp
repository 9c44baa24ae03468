#include <algorithm>
#include <string>

#include "tilemesh/base/math.hpp"

#include "chunk.hpp"
#include "offers.hpp"
#include "parallel.hpp"
#include "reduce_math.hpp"

/// softmax, log_softmax, layer and instance normalisation of f32 along memory.
namespace tilemesh::cpu::highway {
namespace {

constexpr double kNanosecondsPerElement = 0.6;

struct Lines {
  std::int64_t count = 1;
  std::int64_t size = 1;
};
/// The lines of a row-major tensor from `axis` on to its end.
Lines lines_of(const Shape& shape, int axis) {
  Lines lines;
  for (int d = 0; d < shape.rank(); ++d) {
    (d < axis ? lines.count : lines.size) *= shape[d];
  }
  return lines;
}

int threads_of(const Lines& lines, int device_threads) {
  return threads_for(
      static_cast<double>(lines.count) * static_cast<double>(lines.size) * kNanosecondsPerElement,
      device_threads);
}

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const Lines& lines, bool logarithm, int device_threads)
      : lines_(lines), logarithm_(logarithm), threads_(threads_of(lines, device_threads)) {
    const RowFns fns = row_fns();
    fn_ = logarithm ? fns.log_softmax : fns.softmax;
  }
  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const auto* x = reinterpret_cast<const float*>(operands[0]);
    auto* y = reinterpret_cast<float*>(operands[1]);
    if (lines_.size == 0) return;
    parallel_for(threads_, lines_.count, [&](int, std::int64_t begin, std::int64_t end) {
      fn_(x + begin * lines_.size, y + begin * lines_.size, end - begin, lines_.size);
    });
  }
  int threads() const override { return threads_; }
  std::string_view name() const override {
    return logarithm_ ? "highway:log_softmax" : "highway:softmax";
  }

 private:
  Lines lines_;
  bool logarithm_;
  int threads_;
  decltype(RowFns::softmax) fn_ = nullptr;
};

/// Along a dim that isn't the last: [outer, size, inner], a row of `inner` at a time.
class AcrossSoftmaxKernel final : public Kernel {
 public:
  AcrossSoftmaxKernel(const Shape& shape, int axis, bool logarithm, int device_threads)
      : logarithm_(logarithm) {
    for (int d = 0; d < shape.rank(); ++d) {
      (d < axis ? outer_ : d == axis ? size_ : inner_) *= shape[d];
    }
    threads_ = threads_of({outer_, size_ * inner_}, device_threads);
    row_bytes_ = round_up(inner_ * 4, std::int64_t{64});
  }
  std::int64_t scratch_bytes() const override { return threads_ * kRows * row_bytes_; }
  void run(std::byte* const* operands, std::byte* scratch) override {
    const auto* x = reinterpret_cast<const float*>(operands[0]);
    auto* y = reinterpret_cast<float*>(operands[1]);
    parallel_for(threads_, outer_, [&](int thread, std::int64_t begin, std::int64_t end) {
      const auto row = [&](std::int64_t k) {
        return reinterpret_cast<float*>(scratch + (thread * kRows + k) * row_bytes_);
      };
      for (std::int64_t o = begin; o < end; ++o) {
        const std::int64_t first = o * size_ * inner_;
        run_one(x + first, y + first, row(0), row(1), row(2));
      }
    });
  }
  int threads() const override { return threads_; }
  std::string_view name() const override {
    return logarithm_ ? "highway:log_softmax" : "highway:softmax";
  }

 private:
  static constexpr std::int64_t kRows = 3;

  void apply(ChunkFn fn, float* out, const float* a, const float* b = nullptr) const {
    fn({.in = {reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b)},
        .out = reinterpret_cast<std::byte*>(out),
        .count = inner_});
  }

  void run_one(const float* x, float* y, float* top, float* sum, float* work) const {
    max_(x, size_, inner_, inner_, top, false);
    std::fill_n(sum, inner_, 0.0f);
    for (std::int64_t k = 0; k < size_; ++k) {
      float* out = y + k * inner_;
      apply(sub_, out, x + k * inner_, top);
      apply(exp_, logarithm_ ? work : out, out);
      apply(add_, sum, sum, logarithm_ ? work : out);
    }
    if (logarithm_) apply(log_, sum, sum);
    for (std::int64_t k = 0; k < size_; ++k) {
      float* out = y + k * inner_;
      apply(logarithm_ ? sub_ : div_, out, out, sum);
    }
  }

  bool logarithm_;
  std::int64_t outer_ = 1;
  std::int64_t size_ = 1;
  std::int64_t inner_ = 1;
  int threads_ = 1;
  std::int64_t row_bytes_ = 0;
  decltype(ReduceFns::across) max_ = reduce_fns(Reduction::max).across;
  ChunkFn sub_ = float_chunk(ScalarFn::sub);
  ChunkFn exp_ = float_chunk(ScalarFn::exp);
  ChunkFn add_ = float_chunk(ScalarFn::add);
  ChunkFn log_ = float_chunk(ScalarFn::log);
  ChunkFn div_ = float_chunk(ScalarFn::div);
};

class LayerNormKernel final : public Kernel {
 public:
  LayerNormKernel(const OpCall& call, const Lines& lines, int device_threads)
      : lines_(lines),
        epsilon_(static_cast<float>(call.attributes.number("epsilon"))),
        has_bias_(call.inputs.size() > 2 && call.inputs[2].present),
        place_(call.inputs.size()),
        threads_(threads_of(lines, device_threads)) {
    const auto present = [&](std::size_t i) {
      return i < call.outputs.size() && call.outputs[i].present;
    };
    has_mean_ = present(1);
    has_inverse_ = present(2);
  }
  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const auto floats = [&](std::size_t i) {
      return reinterpret_cast<float*>(operands[i]);
    };
    const float* x = floats(0);
    const float* scale = floats(1);
    const float* bias = has_bias_ ? floats(2) : nullptr;
    float* y = floats(place_);
    float* means = has_mean_ ? floats(place_ + 1) : nullptr;
    float* inverses = has_inverse_ ? floats(place_ + 2) : nullptr;
    parallel_for(threads_, lines_.count, [&](int, std::int64_t begin, std::int64_t end) {
      const auto from = [begin](float* all, std::int64_t step) {
        return all == nullptr ? nullptr : all + begin * step;
      };
      layer_norm_({.x = x + begin * lines_.size,
                   .scale = scale,
                   .bias = bias,
                   .y = from(y, lines_.size),
                   .count = end - begin,
                   .size = lines_.size},
                  epsilon_, from(means, 1), from(inverses, 1));
    });
  }
  int threads() const override { return threads_; }
  std::string_view name() const override { return "highway:layer_normalization"; }

 private:
  Lines lines_;
  float epsilon_;
  bool has_bias_;
  bool has_mean_ = false;
  bool has_inverse_ = false;
  std::size_t place_;
  int threads_;
  decltype(RowFns::layer_norm) layer_norm_ = row_fns().layer_norm;
};

class InstanceNormKernel final : public Kernel {
 public:
  InstanceNormKernel(const OpCall& call, const Lines& lines, int device_threads)
      : lines_(lines),
        channels_(call.inputs[0].shape[1]),
        epsilon_(static_cast<float>(call.attributes.number("epsilon"))),
        threads_(threads_of(lines, device_threads)) {}
  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const auto floats = [&](std::size_t i) {
      return reinterpret_cast<float*>(operands[i]);
    };
    parallel_for(threads_, lines_.count, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t channel = i % channels_;
        const std::int64_t first = i * lines_.size;
        instance_norm_(floats(0) + first, floats(1)[channel], floats(2)[channel], floats(3) + first,
                       lines_.size, epsilon_);
      }
    });
  }
  int threads() const override { return threads_; }
  std::string_view name() const override { return "highway:instance_normalization"; }

 private:
  Lines lines_;
  std::int64_t channels_;
  float epsilon_;
  int threads_;
  decltype(RowFns::instance_norm) instance_norm_ = row_fns().instance_norm;
};

/// Empty, or why not all operands are f32 in rows.
std::string why_not_rows(const OpCall& call) {
  if (std::string reason = why_not(call); !reason.empty()) return reason;
  const auto unfit = [](const OperandType& type) {
    return type.present && (!type.layout.is_rows() || type.dtype != DType::f32);
  };
  if (std::ranges::any_of(call.inputs, unfit) || std::ranges::any_of(call.outputs, unfit)) {
    return "an operand that isn't f32 in rows";
  }
  return "";
}

int axis_of(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

}  // namespace

KernelOffer offer_softmax(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not_rows(call); !reason.empty()) return {nullptr, reason};
  const Shape& shape = call.inputs[0].shape;
  const int axis = axis_of(call);
  const bool logarithm = call.def->name == "log_softmax";
  for (int d = axis + 1; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    return {std::make_unique<AcrossSoftmaxKernel>(shape, axis, logarithm, context.threads), ""};
  }
  return {std::make_unique<SoftmaxKernel>(lines_of(shape, axis), logarithm, context.threads), ""};
}

KernelOffer offer_layer_normalization(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not_rows(call); !reason.empty()) return {nullptr, reason};
  const Lines lines = lines_of(call.inputs[0].shape, axis_of(call));
  if (lines.size == 0) return {nullptr, "no elements"};
  for (std::size_t i = 1; i < std::min<std::size_t>(call.inputs.size(), 3); ++i) {
    const OperandType& type = call.inputs[i];
    if (type.present && type.shape.element_count() != lines.size) {
      return {nullptr, "a scale or bias that is broadcast"};
    }
  }
  if (!call.outputs[0].present) return {nullptr, "no first output"};
  return {std::make_unique<LayerNormKernel>(call, lines, context.threads), ""};
}

KernelOffer offer_instance_normalization(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not_rows(call); !reason.empty()) return {nullptr, reason};
  const Lines lines = lines_of(call.inputs[0].shape, 2);
  if (lines.size == 0) return {nullptr, "no elements"};
  return {std::make_unique<InstanceNormKernel>(call, lines, context.threads), ""};
}

}  // namespace tilemesh::cpu::highway
