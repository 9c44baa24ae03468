#include <algorithm>
#include <string>

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
      for (std::int64_t i = begin; i < end; ++i) {
        fn_(x + i * lines_.size, y + i * lines_.size, lines_.size);
      }
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
  void (*fn_)(const float* x, float* y, std::int64_t count) = nullptr;
};

class LayerNormKernel final : public Kernel {
 public:
  LayerNormKernel(const OpCall& call, const Lines& lines, int device_threads)
      : lines_(lines),
        epsilon_(static_cast<float>(call.attributes.number_or("epsilon", 1e-5))),
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
      for (std::int64_t i = begin; i < end; ++i) {
        float mean = 0;
        float inverse = 0;
        layer_norm_(x + i * lines_.size, scale, bias, y + i * lines_.size, lines_.size, epsilon_,
                    &mean, &inverse);
        if (means != nullptr) means[i] = mean;
        if (inverses != nullptr) inverses[i] = inverse;
      }
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
        epsilon_(static_cast<float>(call.attributes.number_or("epsilon", 1e-5))),
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
  const std::int64_t axis = call.attributes.integer_or("axis", -1);
  return static_cast<int>(axis < 0 ? axis + call.inputs[0].shape.rank() : axis);
}

}  // namespace

KernelOffer offer_softmax(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not_rows(call); !reason.empty()) return {nullptr, reason};
  const Shape& shape = call.inputs[0].shape;
  const int axis = axis_of(call);
  for (int d = axis + 1; d < shape.rank(); ++d) {
    if (shape[d] != 1) return {nullptr, "an axis that isn't the last"};
  }
  return {std::make_unique<SoftmaxKernel>(lines_of(shape, axis), call.def->name == "log_softmax",
                                          context.threads),
          ""};
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
