#include "bertie/error.h"

namespace bertie {

Error::Error(const std::string& message, std::string hint)
    : std::runtime_error(message), hint_(std::move(hint)) {}

}  // namespace bertie
