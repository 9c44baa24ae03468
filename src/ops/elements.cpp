#include "elements.hpp"

#include <limits>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::ops {

void copy_elements(const std::byte* source, DType source_dtype, const Dims& source_strides,
                   std::byte* target, DType target_dtype, const Shape& shape) {
  copy_strided({source, source_dtype, shape, source_strides},
               {target, target_dtype, shape, row_major_strides(shape)});
}

std::pair<std::int64_t, std::uint64_t> integer_range(DType dtype) {
  TILEMESH_CHECK(!is_storage(dtype), "a storage format has no range to compute in");
  return visit_dtype(dtype, [](auto tag) -> std::pair<std::int64_t, std::uint64_t> {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      return {static_cast<std::int64_t>(std::numeric_limits<T>::min()),
              static_cast<std::uint64_t>(std::numeric_limits<T>::max())};
    } else {
      return {0, 0};
    }
  });
}

std::int64_t wrapped_index(std::int64_t index, std::int64_t size) {
  if (index < -size || index >= size) {
    throw Error(ErrorCode::kernel_failed,
                fmt::format("index {} is outside [{},{})", index, -size, size));
  }
  return index < 0 ? index + size : index;
}

std::vector<std::int64_t> load_indices(const std::byte* data, const OperandType& type,
                                       std::int64_t size) {
  const Loaded<std::int64_t> indices(data, type);
  std::vector<std::int64_t> wrapped;
  wrapped.reserve(static_cast<std::size_t>(type.shape.element_count()));
  for (std::int64_t i = 0; i < type.shape.element_count(); ++i) {
    wrapped.push_back(wrapped_index(indices[i], size));
  }
  return wrapped;
}

}  // namespace tilemesh::ops
