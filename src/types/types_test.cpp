#include <gtest/gtest.h>

#include "tilemesh/types/strided.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh {
namespace {

TEST(TensorSpec, PrintsAsDocumented) {
  TensorSpec spec{.shape = {32, 10}, .placements = {replicate(), shard(0)}, .mesh = {1, 2}};
  EXPECT_EQ(spec.to_string(), "f32[32,10] on mesh 1x2 (replicate, shard 0), rows, dram");
  spec = {.shape = {32, 10}, .space = Space::host};
  EXPECT_EQ(spec.to_string(), "f32[32,10], rows, host");
}

TEST(Layout, RoundTrips) {
  for (const char* text : {"rows", "acdb", "aBcd16b", "ABcd16b16a", "ABcd4b16a4b"}) {
    EXPECT_EQ(Layout::parse(text).to_string(4), text);
  }
}

TEST(Relayout, PadsWithZeros) {
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};
  std::vector<float> blocked(8, -1.0F);
  relayout(reinterpret_cast<const std::byte*>(rows.data()), DType::f32, Layout::rows(),
           reinterpret_cast<std::byte*>(blocked.data()), DType::f32, Layout::blocked(0, 2), {3, 2});
  EXPECT_EQ(blocked, (std::vector<float>{1, 3, 2, 4, 5, 0, 6, 0}));
}

}  // namespace
}  // namespace tilemesh
