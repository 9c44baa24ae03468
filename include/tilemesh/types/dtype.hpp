#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilemesh {

/// Element types. The numbers are part of the binary format and never change.
enum class DType : std::uint8_t {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  f64 = 3,
  i64 = 4,
  i32 = 5,
  i16 = 6,
  i8 = 7,
  u64 = 8,
  u32 = 9,
  u16 = 10,
  u8 = 11,
  boolean = 12,  ///< one byte, 0 or 1; printed "bool"
};
inline constexpr int kDTypeCount = 13;

/// Bytes of one element.
std::int64_t size_of(DType dtype);
/// "f32", "bool", ...
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);
/// f16, bf16, f32, f64
bool is_float(DType dtype);
/// the eight integer types; bool is none of them
bool is_integer(DType dtype);
bool is_signed_integer(DType dtype);

}  // namespace tilemesh
