#include "mesh/exchange_programs.hpp"

#include <algorithm>

namespace tilemesh::detail {

namespace {

constexpr std::size_t kMostPrograms = 4096;
constexpr std::size_t kFewestEntries = 8;

/// Of what differs most; the rest is compared.
std::size_t hash_of(const Exchange& exchange) {
  std::size_t hash = static_cast<std::size_t>(exchange.from.dtype);
  const auto add = [&hash](std::int64_t value) {
    hash = (hash ^ static_cast<std::size_t>(value)) * 0x100000001b3;
  };
  for (const TensorSpec* spec : {&exchange.from, &exchange.to}) {
    std::ranges::for_each(spec->shape, add);
    for (const Placement& placement : spec->placements) {
      add(static_cast<int>(placement.kind()));
      add(placement.dim());
    }
  }
  return hash;
}

bool same(const Exchange& a, const Exchange& b) {
  return a.from == b.from && a.to == b.to && a.fill == b.fill && a.members.from == b.members.from &&
         a.members.to == b.members.to;
}

}  // namespace

std::shared_ptr<const ExchangeProgram> ExchangePrograms::find(const MeshView& view,
                                                              const Exchange& exchange) {
  const std::size_t hash = hash_of(exchange);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.hash == hash && entry.view == &view && same(entry.exchange, exchange);
  });
  if (found == entries_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found);
  return found->program;
}

void ExchangePrograms::keep(const MeshView& view, const Exchange& exchange,
                            std::shared_ptr<const ExchangeProgram> program) {
  const std::lock_guard lock(mutex_);
  programs_ += program->programs.size();
  entries_.push_front({&view, hash_of(exchange), exchange, std::move(program)});
  forget_oldest();
}

void ExchangePrograms::forget_oldest() {
  while (programs_ > kMostPrograms && entries_.size() > kFewestEntries) {
    programs_ -= entries_.back().program->programs.size();
    entries_.pop_back();
  }
}

}  // namespace tilemesh::detail
