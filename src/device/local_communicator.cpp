#include "tilemesh/device/local_communicator.hpp"

#include <algorithm>
#include <array>

#include "tilemesh/device/device.hpp"

#include "device/local_gathering.hpp"

namespace tilemesh {

struct LocalCommunicator::State {
  std::shared_ptr<detail::LocalGroup> group = std::make_shared<detail::LocalGroup>();
  std::shared_ptr<detail::Watchdog> watchdog;
  std::vector<std::array<std::byte*, 3>> arenas;  // by space; the host's stays null
};

LocalCommunicator::LocalCommunicator(const std::vector<Member>& members,
                                     std::chrono::nanoseconds timeout)
    : state_(std::make_unique<State>()) {
  using namespace std::chrono_literals;
  state_->watchdog = std::make_shared<detail::Watchdog>(
      std::clamp<std::chrono::nanoseconds>(timeout / 4, 1ms, 10s));
  state_->group->timeout = timeout;
  state_->group->watchdog = state_->watchdog;
  state_->group->watched = state_->watchdog->list();
  for (const Member& member : members) {
    state_->group->places.push_back(member.place);
    state_->arenas.push_back(
        {nullptr, member.device->map(Space::dram), member.device->map(Space::l1)});
  }
}

LocalCommunicator::~LocalCommunicator() = default;

int LocalCommunicator::size() const {
  return static_cast<int>(state_->arenas.size());
}

const std::string& LocalCommunicator::place(int member) const {
  return state_->group->places.at(static_cast<std::size_t>(member));
}

std::byte* LocalCommunicator::arena(int member, Space space) const {
  return state_->arenas.at(static_cast<std::size_t>(member)).at(static_cast<std::size_t>(space));
}

std::shared_ptr<Gathering> LocalCommunicator::gather(std::string label) {
  return std::make_shared<detail::LocalGathering>(state_->group, std::move(label));
}

}  // namespace tilemesh
