#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

void cumulative_form(AttributeForm& form) {
  form.axis("axis", form.rank(), 0);
  form.flag("exclusive", false);
  form.flag("reverse", false);
}

int axis_of(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

std::vector<OperandType> infer_cumulative(const OpCall& call) {
  require_type(call, 0, Types::number);
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

Factors cumulative_factors(const OpCall& call) {
  return all_but_axis(call, axis_of(call));
}

/// Along each lane of the axis: `combine` of what came before and the element, from `first` on.
template <class Combine>
void accumulate(const OpCall& call, Inputs inputs, Outputs outputs, int first,
                const Combine& combine) {
  const AxisView view = around(call.inputs[0].shape, axis_of(call));
  const bool exclusive = call.attributes.integer("exclusive") != 0;
  const bool reverse = call.attributes.integer("reverse") != 0;
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> x(inputs[0], call.inputs[0]);
    auto y = zeros<T>(call.inputs[0].shape.element_count());
    for (std::int64_t lane = 0; lane < view.outer * view.inner; ++lane) {
      const std::int64_t start = lane / view.inner * view.size * view.inner + lane % view.inner;
      auto total = static_cast<T>(first);
      for (std::int64_t k = 0; k < view.size; ++k) {
        const std::int64_t at = start + (reverse ? view.size - 1 - k : k) * view.inner;
        const T before = total;
        total = combine(total, x[at]);
        y[static_cast<std::size_t>(at)] = exclusive ? before : total;
      }
    }
    store(y, call.outputs[0], outputs[0]);
  });
}

void run_cum_sum(const OpCall& call, Inputs inputs, Outputs outputs) {
  accumulate(call, inputs, outputs, 0, [](auto a, auto b) { return wrapping_add(a, b); });
}

void run_cum_prod(const OpCall& call, Inputs inputs, Outputs outputs) {
  accumulate(call, inputs, outputs, 1, [](auto a, auto b) { return wrapping_mul(a, b); });
}

constexpr OpDef kOps[] = {
    {.name = "cum_sum",
     .canonical = cumulative_form,
     .infer = infer_cumulative,
     .factors = cumulative_factors,
     .reference = run_cum_sum},
    {.name = "cum_prod",
     .canonical = cumulative_form,
     .infer = infer_cumulative,
     .factors = cumulative_factors,
     .reference = run_cum_prod},
};

}  // namespace

std::span<const OpDef> cumulative_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
