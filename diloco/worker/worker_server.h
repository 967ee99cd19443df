// The coordinator's end of the worker socket: gathers the region's ranks, then passes messages
// between rank 0 and the coordinator.
//
// One gathering at a time. It stands when all ranks are there, or after a while with those that
// are; it ends for all when any rank's session ends. A rank that comes while it stands is taken in
// when rank 0 next asks what to do: everybody then gathers anew. One thread, everything on the
// executor given.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "diloco/files/error.h"
#include "diloco/worker/worker_session.h"
#include "inter/mesh/mesh.h"
#include "inter/tls/pki.h"

namespace causeway::diloco {

struct WorkerServerOptions {
  std::filesystem::path socket;
  std::string region;
  std::uint32_t workers = 1;
  std::string settings;  // what attached workers are told of the run
  // From the first rank's coming until the others go on without those that are missing.
  std::chrono::milliseconds rank_wait{30'000};
  // Of a connection until its worker has attached. A worker says so at once.
  std::chrono::milliseconds attach_deadline{10'000};
};

// What the owner of a worker server must answer. Rank 0, the first that is there, speaks for the
// region.
class WorkerServerHandler {
 public:
  virtual ~WorkerServerHandler() = default;
  // Why a worker of this region may not attach with its settings; empty: it may.
  virtual std::string objection(const AttachRequest&) { return {}; }
  virtual void on_gathered(const AttachRequest& rank_0,
                           const std::vector<std::uint32_t>& missing) = 0;
  virtual void on_worker_lost() = 0;               // after on_gathered
  virtual void on_ready(std::uint32_t steps) = 0;  // as WorkerSession::next
  virtual void on_contribute(const Contribution& contribution, Descriptor payload) = 0;  // sealed
  virtual void on_applied(Round version, const Digest& state) = 0;
  virtual void on_snapshot(Round version, const Digest& state, Descriptor file) = 0;
  virtual void on_report(const Progress& progress) = 0;
  virtual void on_data_read(const DataDigests&) {}
};

class WorkerServer {
 public:
  // `handler` must outlive the server.
  WorkerServer(asio::any_io_executor executor, WorkerServerOptions options,
               WorkerServerHandler& handler);
  ~WorkerServer();

  // Before start(): workers of this region on other hosts may attach over TLS, with the region's
  // certificate. Returns the port. Throws std::system_error naming what cannot be used.
  std::uint16_t listen(const inter::Endpoint& bind, const inter::Credentials& credentials);

  // Throws std::system_error naming the socket if it cannot listen there. `listening`: that listens
  // there already, from another server of this process.
  void start(Descriptor listening = {});
  // Before stop(): what it listens on, for the next server, as a read-only disk takes no other
  // socket. Nothing, if it has not started.
  Descriptor hand_over_listening();
  // Closes every session and joins every coroutine.
  asio::awaitable<void> stop();

  bool attached() const;  // a gathering stands

  // To every rank of the gathering that stands.
  void welcome(const std::string& run_id, bool contributed, bool offers_initial = false,
               Round snapshot_from = 0);
  // To every rank: it may not take part, ever. Their sessions end.
  void refuse(const std::string& reason, Errc kind);
  // To rank 0; nothing happens without a gathering.
  void stored();
  void not_stored();  // there is no room
  void train(const Train& train);
  void continue_training(const Continue& order);
  void call_back();  // from a Continue that may still be under way
  void collect(Round round);
  void apply(const CommitRecord& record, const std::vector<std::filesystem::path>& payloads);
  void restore(Round version, const Digest& state, const std::filesystem::path& snapshot,
               std::uint64_t size_bytes);
  void finish(Round version);
  void waiting_for(const std::string& what);  // to show while it waits

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace causeway::diloco
