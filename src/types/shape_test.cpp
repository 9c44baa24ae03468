#include "tilemesh/types/shape.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/mesh_shape.hpp"
#include "tilemesh/types/placement.hpp"

namespace tilemesh {
namespace {

template <class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape({2, 3}).element_count(), 6);
  EXPECT_EQ(Shape({2, 3}).to_string(), "[2,3]");
  EXPECT_EQ(Shape().element_count(), 1);
  EXPECT_EQ(Shape().to_string(), "[]");
  EXPECT_EQ(Shape({5, 0, 7}).element_count(), 0);
  EXPECT_EQ(Shape({5, 0, 7}).with(1, 2).element_count(), 70);
  EXPECT_EQ(Shape({1, 2}), Shape(Dims{1, 2}));
  EXPECT_NE(Shape({1, 2}), Shape({1, 2, 1}));
}

TEST(Shape, RefusesWhatCannotBe) {
  EXPECT_THAT(message_of([] { Shape({2, -1}); }), testing::HasSubstr("[2,-1]"));
  constexpr std::int64_t kBig = std::int64_t{1} << 32;
  EXPECT_THAT(message_of([] { Shape({kBig, kBig}); }), testing::HasSubstr("4294967296"));
  // An empty shape whose strides would overflow.
  EXPECT_THAT(message_of([] { Shape({0, kBig, kBig}); }), testing::HasSubstr("2^63-1"));
  EXPECT_EQ(Shape({(std::int64_t{1} << 53) + 1}).element_count(), (std::int64_t{1} << 53) + 1);
  const std::vector<std::int64_t> nine(9, 1);
  EXPECT_THAT(message_of([&] { Shape(std::span<const std::int64_t>(nine)); }),
              testing::HasSubstr("9 dims"));
}

TEST(Shape, RowMajorStrides) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(row_major_strides({}), Dims{});
  EXPECT_EQ(row_major_strides({2, 0, 4}), (Dims{4, 4, 1}));
}

TEST(MeshShape, NumbersDevicesRowMajor) {
  const MeshShape mesh{2, 3};
  EXPECT_EQ(mesh.device_count(), 6);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(mesh.index_of(mesh.coord_of(i)), i);
  EXPECT_EQ(mesh.coord_of(4), (MeshCoord{1, 1}));
  EXPECT_EQ(to_string(mesh.coord_of(4)), "(1,1)");
  EXPECT_EQ(MeshShape(), (MeshShape{1, 1}));
  EXPECT_FALSE(mesh.contains({2, 0}));
  EXPECT_FALSE(mesh.contains({0}));
  EXPECT_THAT(message_of([&] {
                mesh.index_of({0, 3});
              }),
              testing::AllOf(testing::HasSubstr("(0,3)"), testing::HasSubstr("2x3")));
  EXPECT_THAT(message_of([&] { mesh.coord_of(6); }), testing::HasSubstr("2x3"));
}

TEST(MeshShape, ParsesWhatItPrints) {
  for (const char* text : {"1x1", "1x2", "8", "2x3x4"}) {
    EXPECT_EQ(MeshShape::parse(text).to_string(), text);
  }
  for (const char* text : {"", "x", "1x", "x1", "0x1", "1x-2", "1x2x3x4", "1 x2", "1x2y", "1xx2",
                           "99999999999", "65536x65536"}) {
    EXPECT_THAT(message_of([&] { MeshShape::parse(text); }), testing::HasSubstr("such as 1x2"))
        << text;
  }
  EXPECT_THAT(message_of([] { MeshShape(std::span<const std::int32_t>()); }),
              testing::HasSubstr("0 axes"));
}

TEST(Placement, PrintsAndCompares) {
  EXPECT_EQ(replicate().to_string(), "replicate");
  EXPECT_EQ(shard(0).to_string(), "shard 0");
  EXPECT_EQ(partial(ReduceOp::sum).to_string(), "partial sum");
  EXPECT_EQ(partial(ReduceOp::prod).to_string(), "partial prod");
  EXPECT_NE(shard(0), shard(1));
  EXPECT_NE(shard(0), replicate());
  EXPECT_NE(shard(0), partial(ReduceOp::sum));
}

}  // namespace
}  // namespace tilemesh
