#include <numeric>

#include "fixture.hpp"

namespace tilemesh {
namespace {

class TransferConformance : public DeviceConformance {};
INSTANTIATE_TEST_SUITE_P(Backends, TransferConformance, testing::ValuesIn(variants()),
                         variant_name);

std::vector<std::uint8_t> counting(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  return bytes;
}

TEST_P(TransferConformance, InfoSaysWhatWasAskedFor) {
  const DeviceInfo& info = device().info();
  EXPECT_EQ(info.backend, GetParam().backend);
  EXPECT_EQ(info.dram_bytes, kDramBytes);
  EXPECT_EQ(info.l1_bytes, kL1Bytes);
  EXPECT_GE(info.threads, 1);
  EXPECT_FALSE(info.name.empty());
}

TEST_P(TransferConformance, BytesComeBackFromBothSpacesUpToTheLastByte) {
  const auto queue = device().create_queue();
  const auto bytes = counting(1000);
  for (const DeviceAddress address :
       {DeviceAddress{Space::dram, 0}, DeviceAddress{Space::dram, kDramBytes - 1000},
        DeviceAddress{Space::l1, 0}, DeviceAddress{Space::l1, kL1Bytes - 1000}}) {
    device().commit(address, 1000);
    write(*queue, bytes, address).wait();
    EXPECT_EQ(read<std::uint8_t>(*queue, address, 1000), bytes);
  }
}

TEST_P(TransferConformance, CommitKeepsWhatIsThere) {
  const auto queue = device().create_queue();
  const auto bytes = counting(77);
  write(*queue, bytes, {Space::dram, 5}).wait();
  device().commit({Space::dram, 0}, kDramBytes);
  EXPECT_EQ(read<std::uint8_t>(*queue, {Space::dram, 5}, 77), bytes);
}

TEST_P(TransferConformance, RowsFollowThePitchOfEachSide) {
  const auto queue = device().create_queue();
  enqueue(*queue, FillCommand{{Space::dram, 0}, 64, {std::byte{0xff}}});
  const auto host = counting(40);  // 4 rows at a pitch of 10, of which 3 bytes are moved
  const TransferRegion region = {
      .row_bytes = 3, .rows = 4, .host_pitch_bytes = 10, .device_pitch_bytes = 7};
  const DeviceAddress address = {Space::dram, 1};
  enqueue(*queue, WriteCommand{reinterpret_cast<const std::byte*>(host.data()),  // NOLINT
                               address, region, nullptr});
  std::vector<std::uint8_t> expected(64, 0xff);
  for (std::size_t row = 0; row < 4; ++row) {
    std::copy_n(host.begin() + static_cast<std::ptrdiff_t>(row * 10), 3,
                expected.begin() + static_cast<std::ptrdiff_t>(1 + row * 7));
  }
  EXPECT_EQ(read<std::uint8_t>(*queue, {Space::dram, 0}, 64), expected);
  std::vector<std::uint8_t> back(40, 0);
  enqueue(*queue, ReadCommand{address, reinterpret_cast<std::byte*>(back.data()),  // NOLINT
                              region, nullptr})
      .wait();
  for (std::size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i], i % 10 < 3 ? host[i] : 0) << i;
  }
}

TEST_P(TransferConformance, TransfersOfNothingComplete) {
  const auto queue = device().create_queue();
  const DeviceAddress end = {Space::dram, kDramBytes};
  EXPECT_NO_THROW(enqueue(*queue, WriteCommand{nullptr, end, {}, nullptr}).wait());
  EXPECT_NO_THROW(
      enqueue(*queue, ReadCommand{end, nullptr, {.row_bytes = 5, .rows = 0}, nullptr}).wait());
  EXPECT_NO_THROW(enqueue(*queue, FillCommand{end, 0, {std::byte{1}}}).wait());
  EXPECT_NO_THROW(enqueue(*queue, CopyCommand{nullptr, end, end, 0}).wait());
}

TEST_P(TransferConformance, AFillRepeatsItsPatternAndCutsTheLast) {
  const auto queue = device().create_queue();
  for (const std::size_t size : {1U, 2U, 3U, 4U, 7U, 8U, 16U}) {
    for (const std::int64_t bytes : {1, 5, 16, 97, 1024}) {
      std::vector<std::byte> pattern;
      for (std::size_t i = 0; i < size; ++i) {
        pattern.push_back(static_cast<std::byte>(10 + i));
      }
      enqueue(*queue, FillCommand{{Space::dram, 0}, 1100, {std::byte{0}}});
      enqueue(*queue, FillCommand{{Space::dram, 3}, bytes, pattern});
      const auto got = read<std::uint8_t>(*queue, {Space::dram, 0}, 1100);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const bool inside = i >= 3 && std::cmp_less(i, 3 + bytes);
        ASSERT_EQ(got[i], inside ? 10 + (i - 3) % size : 0) << size << " " << bytes << " " << i;
      }
    }
  }
}

TEST_P(TransferConformance, CopiesWithinAndBetweenDevices) {
  const auto from = device().create_queue();
  const auto to = last_device().create_queue();
  const auto bytes = counting(333);
  const Event written = write(*from, bytes, {Space::dram, 64});
  enqueue(*from, CopyCommand{nullptr, {Space::dram, 64}, {Space::l1, 8}, 333}, {written}).wait();
  EXPECT_EQ(read<std::uint8_t>(*from, {Space::l1, 8}, 333), bytes);
  enqueue(*to, CopyCommand{&device(), {Space::l1, 8}, {Space::dram, 4096}, 333}).wait();
  EXPECT_EQ(read<std::uint8_t>(*to, {Space::dram, 4096}, 333), bytes);
}

TEST_P(TransferConformance, AnAddressOutsideItsArenaFailsTheCommandAlone) {
  const auto queue = device().create_queue();
  for (const DeviceAddress address :
       {DeviceAddress{Space::dram, -1}, DeviceAddress{Space::dram, kDramBytes - 3},
        DeviceAddress{Space::l1, kL1Bytes}, DeviceAddress{Space::host, 0}}) {
    const Error error = error_of(enqueue(*queue, FillCommand{address, 4, {std::byte{1}}}));
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
  }
  EXPECT_NO_THROW(enqueue(*queue, FillCommand{{Space::dram, 0}, 4, {std::byte{1}}}).wait());
}

TEST_P(TransferConformance, KeepAliveOwnsTheHostMemoryUntilTheEnd) {
  const auto queue = device().create_queue();
  const EventSource gate;
  auto owner = std::make_shared<std::vector<std::uint8_t>>(counting(100));
  const std::weak_ptr<std::vector<std::uint8_t>> watch = owner;
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());  // NOLINT
  const Event done =
      enqueue(*queue, WriteCommand{data, {Space::dram, 0}, {.row_bytes = 100}, std::move(owner)},
              {gate.event()});
  EXPECT_FALSE(watch.expired());
  gate.complete({});
  done.wait();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(read<std::uint8_t>(*queue, {Space::dram, 0}, 100), counting(100));
}

}  // namespace
}  // namespace tilemesh
