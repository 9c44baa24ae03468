#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/compiler/compile.hpp"

#include "mutants.hpp"
#include "random.hpp"
#include "wire.hpp"

namespace tilemesh::fuzz {
namespace {

namespace fs = std::filesystem;
using Fields = std::vector<WireField>;
using Kind = WireField::Kind;

constexpr std::size_t kLongestName = 48;  // longer bytes are data

struct Seed {
  std::string name;
  std::string bytes;
  Fields fields;
};

/// A field and the list that it is in.
struct Place {
  Fields* list;
  std::size_t index;
  WireField& field() const { return (*list)[index]; }
};

void gather(Fields& fields, std::vector<Place>& places) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    places.push_back({&fields, i});
    gather(fields[i].fields, places);
  }
}

bool is_text(const WireField& field) {
  return field.wire == 2 && field.kind == Kind::leaf && field.bytes.size() < kLongestName;
}

/// One change to the tree of a model's fields. Each is given a place that is there.
class Editor {
 public:
  Editor(Random& random, Fields& model, const std::vector<std::string>& operators)
      : random_(random), operators_(operators) {
    gather(model, places_);
  }

  std::string edit() {
    if (places_.empty()) return {};
    // Of numbers and names there are many, and they say the most.
    const Place place = random_.of(places_);
    const WireField& field = place.field();
    const std::string what = fmt::format(" field {}", field.number);
    if (field.wire == 0 && !random_.one_in(4)) return change_number(place) + what;
    if (is_text(field) && !random_.one_in(4)) return change_text(place) + what;
    if (field.wire == 2 && field.kind == Kind::leaf && !random_.one_in(4))
      return change_data(place) + what;
    return change_tree(place) + what;
  }

 private:
  const WireField& any_field() { return random_.of(places_).field(); }

  std::string change_number(const Place& place) {
    std::uint64_t& value = place.field().value;
    switch (random_.below(3)) {
      case 0: value = static_cast<std::uint64_t>(random_.integer()); break;
      case 1: value += static_cast<std::uint64_t>(random_.between(-2, 2)); break;
      default: value = random_.below(40); break;
    }
    return fmt::format("number {}", static_cast<std::int64_t>(value));
  }

  std::string change_text(const Place& place) {
    std::string& text = place.field().bytes;
    switch (random_.below(6)) {
      case 0: text.clear(); break;
      case 1: text = random_.of(operators_); break;
      case 2:
        if (!text.empty()) text[random_.below(text.size())] = static_cast<char>(random_.next());
        break;
      default:
        for (int i = 0; i < 20; ++i) {  // the name of another thing
          const WireField& other = any_field();
          if (!is_text(other)) continue;
          text = other.bytes;
          break;
        }
        break;
    }
    return "text";
  }

  std::string change_data(const Place& place) {
    std::string& data = place.field().bytes;
    switch (random_.below(3)) {
      case 0: data.resize(random_.below(data.size() + 9)); break;
      case 1: {
        const std::int64_t value = random_.nasty();
        if (data.size() >= 8)
          data.replace(random_.below(data.size() / 8) * 8, 8, reinterpret_cast<const char*>(&value),
                       8);
        break;
      }
      default:
        if (!data.empty()) data[random_.below(data.size())] = static_cast<char>(random_.next());
        break;
    }
    return "data";
  }

  std::string change_tree(const Place& place) {
    Fields& list = *place.list;
    const auto at = list.begin() + static_cast<std::ptrdiff_t>(place.index);
    const WireField copy = random_.one_in(2) ? place.field() : any_field();
    switch (random_.below(7)) {
      case 0: list.erase(at); return "erased";
      case 1: list.insert(at, copy); return "inserted";
      case 2: list.push_back(copy); return "appended";
      case 3: *at = copy; return "replaced";
      case 4: std::swap(*at, list[random_.below(list.size())]); return "swapped";
      case 5: at->number = static_cast<std::uint32_t>(random_.below(25)); return "renumbered";
      default:
        if (at->kind == Kind::leaf) {
          at->wire = static_cast<int>(random_.below(8));
          if (at->wire == 1) at->bytes.resize(8);
          if (at->wire == 5) at->bytes.resize(4);
        } else {
          at->fields.push_back(copy);
        }
        return "another kind";
    }
  }

  Random& random_;
  const std::vector<std::string>& operators_;
  std::vector<Place> places_;
};

class OnnxMutants final : public Mutants {
 public:
  OnnxMutants(std::uint64_t seed, const fs::path& folder) : seed_(seed) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".onnx") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    for (const fs::path& path : files) {
      std::ifstream file(path, std::ios::binary);
      std::string bytes((std::istreambuf_iterator<char>(file)), {});
      auto fields = parse_wire(bytes, Kind::model);
      if (!fields) throw Error(ErrorCode::invalid_file, path.string() + " is no model");
      seeds_.push_back({path.stem().string(), std::move(bytes), std::move(*fields)});
      operators_.push_back(path.stem().string());
    }
    if (seeds_.empty()) throw Error(ErrorCode::not_found, "no .onnx files in " + folder.string());
  }

  Mutant make(std::uint64_t number) override {
    Random random(seed_, number, 2);
    const Seed& seed = random.of(seeds_);
    return random.one_in(8) ? broken(random, seed) : edited(random, seed);
  }

  Outcome run(const Mutant& mutant, std::uint64_t number, std::string& message) override {
    Graph graph = import_onnx_bytes(mutant.bytes, {});
    const Binary binary = compile({std::move(graph)}, {.target = &default_target(1, 1)});
    // The verifier has to accept what the compiler makes: its refusal is a fault.
    try {
      return run_programs(Binary::from_bytes(binary.to_bytes()), number, message);
    } catch (const Error& error) {
      message = std::string("its own program is refused: ") + error.what();
      return Outcome::internal;
    }
  }

  const char* suffix() const override { return ".onnx"; }

 private:
  Mutant edited(Random& random, const Seed& seed) const {
    Fields fields = seed.fields;
    std::string text = seed.name;
    for (std::uint64_t n = 1 + random.below(3); n > 0; --n)
      text += ", " + Editor(random, fields, operators_).edit();
    return {write_wire(fields), text};
  }

  Mutant broken(Random& random, const Seed& seed) const {
    std::string bytes = seed.bytes;
    for (std::uint64_t n = 1 + random.below(3); n > 0 && !bytes.empty(); --n) {
      const std::size_t at = random.below(bytes.size());
      switch (random.below(5)) {
        case 0: bytes[at] = static_cast<char>(random.next()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8))); break;
        case 2: bytes.erase(at, 1 + random.below(16)); break;
        case 3: {
          const Seed& other = random.of(seeds_);
          bytes.insert(at, other.bytes, random.below(other.bytes.size()), 1 + random.below(100));
          break;
        }
        default:
          if (random.one_in(3)) bytes.resize(at);
          break;
      }
    }
    return {bytes, seed.name + ", bytes"};
  }

  std::uint64_t seed_;
  std::vector<Seed> seeds_;
  std::vector<std::string> operators_;
};

}  // namespace

std::unique_ptr<Mutants> onnx_mutants(std::uint64_t seed, const fs::path& seeds) {
  return std::make_unique<OnnxMutants>(seed, seeds);
}

}  // namespace tilemesh::fuzz
