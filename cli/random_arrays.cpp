#include "random_arrays.hpp"

#include <cstring>
#include <type_traits>

#include "tilemesh/base/math.hpp"
#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/narrow.hpp"

namespace tilemesh::cli {
namespace {

/// The standard's distributions differ between libraries; these don't.
template <class T>
T draw(std::mt19937_64& engine) {
  const std::uint64_t bits = engine();
  const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
  if constexpr (std::is_same_v<T, bool>) {
    return (bits & 1U) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits & 7U);
  } else if constexpr (std::is_same_v<T, double>) {
    return 2 * unit - 1;
  } else {
    return T(static_cast<float>(2 * unit - 1));
  }
}

}  // namespace

HostArray RandomArrays::make(DType dtype, const Shape& shape) {
  HostArray array{dtype, shape, {}};
  array.bytes.resize(narrow<std::size_t>(checked_mul(shape.element_count(), size_of(dtype))));
  if (is_storage(dtype)) {
    const bool whole = is_small_integer(dtype) || dtype == DType::f8e8m0;  // no fractions, no sign
    const HostArray wide = make(whole ? DType::u8 : DType::f32, shape);
    convert_to_narrow(wide.bytes.data(), wide.dtype, array.bytes.data(), dtype,
                      shape.element_count(), {});
    return array;
  }
  visit_dtype(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    for (std::size_t at = 0; at < array.bytes.size(); at += sizeof(T)) {
      const T value = draw<T>(engine_);
      std::memcpy(array.bytes.data() + at, &value, sizeof(T));
    }
  });
  return array;
}

}  // namespace tilemesh::cli
