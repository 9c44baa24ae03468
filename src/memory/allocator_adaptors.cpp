#include "tilemesh/memory/allocator_adaptors.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

std::string text_of(const std::vector<int>* devices) {
  return devices == nullptr ? "all" : fmt::format("{}", fmt::join(*devices, ","));
}

}  // namespace

AllocatorAdaptor::AllocatorAdaptor(std::unique_ptr<Allocator> inner) : inner_(std::move(inner)) {
  TILEMESH_CHECK(inner_ != nullptr, "an adaptor wants an allocator to wrap");
}

std::optional<ByteRange> AllocatorAdaptor::take(const AllocationRequest& request) {
  return inner_->take(request);
}

void AllocatorAdaptor::give(const std::vector<int>* devices, const ByteRange& range) {
  inner_->give(devices, range);
}

LimitAllocator::LimitAllocator(std::unique_ptr<Allocator> inner, std::int64_t limit_bytes)
    : AllocatorAdaptor(std::move(inner)), limit_bytes_(limit_bytes) {
  if (limit_bytes < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a limit of {} bytes: give 0 or more", limit_bytes));
  }
}

std::int64_t LimitAllocator::arena_bytes() const {
  return std::min(limit_bytes_, AllocatorAdaptor::arena_bytes());
}

std::int64_t LimitAllocator::left_bytes(const std::vector<int>* devices) const {
  std::int64_t used = 0;
  if (devices == nullptr) {
    for (int device = 0; device < device_count(); ++device)
      used = std::max(used, used_bytes(device));
  } else {
    for (const int device : *devices)
      used = std::max(used, used_bytes(device));
  }
  return std::max<std::int64_t>(arena_bytes() - used, 0);
}

std::int64_t LimitAllocator::largest_hole_bytes(const std::vector<int>* devices) const {
  return std::min(AllocatorAdaptor::largest_hole_bytes(devices), left_bytes(devices));
}

std::optional<ByteRange> LimitAllocator::take(const AllocationRequest& request) {
  const std::int64_t left = left_bytes(request.devices);
  if (request.bytes > left) return std::nullopt;
  auto range = AllocatorAdaptor::take(request);
  if (range && range->bytes > left) {  // what rounding up has added
    give(request.devices, *range);
    range.reset();
  }
  return range;
}

LogAllocator::LogAllocator(std::unique_ptr<Allocator> inner, Sink sink)
    : AllocatorAdaptor(std::move(inner)), sink_(std::move(sink)) {}

std::optional<ByteRange> LogAllocator::take(const AllocationRequest& request) {
  const auto range = AllocatorAdaptor::take(request);
  sink_(fmt::format("take {} bytes aligned to {} on {}: {}", request.bytes, request.alignment,
                    text_of(request.devices),
                    range ? fmt::format("{} at {}", range->bytes, range->offset) : "no room"));
  return range;
}

void LogAllocator::give(const std::vector<int>* devices, const ByteRange& range) {
  AllocatorAdaptor::give(devices, range);
  sink_(fmt::format("give {} bytes at {} on {}", range.bytes, range.offset, text_of(devices)));
}

StatisticsAllocator::StatisticsAllocator(std::unique_ptr<Allocator> inner,
                                         std::shared_ptr<AllocationStatistics> statistics)
    : AllocatorAdaptor(std::move(inner)), statistics_(std::move(statistics)) {
  TILEMESH_CHECK(statistics_ != nullptr, "statistics to count into");
}

std::optional<ByteRange> StatisticsAllocator::take(const AllocationRequest& request) {
  const auto range = AllocatorAdaptor::take(request);
  if (!range) {
    ++statistics_->refusals;
    return range;
  }
  ++statistics_->takes;
  statistics_->taken_bytes += range->bytes;
  statistics_->largest_bytes = std::max(statistics_->largest_bytes, range->bytes);
  return range;
}

void StatisticsAllocator::give(const std::vector<int>* devices, const ByteRange& range) {
  AllocatorAdaptor::give(devices, range);
  ++statistics_->gives;
}

FailingAllocator::FailingAllocator(std::unique_ptr<Allocator> inner, std::int64_t first,
                                   std::int64_t count)
    : AllocatorAdaptor(std::move(inner)), first_(first), count_(count) {}

std::optional<ByteRange> FailingAllocator::take(const AllocationRequest& request) {
  ++takes_;
  if (takes_ >= first_ && takes_ - first_ < count_) return std::nullopt;
  return AllocatorAdaptor::take(request);
}

}  // namespace tilemesh
