#pragma once
// Pre-training on ranks that the caller has joined; bertie::pretrain in bertie/train.h joins them itself.
#include "bertie/train.h"
#include "train/data/pretraining_source.h"
#include "train/ranks/collective.h"

namespace bertie {

void check_data(const PretrainJob& job);  // Error: there is none

// How a job's sequences are made of its shards; not of seq2seq.
PretrainingOptions sequences_of(const PretrainJob& job);

// Where a rank throws, the others wait for it: the caller reports the error and then ends all of them with
// Collective::abort.
TrainResult pretrain(const PretrainJob& job, Collective& ranks, const TrainEvents& events);

}  // namespace bertie
