#pragma once
// Rows without labels, for a teacher to say something of: the same files as read_dataset takes, whose labels
// are not looked at, or plain text. Of that a line is a text, or a sentence of words with spaces between
// them.
#include "bertie/dataset.h"

namespace bertie {

Dataset read_unlabeled(TaskKind kind, const std::string& file, const DatasetOptions& options);

}  // namespace bertie
