#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tilemesh::cpu {

/// What this process may use of this machine: its affinity, its cgroup's quota of time and memory
/// are honoured. Read once per call of read_machine.
struct Machine {
  /// One processor (the operating system's number) a core, as many as the quota pays for.
  std::vector<unsigned> processors;
  std::string name;
  std::vector<std::string> features;
  std::int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  std::int64_t memory_bytes = 0;
  int numa_nodes = 1;

  int cores() const { return static_cast<int>(processors.size()); }
};

Machine read_machine();

/// Binds the calling thread to processors; false if the system refuses (it then runs anywhere).
bool bind_this_thread(const std::vector<unsigned>& processors);
/// The processor that the calling thread runs on just now.
unsigned this_processor();
/// Asks that a range be backed by the memory nearest to the processors, if there are several kinds.
void place_near(const std::vector<unsigned>& processors, std::byte* memory, std::int64_t bytes);

/// Processors that one mesh binds threads to and others therefore leave alone. Process-wide; given
/// back when destroyed.
class CoreLease {
 public:
  CoreLease() = default;
  /// `count` processors of `machine` that no other lease holds, or an empty lease.
  CoreLease(const Machine& machine, std::size_t count);
  ~CoreLease();
  CoreLease(const CoreLease&) = delete;
  CoreLease& operator=(const CoreLease&) = delete;

  const std::vector<unsigned>& processors() const { return processors_; }

 private:
  std::vector<unsigned> processors_;
};

}  // namespace tilemesh::cpu
