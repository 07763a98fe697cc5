#pragma once
// A model quantized on a few texts of Bertie's own: what load() does where int8 is asked for.
#include "bertie/model.h"
#include "bertie/tokenizer.h"

namespace bertie {

Model quantized(const Model& model, const Tokenizer& tokenizer);

}  // namespace bertie
