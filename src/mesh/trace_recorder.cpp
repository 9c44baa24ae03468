#include "mesh/trace_recorder.hpp"

#include <utility>

namespace tilemesh::detail {

Promises::~Promises() {
  const Status status =
      Error(ErrorCode::invalid_argument,
            "a captured command was never replayed, and its trace is gone: replay "
            "the trace before waiting for what it makes");
  for (const EventSource& source : sources_) {
    source.complete(status);
  }
}

void Promises::keep(const Event& replayed) {
  std::vector<EventSource> sources;
  {
    const std::lock_guard lock(mutex_);
    sources.swap(sources_);
  }
  if (!sources.empty()) {
    replayed.then([sources = std::move(sources)](const Status& status) {
      for (const EventSource& source : sources) {
        source.complete(status);
      }
    });
  }
}

CommandWork TracePhase::work(std::size_t device,
                             const std::shared_ptr<Gathering>& gathering) const {
  if (communicator == nullptr) {
    return ListCommand{lists[device]};
  }
  auto launch = std::get<LaunchCommand>(lists[device]->entries.front().work);
  launch.gathering = gathering;
  return launch;
}

const CommandList::Entry& TracePhase::first() const {
  const auto found = std::ranges::find_if(lists, [](const auto& list) { return list != nullptr; });
  return (*found)->entries.front();
}

const DeviceProgram& TracePhase::program() const {
  return *std::get<LaunchCommand>(first().work).program;
}

TraceRecorder::TraceRecorder(std::shared_ptr<MeshCore> core)
    : state_(std::make_shared<TraceState>()) {
  state_->core = std::move(core);
  begin_phase();
}

void TraceRecorder::begin_phase() {
  phases_.emplace_back().lists.resize(state_->core->devices().size());
}

void TraceRecorder::meet(std::shared_ptr<Communicator> communicator) {
  begin_phase();
  phases_.back().communicator = std::move(communicator);
}

void TraceRecorder::add(int device, Command command) {
  const bool is_mark = std::holds_alternative<MarkCommand>(command.work);
  for (const Event& event : command.after) {
    need(device, event, is_mark);
  }
  const Event done = command.done.event();
  points_[done.id()].push_back({device, phases_.size() - 1});
  state_->promises->add(command.done);
  known_.push_back(done);
  if (command.keep_alive != nullptr) {
    hold(std::move(command.keep_alive));
  }
  if (!is_mark) {
    auto& list = phases_.back().lists[static_cast<std::size_t>(device)];
    if (list == nullptr) {
      list = std::make_shared<CommandList>();
    }
    list->entries.push_back({std::move(command.work), std::move(command.label)});
  }
}

void TraceRecorder::need(int device, const Event& event, bool forgives) {
  const auto found = points_.find(event.id());
  if (found == points_.end()) {
    if (event.ready() && (forgives || event.status().ok())) {
      return;
    }
    if (!forgives) {
      state_->outside.push_back(event);
      return;
    }
    const EventSource source;
    event.then([source](const Status&) { source.complete({}); });
    state_->outside.push_back(source.event());
    return;
  }
  for (const Point& point : found->second) {
    if (point.device != device && point.phase + 1 == phases_.size()) {
      begin_phase();
      return;
    }
  }
}

void TraceRecorder::joined(const Event& all, std::span<const Event> events) {
  std::vector<Point> points;
  for (const Event& event : events) {
    if (const auto found = points_.find(event.id()); found != points_.end()) {
      points.insert(points.end(), found->second.begin(), found->second.end());
    } else if (!event.ready()) {
      state_->outside.push_back(event);
    }
  }
  if (!points.empty()) {
    points_[all.id()] = std::move(points);
    known_.push_back(all);
  }
}

std::shared_ptr<const TraceState> TraceRecorder::finish() {
  for (Phase& phase : phases_) {
    if (std::ranges::any_of(phase.lists, [](const auto& list) { return list != nullptr; })) {
      state_->phases.push_back(
          {{phase.lists.begin(), phase.lists.end()}, std::move(phase.communicator)});
    }
  }
  phases_.clear();
  return std::exchange(state_, nullptr);
}

}  // namespace tilemesh::detail
