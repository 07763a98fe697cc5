#pragma once
#include <stdexcept>
#include <string>

#include "bertie/export.h"

namespace bertie {

// The one exception that Bertie throws for what a user, a file or a socket can cause. what() says what
// is wrong and why; hint(), where there is one, says what to try next.
class BERTIE_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string hint = {});
  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string hint_;
};

}  // namespace bertie
