#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernel_list.hpp"

/// How the tests of this folder compare a kernel with the op's reference.
namespace tilemesh::cpu::highway::testing {

/// Memory of an operand, 64-byte aligned, between guards that check() looks at.
class Room {
 public:
  explicit Room(std::int64_t bytes);
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  /// True if nothing was written outside.
  bool is_intact() const;

 private:
  std::vector<std::byte> storage_;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

OperandType rows(const Shape& shape, DType dtype = DType::f32);
OperandType laid(const Shape& shape, const Layout& layout, DType dtype = DType::f32);
OperandType absent();

/// A call with its outputs inferred, the first one in `layout`.
OpCall call_of(std::string_view op, std::vector<OperandType> inputs, Attributes attributes = {},
               const Layout& layout = {});

struct Range {
  double low = -3;
  double high = 3;
  bool specials = false;  ///< NaN, infinities, zeros and subnormals now and then (floats)
};

/// How far two values may be apart: absolute + relative * |expected|.
struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-6;
};

/// Random elements in an operand's layout, with its padding zero.
void fill(const OperandType& type, std::byte* data, std::mt19937& random, const Range& range);

/// The kernel that this folder makes of the call on so many threads; a failed test and null where
/// it refuses.
std::unique_ptr<Kernel> kernel_of(const OpCall& call, int threads = 1);
/// Why this folder refuses the call; empty if it doesn't.
std::string refusal_of(const OpCall& call);

/// Runs the call on random inputs on one and on two threads, and compares all outputs, padding
/// included, with the reference's. `ranges`: one for all inputs, or one each.
void expect_like_reference(const OpCall& call, const std::vector<Range>& ranges = {Range{}},
                           Tolerance tolerance = {});

}  // namespace tilemesh::cpu::highway::testing
