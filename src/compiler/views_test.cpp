#include "compiler/views.hpp"

#include <numeric>

#include <gtest/gtest.h>

#include "tilemesh/types/strided.hpp"

#include "compiler/testing.hpp"

namespace tilemesh {
namespace {

TEST(Views, LayoutsThatDifferInDimsOfOneAreTheSameMemory) {
  const Layout last = Layout::channels_last(4);
  EXPECT_TRUE(is_same_memory(last, {}, {2, 1, 3, 4}));
  EXPECT_TRUE(is_same_memory(last, {}, {2, 5, 1, 1}));
  EXPECT_FALSE(is_same_memory(last, {}, {2, 5, 1, 3}));
  EXPECT_TRUE(is_same_memory(Layout::blocked(1, 16), {}, {2, 16, 1, 1}));
  EXPECT_TRUE(is_same_memory(Layout::blocked(1, 16), {}, {1, 48, 1, 1}));
  EXPECT_FALSE(is_same_memory(Layout::blocked(1, 16), {}, {1, 47, 1, 1}));
  EXPECT_FALSE(is_same_memory(Layout::blocked(1, 16), {}, {1, 16, 2, 1}));
}

// The definition: relayout of distinct values gives the same bytes.
TEST(Views, SameMemoryMeansSameBytes) {
  const std::vector<Layout> layouts = {{},
                                       Layout::channels_last(4),
                                       Layout::blocked(1, 4),
                                       Layout::blocked(0, 2),
                                       Layout({0, 3, 2, 1}, {}),
                                       Layout({}, {{1, 4}, {0, 2}})};
  for (const Shape& shape : {Shape{1, 4, 1, 1}, Shape{2, 4, 1, 1}, Shape{1, 4, 3, 1},
                             Shape{1, 1, 3, 2}, Shape{2, 8, 1, 1}, Shape{1, 5, 1, 2}}) {
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    std::iota(values.begin(), values.end(), 1.0f);
    const auto bytes_in = [&](const Layout& layout) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(layout.bytes(shape, 4)));
      relayout(reinterpret_cast<const std::byte*>(values.data()), DType::f32, {}, bytes.data(),
               DType::f32, layout, shape);
      return bytes;
    };
    for (const Layout& a : layouts) {
      for (const Layout& b : layouts) {
        EXPECT_EQ(is_same_memory(a, b, shape), bytes_in(a) == bytes_in(b))
            << shape.to_string() << " " << a.to_string(4) << " " << b.to_string(4);
      }
    }
  }
}

TEST(Views, ATransposeIsAViewInThePermutedLayout) {
  EXPECT_EQ(transposed_layout({}, {0, 3, 1, 2}), Layout::channels_last(4));
  EXPECT_EQ(transposed_layout(Layout::channels_last(4), {0, 2, 3, 1}), Layout::rows());
  EXPECT_EQ(transposed_layout(Layout::blocked(1, 4), {1, 0}), std::nullopt);
  OpCall call{&get_op("transpose"), {{"order", std::vector<std::int64_t>{1, 0}}}, {}, {}, {}};
  call.inputs = {{DType::f32, {3, 4}, {}, true}};
  call.outputs = {{DType::f32, {4, 3}, Layout({1, 0}, {}), true}};
  EXPECT_TRUE(is_free_view(call));
  call.outputs[0].layout = {};
  EXPECT_FALSE(is_free_view(call));
}

}  // namespace
}  // namespace tilemesh
