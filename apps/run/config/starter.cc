#include "apps/run/config/starter.h"

#include <algorithm>

#include "apps/run/config/config.h"
#include "apps/run/config/config_schema.h"

namespace causeway::run {
namespace {

constexpr std::string_view kAboutProgram = R"(#
# The command starts your program in three regions on this machine. Each reads its place from its environment:
# CAUSEWAY_REGION and CAUSEWAY_DIRECTORY (docs/worker-api.md). It has its own model, data and optimizer, so there is no
# [model], no [data] and no [inner] here.
)";

constexpr std::string_view kAboutBuiltIn = R"(#
# The command trains a small model on your texts, in three regions on this machine.
)";

constexpr std::string_view kRun = R"(
[run]
name = "first-run"      # names the run's directory: runs/first-run-TIME
seed = 1
)";

constexpr std::string_view kModelAndData = R"(
[model]
family = "llama"        # or "gpt2"; from = "DIRECTORY" starts from a published model instead (docs/hugging-face.md)
layers = 4
width = 128
heads = 4
context = 64            # tokens of a training sequence

[data]
files = ["data/*.txt"]  # put your texts there, 100 kB or more in all
format = "text"         # each byte is a token; `causeway prepare` makes better ones (docs/tokenizer.md)
)";

constexpr std::string_view kStepsOfProgram = R"(
[train]
steps = 1000            # inner steps of each region, over the whole run; a multiple of k
k = 50                  # inner steps between two exchanges: more of them send less (docs/choosing-k.md)
)";

constexpr std::string_view kStepsOfBuiltIn = R"(
[train]
batch = 4               # sequences of each region and inner step
steps = 400             # inner steps of each region, over the whole run; a multiple of k
k = 20                  # inner steps between two exchanges: more of them send less (docs/choosing-k.md)
validation_sequences = 64

[inner]
lr = 2e-3               # of AdamW
warmup_steps = 40
)";

constexpr std::string_view kExchange = R"(
[outer]                 # the step from one average to the next, as "auto" chooses it for three regions and 20 rounds (docs/learning.md)
optimizer = "nesterov"
lr = 1.0
momentum = 0.6

[codec]                 # how contributions are compressed: here to 8 bits for each parameter
matrix = "dense:int8,block=128"
)";

constexpr std::string_view kRegions = R"(
# For a real run, write each region's address here (README.md, "Start a run by hand"):
#   listen = "0.0.0.0:7701"               what its coordinator binds
#   advertise = "eu.example.org:7701"     what the other regions dial

[[regions]]
name = "us-east"

[[regions]]
name = "eu-west"

[[regions]]
name = "ap-northeast"
)";

constexpr std::string_view kWan =
    R"(# A WAN to try a run over: `causeway simulate` reads it. docs/wan-scenarios.md has every key, and faults to add.
name = "first-run"
seed = 1
regions = ["us-east", "eu-west", "ap-northeast"]

[defaults]              # for every link
rate_mbit_s = 100
rtt_ms = 80

[[link]]                # a longer link
a = "eu-west"
b = "ap-northeast"
rtt_ms = 200
)";

std::string plain_path(const std::filesystem::path& path) {
  const std::string text = path.string();
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::ranges::any_of(text, control))
    throw ConfigError("the file's name has control characters; give another name");
  return text;
}

}  // namespace

std::string starter_config(StarterTrainer trainer, const std::filesystem::path& file,
                           const std::filesystem::path& wan) {
  const bool built_in = trainer == StarterTrainer::built_in;
  std::string text =
      "# A run of three regions that train one model. `causeway config` describes "
      "every key.\n#\n#     ";
  text += starter_command(trainer, file) + "\n";
  text += built_in ? kAboutBuiltIn : kAboutProgram;
  text += kRun;
  if (built_in) text += kModelAndData;
  text += built_in ? kStepsOfBuiltIn : kStepsOfProgram;
  text += kExchange;
  text += "\n[wan]\nprofile = " + quote(plain_path(wan)) + "\n";
  text += kRegions;
  return text;
}

std::string_view starter_wan() {
  return kWan;
}

std::string starter_command(StarterTrainer trainer, const std::filesystem::path& file) {
  const std::string simulate = "causeway simulate " + plain_path(file);
  switch (trainer) {
    case StarterTrainer::pytorch:
      return simulate + " --worker 'torchrun --standalone --nproc-per-node 1 train.py'";
    case StarterTrainer::own:
      return simulate + " --worker './trainer --its-flags'";
    case StarterTrainer::built_in:
      return simulate;
  }
  return simulate;
}

}  // namespace causeway::run
