#pragma once
#include <stdexcept>
#include <string>

#include "bertie/export.h"

namespace bertie {

// The one exception that Bertie throws for what a user, a file or a socket can cause. what() says what
// is wrong and why; hint(), where there is one, says what to try next.
//
// field() names the option at fault as the public headers spell it ("max_length"), or is empty. In what() and
// hint() such names stand in backticks: "`max_length` 40". Whoever has other names for them, as the command
// line has flags, replaces them there. A backtick that comes from a file or a user is \` there.
class BERTIE_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string hint = {}, std::string field = {});
  const std::string& hint() const noexcept { return hint_; }
  const std::string& field() const noexcept { return field_; }

 private:
  std::string hint_, field_;
};

}  // namespace bertie
