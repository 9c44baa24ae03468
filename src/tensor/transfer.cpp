#include "tilemesh/tensor/transfer.hpp"

#include <fmt/format.h>

#include "tilemesh/mesh/mesh_queue.hpp"

#include "mesh/mesh_core.hpp"
#include "tensor/device_work.hpp"
#include "tensor/redistribute.hpp"
#include "tensor/shard_io.hpp"
#include "tensor/tensor_state.hpp"

namespace tilemesh {

namespace {

using detail::MeshStorage;
using detail::same_placements;

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

Event fill_with_zeros(const MeshStorage& buffer) {
  Event done =
      buffer->mesh().queue(0).enqueue_fill(*buffer, {std::byte{0}}, {.label = buffer->label()});
  done.then([buffer](const Status&) {});  // holds it until the fill has ended
  return done;
}

/// Uploads into a buffer; `in_order` unless no enqueued command uses it yet.
Event upload(detail::TensorState& source, const MeshStorage& target, const TensorSpec& spec,
             bool in_order) {
  const auto storage = detail::use_on_host(source);
  const ConstStridedView view(storage.data, source.spec.dtype, spec.shape, storage.strides);
  const Mesh& mesh = target->mesh();
  mesh.core().count_upload(spec.shape.element_count() * size_of(spec.dtype));
  return detail::for_each_device(mesh, spec.space, detail::total_bytes(spec),
                                 detail::event_of(source), in_order,
                                 "upload of \"" + target->label() + "\"",
                                 [view, target, spec, owner = storage.owner](int index) {
                                   detail::write_shard(*target, spec, index, view);
                                 });
}

/// Each device would add what was uploaded once.
void check_upload(const TensorSpec& spec, const std::string& label) {
  if (detail::reduced_by(spec)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor \"{}\" can't become {}: a host tensor is no part of a "
                            "reduction; give each device its part with from_shards",
                            label, spec.to_string()));
  }
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
    check_upload(spec, label);
    const MeshStorage target = detail::allocate_tensor(mesh, spec, label);
    Event done = upload(state, target, spec, false);
    return detail::make_mesh_tensor(spec, target, std::move(done), label);
  }
  if (auto view = detail::view_as(tensor, mesh, spec)) {
    return *view;
  }
  const auto use = detail::use_on_mesh(state);
  if (!detail::share_devices(use.buffer->mesh(), mesh)) {
    return to_spec(tensor.to_host(), mesh, wanted, label);
  }
  const MeshStorage target = detail::allocate_tensor(mesh, spec, label);
  mesh.core().count_conversion(detail::total_bytes(spec));
  return detail::make_mesh_tensor(
      spec, target, detail::redistribute(use, state.spec, target, spec, false, label), label);
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
  const MeshStorage buffer = detail::allocate_tensor(mesh, full, label);
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
  Event done;
  if (from.spec.space != Space::host &&
      detail::share_devices(detail::use_on_mesh(from).buffer->mesh(), mesh)) {
    mesh.core().count_conversion(detail::total_bytes(to.spec));
    done = detail::redistribute(detail::use_on_mesh(from), from.spec, target.buffer, to.spec, true,
                                to.label);
  } else {
    check_upload(to.spec, to.label);
    const Tensor origin = from.spec.space == Space::host ? source : source.to_host();
    done = upload(*origin.state(), target.buffer, to.spec, true);
  }
  detail::set_event(to, std::move(done));
}

}  // namespace tilemesh
