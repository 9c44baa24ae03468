#include "tilemesh/device/host_exchange.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/strided.hpp"

namespace tilemesh {
namespace {

using detail::HostExchange;
using detail::HostMemory;
using Kind = Placement::Kind;
using Element = std::array<std::byte, 8>;

constexpr std::int64_t kArena = 1 << 16;
constexpr std::int64_t kTarget = 1 << 15;

/// Devices that are nothing but arenas.
class Arenas final : public Communicator {
 public:
  explicit Arenas(int size) {
    for (int i = 0; i < size; ++i) {
      memory_.emplace_back(2 * kArena / 8);
      places_.push_back(std::to_string(i));
    }
  }
  int size() const override { return static_cast<int>(memory_.size()); }
  const std::string& place(int member) const override {
    return places_[static_cast<std::size_t>(member)];
  }
  std::byte* arena(int member, Space space) const override {
    auto* const first = reinterpret_cast<std::byte*>(  // NOLINT
        const_cast<std::int64_t*>(memory_[static_cast<std::size_t>(member)].data()));
    return first + (space == Space::l1 ? kArena : 0);
  }
  std::shared_ptr<Gathering> gather(std::string) override { return nullptr; }
  HostMemory memory(int member) const {
    HostMemory memory;
    memory.set_arena(Space::dram, arena(member, Space::dram), kArena);
    memory.set_arena(Space::l1, arena(member, Space::l1), kArena);
    return memory;
  }

 private:
  std::vector<std::vector<std::int64_t>> memory_;
  std::vector<std::string> places_;
};

template <class T>
T combine(T a, T b, ReduceOp op) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    switch (op) {
      case ReduceOp::max: return std::max(a, b);
      case ReduceOp::min: return std::min(a, b);
      case ReduceOp::prod: return static_cast<T>(x * y);
      default: return static_cast<T>(x + y);
    }
  } else {
    switch (op) {
      case ReduceOp::max: return std::isnan(a) || std::isnan(b) ? a + b : b >= a ? b : a;
      case ReduceOp::min: return std::isnan(a) || std::isnan(b) ? a + b : b <= a ? b : a;
      case ReduceOp::prod: return a * b;
      default: return a + b;
    }
  }
}

/// The naive meaning: one element after the other, in the order of coordinates.
template <class T>
T reduce(const std::vector<T>& values, ReduceOp op) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool any = op == ReduceOp::sum || op == ReduceOp::max;
    const auto decides = std::ranges::count(values, any) > 0;
    return decides ? any : !any;
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    std::vector<float> wide;
    for (const T value : values) {
      wide.push_back(static_cast<float>(value));
    }
    return T(reduce(wide, op));
  } else {
    T result = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) {
      result = combine(result, values[i], op);
    }
    return op == ReduceOp::mean ? static_cast<T>(result / static_cast<T>(values.size())) : result;
  }
}

template <class T>
Element bytes_of(T value) {
  Element bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <class T>
T value_of(const Element& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// Bits may differ between NaNs alone.
bool same(const Element& a, const Element& b, DType dtype) {
  return visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if (std::memcmp(a.data(), b.data(), sizeof(T)) == 0) {
      return true;
    }
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return std::isnan(static_cast<float>(value_of<T>(a))) &&
             std::isnan(static_cast<float>(value_of<T>(b)));
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::isnan(value_of<T>(a)) && std::isnan(value_of<T>(b));
    } else {
      return false;
    }
  });
}

template <class T>
T neutral(ReduceOp op) {
  if (op == ReduceOp::sum || op == ReduceOp::mean) {
    return static_cast<T>(0.0F);
  }
  if (op == ReduceOp::prod) {
    return static_cast<T>(1.0F);
  }
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(neutral<float>(op));
  } else if constexpr (std::is_floating_point_v<T>) {
    const T infinity = std::numeric_limits<T>::infinity();
    return op == ReduceOp::max ? -infinity : infinity;
  } else {
    return op == ReduceOp::max ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  }
}

std::vector<Dims> indices_of(const Shape& shape) {
  std::vector<Dims> all;
  Dims index;
  index.resize(shape.sizes().size());
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    all.push_back(index);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape.sizes()[d]) {
        break;
      }
      index[d] = 0;
    }
  }
  return all;
}

/// One exchange with random contents, carried out and compared with its meaning.
class Model {
 public:
  Model(Exchange exchange, int size, std::uint32_t seed)
      : exchange_(std::make_shared<Exchange>(std::move(exchange))),
        arenas_(std::make_shared<Arenas>(size)),
        seed_(seed) {}

  /// True if it was carried out by members that meet.
  bool run(bool in_place) {
    const std::int64_t target = in_place ? 0 : kTarget;
    fill_sources();
    std::vector<std::unique_ptr<HostExchange>> parts;
    for (int i = 0; i < arenas_->size(); ++i) {
      const ExchangePart part{exchange_, arenas_, i};
      parts.push_back(std::make_unique<HostExchange>(
          part, std::make_shared<detail::HostPeers>(part, arenas_->memory(i))));
      EXPECT_EQ(parts.back()->meets(), parts.front()->meets());
      EXPECT_EQ(parts.back()->has_finish(), parts.front()->has_finish());
    }
    const auto at = [&](int member, std::int64_t offset) {
      return arenas_->arena(member, exchange_->from.space) + offset;
    };
    for (int i = arenas_->size(); i-- > 0;) {
      parts[static_cast<std::size_t>(i)]->work(at(i, 0), at(i, target));
    }
    for (int i = 0; i < arenas_->size(); ++i) {
      parts[static_cast<std::size_t>(i)]->finish(at(i, target));
    }
    check_targets(target);
    return parts.front()->meets();
  }

 private:
  int member(const std::vector<int>& numbers, int index) const {
    return numbers.empty() ? index : numbers[static_cast<std::size_t>(index)];
  }
  /// What stands at a global index for these coordinates of the axes that are partial.
  Element content(const Dims& global, const MeshCoord& coord) const {
    std::uint64_t word = seed_;
    for (const std::int64_t i : global) {
      word = (word + static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15U;
    }
    for (int axis = 0; axis < exchange_->from.mesh.axes(); ++axis) {
      if (exchange_->from.placement(axis).kind() == Kind::partial) {
        word = (word ^ static_cast<std::uint64_t>(coord[static_cast<std::size_t>(axis)])) *
               0xbf58476d1ce4e5b9U;
      }
    }
    word ^= word >> 29;
    return visit_dtype(exchange_->from.dtype, [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_same_v<T, bool>) {
        return bytes_of(word % 2 == 0);
      } else if constexpr (std::is_integral_v<T>) {
        return bytes_of(static_cast<T>(word));
      } else {
        const auto value = static_cast<float>(static_cast<int>(word % 2001) - 1000) / 64.0F;
        return bytes_of(word % 97 == 0 ? T(std::numeric_limits<float>::quiet_NaN()) : T(value));
      }
    });
  }
  static bool valid(const Extents& extents, const Dims& index) {
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (index[d] >= extents[d].size) {
        return false;
      }
    }
    return true;
  }
  static Dims global_of(const Extents& extents, Dims index) {
    for (std::size_t d = 0; d < index.size(); ++d) {
      index[d] += extents[d].begin;
    }
    return index;
  }
  void fill_sources() {
    const TensorSpec& from = exchange_->from;
    const auto bytes = static_cast<std::size_t>(size_of(from.dtype));
    for (int i = 0; i < from.mesh.device_count(); ++i) {
      std::byte* const shard = arenas_->arena(member(exchange_->members.from, i), from.space);
      // The rest is what nobody may use, but a layout's own padding, which is zero.
      std::memset(shard, 0, static_cast<std::size_t>(kTarget));
      const MeshCoord coord = from.mesh.coord_of(i);
      const Extents extents = from.extents(coord);
      for (const Dims& index : indices_of(from.shard_shape())) {
        Element element{};
        element.fill(std::byte{1});
        if (valid(extents, index)) {
          element = content(global_of(extents, index), coord);
        }
        std::memcpy(shard + element_offset(from.layout, from.shard_shape(), index) *
                                static_cast<std::int64_t>(bytes),
                    element.data(), bytes);
      }
    }
  }
  Element expected(const Dims& global, const MeshCoord& target) const {
    const TensorSpec& from = exchange_->from;
    std::vector<Element> parts;
    for (int i = 0; i < from.mesh.device_count(); ++i) {
      MeshCoord coord = from.mesh.coord_of(i);
      bool counts = true;
      for (int axis = 0; axis < from.mesh.axes(); ++axis) {
        const auto a = static_cast<std::size_t>(axis);
        const bool stays = axis < exchange_->to.mesh.axes() &&
                           exchange_->to.placement(axis).kind() == Kind::partial;
        if (stays) {
          counts = counts && coord[a] == target[a];
        } else if (from.placement(axis).kind() != Kind::partial) {
          counts = counts && coord[a] == 0;  // whoever holds it: the content is the same
        }
      }
      if (counts) {
        parts.push_back(content(global, coord));
      }
    }
    if (parts.size() == 1) {
      return parts[0];
    }
    return visit_dtype(from.dtype, [&]<class T>(std::type_identity<T>) {
      std::vector<T> values;
      for (const Element& part : parts) {
        values.push_back(value_of<T>(part));
      }
      return bytes_of<T>(reduce(values, reduction_between(from, exchange_->to)));
    });
  }
  void check_targets(std::int64_t offset) const {
    const TensorSpec& to = exchange_->to;
    const auto bytes = static_cast<std::size_t>(size_of(to.dtype));
    const Element fill = visit_dtype(to.dtype, [&]<class T>(std::type_identity<T>) {
      return bytes_of(neutral<T>(exchange_->fill));
    });
    for (int i = 0; i < to.mesh.device_count(); ++i) {
      const std::byte* const shard =
          arenas_->arena(member(exchange_->members.to, i), to.space) + offset;
      const MeshCoord coord = to.mesh.coord_of(i);
      const Extents extents = to.extents(coord);
      for (const Dims& index : indices_of(to.shard_shape())) {
        Element element{};
        std::memcpy(element.data(),
                    shard + element_offset(to.layout, to.shard_shape(), index) *
                                static_cast<std::int64_t>(bytes),
                    bytes);
        const Element wanted =
            valid(extents, index) ? expected(global_of(extents, index), coord) : fill;
        ASSERT_TRUE(same(element, wanted, to.dtype))
            << exchange_->from.to_string() << " -> " << to.to_string() << ", device " << i
            << ", element " << Shape(index).to_string() << ", seed " << seed_;
      }
    }
  }

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<Arenas> arenas_;
  std::uint32_t seed_;
};

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  int below(int end) { return static_cast<int>(engine_() % static_cast<unsigned>(end)); }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + below(static_cast<int>(values.size())));
  }
  DType dtype() { return static_cast<DType>(below(kComputedDTypeCount)); }
  ReduceOp op(DType dtype) {
    const auto op = static_cast<ReduceOp>(below(5));
    return op == ReduceOp::mean && !is_float(dtype) ? ReduceOp::sum : op;
  }
  MeshShape mesh(int axes) {
    std::vector<std::int32_t> sizes;
    for (int i = 0; i < axes; ++i) {
      sizes.push_back(one_of({1, 2, 3, 4}));
    }
    return MeshShape(std::span<const std::int32_t>(sizes));
  }
  Shape shape() {
    Dims sizes;
    for (int rank = below(4); rank > 0; --rank) {
      sizes.push_back(one_of<std::int64_t>({0, 1, 2, 3, 4, 5, 7, 8, 12}));
    }
    return Shape(sizes);
  }
  Placement placement(const Shape& shape, ReduceOp op) {
    const int kind = below(shape.rank() == 0 ? 2 : 4);
    return kind == 0 ? replicate() : kind == 1 ? partial(op) : shard(below(shape.rank()));
  }

 private:
  std::mt19937 engine_;
};

/// False if there is no such exchange.
bool possible(const Exchange& exchange) {
  try {
    exchange.from.check();
    exchange.to.check();
    check_redistribution(exchange.from, exchange.to);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(HostExchange, AnyRedistributionIsWhatItMeans) {
  int done = 0;
  int met = 0;
  for (std::uint32_t seed = 0; done < 3000; ++seed) {
    Random random(seed);
    const DType dtype = random.dtype();
    const ReduceOp op = random.op(dtype);
    const MeshShape mesh = random.mesh(1 + random.below(3));
    const Space space = random.one_of({Space::dram, Space::l1});
    Exchange exchange;
    exchange.from = {.shape = random.shape(), .dtype = dtype, .space = space, .mesh = mesh};
    exchange.to = exchange.from;
    for (int axis = 0; axis < mesh.axes(); ++axis) {
      exchange.from.placements.push_back(random.placement(exchange.from.shape, op));
      const Placement before = exchange.from.placements.back();
      const Placement after = random.placement(exchange.from.shape, op);
      exchange.to.placements.push_back(
          random.below(4) == 0 || after.kind() == Kind::partial ? before : after);
    }
    exchange.fill = random.op(dtype);
    if (possible(exchange)) {
      ++done;
      met += Model(exchange, mesh.device_count() + random.below(2), seed).run(false) ? 1 : 0;
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }
  EXPECT_GT(met, 500);
  EXPECT_LT(met, 2900);
}

TEST(HostExchange, OtherMeshesAndOrdersOfTheSameDevices) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const Shape shape = random.shape();
    Exchange exchange;
    exchange.from = {.shape = shape, .dtype = DType::i32, .mesh = random.mesh(2)};
    exchange.to = {.shape = shape, .dtype = DType::i32, .mesh = random.mesh(1)};
    for (int axis = 0; axis < 2; ++axis) {
      exchange.from.placements.push_back(random.placement(shape, ReduceOp::sum));
    }
    if (shape.rank() > 0) {
      exchange.to.placements.push_back(shard(random.below(shape.rank())));
    }
    std::vector<int> all(20);
    for (int i = 0; i < 20; ++i) {
      all[static_cast<std::size_t>(i)] = i;
      std::swap(all[static_cast<std::size_t>(i)],
                all[static_cast<std::size_t>(random.below(i + 1))]);
    }
    exchange.members.from.assign(all.begin(), all.begin() + exchange.from.mesh.device_count());
    std::ranges::rotate(all, all.begin() + random.below(5));
    exchange.members.to.assign(all.begin(), all.begin() + exchange.to.mesh.device_count());
    Model(exchange, 20, seed).run(false);
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

TEST(HostExchange, ReductionsInAnyLayoutInPlaceOrNot) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const DType dtype = random.dtype();
    const ReduceOp op = random.op(dtype);
    Exchange exchange;
    TensorSpec& from = exchange.from;
    from = {.shape = Shape({random.one_of<std::int64_t>({1, 2, 5, 40}), 3,
                            random.one_of<std::int64_t>({0, 1, 4, 13})}),
            .dtype = dtype,
            .mesh = random.mesh(2)};
    from.layout = random.one_of(
        {Layout::rows(), Layout::blocked(2, 4), Layout::tiled(3, 2, 4), Layout::channels_last(3)});
    const Placement kept = random.one_of({replicate(), shard(0), shard(2)});
    from.placements = {partial(op), kept};
    if (random.below(2) == 0) {
      std::swap(from.placements[0], from.placements[1]);
    }
    exchange.to = from;
    for (Placement& placement : exchange.to.placements) {
      placement = placement.kind() == Kind::partial ? replicate() : placement;
    }
    exchange.fill = random.op(dtype);
    Model(exchange, from.mesh.device_count(), seed).run(random.below(2) == 0);
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

TEST(HostExchange, WhatCantBeDoneIsRefused) {
  const auto arenas = std::make_shared<Arenas>(2);
  const auto code = [&](const TensorSpec& from, const TensorSpec& to, DeviceNumbers members = {}) {
    const auto exchange =
        std::make_shared<Exchange>(Exchange{.from = from, .to = to, .members = std::move(members)});
    try {
      const ExchangePart part{exchange, arenas, 0};
      HostExchange(part, std::make_shared<detail::HostPeers>(part, arenas->memory(0)));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  const TensorSpec cut = {.shape = {8}, .placements = {shard(0)}, .mesh = {2}};
  TensorSpec whole = cut;
  whole.placements = {replicate()};
  EXPECT_EQ(code(cut, whole), ErrorCode::internal);
  const ExchangePart part{std::make_shared<Exchange>(Exchange{.from = cut, .to = whole}), arenas,
                          0};
  HostExchange gather(part, std::make_shared<detail::HostPeers>(part, arenas->memory(0)));
  std::byte* const memory = arenas->arena(0, Space::dram);
  EXPECT_THROW(gather.work(memory, memory), Error);
  EXPECT_THROW(gather.work(memory + 28, memory), Error);
  EXPECT_THROW(gather.work(memory, memory + 12), Error);
  EXPECT_NO_THROW(gather.work(memory, memory + 16));
  EXPECT_NO_THROW(gather.work(memory + 32, memory));
  TensorSpec blocked = cut;
  blocked.layout = Layout::blocked(0, 4);
  EXPECT_EQ(code(blocked, whole), ErrorCode::unsupported);
  TensorSpec many = whole;
  many.mesh = {3};
  EXPECT_EQ(code(cut, many), ErrorCode::invalid_argument);
  EXPECT_EQ(code(cut, whole, {.from = {0, 2}, .to = {}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code(cut, whole, {.from = {0}, .to = {}}), ErrorCode::invalid_argument);
  TensorSpec other = whole;
  other.shape = {9};
  EXPECT_EQ(code(cut, other), ErrorCode::invalid_argument);
  EXPECT_THROW(detail::plain_reduction(ReduceOp::mean, DType::i32), Error);
  EXPECT_THROW(detail::plain_reduction(ReduceOp::mean, DType::boolean), Error);
}

TEST(Reductions, SpecialValuesAndLongRows) {
  constexpr std::size_t kCount = 5000;  // several blocks
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> a(kCount, 1.0F);
  std::vector<float> b(kCount, -infinity);
  std::vector<float> c(kCount, 0.0F);
  a[0] = nan;
  b[1] = nan;
  c[2] = nan;
  a[4999] = infinity;
  const std::array<const std::byte*, 3> inputs = {reinterpret_cast<const std::byte*>(a.data()),
                                                  reinterpret_cast<const std::byte*>(b.data()),
                                                  reinterpret_cast<const std::byte*>(c.data())};
  std::vector<float> out(kCount);
  const auto run = [&](ReduceOp op) {
    auto* const to = reinterpret_cast<std::byte*>(out.data());
    detail::plain_reduction(
        op, DType::f32)({.inputs = inputs, .outputs = {&to, 1}, .elements = kCount});
  };
  run(ReduceOp::max);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isnan(out[static_cast<std::size_t>(i)])) << i;
  }
  EXPECT_EQ(out[3], 1.0F);
  EXPECT_EQ(out[4999], infinity);
  run(ReduceOp::min);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isnan(out[static_cast<std::size_t>(i)])) << i;
  }
  EXPECT_EQ(out[4998], -infinity);
  run(ReduceOp::sum);
  EXPECT_TRUE(std::isnan(out[4999]));
}

TEST(Reductions, Int64IsExactNearAndBeyond2To53AndInt8Wraps) {
  const std::int64_t near = (std::int64_t{1} << 53) + 1;
  const std::vector<std::int64_t> a = {near, std::numeric_limits<std::int64_t>::max()};
  const std::vector<std::int64_t> b = {near + 1, 1};
  std::vector<std::int64_t> out(2);
  const std::array<const std::byte*, 2> inputs = {reinterpret_cast<const std::byte*>(a.data()),
                                                  reinterpret_cast<const std::byte*>(b.data())};
  auto* const to = reinterpret_cast<std::byte*>(out.data());
  detail::plain_reduction(ReduceOp::sum,
                          DType::i64)({.inputs = inputs, .outputs = {&to, 1}, .elements = 2});
  EXPECT_EQ(out[0], 2 * near + 1);
  EXPECT_EQ(out[1], std::numeric_limits<std::int64_t>::min());
  detail::plain_reduction(ReduceOp::max,
                          DType::i64)({.inputs = inputs, .outputs = {&to, 1}, .elements = 1});
  EXPECT_EQ(out[0], near + 1);
  const std::array<std::int8_t, 1> big = {100};
  const std::array<const std::byte*, 2> bytes = {reinterpret_cast<const std::byte*>(big.data()),
                                                 reinterpret_cast<const std::byte*>(big.data())};
  std::int8_t wrapped = 0;
  auto* const byte = reinterpret_cast<std::byte*>(&wrapped);
  detail::plain_reduction(ReduceOp::sum,
                          DType::i8)({.inputs = bytes, .outputs = {&byte, 1}, .elements = 1});
  EXPECT_EQ(wrapped, -56);
}

}  // namespace
}  // namespace tilemesh
