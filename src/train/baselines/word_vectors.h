#pragma once
// A text as the mean of its pieces' rows in a model's table of word embeddings, before any layer: what
// word2vec and fastText did, with vectors that a BERT learned. No special tokens; a text without pieces is 0.
//
// A pair of texts u, v has the columns [u, v, |u − v|, u∘v].
#include <string>

#include "bertie/dataset.h"
#include "train/baselines/feature_rows.h"

namespace bertie::baseline {

// `model` is a folder or a name.
FeatureRows mean_word_vectors(const std::string& model, const Dataset& data);

// Each column of both minus its mean in `train`, over its deviation there and √columns: no column weighs more
// than another, and a row is about as long as one of TF-IDF's, 1, so that the same penalty on weights suits
// both. A column that is always the same becomes 0.
void standardize(FeatureRows& train, FeatureRows& dev);

}  // namespace bertie::baseline
