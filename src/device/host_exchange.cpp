#include "tilemesh/device/host_exchange.hpp"

#include <algorithm>
#include <cstring>

namespace tilemesh::detail {

namespace {

/// Calls visit(source offset, target offset) for every run.
template <class Visit>
void for_each_run(const Dims& counts, const Dims& source_strides, const Dims& target_strides,
                  const Visit& visit) {
  Dims index;
  index.resize(counts.size());
  std::int64_t source = 0;
  std::int64_t target = 0;
  for (;;) {
    visit(source, target);
    std::size_t d = counts.size();
    for (; d > 0; --d) {
      const std::size_t dim = d - 1;
      source += source_strides[dim];
      target += target_strides[dim];
      if (++index[dim] < counts[dim]) {
        break;
      }
      source -= counts[dim] * source_strides[dim];
      target -= counts[dim] * target_strides[dim];
      index[dim] = 0;
    }
    if (d == 0) {
      return;
    }
  }
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

/// Copies of one size, which the compiler knows.
template <std::size_t Bytes>
void copy_runs(const Dims& counts, const Dims& source_strides, const Dims& target_strides,
               std::byte* to, const std::byte* from) {
  for_each_run(counts, source_strides, target_strides,
               [&](std::int64_t source_at, std::int64_t target_at) {
                 std::memcpy(to + target_at, from + source_at, Bytes);
               });
}

using CopyRuns = void (*)(const Dims& counts, const Dims& source_strides,
                          const Dims& target_strides, std::byte* to, const std::byte* from);

/// For runs that are shorter than a call takes; null for others.
CopyRuns find_copy_runs(std::int64_t bytes) {
  switch (bytes) {
    case 1: return copy_runs<1>;
    case 2: return copy_runs<2>;
    case 4: return copy_runs<4>;
    case 8: return copy_runs<8>;
    case 16: return copy_runs<16>;
    case 32: return copy_runs<32>;
    default: return nullptr;
  }
}

}  // namespace

HostPeers::HostPeers(const ExchangePart& part, const HostMemory& own) : memory(own) {
  const Communicator& group = *part.communicator;
  TILEMESH_CHECK(part.member >= 0 && part.member < group.size(), "a member outside of its group");
  const auto count = static_cast<std::size_t>(group.size());
  distances.resize(count);
  inputs.resize(count);
  outputs.resize(count);
  for (int member = 0; member < group.size(); ++member) {
    for (const Space space : {Space::dram, Space::l1}) {
      const auto* const mine = group.arena(part.member, space);
      const auto* const theirs = group.arena(member, space);
      if (mine != nullptr && theirs != nullptr) {
        distances[static_cast<std::size_t>(member)][static_cast<std::size_t>(space)] =
            theirs - mine;
      }
    }
  }
}

std::byte* HostPeers::at(int member, std::byte* mine) const {
  const std::byte* const l1 = memory.base(Space::l1);
  const bool in_l1 = l1 != nullptr && mine >= l1 && mine < l1 + memory.bytes(Space::l1);
  const Space space = in_l1 ? Space::l1 : Space::dram;
  return mine + distances[static_cast<std::size_t>(member)][static_cast<std::size_t>(space)];
}

void HostExchange::work(std::byte* source, std::byte* target) {
  if (flat_) {
    all_reduce(source, target);
    return;
  }
  if (source_bytes_ > 0 && source < target + target_bytes_ && target < source + source_bytes_) {
    throw Error(ErrorCode::invalid_argument,
                "a collective that moves elements has its source and target in the same memory: "
                "give it a target of its own");
  }
  for (const Box& box : pulls_) {
    pull(box, source, target);
  }
  for (const Box& box : fills_) {
    fill(box, target);
  }
}

void HostExchange::finish(std::byte* target) const {
  for (const Box& box : finish_) {
    fill(box, target);
  }
}

void HostExchange::all_reduce(std::byte* source, std::byte* target) {
  if (slice_bytes_ == 0) {
    return;
  }
  if (sources_.size() == 1) {
    copy_bytes(target + slice_begin_, source + slice_begin_, slice_bytes_);
    return;
  }
  const std::span inputs = std::span(peers_->inputs).first(sources_.size());
  const std::span outputs = std::span(peers_->outputs).first(sources_.size());
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    inputs[i] = peers_->at(sources_[i], source) + slice_begin_;
    outputs[i] = peers_->at(sources_[i], target) + slice_begin_;
  }
  reduce_({.inputs = inputs,
           .outputs = outputs,
           .elements = slice_bytes_ / element_bytes_,
           .streams = streams_ && source != target});
}

void HostExchange::pull(const Box& box, std::byte* source, std::byte* target) {
  const std::span inputs = std::span(peers_->inputs).first(box.source_count);
  for (std::size_t i = 0; i < box.source_count; ++i) {
    inputs[i] = peers_->at(sources_[box.first_source + i], source) + box.source_offset;
  }
  std::byte* const to = target + box.target_offset;
  if (box.source_count == 1) {
    const std::byte* const from = inputs[0];
    if (const CopyRuns copy = find_copy_runs(box.run_bytes)) {
      copy(box.counts, box.source_strides, box.target_strides, to, from);
      return;
    }
    for_each_run(box.counts, box.source_strides, box.target_strides,
                 [&](std::int64_t source_at, std::int64_t target_at) {
                   copy_bytes(to + target_at, from + source_at, box.run_bytes);
                 });
    return;
  }
  std::int64_t before = 0;
  for_each_run(box.counts, box.source_strides, box.target_strides,
               [&](std::int64_t source_at, std::int64_t target_at) {
                 for (const std::byte*& input : inputs) {
                   input += source_at - before;
                 }
                 before = source_at;
                 std::byte* const result = to + target_at;
                 reduce_({.inputs = inputs,
                          .outputs = {&result, 1},
                          .elements = box.run_bytes / element_bytes_});
               });
}

void HostExchange::fill(const Box& box, std::byte* target) const {
  const auto size = static_cast<std::size_t>(element_bytes_);
  for_each_run(box.counts, box.source_strides, box.target_strides,
               [&](std::int64_t, std::int64_t target_at) {
                 std::byte* const to = target + box.target_offset + target_at;
                 const auto bytes = static_cast<std::size_t>(box.run_bytes);
                 std::memcpy(to, neutral_.data(), size);
                 for (std::size_t done = size; done < bytes; done *= 2) {
                   std::memcpy(to + done, to, std::min(done, bytes - done));
                 }
               });
}

}  // namespace tilemesh::detail
