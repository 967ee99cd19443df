// Standard output and standard error of the program: what others wrote (names in a ledger, answers
// of a peer, an archive's files) is printable before it reaches the terminal. A subcommand that
// prints a file's content as it is, or draws, goes around it.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace causeway::apps {

// While it lives, in the place of a stream's own buffer. Keeps a line until it ends or is flushed.
class PrintableOutput : private std::streambuf {
 public:
  explicit PrintableOutput(std::ostream& stream) : stream_(stream), below_(stream.rdbuf(this)) {}
  ~PrintableOutput() override {
    sync();
    stream_.rdbuf(below_);
  }
  PrintableOutput(const PrintableOutput&) = delete;
  PrintableOutput& operator=(const PrintableOutput&) = delete;

 private:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;
  bool pass_on();  // what is kept

  std::ostream& stream_;
  std::streambuf* below_;
  std::string kept_;
};

}  // namespace causeway::apps
