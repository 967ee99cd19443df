#include "intra/published/token_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "intra/base/error.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

using testing::ElementsAre;

std::vector<std::string> documents(const std::string& bytes, DocumentFormat format,
                                   const std::string& field = "text") {
  std::vector<std::string> all;
  each_document(bytes, format, field, [&](std::string_view text) { all.emplace_back(text); });
  return all;
}

TEST(Documents, APlainTextIsOneWhateverIsInIt) {
  const std::string text = "{\"text\": 1}\n\nmore\n";
  EXPECT_THAT(documents(text, DocumentFormat::text), ElementsAre(text));
}

TEST(Documents, EachLineOfJsonIsOne) {
  const std::string lines =
      "{\"text\": \"one\\n\\u00e9\", \"id\": 7}\r\n \n\n{\"id\": [1], \"text\": \"\"}\n{\"text\": "
      "\"three\"}";
  EXPECT_THAT(documents(lines, DocumentFormat::json_lines),
              ElementsAre("one\n\u00e9", "", "three"));
  EXPECT_THAT(documents("{\"body\": \"b\", \"text\": \"t\"}", DocumentFormat::json_lines, "body"),
              ElementsAre("b"));
}

TEST(Documents, ALineThatIsNoneIsNamedByItsNumber) {
  const auto refuses = [](const std::string& line, std::vector<std::string> words) {
    words.emplace_back("line 3");
    expect_refusal(Errc::bad_data, words, [&] {
      documents("{\"text\": \"a\"}\n\n" + line + "\n{\"text\": \"b\"}\n",
                DocumentFormat::json_lines);
    });
  };
  refuses("plain words", {"not a JSON object"});
  refuses("[\"text\"]", {"not a JSON object"});
  refuses("{\"text\": \"cut", {"not a JSON object"});
  refuses("{\"text\": \"\xFF\"}", {"not a JSON object in UTF-8"});
  refuses("{\"title\": \"x\", \"body\": \"y\", \"n\": 1}",
          {"no field \"text\"", "body, title", "--field"});
  refuses("{\"n\": 1}", {"no field \"text\"", "in: none"});
  refuses("{\"text\": null}", {"that is null"});
  refuses("{\"text\": 5}", {"that is number", "--field"});
}

TEST(Documents, WhatIsNotReadIsRefusedWithWhatToDo) {
  const TemporaryDirectory directory;
  const auto refuses = [&](const std::string& name, const std::string& bytes,
                           std::vector<std::string> words) {
    const std::string file = directory.file(name, bytes);
    words.push_back(file);
    expect_refusal(Errc::bad_data, words, [&] { document_format(file); });
  };
  refuses("a.parquet", "anything", {"Parquet", ".jsonl"});
  refuses("renamed.txt", "PAR1\x15\x04", {"Parquet", ".jsonl"});
  refuses("a.JSON", "{}", {"one JSON value", ".jsonl"});
  refuses("a.jsonl.gz", "\x1F\x8B", {"gzip", "unpack"});
  refuses("a", "\x28\xB5\x2F\xFD", {"zstd", "unpack"});
  refuses("a.txt", "\xFF\xFEh", {"UTF-16", "UTF-8"});
  refuses("b.txt", std::string("some\0bytes", 10), {"binary"});
  refuses("b.jsonl", std::string("{}\0", 3), {"binary"});
}

TEST(Documents, TheNameTellsJsonLinesFromText) {
  const TemporaryDirectory directory;
  const auto format = [&](const std::string& name) {
    return document_format(directory.file(name, "{\"text\": \"a\"}\n"));
  };
  EXPECT_EQ(format("a.jsonl"), DocumentFormat::json_lines);
  EXPECT_EQ(format("a.NDJSON"), DocumentFormat::json_lines);
  EXPECT_EQ(format("a.txt"), DocumentFormat::text);
  EXPECT_EQ(format("jsonl"), DocumentFormat::text);
}

}  // namespace

}  // namespace causeway::intra
