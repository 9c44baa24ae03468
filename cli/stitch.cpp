#include "stitch.hpp"

#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"
#include "tilemesh/types/redistribution.hpp"

#include "command.hpp"
#include "describe.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

std::optional<StitchEnd> end_named(const Program& program, const std::string& name,
                                   bool inputs_only) {
  for (std::size_t i = 0; i < program.outputs.size() && !inputs_only; ++i) {
    if (program.outputs[i].name == name) {
      return StitchEnd{{}, program.name, name, "output", program.output_spec(i)};
    }
  }
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].name == name) {
      return StitchEnd{{},
                       program.name,
                       name,
                       std::string(to_string(program.inputs[i].kind)),
                       program.input_spec(i)};
    }
  }
  return std::nullopt;
}

std::vector<std::string> end_names(const Binary& binary, bool inputs_only) {
  std::vector<std::string> names;
  for (const Program& program : binary.programs()) {
    for (const ProgramOutput& output : program.outputs) {
      if (!inputs_only) {
        names.push_back(program.name + "." + output.name);
      }
    }
    for (const ProgramInput& input : program.inputs) {
      names.push_back(program.name + "." + input.name);
    }
  }
  return names;
}

/// What stands in the way, with both values; empty if nothing does.
std::string refusal_of(const StitchEnd& from, const StitchEnd& to) {
  if (!(from.spec.mesh == to.spec.mesh)) {
    return fmt::format(
        "they are for different meshes, {} and {}: compile both with --mesh {} or "
        "--mesh {}",
        from.spec.mesh.to_string(), to.spec.mesh.to_string(), from.spec.mesh.to_string(),
        to.spec.mesh.to_string());
  }
  if (!(from.spec.shape == to.spec.shape)) {
    return fmt::format(
        "their shapes differ, {} and {}: compile one of them for the other's shape "
        "(--dim, --shape)",
        from.spec.shape.to_string(), to.spec.shape.to_string());
  }
  if (from.spec.dtype != to.spec.dtype) {
    return fmt::format(
        "their dtypes differ, {} and {}: dtypes are never changed silently, so put "
        "a Cast into one of the models",
        to_string(from.spec.dtype), to_string(to.spec.dtype));
  }
  return {};
}

void add_step(Stitch& stitch, const std::string& step, std::int64_t bytes) {
  stitch.steps.push_back(fmt::format("{}; {} bytes written on all devices", step, bytes));
  stitch.bytes_written += bytes;
}

/// What becomes of a tensor on the devices that has to lie otherwise: reshards move it in rows.
TensorSpec add_reshard(Stitch& stitch, TensorSpec now) {
  const TensorSpec& wanted = stitch.to.spec;
  if (movement_between(now, wanted) == Movement::none) {  // they differ on axes of one device
    return now;
  }
  const int devices = wanted.mesh.device_count();
  const ReshardPlan plan = plan_reshard(now, wanted);
  stitch.bytes_received = plan.bytes();
  if (!now.layout.is_rows()) {
    const std::string layout = layout_text(now);
    now.layout = Layout::rows();
    add_step(stitch, fmt::format("convert, layout {} -> {}", layout, layout_text(now)),
             now.bytes_per_device() * devices);
  }
  for (const ReshardStep& step : plan.steps) {
    now = step.to;
    now.layout = Layout::rows();
    add_step(stitch, step.to_string(), now.bytes_per_device() * devices);
  }
  if (now.layout == wanted.layout) {
    now.space = wanted.space;  // the last step writes it where it is wanted
  }
  return now;
}

std::string_view space_verb(Space from, Space to) {
  if (from == to) {
    return "convert";
  }
  return from == Space::host ? "upload" : to == Space::host ? "download" : "move";
}

/// The copies between two specs of the same shape, dtype and mesh: to the placements that are
/// wanted first, then into layout and space.
void add_steps(Stitch& stitch) {
  TensorSpec now = stitch.from.spec;
  const TensorSpec& wanted = stitch.to.spec;
  const bool host = now.space == Space::host || wanted.space == Space::host;
  if (!host) {
    now = add_reshard(stitch, now);
  }
  const bool relayout = !(now.layout == wanted.layout);
  if (!relayout && now.space == wanted.space) {
    return;
  }
  std::string step(space_verb(now.space, wanted.space));
  if (now.space != wanted.space) {
    step += fmt::format(" {} -> {}", to_string(now.space), to_string(wanted.space));
  }
  if (relayout) {
    step += fmt::format(", layout {} -> {}", layout_text(now), layout_text(wanted));
  }
  add_step(stitch, step,
           wanted.space == Space::host ? wanted.shape.element_count() * size_of(wanted.dtype)
                                       : wanted.bytes_per_device() * wanted.mesh.device_count());
}

std::string count_text(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "copy" : "copies");
}

}  // namespace

std::string file_of(const std::string& text) {
  const std::size_t first = text.find(':');
  if (first == std::string::npos || first == 0 || first + 1 == text.size()) {
    throw UsageError(
        fmt::format("{}: should be FILE.tmb:PROGRAM.NAME, or FILE.tmb:NAME if the "
                    "file has one program",
                    text));
  }
  for (std::size_t at = first; at != std::string::npos; at = text.find(':', at + 1)) {
    std::error_code ignored;
    if (at + 1 < text.size() && std::filesystem::is_regular_file(text.substr(0, at), ignored)) {
      return text.substr(0, at);
    }
  }
  return text.substr(0, first);
}

StitchEnd find_end(const Binary& binary, const std::string& text, bool inputs_only) {
  for (const Program& program : binary.programs()) {
    if (text.starts_with(program.name + ".")) {
      const std::string name = text.substr(program.name.size() + 1);
      if (const auto found = end_named(program, name, inputs_only)) {
        return *found;
      }
    }
  }
  if (binary.program_count() == 1) {
    if (const auto found = end_named(binary.programs()[0], text, inputs_only)) {
      return *found;
    }
  }
  const std::vector<std::string> names = end_names(binary, inputs_only);
  const std::string hint = did_you_mean(text, names);
  throw UsageError(fmt::format(
      "no {} is named \"{}\"{}", inputs_only ? "input" : "output or input", text,
      hint.empty() ? fmt::format("; there is \"{}\"", fmt::join(names, "\", \"")) : hint));
}

Stitch plan_stitch(const StitchEnd& from, const StitchEnd& to) {
  Stitch stitch{from, to, {}, {}, {}};
  const auto add = [&](std::string what, std::string before, std::string after) {
    stitch.aspects.push_back({std::move(what), std::move(before), std::move(after)});
  };
  const TensorSpec& before = from.spec;
  const TensorSpec& after = to.spec;
  add("shape", before.shape.to_string(), after.shape.to_string());
  add("dtype", std::string(to_string(before.dtype)), std::string(to_string(after.dtype)));
  add("mesh", before.mesh.to_string(), after.mesh.to_string());
  add("placement", placements_to_string(before), placements_to_string(after));
  add("layout", layout_text(before), layout_text(after));
  add("space", std::string(to_string(before.space)), std::string(to_string(after.space)));
  stitch.refusal = refusal_of(from, to);
  if (!stitch.refusal.empty()) {
    return stitch;
  }
  try {
    add_steps(stitch);
  } catch (const Error& error) {
    stitch.refusal = error.what();
  }
  return stitch;
}

std::string to_string(const Stitch& stitch) {
  std::string text =
      printable_line(fmt::format("{} ({}) -> {} ({})", stitch.from.to_string(), stitch.from.kind,
                                 stitch.to.to_string(), stitch.to.kind)) +
      "\n";
  Table table({"what", "is", "wanted"});
  for (const Stitch::Aspect& aspect : stitch.aspects) {
    table.add({aspect.what, aspect.from, aspect.same() ? "same" : aspect.to});
  }
  text += table.to_string();
  if (!stitch.refusal.empty()) {
    return text;  // said as an error
  }
  if (stitch.steps.empty()) {
    return text + "nothing to do: it is used where it lies\n";
  }
  for (const std::string& step : stitch.steps) {
    text += fmt::format("  {}\n", step);
  }
  text += fmt::format("{}, {} bytes written on all devices, {} bytes received by a device\n",
                      count_text(stitch.steps.size()), stitch.bytes_written, stitch.bytes_received);
  if (stitch.to.kind == "state") {
    text +=
        "a state is written in place: bring the tensor there once with to_layout, then donate it\n";
  }
  return text;
}

nlohmann::ordered_json to_json(const Stitch& stitch) {
  nlohmann::ordered_json json;
  for (const auto& [key, end] : {std::pair("from", &stitch.from), std::pair("to", &stitch.to)}) {
    json[key] = {
        {"file", end->file}, {"program", end->program}, {"name", end->name}, {"kind", end->kind}};
  }
  for (const Stitch::Aspect& aspect : stitch.aspects) {
    json[aspect.what] = {{"from", aspect.from}, {"to", aspect.to}, {"same", aspect.same()}};
  }
  json["stitches"] = stitch.refusal.empty();
  json["reason"] = stitch.refusal;
  json["steps"] = stitch.steps;
  json["copies"] = stitch.steps.size();
  json["bytes_written"] = stitch.bytes_written;
  json["bytes_received_per_device"] = stitch.bytes_received;
  return json;
}

}  // namespace tilemesh::cli
