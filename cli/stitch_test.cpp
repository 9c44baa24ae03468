#include "stitch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilemesh::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// f32[8,32] on 1x2: 1024 bytes whole, 512 a half.
StitchEnd end_of(const Placements& placements, const Layout& layout = {},
                 Space space = Space::dram) {
  StitchEnd end{"a.tmb", "main", "x", "activation", {}};
  end.spec = {.shape = {8, 32},
              .dtype = DType::f32,
              .placements = placements,
              .layout = layout,
              .space = space,
              .mesh = {1, 2}};
  return end;
}

const Placements kWhole = {replicate(), replicate()};
const Placements kRows = {replicate(), shard(0)};

TEST(Stitch, WhatLiesRightIsNotCopied) {
  const Stitch stitch = plan_stitch(end_of(kRows), end_of(kRows));
  EXPECT_THAT(stitch.steps, IsEmpty());
  EXPECT_EQ(stitch.refusal, "");
  EXPECT_EQ(stitch.bytes_written, 0);
  EXPECT_THAT(to_string(stitch), HasSubstr("nothing to do"));
  // Along an axis of one device all placements are the same.
  EXPECT_THAT(plan_stitch(end_of({shard(1), shard(0)}), end_of(kRows)).steps, IsEmpty());
  EXPECT_THAT(plan_stitch(end_of({}), end_of(kWhole)).steps, IsEmpty());
}

TEST(Stitch, MovesInRows) {
  const Layout blocked = Layout::blocked(1, 16);
  const Stitch before = plan_stitch(end_of(kRows, blocked), end_of(kWhole));
  ASSERT_THAT(before.steps, SizeIs(2));
  EXPECT_THAT(before.steps[0], HasSubstr("-> rows"));
  EXPECT_THAT(before.steps[1], HasSubstr("all_gather over axis 1"));
  EXPECT_EQ(before.bytes_written, 2 * 512 + 2 * 1024);
  EXPECT_EQ(before.bytes_received, 512);
  const Stitch after = plan_stitch(end_of(kWhole), end_of(kRows, blocked));
  ASSERT_THAT(after.steps, SizeIs(2));
  EXPECT_THAT(after.steps[0], HasSubstr("slice"));
  EXPECT_THAT(after.steps[1], HasSubstr("layout rows ->"));
  EXPECT_EQ(after.bytes_written, 2 * 512 + 2 * 512);
  EXPECT_EQ(after.bytes_received, 0);
  EXPECT_THAT(plan_stitch(end_of(kRows, blocked), end_of(kRows, blocked)).steps, IsEmpty());
}

TEST(Stitch, ChangesSpaces) {
  const Stitch moved = plan_stitch(end_of(kWhole), end_of(kWhole, {}, Space::l1));
  ASSERT_THAT(moved.steps, SizeIs(1));
  EXPECT_THAT(moved.steps[0], HasSubstr("move dram -> l1"));
  // The last step of a reshard writes it where it is wanted.
  EXPECT_THAT(plan_stitch(end_of(kRows), end_of(kWhole, {}, Space::l1)).steps, SizeIs(1));
  const Stitch down = plan_stitch(end_of(kRows), end_of(kWhole, {}, Space::host));
  ASSERT_THAT(down.steps, SizeIs(1));
  EXPECT_THAT(down.steps[0], HasSubstr("download dram -> host"));
  EXPECT_EQ(down.bytes_written, 1024);
  const Stitch up = plan_stitch(end_of(kWhole, {}, Space::host), end_of(kRows));
  EXPECT_THAT(up.steps[0], HasSubstr("upload host -> dram"));
  EXPECT_EQ(up.bytes_written, 1024);
}

TEST(Stitch, RefusesWhatNoCopyMakes) {
  StitchEnd other = end_of(kWhole);
  other.spec.dtype = DType::i32;
  EXPECT_THAT(plan_stitch(end_of(kWhole), other).refusal, HasSubstr("f32 and i32"));
  const Stitch parts = plan_stitch(end_of(kWhole), end_of({replicate(), partial(ReduceOp::sum)}));
  EXPECT_THAT(parts.refusal, HasSubstr("partial"));
  EXPECT_THAT(parts.steps, IsEmpty());
}

TEST(Stitch, AStateWantsItsTensorBroughtOver) {
  StitchEnd state = end_of(kWhole);
  state.kind = "state";
  EXPECT_THAT(to_string(plan_stitch(end_of(kRows), state)), HasSubstr("to_layout"));
}

}  // namespace
}  // namespace tilemesh::cli
