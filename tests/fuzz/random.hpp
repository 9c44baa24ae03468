#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

namespace tilemesh::fuzz {

/// A small random source, equal on every platform: splitmix64. Made from a seed and the number of a
/// mutant, so that each mutant can be made alone.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t number, std::uint64_t stream)
      : state_(seed * 0x9e3779b97f4a7c15ULL + number * 0xd1342543de82ef95ULL + stream) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// 0 for a count of 0.
  std::uint64_t below(std::uint64_t count) { return count == 0 ? 0 : next() % count; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  template <class Range>
  auto& of(Range&& range) {
    return *(std::begin(range) + static_cast<std::ptrdiff_t>(below(std::size(range))));
  }

  /// A size that a tensor might have, odd ones among them.
  std::int64_t size() {
    static constexpr std::int64_t kSizes[] = {0, 1, 1,  2,  2,  3,  3,  4,  5,  7,
                                              8, 9, 15, 16, 17, 31, 32, 33, 64, 65};
    return of(kSizes);
  }
  /// A number that breaks arithmetic.
  std::int64_t nasty() {
    static constexpr std::int64_t kNumbers[] = {0,
                                                1,
                                                -1,
                                                2,
                                                -2,
                                                7,
                                                64,
                                                255,
                                                256,
                                                4096,
                                                65535,
                                                65536,
                                                1 << 20,
                                                0x7fffffff,
                                                0x80000000,
                                                0xffffffff,
                                                0x100000000,
                                                1LL << 40,
                                                1LL << 60,
                                                1LL << 62,
                                                INT64_MAX,
                                                INT64_MIN,
                                                -64,
                                                -(1LL << 31),
                                                -(1LL << 40),
                                                INT64_MAX - 63};
    return of(kNumbers);
  }
  std::int64_t integer() { return one_in(4) ? nasty() : one_in(4) ? -size() : size(); }
  double number() {
    static constexpr double kNumbers[] = {0,    1,     -1,    0.5,    2,   1e-3,
                                          1e30, -1e30, 1e300, 1e-300, 6.0, -0.0};
    return one_in(12) ? (one_in(2) ? __builtin_inf() : __builtin_nan("")) : of(kNumbers);
  }

 private:
  std::uint64_t state_;
};

}  // namespace tilemesh::fuzz
