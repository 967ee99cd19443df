#include "diloco/worker/stream/worker_stream.h"

#include <utility>

namespace causeway::diloco {
namespace {

class UnixStream : public WorkerStream {
 public:
  explicit UnixStream(int socket) : socket_(socket) {}
  bool receive() override { return reader_.receive(socket_); }
  std::optional<Frame> next() override { return reader_.next(); }
  void add(Frame frame) override { writer_.add(std::move(frame)); }
  bool flush() override { return writer_.flush(socket_); }
  bool empty() const override { return writer_.empty(); }
  std::uint64_t sent_bytes() const override { return writer_.sent_bytes(); }

 private:
  int socket_;
  FrameReader reader_;
  FrameWriter writer_;
};

}  // namespace

std::unique_ptr<WorkerStream> make_unix_stream(int socket) {
  return std::make_unique<UnixStream>(socket);
}

}  // namespace causeway::diloco
