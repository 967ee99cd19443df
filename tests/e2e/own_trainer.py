"""A trainer that is not ours: examples/classifier, built against the installed package."""
import os
import subprocess

from harness import DEADLINE_S, EndToEnd

BUILD = os.environ["CAUSEWAY_BUILD"]
SOURCE = os.environ["CAUSEWAY_SOURCE"]


class OwnTrainer(EndToEnd):
    def setUp(self):
        super().setUp()
        self.classifier = self.build_classifier()

    def call(self, *arguments):
        done = subprocess.run([*map(str, arguments)], cwd=self.directory, text=True, timeout=DEADLINE_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)

    def build_classifier(self):
        prefix, build = self.directory / "prefix", self.directory / "classifier"
        self.call("cmake", "--install", BUILD, "--prefix", prefix)
        sanitize = os.environ.get("CAUSEWAY_SANITIZE", "")  # a library built so needs programs built so
        self.call("cmake", "-S", f"{SOURCE}/examples/classifier", "-B", build,
                  f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release",
                  f"-DCMAKE_CXX_FLAGS={'-fsanitize=' + sanitize if sanitize else ''}")
        self.call("cmake", "--build", build)
        return build / "classifier"
