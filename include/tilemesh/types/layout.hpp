#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tilemesh/types/shape.hpp"

namespace tilemesh {

/// How the elements of one shard lie in memory: an order of dims from outer to inner, then inner
/// blocks (dim, size) from outer to inner. A blocked dim is padded up to a multiple of the product
/// of its blocks; padding is always zero and every reader may rely on that.
///
/// Row-major has no blocks; channels-last is an order; a 32x32 tile is two blocks; oneDNN's nChw16c
/// is one block on dim 1. What can't be said so is opaque: a backend's own form of so many bytes.
/// A value; never allocates unless opaque. The default is row-major of any rank.
class Layout {
 public:
  struct Block {
    std::int32_t dim = 0;
    std::int32_t size = 1;
    friend bool operator==(const Block&, const Block&) = default;
  };
  struct Opaque {
    std::string backend;     ///< who understands it
    std::string tag;         ///< its name there
    std::int64_t bytes = 0;  ///< of one shard
    friend bool operator==(const Opaque&, const Opaque&) = default;
  };
  using Order = InlineVector<std::int8_t, kMaxRank>;
  using Blocks = InlineVector<Block, 6>;

  Layout() = default;
  /// Throws invalid_argument when `order` is no permutation or a block has a wrong dim or size < 2.
  /// An empty order means the natural one. The identity order is kept as the empty one, so that
  /// equal layouts compare equal.
  Layout(const Order& order, const Blocks& blocks);

  static Layout rows() { return {}; }
  /// [N, C, spatial...] stored as N, spatial..., C. rank >= 2.
  static Layout channels_last(int rank);
  /// One block of `size` on `dim`, innermost: blocked(1, 16) is nChw16c.
  static Layout blocked(int dim, int size);
  /// Blocks (rank-2, rows), (rank-1, columns).
  static Layout tiled(int rank, int rows, int columns);
  static Layout opaque(Opaque opaque);

  bool is_rows() const { return order_.empty() && blocks_.empty() && opaque_ == nullptr; }
  bool is_opaque() const { return opaque_ != nullptr; }
  /// Requires is_opaque().
  const Opaque& opaque() const { return *opaque_; }
  const Blocks& blocks() const { return blocks_; }
  /// The order of dims for a tensor of this rank, outer first.
  Order order(int rank) const;

  /// Throws invalid_argument, with the reason, if a tensor of this rank can't have the layout.
  void check_rank(int rank) const;
  /// Product of the blocks on `dim`; 1 if it has none.
  std::int64_t block_of(int dim) const;
  /// The logical shape with every blocked dim rounded up.
  Shape padded(const Shape& shape) const;
  bool has_padding(const Shape& shape) const { return !is_opaque() && padded(shape) != shape; }
  /// Elements in memory, padding included. Not for opaque ones.
  std::int64_t element_count(const Shape& shape) const { return padded(shape).element_count(); }
  /// Bytes in memory of one shard.
  std::int64_t bytes(const Shape& shape, std::int64_t element_bytes) const;

  /// "rows", or in oneDNN's letters: "acdb", "aBcd16b"; "opaque(cpu:winograd:1024)".
  /// An order is written out in full, as many letters as dims; a layout of natural order with
  /// blocks needs the rank to be written.
  std::string to_string(int rank) const;
  /// The inverse of to_string; throws invalid_argument with what is wrong.
  static Layout parse(std::string_view text);

  friend bool operator==(const Layout& a, const Layout& b) {
    return a.order_ == b.order_ && a.blocks_ == b.blocks_ &&
           (a.opaque_ == b.opaque_ || (a.opaque_ && b.opaque_ && *a.opaque_ == *b.opaque_));
  }

 private:
  Order order_;  // empty: natural
  Blocks blocks_;
  std::shared_ptr<const Opaque> opaque_;
};

}  // namespace tilemesh
