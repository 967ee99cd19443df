"""A header is named after what it declares, so that a name that is searched for and a file that is listed lead to each
other. All words of the file's name stand in one name that it declares (tls.h: TlsRole), and a header that declares one
class and nothing else has the whole name of it. The exceptions are listed below, with the reason."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("compression", "inter", "diloco", "intra", "wan-sim", "apps")

# Headers of several things, none of which is the main one: they are named after what the things have in common.
COLLECTIONS = {
    "functions on numbers of one kind": (
        "compression/base/bit_math.h", "compression/base/float16.h", "compression/base/random.h",
        "diloco/files/checked_file.h", "diloco/maths/outer_element.h", "intra/base/bfloat16.h", "intra/cuda/jobs/numbers.h", "wan-sim/base/chance.h"),
    "functions on text": ("inter/base/text.h",),
    "the makers behind a table of names": (
        "apps/commands.h",
        "apps/run/config/config_schema.h", "apps/run/config/key_builders.h"),
    "the ways to launch kernels, or the kernels": (
        "compression/cuda/kernels.h", "intra/cuda/jobs/kernels.h", "intra/cuda/jobs/element_kernel.cuh",
        "intra/cuda/jobs/lane_groups.cuh", "intra/cuda/jobs/ptx.h", "intra/model/kernels/kernels.h"),
    "what chunks meet on a GPU: one codec, or one step, each": (
        "compression/cuda/chunk_feedback.h", "compression/cuda/chunk_int8.h", "compression/cuda/chunk_jobs.h",
        "compression/cuda/chunk_topk.h", "compression/cuda/chunk_topk_decode.h"),
    "jobs of one part of the model, of an outer round, or of sums over ranks": (
        "intra/cuda/jobs/job_attention.h", "intra/cuda/jobs/job_buckets.h", "intra/cuda/jobs/job_classifier.h", "intra/cuda/jobs/job_embedding.h", "intra/cuda/jobs/job_norm.h",
        "intra/cuda/jobs/job_optimizer.h", "intra/cuda/jobs/job_outer.h", "intra/cuda/jobs/job_pointwise.h"),
    "tools for one purpose": (
        "apps/run/region/own_process.h", "intra/cuda/device/cudnn_attention.h", "compression/base/parallel.h", "inter/base/async.h", "inter/base/retry.h",
        "diloco/files/file_io.h", "diloco/files/fault_point.h", "intra/base/resources.h", "intra/published/checkpoint.h",
        "intra/worker/worker_arguments.h"),
    "constants": ("inter/base/limits.h", "apps/wan/wan_pages.h"),
    "errors": ("compression/cuda/error.h",),
    "to and from bytes": (
        "inter/base/wire.h", "inter/frame/frame_body.h", "diloco/log/wire.h", "diloco/ledger/ledger_file.h",
        "diloco/follow/follow_messages.h", "diloco/worker/progress_json.h", "diloco/worker/worker_messages.h",
        "intra/base/foreign_json.h", "intra/published/model_weights.h",
        "intra/published/token_shard.h"),
    "files of one kind": ("inter/blob/spool_files.h", "apps/run/region/region_files.h", "diloco/ledger/ledger_files.h"),
    "a subject of its own, as textbooks name it": (
        "inter/frame/blob_chunks.h", "inter/route/topology.h", "inter/tls/pki.h", "inter/tls/signature.h", "diloco/maths/sha256_leaf.h",
        "diloco/pacing/objective.h", "diloco/pacing/time_model.h", "intra/base/splitmix.h", "wan-sim/base/impairments.h",),
    "a type without methods": (),
    "the act, where the function is the verb": (
        "inter/mesh/greeting.h", "apps/run/simulate/simulation.h"),
    "processes: which, and what is done to them": (
        "apps/run/simulate/process_action.h", "apps/run/simulate/region_processes.h", "apps/flags.h"),
}
LISTED = {name for names in COLLECTIONS.values() for name in names}

def headers():
    return [str(path.relative_to(ROOT)) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in {".h", ".cuh"}]


def words(name):
    """Lower case, singular: SpoolFiles, spool_files and Spool::File are alike."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    parts = re.split(r"[-_:]", snake)
    return [part[:-1] if part.endswith("s") and not part.endswith("ss") else part for part in parts if part]


def types_in(text):
    head = r"^(?:template <[^>]*>\s+)?(?:class|struct|enum class|enum)\s+(?:alignas\(.*?\)\s+)?"
    return re.findall(head + r"(\w+(?:::\w+)*)(?:\s+final)?(?:\s*:[^;{]*)?\s*\{", text, flags=re.M)


def others_in(text):
    functions = re.findall(r"^(?![ #}/])[^\n(=]*?\b(\w+)\(", text, flags=re.M)
    constants = re.findall(r"^(?:inline )?constexpr [\w:<>, ]+? (\w+)(?:\{|\[| =)", text, flags=re.M)
    return functions + constants + re.findall(r"^using (\w+) =", text, flags=re.M)


def fits(header):
    """Names at the level of the namespace begin in column 0: clang-format sees to it."""
    text = re.sub(r"//.*", "", (ROOT / header).read_text())
    name = words(pathlib.PurePosixPath(header).name.split(".")[0].removesuffix("-inl"))
    types, others = types_in(text), others_in(text)
    if len(types) == 1 and not others:
        return words(types[0]) == name
    return any(set(name) <= set(words(declared)) for declared in types + others)


class Names(unittest.TestCase):
    def test_a_header_is_named_after_what_it_declares(self):
        wrong = [header for header in headers() if header not in LISTED and not fits(header)]
        self.assertEqual(wrong, [])

    def test_what_is_listed_exists_and_needs_to_be(self):
        wrong = [name for name in sorted(LISTED) if not (ROOT / name).exists() or fits(name)]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
