#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh {

/// A box of elements that goes into one device's shard. Begins count in the elements of the shards,
/// not of the global tensor.
struct ShardPiece {
  std::vector<int> sources;  ///< of the source's mesh, row-major; several: reduced in this order
  Dims source_begin;         ///< the same in each source
  Dims target_begin;
  Dims sizes;  ///< none is 0
};

/// What each coordinate of two meshes is: equal numbers are one device. Empty lists: both meshes
/// are the same devices in the same order.
struct DeviceNumbers {
  std::vector<int> from = {};
  std::vector<int> to = {};
};

/// Where the valid elements of the shard at `target` (row-major in to.mesh) come from, when a
/// tensor that lies as `from` says shall lie as `to` says; layouts and spaces don't matter. An
/// element that several devices hold comes from the target itself if it is one of them, else from
/// the one with the target's coordinates. Requires that check_redistribution has passed.
std::vector<ShardPiece> pieces_for(const TensorSpec& from, const TensorSpec& to, int target,
                                   const DeviceNumbers& numbers = {});
/// Throws invalid_argument for other shapes or dtypes, unsupported if an axis would become partial
/// or change its reduction, or stays partial between meshes of different shapes.
void check_redistribution(const TensorSpec& from, const TensorSpec& to);
/// The reduction of the axes that are partial in `from` and not in `to`; requires that there are
/// some. Throws unsupported if they are reduced in different ways.
ReduceOp reduction_between(const TensorSpec& from, const TensorSpec& to);
/// Bytes of other devices' memory that the device at `target` reads.
std::int64_t bytes_received(const TensorSpec& from, const TensorSpec& to, int target,
                            const DeviceNumbers& numbers = {});

/// What one step of a redistribution is called.
enum class Movement : std::uint8_t {
  none,            ///< nothing moves and nothing changes
  slice,           ///< each device keeps a part of what it has
  all_gather,      ///< shards are put together
  all_to_all,      ///< cut along another dim
  reduce_scatter,  ///< parts are reduced, each device keeping a shard of the result
  all_reduce,      ///< parts are reduced, each device having the whole result
  permute,         ///< whole shards change places
  mixed,           ///< several of these at once
};
std::string_view to_string(Movement movement);
/// Of a single step between specs of the same mesh.
Movement movement_between(const TensorSpec& from, const TensorSpec& to);

struct ReshardStep {
  Movement movement = Movement::none;
  std::vector<int> axes;  ///< of the mesh, that change
  TensorSpec from;
  TensorSpec to;
  std::int64_t bytes = 0;  ///< received by the device that receives most
  /// "all_reduce over axis 1: f32[8,4] (partial sum) -> (replicate), 64 bytes a device"
  std::string to_string() const;
};

/// How a tensor gets from one placement to another on the same mesh: the order of steps that moves
/// the fewest bytes to the device that receives most. A value.
struct ReshardPlan {
  std::vector<ReshardStep> steps;

  std::int64_t bytes() const;
  /// What it costs, in bytes that could be moved meanwhile: those that it moves, and some for each
  /// time that devices must meet.
  std::int64_t cost_bytes() const;
  /// A line a step; "nothing to do" if there are none.
  std::string to_string() const;
};
/// Throws as check_redistribution does, and invalid_argument for another mesh shape. Layouts and
/// spaces of the steps are those of `from`.
ReshardPlan plan_reshard(const TensorSpec& from, const TensorSpec& to);

/// "(replicate, shard 0)"
std::string placements_to_string(const TensorSpec& spec);

}  // namespace tilemesh
