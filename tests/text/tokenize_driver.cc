// Tokenizes for the comparison scripts in tools/ and bench/peers/: texts in, binary encodings out; or a time.
//
//   tokenize_driver TOKENIZER [options] < texts > encodings
//
// TOKENIZER is what Tokenizer::load takes, or a vocab.txt with --lower/--strip/--cjk given. Standard input
// is lines, or with --records little-endian u32 lengths each followed by that many bytes. For every text (or
// pair of texts with --pair) the output is u32 words: the number of encodings, then for each n, n ids, n
// types, n words, n sequences, n pairs of offsets.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "core/checked.h"

namespace {

using namespace bertie;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string path;
  TokenizerOptions vocab;
  EncodeOptions encode;
  bool plain_vocab = false, records = false, pair = false, windows = false, time = false, load = false;
  int repeat = 3;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string_view flag = argv[i];
    auto value = [&] {
      size_t v = 0;
      if (++i >= argc || !parse_number(argv[i], v)) throw Error(std::string(flag) + " needs a number");
      return v;
    };
    if (flag == "--lower")
      a.vocab.lowercase = value(), a.plain_vocab = true;
    else if (flag == "--strip")
      a.vocab.strip_accents = value() != 0, a.plain_vocab = true;
    else if (flag == "--cjk")
      a.vocab.split_cjk = value(), a.plain_vocab = true;
    else if (flag == "--max")
      a.encode.max_length = value();
    else if (flag == "--stride")
      a.encode.stride = value();
    else if (flag == "--truncate")
      a.encode.truncate = Truncate(value());
    else if (flag == "--no-special")
      a.encode.add_special_tokens = false;
    else if (flag == "--plain")
      a.encode.special_tokens_in_text = false;
    else if (flag == "--repeat")
      a.repeat = int(value());
    else if (flag == "--records")
      a.records = true;
    else if (flag == "--pair")
      a.pair = true;
    else if (flag == "--windows")
      a.windows = true;
    else if (flag == "--time")
      a.time = true;
    else if (flag == "--load")
      a.load = true;
    else if (a.path.empty())
      a.path = flag;
    else
      throw Error("what is " + std::string(flag) + "?");
  }
  return a;
}

Tokenizer load(const Arguments& a) {
  return a.plain_vocab ? Tokenizer::from_vocab(a.path, a.vocab) : Tokenizer::load(a.path);
}

std::vector<std::string_view> texts(const std::string& input, bool records) {
  std::vector<std::string_view> out;
  std::string_view rest = input;
  while (!rest.empty()) {
    if (records) {
      uint32_t n;
      std::memcpy(&n, rest.data(), 4);
      out.push_back(rest.substr(4, n));
      rest.remove_prefix(4 + n);
    } else {
      size_t n = std::min(rest.find('\n'), rest.size());
      out.push_back(rest.substr(0, n));
      rest.remove_prefix(std::min(n + 1, rest.size()));
    }
  }
  return out;
}

void write(const Encoding& e, std::vector<uint32_t>& out) {
  out.push_back(uint32_t(e.size()));
  out.insert(out.end(), e.ids.begin(), e.ids.end());
  out.insert(out.end(), e.types.begin(), e.types.end());
  out.insert(out.end(), e.words.begin(), e.words.end());
  for (int8_t s : e.sequences) out.push_back(uint32_t(int32_t(s)));
  for (Offset o : e.offsets) out.push_back(o.begin), out.push_back(o.end);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void time_it(const Tokenizer& tokenizer, const std::vector<std::string_view>& lines, const Arguments& a) {
  size_t bytes = 0, ids = 0;
  for (auto line : lines) bytes += line.size() + 1;
  double best = 1e30;
  Encoding e;
  for (int r = 0; r < a.repeat; ++r) {
    ids = 0;
    auto start = Clock::now();
    for (auto line : lines) tokenizer.encode_into(line, a.encode, e), ids += e.size();
    best = std::min(best, seconds_since(start));
  }
  std::printf("{\"bytes\": %zu, \"ids\": %zu, \"seconds\": %.6f, \"mb_per_s\": %.2f}\n", bytes, ids, best,
              double(bytes) / best / 1e6);
}

int run(int argc, char** argv) {
  Arguments a = parse(argc, argv);
  if (a.load) {
    double best = 1e30;
    for (int r = 0; r < a.repeat; ++r) {
      auto start = Clock::now();
      Tokenizer t = load(a);
      best = std::min(best, seconds_since(start));
    }
    std::printf("{\"load_ms\": %.3f}\n", best * 1e3);
    return 0;
  }
  Tokenizer tokenizer = load(a);
  std::string input;
  for (char block[1 << 16]; size_t n = std::fread(block, 1, sizeof block, stdin);) input.append(block, n);
  std::vector<std::string_view> list = texts(input, a.records);
  if (a.time) return time_it(tokenizer, list, a), 0;

  std::vector<uint32_t> out;
  Encoding e;
  size_t step = a.pair ? 2 : 1;
  for (size_t i = 0; i + step <= list.size(); i += step) {
    if (a.windows) {
      auto windows = a.pair ? tokenizer.encode_windows(list[i], list[i + 1], a.encode)
                            : tokenizer.encode_windows(list[i], a.encode);
      out.push_back(uint32_t(windows.size()));
      for (const Encoding& w : windows) write(w, out);
    } else {
      if (a.pair)
        tokenizer.encode_into(list[i], list[i + 1], a.encode, e);
      else
        tokenizer.encode_into(list[i], a.encode, e);
      out.push_back(1);
      write(e, out);
    }
    if (out.size() > (1 << 20) || i + 2 * step > list.size()) {
      std::fwrite(out.data(), 4, out.size(), stdout);
      out.clear();
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const bertie::Error& e) {
    std::cerr << e.what() << '\n' << e.hint() << '\n';
    return 1;
  }
}
