#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "call_mutants.hpp"
#include "mutants.hpp"
#include "program/codec.hpp"
#include "program/header.hpp"
#include "program_parts.hpp"
#include "program_seeds.hpp"

namespace tilemesh::fuzz {
namespace {

constexpr int kTries = 40;

template <class T>
T* any_of(Random& random, std::vector<T>& list) {
  return list.empty() ? nullptr : &list[random.below(list.size())];
}

/// One change to what a program says. Each returns what it did; empty if there is nothing to
/// change.
class Editor {
 public:
  Editor(Random& random, Program& program) : random_(random), program_(program) {}

  std::string edit() {
    using Edit = std::string (Editor::*)();
    static constexpr Edit kEdits[] = {
        &Editor::value_shape,  &Editor::value_shape,  &Editor::value_form,   &Editor::value_storage,
        &Editor::op_attribute, &Editor::op_attribute, &Editor::op_attribute, &Editor::op_operand,
        &Editor::op_operand,   &Editor::op_epilogue,  &Editor::op_name,      &Editor::op_list,
        &Editor::op_jump,      &Editor::argument,     &Editor::constant,     &Editor::sizes};
    return (this->*random_.of(kEdits))();
  }

 private:
  std::uint32_t any_value() {
    if (random_.one_in(12)) return static_cast<std::uint32_t>(random_.nasty());
    return static_cast<std::uint32_t>(random_.below(program_.values.size() + 1));
  }

  std::string value_shape() {
    ProgramValue* value = any_of(random_, program_.values);
    if (value == nullptr) return {};
    value->spec.shape = changed_shape(random_, value->spec.shape);
    return fmt::format("shape {} {}", value->name, value->spec.shape.to_string());
  }

  std::string value_form() {
    ProgramValue* value = any_of(random_, program_.values);
    if (value == nullptr) return {};
    TensorSpec& spec = value->spec;
    switch (random_.below(4)) {
      case 0: spec.dtype = random_dtype(random_); break;
      case 1: spec.layout = random_layout(random_, spec.shape.rank()); break;
      case 2:
        spec.placements = random_placements(random_, spec.shape.rank(), program_.mesh.axes());
        break;
      default: spec.space = static_cast<Space>(random_.below(3)); break;
    }
    return fmt::format("form {}", value->name);
  }

  std::string value_storage() {
    ProgramValue* value = any_of(random_, program_.values);
    if (value == nullptr) return {};
    Storage& storage = value->storage;
    switch (random_.below(4)) {
      case 0: storage.kind = static_cast<Storage::Kind>(random_.below(5)); break;
      case 1:
        storage.index =
            static_cast<std::uint32_t>(random_.one_in(3) ? random_.nasty() : random_.size());
        break;
      case 2: storage.offset = random_.one_in(2) ? random_.nasty() : random_.size() * 64; break;
      default: storage = random_.of(program_.values).storage; break;
    }
    return fmt::format("storage {}", value->name);
  }

  std::string op_attribute() {
    ProgramOp* op = any_of(random_, program_.ops);
    if (op == nullptr) return {};
    return op->op + " " + change_attribute(random_, op->attributes);
  }

  std::string op_operand() {
    ProgramOp* op = any_of(random_, program_.ops);
    if (op == nullptr) return {};
    std::vector<std::uint32_t>& list = random_.one_in(3) ? op->outputs : op->inputs;
    const auto at = static_cast<std::ptrdiff_t>(random_.below(list.size()));
    switch (random_.below(5)) {
      case 0: list.insert(list.begin() + at, any_value()); break;
      case 1:
        if (!list.empty()) list.erase(list.begin() + at);
        break;
      case 2:
        if (!list.empty()) list[static_cast<std::size_t>(at)] = ProgramOp::kAbsent;
        break;
      case 3:
        if (!list.empty()) std::swap(list.front(), list[static_cast<std::size_t>(at)]);
        break;
      default:
        if (!list.empty()) list[static_cast<std::size_t>(at)] = any_value();
        break;
    }
    return op->op + " operand";
  }

  std::string op_epilogue() {
    ProgramOp* op = any_of(random_, program_.ops);
    if (op == nullptr) return {};
    auto& steps = op->epilogue.steps;
    if (!steps.empty() && random_.one_in(4)) {
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(random_.below(steps.size())));
    } else {
      steps.push_back(random_step(random_, steps.size(), op->inputs.size()));
    }
    return op->op + " epilogue";
  }

  std::string op_name() {
    ProgramOp* op = any_of(random_, program_.ops);
    if (op == nullptr) return {};
    const std::string before = op->op;
    op->op = random_.one_in(20) ? "no such op" : std::string(random_.of(all_ops()).name);
    return before + " -> " + op->op;
  }

  std::string op_list() {
    auto& ops = program_.ops;
    if (ops.empty()) return {};
    const std::size_t at = random_.below(ops.size());
    switch (random_.below(3)) {
      case 0: ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at)); return "op erased";
      case 1: {
        const ProgramOp copy = ops[at];
        ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(random_.below(ops.size())), copy);
        return "op copied";
      }
      default: std::swap(ops[at], ops[random_.below(ops.size())]); return "ops swapped";
    }
  }

  std::string op_jump() {
    ProgramOp* op = any_of(random_, program_.ops);
    if (op == nullptr) return {};
    if (random_.one_in(2)) op->kind = static_cast<ProgramOp::Kind>(random_.below(4));
    op->target = static_cast<std::uint32_t>(
        random_.one_in(4) ? random_.nasty()
                          : static_cast<std::int64_t>(random_.below(program_.ops.size() + 2)));
    return "jump";
  }

  std::string argument() {
    if (ProgramInput* input = any_of(random_, program_.inputs); input && random_.one_in(2)) {
      if (random_.one_in(2)) input->kind = static_cast<InputKind>(random_.below(3));
      if (random_.one_in(2)) input->value = any_value();
      return "input " + input->name;
    }
    ProgramOutput* output = any_of(random_, program_.outputs);
    if (output == nullptr) return {};
    if (random_.one_in(2)) output->value = any_value();
    if (random_.one_in(2)) output->alias = static_cast<std::int32_t>(random_.between(-2, 3));
    return "output " + output->name;
  }

  std::string constant() {
    ProgramConstant* constant = any_of(random_, program_.constants);
    if (constant == nullptr) return {};
    const auto number = [&] {
      return static_cast<std::uint64_t>(random_.one_in(2) ? random_.nasty() : random_.size() * 64);
    };
    switch (random_.below(3)) {
      case 0: constant->offset = number(); break;
      case 1: constant->bytes = number(); break;
      default: constant->value = any_value(); break;
    }
    return "constant";
  }

  std::string sizes() {
    switch (random_.below(4)) {
      case 0: program_.dram_workspace_bytes = random_.nasty(); break;
      case 1: program_.l1_workspace_bytes = random_.nasty(); break;
      case 2: program_.dram_workspace_bytes = 0; break;
      default:
        program_.mesh = random_.one_in(2) ? MeshShape{1, 2} : MeshShape{2, 1};
        for (ProgramValue& value : program_.values)
          value.spec.mesh = program_.mesh;
        break;
    }
    return "sizes";
  }

  Random& random_;
  Program& program_;
};

class ProgramMutants final : public Mutants {
 public:
  explicit ProgramMutants(std::uint64_t seed) : seed_(seed), seeds_(program_seeds()) {}

  Mutant make(std::uint64_t number) override {
    Random random(seed_, number, 1);
    switch (random.below(20)) {
      case 0: return broken_file(random);
      case 1:
      case 2:
      case 3: return broken_table(random);
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
      case 9: return call(random);
      default: return edited(random);
    }
  }

  Outcome run(const Mutant& mutant, std::uint64_t number, std::string& message) override {
    std::vector<std::byte> bytes(mutant.bytes.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), mutant.bytes.data(), bytes.size());
    const Binary binary = Binary::from_bytes(std::move(bytes));
    return run_programs(binary, number, message);
  }

  const char* suffix() const override { return ".tmb"; }

 private:
  const ProgramSeed& any_seed(Random& random) const { return random.of(seeds_); }

  Mutant call(Random& random) const {
    for (int i = 0; i < kTries; ++i) {
      std::string text;
      if (const auto contents = random_call(random, text)) return {file_of(*contents), text};
    }
    return edited(random);
  }

  Mutant edited(Random& random) const {
    const ProgramSeed& seed = any_seed(random);
    BinaryContents contents = seed.contents;
    std::string text = seed.name;
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      try {
        text += ", " + Editor(random, contents.programs.front()).edit();
      } catch (const Error&) {  // a shape or layout that can't be
      }
    }
    if (random.one_in(2)) {
      repair(random, contents.programs.front(), contents.constants);
      text += ", repaired";
    }
    return {file_of(contents), text};
  }

  /// The bytes of the table are changed, the header is right.
  Mutant broken_table(Random& random) const {
    const ProgramSeed& seed = any_seed(random);
    const BinaryContents& contents = seed.contents;
    std::vector<std::byte> table =
        encode_table(contents.programs, contents.target, contents.metadata);
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n)
      change_table(random, table);
    return {file_of(table, contents.constants), seed.name + ", bytes of the table"};
  }

  static void change_table(Random& random, std::vector<std::byte>& table) {
    const auto put = [&](std::size_t width, std::uint64_t value) {
      const std::size_t at = random.below(table.size() / width) * width;
      std::memcpy(table.data() + at, &value, width);
    };
    switch (random.below(7)) {
      case 0: table[random.below(table.size())] ^= std::byte{1} << random.below(8); break;
      case 1: put(1, static_cast<std::uint64_t>(random.nasty())); break;
      case 2: put(2, static_cast<std::uint64_t>(random.nasty())); break;
      case 3: put(4, static_cast<std::uint64_t>(random.nasty())); break;
      case 4: put(8, static_cast<std::uint64_t>(random.nasty())); break;
      case 5: put(4, random.below(table.size())); break;
      default: {
        const std::size_t from = random.below(table.size());
        const std::size_t to = random.below(table.size());
        const std::size_t count =
            std::min({random.below(64), table.size() - from, table.size() - to});
        std::memmove(table.data() + to, table.data() + from, count);
        break;
      }
    }
  }

  Mutant broken_file(Random& random) const {
    const ProgramSeed& seed = any_seed(random);
    std::string file = file_of(seed.contents);
    switch (random.below(4)) {
      case 0: file.resize(random.below(file.size())); break;
      case 1: file.append(random.below(9000), '\0'); break;
      case 2: file[random.below(kHeaderBytes)] = static_cast<char>(random.next()); break;
      default: {
        const std::int64_t value = random.nasty();
        std::memcpy(file.data() + random.below(8) * 8, &value, sizeof value);
        break;
      }
    }
    return {file, seed.name + ", bytes of the file"};
  }

  std::uint64_t seed_;
  std::vector<ProgramSeed> seeds_;
};

}  // namespace

std::unique_ptr<Mutants> program_mutants(std::uint64_t seed) {
  return std::make_unique<ProgramMutants>(seed);
}

}  // namespace tilemesh::fuzz
