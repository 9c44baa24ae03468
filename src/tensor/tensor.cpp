#include "tilemesh/tensor/tensor.hpp"

#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/mesh/mesh_queue.hpp"

#include "tensor/shard_io.hpp"
#include "tensor/tensor_state.hpp"

namespace tilemesh {

namespace detail {

namespace {

[[noreturn]] void throw_freed(const TensorState& state, const Freed& freed) {
  throw Error(ErrorCode::deallocated,
              fmt::format("tensor \"{}\" ({}) was {}: make it anew before using it", state.label,
                          state.spec.to_string(), freed.how));
}

}  // namespace

TensorState& checked(const std::shared_ptr<TensorState>& state) {
  if (!state) {
    throw Error(ErrorCode::invalid_argument,
                "an empty tensor handle was used: assign a tensor to it first");
  }
  return *state;
}

namespace {

/// What a view points at; nullopt for a tensor with bytes of its own.
std::optional<SourceStorage> source_of(TensorState& state) {
  const std::lock_guard lock(state.mutex);
  const auto* source = std::get_if<SourceStorage>(&state.storage);
  return source == nullptr ? std::nullopt : std::optional(*source);
}

/// Says which view was used when its source is gone.
template <class Use>
auto through_view(const TensorState& view, const Use& use) {
  try {
    return use();
  } catch (const Error& error) {
    throw error.in(fmt::format("view \"{}\" ({})", view.label, view.spec.to_string()));
  }
}

/// As another view of the devices sees it, holding on to the whole.
MeshStorage seen_by(const MeshStorage& whole, const Mesh& mesh) {
  struct Part {
    MeshStorage whole;
    MeshBufferView part;
  };
  auto part = std::make_shared<Part>(Part{whole, whole->on(mesh)});
  return {part, &part->part};
}

}  // namespace

Event event_of(TensorState& state) {
  if (const auto source = source_of(state)) {
    return event_of(*source->source);
  }
  const std::lock_guard lock(state.mutex);
  return state.event;
}

void set_event(TensorState& state, Event event) {
  if (const auto source = source_of(state)) {
    set_event(*source->source, std::move(event));
    return;
  }
  const std::lock_guard lock(state.mutex);
  state.event = std::move(event);
}

std::shared_ptr<TensorState> owner_of(const std::shared_ptr<TensorState>& state) {
  if (const auto source = source_of(*state)) {
    return source->source;
  }
  const std::lock_guard lock(state->mutex);
  if (const auto* freed = std::get_if<Freed>(&state->storage)) {
    throw_freed(*state, *freed);
  }
  return state;
}

std::optional<Mesh> mesh_of_view(TensorState& state) {
  const auto source = source_of(state);
  return source ? source->mesh : std::nullopt;
}

MeshUse use_on_mesh(TensorState& state) {
  if (const auto source = source_of(state)) {
    return through_view(state, [&] {
      MeshUse use = use_on_mesh(*source->source);
      if (source->mesh) {
        use.buffer = seen_by(use.buffer, *source->mesh);
      }
      return use;
    });
  }
  const std::lock_guard lock(state.mutex);
  if (const auto* buffer = std::get_if<MeshStorage>(&state.storage)) {
    return {*buffer, state.event};
  }
  if (const auto* freed = std::get_if<Freed>(&state.storage)) {
    throw_freed(state, *freed);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("tensor \"{}\" ({}) is on the host: bring it to the mesh with to_layout",
                          state.label, state.spec.to_string()));
}

HostStorage use_on_host(TensorState& state) {
  if (const auto source = source_of(state)) {
    return through_view(state, [&] {
      HostStorage host = use_on_host(*source->source);
      host.strides = row_major_strides(state.spec.shape);
      return host;
    });
  }
  const std::lock_guard lock(state.mutex);
  if (const auto* host = std::get_if<HostStorage>(&state.storage)) {
    return *host;
  }
  if (const auto* freed = std::get_if<Freed>(&state.storage)) {
    throw_freed(state, *freed);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("tensor \"{}\" ({}) is on a mesh: bring it to the host with to_host",
                          state.label, state.spec.to_string()));
}

MeshUse take(TensorState& state, std::string how) {
  const std::lock_guard lock(state.mutex);
  if (const auto* freed = std::get_if<Freed>(&state.storage)) {
    throw_freed(state, *freed);
  }
  if (const auto* view = std::get_if<SourceStorage>(&state.storage)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("view \"{}\" ({}) can't be given away: give its source \"{}\" away",
                            state.label, state.spec.to_string(), view->source->label));
  }
  auto* buffer = std::get_if<MeshStorage>(&state.storage);
  if (buffer == nullptr) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("tensor \"{}\" ({}) is on the host and can't be given away: bring it to "
                    "the mesh with to_layout first",
                    state.label, state.spec.to_string()));
  }
  MeshUse use{std::move(*buffer), state.event};
  state.storage = Freed{std::move(how)};
  return use;
}

Tensor make_mesh_tensor(const TensorSpec& spec, MeshStorage buffer, Event event,
                        std::string label) {
  auto state = std::make_shared<TensorState>();
  state->spec = spec;
  state->label = std::move(label);
  state->storage = std::move(buffer);
  state->event = std::move(event);
  return Tensor(std::move(state));
}

Tensor make_view(const TensorSpec& spec, SourceStorage source, std::string label) {
  auto state = std::make_shared<TensorState>();
  state->spec = spec;
  state->label = std::move(label);
  state->storage = std::move(source);
  return Tensor(std::move(state));
}

Tensor make_host_tensor(const TensorSpec& spec, HostStorage storage, Event event,
                        std::string label) {
  auto state = std::make_shared<TensorState>();
  state->spec = spec;
  state->spec.space = Space::host;
  state->label = std::move(label);
  state->storage = std::move(storage);
  state->event = std::move(event);
  return Tensor(std::move(state));
}

}  // namespace detail

namespace {

/// Checks that every index of the spec lies inside `count` elements, and gives the strides.
Dims checked_strides(const HostSpec& spec, std::int64_t count) {
  if (!spec.strides.empty() && spec.strides.size() != spec.shape.sizes().size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a host array of shape {} wants {} strides, got {}",
                            spec.shape.to_string(), spec.shape.rank(), spec.strides.size()));
  }
  const Dims strides = spec.strides.empty() ? row_major_strides(spec.shape) : spec.strides;
  if (spec.shape.element_count() == 0) {
    return strides;
  }
  std::int64_t low = spec.offset;
  std::int64_t high = spec.offset;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::int64_t steps = spec.shape[static_cast<int>(i)] - 1;
    const std::int64_t size = strides[i] < 0 ? checked_mul(steps, checked_mul(strides[i], -1))
                                             : checked_mul(steps, strides[i]);
    (strides[i] < 0 ? low : high) = strides[i] < 0 ? low - size : checked_add(high, size);
  }
  if (low < 0 || high >= count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a host array of shape {} reaches elements {} to {}, but the span has "
                            "{}: pass a larger span, or strides and offset that stay inside",
                            spec.shape.to_string(), low, high, count));
  }
  return strides;
}

TensorSpec host_tensor_spec(DType dtype, const Shape& shape) {
  TensorSpec spec;
  spec.shape = shape;
  spec.dtype = dtype;
  spec.space = Space::host;
  return spec;
}

}  // namespace

Tensor Tensor::borrow_bytes(std::span<const std::byte> bytes, DType dtype, const HostSpec& spec,
                            std::shared_ptr<const void> keep_alive) {
  const std::int64_t element = size_of(dtype);
  const Dims strides = checked_strides(spec, static_cast<std::int64_t>(bytes.size()) / element);
  detail::HostStorage storage;
  storage.owner = std::move(keep_alive);
  storage.data =
      spec.shape.element_count() == 0 ? bytes.data() : bytes.data() + spec.offset * element;
  storage.strides = strides;
  return detail::make_host_tensor(host_tensor_spec(dtype, spec.shape), std::move(storage), {},
                                  "host tensor");
}

Tensor Tensor::copy_bytes(std::span<const std::byte> bytes, DType dtype, const HostSpec& spec) {
  const Dims strides =
      checked_strides(spec, static_cast<std::int64_t>(bytes.size()) / size_of(dtype));
  const auto size = static_cast<std::size_t>(spec.shape.element_count() * size_of(dtype));
  auto owned = std::make_shared<std::vector<std::byte>>(size);
  if (size > 0) {
    const ConstStridedView source(bytes.data() + spec.offset * size_of(dtype), dtype, spec.shape,
                                  strides);
    copy_strided(source, {owned->data(), dtype, spec.shape, row_major_strides(spec.shape)});
  }
  detail::HostStorage storage{owned, owned->data(), row_major_strides(spec.shape)};
  return detail::make_host_tensor(host_tensor_spec(dtype, spec.shape), std::move(storage), {},
                                  "host tensor");
}

const TensorSpec& Tensor::spec() const {
  return detail::checked(state_).spec;
}
const std::string& Tensor::label() const {
  return detail::checked(state_).label;
}

bool Tensor::is_allocated() const {
  if (!state_) {
    return false;
  }
  std::shared_ptr<detail::TensorState> source;
  {
    const std::lock_guard lock(state_->mutex);
    const auto* view = std::get_if<detail::SourceStorage>(&state_->storage);
    if (view == nullptr) {
      return !std::holds_alternative<detail::Freed>(state_->storage);
    }
    source = view->source;
  }
  return Tensor(source).is_allocated();
}

void Tensor::deallocate(std::source_location where) {
  auto& state = detail::checked(state_);
  decltype(state.storage) dropped;
  {
    const std::lock_guard lock(state.mutex);
    if (std::holds_alternative<detail::Freed>(state.storage)) {
      return;
    }
    dropped = std::move(state.storage);
    state.storage =
        detail::Freed{fmt::format("deallocated at {}:{}", where.file_name(), where.line())};
  }
}

Event Tensor::event() const {
  return detail::event_of(detail::checked(state_));
}

bool Tensor::ready() const {
  return event().ready();
}

void Tensor::wait() const {
  const Event done = event();
  if (done.ready()) {
    done.wait();  // throws what failed
    return;
  }
  if (on_host()) {
    done.wait();
  } else {
    mesh().queue(0).wait(done);
  }
}

bool Tensor::wait_for(std::chrono::nanoseconds timeout) const {
  return event().wait_for(timeout);
}

void Tensor::then(std::function<void(const Status&)> callback) const {
  event().then(std::move(callback));
}

Tensor Tensor::to_host(const HostOptions& options) const {
  auto& state = detail::checked(state_);
  if (on_host()) {
    const auto storage = detail::use_on_host(state);
    wait();
    if (storage.strides == row_major_strides(state.spec.shape)) {
      return *this;
    }
  }
  if (!options.reduce_partial && detail::reduced_by(state.spec)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor \"{}\" ({}) holds parts of a reduction: reduce it with "
                            "all_reduce or reshard first, or allow to_host to do so",
                            state.label, state.spec.to_string()));
  }
  const auto size =
      static_cast<std::size_t>(state.spec.shape.element_count() * size_of(state.spec.dtype));
  auto owned = std::make_shared<std::vector<std::byte>>(size);
  read(*owned);
  detail::HostStorage storage{owned, owned->data(), row_major_strides(state.spec.shape)};
  return detail::make_host_tensor(host_tensor_spec(state.spec.dtype, state.spec.shape),
                                  std::move(storage), {}, state.label);
}

void Tensor::read(std::span<std::byte> out) const {
  auto& state = detail::checked(state_);
  const TensorSpec& spec = state.spec;
  const std::int64_t wanted = spec.shape.element_count() * size_of(spec.dtype);
  if (static_cast<std::int64_t>(out.size()) != wanted) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("reading tensor \"{}\" ({}) wants {} bytes, got {}", state.label,
                            spec.to_string(), wanted, out.size()));
  }
  const StridedView target{out.data(), spec.dtype, spec.shape, row_major_strides(spec.shape)};
  if (on_host()) {
    const auto storage = detail::use_on_host(state);
    wait();
    copy_strided(ConstStridedView(storage.data, spec.dtype, spec.shape, storage.strides), target);
    return;
  }
  const auto use = detail::use_on_mesh(state);
  use.buffer->mesh().queue(0).wait(use.event);
  detail::read_shards(*use.buffer, spec, target);
}

ConstStridedView Tensor::host_view() const {
  auto& state = detail::checked(state_);
  const auto storage = detail::use_on_host(state);
  wait();
  return {storage.data, state.spec.dtype, state.spec.shape, storage.strides};
}

std::shared_ptr<MeshBufferView> Tensor::buffer() const {
  return detail::use_on_mesh(detail::checked(state_)).buffer;
}

Mesh Tensor::mesh() const {
  return buffer()->mesh();
}

void Tensor::check_dtype(DType wanted) const {
  if (spec().dtype != wanted) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor \"{}\" holds {}, but {} was asked for", label(),
                            to_string(spec().dtype), to_string(wanted)));
  }
}

}  // namespace tilemesh
