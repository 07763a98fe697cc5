#pragma once
#include <string_view>

namespace bertie::serve {

// What the service offers, as OpenAPI 3.1 says such things; src/serve/openapi.json, embedded by CMake.
std::string_view openapi_document();

}  // namespace bertie::serve
