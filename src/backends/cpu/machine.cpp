#include "backends/cpu/machine.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <hwloc.h>
#include <sched.h>
#include <sys/resource.h>

#include "backends/cpu/cgroup.hpp"

namespace tilemesh::cpu {

namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

/// Null if the system's description can't be read; then there is one core of no known caches.
Topology load_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) {
    return nullptr;
  }
  Topology owned(topology);
  // Asks each core by running on it, which takes tens of milliseconds; the system knows as much.
  hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  return hwloc_topology_load(topology) == 0 ? std::move(owned) : nullptr;
}

/// Loading takes milliseconds, and nothing of it changes; the affinity is asked for separately.
hwloc_topology_t topology() {
  // Never destroyed: a worker may still be starting when the process ends.
  static const auto* const loaded = new Topology(load_topology());
  return loaded->get();
}

Bitmap bitmap_of(const std::vector<unsigned>& processors) {
  Bitmap set(hwloc_bitmap_alloc());
  for (const unsigned processor : processors) {
    hwloc_bitmap_set(set.get(), processor);
  }
  return set;
}

/// The first processor of every core that the process may run on.
std::vector<unsigned> allowed_processors() {
  Bitmap allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology(), allowed.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology()));
  }
  std::vector<unsigned> processors;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology(), HWLOC_OBJ_CORE, core)) != nullptr) {
    Bitmap usable(hwloc_bitmap_alloc());
    hwloc_bitmap_and(usable.get(), core->cpuset, allowed.get());
    if (const int first = hwloc_bitmap_first(usable.get()); first >= 0) {
      processors.push_back(static_cast<unsigned>(first));
    }
  }
  if (processors.empty()) {  // a machine that doesn't tell its cores
    for (int next = hwloc_bitmap_first(allowed.get()); next >= 0;
         next = hwloc_bitmap_next(allowed.get(), next)) {
      processors.push_back(static_cast<unsigned>(next));
    }
  }
  return processors;
}

std::int64_t cache_bytes(hwloc_obj_type_t type) {
  const hwloc_obj_t cache = hwloc_get_obj_by_type(topology(), type, 0);
  return cache == nullptr ? 0 : static_cast<std::int64_t>(cache->attr->cache.size);
}

std::string processor_name() {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology(), HWLOC_OBJ_PACKAGE, 0);
  const char* name = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUModel");
  return name == nullptr ? "unknown" : name;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
#if defined(__x86_64__)
  const auto add = [&names](const char* name, bool has) {
    if (has) {
      names.emplace_back(name);
    }
  };
  add("sse4.1", __builtin_cpu_supports("sse4.1") != 0);
  add("avx", __builtin_cpu_supports("avx") != 0);
  add("avx2", __builtin_cpu_supports("avx2") != 0);
  add("fma", __builtin_cpu_supports("fma") != 0);
  add("avx512f", __builtin_cpu_supports("avx512f") != 0);
  add("avx512bw", __builtin_cpu_supports("avx512bw") != 0);
  add("avx512vl", __builtin_cpu_supports("avx512vl") != 0);
  add("avx512vnni", __builtin_cpu_supports("avx512vnni") != 0);
  add("avx512bf16", __builtin_cpu_supports("avx512bf16") != 0);
#endif
  return names;
}

/// Which processors are leased, by all meshes of the process.
struct Leases {
  std::mutex mutex;
  std::set<unsigned> taken;
  static Leases& instance() {
    static auto* const leases = new Leases;  // never destroyed: a mesh may be a static
    return *leases;
  }
};

}  // namespace

Machine read_machine() {
  Machine machine;
  machine.features = instruction_sets();
  if (topology() == nullptr) {
    machine.processors = {0};
    machine.name = "unknown";
    machine.memory_bytes = std::int64_t{1} << 30;
    return machine;
  }
  machine.processors = allowed_processors();
  if (machine.processors.empty()) {
    machine.processors = {0};
  }
  if (const auto quota = cgroup_cores();
      quota && std::cmp_less(*quota, machine.processors.size())) {
    machine.processors.resize(static_cast<std::size_t>(*quota));
  }
  machine.name = processor_name();
  machine.l1d_bytes = cache_bytes(HWLOC_OBJ_L1CACHE);
  machine.l2_bytes = cache_bytes(HWLOC_OBJ_L2CACHE);
  machine.l3_bytes = cache_bytes(HWLOC_OBJ_L3CACHE);
  machine.numa_nodes = std::max(1, hwloc_get_nbobjs_by_type(topology(), HWLOC_OBJ_NUMANODE));
  machine.memory_bytes = static_cast<std::int64_t>(hwloc_get_root_obj(topology())->total_memory);
  if (const auto limit = cgroup_memory_bytes()) {
    machine.memory_bytes = std::min(machine.memory_bytes, *limit);
  }
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) == 0 && std::cmp_less(limit.rlim_cur, machine.memory_bytes)) {
      machine.memory_bytes = static_cast<std::int64_t>(limit.rlim_cur);
    }
  }
  return machine;
}

bool bind_this_thread(const std::vector<unsigned>& processors) {
  return !processors.empty() && topology() != nullptr &&
         hwloc_set_cpubind(topology(), bitmap_of(processors).get(), HWLOC_CPUBIND_THREAD) == 0;
}

unsigned this_processor() {
  return static_cast<unsigned>(std::max(0, sched_getcpu()));
}

void place_near(const std::vector<unsigned>& processors, std::byte* memory, std::int64_t bytes) {
  if (processors.empty() || topology() == nullptr ||
      hwloc_get_nbobjs_by_type(topology(), HWLOC_OBJ_NUMANODE) < 2) {
    return;
  }
  hwloc_set_area_membind(topology(), memory, static_cast<std::size_t>(bytes),
                         bitmap_of(processors).get(), HWLOC_MEMBIND_BIND, 0);
}

CoreLease::CoreLease(const Machine& machine, std::size_t count) {
  Leases& leases = Leases::instance();
  const std::lock_guard lock(leases.mutex);
  for (const unsigned processor : machine.processors) {
    if (processors_.size() < count && !leases.taken.contains(processor)) {
      processors_.push_back(processor);
    }
  }
  if (processors_.size() < count) {
    processors_.clear();
  }
  leases.taken.insert(processors_.begin(), processors_.end());
}

CoreLease::~CoreLease() {
  Leases& leases = Leases::instance();
  const std::lock_guard lock(leases.mutex);
  for (const unsigned processor : processors_) {
    leases.taken.erase(processor);
  }
}

}  // namespace tilemesh::cpu
