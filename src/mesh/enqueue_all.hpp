#pragma once

#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "tilemesh/mesh/mesh_queue.hpp"

#include "mesh/mesh_core.hpp"
#include "mesh/trace_recorder.hpp"

namespace tilemesh {

/// One command a device; `make_work(index)` gives its work.
template <class MakeWork>
Event MeshQueue::enqueue_all(EnqueueOptions& options, std::shared_ptr<const void> keep_alive,
                             const MakeWork& make_work) {
  const std::size_t count = queues_.size();
  constexpr bool kMark = std::is_same_v<decltype(make_work(std::size_t{0})), MarkCommand>;
  EventSource done(static_cast<int>(count));
  const Event event = done.event();
  detail::TraceRecorder* const trace = recorder();
  const std::lock_guard lock(lanes_.order);
  for (std::size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    push(trace, view_.devices[i],
         Command{.work = make_work(i),
                 .after = last ? std::move(options.after) : options.after,
                 .done = last ? std::move(done) : done,
                 .label = last ? std::move(options.label) : options.label,
                 .keep_alive = last ? std::move(keep_alive) : keep_alive,
                 .devices_alive = core_.shared_from_this()});
  }
  if (!kMark) {
    lanes_.work_count.fetch_add(
        1);  // only now, so that a later mark comes behind all that is counted
  }
  return event;
}

}  // namespace tilemesh
