#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tilemesh/device/communicator.hpp"

namespace tilemesh {

class Device;

/// The devices of one process whose memory the host addresses. They must outlive it and all
/// gatherings.
class LocalCommunicator final : public Communicator {
 public:
  struct Member {
    Device* device = nullptr;
    std::string place;  ///< what errors call it
  };
  /// `timeout`: how long members wait for one that isn't there, to within a quarter.
  LocalCommunicator(const std::vector<Member>& members, std::chrono::nanoseconds timeout);
  ~LocalCommunicator() override;

  int size() const override;
  const std::string& place(int member) const override;
  std::byte* arena(int member, Space space) const override;
  std::shared_ptr<Gathering> gather(std::string label) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilemesh
