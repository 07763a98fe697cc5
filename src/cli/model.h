#pragma once
// The model that --model or $BERTIE_MODEL names, or else the one that is part of the program.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/dataset.h"
#include "bertie/text_model.h"
#include "cli/options.h"

namespace bertie::cli {

// What a model is wanted for.
enum class Work { kRead, kFillMask, kNextSentence, kClassify, kPair, kTag, kAnswer, kWrite };
Work work_of(TaskKind kind);
std::optional<Head> head_for(Work work);

bool is_embedded(Work work);  // whether an embedded model does it

bool names_model(const Settings& settings);  // false: the embedded one is meant
// As it was given, or else the name of the embedded one that does this work: a UsageError that says how to
// get a model that does it where none of them can.
std::string model_name(const Settings& settings, Work work = Work::kRead);
std::string short_model_name(const Settings& settings);  // the last part of it
// Its files: a folder's, given by its path or by a name in the cache, or embedded ones. Error where they are
// not there.
ModelFiles model_files(const Settings& settings, Work work = Work::kRead);  // with config.json
ModelFiles tokenizer_files(const Settings& settings);                       // perhaps nothing but a tokenizer

WeightFormat weight_format(const Settings& settings);  // --precision
// The model, with --threads (or of several ranks its share of the cores), --max-length, --precision,
// --pooling, --without and --strict; an Error where it cannot do the work.
TextModel load_model(const Settings& settings, Work work = Work::kRead);

std::string name_of(const Pooling& pooling);  // as --pooling has it: "mean"; several with a + between them
// --normalize, --prefix and --windows. What it refers to is the settings'.
EmbedOptions embed_options(const Settings& settings, ProgressCallback progress = {});

// "5-3,7": layer 5's head 3 and all heads of layer 7, counted from 1, as numbers from 0; UsageError, about
// this option, where that is not what it says or the model has no such head.
std::vector<WhichHead> heads_named(const std::string& list, std::string_view option, const Config& config);

// UsageError where --layer or --head is beyond what "this model" (the owner) has.
void check_layer_and_head(const Settings& settings, size_t layers, size_t heads, std::string_view owner);

}  // namespace bertie::cli
