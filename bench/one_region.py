"""The configuration of a benchmark: one region with one worker and a model of about so many million parameters."""

SHAPES = {10: (6, 384, 6), 50: (10, 640, 10), 300: (24, 1024, 16)}  # layers, width, heads


def write_config(directory, name, millions, *, steps, k, timed_step_ms, checkpoint_rounds, batch=1, codec="", spool_gib=16):
    """Writes `directory`/config.toml, and a text beside it; gives its path. `codec`: further lines of that table."""
    layers, width, heads = SHAPES[millions]
    (directory / "text").write_text("In the beginning " * 10_000)
    path = directory / "config.toml"
    path.write_text(f"""
[run]
name = "{name}"
[model]
family = "llama"
layers = {layers}
width = {width}
heads = {heads}
context = 64
vocabulary = 2560
[data]
files = ["{directory / 'text'}"]
[train]
batch = {batch}
steps = {steps}
k = {k}
timed_step_ms = {timed_step_ms}
validation_sequences = 2
checkpoint_rounds = {checkpoint_rounds}
[codec]
matrix = "dense:int8,block=128"
vector = "dense:int8,block=128"
{codec}
[sync]
spool_gib = {spool_gib}
[[regions]]
name = "r0"
""")
    return path
