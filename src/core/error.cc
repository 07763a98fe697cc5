#include "bertie/error.h"

namespace bertie {

Error::Error(const std::string& message, std::string hint, std::string field)
    : std::runtime_error(message), hint_(std::move(hint)), field_(std::move(field)) {}

}  // namespace bertie
