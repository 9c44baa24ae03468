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
  // Stored and converted, never computed in (is_storage); each element in a byte of its own.
  f8e4m3fn = 13,
  f8e4m3fnuz = 14,
  f8e5m2 = 15,
  f8e5m2fnuz = 16,
  f8e8m0 = 17,  ///< a power of two
  f4e2m1 = 18,  ///< in the low four bits
  i4 = 19,      ///< sign extended
  u4 = 20,
  i2 = 21,  ///< sign extended
  u2 = 22,
};
inline constexpr int kDTypeCount = 23;
inline constexpr int kComputedDTypeCount = 13;  ///< those that arithmetic knows come first

/// Bytes of one element.
std::int64_t size_of(DType dtype);
/// "f32", "bool", ...
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);
/// True for formats that are kept and converted alone: of the ops only cast, quantize, dequantize
/// and those that move elements take them. None of them is_float or is_integer.
bool is_storage(DType dtype);
/// i4, u4, i2, u2: the storage formats that hold integers
bool is_small_integer(DType dtype);
/// f16, bf16, f32, f64
bool is_float(DType dtype);
/// the eight integer types that are computed in; bool is none of them
bool is_integer(DType dtype);
bool is_signed_integer(DType dtype);

}  // namespace tilemesh
