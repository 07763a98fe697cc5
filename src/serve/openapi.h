#pragma once
#include <string_view>

namespace bertie::serve {

// What the service offers, as OpenAPI 3.1 says such things; web/openapi.json, embedded by CMake.
std::string_view openapi_document();

}  // namespace bertie::serve
