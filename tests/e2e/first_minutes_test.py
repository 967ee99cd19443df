"""What somebody does first: a configuration from `causeway init`, and texts that become tokens."""
import json
import pathlib
import sys
import unittest

from harness import EndToEnd, read_json
from own_trainer import SOURCE, OwnTrainer


class Init(OwnTrainer):
    def test_a_starter_for_a_program_is_valid_and_trains_it(self):
        output = self.run_causeway("init", "--trainer", "pytorch")
        self.assertIn("causeway simulate causeway.toml --worker", output)
        self.run_causeway("init", "own.toml", "--trainer", "own")
        for file in ("causeway.toml", "own.toml"):
            resolved = self.run_causeway("config", file)
            self.assertNotIn("[model]", resolved)
        self.run_causeway("simulate", "own.toml", "--worker", self.classifier, "--out", self.out,
                          "--set", "train.steps=100", "--set", "train.k=10")
        self.assert_identical(read_json(self.out / "summary.json"))


class InitAlone(EndToEnd):
    def test_a_starter_for_the_built_in_trainer_is_valid_and_trains(self):
        self.run_causeway("init", "mine.toml", "--trainer", "builtin")
        self.assertIn("[model]", self.run_causeway("config", "mine.toml"))
        self.assertIn("data/*.txt", self.run_causeway("simulate", "mine.toml", "--out", self.out, code=2))
        (self.directory / "data").mkdir()
        (self.directory / "data" / "text.txt").write_text((self.directory / "text").read_text())
        small = [f"--set={key}={value}" for key, value in {"model.layers": 1, "model.width": 32, "train.steps": 40}.items()]
        self.assert_identical(self.simulate("mine.toml", *small, "--no-baseline"))

    def test_it_overwrites_nothing(self):
        kept = self.directory / "causeway.toml"
        kept.write_text("mine\n")
        self.assertIn("causeway.toml exists already", self.run_causeway("init", "--trainer", "own", code=2))
        self.assertEqual(kept.read_text(), "mine\n")
        self.assertFalse((self.directory / "causeway.wan.toml").exists())
        kept.rename(self.directory / "other.wan.toml")
        self.assertIn("other.wan.toml exists already", self.run_causeway("init", "other.toml", "--trainer", "own", code=2))
        self.assertFalse((self.directory / "other.toml").exists())
        self.assertIn("cannot be written", self.run_causeway("init", "none/a.toml", "--trainer", "own", code=2))
        # Without more it is the built-in trainer's, as docs/life-of-a-run.md begins.
        self.run_causeway("init", "run.toml")
        self.assertIn("[model]", self.run_causeway("config", "run.toml"))


class Prepare(EndToEnd):
    def prepare(self, *arguments, code=0):
        tokenizer = pathlib.Path(SOURCE) / "tests/golden/tokenizers/gpt2.json"
        return self.run_causeway("prepare", tokenizer, *arguments, "--out", "tokens", code=code)

    def write(self, name, *lines):
        (self.directory / name).write_text("".join(json.dumps(line) + "\n" if not isinstance(line, str) else line
                                                   for line in lines))
        return name

    def test_json_lines_give_the_tokens_of_the_same_texts(self):
        texts = ["In the beginning", "the king\nof \u00e9", ""]
        lines = self.write("a.jsonl", *({"id": i, "body": text} for i, text in enumerate(texts)))
        output = self.prepare(lines, "--field", "body", "--end", "<|end|>")
        self.assertIn("tokens of 3 documents", output)
        files = [self.write(f"t{i}.txt", text or " ") for i, text in enumerate(texts)][:2]
        self.prepare(*files, "--end", "<|end|>")
        tokens = [(self.directory / "tokens" / name).read_bytes() for name in ("a.bin", "t0.bin", "t1.bin")]
        self.assertEqual(tokens[0], tokens[1] + tokens[2] + tokens[1][-2:])  # the third is its end alone
        self.assertIn("no token separates the documents", self.prepare(lines, "--field", "body"))

    def test_what_it_prints_is_a_configuration_that_finds_these_files(self):
        """Also of a directory whose name has quotes and wildcards."""
        text = self.write("good.txt", "In the beginning God created the heaven and the earth. " * 200)
        out = self.directory / 'to "[1] *'
        out.mkdir()
        (out / "good.bin.0123456789abcdef.tmp").write_text("tokens")  # of one that was killed
        (out / "mine.tmp").touch()
        (out / "other.bin").touch()
        tokenizer = pathlib.Path(SOURCE) / "tests/golden/tokenizers/gpt2.json"
        said = self.run_causeway("prepare", tokenizer, text, "--out", out.name)
        self.assertIn("has other .bin files, and the pattern below takes them too: other.bin", said)
        self.assertEqual({file.name for file in out.iterdir()}, {"good.bin", "mine.tmp", "other.bin"})
        (out / "other.bin").unlink()
        printed = said[said.index("[model]"):].split("\ntokenizer")[0]
        (self.directory / "c.toml").write_text(printed + '\n[[regions]]\nname = "one"\n')
        small = [f"--set={key}={value}" for key, value in
                 {"model.layers": 1, "model.width": 32, "model.context": 8, "train.steps": 4, "train.k": 2,
                  "train.validation_sequences": 2}.items()]
        self.run_causeway("simulate", "c.toml", "--out", self.out, "--wan", "none", "--no-baseline", *small)

    def test_what_it_does_not_know_is_refused_and_nothing_is_written(self):
        good = self.write("good.txt", "In the beginning")
        broken = self.write("broken.jsonl", {"text": "one"}, {"title": "two"})
        self.assertIn("broken.jsonl: line 2 has no field \"text\"; its texts are in: title", self.prepare(broken, code=2))
        (self.directory / "a.parquet").write_bytes(b"PAR1\x15\x04PAR1")
        self.assertIn("a.parquet is Parquet, which is not read; write its texts as .jsonl",
                      self.prepare(good, "a.parquet", code=2))
        (self.directory / "noise.dat").write_bytes(bytes(range(256)))
        self.assertIn("noise.dat is binary data", self.prepare("noise.dat", code=2))
        (self.directory / "newest.txt").symlink_to("good.txt")
        self.assertRegex(self.prepare(good, "newest.txt", code=2), r"newest\.txt: is the same file as .*good\.txt; name it once")
        self.assertEqual(list(self.directory.glob("tokens/*.bin")), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
