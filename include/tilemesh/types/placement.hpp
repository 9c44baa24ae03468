#pragma once

#include <cstdint>
#include <string>

#include "tilemesh/types/mesh_shape.hpp"

namespace tilemesh {

enum class ReduceOp : std::uint8_t { sum = 0, max = 1, min = 2, mean = 3, prod = 4 };

/// How a tensor lies along one mesh axis: a copy each, cut along a dim, or an unreduced part each.
class Placement {
 public:
  enum class Kind : std::uint8_t { replicate = 0, shard = 1, partial = 2 };

  constexpr Placement() = default;
  Kind kind() const { return kind_; }
  bool is_replicate() const { return kind_ == Kind::replicate; }
  bool is_shard() const { return kind_ == Kind::shard; }
  /// The dim that is cut; only for shard.
  int dim() const { return value_; }
  /// Only for partial.
  ReduceOp op() const { return static_cast<ReduceOp>(value_); }

  /// "replicate", "shard 0", "partial sum"
  std::string to_string() const;

  friend bool operator==(const Placement&, const Placement&) = default;
  friend constexpr Placement replicate();
  friend constexpr Placement shard(int dim);
  friend constexpr Placement partial(ReduceOp op);

 private:
  constexpr Placement(Kind kind, std::uint8_t value) : kind_(kind), value_(value) {}
  Kind kind_ = Kind::replicate;
  std::uint8_t value_ = 0;
};

constexpr Placement replicate() {
  return {};
}
/// 0 <= dim < 255; checked against the rank when a spec is checked.
constexpr Placement shard(int dim) {
  return {Placement::Kind::shard, static_cast<std::uint8_t>(dim)};
}
constexpr Placement partial(ReduceOp op) {
  return {Placement::Kind::partial, static_cast<std::uint8_t>(op)};
}

/// One placement per mesh axis; the empty list means replicated along every axis.
using Placements = InlineVector<Placement, kMaxMeshAxes>;

}  // namespace tilemesh
