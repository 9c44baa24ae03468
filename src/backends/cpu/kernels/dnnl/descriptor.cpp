#include "backends/cpu/kernels/dnnl/descriptor.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "backends/cpu/kernels/dnnl/adapter.hpp"

namespace tilemesh::cpu::onednn {
namespace {

using BlockList = std::vector<Layout::Block>;
using DimList = std::vector<std::int64_t>;

std::size_t at(int dim) {
  return static_cast<std::size_t>(dim);
}

/// Fills a descriptor from dims, an order of the outer loops and inner blocks.
dnnl::memory::desc build(dnnl::memory::data_type type, const DimList& dims,
                         const std::vector<int>& order, const BlockList& blocks) {
  require(dims.size() <= DNNL_MAX_NDIMS && blocks.size() <= DNNL_MAX_NDIMS,
          "more dims or blocks than oneDNN has");
  require(std::ranges::all_of(dims, [](std::int64_t size) { return size > 0; }),
          "a dim has size zero");
  require(std::ranges::all_of(dims, fits_an_int), "a dim is larger than oneDNN counts");
  dnnl_memory_desc_t desc{};
  desc.ndims = static_cast<int>(dims.size());
  desc.data_type = static_cast<dnnl_data_type_t>(type);
  desc.format_kind = dnnl_blocked;
  dnnl_blocking_desc_t& blocking = desc.format_desc.blocking;
  DimList block_of(dims.size(), 1);
  std::int64_t stride = 1;
  for (const Layout::Block& block : blocks) {
    blocking.inner_blks[blocking.inner_nblks] = block.size;
    blocking.inner_idxs[blocking.inner_nblks] = block.dim;
    ++blocking.inner_nblks;
    block_of[at(block.dim)] *= block.size;
    stride *= block.size;
  }
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    desc.dims[dim] = dims[dim];
    desc.padded_dims[dim] = round_up(dims[dim], block_of[dim]);
  }
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    require(fits_an_int(stride), "a stride is larger than oneDNN counts");
    blocking.strides[*dim] = stride;
    stride = checked_mul(stride, desc.padded_dims[*dim] / block_of[at(*dim)]);
  }
  return dnnl::memory::desc(desc);
}

/// The outer loops' dims, outermost first. Dims of one step can stand anywhere: they keep their
/// natural place as far as the others allow.
std::vector<int> order_of(const dnnl_memory_desc_t& desc, const DimList& steps) {
  const dnnl_dims_t& strides = desc.format_desc.blocking.strides;
  std::vector<int> long_dims;
  for (int dim = 0; dim < desc.ndims; ++dim) {
    if (steps[at(dim)] > 1) {
      long_dims.push_back(dim);
    }
  }
  std::ranges::stable_sort(long_dims, [&](int a, int b) { return strides[a] > strides[b]; });
  if (std::ranges::is_sorted(long_dims)) {
    std::vector<int> natural(at(desc.ndims));
    std::iota(natural.begin(), natural.end(), 0);
    return natural;
  }
  std::vector<int> order(at(desc.ndims));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : steps[at(a)] > steps[at(b)];
  });
  return order;
}

bool is_plain_blocked(const dnnl_memory_desc_t& desc) {
  return desc.format_kind == dnnl_blocked && desc.extra.flags == dnnl_memory_extra_flag_none &&
         desc.offset0 == 0 &&
         std::all_of(desc.padded_offsets, desc.padded_offsets + desc.ndims,
                     [](dnnl_dim_t offset) { return offset == 0; });
}

DimList dim_list(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

std::vector<int> order_list(const Layout& layout, int rank) {
  const Layout::Order order = layout.order(rank);
  return {order.begin(), order.end()};
}

}  // namespace

bool fits_an_int(std::int64_t number) {
  return number >= std::numeric_limits<int>::min() && number <= std::numeric_limits<int>::max();
}

dnnl::memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnnl::memory::data_type::f32;
    case DType::f16: return dnnl::memory::data_type::f16;
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::i32: return dnnl::memory::data_type::s32;
    case DType::i8: return dnnl::memory::data_type::s8;
    case DType::u8:
    case DType::boolean: return dnnl::memory::data_type::u8;
    default: throw Refused{fmt::format("oneDNN has no element type {}", to_string(dtype))};
  }
}

DType carrier_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return DType::u8;
    case 4: return DType::i32;
    default: break;
  }
  // bf16 is the only type of two bytes that is moved without a detour over f32.
  require(dtype == DType::bf16, fmt::format("oneDNN doesn't move {}", to_string(dtype)));
  return dtype;
}

dnnl::memory::dims dims_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

dnnl::memory::desc describe(DType dtype, const Shape& shape, const Layout& layout) {
  require(!layout.is_opaque(), "an opaque layout");
  const dnnl::memory::data_type type = data_type(dtype);
  if (shape.rank() == 0) {
    return build(type, {1}, {0}, {});
  }
  return build(type, dim_list(shape), order_list(layout, shape.rank()),
               {layout.blocks().begin(), layout.blocks().end()});
}

dnnl::memory::desc describe(const OperandType& operand) {
  return describe(operand.dtype, operand.shape, operand.layout);
}

dnnl::memory::desc describe_any(DType dtype, const dnnl::memory::dims& dims) {
  require(std::ranges::all_of(dims, fits_an_int), "a dim is larger than oneDNN counts");
  return {dims, data_type(dtype), dnnl::memory::format_tag::any};
}

std::optional<Layout> read_layout(const dnnl::memory::desc& memory_desc) {
  const dnnl_memory_desc_t& desc = memory_desc.data;
  if (!is_plain_blocked(desc) || desc.ndims > kMaxRank) {
    return std::nullopt;
  }
  const dnnl_blocking_desc_t& blocking = desc.format_desc.blocking;
  Layout::Blocks blocks;
  if (blocking.inner_nblks > 6) {
    return std::nullopt;
  }
  DimList steps(desc.padded_dims, desc.padded_dims + desc.ndims);
  std::int64_t stride = 1;
  for (int block = 0; block < blocking.inner_nblks; ++block) {
    const auto dim = static_cast<std::int32_t>(blocking.inner_idxs[block]);
    const auto size = static_cast<std::int32_t>(blocking.inner_blks[block]);
    steps[at(dim)] /= size;
    stride *= size;
    if (size > 1) {
      blocks.push_back({dim, size});
    }
  }
  const std::vector<int> order = order_of(desc, steps);
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    if (steps[at(*dim)] > 1 && blocking.strides[*dim] != stride) {
      return std::nullopt;  // gaps
    }
    stride *= steps[at(*dim)];
  }
  const Layout layout(Layout::Order(order.begin(), order.end()), blocks);
  for (int dim = 0; dim < desc.ndims; ++dim) {
    if (desc.padded_dims[dim] != round_up(desc.dims[dim], layout.block_of(dim))) {
      return std::nullopt;
    }
  }
  return layout;
}

dnnl::memory::desc describe_grouped(DType dtype, const Shape& shape, const Layout& layout,
                                    std::int64_t groups) {
  if (groups == 1) {
    return describe(dtype, shape, layout);
  }
  require(!layout.is_opaque(), "an opaque layout");
  const std::int64_t outputs = shape[0] / groups;
  DimList dims{groups, outputs};
  dims.insert(dims.end(), shape.begin() + 1, shape.end());
  BlockList blocks(layout.blocks().begin(), layout.blocks().end());
  if (outputs > 1) {
    require(outputs % layout.block_of(0) == 0, "blocks of the weights cross groups");
  }
  for (Layout::Block& block : blocks) {
    // With one output a group the block is on the groups.
    block.dim += block.dim > 0 || outputs > 1 ? 1 : 0;
  }
  std::vector<int> order;
  const std::vector<int> plain = order_list(layout, shape.rank());
  for (const int dim : plain) {
    if (dim > 0) {
      order.push_back(dim + 1);
    } else if (order.empty() || outputs > 1) {
      order.insert(order.end(), {0, 1});
    } else {
      order.insert(order.end(), {1, 0});
    }
  }
  return build(data_type(dtype), dims, order, blocks);
}

std::optional<Layout> read_grouped_layout(const dnnl::memory::desc& memory_desc,
                                          std::int64_t groups) {
  if (groups == 1) {
    return read_layout(memory_desc);
  }
  const dnnl_memory_desc_t& grouped = memory_desc.data;
  if (!is_plain_blocked(grouped)) {
    return std::nullopt;
  }
  const dnnl_blocking_desc_t& blocking = grouped.format_desc.blocking;
  const std::int64_t outputs = grouped.dims[1];
  dnnl_memory_desc_t merged = grouped;
  merged.ndims = grouped.ndims - 1;
  dnnl_blocking_desc_t& target = merged.format_desc.blocking;
  std::int64_t output_block = 1;
  for (int block = 0; block < blocking.inner_nblks; ++block) {
    const dnnl_dim_t dim = blocking.inner_idxs[block];
    if (dim == 0 && outputs > 1) {
      return std::nullopt;
    }
    if (dim == 1) {
      output_block *= blocking.inner_blks[block];
    }
    target.inner_idxs[block] = std::max<dnnl_dim_t>(dim - 1, 0);
  }
  for (int dim = 1; dim < merged.ndims; ++dim) {
    merged.dims[dim] = grouped.dims[dim + 1];
    merged.padded_dims[dim] = grouped.padded_dims[dim + 1];
    target.strides[dim] = blocking.strides[dim + 1];
  }
  const bool one_output = grouped.padded_dims[1] == 1;
  if (!one_output && (grouped.padded_dims[1] != outputs ||
                      (outputs > output_block &&
                       blocking.strides[0] != blocking.strides[1] * (outputs / output_block)))) {
    return std::nullopt;  // padded within each group, or groups apart
  }
  merged.dims[0] = grouped.dims[0] * outputs;
  merged.padded_dims[0] = grouped.padded_dims[0] * grouped.padded_dims[1];
  // Of outputs that are one block the groups' stride is the outer loop's.
  target.strides[0] = outputs > output_block ? blocking.strides[1] : blocking.strides[0];
  return read_layout(dnnl::memory::desc(merged));
}

}  // namespace tilemesh::cpu::onednn
