// An encoder-decoder reads one text and writes another, and shows where it looked.
//   example_translate MODEL ID...        ids: the source's tokens
#include <bertie/bertie.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) try {
  if (argc < 3) return std::fprintf(stderr, "usage: %s MODEL ID...\n", argv[0]), 2;
  std::vector<int32_t> source;
  for (int i = 2; i < argc; ++i) source.push_back(std::atoi(argv[i]));
  const bertie::Transformer model = bertie::Transformer::load(argv[1]);
  const std::vector<int32_t> offsets{0, int32_t(source.size())};

  // Write: the likeliest token each time, with a cache.
  bertie::TransformerRun run(model);
  const bertie::Batch sources{.ids = source, .offsets = offsets};
  const std::vector<int32_t> written = run.generate(sources, 8).at(0);
  std::printf("written:");
  for (int32_t id : written) std::printf(" %d", id);

  // Read what was written again, all at once, and look at the last layer's cross-attention.
  std::vector<int32_t> target{model.config().start_id};
  target.insert(target.end(), written.begin(), written.end());
  const std::vector<int32_t> target_offsets{0, int32_t(target.size())};
  run.encode(sources);
  const bertie::TransformerOutput& out =
      run.decode({.ids = target, .offsets = target_offsets}, {.attention = true});
  const bertie::Matrix<const float> looks = out.cross(model.config().decoder_layers - 1, 0, 0);
  std::printf("\ncross-attention: (%zu target tokens, %zu source tokens)\n", looks.rows(), looks.cols());
  for (size_t t = 0; t < looks.rows(); ++t)
    for (size_t s = 0; s < looks.cols(); ++s)
      std::printf("%.3f%c", double(looks(t, s)), s + 1 < looks.cols() ? ' ' : '\n');
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
