#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tilemesh/tensor/tensor.hpp"

namespace tilemesh {

// Collectives on tensors. Each says what it expects of the tensor's placements, and throws
// invalid_argument, naming the tensor, how it lies and what to do, if that isn't so; what the
// result's placements are follows from the tensor's own. They return at once; the result's event
// says when it is there. Sums and the like are taken in the order of coordinates, so that results
// are the same bit for bit from run to run. Axes are those of the tensor's mesh.

struct AllReduceOptions {
  int axis = -1;               ///< -1: those of `axes`
  std::vector<int> axes = {};  ///< empty: all along which the tensor is partial
  /// Only to check that it is what the tensor's parts are for; mean divides a sum by their number.
  std::optional<ReduceOp> op = {};
};
/// Partial along the axes; replicated along them afterwards.
Tensor all_reduce(const Tensor& tensor, const AllReduceOptions& options = {});

struct AllGatherOptions {
  int axis = -1;
  std::vector<int> axes = {};  ///< empty: all that cut the tensor, or its dim `dim`
  int dim = -1;                ///< only to check what the axes cut; -1: any
};
/// Cut along the axes; replicated along them afterwards.
Tensor all_gather(const Tensor& tensor, const AllGatherOptions& options = {});

struct ReduceScatterOptions {
  int dim = 0;  ///< that is cut afterwards
  int axis = -1;
  std::vector<int> axes = {};  ///< empty: all along which the tensor is partial
  std::optional<ReduceOp> op = {};
};
/// Partial along the axes; cut along them afterwards.
Tensor reduce_scatter(const Tensor& tensor, const ReduceScatterOptions& options);

struct AllToAllOptions {
  int dim = 0;  ///< that is cut afterwards
  int axis = -1;
  std::vector<int> axes = {};  ///< empty: all that cut the tensor
};
/// Cut along the axes; cut along them in another dim afterwards.
Tensor all_to_all(const Tensor& tensor, const AllToAllOptions& options);

/// A tensor on a submesh, or on one device of it, to all of `mesh`: replicated along each axis that
/// is longer there, else as it was. The submesh has the axes of the mesh, each of size 1 or of the
/// same size, or is one device.
Tensor broadcast(const Tensor& tensor, const Mesh& mesh);

struct ReduceOptions {
  int axis = -1;
  std::vector<int> axes = {};  ///< empty: all along which the tensor is partial
  std::vector<int> root = {};  ///< an index for each of the axes; empty: 0
  std::optional<ReduceOp> op = {};
};
/// Partial along the axes; whole on the submesh that has the root's coordinates along them.
Tensor reduce(const Tensor& tensor, const ReduceOptions& options = {});

/// What one device gets from another.
struct Route {
  MeshCoord from;
  MeshCoord to;
};
/// Shards change places, point to point: the device at `to` gets what the one at `from` has, and
/// nothing but zeros if no route leads to it. A spec of its own isn't made of that: placements
/// stay, so what is replicated has to be moved alike. Throws invalid_argument for two routes to one
/// device, for shards of different sizes, and where replicas would differ.
Tensor permute(const Tensor& tensor, std::span<const Route> routes);
/// The same along one axis, in each line of devices: indices along it.
struct AxisRoute {
  int from = 0;
  int to = 0;
};
Tensor permute(const Tensor& tensor, int axis, std::span<const AxisRoute> routes);

}  // namespace tilemesh
