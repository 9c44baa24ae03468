#include "narrow_convert.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tilemesh/base/error.hpp"

namespace tilemesh::detail {
namespace {

constexpr std::int64_t kChunk = 256;

/// Elements as floats from which one more rounding gives what rounding the elements would.
void to_floats(DType dtype, const std::byte* source, float* target, std::int64_t count) {
  if (is_storage(dtype)) return decode_narrow_run(dtype, source, target, count);
  odd_float_run(dtype)(source, reinterpret_cast<std::byte*>(target), count);
}

void to_integers(DType dtype, const std::byte* source, std::int64_t* target, std::int64_t count) {
  auto* out = reinterpret_cast<std::byte*>(target);
  if (!is_storage(dtype)) return convert_run(dtype, DType::i64)(source, out, count);
  std::array<float, kChunk> floats;
  decode_narrow_run(dtype, source, floats.data(), count);
  convert_run(DType::f32, DType::i64)(reinterpret_cast<const std::byte*>(floats.data()), out,
                                      count);
}

/// At most kChunk elements.
void convert_chunk(DType source_dtype, const std::byte* source, DType target_dtype,
                   std::byte* target, std::int64_t count, const NarrowRule& rule) {
  if (narrow_integer_bits(target_dtype) != 0) {
    std::array<std::int64_t, kChunk> integers;
    to_integers(source_dtype, source, integers.data(), count);
    return keep_low_bits(target_dtype, integers.data(), target, count);
  }
  std::array<float, kChunk> floats;
  to_floats(source_dtype, source, floats.data(), count);
  if (is_storage(target_dtype)) {
    encode_narrow(target_dtype, {floats.data(), static_cast<std::size_t>(count)}, target, rule);
  } else {
    convert_run(DType::f32, target_dtype)(reinterpret_cast<const std::byte*>(floats.data()), target,
                                          count);
  }
}

void convert_all(DType source_dtype, const std::byte* source, DType target_dtype, std::byte* target,
                 std::int64_t count, const NarrowRule& rule) {
  for (std::int64_t at = 0; at < count; at += kChunk) {
    convert_chunk(source_dtype, source + at * size_of(source_dtype), target_dtype,
                  target + at * size_of(target_dtype), std::min(kChunk, count - at), rule);
  }
}

template <int kPair>
void run(const std::byte* source, std::byte* target, std::int64_t count) {
  constexpr auto kSource = static_cast<DType>(kPair / kDTypeCount);
  constexpr auto kTarget = static_cast<DType>(kPair % kDTypeCount);
  convert_all(kSource, source, kTarget, target, count, {});
}

template <int... kPairs>
constexpr std::array<ConvertRun, sizeof...(kPairs)> make_runs(
    std::integer_sequence<int, kPairs...> /*pairs*/) {
  return {run<kPairs>...};
}

}  // namespace

ConvertRun narrow_run(DType source, DType target) {
  static constexpr auto kRuns =
      make_runs(std::make_integer_sequence<int, kDTypeCount * kDTypeCount>());
  if (source == target) {
    return [](const std::byte* from, std::byte* to, std::int64_t count) {
      std::memcpy(to, from, static_cast<std::size_t>(count));
    };
  }
  return kRuns.at(static_cast<std::size_t>(source) * kDTypeCount +
                  static_cast<std::size_t>(target));
}

}  // namespace tilemesh::detail

namespace tilemesh {

void convert_to_narrow(const std::byte* source, DType source_dtype, std::byte* target,
                       DType target_dtype, std::int64_t count, const NarrowRule& rule) {
  TILEMESH_CHECK(is_storage(target_dtype), "the target of a narrow conversion is none");
  detail::convert_all(source_dtype, source, target_dtype, target, count, rule);
}

}  // namespace tilemesh
