#include "intra/published/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "intra/data/data.h"
#include "intra/published/token_shard.h"
#include "tests/golden/tokenizer_golden.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path golden(const std::string& name) {
  return fs::path(CAUSEWAY_SOURCE) / "tests/golden/tokenizers" / (name + ".json");
}

void agrees(const std::string& name, const std::vector<golden::Tokenized>& all,
            const std::string& prefix = "") {
  const Tokenizer tokenizer(golden(name));
  for (const auto& [text, tokens] : all) {
    EXPECT_EQ(tokenizer.encode(text), tokens) << name << ": " << text;
    const std::string back = tokenizer.decode(tokens);
    if (prefix.empty()) {
      EXPECT_EQ(back, text) << name;
    }
  }
}

TEST(Tokenizer, GivesTheTokensOfTheReference) {
  agrees("gpt2", golden::kTokenizedGpt2);
  agrees("llama3", golden::kTokenizedLlama3);
  agrees("digits", golden::kTokenizedDigits);
  agrees("prefix_space", golden::kTokenizedPrefixSpace, " ");
}

TEST(Tokenizer, KnowsWhatBelongsAroundATextAndItsAddedTokens) {
  const Tokenizer llama3(golden("llama3")), gpt2(golden("gpt2"));
  const auto end = llama3.token("<|end|>");
  ASSERT_TRUE(end);
  EXPECT_THAT(llama3.before(), testing::ElementsAre(*end));
  EXPECT_TRUE(llama3.after().empty());
  EXPECT_TRUE(gpt2.before().empty());
  EXPECT_FALSE(gpt2.token("the"));
  EXPECT_EQ(gpt2.vocabulary(), 402);
}

TEST(Tokenizer, TakesLongWordsWithoutSpacesInReasonableTime) {
  const Tokenizer tokenizer(golden("gpt2"));
  const std::string text(1 << 20, 'e');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Tokenizer, SkipsNumbersThatAreNoTokens) {
  const Tokenizer tokenizer(golden("gpt2"));
  const std::int32_t numbers[] = {-1, 1 << 30};
  EXPECT_EQ(tokenizer.decode(numbers), "");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer(golden("gpt2"));
  expect_refusal(Errc::bad_data, {"UTF-8", "byte 2"}, [&] { tokenizer.encode("ab\xFF"); });
}

class TokenizerFileTest : public testing::Test {
 protected:
  void refuses(const json& file, const std::vector<std::string>& parts) const {
    refuses_text(file.dump(), parts);
  }
  void refuses_text(const std::string& text, std::vector<std::string> parts) const {
    const std::string path = directory_.file("tokenizer.json", text);
    parts.push_back(path);
    expect_refusal(Errc::bad_data, parts, [&] { Tokenizer{directory_.path()}; });
  }

  TemporaryDirectory directory_;
  json good_ = json::parse(std::ifstream(golden("gpt2")));
};

TEST_F(TokenizerFileTest, RefusesWhatIsNoTokenizer) {
  expect_refusal(Errc::bad_data, {"missing"}, [&] { Tokenizer{directory_.path()}; });
  refuses_text("", {"JSON"});
  refuses_text("[]", {"JSON"});
  refuses_text(std::string(100'000, '['), {"JSON"});
  refuses_text("{}", {"pre-tokenizer"});
}

TEST_F(TokenizerFileTest, RefusesWhatIsNotBuiltIn) {
  const auto with = [&](const char* place, const json& value) {
    json file = good_;
    file[json::json_pointer(place)] = value;
    return file;
  };
  refuses(with("/model/type", "WordPiece"), {"WordPiece"});
  refuses(with("/model/byte_fallback", true), {"SentencePiece"});
  refuses(with("/model/dropout", 0.1), {"dropout"});
  refuses(with("/normalizer", {{"type", "NFC"}}), {"NFC"});
  refuses(with("/decoder/type", "Metaspace"), {"Metaspace"});
  refuses(with("/pre_tokenizer/type", "Whitespace"), {"Whitespace"});
  refuses(with("/post_processor/type", "Bert"), {"Bert"});
  refuses(with("/added_tokens/0/lstrip", true), {"lstrip"});
}

TEST_F(TokenizerFileTest, RefusesWhatContradictsItself) {
  const auto with = [&](const char* place, const json& value) {
    json file = good_;
    file[json::json_pointer(place)] = value;
    return file;
  };
  refuses(with("/model/vocab", json::object()), {"vocabulary"});
  refuses(with("/model/vocab/a", -1), {"'a'", "-1"});
  refuses(with("/model/vocab/a", 1 << 24), {"'a'"});
  refuses(with("/model/vocab/a", good_["model"]["vocab"]["b"]), {"two texts"});
  refuses(with("/model/merges", {"a"}), {"merge"});
  refuses(with("/model/merges", {"a b c"}), {"merge"});
  refuses(with("/model/merges", {"a qqq"}), {"'qqq'"});
  refuses(with("/added_tokens/0/id", "x"), {"<|end|>"});
  const json split = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a"}}}};
  refuses(with("/pre_tokenizer", split), {"pattern", "(a"});
}

TEST(TokenShard, HoldsATextsTokensAsTrainingReadsThem) {
  const TemporaryDirectory directory;
  const Tokenizer tokenizer(golden("llama3"));
  const std::string text = directory.file("text", "In the beginning\nGod created 2024 heavens");
  const fs::path shard = directory.path() / "shard.bin";
  auto expected = tokenizer.encode("In the beginning\nGod created 2024 heavens");
  expected.insert(expected.begin(), tokenizer.before().front());
  expected.push_back(7);
  const ShardCount written = write_shard(tokenizer, text, 7, shard);
  EXPECT_EQ(written.tokens, expected.size());
  EXPECT_EQ(written.documents, 1);
  const Dataset dataset({.files = {shard.string()},
                         .format = shard_format(tokenizer.vocabulary()),
                         .validation_fraction = 0,
                         .vocabulary = tokenizer.vocabulary()});
  std::vector<std::int32_t> tokens(dataset.train_tokens());
  dataset.read_train(0, tokens);
  EXPECT_EQ(tokens, expected);
  EXPECT_EQ(shard_format(65'536), DataOptions::Format::uint16);
  EXPECT_EQ(shard_format(65'537), DataOptions::Format::uint32);
  const std::string broken = directory.file("broken", "\xC3");
  expect_refusal(Errc::bad_data, {broken, "UTF-8"},
                 [&] { write_shard(tokenizer, broken, {}, shard); });
}

TEST(TokenShard, DocumentsOfJsonLinesFollowEachOtherAsTextsDo) {
  const TemporaryDirectory directory;
  const Tokenizer tokenizer(golden("llama3"));
  const std::string lines = directory.file(
      "a.jsonl", "{\"body\": \"In the beginning\"}\n{\"body\": \"\"}\n{\"body\": \"2024\"}\n");
  const fs::path shard = directory.path() / "shard.bin";
  std::vector<std::int32_t> expected;
  for (const char* text : {"In the beginning", "", "2024"}) {
    expected.push_back(tokenizer.before().front());
    const auto tokens = tokenizer.encode(text);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(7);
  }
  const ShardCount written = write_shard(tokenizer, lines, 7, shard, "body");
  EXPECT_EQ(written.documents, 3);
  EXPECT_EQ(written.tokens, expected.size());
  const Dataset dataset({.files = {shard.string()},
                         .format = shard_format(tokenizer.vocabulary()),
                         .validation_fraction = 0,
                         .vocabulary = tokenizer.vocabulary()});
  std::vector<std::int32_t> tokens(dataset.train_tokens());
  dataset.read_train(0, tokens);
  EXPECT_EQ(tokens, expected);
  fs::remove(shard);
  expect_refusal(Errc::bad_data, {lines, "line 1 has no field \"text\""},
                 [&] { write_shard(tokenizer, lines, 7, shard); });
  EXPECT_FALSE(fs::exists(shard)) << "a part of the tokens is not left behind";
}

}  // namespace
}  // namespace causeway::intra
