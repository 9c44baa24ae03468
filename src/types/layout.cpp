#include "tilemesh/types/layout.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/math.hpp"

namespace tilemesh {
namespace {

void check_order(const Layout::Order& order) {
  unsigned seen = 0;
  for (const std::int8_t dim : order) {
    const bool inside = dim >= 0 && static_cast<std::size_t>(dim) < order.size();
    if (!inside || (seen & (1u << dim)) != 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("layout order ({}) is no permutation of its {} dims",
                              fmt::join(order.begin(), order.end(), ","), order.size()));
    }
    seen |= 1u << dim;
  }
}

void check_blocks(const Layout::Blocks& blocks, std::size_t rank_bound) {
  for (const Layout::Block& block : blocks) {
    if (block.dim < 0 || static_cast<std::size_t>(block.dim) >= rank_bound) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("layout block of {} is on dim {}, but there are only {} dims",
                              block.size, block.dim, rank_bound));
    }
    if (block.size < 2) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("layout block on dim {} has the size {}: a block has 2 or more",
                              block.dim, block.size));
    }
  }
}

bool is_identity(const Layout::Order& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int8_t>(i)) return false;
  }
  return true;
}

}  // namespace

Layout::Layout(const Order& order, const Blocks& blocks) : blocks_(blocks) {
  check_order(order);
  check_blocks(blocks, order.empty() ? static_cast<std::size_t>(kMaxRank) : order.size());
  if (!is_identity(order)) order_ = order;
  std::int64_t product = 1;  // of all blocks, so that block_of never overflows
  for (const Block& block : blocks_)
    product = checked_mul(product, block.size);
}

Layout Layout::channels_last(int rank) {
  if (rank < 2 || rank > kMaxRank) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("channels-last wants a rank of 2 to {}, got {}", kMaxRank, rank));
  }
  Order order{0};
  for (int dim = 2; dim < rank; ++dim)
    order.push_back(static_cast<std::int8_t>(dim));
  order.push_back(1);
  return {order, {}};
}

Layout Layout::blocked(int dim, int size) {
  return {{}, Blocks{{dim, size}}};
}

Layout Layout::tiled(int rank, int rows, int columns) {
  if (rank < 2 || rank > kMaxRank) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a tiled layout wants a rank of 2 to {}, got {}", kMaxRank, rank));
  }
  return {{}, Blocks{{rank - 2, rows}, {rank - 1, columns}}};
}

Layout Layout::opaque(Opaque opaque) {
  if (opaque.backend.empty() || opaque.backend.find(':') != std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("opaque layout: \"{}\" is no backend name: it is not empty and has no "
                            "colon",
                            opaque.backend));
  }
  if (opaque.bytes < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("opaque layout \"{}:{}\" has {} bytes: a size is 0 or more",
                            opaque.backend, opaque.tag, opaque.bytes));
  }
  Layout layout;
  layout.opaque_ = std::make_shared<const Opaque>(std::move(opaque));
  return layout;
}

Layout::Order Layout::order(int rank) const {
  if (!order_.empty()) return order_;
  Order natural;
  natural.resize(static_cast<std::size_t>(rank));
  std::iota(natural.begin(), natural.end(), std::int8_t{0});
  return natural;
}

void Layout::check_rank(int rank) const {
  if (rank < 0 || rank > kMaxRank) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a tensor has a rank of 0 to {}, got {}", kMaxRank, rank));
  }
  if (!order_.empty() && order_.size() != static_cast<std::size_t>(rank)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("layout {} is for rank {}, the tensor has rank {}",
                            to_string(static_cast<int>(order_.size())), order_.size(), rank));
  }
  for (const Block& block : blocks_) {
    if (block.dim >= rank) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("layout {} has a block on dim {}, the tensor has rank {}",
                              to_string(rank), block.dim, rank));
    }
  }
}

std::int64_t Layout::block_of(int dim) const {
  std::int64_t product = 1;
  for (const Block& block : blocks_) {
    if (block.dim == dim) product *= block.size;
  }
  return product;
}

Shape Layout::padded(const Shape& shape) const {
  if (blocks_.empty()) return shape;
  Dims sizes = shape.sizes();
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    const std::int64_t block = block_of(static_cast<int>(dim));
    sizes[dim] = checked_add(sizes[dim], block - 1) / block * block;
  }
  return Shape(sizes);
}

std::int64_t Layout::bytes(const Shape& shape, std::int64_t element_bytes) const {
  if (opaque_) return opaque_->bytes;
  return checked_mul(element_count(shape), element_bytes);
}

}  // namespace tilemesh
