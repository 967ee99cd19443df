// print_logits CHECKPOINT TOKEN...: the logits after each prefix of the tokens, one line for each.
// For comparing models with other programs.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "intra/published/checkpoint.h"

int main(int argc, char** argv) try {
  using namespace causeway::intra;
  const LoadedModel loaded = load_model(argv[1]);
  const auto model = make_model(loaded.options);
  std::vector<std::int32_t> tokens;
  for (int i = 2; i < argc; ++i) {
    tokens.push_back(std::atoi(argv[i]));
    for (const float logit : model->next_token_logits(tokens, loaded.params))
      std::printf("%.9g ", static_cast<double>(logit));
    std::puts("");
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
