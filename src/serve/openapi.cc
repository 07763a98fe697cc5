#include "serve/openapi.h"

extern "C" const char bertie_openapi[], bertie_openapi_end[];

namespace bertie::serve {

std::string_view openapi_document() { return {bertie_openapi, bertie_openapi_end}; }

}  // namespace bertie::serve
