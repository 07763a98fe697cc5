// Any bytes as a treebank in CoNLL-U: an Error, or sentences whose words depend on words that are there.
// tests/io/conllu_test.cc runs it on mutations of small files.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "bertie/conllu.h"
#include "bertie/error.h"
#include "refused.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = memfd_create("conllu", MFD_CLOEXEC);
  if (file < 0 || write(file, data, size) != ssize_t(size)) std::abort();
  int result = 0;
  try {
    const auto sentences = bertie::read_conllu("/proc/self/fd/" + std::to_string(file));
    if (sentences.empty()) std::abort();
    for (const bertie::ParsedSentence& sentence : sentences) {
      if (sentence.words.empty() || sentence.line == 0) std::abort();
      for (size_t i = 0; i < sentence.words.size(); ++i) {
        const bertie::ParsedWord& word = sentence.words[i];
        if (word.form.empty() || word.relation.empty()) std::abort();
        if (word.head > sentence.words.size() || word.head == i + 1) std::abort();
      }
    }
  } catch (const bertie::Error&) {
    result = kRefused;
  }
  close(file);
  return result;
}
