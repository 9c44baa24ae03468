#include "tilemesh/tensor/reshard.hpp"

#include <fmt/format.h>

#include "tilemesh/tensor/transfer.hpp"

#include "tensor/tensor_state.hpp"

namespace tilemesh {

namespace {

/// The spec of a mesh tensor in other placements.
TensorSpec placed(const Tensor& tensor, const Placements& placements) {
  TensorSpec spec = tensor.spec();
  if (tensor.on_host()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("tensor \"{}\" ({}) is on the host and has no placements: bring it to a "
                    "mesh with distribute",
                    tensor.label(), spec.to_string()));
  }
  spec.placements = placements;
  try {
    spec.check();
  } catch (const Error& error) {
    throw error.in(
        fmt::format("resharding tensor \"{}\" ({})", tensor.label(), tensor.spec().to_string()));
  }
  return spec;
}

}  // namespace

Tensor distribute(const Tensor& tensor, const Mesh& mesh, const Placements& placements,
                  const std::string& label) {
  const TensorSpec spec{.shape = tensor.shape(),
                        .dtype = tensor.dtype(),
                        .placements = placements,
                        .mesh = mesh.shape()};
  try {
    return to_spec(tensor, mesh, spec, label);
  } catch (const Error& error) {
    throw error.in(fmt::format("distributing tensor \"{}\"", tensor.label()));
  }
}

Tensor reshard(const Tensor& tensor, const Placements& placements) {
  const TensorSpec spec = placed(tensor, placements);
  try {
    return to_spec(tensor, tensor.mesh(), spec, tensor.label());
  } catch (const Error& error) {
    throw error.in(fmt::format("resharding tensor \"{}\"", tensor.label()));
  }
}

ReshardPlan plan_reshard(const Tensor& tensor, const Placements& placements) {
  return plan_reshard(tensor.spec(), placed(tensor, placements));
}

}  // namespace tilemesh
