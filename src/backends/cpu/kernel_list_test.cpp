#include "backends/cpu/kernel_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilemesh::cpu {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Ints = std::vector<std::int64_t>;

OpCall call_of(std::string_view op, const std::vector<Shape>& inputs, Attributes attributes = {}) {
  OpCall call;
  call.def = &get_op(op);
  call.attributes = std::move(attributes);
  for (const Shape& shape : inputs) {
    call.inputs.push_back({.dtype = DType::f32, .shape = shape, .layout = {}, .present = true});
  }
  infer_outputs(call);
  return call;
}

/// The name of the kernel that is made.
std::string kernel_of(const OpCall& call) {
  return std::string(make_kernel(call, {})->name());
}

class GreedyKernel final : public Kernel {
 public:
  void run(std::byte* const* /*operands*/, std::byte* /*scratch*/) override {}
  std::int64_t scratch_bytes() const override { return std::int64_t{1200} << 30; }
  std::string_view name() const override { return "greedy"; }
};

KernelOffer offer_greedy(const OpCall& /*call*/, const KernelContext& /*context*/) {
  return {std::make_unique<GreedyKernel>(), ""};
}

TEST(KernelList, AKernelMayNotWantMoreThanItsOperandsAccountFor) {
  const OpCall call = call_of("relu", {{4, 4}});
  const KernelOffer offer = ask({"greedy", offer_greedy}, call, {});
  EXPECT_EQ(offer.kernel, nullptr);
  EXPECT_EQ(
      offer.refusal,
      "greedy wants 1288490188800 bytes of scratch memory, the most for such operands on this "
      "device is 268443648");
}

TEST(KernelList, NorMoreThanTheDeviceHas) {
  const OpCall call = call_of("relu", {{1 << 15, 1 << 15}});  // accounts for 512 GiB
  const KernelOffer offer = ask({"greedy", offer_greedy}, call, {.memory_bytes = 1 << 20});
  EXPECT_THAT(offer.refusal, HasSubstr("on this device is 1048576"));
}

TEST(KernelList, ACallThatWritesNothingNeedsNoLibrary) {
  EXPECT_EQ(kernel_of(call_of("matmul", {{0, 8}, {8, 8}})), "nothing");
  EXPECT_EQ(kernel_of(call_of("softmax", {{0, 4}})), "nothing");
  EXPECT_EQ(kernel_of(call_of("conv", {{0, 3, 8, 8}, {4, 3, 3, 3}})), "nothing");
  EXPECT_EQ(kernel_of(call_of("max_pool", {{0, 3, 8, 8}}, {{"kernel", Ints{2, 2}}})), "nothing");
  // A sum over nothing is written.
  EXPECT_NE(kernel_of(call_of("reduce_sum", {{0, 4}}, {{"axes", Ints{0}}})), "nothing");
}

TEST(KernelList, SizesBeyondAnIntAreNotForOneDnn) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  for (const OpCall& call : {
           call_of("matmul", {{kLarge, 8}, {8, 8}}),
           call_of("matmul", {{8, kLarge}, {kLarge, 8}}),
           call_of("matmul", {{8, 8}, {8, kLarge}}),
           call_of("conv", {{1, 1, kLarge}, {1, 1, 3}}),
           call_of("conv", {{kLarge, 1, 3, 3}, {1, 1, 3, 3}}),
           call_of("conv_transpose", {{1, 1, kLarge}, {1, 1, 3}}),
           call_of("max_pool", {{1, 1, kLarge, 2}}, {{"kernel", Ints{2, 2}}}),
           call_of("lrn", {{1, 2, kLarge}}, {{"size", std::int64_t{3}}}),
       }) {
    for (const KernelEntry& entry : kernel_list(call.def->name)) {
      if (!entry.name.starts_with("onednn")) continue;
      const KernelOffer offer = ask(entry, call, {});
      EXPECT_EQ(offer.kernel, nullptr) << to_string(call);
    }
  }
}

TEST(KernelList, WindowsBeyondAnIntAreNotForOneDnn) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 31;
  const OpCall strided =
      call_of("conv", {{1, 1, 8, 8}, {1, 1, 3, 3}}, {{"strides", Ints{kLarge, 1}}});
  const OpCall padded =
      call_of("max_pool", {{1, 1, 8, 8}}, {{"kernel", Ints{2, 2}}, {"strides", Ints{kLarge, 1}}});
  const OpCall dilated = call_of("average_pool", {{1, 1, 8, 8}},
                                 {{"kernel", Ints{2, 1}},
                                  {"dilations", Ints{kLarge, 1}},
                                  {"strides", Ints{kLarge, 1}},
                                  {"pads", Ints{kLarge, 0, kLarge, 0}}});
  for (const OpCall& call : {strided, padded, dilated}) {
    EXPECT_EQ(kernel_of(call), "reference") << to_string(call);
  }
}

TEST(KernelList, AResizeMakesNoTableLargerThanImagesAre) {
  const OpCall call = call_of("resize", {{1, 1, 2, 2}},
                              {{"mode", std::string("linear")}, {"sizes", Ints{1, 1, 1 << 24, 2}}});
  EXPECT_EQ(kernel_of(call), "reference");
  EXPECT_THAT(kernel_of(call_of("resize", {{1, 1, 2, 2}}, {{"sizes", Ints{1, 1, 64, 64}}})),
              StartsWith("highway"));
}

TEST(KernelList, APadDoesntCountEachRepetition) {
  const OpCall edge = call_of(
      "pad", {{64}}, {{"mode", std::string("edge")}, {"pads", Ints{1, std::int64_t{1} << 39}}});
  EXPECT_EQ(kernel_of(edge), "highway:pad");
  const OpCall long_mirror = call_of("pad", {{std::int64_t{1} << 39}},
                                     {{"mode", std::string("reflect")}, {"pads", Ints{1, 1}}});
  EXPECT_EQ(kernel_of(long_mirror), "highway:pad");
  const OpCall call = call_of("pad", {{1, 2}},
                              {{"mode", std::string("reflect")}, {"pads", Ints{0, 0, 0, 1 << 30}}});
  EXPECT_EQ(kernel_of(call), "reference");
}

}  // namespace
}  // namespace tilemesh::cpu
