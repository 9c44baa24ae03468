"""Shows the checker small trees, each with one thing wrong, and wants that one reported."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_layering  # noqa: E402

GOOD = {
    "include/tilemesh/base/error.hpp": "#include <string>\n",
    "include/tilemesh/types/shape.hpp": '#include "tilemesh/base/error.hpp"\n',
    "include/tilemesh/tilemesh.hpp": '#include "tilemesh/types/shape.hpp"\n',
    "src/base/README.md": "job\n",
    "src/types/README.md": "job\n",
    "src/types/CMakeLists.txt": "\n",
    "src/types/shape.cpp": '#include "types/private.hpp"\n#include <fmt/format.h>\n',
    "src/backends/cpu/README.md": "job\n",
    "src/backends/cpu/matmul.cpp": '#include <dnnl.hpp>\n#include "tilemesh/device/device.hpp"\n',
    "src/builtin/README.md": "job\n",
    "src/builtin/all.cpp": '#include "backends/cpu/device.hpp"\n#if TILEMESH_' + "WITH_CPU\n",
    "cli/main.cpp": '#include "tilemesh/tilemesh.hpp"\n#include <CLI/CLI.hpp>\n',
}
BAD = {  # what is wrong: the file, its text, a piece of the complaint
    "upward": ("src/base/a.cpp", '#include "tilemesh/types/shape.hpp"\n',
               "a.cpp:1: base must not include types"),
    "angled": ("src/base/a.cpp", "#include <tilemesh/types/shape.hpp>\n",
               "a.cpp:1: base must not include types"),
    "in a header": ("include/tilemesh/types/b.hpp", '\n# include "tilemesh/mesh/mesh.hpp"\n',
                    "b.hpp:2: types must not include mesh"),
    "compiler to runtime": ("src/compiler/onnx/a.cpp", '#include "tilemesh/runtime/run.hpp"\n',
                            "compiler must not include runtime"),
    "backend to mesh": ("src/backends/cpu/kernels/a.hpp", '#include "tilemesh/mesh/mesh.hpp"\n',
                        "backends/cpu must not include mesh"),
    "backend to backend": ("src/backends/cpu/a.hpp", '#include "backends/null/a.hpp"\n',
                           "backends/cpu must not include backends/null"),
    "private": ("src/types/a.cpp", '#include "base/private.hpp"\n',
                "base/private.hpp is a private header of base"),
    "unknown part": ("src/extras/a.cpp", "\n", "its folder is no part"),
    "cli": ("cli/run.cpp", '#include "runtime/plan.hpp"\n', "cli includes public headers only"),
    "public third party": ("include/tilemesh/types/c.hpp", "#include <fmt/format.h>\n",
                           "fmt/format.h in a public header"),
    "spread": ("src/types/a.cpp", "#include <dnnl_types.h>\n",
               "oneDNN is included in more than one part"),
    "switch": ("src/types/a.cpp", "#if TILEMESH_" + "WITH_CPU\n", "belongs in builtin"),
    "long readme": ("src/types/README.md", "line\n" * 31, "longer than 30 lines"),
    "a file read otherwise": ("src/types/a.cpp", "std::ifstream file(path);\n",
                              "a.cpp:1: files are read by InputFile"),
    "a file opened": ("cli/run.cpp", "const int file = ::open(path, O_RDONLY);\n",
                      "run.cpp:1: files are read by InputFile"),
    "text past the escape": ("cli/run.cpp", 'fmt::print("{}", name);\n',
                             "run.cpp:1: text is printed by the functions of"),
    "machine path": ("docs/a.md", "see /" + "home/me/x\n", "a.md:1: /" + "home/m... is a path"),
}


class CheckLayering(unittest.TestCase):
    def complaints(self, tree: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in tree.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return [text for check in check_layering.CHECKS for text in check(root)]

    def test_good_tree(self) -> None:
        self.assertEqual(self.complaints(GOOD), [])

    def test_each_bad_thing(self) -> None:
        for wrong, (name, text, expected) in BAD.items():
            with self.subTest(wrong):
                found = self.complaints(GOOD | {name: text})
                self.assertEqual(len(found), 1, found)
                self.assertIn(expected, found[0])

    def test_missing_readme(self) -> None:
        tree = {name: text for name, text in GOOD.items() if name != "src/base/README.md"}
        tree["src/base/CMakeLists.txt"] = "\n"
        self.assertEqual(self.complaints(tree), ["src/base: has no README.md"])


if __name__ == "__main__":
    unittest.main()
