"""Parquet and datasets as .jsonl, read again by `causeway prepare`."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import unittest

from run_test import SOURCE, EndToEnd

TOKENIZER = pathlib.Path(SOURCE) / "tests/golden/tokenizers/gpt2.json"
TEXTS = ["A first text.", "Ein zweiter, mit Umlauten: äöü.\nTwo lines.", None, "", "The last \"one\"."]


@unittest.skipIf(importlib.util.find_spec("pyarrow") is None, "not installed: pyarrow")
class Texts(EndToEnd):
    def setUp(self):
        super().setUp()
        import pyarrow
        import pyarrow.parquet
        self.parquet = self.directory / "a.parquet"
        table = pyarrow.table({"text": TEXTS, "label": list(range(5))})
        pyarrow.parquet.write_table(table, self.parquet)
        self.out = self.directory / "texts.jsonl"

    def convert(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-m", "causeway.texts", *map(str, arguments)], capture_output=True, text=True,
                              cwd=self.directory)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def test_every_text_of_a_parquet_file_becomes_a_document(self):
        said = self.convert(self.parquet, self.parquet, "--out", self.out)
        self.assertIn("6 texts; 4 rows have none", said)
        lines = [json.loads(line)["text"] for line in self.out.read_text().splitlines()]
        self.assertEqual(lines, 2 * [text for text in TEXTS if text])
        self.assertIn("6 documents", self.run_causeway("prepare", TOKENIZER, self.out, "--out", self.directory / "tokens"))

    def test_what_cannot_be_used_is_said_in_one_sentence_and_leaves_nothing(self):
        self.assertIn("has no column 'story'; it has text, label",
                      self.convert(self.parquet, "--field", "story", "--out", self.out, code=1))
        self.assertIn("holds int, not text", self.convert(self.parquet, "--field", "label", "--out", self.out, code=1))
        broken = self.directory / "broken.parquet"
        broken.write_bytes(self.parquet.read_bytes()[:-20])
        self.assertIn("cannot be read as Parquet", self.convert(broken, "--out", self.out, code=1))
        self.assertIn("nowhere.parquet cannot be read", self.convert("nowhere.parquet", "--out", self.out, code=1))
        self.assertEqual([path.name for path in self.directory.glob("texts*")], [])
        self.out.write_text("mine")
        self.assertIn("is there already", self.convert(self.parquet, "--out", self.out, code=1))
        self.assertEqual(self.out.read_text(), "mine")

    @unittest.skipIf(importlib.util.find_spec("datasets") is None, "not installed: datasets")
    def test_a_dataset_is_read_by_its_name(self):
        folder = self.directory / "stories"
        folder.mkdir()
        (folder / "train.jsonl").write_text("".join(json.dumps({"story": text}) + "\n" for text in TEXTS if text))
        self.convert(folder, "--field", "story", "--out", self.out)
        self.assertEqual([json.loads(line)["text"] for line in self.out.read_text().splitlines()],
                         [text for text in TEXTS if text])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
