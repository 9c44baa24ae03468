#pragma once

#include <cstdint>
#include <string>

#include "tilemesh/types/dtype.hpp"
#include "tilemesh/types/layout.hpp"
#include "tilemesh/types/mesh_shape.hpp"
#include "tilemesh/types/placement.hpp"
#include "tilemesh/types/shape.hpp"

namespace tilemesh {

/// A memory space of a device; `host` is the process's own memory.
enum class Space : std::uint8_t { host = 0, dram = 1, l1 = 2 };
std::string_view to_string(Space space);
/// Throws invalid_argument for another word.
Space parse_space(std::string_view text);

/// The part of one dim that a device holds: [begin, begin + size) of the global index.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};
using Extents = InlineVector<Extent, kMaxRank>;

/// What a tensor is and how it lies on a mesh: everything but the bytes. A value.
///
/// Sharding a dim of n elements over k devices gives each a shard of ceil(n / k); the last ones may
/// hold less, or nothing. A dim sharded along several axes is cut by the product of their sizes,
/// earlier axes slower.
struct TensorSpec {
  Shape shape{};  ///< global
  DType dtype = DType::f32;
  Placements placements{};  ///< one per mesh axis; empty: replicated
  Layout layout{};          ///< of each shard
  Space space = Space::dram;
  MeshShape mesh{};  ///< of the mesh that it lies on

  /// Throws invalid_argument, with both values, when the parts don't fit each other.
  void check() const;
  bool is_replicated() const;
  Placement placement(int axis) const;

  /// The logical shape that every device allocates, before the layout's padding.
  Shape shard_shape() const;
  /// Which part of the global tensor the device at `coord` holds; sizes may be 0.
  Extents extents(const MeshCoord& coord) const;
  /// Bytes that each device allocates.
  std::int64_t bytes_per_device() const;

  /// "f32[32,10] on mesh 1x2 (replicate, shard 0), rows, dram"
  std::string to_string() const;

  friend bool operator==(const TensorSpec& a, const TensorSpec& b);
};

}  // namespace tilemesh
