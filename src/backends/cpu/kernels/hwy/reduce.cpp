#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "tilemesh/ops/derived.hpp"

#include "chunk.hpp"
#include "nest.hpp"
#include "offers.hpp"
#include "parallel.hpp"
#include "reduce_math.hpp"

namespace tilemesh::cpu::highway {
namespace {

constexpr double kNanosecondsPerElement = 0.15;

/// What becomes of a finished reduction.
enum class Finish : std::uint8_t { nothing, divide, root, logarithm };

struct Rule {
  std::string_view op;
  Reduction reduction;
  Finish finish;
};
constexpr Rule kRules[] = {
    {"reduce_sum", Reduction::sum, Finish::nothing},
    {"reduce_mean", Reduction::sum, Finish::divide},
    {"reduce_max", Reduction::max, Finish::nothing},
    {"reduce_min", Reduction::min, Finish::nothing},
    {"reduce_prod", Reduction::prod, Finish::nothing},
    {"reduce_l1", Reduction::sum_abs, Finish::nothing},
    {"reduce_l2", Reduction::sum_square, Finish::root},
    {"reduce_log_sum", Reduction::sum, Finish::logarithm},
    {"reduce_sum_square", Reduction::sum_square, Finish::nothing},
    {"global_average_pool", Reduction::sum, Finish::divide},
    {"global_max_pool", Reduction::max, Finish::nothing},
};

struct Loop {
  std::int64_t size = 1;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// Loops over what is kept, and within them over what is reduced. Either the innermost kept loop
/// runs along memory and whole rows are added up, or the innermost reduced one does.
class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const OpCall& call, const Rule& rule, const Nest& nest, int device_threads)
      : name_(fmt::format("highway:{}", call.def->name)),
        fns_(reduce_fns(rule.reduction)),
        finish_(rule.finish) {
    for (const NestLoop& loop : nest) {
      const bool reduced = loop.strides[0] == 0 && loop.size != 1;
      (reduced ? reduced_ : kept_).push_back({loop.size, loop.out_stride, loop.strides[0]});
    }
    along_ = nest.back().strides[0] == 0 && nest.back().size != 1;
    if (along_) {
      run_ = reduced_.back();
      reduced_.pop_back();
    } else {
      run_ = kept_.back();
      kept_.pop_back();
    }
    if (!reduced_.empty()) {
      rows_ = reduced_.back();
      reduced_.pop_back();
    }
    std::int64_t elements = run_.size * rows_.size;
    for (const Loop& loop : reduced_) {
      outer_reduced_ *= loop.size;
    }
    for (const Loop& loop : kept_) {
      units_ *= loop.size;
    }
    reduced_count_ = outer_reduced_ * rows_.size * (along_ ? run_.size : 1);
    elements *= outer_reduced_ * units_;
    threads_ = threads_for(static_cast<double>(elements) * kNanosecondsPerElement, device_threads);
    if (call.outputs[0].layout.has_padding(call.outputs[0].shape) && finish_ == Finish::logarithm) {
      padding_ = padding_of(call.outputs[0]);
    }
  }

  void run(std::byte* const* operands, std::byte* /*scratch*/) override {
    const auto* x = reinterpret_cast<const float*>(operands[0]);
    auto* y = reinterpret_cast<float*>(operands[1]);
    parallel_for(threads_, units_, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        std::int64_t rest = unit;
        const float* from = x;
        float* to = y;
        for (std::size_t i = kept_.size(); i-- > 0;) {
          const std::int64_t index = rest % kept_[i].size;
          rest /= kept_[i].size;
          from += index * kept_[i].in;
          to += index * kept_[i].out;
        }
        reduce_unit(from, to);
      }
    });
    fill_with_zeros(padding_, 4, operands[1]);
  }
  int threads() const override { return threads_; }
  std::string_view name() const override { return name_; }

 private:
  void reduce_unit(const float* from, float* to) const {
    float sum = fns_.empty;
    for (std::int64_t k = 0; k < outer_reduced_; ++k) {
      std::int64_t rest = k;
      const float* x = from;
      for (std::size_t i = reduced_.size(); i-- > 0;) {
        x += rest % reduced_[i].size * reduced_[i].in;
        rest /= reduced_[i].size;
      }
      if (!along_) {
        fns_.across(x, rows_.size, rows_.in, run_.size, to, k > 0);
      } else {
        const float part = fns_.along(x, rows_.size, rows_.in, run_.size);
        sum = k == 0 ? part : fns_.join(sum, part);
      }
    }
    if (along_) *to = sum;
    finish(to, along_ ? 1 : run_.size);
  }

  void finish(float* values, std::int64_t count) const {
    if (finish_ == Finish::nothing) return;
    for (std::int64_t i = 0; i < count; ++i) {
      switch (finish_) {
        case Finish::divide: values[i] /= static_cast<float>(reduced_count_); break;
        case Finish::root: values[i] = std::sqrt(values[i]); break;
        case Finish::logarithm: values[i] = std::log(values[i]); break;
        case Finish::nothing: break;
      }
    }
  }

  std::string name_;
  ReduceFns fns_;
  Finish finish_;
  std::vector<Loop> kept_;     // but for run_, if it is one
  std::vector<Loop> reduced_;  // but for rows_ and run_
  Loop run_;                   // along memory
  Loop rows_;                  // the innermost reduced loop beside run_
  bool along_ = true;          // run_ is reduced
  std::int64_t outer_reduced_ = 1;
  std::int64_t reduced_count_ = 1;
  std::int64_t units_ = 1;
  int threads_ = 1;
  std::vector<Box> padding_;
};

std::vector<bool> reduced_dims(const OpCall& call) {
  if (!call.def->name.starts_with("global_")) return ops::reduced_dims(call);
  std::vector<bool> reduced(static_cast<std::size_t>(call.inputs[0].shape.rank()), true);
  reduced[0] = reduced[1] = false;
  return reduced;
}

}  // namespace

KernelOffer offer_reduce(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const OperandType& in = call.inputs[0];
  if (in.dtype != DType::f32) return {nullptr, "a dtype other than f32"};
  const auto* rule = std::ranges::find(kRules, call.def->name, &Rule::op);
  if (rule == std::end(kRules)) return {nullptr, "no such reduction"};
  const std::vector<bool> reduced = reduced_dims(call);
  // The output as it would be with its reduced dims kept.
  OperandType out = call.outputs[0];
  if (out.shape.rank() != in.shape.rank()) {
    if (!out.layout.is_rows()) return {nullptr, "dims dropped from a layout other than rows"};
    Dims sizes = in.shape.sizes();
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (reduced[d]) sizes[d] = 1;
    }
    out.shape = Shape(sizes);
  }
  const Shape padded = in.layout.padded(in.shape);
  for (int d = 0; d < in.shape.rank(); ++d) {
    const bool is_reduced = reduced[static_cast<std::size_t>(d)];
    if (is_reduced && padded[d] != in.shape[d]) return {nullptr, "a reduced dim with padding"};
  }
  if (in.shape.element_count() == 0) return {nullptr, "no elements"};
  const Walk walk(in, std::array<const OperandType*, 1>{&out});
  const NestLoop& inner = walk.nest.back();
  if (!walk.follows[0]) return {nullptr, "layouts that don't follow each other"};
  if (inner.strides[0] > 1) return {nullptr, "an output that isn't dense where the input is"};
  return {std::make_unique<ReduceKernel>(call, *rule, walk.nest, context.threads), ""};
}

}  // namespace tilemesh::cpu::highway
