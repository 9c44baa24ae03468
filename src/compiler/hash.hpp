#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tilemesh {

namespace detail {
constexpr std::uint64_t mix(std::uint64_t x) {
  // The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output.
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
}  // namespace detail

/// A 64-bit hash of bytes, the same on every machine of the same byte order. Four lanes of a
/// multiply-rotate chain, so that it runs at several GB/s; not for adversaries.
inline std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  const auto word = [&](std::size_t at, std::size_t count) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, count);
    return value;
  };
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      lanes[lane] = std::rotl(lanes[lane] ^ (word(at + 8 * lane, 8) * kOdd), 29) * kOdd;
    }
  }
  std::uint64_t hash = detail::mix(bytes.size() + kOdd);
  for (const std::uint64_t lane : lanes)
    hash = detail::mix(hash ^ lane) + kOdd;
  for (; at < bytes.size(); at += 8) {
    hash = detail::mix(hash ^ word(at, std::min<std::size_t>(8, bytes.size() - at))) + kOdd;
  }
  return hash;
}

}  // namespace tilemesh
