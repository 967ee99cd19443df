// causeway members: who belongs to a run, and changing that while it runs.
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "apps/commands.h"
#include "apps/run/config/config.h"
#include "apps/run/region/asked_member.h"
#include "diloco/coordinator/operator_door.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/ledger/ledger_files.h"
#include "inter/mesh/mesh.h"

namespace causeway::apps {
namespace {

constexpr std::chrono::seconds kPatience{60}, kSilence{2}, kAskAgain{5};
constexpr std::chrono::milliseconds kPoll{100};

struct MembersFlags {
  std::filesystem::path directory;
  std::string name;
  std::string address;
  bool witness = false;
};

diloco::Membership membership_in(const std::filesystem::path& directory) {
  const std::filesystem::path ledger = directory / "ledger";
  if (!std::filesystem::exists(ledger / "records")) {
    throw run::ConfigError("--directory " + directory.string() +
                           ": no ledger there; name a region's directory");
  }
  const std::string run_id = diloco::read_run_id(ledger);
  diloco::Membership membership;
  // One by one: the entries of a long run fill memory, and whoever waits for a change looks often.
  diloco::scan_ledger(ledger / "records", run_id,
                      [&](const diloco::LedgerEntry& entry, std::size_t) {
                        if (const auto* body = std::get_if<diloco::Membership>(&entry.entry.body))
                          membership = *body;
                      });
  return membership;
}

void list(const diloco::Membership& membership) {
  for (const diloco::Member& member : membership.members) {
    std::cout << member.region << "  "
              << (member.address.empty() ? "dials out only" : member.address)
              << (member.witness ? "  witness" : "")
              << (member.incarnation.empty() ? "  no vote yet" : "  votes") << "\n";
  }
  if (membership.origin && !membership.origin->run_id.empty()) {
    std::cout << "forked from run " << membership.origin->run_id << " at version "
              << membership.origin->version << "\n";
  }
}

// A name that is mistyped must not look like a removal.
void require_member(const diloco::Membership& membership, const std::string& name) {
  if (membership.find(name) != nullptr) return;
  std::string names;
  for (const diloco::Member& member : membership.members) names += " " + member.region;
  throw run::ConfigError("NAME " + name + ": is not a member of the run; its members are" + names);
}

// What was asked lies in the memory of a coordinator until it is agreed on, and is lost with a
// leader, a link or that coordinator. To ask twice does no harm.
class Asking {
 public:
  Asking(std::filesystem::path directory, diloco::ChangeMember change)
      : directory_(std::move(directory)), change_(std::move(change)) {
    diloco::ask_coordinator(directory_, change_);
  }
  // A coordinator that is started again is back by the next time.
  void ask_again_if_it_is_time() {
    if (std::chrono::steady_clock::now() < next_) return;
    next_ += kAskAgain;
    try {
      diloco::ask_coordinator(directory_, change_);
      gone_ = false;
    } catch (const std::system_error& error) {
      if (!std::exchange(gone_, true)) return;
      throw std::system_error(
          error.code(),
          "the coordinator in " + directory_.string() +
              " was asked, and does not answer any more: it ended, or cannot use its disk. The run "
              "may take the change all the same: `causeway members list` in another region tells. "
              "If it does not, ask there, or here once it runs again");
    }
  }

 private:
  std::filesystem::path directory_;
  diloco::ChangeMember change_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kAskAgain;
  bool gone_ = false;
};

// The leader's word is in the ledger when a majority has it.
void change(const MembersFlags& flags, const diloco::Member& asked, bool remove) {
  Asking asking(flags.directory, {.member = asked, .remove = remove});
  asio::io_context context;
  const auto status = [&] {
    return diloco::read_file(flags.directory / "status.json").value_or("");
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (bool said = false;;) {
    const diloco::Membership now = membership_in(flags.directory);
    const diloco::Member* member = now.find(asked.region);
    const bool done = remove ? member == nullptr
                             : member != nullptr && member->address == asked.address &&
                                   member->witness == asked.witness;
    if (done) return list(now);
    const auto left = deadline - std::chrono::steady_clock::now();
    if (!said && left < kPatience - kSilence) {
      spdlog::info("{}", run::still_waits(status(), kPatience));
      said = true;
    }
    if (left < std::chrono::seconds(0)) {
      throw std::system_error(std::make_error_code(std::errc::timed_out),
                              run::why_not_taken(status(), kPatience));
    }
    asking.ask_again_if_it_is_time();
    asio::steady_timer(context, kPoll).wait();
  }
}

void add_member(const MembersFlags& flags) {
  const diloco::Membership membership = membership_in(flags.directory);
  const diloco::Member asked = run::asked_member(
      membership, {.region = flags.name, .address = flags.address, .witness = flags.witness});
  const std::string warning = run::dial_only_warning(membership, asked);
  if (!warning.empty()) spdlog::warn("{}", warning);
  change(flags, asked, false);
}

CLI::App* add_command(CLI::App* members, const char* name, const char* text,
                      const std::shared_ptr<MembersFlags>& flags) {
  CLI::App* command = members->add_subcommand(name, text);
  command->add_option("--directory", flags->directory, "A region's directory on this host")
      ->required();
  return command;
}

}  // namespace

void add_members(CLI::App& app, int&) {
  auto flags = std::make_shared<MembersFlags>();
  CLI::App* members = app.add_subcommand("members", "Show or change who belongs to a run");
  members->require_subcommand(1);
  add_command(members, "list", "Show the members and who votes", flags)->callback([flags] {
    list(membership_in(flags->directory));
  });
  CLI::App* add =
      add_command(members, "add", "Let a region take part, or change its address", flags);
  add->add_option("NAME", flags->name, "The region's name, as in its certificate")->required();
  add->add_option(
      "ADDRESS", flags->address,
      "HOST:PORT at which the others dial the region; if it is left out, the region dials them");
  add->add_flag("--witness", flags->witness,
                "The new member votes without training. A member cannot change its role");
  add->callback([flags] {
    inter::check_region_name(flags->name);
    if (!flags->address.empty() && inter::parse_endpoint(flags->address).port == 0) {
      throw run::ConfigError("ADDRESS " + flags->address +
                             ": nobody can dial port 0; give the port that the region listens on");
    }
    add_member(*flags);
  });
  CLI::App* remove = add_command(members, "remove", "Take a region out of the run", flags);
  remove->add_option("NAME", flags->name, "The region")->required();
  remove->callback([flags] {
    require_member(membership_in(flags->directory), flags->name);
    change(*flags, {.region = flags->name}, true);
  });
}

}  // namespace causeway::apps
