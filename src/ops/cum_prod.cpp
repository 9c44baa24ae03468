#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

void cum_prod_form(AttributeForm& form) {
  form.axis("axis", form.rank(), 0);
  form.flag("exclusive", false);
  form.flag("reverse", false);
}

int axis_of(const OpCall& call) {
  return static_cast<int>(call.attributes.integer("axis"));
}

std::vector<OperandType> infer_cum_prod(const OpCall& call) {
  require_type(call, 0, Types::number);
  return {rows(call.inputs[0].dtype, call.inputs[0].shape)};
}

Factors cum_prod_factors(const OpCall& call) {
  return all_but_axis(call, axis_of(call));
}

void run_cum_prod(const OpCall& call, Inputs inputs, Outputs outputs) {
  const AxisView view = around(call.inputs[0].shape, axis_of(call));
  const bool exclusive = call.attributes.integer("exclusive") != 0;
  const bool reverse = call.attributes.integer("reverse") != 0;
  visit_wide(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loaded<T> x(inputs[0], call.inputs[0]);
    auto y = zeros<T>(call.inputs[0].shape.element_count());
    for (std::int64_t lane = 0; lane < view.outer * view.inner; ++lane) {
      const std::int64_t first = lane / view.inner * view.size * view.inner + lane % view.inner;
      T product{1};
      for (std::int64_t k = 0; k < view.size; ++k) {
        const std::int64_t at = first + (reverse ? view.size - 1 - k : k) * view.inner;
        const T before = product;
        product = wrapping_mul(product, x[at]);
        y[static_cast<std::size_t>(at)] = exclusive ? before : product;
      }
    }
    store(y, call.outputs[0], outputs[0]);
  });
}

constexpr OpDef kOps[] = {
    {.name = "cum_prod",
     .canonical = cum_prod_form,
     .infer = infer_cum_prod,
     .factors = cum_prod_factors,
     .reference = run_cum_prod},
};

}  // namespace

std::span<const OpDef> cum_prod_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
