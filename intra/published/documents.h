// The documents of a file: a plain text is one, of JSON lines each line is one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace causeway::intra {

enum class DocumentFormat : std::uint8_t { text, json_lines };

// By the name's extension and the first bytes. Untrusted file. Throws Errc::bad_data naming it and
// what to do with it, if it is neither: Parquet, compressed, other binary data.
DocumentFormat document_format(const std::filesystem::path& file);

// Calls `take` with the text of each document in `bytes`. Of JSON lines that is the string in
// `field` of each line's object; lines of spaces are skipped. Throws Errc::bad_data naming the
// line, counted from 1, and what is wrong with it.
void each_document(std::string_view bytes, DocumentFormat format, const std::string& field,
                   const std::function<void(std::string_view)>& take);

}  // namespace causeway::intra
