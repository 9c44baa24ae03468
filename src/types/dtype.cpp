#include "tilemesh/types/dtype.hpp"

#include <array>
#include <cstddef>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

struct Entry {
  std::string_view name;
  std::int64_t size;
};

constexpr std::array<Entry, kDTypeCount> kEntries = {{
    {"f32", 4},    {"f16", 2},        {"bf16", 2},   {"f64", 8},      {"i64", 8},
    {"i32", 4},    {"i16", 2},        {"i8", 1},     {"u64", 8},      {"u32", 4},
    {"u16", 2},    {"u8", 1},         {"bool", 1},   {"f8e4m3fn", 1}, {"f8e4m3fnuz", 1},
    {"f8e5m2", 1}, {"f8e5m2fnuz", 1}, {"f8e8m0", 1}, {"f4e2m1", 1},   {"i4", 1},
    {"u4", 1},     {"i2", 1},         {"u2", 1},
}};

const Entry& entry(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  TILEMESH_CHECK(index < kEntries.size(), "an element type outside the enumeration");
  return kEntries[index];
}

}  // namespace

std::int64_t size_of(DType dtype) {
  return entry(dtype).size;
}

std::string_view to_string(DType dtype) {
  return entry(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    if (kEntries[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_storage(DType dtype) {
  return static_cast<int>(dtype) >= kComputedDTypeCount;
}

bool is_small_integer(DType dtype) {
  return dtype >= DType::i4 && dtype <= DType::u2;
}

bool is_float(DType dtype) {
  return dtype <= DType::f64;
}

bool is_integer(DType dtype) {
  return dtype >= DType::i64 && dtype <= DType::u8;
}

bool is_signed_integer(DType dtype) {
  return dtype >= DType::i64 && dtype <= DType::i8;
}

}  // namespace tilemesh
