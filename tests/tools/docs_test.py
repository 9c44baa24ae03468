"""What tools/check_docs.py must see, on a tree made for it."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import check_docs  # noqa: E402

FILES = {
    "Makefile": "build: deps\n\t@true\ndeps:\n\t@true\n",
    "src/ops/pool.cpp": "struct OpDef {};\nvoid infer_outputs();\n",
    "cli/run.cpp": 'app.add_subcommand("run", "Runs");\ncommand->add_option("--input", x);\n',
    "docs/mesh.md": "# Mesh\n",
}


class Docs(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.root = pathlib.Path(self._folder.name)
        for name, text in FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def complaints(self, text: str) -> list[str]:
        (self.root / "README.md").write_text(text)
        return check_docs.complaints(self.root)

    def test_what_is_there_passes(self):
        self.assertEqual(self.complaints(
            "`src/ops/pool.cpp` has `OpDef` and `infer_outputs()`, see `pool.cpp`, `src/<part>/` and "
            "[mesh](docs/mesh.md#top).\n`make build`, `tilemesh run M --input x=y`, `std::vector`, "
            "`a + b`, [out](https://example.org)\n```\ntilemesh run --input a\ncmake --preset dev\n```\n"),
            [])

    def test_each_kind_of_missing_name_is_told(self):
        for text, part in (("`src/ops/poll.cpp`", "no file src/ops/poll.cpp"),
                           ("`poll.cpp`", "no file poll.cpp"), ("`OpDeff`", "no OpDeff"),
                           ("`OpDef::inferr`", "no inferr"), ("`make bild`", "no target bild"),
                           ("`tilemesh rum`", "no subcommand rum"), ("`--inpt`", "no flag --inpt"),
                           ("```\ntilemesh run --inpt a\n```\n", "no flag --inpt"),
                           ("[mesh](docs/mash.md)", "leads nowhere")):
            with self.subTest(text):
                found = self.complaints(text)
                self.assertEqual(len(found), 1, found)
                self.assertIn(part, found[0])

    def test_design_notes_may_name_what_was_refused(self):
        note = self.root / "docs" / "design" / "0001-x.md"
        note.parent.mkdir()
        note.write_text("`NoSuchType` was refused, see [it](gone.md)")
        self.assertEqual(self.complaints(""), ["docs/design/0001-x.md: the link gone.md leads nowhere"])


if __name__ == "__main__":
    unittest.main()
