#include "profile_report.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "table.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

constexpr std::size_t kShownOps = 20;

/// A part of the profile in words.
struct Line {
  std::size_t first = 0;
  std::size_t count = 1;
  std::string op;
  std::string name;
  std::string implementation;
  double seconds = 0;
  double share = 0;
};

std::vector<Line> lines_of(const Executable& executable, const Profile& profile) {
  const std::vector<ProgramOp>& ops = executable.program().ops;
  const std::vector<std::string> implementations = executable.implementations();
  double total = 0;
  for (const ProfiledOps& part : profile.parts) {
    total += part.median_seconds;
  }
  std::vector<Line> lines;
  for (const ProfiledOps& part : profile.parts) {
    Line line{part.first,
              part.count,
              ops[part.first].op,
              ops[part.first].name,
              implementations[part.first],
              part.median_seconds,
              0};
    if (part.count > 1 || line.op.empty()) {
      line.op = part.count > 1 ? fmt::format("branch of {} ops", part.count) : "control";
      line.implementation.clear();
    }
    line.share = total > 0 ? line.seconds / total : 0;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

void by_seconds(std::vector<Line>& lines) {
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
}

/// Lines of one op and implementation become one, whose count is that of the ops.
std::vector<Line> summed(const std::vector<Line>& lines) {
  std::vector<Line> sums;
  for (const Line& line : lines) {
    const auto same = std::find_if(sums.begin(), sums.end(), [&](const Line& sum) {
      return sum.op == line.op && sum.implementation == line.implementation;
    });
    if (same == sums.end()) {
      sums.push_back(line);
      continue;
    }
    same->count += line.count;
    same->seconds += line.seconds;
    same->share += line.share;
  }
  by_seconds(sums);
  return sums;
}

}  // namespace

std::string profile_text(const Executable& executable, const Profile& profile) {
  std::vector<Line> lines = lines_of(executable, profile);
  Table kinds({"op", "implementation", "ops", "time", "share"});
  for (const Line& sum : summed(lines)) {
    kinds.add({sum.op, sum.implementation, fmt::format("{}", sum.count),
               format_seconds(sum.seconds), percent(sum.share)});
  }
  by_seconds(lines);
  Table ops({"#", "op", "name", "implementation", "time", "share"});
  for (std::size_t i = 0; i < std::min(lines.size(), kShownOps); ++i) {
    const Line& line = lines[i];
    ops.add({fmt::format("{}", line.first), line.op, line.name, line.implementation,
             format_seconds(line.seconds), percent(line.share)});
  }
  std::string text = "\n" + kinds.to_string() + "\n" + ops.to_string();
  if (lines.size() > kShownOps) {
    text += fmt::format("  and {} more; --json has all\n", lines.size() - kShownOps);
  }
  return text;
}

nlohmann::ordered_json profile_json(const Executable& executable, const Profile& profile) {
  auto json = nlohmann::ordered_json::array();
  for (const Line& line : lines_of(executable, profile)) {
    json.push_back({{"first", line.first},
                    {"count", line.count},
                    {"op", line.op},
                    {"name", line.name},
                    {"implementation", line.implementation},
                    {"median_us", line.seconds * 1e6},
                    {"share", line.share}});
  }
  return json;
}

}  // namespace tilemesh::cli
