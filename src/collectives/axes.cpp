#include "collectives/axes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tensor/tensor_state.hpp"

namespace tilemesh::detail {

std::string describe(std::string_view collective, const Tensor& tensor) {
  return fmt::format("{} of tensor \"{}\" ({})", collective, tensor.label(),
                     tensor.spec().to_string());
}

void refuse(std::string_view collective, const Tensor& tensor, std::string_view why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {}", describe(collective, tensor), why));
}

namespace {

std::string_view name_of(Placement::Kind kind) {
  return kind == Placement::Kind::partial ? "partial" : "cut";
}

}  // namespace

std::vector<int> chosen_axes(std::string_view collective, const Tensor& tensor, int axis,
                             const std::vector<int>& axes, Placement::Kind kind,
                             std::string_view remedy) {
  const TensorSpec& spec = tensor.spec();
  if (tensor.on_host()) {
    refuse(collective, tensor, "it is on the host: bring it to a mesh with distribute first");
  }
  std::vector<int> named = axes;
  if (axis != -1) named.push_back(axis);
  for (std::size_t i = 0; i < named.size(); ++i) {
    const int one = named[i];
    if (one < 0 || one >= spec.mesh.axes()) {
      refuse(collective, tensor,
             fmt::format("there is no axis {}: the mesh has {}", one, spec.mesh.axes()));
    }
    if (std::find(named.begin(), named.begin() + static_cast<std::ptrdiff_t>(i), one) !=
        named.begin() + static_cast<std::ptrdiff_t>(i)) {
      refuse(collective, tensor, fmt::format("axis {} is named twice", one));
    }
    if (spec.placement(one).kind() != kind) {
      refuse(collective, tensor,
             fmt::format("along axis {} it isn't {}, but {}: {}", one, name_of(kind),
                         spec.placement(one).to_string(), remedy));
    }
  }
  if (named.empty()) {
    for (int one = 0; one < spec.mesh.axes(); ++one) {
      if (spec.placement(one).kind() == kind) named.push_back(one);
    }
  }
  if (named.empty()) {
    refuse(collective, tensor, fmt::format("along no axis it is {}: {}", name_of(kind), remedy));
  }
  return named;
}

Placements placements_of(const TensorSpec& spec) {
  Placements placements = spec.placements;
  placements.resize(static_cast<std::size_t>(spec.mesh.axes()));
  return placements;
}

Tensor as_reduced_by(std::string_view collective, const Tensor& tensor,
                     const std::vector<int>& axes, std::optional<ReduceOp> op) {
  TensorSpec spec = tensor.spec();
  bool changed = false;
  for (const int axis : axes) {
    Placement& placement = spec.placements[static_cast<std::size_t>(axis)];
    if (!op || placement.op() == *op) continue;
    if (*op != ReduceOp::mean || placement.op() != ReduceOp::sum || !is_float(spec.dtype)) {
      refuse(collective, tensor,
             fmt::format("along axis {} it is {}, not {}: leave the reduction out, or make the "
                         "parts for this one",
                         axis, placement.to_string(), partial(*op).to_string()));
    }
    placement = partial(ReduceOp::mean);
    changed = true;
  }
  if (!changed) return tensor;
  return make_view(spec, {owner_of(tensor.state()), mesh_of_view(*tensor.state())}, tensor.label());
}

}  // namespace tilemesh::detail
