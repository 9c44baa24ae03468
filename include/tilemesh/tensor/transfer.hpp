#pragma once

#include <string>

#include "tilemesh/tensor/tensor.hpp"

namespace tilemesh {

/// What a conversion would do.
struct ConversionPlan {
  bool upload = false;    ///< host to device
  bool download = false;  ///< device to host
  bool layout = false;    ///< another layout
  bool dtype = false;
  bool placement = false;
  bool space = false;      ///< between device spaces
  std::int64_t bytes = 0;  ///< written on all devices together

  bool is_noop() const { return !(upload || download || layout || dtype || placement || space); }
  /// "nothing to do", or "upload, relayout rows -> aBcd16b: 1024 bytes"
  std::string to_string() const;
};
/// Throws invalid_argument when shapes differ.
ConversionPlan plan(const TensorSpec& from, const TensorSpec& to);

/// The tensor in exactly this spec on this mesh. The input never changes; one that is right already
/// is returned without a copy. Returns at once; the result's event says when it is there (a
/// borrowed source must stay until then, which its keep_alive sees to). `label` is for the ledger.
Tensor to_spec(const Tensor& tensor, const Mesh& mesh, const TensorSpec& wanted,
               const std::string& label = "tensor");
/// A tensor of this spec, its elements not set.
Tensor empty(const Mesh& mesh, const TensorSpec& spec, const std::string& label = "tensor");
Tensor zeros(const Mesh& mesh, const TensorSpec& spec, const std::string& label = "tensor");
/// The same in a space of the devices; throws invalid_argument if `spec` says host.
Tensor to_device(const Tensor& tensor, const Mesh& mesh, const TensorSpec& spec,
                 const std::string& label = "tensor");
/// The same elements, in row-major order, in another shape. A view wherever row-major elements stay
/// where they are (host or mesh, sharded only along dims up to which both shapes agree): it shares
/// storage and event, freeing it leaves `tensor` as it is, and freeing `tensor` makes its use a
/// `deallocated` error. Otherwise a copy, replicated and row-major. Throws invalid_argument for
/// another number of elements.
Tensor reshape(const Tensor& tensor, const Shape& shape);
/// Fills an existing tensor of the same shape, converting as needed; allocates no device memory.
void copy(const Tensor& source, const Tensor& into);

}  // namespace tilemesh
