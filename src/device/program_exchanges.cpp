#include "tilemesh/device/program_exchanges.hpp"

#include <algorithm>

#include "tilemesh/device/spin_wait.hpp"

namespace tilemesh::detail {

namespace {

bool is_exchange(const DeviceStep& step) {
  return step.kind == DeviceStep::Kind::exchange;
}

bool jumps_to(const DeviceStep& step, std::size_t target) {
  using Kind = DeviceStep::Kind;
  const bool jumps =
      step.kind == Kind::jump || step.kind == Kind::jump_if_false || step.kind == Kind::repeat;
  return jumps && std::cmp_equal(step.target, target);
}

}  // namespace

ProgramExchanges::ProgramExchanges(std::span<const DeviceStep> steps, const HostMemory& memory,
                                   FindReduction find) {
  if (std::ranges::none_of(steps, is_exchange)) {
    return;
  }
  entries_.resize(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!is_exchange(steps[i])) {
      continue;
    }
    try {
      add(steps[i], memory, find, entries_[i]);
    } catch (const Error& error) {
      throw error.in(steps[i].name);
    }
    if (i > 0 && entries_[i - 1].exchange != nullptr) {
      const HostExchange& before = *entries_[i - 1].exchange;
      entries_[i].follows =
          before.meets() && !before.has_finish() &&
          std::ranges::none_of(steps, [i](const DeviceStep& step) { return jumps_to(step, i); });
    }
  }
}

void ProgramExchanges::add(const DeviceStep& step, const HostMemory& memory, FindReduction find,
                           Entry& entry) {
  TILEMESH_CHECK(step.operands.size() == 2, "a collective has a source and a target");
  const ExchangePart& part = step.exchange;
  TILEMESH_CHECK(part.exchange != nullptr && part.communicator != nullptr,
                 "a collective without its exchange or communicator");
  if (peers_ == nullptr || part.communicator != seen_.communicator || part.member != seen_.member) {
    peers_ = std::make_shared<HostPeers>(part, memory);
    seen_ = {part.communicator, part.member};
  }
  entry.exchange = std::make_unique<HostExchange>(part, peers_, find);
  entry.name = step.name;
  if (!entry.exchange->meets()) {
    return;
  }
  if (meets_ &&
      (membership_.communicator != part.communicator || membership_.member != part.member)) {
    throw Error(ErrorCode::invalid_argument,
                "a program's collectives are on several groups of devices: describe all of them on "
                "the group of the whole program");
  }
  membership_ = {part.communicator, part.member};
  meets_ = true;
}

std::size_t ProgramExchanges::enter(const std::shared_ptr<Gathering>& gathering) {
  if (!meets_) {
    return 0;
  }
  if (gathering == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "a program with collectives was launched on one device alone: launch it on a queue "
                "of its mesh");
  }
  if (gathering_ == gathering) {
    return step_;
  }
  if (gathering_ != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "the program still runs for another queue, and has one place for its values: wait "
                "for that launch, or prepare the program once more");
  }
  gathering_ = gathering;
  step_ = 0;
  meeting_ = 0;
  stage_ = Stage::before;
  return 0;
}

bool ProgramExchanges::run(std::size_t step, std::byte* source, std::byte* target,
                           std::chrono::nanoseconds spin) {
  const Entry& entry = entries_[step];
  HostExchange& exchange = *entry.exchange;
  if (!exchange.meets()) {
    exchange.work(source, target);
    exchange.finish(target);
    return true;
  }
  if (stage_ == Stage::before && !entry.follows) {
    gathering_->arrive(membership_.member, meeting_, entry.name);
    stage_ = Stage::coming;
  }
  if (stage_ == Stage::coming) {
    if (!met(spin)) {
      return false;
    }
    ++meeting_;
  }
  if (stage_ != Stage::working) {
    stage_ = Stage::working;
    exchange.work(source, target);
    gathering_->arrive(membership_.member, meeting_, entry.name);
  }
  if (!met(spin)) {
    return false;
  }
  ++meeting_;
  stage_ = Stage::before;
  exchange.finish(target);
  return true;
}

bool ProgramExchanges::met(std::chrono::nanoseconds spin) const {
  if (gathering_->complete(meeting_)) {
    return true;
  }
  if (spin <= std::chrono::nanoseconds::zero()) {
    return false;
  }
  // Without giving the core to other threads: it would be away for longer than this takes.
  constexpr int kLooks = 32;
  const auto end = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < kLooks; ++i) {
      relax();
      if (gathering_->complete(meeting_)) {
        return true;
      }
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

Event ProgramExchanges::set_aside(std::size_t step) {
  step_ = step;
  return gathering_->event(meeting_, stage_ == Stage::working);
}

void ProgramExchanges::end(bool well) {
  if (well && gathering_ != nullptr) {
    gathering_->leave(membership_.member);
  }
  gathering_ = nullptr;
}

}  // namespace tilemesh::detail
