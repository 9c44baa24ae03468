#include "tilemesh/types/tensor_spec.hpp"

#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string check_error(const TensorSpec& spec) {
  try {
    spec.check();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << spec.to_string() << " was taken";
  return "";
}

TEST(TensorSpec, PrintsAsDocumented) {
  TensorSpec spec{.shape = {32, 10}, .placements = {replicate(), shard(0)}, .mesh = {1, 2}};
  EXPECT_EQ(spec.to_string(), "f32[32,10] on mesh 1x2 (replicate, shard 0), rows, dram");
  spec.placements = {};
  EXPECT_EQ(spec.to_string(), "f32[32,10] on mesh 1x2 (replicate, replicate), rows, dram");
  spec.mesh = {1, 1};
  EXPECT_EQ(spec.to_string(), "f32[32,10], rows, dram");
  spec = {.shape = {32, 10}, .space = Space::host};
  EXPECT_EQ(spec.to_string(), "f32[32,10], rows, host");
  spec.mesh = {1, 2};
  EXPECT_EQ(spec.to_string(), "f32[32,10], rows, host");
  spec = {.shape = {}, .dtype = DType::boolean, .space = Space::l1};
  EXPECT_EQ(spec.to_string(), "bool[], rows, l1");
  spec = {.shape = {1, 3, 4, 4}, .dtype = DType::bf16, .layout = Layout::blocked(1, 16)};
  EXPECT_EQ(spec.to_string(), "bf16[1,3,4,4], aBcd16b, dram");
  spec = {.shape = {4}, .placements = {partial(ReduceOp::sum)}, .mesh = {2}};
  EXPECT_EQ(spec.to_string(), "f32[4] on mesh 2 (partial sum), rows, dram");
}

TEST(TensorSpec, SpacesHaveNames) {
  for (const Space space : {Space::host, Space::dram, Space::l1}) {
    EXPECT_EQ(parse_space(to_string(space)), space);
  }
  EXPECT_THROW(parse_space("l2"), Error);
}

TEST(TensorSpec, ChecksNameBothValues) {
  EXPECT_THAT(check_error({.shape = {4}, .placements = {shard(0)}, .mesh = {1, 2}}),
              AllOf(HasSubstr("1 placements"), HasSubstr("mesh 1x2 has 2 axes")));
  EXPECT_THAT(check_error({.shape = {4}, .placements = {replicate(), shard(1)}, .mesh = {1, 2}}),
              AllOf(HasSubstr("shards dim 1"), HasSubstr("[4] has 1 dims")));
  EXPECT_THAT(check_error({.shape = {4, 4, 4}, .layout = Layout::channels_last(4)}),
              AllOf(HasSubstr("rank 4"), HasSubstr("rank 3")));
  EXPECT_THAT(check_error({.shape = {4}, .layout = Layout::blocked(1, 16)}),
              AllOf(HasSubstr("dim 1"), HasSubstr("rank 1")));
  EXPECT_THAT(check_error({.shape = {std::int64_t{1} << 62}}), HasSubstr("overflow"));
  EXPECT_THAT(check_error({.shape = {4}, .dtype = static_cast<DType>(kDTypeCount)}),
              HasSubstr(std::to_string(kDTypeCount)));
  EXPECT_THAT(check_error({.shape = {4}, .space = static_cast<Space>(3)}), HasSubstr("3"));
  EXPECT_THAT(check_error({.shape = {4},
                           .placements = {partial(static_cast<ReduceOp>(9)), replicate()},
                           .mesh = {2, 1}}),
              HasSubstr("9"));
  const TensorSpec good{.shape = {4}, .placements = {shard(0), shard(0)}, .mesh = {2, 3}};
  EXPECT_NO_THROW(good.check());
  EXPECT_NO_THROW(TensorSpec{}.check());
}

TEST(TensorSpec, UnevenShardsCoverTheWhole) {
  const TensorSpec spec{.shape = {10, 3}, .placements = {shard(0)}, .mesh = {4}};
  EXPECT_EQ(spec.shard_shape(), Shape({3, 3}));
  EXPECT_EQ(spec.bytes_per_device(), 3 * 3 * 4);
  const std::vector<Extent> expected = {{0, 3}, {3, 3}, {6, 3}, {9, 1}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(spec.extents({i})[0], expected[static_cast<std::size_t>(i)]);
    EXPECT_EQ(spec.extents({i})[1], (Extent{0, 3}));
  }
  EXPECT_THROW(spec.extents({4}), Error);
  EXPECT_THROW(spec.extents({0, 0}), Error);
}

TEST(TensorSpec, ShardsMayBeEmpty) {
  const TensorSpec spec{.shape = {5}, .placements = {shard(0)}, .mesh = {4}};
  EXPECT_EQ(spec.shard_shape(), Shape({2}));
  EXPECT_EQ(spec.extents({2})[0], (Extent{4, 1}));
  EXPECT_EQ(spec.extents({3})[0], (Extent{5, 0}));
  const TensorSpec none{.shape = {0}, .placements = {shard(0)}, .mesh = {4}};
  EXPECT_EQ(none.shard_shape(), Shape({0}));
  EXPECT_EQ(none.extents({1})[0], (Extent{0, 0}));
  const TensorSpec one{.shape = {1}, .placements = {shard(0)}, .mesh = {3}};
  EXPECT_EQ(one.extents({0})[0], (Extent{0, 1}));
  EXPECT_EQ(one.extents({2})[0], (Extent{1, 0}));
}

TEST(TensorSpec, EarlierAxesCutSlower) {
  const TensorSpec spec{
      .shape = {12, 7}, .placements = {shard(0), shard(1), shard(0)}, .mesh = {2, 2, 3}};
  EXPECT_EQ(spec.shard_shape(), Shape({2, 4}));
  EXPECT_EQ(spec.extents({0, 0, 0}), (Extents{{0, 2}, {0, 4}}));
  EXPECT_EQ(spec.extents({0, 1, 2}), (Extents{{4, 2}, {4, 3}}));
  EXPECT_EQ(spec.extents({1, 0, 0}), (Extents{{6, 2}, {0, 4}}));
  EXPECT_EQ(spec.extents({1, 1, 2}), (Extents{{10, 2}, {4, 3}}));
}

TEST(TensorSpec, EveryElementHasOneOwner) {
  for (std::int64_t n = 0; n < 20; ++n) {
    for (int k = 1; k < 9; ++k) {
      const TensorSpec spec{.shape = {n}, .placements = {shard(0)}, .mesh = {k}};
      std::int64_t next = 0;
      for (int i = 0; i < k; ++i) {
        const Extent extent = spec.extents({i})[0];
        ASSERT_EQ(extent.begin, next) << n << " over " << k;
        ASSERT_LE(extent.size, spec.shard_shape()[0]);
        next += extent.size;
      }
      ASSERT_EQ(next, n);
    }
  }
}

TEST(TensorSpec, HugeDimsDoNotOverflow) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const TensorSpec spec{
      .shape = {kMax}, .dtype = DType::i8, .placements = {shard(0)}, .mesh = {1 << 20}};
  EXPECT_NO_THROW(spec.check());
  EXPECT_EQ(spec.shard_shape()[0], (kMax >> 20) + 1);
  const Extent last = spec.extents({(1 << 20) - 1})[0];
  EXPECT_EQ(last.begin + last.size, kMax);
}

TEST(TensorSpec, NoPlacementsMeansReplicated) {
  const TensorSpec implied{.shape = {4}, .mesh = {1, 2}};
  TensorSpec written = implied;
  written.placements = {replicate(), replicate()};
  EXPECT_EQ(implied, written);
  EXPECT_TRUE(written.is_replicated());
  EXPECT_EQ(implied.placement(1), replicate());
  written.placements = {replicate(), shard(0)};
  EXPECT_NE(implied, written);
  EXPECT_FALSE(written.is_replicated());
  const TensorSpec sum{.shape = {4}, .placements = {partial(ReduceOp::sum)}, .mesh = {2}};
  EXPECT_FALSE(sum.is_replicated());
  EXPECT_EQ(sum.shard_shape(), Shape({4}));
}

TEST(TensorSpec, EveryPartCounts) {
  const TensorSpec spec{.shape = {4, 4}};
  const auto differs = [&](auto change) {
    TensorSpec other = spec;
    change(other);
    EXPECT_NE(spec, other) << other.to_string();
  };
  differs([](TensorSpec& s) { s.shape = {4, 5}; });
  differs([](TensorSpec& s) { s.dtype = DType::i32; });
  differs([](TensorSpec& s) { s.layout = Layout::parse("ba"); });
  differs([](TensorSpec& s) { s.space = Space::l1; });
  differs([](TensorSpec& s) { s.mesh = {1, 2}; });
}

}  // namespace
}  // namespace tilemesh
