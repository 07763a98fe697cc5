// What must hold for any text whatever: bytes from rapidcheck and from the text generator.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "bertie/tokenizer.h"
#include "support/data.h"
#include "text/generated_text.h"
#include "text/models/bpe.h"
#include "text/segmenters/bert_segmenter.h"
#include "text/segmenters/byte_level_fast_path.h"
#include "text/steps/byte_level.h"
#include "text/steps/pre_tokenizers.h"

namespace bertie {
namespace {

const Tokenizer& tokenizer(bool lowercase) {
  static const auto path = test::source_dir() / "tests/golden/tokenizer/vocab.txt";
  static const Tokenizer cased = Tokenizer::from_vocab(path, {.lowercase = false}),
                         uncased = Tokenizer::from_vocab(path);
  return lowercase ? uncased : cased;
}

// Half the time generated text, half the time any bytes.
rc::Gen<std::string> any_text() {
  return rc::gen::oneOf(rc::gen::map(rc::gen::arbitrary<uint64_t>(), test::generated_text),
                        rc::gen::arbitrary<std::string>());
}

bool same(const Encoding& a, const Encoding& b) {
  return a.ids == b.ids && a.types == b.types && a.offsets == b.offsets && a.words == b.words &&
         a.sequences == b.sequences;
}

RC_GTEST_PROP(TokenizerProperties, OffsetsAreInRangeAndMonotone, (bool lowercase)) {
  std::string text = *any_text();
  Encoding e = tokenizer(lowercase).encode(text);
  size_t points = text::count_points(text);
  RC_ASSERT(e.types.size() == e.size() && e.offsets.size() == e.size() && e.words.size() == e.size() &&
            e.sequences.size() == e.size());
  uint32_t last_begin = 0, last_end = 0;
  for (size_t i = 0; i < e.size(); ++i) {
    if (e.special(i)) continue;
    auto [begin, end] = e.offsets[i];
    RC_ASSERT(begin < end && end <= points && begin >= last_begin && end >= last_end);
    RC_ASSERT(e.ids[i] >= 0 && size_t(e.ids[i]) < tokenizer(lowercase).vocab_size());
    last_begin = begin, last_end = end;
  }
}

RC_GTEST_PROP(TokenizerProperties, AReusedEncodingGivesTheSame, (bool lowercase)) {
  static Encoding reused;
  std::string a = *any_text(), b = *any_text();
  EncodeOptions options{.max_length = *rc::gen::inRange<size_t>(3, 60)};
  tokenizer(lowercase).encode_into(a, options, reused);
  RC_ASSERT(same(reused, tokenizer(lowercase).encode(a, options)));
  tokenizer(lowercase).encode_into(a, b, options, reused);
  RC_ASSERT(same(reused, tokenizer(lowercase).encode(a, b, options)));
  RC_ASSERT(reused.size() <= options.max_length);
}

RC_GTEST_PROP(TokenizerProperties, TruncationIsABeginningOfTheWhole, (bool lowercase)) {
  std::string text = *any_text();
  size_t room = *rc::gen::inRange<size_t>(0, 40);
  EncodeOptions bare{.add_special_tokens = false};
  Encoding whole = tokenizer(lowercase).encode(text, bare);
  bare.max_length = room;
  Encoding cut = tokenizer(lowercase).encode(text, bare);
  RC_ASSERT(cut.size() == std::min(room, whole.size()));
  RC_ASSERT(std::equal(cut.ids.begin(), cut.ids.end(), whole.ids.begin()));
  RC_ASSERT(std::equal(cut.offsets.begin(), cut.offsets.end(), whole.offsets.begin()));
}

RC_GTEST_PROP(TokenizerProperties, WindowsCoverEverythingOnce, (bool lowercase)) {
  std::string text = *any_text();
  size_t max = *rc::gen::inRange<size_t>(1, 30), stride = *rc::gen::inRange<size_t>(0, max);
  EncodeOptions options{.add_special_tokens = false};
  Encoding whole = tokenizer(lowercase).encode(text, options);
  options.max_length = max, options.stride = stride;
  std::vector<int32_t> ids;
  for (const Encoding& w : tokenizer(lowercase).encode_windows(text, options)) {
    RC_ASSERT(w.size() <= max);
    size_t shared = ids.empty() ? 0 : stride;
    RC_ASSERT(w.size() > shared || whole.ids.empty());
    for (size_t i = 0; i < shared; ++i) RC_ASSERT(w.ids[i] == ids[ids.size() - shared + i]);
    ids.insert(ids.end(), w.ids.begin() + ptrdiff_t(shared), w.ids.end());
  }
  RC_ASSERT(ids == whole.ids);
}

// BertSegmenter's one lookup per code point, and bert_normalize.
RC_GTEST_PROP(TokenizerProperties, TheFastPathAndTheSlowPathOfBertAgree,
              (bool lowercase, bool strip, bool cjk, bool special)) {
  static text::BertSegmenter* segmenters[8] = {};
  size_t which = size_t(lowercase) | size_t(strip) << 1 | size_t(cjk) << 2;
  if (!segmenters[which]) {
    text::Vocabulary vocabulary("every code point");
    std::string lines = "[UNK]\n[MASK]\n";
    uint64_t id = 0;
    for (const char* token : {"[UNK]", "[MASK]"}) vocabulary.add(token, id++);
    for (const char* prefix : {"", "##"})
      for (uint32_t c = 1; c < 0x3100; ++c) {
        std::string token = prefix;
        test::append_point(token, c);
        vocabulary.add(token, id++);
      }
    vocabulary.seal();
    segmenters[which] =
        new text::BertSegmenter(text::WordPiece(std::move(vocabulary), 0), {true, cjk, strip, lowercase},
                                {{.content = "[MASK]", .id = 1, .special = true}});
  }
  std::string text = *any_text();
  Encoding fast, slow;
  text::Buffers buffers;
  text::PieceWriter a{fast.ids, fast.offsets, fast.words, buffers, kNoLimit};
  text::PieceWriter b{slow.ids, slow.offsets, slow.words, buffers, kNoLimit};
  segmenters[which]->tokenize(text, special, a);
  segmenters[which]->tokenize_slowly(text, special, b);
  RC_ASSERT(same(fast, slow));
}

// Byte-level BPE over raw bytes, and step by step.
RC_GTEST_PROP(TokenizerProperties, TheByteLevelFastPathAndTheStepsAgree,
              (bool prefix_space, bool regex, bool special)) {
  static std::unique_ptr<const text::ComposedSegmenter> segmenters[4];
  auto& segmenter = segmenters[2 * prefix_space + regex];
  if (!segmenter) {
    text::Vocabulary vocabulary("bytes");
    text::Merges merges;
    uint64_t id = 0;
    vocabulary.add("<mask>", id++);
    std::vector<std::string> bytes;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      test::append_point(bytes.emplace_back(), text::byte_level_point(uint8_t(byte)));
      vocabulary.add(bytes.back(), id++);
    }
    // Pairs of many kinds, and pairs of these.
    for (size_t i = 0; i < 3000; ++i) {
      std::string left = bytes[i * 7919 % bytes.size()], right = bytes[i * 104729 % bytes.size()];
      if (std::find(bytes.begin(), bytes.end(), left + right) != bytes.end()) continue;
      merges.add(left, right, "merges");
      if (left.size() + right.size() <= 8) bytes.push_back(left + right);
      vocabulary.add(left + right, id++);
      if (left.size() + right.size() > 8) break;
    }
    vocabulary.seal("");
    text::ByteLevelSettings settings{prefix_space, regex};
    text::SegmenterSteps parts;
    auto model = std::make_unique<text::Bpe>(std::move(vocabulary), merges, text::BpeSettings{}, "merges");
    parts.pre_tokenizers.push_back(text::byte_level_pre_tokenizer(settings));
    parts.fast_path = text::make_byte_level_fast_path(*model, settings);
    RC_ASSERT(parts.fast_path != nullptr);
    parts.model = std::move(model);
    segmenter = std::make_unique<text::ComposedSegmenter>(
        std::move(parts),
        std::vector<text::AddedToken>{{.content = "<mask>", .id = 0, .lstrip = true, .special = true}});
  }
  std::string text = *any_text() + (special ? "  <mask>" : "") + *any_text();
  Encoding fast, steps;
  text::Buffers buffers;
  text::PieceWriter a{fast.ids, fast.offsets, fast.words, buffers, kNoLimit};
  text::PieceWriter b{steps.ids, steps.offsets, steps.words, buffers, kNoLimit};
  segmenter->tokenize(text, special, a);
  segmenter->tokenize_by_steps(text, special, b);
  RC_ASSERT(same(fast, steps));
}

RC_GTEST_PROP(TokenizerProperties, DecodingAnyIdsIsHarmless, (std::vector<int32_t> ids, bool skip)) {
  tokenizer(true).decode(ids, skip);
}

}  // namespace
}  // namespace bertie
