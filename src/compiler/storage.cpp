#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/flatten.hpp"
#include "compiler/memory_plan.hpp"

namespace tilemesh {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// Values that show the same bytes: a root and its views. It is indexed by the root.
struct Group {
  Storage storage;  // kind none: not decided yet
  std::size_t first_write = kNever;
  std::size_t last_use = 0;   // the last op that reads or writes a member
  std::size_t last_read = 0;  // one past the last op that reads a member; 0: never read
};

class StorageAssigner {
 public:
  explicit StorageAssigner(FlatProgram flat)
      : flat_(std::move(flat)), program_(flat_.program), groups_(program_.values.size()) {}

  Program run() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      groups_[program_.inputs[i].value].storage = {Storage::Kind::input, index32(i), 0};
    }
    for (std::size_t i = 0; i < program_.constants.size(); ++i) {
      groups_[program_.constants[i].value].storage = {Storage::Kind::constant, index32(i), 0};
    }
    check_aliases();
    place_plain_outputs();
    save_overwritten_inputs();
    place_aliased_outputs();
    place_workspace();
    for (std::uint32_t v = 0; v < program_.values.size(); ++v) {
      program_.values[v].storage = groups_[root(v)].storage;
      program_.values[v].spec.space = program_.values[root(v)].spec.space;
    }
    return std::move(program_);
  }

 private:
  static std::uint32_t index32(std::size_t i) { return narrow<std::uint32_t>(i); }

  std::uint32_t root(std::uint32_t value) const {
    while (flat_.view_of[value] != FlatProgram::kOwn)
      value = flat_.view_of[value];
    return value;
  }

  Group& group(std::uint32_t value) { return groups_[root(value)]; }

  bool is_undecided(std::uint32_t value) {
    return group(value).storage.kind == Storage::Kind::none;
  }

  // A new value like `source`, written by a copy at the end of the program.
  std::uint32_t add_copy(std::uint32_t source, const std::string& name) {
    const std::uint32_t copy = index32(program_.values.size());
    ProgramValue value = program_.values[source];
    value.name = name;
    program_.values.push_back(std::move(value));
    flat_.view_of.push_back(FlatProgram::kOwn);
    groups_.emplace_back();
    ProgramOp op;
    op.op = "identity";
    op.name = name;
    op.inputs = {source};
    op.outputs = {copy};
    program_.ops.push_back(std::move(op));
    return copy;
  }

  void lie(std::uint32_t value, const Storage& storage, Space space) {
    group(value).storage = storage;
    program_.values[root(value)].spec.space = space;
  }

  void check_aliases() const {
    std::vector<bool> taken(program_.inputs.size(), false);
    for (const ProgramOutput& output : program_.outputs) {
      if (output.alias < 0) continue;
      const auto i = static_cast<std::size_t>(output.alias);
      const TensorSpec& wanted = program_.values[program_.inputs[i].value].spec;
      TensorSpec given = program_.values[output.value].spec;
      given.space = wanted.space;
      if (!(given == wanted)) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("output \"{}\" of program \"{}\" can't take over the storage of "
                                "input \"{}\": it is {}, the input is {}",
                                output.name, program_.name, program_.inputs[i].name,
                                given.to_string(), wanted.to_string()));
      }
      if (taken[i]) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("two outputs of program \"{}\" take over the storage of input "
                                "\"{}\": one may",
                                program_.name, program_.inputs[i].name));
      }
      taken[i] = true;
    }
  }

  void place_plain_outputs() {
    for (std::size_t j = 0; j < program_.outputs.size(); ++j) {
      ProgramOutput& output = program_.outputs[j];
      if (output.alias >= 0) continue;
      if (!is_undecided(output.value)) output.value = add_copy(output.value, output.name);
      lie(output.value, {Storage::Kind::output, index32(j), 0}, flat_.output_spaces[j]);
    }
  }

  // An aliased output that is another input: that input may be overwritten itself before the copy,
  // so its old value is kept aside.
  void save_overwritten_inputs() {
    for (ProgramOutput& output : program_.outputs) {
      if (output.alias < 0 || is_own_input(output)) continue;
      if (group(output.value).storage.kind == Storage::Kind::input) {
        output.value = add_copy(output.value, output.name + ".old");
      }
    }
  }

  bool is_own_input(const ProgramOutput& output) const {
    return output.value == program_.inputs[static_cast<std::size_t>(output.alias)].value;
  }

  void place_aliased_outputs() {
    std::vector<ProgramOutput*> copied;
    find_lifetimes();
    for (ProgramOutput& output : program_.outputs) {
      if (output.alias < 0 || is_own_input(output)) continue;
      const std::uint32_t input = program_.inputs[static_cast<std::size_t>(output.alias)].value;
      // The input must have been read for the last time before its buffer is written.
      if (is_undecided(output.value) && group(input).last_read <= group(output.value).first_write) {
        lie(output.value, groups_[input].storage, program_.values[input].spec.space);
      } else {
        copied.push_back(&output);
      }
    }
    for (ProgramOutput* output : copied) {
      const std::uint32_t input = program_.inputs[static_cast<std::size_t>(output->alias)].value;
      output->value = add_copy(output->value, output->name);
      lie(output->value, groups_[input].storage, program_.values[input].spec.space);
    }
  }

  void find_lifetimes() {
    for (Group& g : groups_) {
      g.first_write = kNever;
      g.last_use = g.last_read = 0;
    }
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      const ProgramOp& op = program_.ops[i];
      for (const std::uint32_t v : op.inputs) {
        if (v == ProgramOp::kAbsent) continue;
        group(v).last_read = i + 1;
        group(v).last_use = i;
      }
      for (const std::uint32_t v : op.outputs) {
        if (v == ProgramOp::kAbsent) continue;
        Group& g = group(v);
        if (g.first_write == kNever) g.first_write = i;
        g.last_use = i;
      }
      if (op.kind == ProgramOp::Kind::repeat) keep_through_loop(op.target, i);
    }
  }

  // What a loop reads and doesn't make is read again in its next iteration.
  void keep_through_loop(std::size_t head, std::size_t repeat) {
    for (Group& g : groups_) {
      const bool made_before = g.first_write == kNever || g.first_write < head;
      if (made_before && g.last_read > head) g.last_read = repeat + 1;
      if (made_before && g.last_use >= head) g.last_use = repeat;
    }
  }

  void place_workspace() {
    find_lifetimes();
    std::vector<ValueLifetime> lifetimes;
    std::vector<std::uint32_t> owners;
    for (std::uint32_t v = 0; v < groups_.size(); ++v) {
      if (root(v) != v || !is_undecided(v)) continue;
      TILEMESH_CHECK(groups_[v].first_write != kNever, "a value that no op writes");
      lifetimes.push_back({program_.values[v].spec.bytes_per_device(), groups_[v].first_write,
                           groups_[v].last_use});
      owners.push_back(v);
    }
    const WorkspacePlan plan = plan_memory(lifetimes);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      lie(owners[i], {Storage::Kind::workspace, 0, plan.offsets[i]}, Space::dram);
    }
    program_.dram_workspace_bytes = plan.bytes;
  }

  FlatProgram flat_;
  Program& program_;
  std::vector<Group> groups_;
};

}  // namespace

Program assign_storage(FlatProgram flat) {
  return StorageAssigner(std::move(flat)).run();
}

}  // namespace tilemesh
