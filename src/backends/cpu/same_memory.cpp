#include "backends/cpu/same_memory.hpp"

#include <algorithm>
#include <vector>

#include "tilemesh/types/strided.hpp"

namespace tilemesh::cpu {
namespace {

/// The loops that matter, those of one dim merged where they go on.
std::vector<LayoutLoop> essential_loops(const Layout& layout, const Shape& shape) {
  std::vector<LayoutLoop> loops;
  for (const LayoutLoop& loop : layout_loops(layout, shape)) {
    if (loop.size == 1) {
      continue;
    }
    if (!loops.empty() && loops.back().dim == loop.dim &&
        loops.back().dim_step == loop.size * loop.dim_step &&
        loops.back().stride == loop.size * loop.stride) {
      loops.back() = {loop.dim, loops.back().size * loop.size, loop.dim_step, loop.stride};
    } else {
      loops.push_back(loop);
    }
  }
  return loops;
}

bool is_equal(const LayoutLoop& a, const LayoutLoop& b) {
  return a.dim == b.dim && a.size == b.size && a.dim_step == b.dim_step && a.stride == b.stride;
}

}  // namespace

bool same_memory(const Shape& shape, const Layout& a, const Layout& b) {
  if (a == b) {
    return true;
  }
  if (a.is_opaque() || b.is_opaque() || a.padded(shape) != b.padded(shape)) {
    return false;
  }
  return std::ranges::equal(essential_loops(a, shape), essential_loops(b, shape), is_equal);
}

Layout plain_layout(const Shape& shape, const Layout& layout) {
  return same_memory(shape, layout, Layout::rows()) ? Layout::rows() : layout;
}

}  // namespace tilemesh::cpu
