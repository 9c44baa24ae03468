#include "backends/cpu/arena.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

namespace tilemesh::cpu {

namespace {

constexpr std::int64_t kChunk = std::int64_t{2} << 20;  // a huge page
constexpr std::int64_t kPage = 4096;

}  // namespace

Arena::Arena(std::int64_t bytes, int number) : bytes_(bytes) {
  const std::int64_t shift = number % (kChunk / kPage) * kPage;
  // One chunk more than needed, to begin at a boundary of huge pages.
  const std::int64_t usable = checked_add(bytes, shift + kChunk - 1) / kChunk * kChunk;
  mapping_bytes_ = narrow<std::size_t>(checked_add(usable, kChunk));
  void* const mapping = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    throw Error(ErrorCode::mismatch,
                fmt::format("the system refuses an arena of {} bytes ({}): open the mesh with less "
                            "dram_bytes, or fewer devices",
                            bytes, std::strerror(errno)));
  }
  mapping_ = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);  // NOLINT: to align it
  chunks_ = mapping_ + (round_up<std::uintptr_t>(address, kChunk) - address);
  data_ = chunks_ + shift;
  madvise(chunks_, static_cast<std::size_t>(usable), MADV_HUGEPAGE);
  committed_.resize(static_cast<std::size_t>(usable / kChunk));
}

Arena::~Arena() {
  munmap(mapping_, mapping_bytes_);
}

void Arena::commit(std::int64_t offset, std::int64_t bytes) {
  if (bytes <= 0 || offset < 0 || offset > bytes_ - bytes) {
    return;
  }
  const std::int64_t begin = data_ - chunks_ + offset;
  const std::int64_t first = begin / kChunk;
  const std::int64_t end = ceil_div(begin + bytes, kChunk);
  const std::lock_guard lock(mutex_);
  for (std::int64_t chunk = first; chunk < end; ++chunk) {
    if (committed_[static_cast<std::size_t>(chunk)]) {
      continue;
    }
    std::int64_t after = chunk;
    while (after < end && !committed_[static_cast<std::size_t>(after)]) {
      committed_[static_cast<std::size_t>(after++)] = true;
    }
    madvise(chunks_ + chunk * kChunk, static_cast<std::size_t>((after - chunk) * kChunk),
            MADV_POPULATE_WRITE);
    chunk = after;
  }
}

}  // namespace tilemesh::cpu
