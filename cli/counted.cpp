#include "counted.hpp"

#include <algorithm>

#include "tilemesh/types/strided.hpp"

namespace tilemesh::cli {

HostArray counted_part(HostArray array, const Shape& wanted,
                       const std::vector<std::int64_t>& counts) {
  if (array.shape == wanted || array.shape.rank() != wanted.rank()) return array;
  for (int d = 0; d < wanted.rank(); ++d) {
    const bool counted =
        wanted[d] < array.shape[d] && std::ranges::find(counts, wanted[d]) != counts.end();
    if (wanted[d] != array.shape[d] && !counted) return array;
  }
  HostArray part{array.dtype, wanted, {}};
  part.bytes.resize(static_cast<std::size_t>(wanted.element_count() * size_of(array.dtype)));
  copy_strided({array.bytes.data(), array.dtype, wanted, row_major_strides(array.shape)},
               {part.bytes.data(), array.dtype, wanted, row_major_strides(wanted)});
  return part;
}

}  // namespace tilemesh::cli
