#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "tilemesh/device/device.hpp"

#include "mesh/mesh_view.hpp"

namespace tilemesh::detail {

/// One exchange, prepared on all devices of a view: from base 0 to base 1.
struct ExchangeProgram {
  std::vector<std::shared_ptr<DeviceProgram>> programs;
  std::int64_t bytes = 0;  ///< that all devices together get of each other's memory
};

/// The exchanges that were used last, so that none is prepared again and again. Thread-safe.
class ExchangePrograms {
 public:
  /// Null if it isn't there.
  std::shared_ptr<const ExchangeProgram> find(const MeshView& view, const Exchange& exchange);
  void keep(const MeshView& view, const Exchange& exchange,
            std::shared_ptr<const ExchangeProgram> program);

 private:
  struct Entry {
    const MeshView* view;
    std::size_t hash;
    Exchange exchange;
    std::shared_ptr<const ExchangeProgram> program;
  };
  /// As many that the programs of single devices stay below some thousands.
  void forget_oldest();  // needs mutex_

  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last first
  std::size_t programs_ = 0;
};

}  // namespace tilemesh::detail
