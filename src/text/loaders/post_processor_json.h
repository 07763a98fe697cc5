#pragma once
#include "text/json_object.h"
#include "text/models/vocabulary.h"
#include "text/steps/post_processor.h"

namespace bertie::text {

// From the object "post_processor" of a tokenizer.json; only the texts if it is missing. Throws Error.
PostProcessor read_post_processor(const JsonObject& object, const Vocabulary& vocabulary);

}  // namespace bertie::text
