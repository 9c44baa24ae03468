#include "tensor/redistribute.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/types/redistribution.hpp"

#include "mesh/mesh_core.hpp"
#include "tensor/device_work.hpp"
#include "tensor/shard_io.hpp"

namespace tilemesh::detail {

namespace {

/// The devices of two views as one group, and where those of each stand in it.
struct Group {
  const MeshView* view = nullptr;
  DeviceNumbers members;
};

std::vector<int> numbers_in(const MeshView& group, const MeshView& view) {
  std::vector<int> numbers;
  for (const int device : view.devices) {
    numbers.push_back(
        static_cast<int>(std::ranges::find(group.devices, device) - group.devices.begin()));
  }
  return numbers;
}

Group group_of(const Mesh& from, const Mesh& to) {
  const MeshView& a = from.view();
  const MeshView& b = to.view();
  if (a.devices == b.devices) {
    return {&a, {}};
  }
  const MeshView* view = a.contains(b) ? &a : b.contains(a) ? &b : nullptr;
  if (view == nullptr) {
    std::vector<int> both;
    std::ranges::set_union(a.sorted, b.sorted, std::back_inserter(both));
    const auto count = static_cast<std::int32_t>(both.size());
    view = &from.core().view(MeshShape{count}, std::move(both));
  }
  return {view, {numbers_in(*view, a), numbers_in(*view, b)}};
}

/// A tensor on its way.
struct Stage {
  MeshStorage buffer;
  TensorSpec spec;
  Event ready;
};

bool keeps_layout(const TensorSpec& from, const TensorSpec& to) {
  return from.layout == to.layout && !from.layout.is_opaque() &&
         movement_between(from, to) == Movement::all_reduce;
}

class Redistribution {
 public:
  Redistribution(Stage now, const MeshStorage& target, const TensorSpec& to, bool in_order,
                 const std::string& label)
      : now_(std::move(now)), target_(target), to_(to), in_order_(in_order), label_(label) {}

  Event run() {
    const std::vector<TensorSpec> stops = find_stops();
    const bool plain = stops.size() == 1 && to_.dtype == now_.spec.dtype;
    if (!stops.empty() && !now_.spec.layout.is_rows() &&
        !(plain && same_mesh() && keeps_layout(now_.spec, to_))) {
      TensorSpec rows = now_.spec;
      rows.layout = Layout::rows();
      rows.space = Space::dram;
      convert(temporary(now_.buffer->mesh(), rows));
    }
    for (std::size_t i = 0; i < stops.size(); ++i) {
      const bool last = i + 1 == stops.size();
      const bool arrives = last && to_.dtype == now_.spec.dtype && to_.layout == now_.spec.layout;
      exchange(arrives ? Stage{target_, to_, {}}
                       : temporary(last ? target_->mesh() : now_.buffer->mesh(), stops[i]));
      if (arrives) return now_.ready;
    }
    convert({target_, to_, {}});
    return now_.ready;
  }

 private:
  bool same_mesh() const { return now_.buffer->mesh() == target_->mesh(); }

  /// The specs that it has one after the other, in rows; on its own mesh all but the last.
  std::vector<TensorSpec> find_stops() const {
    TensorSpec end = to_;
    end.dtype = now_.spec.dtype;
    std::vector<TensorSpec> stops;
    if (same_mesh()) {
      for (const ReshardStep& step : plan_reshard(now_.spec, end).steps) {
        stops.push_back(step.to);
      }
    } else {
      check_redistribution(now_.spec, end);
      stops.push_back(end);
    }
    for (TensorSpec& stop : stops) {
      stop.layout = Layout::rows();
      stop.space = Space::dram;
    }
    return stops;
  }

  Stage temporary(const Mesh& mesh, const TensorSpec& spec) const {
    return {allocate_tensor(mesh, spec, label_ + " on its way", Life::temporary), spec, {}};
  }

  void convert(Stage next) {
    next.ready = convert_shards(now_.buffer, now_.spec, next.buffer, next.spec, now_.ready,
                                in_order_ && next.buffer == target_);
    now_ = std::move(next);
  }

  void exchange(Stage next) {
    const Group group = group_of(now_.buffer->mesh(), next.buffer->mesh());
    MeshCore& core = next.buffer->mesh().core();
    const auto program = core.exchange_program(
        *group.view,
        {.from = now_.spec, .to = next.spec, .members = group.members, .fill = ReduceOp::sum});
    struct Held {
      MeshStorage source;
      MeshStorage target;
      std::shared_ptr<const ExchangeProgram> program;
    };
    const std::array<DeviceAddress, 2> bases = {now_.buffer->address(), next.buffer->address()};
    next.ready =
        core.queue(*group.view, 0)
            .enqueue_launch(
                program->programs, bases,
                {.after = {now_.ready}, .label = fmt::format("redistribution of \"{}\"", label_)},
                std::make_shared<Held>(Held{now_.buffer, next.buffer, program}));
    core.count_exchange(program->bytes);
    now_ = std::move(next);
  }

  Stage now_;
  const MeshStorage& target_;
  const TensorSpec& to_;
  bool in_order_;
  const std::string& label_;
};

/// Whether the device of each coordinate of `mesh` holds in `from` what it should hold in `to`.
bool holds_all(const MeshView& from_view, const TensorSpec& from, const MeshView& view,
               const TensorSpec& to) {
  for (std::size_t i = 0; i < view.devices.size(); ++i) {
    const auto found = std::ranges::find(from_view.devices, view.devices[i]);
    if (found == from_view.devices.end()) return false;
    const auto index = static_cast<int>(found - from_view.devices.begin());
    if (from.extents(from.mesh.coord_of(index)) !=
        to.extents(to.mesh.coord_of(static_cast<int>(i)))) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool same_placements(const TensorSpec& a, const TensorSpec& b) {
  if (a.is_replicated() && b.is_replicated()) {
    return true;
  }
  if (a.mesh != b.mesh) {
    return false;
  }
  for (int axis = 0; axis < a.mesh.axes(); ++axis) {
    if (a.placement(axis) != b.placement(axis)) {
      return false;
    }
  }
  return true;
}

bool share_devices(const Mesh& a, const Mesh& b) {
  return &a.core() == &b.core();
}

std::optional<Tensor> view_as(const Tensor& tensor, const Mesh& mesh, const TensorSpec& spec) {
  auto& state = checked(tensor.state());
  const TensorSpec& from = state.spec;
  const MeshUse use = use_on_mesh(state);
  const Mesh& own = use.buffer->mesh();
  if (!share_devices(own, mesh) || from.dtype != spec.dtype || from.space != spec.space ||
      !(from.layout == spec.layout)) {
    return std::nullopt;
  }
  if (own == mesh && same_placements(from, spec)) {
    return tensor;
  }
  if (reduced_by(from) || reduced_by(spec) || !(from.shard_shape() == spec.shard_shape()) ||
      !holds_all(own.view(), from, mesh.view(), spec)) {
    return std::nullopt;
  }
  return make_view(spec, {owner_of(tensor.state()), mesh}, state.label);
}

Event redistribute(const MeshUse& source, const TensorSpec& from, const MeshStorage& target,
                   const TensorSpec& to, bool in_order, const std::string& label) {
  return Redistribution({source.buffer, from, source.event}, target, to, in_order, label).run();
}

}  // namespace tilemesh::detail
