// Whether this region reads the data that the others read, where all should read the same.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/region/region.h"

namespace causeway::diloco {

class DataCheck {
 public:
  explicit DataCheck(Region& region) : region_(region) {}

  // Ends this region if most regions read other data than it. Of two equal halves, whoever begins
  // gives way to who trained before: at version 0 both, later the one whose worker just attached,
  // or trained before all of its data was read. Nothing is judged before the log names this region
  // as a member.
  //
  // Files may be changed while the run goes on. Each region's worker finds that at its own time and
  // is started again, so that a region that read the same as this one, and does no more, may be
  // about to read the same again. It is judged once `start_wait` has passed.
  void check(bool just_attached, Time now);

  // A worker that begins with its data does not train while another region reads other data and it
  // is not known which of them is wrong: the link to a third may come up late. Returns the regions
  // that it waits for, for at most `start_wait`; empty: nothing is in doubt.
  std::vector<std::string> waits_for(Time now) const;
  std::optional<Time> deadline() const { return in_doubt_until_; }
  std::string waiting_for(Time now) const;  // empty while nothing is in doubt

 private:
  bool most_read_the_same() const;
  std::optional<std::string> any_that_read_other() const;  // when last heard
  void notice_changes(Time now);
  bool may_be_changing(const std::string& region, Time now) const;  // what it reads, or this one
  std::string difference(const std::vector<std::string>& others) const;

  Region& region_;
  bool just_attached_ = false;  // its worker, and not judged since
  std::optional<DataDigest> began_with_;
  bool may_be_in_doubt_ = false;         // until most regions read the same
  std::optional<Time> in_doubt_until_;   // since the first that read other
  std::set<std::string> read_the_same_;  // all of it, at some time since this process started
  bool was_in_doubt_ = false;            // at the last look, or gives way and waits for changes
  std::set<std::string> told_of_data_;   // regions that read other data, as last told
};

}  // namespace causeway::diloco
