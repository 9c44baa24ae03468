#include "testing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/strided.hpp"

#include "kernels.hpp"
#include "offers.hpp"

namespace tilemesh::cpu::highway::testing {
namespace {

constexpr std::int64_t kGuard = 192;
constexpr std::byte kMark{0xa5};

template <class T>
T random_element(std::mt19937& random, const Range& range) {
  std::uniform_real_distribution<double> spread(range.low, range.high);
  if constexpr (std::is_same_v<T, bool>) {
    return (random() & 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    const double low = std::is_signed_v<T> ? range.low : std::max(range.low, 0.0);
    return static_cast<T>(
        std::floor(std::uniform_real_distribution<double>(low, range.high + 1)(random)));
  } else {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    // NaN of the least and of the most bits: arithmetic on those may make numbers of it.
    constexpr float kSpecials[] = {kInfinity,
                                   -kInfinity,
                                   0.0f,
                                   -0.0f,
                                   1e-40f,
                                   -1e-40f,
                                   3e38f,
                                   -3e38f,
                                   std::numeric_limits<float>::quiet_NaN(),
                                   std::bit_cast<float>(0xffffffffu)};
    if (range.specials && random() % 8 == 0) {
      return static_cast<T>(kSpecials[random() % std::size(kSpecials)]);
    }
    return static_cast<T>(static_cast<float>(spread(random)));
  }
}

/// Elements of memory as doubles, in the order in which they lie there.
std::vector<double> values_of(const OperandType& type, const std::byte* data) {
  const std::int64_t count = type.layout.element_count(type.shape);
  std::vector<double> values(static_cast<std::size_t>(count));
  const Shape flat = {count};
  copy_strided({data, type.dtype, flat, {1}},
               {reinterpret_cast<std::byte*>(values.data()), DType::f64, flat, {1}});
  return values;
}

bool is_close(double actual, double expected, Tolerance tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return actual == expected;
  return std::abs(actual - expected) <=
         tolerance.absolute + tolerance.relative * std::abs(expected);
}

/// One unit of what an output's dtype can tell apart.
Tolerance widened(Tolerance tolerance, DType dtype) {
  if (dtype == DType::f16) return {tolerance.relative + 1.0 / 1024, tolerance.absolute + 1e-6};
  if (dtype == DType::bf16) return {tolerance.relative + 1.0 / 128, tolerance.absolute + 1e-6};
  return is_float(dtype) ? tolerance : Tolerance{0, 0};
}

void expect_equal(const OpCall& call, std::size_t index, const Room& actual, const Room& expected,
                  Tolerance tolerance) {
  const OperandType& type = call.outputs[index];
  const std::vector<double> got = values_of(type, actual.data());
  const std::vector<double> want = values_of(type, expected.data());
  const Tolerance allowed = widened(tolerance, type.dtype);
  int wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (is_close(got[i], want[i], allowed)) continue;
    if (++wrong <= 3) {
      ADD_FAILURE() << to_string(call) << " layout " << type.layout.to_string(type.shape.rank())
                    << ": output " << index << " element " << i << " of " << want.size()
                    << " in memory is " << got[i] << ", the reference says " << want[i];
    }
  }
  EXPECT_EQ(wrong, 0) << to_string(call);
  EXPECT_TRUE(actual.is_intact()) << to_string(call) << ": written outside of output " << index;
}

}  // namespace

Room::Room(std::int64_t bytes)
    : storage_(static_cast<std::size_t>(bytes + 2 * kGuard), kMark), bytes_(bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  data_ = storage_.data() + (64 - address % 64) % 64 + 64;
}

bool Room::is_intact() const {
  for (const std::byte* at = storage_.data(); at != storage_.data() + storage_.size(); ++at) {
    if ((at < data_ || at >= data_ + bytes_) && *at != kMark) return false;
  }
  return true;
}

OperandType rows(const Shape& shape, DType dtype) {
  return {.dtype = dtype, .shape = shape, .layout = {}, .present = true};
}

OperandType laid(const Shape& shape, const Layout& layout, DType dtype) {
  return {.dtype = dtype, .shape = shape, .layout = layout, .present = true};
}

OperandType absent() {
  OperandType type;
  type.present = false;
  return type;
}

OpCall call_of(std::string_view op, std::vector<OperandType> inputs, Attributes attributes,
               const Layout& layout) {
  OpCall call;
  call.def = &get_op(op);
  call.inputs = std::move(inputs);
  call.attributes = std::move(attributes);
  infer_outputs(call);
  call.outputs[0].layout = layout;
  return call;
}

void fill(const OperandType& type, std::byte* data, std::mt19937& random, const Range& range) {
  visit_dtype(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<std::byte> plain(static_cast<std::size_t>(type.shape.element_count()) * sizeof(T));
    for (std::int64_t i = 0; i < type.shape.element_count(); ++i) {
      const T value = random_element<T>(random, range);
      std::memcpy(plain.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
    pack({plain.data(), type.dtype, type.shape, row_major_strides(type.shape)}, type.layout,
         type.dtype, data);
  });
}

namespace {

KernelOffer offer_of(const OpCall& call, int threads) {
  KernelOffer last{nullptr, "no entry"};
  for (const std::span<const OpKernel> list : {preferred_kernels(), kernels()}) {
    for (const OpKernel& row : list) {
      if (row.op != call.def->name) continue;
      last = row.entry.offer(call, {.threads = threads});
      if (last.kernel) return last;
    }
  }
  KernelOffer widened = offer_via_f32(call, {.threads = threads});
  return widened.kernel ? std::move(widened) : std::move(last);
}

}  // namespace

std::unique_ptr<Kernel> kernel_of(const OpCall& call, int threads) {
  KernelOffer offer = offer_of(call, threads);
  EXPECT_NE(offer.kernel, nullptr) << to_string(call) << " was refused: " << offer.refusal;
  return std::move(offer.kernel);
}

std::string refusal_of(const OpCall& call) {
  KernelOffer offer = offer_of(call, 1);
  return offer.kernel ? "" : offer.refusal;
}

void expect_like_reference(const OpCall& call, const std::vector<Range>& ranges,
                           Tolerance tolerance) {
  std::mt19937 random(static_cast<std::uint32_t>(7 + call.inputs.size()));
  std::vector<Room> inputs;
  std::vector<const std::byte*> input_addresses;
  std::vector<std::byte*> operands;
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    inputs.emplace_back(call.inputs[k].bytes());
    if (call.inputs[k].present) {
      fill(call.inputs[k], inputs[k].data(), random, ranges[ranges.size() == 1 ? 0 : k]);
    }
    input_addresses.push_back(call.inputs[k].present ? inputs[k].data() : nullptr);
    operands.push_back(call.inputs[k].present ? inputs[k].data() : nullptr);
  }
  std::vector<Room> expected;
  std::vector<std::byte*> expected_addresses;
  for (const OperandType& type : call.outputs) {
    expected.emplace_back(type.bytes());
    expected_addresses.push_back(type.present ? expected.back().data() : nullptr);
  }
  run_reference(call, input_addresses, expected_addresses);
  for (const int threads : {1, 2}) {
    const std::unique_ptr<Kernel> kernel = kernel_of(call, threads);
    if (!kernel) return;
    std::vector<Room> actual;
    std::vector<std::byte*> all = operands;
    for (const OperandType& type : call.outputs) {
      actual.emplace_back(type.bytes());
      all.push_back(type.present ? actual.back().data() : nullptr);
    }
    Room scratch(kernel->scratch_bytes());
    kernel->run(all.data(), scratch.data());
    EXPECT_TRUE(scratch.is_intact()) << to_string(call) << ": written outside of the scratch";
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i].present) expect_equal(call, i, actual[i], expected[i], tolerance);
    }
  }
}

}  // namespace tilemesh::cpu::highway::testing
