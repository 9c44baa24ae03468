#include "tilemesh/device/strand.hpp"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tilemesh {
namespace {

using detail::Lane;
using detail::Strand;

/// A strand that goes on when the test says so. Its commands are host commands; one whose `gates`
/// aren't empty waits for the first of them in its midst.
class ManualStrand final : public Strand {
 public:
  ManualStrand() : Strand("here") {}
  using Strand::carry_on;

  int scheduled = 0;
  std::vector<Event> gates;

 private:
  std::optional<Event> carry_out(const CommandWork& work) override {
    if (!gates.empty()) {
      Event gate = std::move(gates.back());
      gates.pop_back();
      return gate;
    }
    std::get<HostCommand>(work).function();
    return std::nullopt;
  }
  void schedule() override { ++scheduled; }
};

class StrandTest : public testing::Test {
 protected:
  static constexpr int kAll = 1000;

  Event enqueue(const std::shared_ptr<Lane>& lane, const std::string& name,
                std::vector<Event> after = {}) {
    return enqueue(
        lane, [this, name] { order_ += name; }, std::move(after));
  }
  Event enqueue(const std::shared_ptr<Lane>& lane, std::function<void()> function,
                std::vector<Event> after = {}) {
    Command command{
        .work = HostCommand{std::move(function)}, .after = std::move(after), .label = "command"};
    const Event done = command.done.event();
    strand_->enqueue(lane, std::move(command));
    return done;
  }

  std::shared_ptr<ManualStrand> strand_ = std::make_shared<ManualStrand>();
  std::shared_ptr<Lane> first_ = strand_->make_lane();
  std::shared_ptr<Lane> second_ = strand_->make_lane();
  std::string order_;
};

TEST_F(StrandTest, LanesTakeTurnsAndAreInOrderThemselves) {
  for (const char* name : {"a", "b", "c"})
    enqueue(first_, name);
  for (const char* name : {"x", "y"})
    enqueue(second_, name);
  EXPECT_EQ(strand_->scheduled, 1) << "once, until it runs";
  EXPECT_FALSE(strand_->idle());
  strand_->carry_on(kAll);
  EXPECT_EQ(order_, "axbyc");
  EXPECT_TRUE(strand_->idle() && first_->idle() && second_->idle());
  strand_->carry_on(kAll);  // nothing is scheduled
  EXPECT_EQ(strand_->scheduled, 1);
}

TEST_F(StrandTest, ALimitGivesWayAndSchedulesTheRest) {
  for (const char* name : {"a", "b", "c"})
    enqueue(first_, name);
  strand_->carry_on(2);
  EXPECT_EQ(order_, "ab");
  EXPECT_EQ(strand_->scheduled, 2);
  strand_->carry_on(2);
  EXPECT_EQ(order_, "abc");
}

TEST_F(StrandTest, ACommandBeginsOnceTheEventBeforeIsCompleteWithItsCallbacks) {
  const Event before = enqueue(first_, "a");
  before.then([this](const Status&) {
    EXPECT_FALSE(first_->idle());
    EXPECT_TRUE(strand_->idle()) << "the last command leaves the device first";
    enqueue(first_, "b");
    strand_->carry_on(kAll);  // as another worker would meanwhile
    order_ += "(a is complete)";
  });
  strand_->carry_on(kAll);
  EXPECT_EQ(order_, "a(a is complete)");
  EXPECT_EQ(strand_->scheduled, 2);
  strand_->carry_on(kAll);
  EXPECT_EQ(order_, "a(a is complete)b");
  EXPECT_TRUE(first_->idle());
}

TEST_F(StrandTest, OneThatWaitsIsSetAsideBeforeItBeginsOrInItsMidst) {
  const EventSource early;
  const EventSource late;
  const Event waits = enqueue(first_, "a", {early.event()});
  enqueue(first_, "b");
  enqueue(second_, "x");
  strand_->carry_on(kAll);
  EXPECT_EQ(order_, "x");
  EXPECT_FALSE(first_->idle());
  strand_->gates = {late.event()};
  early.complete({});
  EXPECT_EQ(strand_->scheduled, 2);
  strand_->carry_on(kAll);
  enqueue(second_, "y");
  strand_->carry_on(kAll);
  EXPECT_EQ(order_, "xy");
  EXPECT_FALSE(waits.ready());
  late.complete({});
  strand_->carry_on(kAll);
  EXPECT_EQ(order_, "xyab");
}

TEST_F(StrandTest, AFailureNamesCommandAndPlaceAndSkipsWhatNeedsIt) {
  const Event failed = enqueue(first_, [] { throw std::runtime_error("bad"); });
  const Event skipped = enqueue(second_, "x", {failed});
  enqueue(first_, "a");
  strand_->carry_on(kAll);
  EXPECT_EQ(order_, "a");
  EXPECT_EQ(std::string(failed.status().error().what()), "command: device here: bad");
  EXPECT_EQ(&failed.status().error(), &skipped.status().error());
}

TEST_F(StrandTest, AClaimHoldsTheStrandUnlessSomethingIsPending) {
  {
    const Strand::Claim claim(*strand_, *first_);
    EXPECT_TRUE(claim.held());
    EXPECT_FALSE(strand_->idle() || first_->idle());
    EXPECT_FALSE(Strand::Claim(*strand_, *second_).held());
    enqueue(second_, "x");
    EXPECT_EQ(strand_->scheduled, 0);
    EXPECT_FALSE(strand_->help());
  }
  EXPECT_EQ(strand_->scheduled, 1);
  EXPECT_FALSE(Strand::Claim(*strand_, *first_).held());
  EXPECT_TRUE(strand_->help());
  EXPECT_EQ(order_, "x");
  EXPECT_FALSE(strand_->help());
  EXPECT_TRUE(Strand::Claim(*strand_, *first_).held());
}

TEST_F(StrandTest, ClosedItFailsWhatIsLeftAndWhatComes) {
  const EventSource gate;
  strand_->gates = {gate.event()};
  const Event midst = enqueue(first_, "a");
  strand_->carry_on(kAll);
  const Event waiting = enqueue(second_, "x");
  strand_->close();
  const Event later = enqueue(second_, "y");
  for (const Event& event : {midst, waiting, later}) {
    ASSERT_TRUE(event.ready());
    EXPECT_NE(std::string(event.status().error().what()).find("device here was closed"),
              std::string::npos);
  }
  gate.complete({});
  strand_->carry_on(kAll);
  EXPECT_EQ(order_, "");
  EXPECT_TRUE(strand_->idle() && first_->idle() && second_->idle());
}

}  // namespace
}  // namespace tilemesh
