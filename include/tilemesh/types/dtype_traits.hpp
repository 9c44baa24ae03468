#pragma once

#include <cstdint>
#include <type_traits>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/dtype.hpp"
#include "tilemesh/types/half.hpp"

namespace tilemesh {

template <class T>
inline constexpr bool kIsElement = false;

template <class T>
struct DTypeOf;

#define TILEMESH_ELEMENT_(type, value)           \
  template <>                                    \
  inline constexpr bool kIsElement<type> = true; \
  template <>                                    \
  struct DTypeOf<type> {                         \
    static constexpr DType kValue = value;       \
  };
TILEMESH_ELEMENT_(float, DType::f32)
TILEMESH_ELEMENT_(Half, DType::f16)
TILEMESH_ELEMENT_(BFloat16, DType::bf16)
TILEMESH_ELEMENT_(double, DType::f64)
TILEMESH_ELEMENT_(std::int64_t, DType::i64)
TILEMESH_ELEMENT_(std::int32_t, DType::i32)
TILEMESH_ELEMENT_(std::int16_t, DType::i16)
TILEMESH_ELEMENT_(std::int8_t, DType::i8)
TILEMESH_ELEMENT_(std::uint64_t, DType::u64)
TILEMESH_ELEMENT_(std::uint32_t, DType::u32)
TILEMESH_ELEMENT_(std::uint16_t, DType::u16)
TILEMESH_ELEMENT_(std::uint8_t, DType::u8)
TILEMESH_ELEMENT_(bool, DType::boolean)
#undef TILEMESH_ELEMENT_

/// The DType of a C++ element type.
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<std::remove_cv_t<T>>::kValue;

/// Calls `visitor(std::type_identity<T>{})` with the C++ type of `dtype`, and returns its result.
/// Storage formats have none: the caller has handled them.
template <class Visitor>
decltype(auto) visit_dtype(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::f32: return visitor(std::type_identity<float>{});
    case DType::f16: return visitor(std::type_identity<Half>{});
    case DType::bf16: return visitor(std::type_identity<BFloat16>{});
    case DType::f64: return visitor(std::type_identity<double>{});
    case DType::i64: return visitor(std::type_identity<std::int64_t>{});
    case DType::i32: return visitor(std::type_identity<std::int32_t>{});
    case DType::i16: return visitor(std::type_identity<std::int16_t>{});
    case DType::i8: return visitor(std::type_identity<std::int8_t>{});
    case DType::u64: return visitor(std::type_identity<std::uint64_t>{});
    case DType::u32: return visitor(std::type_identity<std::uint32_t>{});
    case DType::u16: return visitor(std::type_identity<std::uint16_t>{});
    case DType::u8: return visitor(std::type_identity<std::uint8_t>{});
    case DType::boolean: return visitor(std::type_identity<bool>{});
    default: break;
  }
  detail::check_failed("dtype", "an element type without a C++ type", __FILE__, __LINE__);
}

}  // namespace tilemesh
