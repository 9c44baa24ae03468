#include "backends/cpu/arena.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

#include "backends/cpu/scratch.hpp"

namespace tilemesh::cpu {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

TEST(Arena, IsZeroAndWritableToItsLastByte) {
  for (const std::int64_t bytes : {std::int64_t{1}, kHugePage - 1, kHugePage + 1}) {
    Arena arena(bytes);
    EXPECT_EQ(arena.bytes(), bytes);
    EXPECT_EQ(arena.data()[bytes - 1], std::byte{0});
    arena.data()[bytes - 1] = std::byte{5};
    arena.data()[0] = std::byte{6};
    arena.commit(0, bytes);
    EXPECT_EQ(arena.data()[0], std::byte{6}) << "commit changed what was there";
  }
}

TEST(Arena, BeginsAtAHugePage) {
  const Arena arena(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.data()) % kHugePage, 0U);  // NOLINT
}

TEST(Arena, NumbersLieInDifferentSetsOfTheCaches) {
  for (const int number : {1, 2, 63, 511}) {
    Arena arena(kHugePage, number);
    const auto address = reinterpret_cast<std::uintptr_t>(arena.data());  // NOLINT
    EXPECT_EQ(address % kHugePage, static_cast<std::uintptr_t>(number) * 4096);
    arena.commit(0, kHugePage);
    arena.data()[kHugePage - 1] = std::byte{1};
  }
  const Arena again(1, 512);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(again.data()) % kHugePage, 0U);  // NOLINT
}

TEST(Arena, CommitOfAnyRangeIsHarmless) {
  Arena arena(4 * kHugePage);
  arena.commit(0, 0);
  arena.commit(-1, 10);
  arena.commit(4 * kHugePage, 1);
  arena.commit(kHugePage - 1, 2);
  arena.commit(0, 4 * kHugePage);
  EXPECT_TRUE(std::all_of(arena.data(), arena.data() + arena.bytes(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(Arena, ReservesFarMoreThanTheMachineHas) {
  const Arena arena(std::int64_t{64} << 30);
  EXPECT_EQ(arena.data()[0], std::byte{0});
}

TEST(Arena, WhatCannotBeReservedIsAMismatch) {
  for (const std::int64_t bytes : {std::int64_t{1} << 50, std::int64_t{1} << 62}) {
    try {
      const Arena arena(bytes);
      FAIL() << "reserved " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
    }
  }
}

TEST(Scratch, IsAlignedWhateverItsSize) {
  Scratch scratch;
  EXPECT_EQ(scratch.data(), nullptr);
  for (const std::int64_t bytes : {1, 63, 4096, 1 << 20, 3, 0}) {
    scratch.resize(bytes);
    EXPECT_EQ(scratch.bytes(), bytes);
    if (bytes > 0) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch.data()) % 64, 0U);  // NOLINT
      scratch.data()[bytes - 1] = std::byte{1};
    } else {
      EXPECT_EQ(scratch.data(), nullptr);
    }
  }
}

}  // namespace
}  // namespace tilemesh::cpu
