#include "tilemesh/types/strided.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/types/dtype_traits.hpp"

#include "convert.hpp"

namespace tilemesh {
namespace {

using Bytes = std::vector<std::byte>;

/// Memory with a border on both sides that must not change.
class Guarded {
 public:
  explicit Guarded(std::int64_t bytes)
      : bytes_(bytes), memory_(static_cast<std::size_t>(bytes + 2 * kBorder), std::byte{0x5a}) {}
  std::byte* data() { return memory_.data() + kBorder; }
  bool border_is_whole() const {
    const auto whole = [](std::byte b) {
      return b == std::byte{0x5a};
    };
    return std::all_of(memory_.begin(), memory_.begin() + kBorder, whole) &&
           std::all_of(memory_.begin() + kBorder + bytes_, memory_.end(), whole);
  }

 private:
  static constexpr std::int64_t kBorder = 192;
  std::int64_t bytes_;
  Bytes memory_;
};

/// Calls visit(index) for every index of a shape.
template <class Visit>
void for_each_index(const Shape& shape, Visit visit) {
  Dims index;
  index.resize(static_cast<std::size_t>(shape.rank()));
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    std::int64_t rest = i;
    for (int dim = shape.rank(); dim-- > 0;) {
      index[static_cast<std::size_t>(dim)] = rest % shape[dim];
      rest /= shape[dim];
    }
    visit(index);
  }
}

std::int64_t strided_offset(const Dims& strides, const Dims& index) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i)
    offset += strides[i] * index[i];
  return offset;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }

  Layout layout(int rank) {
    Layout::Order order;
    order.resize(static_cast<std::size_t>(rank));
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = static_cast<std::int8_t>(i);
    std::shuffle(order.begin(), order.end(), engine_);
    Layout::Blocks blocks;
    const int count = rank == 0 ? 0 : pick({0, 1, 1, 2, 3});
    for (int i = 0; i < count; ++i) {
      blocks.push_back({below(rank), pick({2, 2, 4, 8, 16, 3})});
    }
    return below(3) == 0 ? Layout({}, blocks) : Layout(order, blocks);
  }

  Shape shape(int rank) {
    Dims sizes;
    for (int i = 0; i < rank; ++i) {
      sizes.push_back(below(20) == 0 ? 0 : pick<std::int64_t>({1, 2, 3, 4, 7, 16, 19, 37}));
    }
    Shape shape(sizes);
    while (shape.element_count() > 30000)
      shape = shape.with(below(rank), 1);
    return shape;
  }

  DType dtype() { return static_cast<DType>(below(kDTypeCount)); }

  /// Values that every type holds alike, so that a wrong place shows as a wrong value.
  void fill(std::byte* data, DType dtype, std::int64_t count) {
    if (is_storage(dtype)) {
      std::generate_n(data, count, [&] { return static_cast<std::byte>(below(256)); });
      return;
    }
    visit_dtype(dtype, [&](auto element) {
      using T = typename decltype(element)::type;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value =
            static_cast<T>(static_cast<float>(below(std::is_same_v<T, bool> ? 2 : 100)));
        std::memcpy(data + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
      }
    });
  }

 private:
  std::mt19937 engine_;
};

bool same_after_conversion(const std::byte* source, DType from, const std::byte* target, DType to) {
  std::array<std::byte, 8> expected{};
  detail::convert_run(from, to)(source, expected.data(), 1);
  return std::memcmp(expected.data(), target, static_cast<std::size_t>(size_of(to))) == 0;
}

/// Strided memory of a shape in a random order of dims with gaps, perhaps backwards.
struct Strided {
  Guarded memory{0};
  std::int64_t first = 0;  // of index 0, in elements
  Dims strides;

  static Strided make(Random& random, const Shape& shape, DType dtype, bool may_repeat) {
    Strided result;
    const Layout order = random.layout(shape.rank());
    result.strides.resize(static_cast<std::size_t>(shape.rank()));
    std::int64_t span = 1 + random.below(2);
    const auto dims = order.order(shape.rank());
    for (std::size_t i = dims.size(); i-- > 0;) {
      const auto dim = static_cast<std::size_t>(dims[i]);
      const std::int64_t size = std::max<std::int64_t>(shape[dims[i]], 1);
      if (may_repeat && random.below(8) == 0) continue;  // stride 0
      result.strides[dim] = span;
      if (random.below(4) == 0) {
        result.strides[dim] = -span;
        result.first += span * (size - 1);
      }
      span = span * size + (random.below(3) == 0 ? random.below(3) : 0);
    }
    result.memory = Guarded(span * size_of(dtype));
    random.fill(result.memory.data(), dtype, span);
    return result;
  }
  std::byte* data(DType dtype) { return memory.data() + first * size_of(dtype); }
};

class StridedProperty : public testing::TestWithParam<int> {
 protected:
  unsigned seed_ = std::random_device()();
  Random random_{seed_};
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

TEST_P(StridedProperty, PackThenUnpackKeepsElementsAndZerosPadding) {
  for (int round = 0; round < 150; ++round) {
    const int rank = GetParam();
    const Shape shape = random_.shape(rank);
    const Layout layout = random_.layout(rank);
    const DType from = random_.dtype();
    const DType to = random_.below(2) == 0 ? from : random_.dtype();
    SCOPED_TRACE(testing::Message() << to_string(from) << " to " << to_string(to) << " "
                                    << shape.to_string() << " " << layout.to_string(rank));
    Strided source = Strided::make(random_, shape, from, true);
    Guarded packed(layout.bytes(shape, size_of(to)));
    const ConstStridedView view(source.data(from), from, shape, source.strides);
    pack(view, layout, to, packed.data());
    ASSERT_TRUE(packed.border_is_whole());

    std::vector<bool> real(static_cast<std::size_t>(layout.element_count(shape)));
    for_each_index(shape, [&](const Dims& index) {
      const std::int64_t at = element_offset(layout, shape, index);
      real.at(static_cast<std::size_t>(at)) = true;
      ASSERT_TRUE(same_after_conversion(
          source.data(from) + strided_offset(source.strides, index) * size_of(from), from,
          packed.data() + at * size_of(to), to));
    });
    for (std::size_t i = 0; i < real.size(); ++i) {
      const std::byte* element = packed.data() + static_cast<std::int64_t>(i) * size_of(to);
      ASSERT_TRUE(real[i] || std::all_of(element, element + size_of(to),
                                         [](std::byte b) { return b == std::byte{0}; }))
          << "padding at " << i;
    }

    Strided back = Strided::make(random_, shape, from, false);
    unpack(packed.data(), to, layout, {back.data(from), from, shape, back.strides});
    ASSERT_TRUE(back.memory.border_is_whole());
    for_each_index(shape, [&](const Dims& index) {
      ASSERT_TRUE(same_after_conversion(
          packed.data() + element_offset(layout, shape, index) * size_of(to), to,
          back.data(from) + strided_offset(back.strides, index) * size_of(from), from));
    });
  }
}

TEST_P(StridedProperty, RelayoutBetweenAnyTwoLayouts) {
  for (int round = 0; round < 150; ++round) {
    const int rank = GetParam();
    const Shape shape = random_.shape(rank);
    const Layout a = random_.layout(rank);
    const Layout b = random_.layout(rank);
    const DType from = random_.dtype();
    const DType to = random_.below(2) == 0 ? from : random_.dtype();
    SCOPED_TRACE(testing::Message()
                 << to_string(from) << " " << a.to_string(rank) << " to " << to_string(to) << " "
                 << b.to_string(rank) << " " << shape.to_string());
    Guarded source(a.bytes(shape, size_of(from)));
    random_.fill(source.data(), from, a.element_count(shape));  // padding too: it must not leak
    Guarded target(b.bytes(shape, size_of(to)));
    relayout(source.data(), from, a, target.data(), to, b, shape);
    ASSERT_TRUE(target.border_is_whole());
    std::vector<bool> real(static_cast<std::size_t>(b.element_count(shape)));
    for_each_index(shape, [&](const Dims& index) {
      const std::int64_t at = element_offset(b, shape, index);
      real.at(static_cast<std::size_t>(at)) = true;
      ASSERT_TRUE(
          same_after_conversion(source.data() + element_offset(a, shape, index) * size_of(from),
                                from, target.data() + at * size_of(to), to));
    });
    if (a == b && from == to) continue;  // one memcpy of everything
    for (std::size_t i = 0; i < real.size(); ++i) {
      const std::byte* element = target.data() + static_cast<std::int64_t>(i) * size_of(to);
      ASSERT_TRUE(real[i] || std::all_of(element, element + size_of(to),
                                         [](std::byte x) { return x == std::byte{0}; }))
          << "padding at " << i;
    }
  }
}

TEST_P(StridedProperty, CopyStridedBetweenAnyTwoViews) {
  for (int round = 0; round < 100; ++round) {
    const Shape shape = random_.shape(GetParam());
    const DType from = random_.dtype();
    const DType to = random_.dtype();
    SCOPED_TRACE(testing::Message()
                 << to_string(from) << " to " << to_string(to) << " " << shape.to_string());
    Strided source = Strided::make(random_, shape, from, true);
    Strided target = Strided::make(random_, shape, to, false);
    Strided before = target;
    copy_strided({source.data(from), from, shape, source.strides},
                 {target.data(to), to, shape, target.strides});
    ASSERT_TRUE(target.memory.border_is_whole());
    for_each_index(shape, [&](const Dims& index) {
      const std::int64_t at = strided_offset(target.strides, index) * size_of(to);
      ASSERT_TRUE(same_after_conversion(
          source.data(from) + strided_offset(source.strides, index) * size_of(from), from,
          target.data(to) + at, to));
      std::memcpy(target.data(to) + at, before.data(to) + at,
                  static_cast<std::size_t>(size_of(to)));
    });
    // What no index reaches is as before.
    const std::int64_t extent = target.first * size_of(to);
    ASSERT_EQ(std::memcmp(target.data(to) - extent, before.data(to) - extent,
                          static_cast<std::size_t>(extent + size_of(to))),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StridedProperty, testing::Values(0, 1, 2, 3, 4, 5));

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

TEST(Strided, LargeTargetsAreStreamedWithTheSameResult) {
  // Over the size from which writes go past the caches; from targets that begin off a line, too.
  const Shape shape{1, 33, 271, 257};
  const Layout blocked = Layout::blocked(1, 16);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(shape.element_count()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::int32_t>(i);
  for (const std::size_t shift : {0u, 1u, 4u}) {
    std::vector<std::int32_t> packed(static_cast<std::size_t>(blocked.element_count(shape)) + shift,
                                     -1);
    relayout(bytes_of(rows), DType::i32, Layout::rows(), bytes_of(packed) + 4 * shift, DType::i32,
             blocked, shape);
    std::vector<std::int32_t> back(rows.size() + shift, -1);
    relayout(bytes_of(packed) + 4 * shift, DType::i32, blocked, bytes_of(back) + 4 * shift,
             DType::i32, Layout::rows(), shape);
    ASSERT_TRUE(std::equal(rows.begin(), rows.end(), back.begin() + static_cast<int>(shift)));
    ASSERT_EQ(packed[shift + 1], 271 * 257);  // channel 1 of pixel 0
    ASSERT_EQ(packed.back(), 0);              // padding of the last pixel
  }
}

template <class T>
void transpose_large(std::int64_t height, std::int64_t width) {
  std::vector<T> source(static_cast<std::size_t>(height * width));
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<T>(i * 2654435761u >> 8);
  std::vector<T> target(source.size());
  const Shape shape{height, width};
  relayout(bytes_of(source), kDTypeOf<T>, Layout::rows(), bytes_of(target), kDTypeOf<T>,
           Layout::parse("ba"), shape);
  for (std::int64_t i = 0; i < height; ++i) {
    for (std::int64_t k = 0; k < width; ++k) {
      ASSERT_EQ(target[static_cast<std::size_t>(k * height + i)],
                source[static_cast<std::size_t>(i * width + k)])
          << i << " " << k;
    }
  }
}

TEST(Strided, LargeTransposes) {
  transpose_large<std::uint8_t>(2048, 4160);
  transpose_large<std::uint8_t>(1001, 131);
  transpose_large<std::uint16_t>(1024, 4111);
  transpose_large<std::uint32_t>(512, 4999);
  transpose_large<std::uint32_t>(1500, 1501);
  transpose_large<std::uint64_t>(1024, 1030);
}

TEST(Strided, LargeRunsInAnotherOrder) {
  const Shape shape{40, 50, 1100};
  std::vector<float> source(static_cast<std::size_t>(shape.element_count()));
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<float>(i);
  std::vector<float> target(source.size());
  relayout(bytes_of(source), DType::f32, Layout::rows(), bytes_of(target), DType::f32,
           Layout::parse("bac"), shape);
  for_each_index(shape, [&](const Dims& i) {
    ASSERT_EQ(target[static_cast<std::size_t>((i[1] * 40 + i[0]) * 1100 + i[2])],
              source[static_cast<std::size_t>((i[0] * 50 + i[1]) * 1100 + i[2])]);
  });
}

TEST(Strided, BlocksThatDoNotNestGoByWayOfRows) {
  std::vector<float> source(12);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<float>(i + 1);
  std::vector<float> threes(16, -1);
  std::vector<float> fours(24, -1);
  const Shape shape{5, 2};
  std::vector<float> rows(source.begin(), source.begin() + 10);
  relayout(bytes_of(rows), DType::f32, Layout::rows(), bytes_of(threes), DType::f32,
           Layout::blocked(0, 3), shape);
  relayout(bytes_of(threes), DType::f32, Layout::blocked(0, 3), bytes_of(fours), DType::f32,
           Layout::blocked(0, 4), shape);
  fours.resize(16);
  EXPECT_EQ(fours, (std::vector<float>{1, 3, 5, 7, 2, 4, 6, 8, 9, 0, 0, 0, 10, 0, 0, 0}));
}

TEST(Strided, IntegersKeepAllTheirBits) {
  constexpr std::int64_t kEdge = (std::int64_t{1} << 53) + 1;
  std::vector<std::int64_t> source = {kEdge, -kEdge, kEdge + 2, 0};
  std::vector<std::int64_t> target(4);
  copy_strided({bytes_of(source), DType::i64, {2, 2}, {2, 1}},
               {bytes_of(target), DType::i64, {2, 2}, {1, 2}});
  EXPECT_EQ(target, (std::vector<std::int64_t>{kEdge, kEdge + 2, -kEdge, 0}));
}

TEST(Strided, DenseRowsAreCopiedWhole) {
  std::vector<float> source = {1, 2, 3, 4, 5, 6};
  const Shape shape{2, 3};
  const ConstStridedView view(bytes_of(source), DType::f32, shape, row_major_strides(shape));
  std::vector<float> packed(7, -1);
  pack(view, Layout::rows(), DType::f32, bytes_of(packed));
  EXPECT_EQ(packed, (std::vector<float>{1, 2, 3, 4, 5, 6, -1}));
  std::vector<float> unpacked(7, -1);
  unpack(bytes_of(packed), DType::f32, Layout::rows(),
         {bytes_of(unpacked), DType::f32, shape, row_major_strides(shape)});
  EXPECT_EQ(unpacked, packed);
  std::vector<float> copied(7, -1);
  copy_strided(view, {bytes_of(copied), DType::f32, shape, row_major_strides(shape)});
  EXPECT_EQ(copied, packed);
}

TEST(Strided, NothingIsTouchedForNoElements) {
  copy_strided({nullptr, DType::f32, {0, 3}, {3, 1}}, {nullptr, DType::f32, {0, 3}, {3, 1}});
  pack({nullptr, DType::f32, {2, 0}, {0, 1}}, Layout::blocked(1, 16), DType::f32, nullptr);
  relayout(nullptr, DType::f32, Layout::rows(), nullptr, DType::f32, Layout::rows(), {0});
}

TEST(Strided, RefusalsNameWhatTheyGot) {
  std::vector<float> memory(64);
  const Layout opaque = Layout::opaque({"cpu", "winograd", 16});
  const ConstStridedView view(bytes_of(memory), DType::f32, {2, 3}, {3, 1});
  try {
    pack(view, opaque, DType::f32, bytes_of(memory));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_STREQ(error.what(),
                 "can't pack into layout opaque(cpu:winograd:16): only backend \"cpu\" "
                 "understands it");
  }
  EXPECT_THROW(pack(view, Layout::channels_last(4), DType::f32, bytes_of(memory)), Error);
  EXPECT_THROW(copy_strided(view, {bytes_of(memory), DType::f32, {3, 2}, {2, 1}}), Error);
  EXPECT_THROW(copy_strided(view, {bytes_of(memory), DType::f32, {2, 3}, {1}}), Error);
}

TEST(Strided, OpaqueBytesMoveWhenNothingChanges) {
  const Layout opaque = Layout::opaque({"cpu", "winograd", 3});
  std::vector<std::uint8_t> source = {1, 2, 3};
  std::vector<std::uint8_t> target(3);
  relayout(bytes_of(source), DType::f32, opaque, bytes_of(target), DType::f32, opaque, {7});
  EXPECT_EQ(target, source);
  EXPECT_THROW(relayout(bytes_of(source), DType::f32, opaque, bytes_of(target), DType::f32,
                        Layout::rows(), {1}),
               Error);
}

}  // namespace
}  // namespace tilemesh
