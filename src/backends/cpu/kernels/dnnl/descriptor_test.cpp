#include "backends/cpu/kernels/dnnl/descriptor.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "tilemesh/types/strided.hpp"

#include "backends/cpu/kernels/dnnl/adapter.hpp"

namespace tilemesh::cpu::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc tagged(const memory::dims& dims, Tag tag) {
  return {dims, memory::data_type::f32, tag};
}

TEST(Descriptor, SaysWhatTagsSay) {
  const Shape image{2, 17, 5, 7};
  const memory::dims dims = dims_of(image);
  EXPECT_EQ(describe(DType::f32, image, Layout::rows()), tagged(dims, Tag::nchw));
  EXPECT_EQ(describe(DType::f32, image, Layout::channels_last(4)), tagged(dims, Tag::nhwc));
  EXPECT_EQ(describe(DType::f32, image, Layout::blocked(1, 16)), tagged(dims, Tag::nChw16c));
  EXPECT_EQ(describe(DType::f32, image, Layout::blocked(1, 8)), tagged(dims, Tag::nChw8c));
  EXPECT_EQ(describe(DType::f32, Shape{33, 17, 3, 3}, Layout::parse("ABcd16b16a")),
            tagged({33, 17, 3, 3}, Tag::OIhw16i16o));
  EXPECT_EQ(describe(DType::f32, Shape{33, 17, 3, 3}, Layout::parse("Acdb16a")),
            tagged({33, 17, 3, 3}, Tag::Ohwi16o));
  EXPECT_EQ(describe(DType::f32, Shape{}, Layout::rows()), tagged({1}, Tag::a));
}

TEST(Descriptor, ReadsWhatTagsSay) {
  EXPECT_EQ(read_layout(tagged({2, 17, 5, 7}, Tag::nChw16c)), Layout::blocked(1, 16));
  EXPECT_EQ(read_layout(tagged({2, 17, 5, 7}, Tag::nhwc)), Layout::channels_last(4));
  EXPECT_EQ(read_layout(tagged({120, 360}, Tag::BA16a64b)), Layout::parse("BA16a64b"));
  EXPECT_EQ(read_layout(tagged({64, 32, 3, 3}, Tag::OIhw8i16o2i)), Layout::parse("ABcd8b16a2b"));
}

TEST(Descriptor, RefusesWhatCannotBeSaid) {
  EXPECT_THROW(describe(DType::f32, Shape{0, 3}, Layout::rows()), Refused);
  EXPECT_THROW(describe(DType::i64, Shape{2, 3}, Layout::rows()), Refused);
  EXPECT_THROW(describe(DType::f32, Shape{2, 3}, Layout::opaque({"cpu", "winograd", 64})), Refused);
  // A strided one has gaps.
  EXPECT_EQ(read_layout(memory::desc({2, 3}, memory::data_type::f32, memory::dims{8, 1})),
            std::nullopt);
  // A part of a larger one starts elsewhere.
  const memory::desc whole({4, 6}, memory::data_type::f32, Tag::ab);
  EXPECT_EQ(read_layout(whole.submemory_desc({2, 6}, {2, 0})), std::nullopt);
}

RC_GTEST_PROP(Descriptor, RoundTrips, ()) {
  const int rank = *rc::gen::inRange(1, 6);
  Dims sizes;
  std::vector<int> order;
  for (int dim = 0; dim < rank; ++dim) {
    sizes.push_back(*rc::gen::inRange(2, 40));
    order.push_back(dim);
  }
  const Shape shape(sizes);
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  std::ranges::shuffle(order, random);
  Layout::Blocks blocks;
  const int block_count = *rc::gen::inRange(0, 4);
  for (int i = 0; i < block_count; ++i) {
    blocks.push_back({*rc::gen::inRange(0, rank), *rc::gen::element(2, 4, 8)});
  }
  const Layout layout(Layout::Order(order.begin(), order.end()), blocks);
  const memory::desc desc = describe(DType::f32, shape, layout);
  RC_ASSERT(static_cast<std::int64_t>(desc.get_size()) == layout.bytes(shape, 4));
  const std::optional<Layout> read = read_layout(desc);
  RC_ASSERT(read.has_value());
  // Dims of one step may have moved; what matters is where every element lies.
  const std::vector<LayoutLoop> a = layout_loops(layout, shape);
  Dims index;
  for (int dim = 0; dim < rank; ++dim) {
    index.push_back(*rc::gen::inRange<std::int64_t>(0, shape[dim]));
  }
  RC_ASSERT(element_offset(layout, shape, index) == element_offset(*read, shape, index));
}

TEST(Descriptor, GroupedWeights) {
  // Depthwise: the block is on the groups.
  const memory::desc depthwise =
      describe_grouped(DType::f32, Shape{17, 1, 3, 3}, Layout::parse("Abcd16a"), 17);
  EXPECT_EQ(depthwise, tagged({17, 1, 1, 3, 3}, Tag::Goihw16g));
  EXPECT_EQ(read_grouped_layout(depthwise, 17), Layout::parse("Abcd16a"));
  // Blocks within each group.
  const memory::desc grouped =
      describe_grouped(DType::f32, Shape{64, 32, 3, 3}, Layout::parse("ABcd16b16a"), 2);
  EXPECT_EQ(grouped, tagged({2, 32, 32, 3, 3}, Tag::gOIhw16i16o));
  EXPECT_EQ(read_grouped_layout(grouped, 2), Layout::parse("ABcd16b16a"));
  // One block a group.
  const memory::desc small =
      describe_grouped(DType::f32, Shape{32, 16, 3, 3}, Layout::parse("ABcd16b16a"), 2);
  EXPECT_EQ(read_grouped_layout(small, 2), Layout::parse("ABcd16b16a"));
  // Padded within each group: there is no layout of all outputs for it.
  EXPECT_EQ(read_grouped_layout(tagged({2, 24, 16, 3, 3}, Tag::gOIhw16i16o), 2), std::nullopt);
  EXPECT_THROW(describe_grouped(DType::f32, Shape{48, 16, 3, 3}, Layout::parse("ABcd16b16a"), 2),
               Refused);
}

}  // namespace
}  // namespace tilemesh::cpu::onednn
