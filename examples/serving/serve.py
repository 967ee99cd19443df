#!/usr/bin/env python3
"""Answers over HTTP with a model that trains meanwhile: the newest that `causeway follow` has published.

    causeway follow run.toml --as reader --directory served &
    python serve.py served --port 8000
    curl 'http://127.0.0.1:8000/?prompt=In+the+beginning'        {"version": 12, "text": "..."}

A request is answered by one version from its first token to its last. Needs PyTorch and transformers.
"""
import argparse
import http.server
import json
import pathlib
import threading
import time
import urllib.parse

import torch
from causeway.follow import Follower
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

TOKENS = 32  # of an answer


class Bytes:
    """The tokens of a run without a tokenizer."""

    def encode(self, text):
        return list(text.encode())

    def decode(self, tokens):
        return bytes(token for token in tokens if token < 256).decode(errors="replace")


class Served:
    def __init__(self, directory):
        self.lock = threading.Lock()
        self.follower = Follower(directory)
        while (version := self.first()) is None:
            time.sleep(0.1)
        self.model, self.tokenizer, self.version = version
        threading.Thread(target=self.follow, daemon=True).start()

    def first(self):
        """None: there is no version yet, or it gave way to a newer one while it was opened. Its weights stay mapped, its other files go."""
        weights = self.follower.newest()
        if weights is None:
            return None
        try:
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(weights.directory)).eval()
            has_tokenizer = (weights.directory / "tokenizer.json").exists()
            tokenizer = AutoTokenizer.from_pretrained(weights.directory) if has_tokenizer else Bytes()
        except OSError:
            if weights.directory.exists():
                raise
            return None
        weights.load_into(model)
        return model, tokenizer, weights.version

    def follow(self):
        for weights in self.follower:
            begin = time.perf_counter()
            with self.lock:  # between two answers
                waited = time.perf_counter() - begin
                weights.load_into(self.model)
                self.version = weights.version
            print(f"version {weights.version}: {1000 * (time.perf_counter() - begin - waited):.1f} ms", flush=True)

    @torch.inference_mode()
    def answer(self, prompt):
        tokens = self.tokenizer.encode(prompt or " ")
        with self.lock:
            limit = self.model.config.max_position_embeddings
            tokens = tokens[-max(1, limit - TOKENS):]
            text = self.model.generate(torch.tensor([tokens]), max_length=min(limit, len(tokens) + TOKENS), do_sample=False,
                                       pad_token_id=0)
            version = self.version
        return {"version": version, "text": self.tokenizer.decode(text[0].tolist())}


def handler_of(served):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            body = json.dumps(served.answer(query.get("prompt", [""])[0])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), handler_of(Served(options.directory)))
    print(f"serves on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
