#include "inter/tls/issued.h"

#include <fcntl.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <system_error>

#include "inter/base/error.h"
#include "inter/base/file.h"

namespace causeway::inter {
namespace {

using NumberPtr = std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>>;

std::filesystem::path issued_file(const std::filesystem::path& directory) {
  return directory / "ca.issued";
}

// Empty if there is no such file. One that cannot be read is not taken for an empty one, which
// would be replaced.
std::string read_issued(const std::filesystem::path& directory) {
  const std::filesystem::path path = issued_file(directory);
  if (!std::filesystem::exists(path)) return {};
  const File file(path, O_RDONLY);
  std::string lines(std::filesystem::file_size(path), ' ');
  lines.resize(file.read_at(0, std::as_writable_bytes(std::span(lines))));
  return lines;
}

std::string serial_text(const X509* certificate) {
  const NumberPtr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  const std::unique_ptr<char, decltype([](char* text) { OPENSSL_free(text); })> text(
      BN_bn2hex(number.get()));
  if (!text) throw_bad_credentials("cannot read a certificate's serial number");
  return text.get();
}

// Null if it is none.
SerialPtr parse_serial(const std::string& text) {
  BIGNUM* parsed = nullptr;
  const int digits = text.starts_with('-') ? 0 : BN_hex2bn(&parsed, text.c_str());
  const NumberPtr number(parsed);
  const bool all = digits > 0 && static_cast<std::size_t>(digits) == text.size();
  return SerialPtr(all ? BN_to_ASN1_INTEGER(number.get(), nullptr) : nullptr);
}

}  // namespace

std::vector<SerialPtr> issued_to(const std::filesystem::path& directory, const std::string& name) {
  std::vector<SerialPtr> serials;
  std::istringstream file(read_issued(directory));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string owner, text;
    words >> owner >> text;
    SerialPtr serial = parse_serial(text);
    if (!serial) {
      throw std::system_error(Errc::bad_credentials,
                              issued_file(directory).string() + ": \"" + line +
                                  "\" is not NAME SERIAL; take out what is damaged, or bring the "
                                  "file back from a copy");
    }
    if (owner == name) serials.push_back(std::move(serial));
  }
  return serials;
}

void remember_issued(const std::filesystem::path& directory, const std::string& name,
                     const X509* certificate) {
  const ASN1_INTEGER* const serial = X509_get0_serialNumber(certificate);
  const auto known = issued_to(directory, name);
  if (std::any_of(known.begin(), known.end(),
                  [&](const SerialPtr& one) { return ASN1_INTEGER_cmp(one.get(), serial) == 0; })) {
    return;
  }
  std::string lines = read_issued(directory);
  if (!lines.empty() && !lines.ends_with('\n')) lines += '\n';  // somebody edited it
  lines += name + " " + serial_text(certificate) + "\n";
  AtomicFile file(issued_file(directory));
  file.append(std::as_bytes(std::span(lines)));
  file.commit(Durability::on_disk);
}

}  // namespace causeway::inter
