#include "exchange_reduction.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/types/dtype_traits.hpp"

// clang-format off
#include "targets.hpp"  // says what the others offer
#include <hwy/highway.h>
#include <hwy/targets.h>
// clang-format on

namespace tilemesh::cpu::highway {
namespace {

constexpr std::array<std::size_t, 8> kInputs = {1, 2, 3, 4, 5, 8, 9, 13};
constexpr std::array<std::size_t, 6> kCounts = {0, 1, 7, 64, 203, 2500};

/// On every instruction set of the machine.
class ExchangeReduction : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { choose(GetParam()); }
  void TearDown() override { choose(0); }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

/// Elements as 64-byte aligned memory, `offset` elements into it.
template <class T>
struct Row {
  Row(std::size_t count, std::size_t offset)
      : memory((count + offset) * sizeof(T) / 64 + 2), first(offset) {}
  T* data() { return reinterpret_cast<T*>(memory.data()) + first; }    // NOLINT
  std::byte* bytes() { return reinterpret_cast<std::byte*>(data()); }  // NOLINT

  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  std::vector<Line> memory;
  std::size_t first;
};

template <class T>
T random_element(std::mt19937& random) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random());
  } else {
    const auto value = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 37.0F;
    const float infinity = std::numeric_limits<float>::infinity();
    const auto which = random() % 200;
    return T(which == 0 ? std::numeric_limits<float>::quiet_NaN() : which == 1 ? infinity : value);
  }
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return std::isnan(static_cast<double>(static_cast<float>(value))) && !(value == T(0.0F));
  }
}

template <class T>
void compare(ReduceOp op, DType dtype, std::size_t inputs, std::size_t outputs, std::size_t count,
             bool in_place, std::size_t offset) {
  std::mt19937 random(static_cast<std::uint32_t>(count + 31 * inputs));
  std::vector<Row<T>> in(inputs, Row<T>(count, offset));
  std::vector<Row<T>> out(outputs, Row<T>(count, offset));
  Row<T> expected(count, offset);
  std::vector<const std::byte*> from;
  for (Row<T>& row : in) {
    for (std::size_t i = 0; i < count; ++i) {
      row.data()[i] = random_element<T>(random);
    }
    from.push_back(row.bytes());
  }
  std::vector<std::byte*> to;
  for (std::size_t k = 0; k < outputs; ++k) {
    to.push_back(in_place ? in[k].bytes() : out[k].bytes());
  }
  const auto elements = static_cast<std::int64_t>(count);
  std::byte* const reference = expected.bytes();
  detail::plain_reduction(
      op, dtype)({.inputs = from, .outputs = {&reference, 1}, .elements = elements});
  exchange_reduction(
      op, dtype)({.inputs = from, .outputs = to, .elements = elements, .streams = !in_place});
  for (std::size_t k = 0; k < outputs; ++k) {
    const T* const got = in_place ? in[k].data() : out[k].data();
    for (std::size_t i = 0; i < count; ++i) {
      const bool same = std::memcmp(got + i, expected.data() + i, sizeof(T)) == 0;
      ASSERT_TRUE(same || (is_nan(got[i]) && is_nan(expected.data()[i])))
          << to_string(dtype) << ", op " << static_cast<int>(op) << ", " << inputs << " inputs, "
          << outputs << " outputs, element " << i << " of " << count;
    }
  }
}

TEST_P(ExchangeReduction, GivesTheBitsOfThePlainOne) {
  for (int d = 0; d < kComputedDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (int o = 0; o < 5; ++o) {
      const auto op = static_cast<ReduceOp>(o);
      if ((op == ReduceOp::mean && !is_float(dtype)) || dtype == DType::boolean) {
        continue;
      }
      visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
        if constexpr (!std::is_same_v<T, bool>) {
          for (const std::size_t inputs : kInputs) {
            for (const std::size_t count : kCounts) {
              compare<T>(op, dtype, inputs, 1, count, false, count % 3);
              compare<T>(op, dtype, inputs, inputs, count, count % 2 == 0, 0);
            }
          }
        }
      });
    }
  }
}

TEST_P(ExchangeReduction, BoolIsAnyOrAll) {
  const std::array<std::array<bool, 4>, 3> in = {
      {{true, false, true, false}, {true, false, false, false}, {true, false, true, true}}};
  const std::array<const std::byte*, 3> from = {reinterpret_cast<const std::byte*>(in[0].data()),
                                                reinterpret_cast<const std::byte*>(in[1].data()),
                                                reinterpret_cast<const std::byte*>(in[2].data())};
  std::array<bool, 4> out{};
  auto* const to = reinterpret_cast<std::byte*>(out.data());
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::prod, ReduceOp::min}) {
    exchange_reduction(op, DType::boolean)({.inputs = from, .outputs = {&to, 1}, .elements = 4});
    const bool any = op == ReduceOp::sum || op == ReduceOp::max;
    EXPECT_EQ(
        out, any ? (std::array{true, false, true, true}) : (std::array{true, false, false, false}));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ExchangeReduction,
                         ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

}  // namespace
}  // namespace tilemesh::cpu::highway
