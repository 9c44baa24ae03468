#include <numeric>

#include "fixture.hpp"

namespace tilemesh {
namespace {

class KernelConformance : public DeviceConformance {
 protected:
  static KernelCommand kernel(std::function<void(const KernelCall&)> function,
                              KernelBinding binding) {
    return {std::make_shared<const DeviceKernel>(
                DeviceKernel{.name = "probe", .function = std::move(function)}),
            std::make_shared<const KernelBinding>(std::move(binding))};
  }
  /// Adds an argument to every float of buffer 0.
  static KernelCommand add(float value, DeviceAddress address, std::int64_t bytes) {
    return kernel(
        [](const KernelCall& call) {
          for (float& x : call.elements<float>(0)) {
            x += call.argument<float>(0);
          }
        },
        {.buffers = {{address, bytes}}, .arguments = {value}});
  }
  static ListCommand list(std::vector<CommandList::Entry> entries) {
    return {std::make_shared<const CommandList>(CommandList{std::move(entries)})};
  }

  std::unique_ptr<DeviceQueue> queue_ = device().create_queue();
};
INSTANTIATE_TEST_SUITE_P(Backends, KernelConformance, testing::ValuesIn(variants()), variant_name);

TEST_P(KernelConformance, AKernelSeesItsBytesArgumentsAndDevice) {
  write(*queue_, std::vector<std::int32_t>{1, 2, 3}, {Space::dram, 64});
  const auto probe = [](const KernelCall& call) {
    const auto in = call.elements<std::int32_t>(0);
    const auto out = call.elements<std::int64_t>(1);
    out[0] = std::accumulate(in.begin(), in.end(), std::int64_t{0});
    out[1] = call.argument<std::int32_t>(0);
    out[2] = call.argument<std::int64_t>(1);
    out[3] = static_cast<std::int64_t>(call.argument<double>(2) * 4);
    out[4] = call.device;
  };
  enqueue(*queue_, kernel(probe, {.buffers = {{{Space::dram, 64}, 12}, {{Space::l1, 8}, 40}},
                                  .arguments = {7, std::int64_t{1} << 40, 0.25},
                                  .device = 5}))
      .wait();
  EXPECT_EQ(read<std::int64_t>(*queue_, {Space::l1, 8}, 5),
            (std::vector<std::int64_t>{6, 7, std::int64_t{1} << 40, 1, 5}));
}

TEST_P(KernelConformance, AKernelMayHaveNoBuffersAndManyBuffers) {
  bool ran = false;
  enqueue(*queue_, kernel([&ran](const KernelCall& call) { ran = call.buffers.empty(); }, {}))
      .wait();
  EXPECT_TRUE(ran);
  std::vector<KernelBuffer> many;
  for (std::int64_t i = 0; i < 100; ++i) {
    many.push_back({{Space::dram, 16 * i}, i % 7});
  }
  std::size_t bytes = 0;
  const auto count = [&bytes](const KernelCall& call) {
    for (const auto& buffer : call.buffers) {
      bytes += buffer.size();
    }
  };
  enqueue(*queue_, kernel(count, {.buffers = many})).wait();
  EXPECT_EQ(bytes, 14U * 21 + 0 + 1);
}

TEST_P(KernelConformance, WhatAKernelMayNotDoFailsItAndNothingElse) {
  const auto fails = [this](KernelCommand command, std::string_view text, ErrorCode code) {
    const Error error = error_of(enqueue(*queue_, std::move(command), {}, "kernel \"probe\""));
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string_view part :
         {text, std::string_view("kernel \"probe\""), std::string_view(device().info().name)}) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    }
  };
  const auto nothing = [](const KernelCall&) {
  };
  fails(kernel([](const KernelCall&) { throw std::runtime_error("overheated"); }, {}), "overheated",
        ErrorCode::kernel_failed);
  fails(kernel([](const KernelCall& call) { (void)call.elements<float>(0); }, {}), "buffer 0",
        ErrorCode::invalid_argument);
  fails(kernel([](const KernelCall& call) { (void)call.argument<float>(0); }, {}), "argument 0",
        ErrorCode::invalid_argument);
  fails(kernel([](const KernelCall& call) { (void)call.argument<float>(0); }, {.arguments = {1}}),
        "int32", ErrorCode::invalid_argument);
  fails(kernel(nothing, {.buffers = {{{Space::dram, kDramBytes - 1}, 2}}}), "outside",
        ErrorCode::invalid_argument);
  fails(kernel(nullptr, {}), "no function", ErrorCode::unsupported);
  EXPECT_NO_THROW(enqueue(*queue_, kernel(nothing, {})).wait());
}

TEST_P(KernelConformance, AListRunsInOrderEachTimeItIsEnqueued) {
  std::vector<int> seen;
  const DeviceAddress at = {Space::dram, 256};
  const auto four = list({{FillCommand{at, 16, std::vector<std::byte>(4)}, "fill"},
                          {add(1, at, 16), "add"},
                          {HostCommand{[&seen] {
                             seen.push_back(1);
                           }},
                           "host"},
                          {MarkCommand{}, ""},
                          {CopyCommand{nullptr, at, {Space::l1, 0}, 16}, "copy"},
                          {add(2, {Space::l1, 0}, 8), "add"}});
  Event last;
  for (int i = 0; i < 50; ++i) {
    last = enqueue(*queue_, four);
  }
  last.wait();
  EXPECT_EQ(seen, std::vector<int>(50, 1));
  EXPECT_EQ(read<float>(*queue_, {Space::l1, 0}, 4), (std::vector<float>{3, 3, 1, 1}));
}

TEST_P(KernelConformance, TheFirstFailureEndsItsListAndIsNamed) {
  int runs = 0;
  const auto count = HostCommand{[&runs] {
    ++runs;
  }};
  const auto broken = HostCommand{[] {
    throw std::runtime_error("no luck");
  }};
  const Event failed =
      enqueue(*queue_, list({{count, ""}, {broken, "draw"}, {count, "never"}}), {}, "replay");
  EXPECT_EQ(std::string(error_of(failed).what()),
            "replay: draw: device " + device().info().name + ": no luck");
  enqueue(*queue_, list({{count, ""}})).wait();
  EXPECT_EQ(runs, 2);
}

TEST_P(KernelConformance, AListOfNothingCompletes) {
  EXPECT_NO_THROW(enqueue(*queue_, list({})).wait());
}

TEST_P(KernelConformance, AnArenaOfMoreThanFourGigabytesKeepsItsBytes) {
  constexpr std::int64_t kBytes = std::int64_t{5} << 30;  // only what is touched takes memory
  std::vector<std::unique_ptr<Device>> large;
  try {
    large = find_backend(GetParam().backend).open({.count = 1, .dram_bytes = kBytes});
  } catch (const Error& error) {
    GTEST_SKIP() << "this machine has no 5 GiB of addresses for an arena: " << error.what();
  }
  const auto queue = large[0]->create_queue();
  const std::vector<std::int64_t> low = {1, 2, 3};
  const std::vector<std::int64_t> high = {4, 5, 6};
  const DeviceAddress near = {Space::dram, 128};
  const DeviceAddress far = {Space::dram, (std::int64_t{4} << 30) + 128};  // equal modulo 2^32
  write(*queue, low, near);
  write(*queue, high, far);
  EXPECT_EQ(read<std::int64_t>(*queue, near, 3), low);
  EXPECT_EQ(read<std::int64_t>(*queue, far, 3), high);
  const DeviceAddress last = {Space::dram, kBytes - 24};
  enqueue(*queue, CopyCommand{nullptr, far, last, 24});
  EXPECT_EQ(read<std::int64_t>(*queue, last, 3), high);
  enqueue(*queue, FillCommand{far, 24, {std::byte{0}}});
  EXPECT_EQ(read<std::int64_t>(*queue, near, 3), low);
  // Rows four gigabytes apart.
  std::vector<std::int64_t> rows(2);
  enqueue(*queue, ReadCommand{near,
                              reinterpret_cast<std::byte*>(rows.data()),  // NOLINT
                              {.row_bytes = 8,
                               .rows = 2,
                               .host_pitch_bytes = 8,
                               .device_pitch_bytes = far.offset - near.offset},
                              nullptr})
      .wait();
  EXPECT_EQ(rows, (std::vector<std::int64_t>{1, 0}));
}

}  // namespace
}  // namespace tilemesh
