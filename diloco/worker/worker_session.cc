#include "diloco/worker/worker_session.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/log/wire.h"
#include "diloco/worker/coordinator_link.h"
#include "diloco/worker/last_word.h"
#include "diloco/worker/stream/frame.h"
#include "diloco/worker/worker.pb.h"
#include "diloco/worker/worker_messages.h"
#include "inter/base/error.h"
#include "inter/base/file.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetryMin{100};
constexpr milliseconds kRetryMax{1'000};
// Of a copy to the coordinator's disk, far below any disk's speed, and of one before it that nobody
// waits for any more: past it the coordinator hangs.
constexpr milliseconds kStoreDeadlineBase{60'000};
constexpr std::uint64_t kStoreBytesPerMillisecond = 1'000;

class SocketSession : public WorkerSession {
 public:
  SocketSession(AttachRequest request, WorkerDial dialled)
      : request_(std::move(request)), link_(std::move(dialled)) {}

  ~SocketSession() override;
  SocketSession(const SocketSession&) = delete;
  SocketSession& operator=(const SocketSession&) = delete;

  // Returns when every rank of the region has attached.
  void join(const KeepWaiting& keep_waiting);

  const Attachment& attachment() const override { return attachment_; }
  Instruction next(const KeepWaiting& keep_waiting, std::uint32_t steps) override;
  bool called_back() override;
  void hand_over(const Contribution& contribution, const SealedBytes& payload) override;
  bool await_stored() override;
  void applied(Round version, const Digest& state) override;
  void offer_snapshot(Round version, const Digest& state,
                      const std::filesystem::path& file) override;
  void report(const Progress& progress) override;
  void data_read(const DataDigests& data) override;
  bool lost() override { return link_.is_lost(); }
  bool has_heard() const { return link_.has_heard(); }

 private:
  using Message = CoordinatorLink::Message;
  using Received = CoordinatorLink::Received;
  static Instruction to_instruction(Received received);

  AttachRequest request_;
  CoordinatorLink link_;
  Attachment attachment_;
  bool asked_ = false;  // what to do: the answer is still to come
  std::size_t handed_over_bytes_ = 0;
  Progress reported_;
};

void SocketSession::join(const KeepWaiting& keep_waiting) {
  worker_wire::WorkerMessage message;
  auto* attach = message.mutable_attach();
  attach->set_protocol(kWorkerProtocol);
  attach->set_region(request_.region);
  attach->set_rank(request_.rank);
  attach->set_world(request_.world);
  attach->set_version(request_.version);
  encode(request_.state, attach->mutable_state());
  attach->set_has_lineage(request_.has_lineage);
  attach->set_run_id(request_.run_id);
  attach->set_contributed(request_.contributed);
  attach->set_open_work(request_.open_work);
  attach->set_settings(request_.settings);
  put(request_.data, request_.trained_on, attach);
  if (!request_.tensors.empty()) attach->set_tensors(serialize(request_.tensors));
  attach->set_save_rounds(request_.save_rounds);
  link_.send(message);

  link_.wait_for("the coordinator's answer");
  const Received answer = link_.wait(keep_waiting);
  if (!answer.message.has_attached()) throw_malformed("the coordinator did not answer to attach");
  const auto& attached = answer.message.attached();
  attachment_ = {.generation = attached.generation(),
                 .run_id = attached.run_id(),
                 .contributed = attached.contributed(),
                 .settings = attached.settings(),
                 .rank = attached.rank(),
                 .world = attached.world(),
                 .offers_initial = attached.offers_initial(),
                 .snapshot_from = attached.snapshot_from()};
  if (attachment_.rank >= attachment_.world)
    throw_malformed("the coordinator gave a rank that does not exist");
}

Instruction SocketSession::next(const KeepWaiting& keep_waiting, std::uint32_t steps) {
  assert(attachment_.rank == 0);
  if (!asked_) {
    worker_wire::WorkerMessage message;
    message.mutable_ready()->set_steps(steps);
    link_.send(message);
    asked_ = true;
    link_.wait_for("the coordinator");
  }
  Received received = link_.wait(keep_waiting);
  asked_ = false;
  link_.forget_call();  // that was about the instruction before
  return to_instruction(std::move(received));
}

bool SocketSession::called_back() {
  assert(attachment_.rank == 0);
  if (link_.look()) throw_malformed("the coordinator gave an instruction that was not asked for");
  return link_.called_back();
}

Instruction SocketSession::to_instruction(Received received) {
  switch (received.message.body_case()) {
    case Message::kTrain:
      return to_order(received.message.train());
    case Message::kContinueTraining:
      return to_order(received.message.continue_training());
    case Message::kCollect:
      return Collect{received.message.collect().round()};
    case Message::kApply: {
      Apply apply{.record = parse_commit_record(received.message.apply().record()), .payloads = {}};
      const std::vector<inter::BlobId> blobs = applied_blobs(apply.record);
      if (received.descriptors.size() != blobs.size()) {
        throw_malformed("a commit record came without its payloads");
      }
      for (std::size_t i = 0; i < blobs.size(); ++i)
        apply.payloads.emplace_back(received.descriptors[i].release(), blobs[i].size_bytes);
      return apply;
    }
    case Message::kRestore: {
      const auto& restore = received.message.restore();
      if (received.descriptors.size() != 1) throw_malformed("a snapshot came without its bytes");
      return Restore{
          .version = restore.version(),
          .state = decode_digest(restore.state()),
          .snapshot = MappedBytes(received.descriptors[0].release(), restore.size_bytes())};
    }
    case Message::kFinish:
      return Finish{received.message.finish().version()};
    default:
      throw_malformed("the coordinator's message is not an instruction");
  }
}

void SocketSession::hand_over(const Contribution& contribution, const SealedBytes& payload) {
  assert(attachment_.rank == 0);
  worker_wire::WorkerMessage message;
  message.mutable_contribute()->set_contribution(serialize(contribution));
  std::vector<Descriptor> descriptors;
  descriptors.push_back(payload.share());
  link_.send(message, std::move(descriptors));
  handed_over_bytes_ = payload.size();
}

bool SocketSession::await_stored() {
  const milliseconds deadline =
      kStoreDeadlineBase +
      milliseconds{static_cast<std::int64_t>(handed_over_bytes_ / kStoreBytesPerMillisecond)};
  const std::optional<Received> answer = link_.receive(deadline);
  if (!answer) {
    throw_lost(fmt::format("the coordinator did not store a payload of {} bytes within {} s",
                           handed_over_bytes_, deadline.count() / 1000));
  }
  if (answer->message.has_stored()) return true;
  if (answer->message.has_not_stored()) return false;
  throw_malformed("the coordinator did not say whether it has a payload");
}

void SocketSession::applied(Round version, const Digest& state) {
  assert(attachment_.rank == 0);
  worker_wire::WorkerMessage message;
  message.mutable_applied()->set_version(version);
  encode(state, message.mutable_applied()->mutable_state());
  link_.send(message);
}

void SocketSession::offer_snapshot(Round version, const Digest& state,
                                   const std::filesystem::path& file) {
  assert(attachment_.rank == 0);
  Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw_errno("open", file);
  worker_wire::WorkerMessage message;
  message.mutable_offer_snapshot()->set_version(version);
  encode(state, message.mutable_offer_snapshot()->mutable_state());
  std::vector<Descriptor> descriptors;
  descriptors.push_back(std::move(fd));
  link_.send(message, std::move(descriptors));
}

void SocketSession::data_read(const DataDigests& data) {
  worker_wire::WorkerMessage message;
  put(data, message.mutable_data_read());
  link_.send(message);
}

// Only a trainer knows that its result is written: told to finish, it may still have failed to.
// What it says of that may have been dropped, and is said once more.
SocketSession::~SocketSession() {
  try {
    if (reported_.phase() == kPhaseDone && !link_.is_closed()) report(reported_);
  } catch (const std::exception&) {  // then the coordinator waits for a while
  }
  link_.end();
}

void SocketSession::report(const Progress& progress) {
  reported_ = progress;
  worker_wire::WorkerMessage message;
  *message.mutable_report() = progress;
  link_.send_if_idle(message);  // else an older report is still on its way
}

// Whether to try again, as nothing here or there is wrong for good.
bool may_pass(const std::error_code& code, const AttachRequest& request) {
  return code == Errc::coordinator_lost ||  // it restarts, or another rank did
         code == inter::Errc::not_valid_today ||
         // They are being replaced, or cannot be read for the moment.
         (request.again && (code == inter::Errc::bad_credentials || inter::fails_for_now(code)));
}

// A coordinator that restarts, or that lost another rank, ends a session too before it answers, but
// seldom twice in a row.
std::string why_unanswered(const AttachRequest& request, int times) {
  const std::string closed = "it closed the session before it answered";
  if (request.coordinator.empty() || times < 2) return closed;
  return closed +
         "; is this where its workers attach (its --worker-listen), and not where other regions "
         "do? If it is, large packets may be lost on the way (MTU), and small ones are tried in "
         "turn";
}

// Nobody answers. Whoever was attached knows that no note lay there then: this one is for it, and
// ends it. Anybody else may be started before a coordinator that takes part again. A worker on
// another host finds the note too, where the disk is shared.
void hear_last_word(const AttachRequest& request, Unreached& why) {
  const std::optional<LastWord> word = last_word(request.socket.parent_path());
  if (!word || word->run_id != request.run_id) return;
  if (request.again) throw std::system_error(make_error_code(word->kind), word->reason);
  why.problem = "it ended and said why: " + word->reason;
}

// Of another coordinator, which was here once: the one that answers has taken back its own. Later
// it would end a worker whose connection is lost for a moment.
void drop_old_word(const std::filesystem::path& directory) {
  try {
    take_back_last_word(directory);
  } catch (const std::system_error& error) {
    spdlog::warn("{}", error.what());
  }
}

// One loss is a coordinator that was started again; more of them are not hurried.
milliseconds first_pause(std::uint32_t sessions_lost) {
  milliseconds pause = kRetryMin;
  for (std::uint32_t lost = 2; lost < sessions_lost && pause < kRetryMax; ++lost)
    pause = std::min(2 * pause, kRetryMax);
  return pause;
}

void note_small_segments(const AttachRequest& request) {
  spdlog::warn(
      "the coordinator at {} answers now that it gets small packets, and did not before: something "
      "on the way may drop large ones in silence. Give all interfaces of that network one MTU; "
      "small packets cost rate",
      request.coordinator);
}

}  // namespace

std::unique_ptr<WorkerSession> WorkerSession::attach(const AttachRequest& request,
                                                     const KeepWaiting& keep_waiting) {
  const std::string where =
      std::string(kNobodyAnswers) +
      (request.coordinator.empty() ? request.socket.string() : request.coordinator);
  Unreached why;
  int unanswered = 0;  // connections
  auto silent_since = std::chrono::steady_clock::now();
  const auto meanwhile = [&] {
    keep_waiting_or_throw(keep_waiting,
                          where + (why.problem.empty() ? "" : ": " + why.problem) +
                              silence(std::chrono::steady_clock::now() - silent_since));
  };
  milliseconds retry = first_pause(request.sessions_lost);
  const auto pause = [&] {
    meanwhile();
    ::poll(nullptr, 0, static_cast<int>(retry.count()));
    retry = std::min(2 * retry, kRetryMax);
  };
  if (request.sessions_lost > 1) pause();
  for (;;) {
    // A path that drops large packets in silence takes the connection, and no more.
    const bool small = unanswered > 0 && unanswered % 2 == 0;
    std::unique_ptr<SocketSession> session;
    const std::filesystem::path directory = request.socket.parent_path();
    const bool has_old_word = last_word(directory).has_value();
    try {
      if (std::optional<WorkerDial> dialled = dial_coordinator(request, meanwhile, why, small)) {
        session = std::make_unique<SocketSession>(request, std::move(*dialled));
        session->join(keep_waiting);
        if (has_old_word) drop_old_word(directory);
        if (small) note_small_segments(request);
        return session;
      }
      if (why.took_connection) ++unanswered;
      hear_last_word(request, why);
    } catch (const std::system_error& error) {
      if (!may_pass(error.code(), request)) throw;
      // Whoever was told to wait for other ranks was heard.
      const bool heard = session && session->has_heard();
      if (heard) silent_since = std::chrono::steady_clock::now();
      if (error.code() == Errc::coordinator_lost) unanswered = heard ? 0 : unanswered + 1;
      why.problem = error.code() == Errc::coordinator_lost ? why_unanswered(request, unanswered)
                                                           : error.what();
    }
    pause();
  }
}

}  // namespace causeway::diloco
