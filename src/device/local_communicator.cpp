#include "tilemesh/device/local_communicator.hpp"

#include <array>

#include "tilemesh/device/device.hpp"

#include "device/local_gathering.hpp"

namespace tilemesh {

struct LocalCommunicator::Group {
  detail::Places places;
  std::vector<std::array<std::byte*, 3>> arenas;  // by space; the host's stays null
  std::chrono::nanoseconds timeout;
};

LocalCommunicator::LocalCommunicator(const std::vector<Member>& members,
                                     std::chrono::nanoseconds timeout)
    : group_(std::make_shared<Group>()) {
  group_->timeout = timeout;
  for (const Member& member : members) {
    group_->places.push_back(member.place);
    group_->arenas.push_back(
        {nullptr, member.device->map(Space::dram), member.device->map(Space::l1)});
  }
}

LocalCommunicator::~LocalCommunicator() = default;

int LocalCommunicator::size() const {
  return static_cast<int>(group_->places.size());
}

const std::string& LocalCommunicator::place(int member) const {
  return group_->places.at(static_cast<std::size_t>(member));
}

std::byte* LocalCommunicator::arena(int member, Space space) const {
  return group_->arenas.at(static_cast<std::size_t>(member)).at(static_cast<std::size_t>(space));
}

std::shared_ptr<Gathering> LocalCommunicator::gather(std::string label) {
  const std::shared_ptr<const detail::Places> places(group_, &group_->places);
  return std::make_shared<detail::LocalGathering>(places, std::move(label));
}

}  // namespace tilemesh
