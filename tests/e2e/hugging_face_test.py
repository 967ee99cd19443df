"""Models and tokenizers go both ways between Causeway and Hugging Face's transformers. Runs where that and torch are installed
for the Python of the build (-DPython3_EXECUTABLE=...), and is skipped elsewhere."""
import os
import random
import subprocess
import sys
import unittest

from harness import EndToEnd

try:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    import torch
except ImportError as error:
    torch = None
    MISSING = str(error)

LOGITS = os.environ.get("CAUSEWAY_LOGITS", "")
TOLERANCE = 2e-5  # of logits of size about 1; fp32 sums in another order
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
ONE_REGION = """
[run]
name = "hf"
[model]
{model}
[data]
files = ["{data}"]
format = "{format}"
[train]
batch = 2
steps = 4
k = 2
validation_sequences = 4
[inner]
lr = 1e-3
[codec]
matrix = "dense:int8,block=128"
[[regions]]
name = "here"
"""


@unittest.skipIf(torch is None, "needs torch and transformers: " + ("" if torch else MISSING))
class HuggingFace(EndToEnd):
    def train(self, model, data=None, kind="text"):
        config = self.directory / "one.toml"
        config.write_text(ONE_REGION.format(model=model, data=data or self.directory / "text", format=kind))
        self.run_causeway("simulate", config, "--out", self.out, "--wan", "none", "--no-baseline")
        return self.out / "checkpoints" / "final"

    def our_logits(self, checkpoint):
        output = subprocess.run([LOGITS, checkpoint, *map(str, TOKENS)], check=True, text=True, stdout=subprocess.PIPE)
        return torch.tensor([[float(x) for x in line.split()] for line in output.stdout.splitlines()])

    def their_logits(self, checkpoint):
        model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
        with torch.no_grad():
            return model(torch.tensor([TOKENS])).logits[0]

    def assert_same_logits(self, checkpoint):
        ours, theirs = self.our_logits(checkpoint), self.their_logits(checkpoint)
        self.assertEqual(ours.shape, theirs.shape)
        difference = (ours - theirs).abs().max().item()
        print(f"largest difference of logits {difference:.2g}, largest logit {theirs.abs().max().item():.2g}")
        self.assertLess(difference, TOLERANCE * max(1.0, theirs.abs().max().item()))

    def trained_here(self, model):
        self.assert_same_logits(self.train("layers = 2\nwidth = 32\nheads = 4\ncontext = 32\n" + model))

    def published(self, config, **save):
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        there = self.directory / "published"
        model.to(getattr(torch, save.pop("dtype", "float32"))).save_pretrained(there, **save)
        self.assert_same_logits(there)
        here = self.train(f'from = "{there}"\ncontext = 16')
        self.assert_same_logits(here)
        return there, here

    def gpt2(self):
        return transformers.GPT2Config(vocab_size=256, n_positions=32, n_embd=48, n_layer=2, n_head=3, bos_token_id=1,
                                       eos_token_id=2)

    def llama(self, **more):
        return transformers.LlamaConfig(vocab_size=256, max_position_embeddings=64, hidden_size=48, num_hidden_layers=2,
                                        num_attention_heads=6, num_key_value_heads=2, intermediate_size=80, **more)

    def test_a_gpt2_trained_here_loads_there(self):
        self.trained_here('family = "gpt2"')

    def test_a_llama_trained_here_loads_there(self):
        self.trained_here('family = "llama"\nkv_heads = 2\nrope_theta = 500.0')

    def test_a_llama_with_a_tied_head_trained_here_loads_there(self):
        self.trained_here('family = "llama"\ntied_head = true')

    def test_a_gpt2_from_there_is_continued_here(self):
        _, here = self.published(self.gpt2())
        self.assertEqual(transformers.AutoConfig.from_pretrained(here).eos_token_id, 2)

    def test_a_llama_of_many_files_in_bf16_from_there_is_continued_here(self):
        there, _ = self.published(self.llama(rope_theta=1e5), max_shard_size="40KB", dtype="bfloat16")
        self.assertTrue((there / "model.safetensors.index.json").exists())

    def test_a_llama_with_a_tied_head_and_scaled_rotations_from_there_is_continued_here(self):
        scaling = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                       original_max_position_embeddings=8)
        self.published(self.llama(tie_word_embeddings=True, rope_scaling=scaling))

    def test_tokenizers_agree_on_random_text(self):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                      special_tokens=["<|endoftext|>"], show_progress=False)
        tokenizer.train([str(self.directory / "text")], trainer)
        there = self.directory / "there"
        there.mkdir()
        tokenizer.save(str(there / "tokenizer.json"))
        chance = random.Random(5)
        blocks = [(0x20, 0x7F), (0x80, 0x250), (0x370, 0x530), (0x590, 0x780), (0x900, 0xE00), (0x2000, 0x2100),
                  (0x3040, 0x30FF), (0x4E00, 0x5000), (0x1F300, 0x1F680), (9, 14)]
        letters = "".join(chr(chance.randrange(*chance.choice(blocks))) for _ in range(20_000))
        text = "".join(chance.choice([letter, letter + " ", "the king", "\n\n", "  "]) for letter in letters)
        (self.directory / "random.txt").write_text(text, newline="")
        self.run_causeway("prepare", there, self.directory / "random.txt", "--out", self.directory / "tokens",
                          "--end", "<|endoftext|>")
        shard = (self.directory / "tokens" / "random.bin").read_bytes()
        ours = [int.from_bytes(shard[i:i + 2], "little") for i in range(0, len(shard), 2)]
        theirs = tokenizer.encode(text).ids + [tokenizer.token_to_id("<|endoftext|>")]
        self.assertEqual(ours, theirs)

    def test_text_goes_in_and_comes_out_with_a_tokenizer_from_there(self):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train([str(self.directory / "text")], trainers.BpeTrainer(
            vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        there = self.directory / "there"
        there.mkdir()
        tokenizer.save(str(there / "tokenizer.json"))
        vocabulary = tokenizer.get_vocab_size()
        self.run_causeway("prepare", there, self.directory / "text", "--out", self.directory / "tokens")
        model = f'layers = 1\nwidth = 32\nheads = 2\ncontext = 16\nvocabulary = {vocabulary}'
        final = self.train(model, self.directory / "tokens" / "text.bin", f'uint16"\ntokenizer = "{there}')
        loaded = transformers.AutoTokenizer.from_pretrained(final)
        greedy = self.run_causeway("generate", final, "--prompt", "the king", "--tokens", "8", "--temperature", "0")
        with torch.no_grad():
            tokens = loaded("the king", return_tensors="pt")["input_ids"]
            network = transformers.AutoModelForCausalLM.from_pretrained(final, dtype=torch.float32)
            for _ in range(8):
                likeliest = network(tokens[:, -16:]).logits[0, -1].argmax().reshape(1, 1)
                tokens = torch.cat([tokens, likeliest], dim=1)
        self.assertEqual(greedy, loaded.decode(tokens[0]) + "\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
