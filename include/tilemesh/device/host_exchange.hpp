#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tilemesh/device/communicator.hpp"
#include "tilemesh/device/host_memory.hpp"

namespace tilemesh::detail {

/// Every output becomes in[0] op in[1] op ..., element by element and in this order. Outputs may be
/// inputs.
struct Reduction {
  std::span<const std::byte* const> inputs;  ///< at least one
  std::span<std::byte* const> outputs;       ///< at least one
  std::int64_t elements = 0;
  bool streams = false;  ///< the outputs are too large for any cache, and no inputs
};
/// Carries out a Reduction. f16 and bf16 are accumulated in f32 and rounded once, integers wrap,
/// bool is any or all, the mean divides at the end; max and min give NaN if an element is one, and
/// the later one of zeros of both signs. The bits of results are the same for all processors.
using ReduceFunction = void (*)(const Reduction& reduction);
using FindReduction = ReduceFunction (*)(ReduceOp op, DType dtype);
/// For every processor. Throws unsupported for the mean of what isn't float.
ReduceFunction plain_reduction(ReduceOp op, DType dtype);
/// The element that changes nothing in a reduction, in the first bytes.
std::array<std::byte, 8> neutral_element(ReduceOp op, DType dtype);

/// Where a member finds the others of its group, and room for pointers; shared by the exchanges of
/// a program, so that they stay in a cache together.
struct HostPeers {
  HostPeers(const ExchangePart& part, const HostMemory& own);
  /// What lies at `member` where `mine` lies here.
  std::byte* at(int member, std::byte* mine) const;

  HostMemory memory;
  std::vector<std::array<std::ptrdiff_t, 3>> distances;  ///< of the members' arenas, by space
  std::vector<const std::byte*> inputs;                  ///< as many as there are members
  std::vector<std::byte*> outputs;
};

/// One member's part of an exchange among devices whose memory the host addresses: all is decided
/// when it is made; run, it allocates nothing.
class HostExchange {
 public:
  /// Throws unsupported for layouts that can't be exchanged so, invalid_argument for specs or
  /// members that don't fit each other.
  HostExchange(const ExchangePart& part, std::shared_ptr<HostPeers> peers,
               FindReduction find = plain_reduction);

  /// Whether members need each other's memory; the same for all of them. If so, work() is to be
  /// called between two meetings.
  bool meets() const { return meets_; }
  /// `source` and `target` on this device; they may be the same if only a reduction takes place.
  /// Throws invalid_argument if they overlap otherwise.
  void work(std::byte* source, std::byte* target);
  /// Whether finish() has something to do on any member: what members do depends on it, and they
  /// must agree.
  bool has_finish() const { return any_finishes_; }
  /// What is left once all have worked; touches nobody's memory but this device's `target`.
  void finish(std::byte* target) const;

 private:
  /// Equal runs of elements, `counts` of them per dim, outermost first; in bytes.
  struct Box {
    std::size_t first_source = 0;  // in sources_
    std::size_t source_count = 0;
    std::int64_t source_offset = 0;
    std::int64_t target_offset = 0;
    std::int64_t run_bytes = 0;
    Dims counts;
    Dims source_strides;
    Dims target_strides;
  };

  void plan_all_reduce(const ExchangePart& part);
  void plan_pull(const ExchangePart& part);
  void plan_fill(const TensorSpec& to, int index, std::vector<Box>& boxes) const;
  void add_fill(const Layout& layout, const Shape& shard, const Dims& begin, const Dims& sizes,
                std::vector<Box>& boxes) const;
  static Box make_box(const Dims& source_shape, const Dims& source_begin, const Dims& target_shape,
                      const Dims& target_begin, const Dims& sizes, std::int64_t element_bytes);
  void all_reduce(std::byte* source, std::byte* target);
  void pull(const Box& box, std::byte* source, std::byte* target);
  void fill(const Box& box, std::byte* target) const;

  std::shared_ptr<HostPeers> peers_;
  bool meets_ = false;
  bool flat_ = false;  // only a reduction: elements keep their places
  std::int64_t element_bytes_ = 1;
  ReduceFunction reduce_ = nullptr;
  std::array<std::byte, 8> neutral_{};

  std::vector<int> sources_;      // members
  std::int64_t slice_begin_ = 0;  // of a flat one: bytes that this member reduces
  std::int64_t slice_bytes_ = 0;
  bool streams_ = false;
  std::int64_t source_bytes_ = 0;  // of one that isn't flat: shards
  std::int64_t target_bytes_ = 0;
  std::vector<Box> pulls_;
  std::vector<Box> fills_;   // while working
  std::vector<Box> finish_;  // afterwards
  bool any_finishes_ = false;
};

}  // namespace tilemesh::detail
