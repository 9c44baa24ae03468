#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tilemesh/types/half.hpp"
#include "tilemesh/types/strided.hpp"

#include "backends/cpu/kernel_list.hpp"
#include "backends/cpu/kernels/dnnl/kernels.hpp"

/// For tests of epilogues with operands, which oneDNN is trusted with from avx2 on.
#define TILEMESH_NEEDS_AVX2()                                               \
  if (::tilemesh::cpu::onednn::library_isa().vector_floats < 8) {           \
    GTEST_SKIP() << "oneDNN fuses no operands on a processor without avx2"; \
  }                                                                         \
  static_assert(true)

namespace tilemesh::cpu::testing {

/// Bytes on a 64-byte boundary.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes, std::byte fill = std::byte{0})
      : storage_(static_cast<std::size_t>(bytes) + 64, fill), bytes_(bytes) {}
  std::byte* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::vector<std::byte> storage_;
  std::int64_t bytes_;
};

inline OperandType operand(Shape shape, Layout layout = {}, DType dtype = DType::f32) {
  return {dtype, std::move(shape), std::move(layout), true};
}
inline OperandType absent() {
  return {DType::f32, {}, {}, false};
}

/// A call whose outputs are inferred, then laid out as told.
inline OpCall make_call(std::string_view op, Attributes attributes, std::vector<OperandType> inputs,
                        Layout output_layout = {}, Expression epilogue = {}) {
  OpCall call;
  call.def = &get_op(op);
  call.attributes = std::move(attributes);
  call.inputs = std::move(inputs);
  call.epilogue = std::move(epilogue);
  infer_outputs(call);
  for (OperandType& output : call.outputs) {
    output.layout = output_layout;
  }
  return call;
}

/// The logical elements of an operand in rows, as f32.
inline std::vector<float> values_of(const OperandType& type, const std::byte* data) {
  std::vector<float> values(static_cast<std::size_t>(type.shape.element_count()));
  unpack(data, type.dtype, type.layout,
         {reinterpret_cast<std::byte*>(values.data()), DType::f32, type.shape,
          row_major_strides(type.shape)});
  return values;
}
inline void set_values(const OperandType& type, const std::vector<float>& values, std::byte* data) {
  const StridedView view{const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values.data())),
                         DType::f32, type.shape, row_major_strides(type.shape)};
  pack(view, type.layout, type.dtype, data);
}

/// Inputs with random numbers in [-1, 1], outputs full of rubbish.
class Fixture {
 public:
  explicit Fixture(const OpCall& call, unsigned seed = 1) : call_(call) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> number(-1, 1);
    for (const OperandType& type : call.inputs) {
      inputs_.emplace_back(type.bytes());
      if (type.present) {
        std::vector<float> values(static_cast<std::size_t>(type.shape.element_count()));
        for (float& value : values) {
          value = number(random);
        }
        set_values(type, values, inputs_.back().data());
      }
    }
    for (const OperandType& type : call.outputs) {
      outputs_.emplace_back(type.bytes(), std::byte{0x7f});
      expected_.emplace_back(type.bytes(), std::byte{0x7f});
    }
  }

  void set_input(std::size_t i, const std::vector<float>& values) {
    set_values(call_.inputs[i], values, inputs_[i].data());
  }
  std::vector<float> output(std::size_t i = 0) {
    return values_of(call_.outputs[i], outputs_[i].data());
  }

  void run(Kernel& kernel) {
    std::vector<std::byte*> operands;
    collect(inputs_, call_.inputs, operands);
    collect(outputs_, call_.outputs, operands);
    Buffer scratch(kernel.scratch_bytes(), std::byte{0x7f});
    kernel.run(operands.data(), scratch.data());
  }

  /// Compares with the reference, NaN equal to NaN, and checks that the padding is zero.
  void expect_reference(float relative, float absolute) {
    std::vector<std::byte*> in;
    std::vector<std::byte*> out;
    collect(inputs_, call_.inputs, in);
    collect(expected_, call_.outputs, out);
    run_reference(call_, {in.data(), in.size()}, {out.data(), out.size()});
    for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
      if (call_.outputs[i].present) {
        compare(i, relative, absolute);
      }
    }
  }

 private:
  static void collect(std::vector<Buffer>& buffers, const std::vector<OperandType>& types,
                      std::vector<std::byte*>& addresses) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      addresses.push_back(types[i].present ? buffers[i].data() : nullptr);
    }
  }

  void compare(std::size_t i, float relative, float absolute) {
    const OperandType& type = call_.outputs[i];
    const std::vector<float> got = values_of(type, outputs_[i].data());
    const std::vector<float> want = values_of(type, expected_[i].data());
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (std::isnan(want[k]) || std::isinf(want[k])) {
        ASSERT_TRUE(got[k] == want[k] || (std::isnan(got[k]) && std::isnan(want[k])))
            << "element " << k << " is " << got[k] << " instead of " << want[k] << " of "
            << to_string(call_);
      } else {
        ASSERT_NEAR(got[k], want[k], absolute + relative * std::abs(want[k]))
            << "element " << k << " of " << to_string(call_);
      }
    }
    if (type.layout.has_padding(type.shape)) {
      Buffer packed(type.bytes());
      std::vector<float> rows = values_of(type, outputs_[i].data());
      set_values(type, rows, packed.data());
      ASSERT_TRUE(is_same_but_for_zeros(packed.data(), outputs_[i].data(), type))
          << "padding isn't zero in " << to_string(call_);
    }
  }

  /// The same elements, with either zero for a zero.
  static bool is_same_but_for_zeros(const std::byte* a, const std::byte* b,
                                    const OperandType& type) {
    const auto size = static_cast<std::size_t>(size_of(type.dtype));
    for (std::size_t at = 0; at < static_cast<std::size_t>(type.bytes()); at += size) {
      const bool same_sign = a[at + size - 1] == b[at + size - 1];
      const bool is_zero = (a[at + size - 1] & std::byte{0x7f}) == std::byte{0} &&
                           (b[at + size - 1] & std::byte{0x7f}) == std::byte{0};
      if (std::memcmp(a + at, b + at, size - 1) != 0) return false;
      if (!same_sign && !(is_zero && is_float(type.dtype))) return false;
    }
    return true;
  }

  OpCall call_;
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;
  std::vector<Buffer> expected_;
};

/// The kernel of the list's entry whose name starts with `prefix`; null, with the reason, if none.
inline KernelOffer offer_of(const OpCall& call, std::string_view prefix, int threads = 1) {
  KernelOffer last{nullptr, "no such entry"};
  for (const KernelEntry& entry : kernel_list(call.def->name)) {
    if (entry.name.starts_with(prefix)) {
      last = entry.offer(call, {.threads = threads});
      if (last.kernel) {
        return last;
      }
    }
  }
  return last;
}

}  // namespace tilemesh::cpu::testing
