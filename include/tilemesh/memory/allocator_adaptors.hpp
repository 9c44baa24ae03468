#pragma once

#include <functional>
#include <string>

#include "tilemesh/memory/allocator.hpp"

namespace tilemesh {

/// Passes everything on to the allocator that it owns; the others change one thing each.
class AllocatorAdaptor : public Allocator {
 public:
  explicit AllocatorAdaptor(std::unique_ptr<Allocator> inner);
  std::optional<ByteRange> take(const AllocationRequest& request) override;
  void give(const std::vector<int>* devices, const ByteRange& range) override;
  int device_count() const override { return inner_->device_count(); }
  std::int64_t arena_bytes() const override { return inner_->arena_bytes(); }
  std::int64_t used_bytes(int device) const override { return inner_->used_bytes(device); }
  std::int64_t peak_bytes(int device) const override { return inner_->peak_bytes(device); }
  std::int64_t largest_hole_bytes(const std::vector<int>* devices) const override {
    return inner_->largest_hole_bytes(devices);
  }

 private:
  std::unique_ptr<Allocator> inner_;
};

/// Holds each device to less than its arena: to find out whether a smaller one would do.
class LimitAllocator final : public AllocatorAdaptor {
 public:
  LimitAllocator(std::unique_ptr<Allocator> inner, std::int64_t limit_bytes);
  std::optional<ByteRange> take(const AllocationRequest& request) override;
  std::int64_t arena_bytes() const override;
  std::int64_t largest_hole_bytes(const std::vector<int>* devices) const override;

 private:
  /// What may still be taken on all of the devices.
  std::int64_t left_bytes(const std::vector<int>* devices) const;
  std::int64_t limit_bytes_;
};

/// Tells a sink every step: "take 1024 bytes aligned to 64 on all: 0", "give ...".
class LogAllocator final : public AllocatorAdaptor {
 public:
  using Sink = std::function<void(const std::string& line)>;
  LogAllocator(std::unique_ptr<Allocator> inner, Sink sink);
  std::optional<ByteRange> take(const AllocationRequest& request) override;
  void give(const std::vector<int>* devices, const ByteRange& range) override;

 private:
  Sink sink_;
};

/// What has passed an allocator so far.
struct AllocationStatistics {
  std::int64_t takes = 0;     ///< that got a range
  std::int64_t refusals = 0;  ///< that got none
  std::int64_t gives = 0;
  std::int64_t taken_bytes = 0;    ///< of a device, over all takes
  std::int64_t largest_bytes = 0;  ///< of one take
  std::int64_t live_count() const { return takes - gives; }
};

/// Counts into statistics that outlive it.
class StatisticsAllocator final : public AllocatorAdaptor {
 public:
  StatisticsAllocator(std::unique_ptr<Allocator> inner,
                      std::shared_ptr<AllocationStatistics> statistics);
  std::optional<ByteRange> take(const AllocationRequest& request) override;
  void give(const std::vector<int>* devices, const ByteRange& range) override;

 private:
  std::shared_ptr<AllocationStatistics> statistics_;
};

/// Refuses takes number `first` to `first + count - 1`, counted from 1. A mesh asks twice before it
/// gives up, so that one refusal alone is forgiven.
class FailingAllocator final : public AllocatorAdaptor {
 public:
  FailingAllocator(std::unique_ptr<Allocator> inner, std::int64_t first, std::int64_t count = 2);
  std::optional<ByteRange> take(const AllocationRequest& request) override;

 private:
  std::int64_t first_;
  std::int64_t count_;
  std::int64_t takes_ = 0;
};

}  // namespace tilemesh
