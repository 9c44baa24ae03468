#include "compiler/views.hpp"

#include <algorithm>

#include "tilemesh/types/strided.hpp"

namespace tilemesh {

namespace {

// The loops over memory, without those of one step, neighbours on one dim as one.
std::vector<LayoutLoop> essential_loops(const Layout& layout, const Shape& shape) {
  std::vector<LayoutLoop> loops;
  for (const LayoutLoop& loop : layout_loops(layout, shape)) {
    if (loop.size == 1) continue;
    if (!loops.empty() && loops.back().dim == loop.dim &&
        loops.back().dim_step == loop.size * loop.dim_step &&
        loops.back().stride == loop.size * loop.stride) {
      const std::int64_t outer = loops.back().size;
      loops.back() = {loop.dim, outer * loop.size, loop.dim_step, loop.stride};
    } else {
      loops.push_back(loop);
    }
  }
  return loops;
}

}  // namespace

bool is_same_memory(const Layout& a, const Layout& b, const Shape& shape) {
  if (a == b) return true;
  if (a.is_opaque() || b.is_opaque()) return false;
  return a.element_count(shape) == b.element_count(shape) &&
         std::ranges::equal(essential_loops(a, shape), essential_loops(b, shape),
                            [](const LayoutLoop& x, const LayoutLoop& y) {
                              return x.dim == y.dim && x.size == y.size &&
                                     x.dim_step == y.dim_step && x.stride == y.stride;
                            });
}

std::optional<Layout> transposed_layout(const Layout& layout,
                                        const std::vector<std::int64_t>& order) {
  if (layout.is_opaque() || !layout.blocks().empty()) return std::nullopt;
  Layout::Order result;
  for (const std::int8_t dim : layout.order(static_cast<int>(order.size()))) {
    result.push_back(static_cast<std::int8_t>(std::ranges::find(order, dim) - order.begin()));
  }
  return Layout(result, {});
}

bool is_free_view(const OpCall& call) {
  const std::string_view op = call.def->name;
  if (!call.def->is_view && op != "convert" && op != "transpose") return false;
  const OperandType& in = call.inputs[0];
  const OperandType& out = call.outputs[0];
  if (!call.epilogue.empty() || !in.present || in.dtype != out.dtype) return false;
  if (op == "transpose") {
    const auto expected = transposed_layout(in.layout, call.attributes.integers("order"));
    return expected && is_same_memory(*expected, out.layout, out.shape);
  }
  if (in.shape == out.shape) return is_same_memory(in.layout, out.layout, in.shape);
  return is_same_memory(in.layout, Layout::rows(), in.shape) &&
         is_same_memory(out.layout, Layout::rows(), out.shape);
}

}  // namespace tilemesh
