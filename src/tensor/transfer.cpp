#include "tilemesh/tensor/transfer.hpp"

#include <fmt/format.h>

#include "tilemesh/mesh/mesh_queue.hpp"

#include "mesh/mesh_core.hpp"
#include "tensor/shard_io.hpp"
#include "tensor/tensor_state.hpp"

namespace tilemesh {

namespace {

using detail::MeshStorage;

/// Below this a copy on the calling thread is cheaper than waking the devices.
constexpr std::int64_t kInlineBytes = 256 << 10;

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

bool host_addressable(const Mesh& mesh, Space space) {
  return mesh.device(0).map(space) != nullptr;
}

void check_same_shape(const TensorSpec& from, const TensorSpec& to) {
  if (from.shape != to.shape) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a tensor of shape {} can't become one of shape {}: shapes must be equal",
                    from.shape.to_string(), to.shape.to_string()));
  }
}

MeshStorage allocate(const Mesh& mesh, const TensorSpec& spec, const std::string& label) {
  return std::make_shared<MeshBuffer>(
      MeshBuffer::allocate(mesh, {.bytes_per_device = spec.bytes_per_device(),
                                  .space = spec.space,
                                  .label = label,
                                  .held_by_commands = true}));
}

Event fill_with_zeros(const MeshStorage& buffer) {
  Event done =
      buffer->mesh().queue(0).enqueue_fill(*buffer, {std::byte{0}}, {.label = buffer->label()});
  done.then([buffer](const Status&) {});  // holds it until the fill has ended
  return done;
}

/// Runs `work(device index)` for every device: on the calling thread if the work is small or the
/// host can't address the devices' memory (it then goes through the queue by itself), else on the
/// devices' threads in the queue's order. `in_order`: commands enqueued before must end first.
Event for_each_device(const Mesh& mesh, Space space, std::int64_t bytes, const Event& after,
                      bool in_order, const std::string& label, std::function<void(int)> work) {
  const bool may_go_first = after.ready() && (!in_order || mesh.queue(0).idle());
  if (!host_addressable(mesh, space) || (bytes <= kInlineBytes && may_go_first)) {
    mesh.queue(0).wait(after);
    for (int index = 0; index < mesh.device_count(); ++index) {
      work(index);
    }
    return {};
  }
  return mesh.queue(0).enqueue_host(std::move(work), {.after = {after}, .label = label});
}

/// Uploads into a buffer; `in_order` unless no enqueued command uses it yet.
Event upload(detail::TensorState& source, const MeshStorage& target, const TensorSpec& spec,
             bool in_order) {
  const auto storage = detail::use_on_host(source);
  const ConstStridedView view(storage.data, source.spec.dtype, spec.shape, storage.strides);
  const Mesh& mesh = target->mesh();
  mesh.core().count_upload(spec.shape.element_count() * size_of(spec.dtype));
  return for_each_device(mesh, spec.space, spec.bytes_per_device() * mesh.device_count(),
                         detail::event_of(source), in_order,
                         "upload of \"" + target->label() + "\"",
                         [view, target, spec, owner = storage.owner](int index) {
                           detail::write_shard(*target, spec, index, view);
                         });
}

/// Converts on the devices; same mesh, shape and placements.
Event convert_on_mesh(detail::TensorState& source, const MeshStorage& target,
                      const TensorSpec& spec) {
  const auto use = detail::use_on_mesh(source);
  const Mesh& mesh = target->mesh();
  return for_each_device(mesh, spec.space, spec.bytes_per_device() * mesh.device_count(), use.event,
                         false, "conversion of \"" + target->label() + "\"",
                         [from = use.buffer, from_spec = source.spec, target, spec](int index) {
                           detail::convert_shard(*from, from_spec, *target, spec, index);
                         });
}

TensorSpec on_mesh(const TensorSpec& spec, const Mesh& mesh) {
  TensorSpec result = spec;
  result.mesh = mesh.shape();
  result.check();
  return result;
}

}  // namespace

std::string ConversionPlan::to_string() const {
  if (is_noop()) {
    return "nothing to do";
  }
  std::string text;
  const auto add = [&text](bool wanted, std::string_view what) {
    if (wanted) {
      text += text.empty() ? "" : ", ";
      text += what;
    }
  };
  add(upload, "upload");
  add(download, "download");
  add(dtype, "change of dtype");
  add(layout, "change of layout");
  add(placement, "change of placement");
  add(space, "change of space");
  return fmt::format("{}: {} bytes", text, bytes);
}

ConversionPlan plan(const TensorSpec& from, const TensorSpec& to) {
  check_same_shape(from, to);
  ConversionPlan result;
  const bool from_host = from.space == Space::host;
  const bool to_host = to.space == Space::host;
  result.upload = from_host && !to_host;
  result.download = !from_host && to_host;
  result.dtype = from.dtype != to.dtype;
  result.layout = !(from.layout == to.layout);
  if (!from_host && !to_host) {
    result.placement = !same_placements(from, to);
    result.space = from.space != to.space;
  }
  if (!result.is_noop()) {
    result.bytes = to_host ? to.shape.element_count() * size_of(to.dtype)
                           : to.bytes_per_device() * to.mesh.device_count();
  }
  return result;
}

Tensor to_spec(const Tensor& tensor, const Mesh& mesh, const TensorSpec& wanted,
               const std::string& label) {
  auto& state = detail::checked(tensor.state());
  check_same_shape(state.spec, wanted);
  if (wanted.space == Space::host) {
    Tensor host = tensor.to_host();
    if (host.dtype() == wanted.dtype) {
      return host;
    }
    const ConstStridedView view = host.host_view();
    auto bytes = std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(wanted.shape.element_count() * size_of(wanted.dtype)));
    const Dims strides = row_major_strides(wanted.shape);
    copy_strided(view, {bytes->data(), wanted.dtype, wanted.shape, strides});
    return detail::make_host_tensor(wanted, {bytes, bytes->data(), strides}, {}, label);
  }
  const TensorSpec spec = on_mesh(wanted, mesh);
  if (state.spec.space == Space::host) {
    const MeshStorage target = allocate(mesh, spec, label);
    Event done = upload(state, target, spec, false);
    return detail::make_mesh_tensor(spec, target, std::move(done), label);
  }
  const auto use = detail::use_on_mesh(state);
  const bool same_mesh = use.buffer->mesh() == mesh;
  if (same_mesh && plan(state.spec, spec).is_noop()) {
    return tensor;
  }
  if (!same_mesh || !same_placements(state.spec, spec)) {
    return to_spec(tensor.to_host(), mesh, wanted, label);
  }
  const MeshStorage target = allocate(mesh, spec, label);
  mesh.core().count_conversion(spec.bytes_per_device() * mesh.device_count());
  Event done = convert_on_mesh(state, target, spec);
  return detail::make_mesh_tensor(spec, target, std::move(done), label);
}

Tensor detail::download(const Tensor& tensor, const std::string& label) {
  auto& state = checked(tensor.state());
  const auto use = use_on_mesh(state);
  TensorSpec spec = state.spec;
  auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<std::size_t>(spec.shape.element_count() * size_of(spec.dtype)));
  const StridedView target{bytes->data(), spec.dtype, spec.shape, row_major_strides(spec.shape)};
  Event done;
  if (use.event.ready() || !host_addressable(use.buffer->mesh(), spec.space)) {
    use.buffer->mesh().queue(0).wait(use.event);
    read_shards(*use.buffer, spec, target);
  } else {
    // One device reads for all, after all have ended.
    done = use.buffer->mesh().queue(0).enqueue_host(
        [buffer = use.buffer, spec, target, bytes](int index) {
          if (index == 0) {
            read_shards(*buffer, spec, target);
          }
        },
        {.after = {use.event}, .label = "download of \"" + label + "\""});
  }
  spec.layout = Layout::rows();
  spec.placements = {};
  spec.mesh = MeshShape();
  return make_host_tensor(spec, {bytes, bytes->data(), target.strides}, std::move(done), label);
}

Tensor empty(const Mesh& mesh, const TensorSpec& spec, const std::string& label) {
  const TensorSpec full = on_mesh(spec, mesh);
  if (full.space == Space::host) {
    auto bytes = std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(full.shape.element_count() * size_of(full.dtype)));
    return detail::make_host_tensor(full, {bytes, bytes->data(), row_major_strides(full.shape)}, {},
                                    label);
  }
  const MeshStorage buffer = allocate(mesh, full, label);
  if (full.layout.has_padding(full.shard_shape())) {
    // Readers may rely on zero padding, whatever is written into the rest.
    return detail::make_mesh_tensor(full, buffer, fill_with_zeros(buffer), label);
  }
  return detail::make_mesh_tensor(full, buffer, {}, label);
}

Tensor zeros(const Mesh& mesh, const TensorSpec& spec, const std::string& label) {
  Tensor tensor = empty(mesh, spec, label);
  if (tensor.on_host()) {
    return tensor;
  }
  auto& state = *tensor.state();
  const auto use = detail::use_on_mesh(state);
  state.event = fill_with_zeros(use.buffer);
  return tensor;
}

void copy(const Tensor& source, const Tensor& into) {
  auto& from = detail::checked(source.state());
  auto& to = detail::checked(into.state());
  check_same_shape(from.spec, to.spec);
  if (&from == &to) {
    return;
  }
  if (to.spec.space == Space::host) {
    const auto storage = detail::use_on_host(to);
    const Tensor host = source.to_host();
    copy_strided(host.host_view(), {const_cast<std::byte*>(storage.data), to.spec.dtype,  // NOLINT
                                    to.spec.shape, storage.strides});
    return;
  }
  const auto target = detail::use_on_mesh(to);
  const Mesh& mesh = target.buffer->mesh();
  const bool on_same_mesh = from.spec.space != Space::host &&
                            detail::use_on_mesh(from).buffer->mesh() == mesh &&
                            same_placements(from.spec, to.spec);
  const Tensor origin = on_same_mesh || from.spec.space == Space::host ? source : source.to_host();
  Event done;
  if (on_same_mesh) {
    const auto use = detail::use_on_mesh(from);
    mesh.core().count_conversion(to.spec.bytes_per_device() * mesh.device_count());
    done = mesh.queue(0).enqueue_host(
        [from_buffer = use.buffer, from_spec = from.spec, buffer = target.buffer, spec = to.spec](
            int index) { detail::convert_shard(*from_buffer, from_spec, *buffer, spec, index); },
        {.after = {use.event}, .label = "copy into \"" + to.label + "\""});
  } else {
    done = upload(*origin.state(), target.buffer, to.spec, true);
  }
  detail::set_event(to, std::move(done));
}

}  // namespace tilemesh
