#include <numeric>

#include "tilemesh/device/local_communicator.hpp"

#include "fixture.hpp"

namespace tilemesh {
namespace {

/// All devices of a variant as a mesh of one row.
class ExchangeConformance : public DeviceConformance {
 protected:
  static constexpr std::int64_t kTarget = 4096;

  int count() const { return static_cast<int>(devices_.size()); }
  TensorSpec spec(std::initializer_list<std::int64_t> shape, Placement placement) const {
    return {.shape = Shape(shape), .placements = {replicate(), placement}, .mesh = {1, count()}};
  }
  static DeviceStep exchange(const TensorSpec& from, const TensorSpec& to) {
    DeviceStep step;
    step.kind = DeviceStep::Kind::exchange;
    step.exchange.exchange = std::make_shared<Exchange>(Exchange{.from = from, .to = to});
    step.operands = {{.base = 0}, {.base = 1}};
    step.name = "op 1 \"exchange\"";
    return step;
  }
  std::vector<std::shared_ptr<DeviceProgram>> prepare(std::vector<DeviceStep> steps) {
    std::vector<std::shared_ptr<DeviceProgram>> programs;
    for (int i = 0; i < count(); ++i) {
      for (DeviceStep& step : steps) {
        step.exchange.communicator = communicator_;
        step.exchange.member = i;
      }
      programs.push_back(device(i).prepare(steps));
    }
    return programs;
  }
  /// Launches them together; the events by device.
  std::vector<Event> launch(const std::vector<std::shared_ptr<DeviceProgram>>& programs,
                            std::int64_t source = 0, std::vector<Event> after = {}) {
    std::shared_ptr<Gathering> gathering;
    if (const Membership* membership = programs[0]->membership()) {
      gathering = membership->communicator->gather("program \"p\"");
    }
    std::vector<Event> events;
    for (std::size_t i = 0; i < programs.size(); ++i) {
      events.push_back(enqueue(
          *queues_[i],
          LaunchCommand{programs[i], {{Space::dram, source}, {Space::dram, kTarget}}, gathering},
          after, "program \"p\""));
    }
    return events;
  }
  std::vector<float> target(int index, std::size_t elements) {
    return read<float>(*queues_[static_cast<std::size_t>(index)], {Space::dram, kTarget}, elements);
  }

  std::vector<std::unique_ptr<DeviceQueue>> queues_ = make_queues();
  std::shared_ptr<Communicator> communicator_ = make_communicator(std::chrono::minutes(1));

  std::shared_ptr<Communicator> make_communicator(std::chrono::nanoseconds timeout) {
    std::vector<LocalCommunicator::Member> members;
    for (const auto& device : devices_) {
      members.push_back({device.get(), device->info().name});
    }
    return std::make_shared<LocalCommunicator>(members, timeout);
  }

 private:
  std::vector<std::unique_ptr<DeviceQueue>> make_queues() {
    std::vector<std::unique_ptr<DeviceQueue>> queues;
    for (const auto& device : devices_) {
      queues.push_back(device->create_queue());
    }
    return queues;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, ExchangeConformance, testing::ValuesIn(variants()),
                         variant_name);

TEST_P(ExchangeConformance, AllReduceAddsUpInPlaceOrNotAgainAndAgain) {
  const auto programs =
      prepare({exchange(spec({5, 100}, partial(ReduceOp::sum)), spec({5, 100}, replicate()))});
  EXPECT_EQ(programs[0]->membership() != nullptr, count() > 1);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t source = round % 2 == 0 ? 0 : kTarget;
    for (int i = 0; i < count(); ++i) {
      std::vector<float> values(500);
      std::iota(values.begin(), values.end(), static_cast<float>(i * 1000 + round));
      write(*queues_[static_cast<std::size_t>(i)], values, {Space::dram, source});
    }
    for (const Event& event : launch(programs, source)) {
      event.wait();
    }
    std::vector<float> sums(500);
    for (std::size_t e = 0; e < sums.size(); ++e) {
      for (int i = 0; i < count(); ++i) {
        sums[e] += static_cast<float>(i * 1000 + round) + static_cast<float>(e);
      }
    }
    for (int i = 0; i < count(); ++i) {
      ASSERT_EQ(target(i, 500), sums) << "device " << i << ", round " << round;
    }
  }
}

TEST_P(ExchangeConformance, ShardsBecomeWholeAndAreCutAlongAnotherDim) {
  const TensorSpec rows = spec({17, 3}, shard(0));  // uneven: the last device has less, or nothing
  const TensorSpec columns = spec({17, 3}, shard(1));
  const auto whole = prepare({exchange(rows, spec({17, 3}, replicate()))});
  const auto cut = prepare({exchange(rows, columns)});
  const std::int64_t each = rows.shard_shape()[0];
  for (int i = 0; i < count(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(3 * each));
    std::iota(values.begin(), values.end(), static_cast<float>(i * 3 * each));
    write(*queues_[static_cast<std::size_t>(i)], values, {Space::dram, 0});
  }
  for (const Event& event : launch(whole)) {
    event.wait();
  }
  std::vector<float> all(51);
  std::iota(all.begin(), all.end(), 0.0F);
  for (int i = 0; i < count(); ++i) {
    EXPECT_EQ(target(i, 51), all);
  }
  for (const Event& event : launch(cut)) {
    event.wait();
  }
  const std::int64_t width = columns.shard_shape()[1];
  for (int i = 0; i < count(); ++i) {
    std::vector<float> expected;
    for (std::int64_t row = 0; row < 17; ++row) {
      for (std::int64_t column = i * width; column < (i + 1) * width; ++column) {
        expected.push_back(column < 3 ? static_cast<float>(3 * row + column) : 0.0F);
      }
    }
    EXPECT_EQ(target(i, expected.size()), expected);
  }
}

TEST_P(ExchangeConformance, AFailingMemberFailsTheOthersWithItsCause) {
  const DeviceStep reduce = exchange(spec({8}, partial(ReduceOp::sum)), spec({8}, replicate()));
  auto programs = prepare({reduce, reduce, reduce});
  DeviceStep fail;
  fail.kind = DeviceStep::Kind::fail;
  fail.name = "op 2 \"stop\"";
  fail.message = "no branch fits";
  std::vector<DeviceStep> steps = {reduce, fail};
  const int last = count() - 1;
  steps[0].exchange.communicator = communicator_;
  steps[0].exchange.member = last;
  programs.back() = device(last).prepare(steps);
  for (int round = 0; round < 20; ++round) {
    for (const Event& event : launch(programs)) {
      const Error error = error_of(event);
      EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
      EXPECT_EQ(std::string(error.what()), "program \"p\": op 2 \"stop\", device " +
                                               device(last).info().name + ": no branch fits");
    }
  }
  for (const Event& event : launch(prepare({reduce, reduce}))) {
    EXPECT_NO_THROW(event.wait());
  }
}

TEST_P(ExchangeConformance, ASkippedMemberFailsTheOthersWithItsCause) {
  const auto programs =
      prepare({exchange(spec({8}, partial(ReduceOp::sum)), spec({8}, replicate()))});
  if (programs[0]->membership() == nullptr) {
    GTEST_SKIP() << "one device waits for nobody";
  }
  const EventSource failed;
  const auto gathering = communicator_->gather("");
  std::vector<Event> events;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    std::vector<Event> after;
    if (i == 0) {
      after.push_back(failed.event());
    }
    events.push_back(enqueue(
        *queues_[i], LaunchCommand{programs[i], {{Space::dram, 0}, {Space::dram, 64}}, gathering},
        after));
  }
  const Event other = enqueue_host(*device(1).create_queue(), [] {});
  other.wait();  // while the launch waits on its queue
  EXPECT_FALSE(events[1].ready());
  failed.complete(Error(ErrorCode::out_of_memory, "no room for the first one"));
  for (const Event& event : events) {
    EXPECT_EQ(error_of(event).code(), ErrorCode::out_of_memory);
  }
}

TEST_P(ExchangeConformance, QueuesInterleaveTheirLaunchesInAnyOrder) {
  const DeviceStep reduce = exchange(spec({100}, partial(ReduceOp::sum)), spec({100}, replicate()));
  const auto first = prepare({reduce, reduce});
  const auto second = prepare({reduce, reduce, reduce});
  if (first[0]->membership() == nullptr) {
    GTEST_SKIP() << "one device waits for nobody";
  }
  std::vector<std::unique_ptr<DeviceQueue>> others;
  for (const auto& device : devices_) {
    others.push_back(device->create_queue());
  }
  std::vector<Event> events;
  for (int round = 0; round < 100; ++round) {
    const auto a = communicator_->gather("a");
    const auto b = communicator_->gather("b");
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const auto add = [&](bool to_first) {
        events.push_back(
            to_first
                ? enqueue(*queues_[i],
                          LaunchCommand{first[i], {{Space::dram, 0}, {Space::dram, 1024}}, a})
                : enqueue(*others[i],
                          LaunchCommand{second[i], {{Space::dram, 2048}, {Space::dram, 3072}}, b}));
      };
      add((i + static_cast<std::size_t>(round)) % 2 == 0);
      add((i + static_cast<std::size_t>(round)) % 2 != 0);
    }
  }
  for (const Event& event : events) {
    EXPECT_NO_THROW(event.wait());
  }
}

TEST_P(ExchangeConformance, OneProgramOnTwoQueuesAtOnceIsAnErrorAndStaysUsable) {
  const auto programs =
      prepare({exchange(spec({8}, partial(ReduceOp::sum)), spec({8}, replicate()))});
  if (programs[0]->membership() == nullptr) {
    GTEST_SKIP() << "one device waits for nobody";
  }
  const std::vector<DeviceAddress> bases = {{Space::dram, 0}, {Space::dram, 64}};
  const auto gathering = communicator_->gather("");
  const Event waiting = enqueue(*queues_[0], LaunchCommand{programs[0], bases, gathering});
  const auto other = device(0).create_queue();
  const Error error =
      error_of(enqueue(*other, LaunchCommand{programs[0], bases, communicator_->gather("")}));
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
  EXPECT_THROW(enqueue(*other, LaunchCommand{programs[0], bases}).wait(), Error);
  EXPECT_FALSE(queues_[0]->try_run_inline(*programs[0], bases));
  for (std::size_t i = 1; i < programs.size(); ++i) {
    enqueue(*queues_[i], LaunchCommand{programs[i], bases, gathering});
  }
  EXPECT_NO_THROW(waiting.wait());
}

TEST_P(ExchangeConformance, SlicesAndPlainCopiesMeetNobody) {
  const auto programs = prepare({exchange(spec({16}, replicate()), spec({16}, shard(0)))});
  EXPECT_EQ(programs[0]->membership(), nullptr);
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 0.0F);
  write(*queues_.back(), values, {Space::dram, 0}).wait();
  ASSERT_TRUE(queues_.back()->try_run_inline(
      *programs.back(), std::vector<DeviceAddress>{{Space::dram, 0}, {Space::dram, kTarget}}));
  const std::vector<float> slice = target(count() - 1, 16 / static_cast<std::size_t>(count()));
  EXPECT_EQ(slice.back(), 15.0F);
  EXPECT_EQ(slice.front(), 16.0F - static_cast<float>(slice.size()));
}

}  // namespace
}  // namespace tilemesh
