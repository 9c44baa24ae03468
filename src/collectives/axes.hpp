#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/tensor/tensor.hpp"

namespace tilemesh::detail {

/// "all_reduce of tensor \"x\" (f32[8] on mesh 2 (replicate), rows, dram)"
std::string describe(std::string_view collective, const Tensor& tensor);
[[noreturn]] void refuse(std::string_view collective, const Tensor& tensor, std::string_view why);

/// The axes that the caller names, or all that are of this kind; of one device or not. Throws
/// invalid_argument for an axis that isn't there, named twice or of another kind, and if there is
/// none, with the remedy.
std::vector<int> chosen_axes(std::string_view collective, const Tensor& tensor, int axis,
                             const std::vector<int>& axes, Placement::Kind kind,
                             std::string_view remedy);
/// The tensor's placements, one for each axis.
Placements placements_of(const TensorSpec& spec);
/// The tensor with its parts taken for those of a mean, if `op` says so and they are a sum's;
/// otherwise the tensor itself, whose parts along the axes have to be those of `op`.
Tensor as_reduced_by(std::string_view collective, const Tensor& tensor,
                     const std::vector<int>& axes, std::optional<ReduceOp> op);

}  // namespace tilemesh::detail
