// Pictures hold the weights they were made of, and nothing that a token could do with them.
#include "bertie/draw.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>

#include "bertie/atlas.h"
#include "bertie/error.h"
#include "bertie/text_model.h"
#include "explain/canvas.h"
#include "explain/page.h"
#include "support/data.h"

namespace bertie {
namespace {

// Two layers of two heads over three tokens; head (1, 0) looks at itself alone.
Attention made_up(const std::string& middle = "bank") {
  Attention a;
  a.tokens = {"[CLS]", middle, "[SEP]"};
  a.encoding.ids = {1, 2, 3}, a.encoding.types = {0, 0, 0}, a.encoding.words = {-1, 0, -1};
  a.encoding.sequences = {-1, 0, -1}, a.encoding.offsets.resize(3);
  a.layers = 2, a.heads = 2, a.kept = {0, 1};
  a.weights.assign(2 * 2 * 9, 1.0f / 3);
  for (size_t i = 0; i < 9; ++i) a.weights[2 * 9 + i] = i % 4 == 0 ? 1.0f : 0.0f;
  return a;
}

struct Image {
  uint32_t width = 0, height = 0;
  std::string rows;  // a byte, and three for each pixel
  Color at(size_t x, size_t y) const {
    const char* p = &rows[y * (3 * width + 1) + 1 + 3 * x];
    return {uint8_t(p[0]), uint8_t(p[1]), uint8_t(p[2])};
  }
};

uint32_t number_at(const std::string& bytes, size_t at) {
  uint32_t n = 0;
  for (size_t i = 0; i < 4; ++i) n = n << 8 | uint8_t(bytes[at + i]);
  return n;
}

Image read_png(const std::string& png) {
  Image image;
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::string packed;
  for (size_t at = 8; at + 12 <= png.size();) {
    const size_t size = number_at(png, at);
    const std::string body = png.substr(at + 4, size + 4);
    EXPECT_EQ(crc32(0, reinterpret_cast<const Bytef*>(body.data()), uInt(body.size())),
              number_at(png, at + 8 + size));
    if (body.starts_with("IHDR")) image.width = number_at(body, 4), image.height = number_at(body, 8);
    if (body.starts_with("IDAT")) packed += body.substr(4);
    at += 12 + size;
  }
  uLongf size = uLongf(image.height) * (3 * image.width + 1);
  image.rows.resize(size);
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(image.rows.data()), &size,
                       reinterpret_cast<const Bytef*>(packed.data()), uLong(packed.size())),
            Z_OK);
  EXPECT_EQ(size, image.rows.size());
  return image;
}

TEST(Atlas, OfALongTextIsUnderAMegabyte) {
  Attention a;
  constexpr size_t kTokens = 512, kLayers = 12, kHeads = 12;
  a.tokens.assign(kTokens, "wonderful");
  a.encoding.ids.assign(kTokens, 29'999), a.encoding.types.assign(kTokens, 1);
  a.encoding.words.assign(kTokens, 100), a.encoding.sequences.assign(kTokens, 0);
  a.encoding.offsets.resize(kTokens);
  a.layers = kLayers, a.heads = kHeads;
  for (size_t l = 0; l < kLayers; ++l) a.kept.push_back(l);
  a.weights.assign(kLayers * kHeads * kTokens * kTokens, 1.0f / kTokens);
  EXPECT_LT(to_json(atlas(a), a, {.model = "bert-base-uncased", .text = std::string(4000, 'x')}).size(),
            1'000'000u);
}

TEST(Page, OfHeadsHoldsAHostileRelationAsText) {
  HeadsReport report;
  report.layers = report.heads = 1, report.sentences = report.tokens = 1;
  report.shares.resize(1);
  report.relations.push_back({.relation = "</script><img src=x>", .by_head = {0.5}});
  const std::string page = heads_html(report, "<b>model");
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<b>model"), std::string::npos);
  EXPECT_NE(page.find("\\u003cimg src=x>"), std::string::npos);
}

TEST(Page, IsUnder150KilobytesPacked) {
  std::string all;
  for (const PageFile& file : page_files()) all += file.text;
  uLongf size = compressBound(uLong(all.size()));
  std::string packed(size, '\0');
  ASSERT_EQ(compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                      reinterpret_cast<const Bytef*>(all.data()), uLong(all.size()), 9),
            Z_OK);
  EXPECT_LT(size, 150'000u);
}

TEST(Atlas, SaysWhatAHeadDoes) {
  const Attention a = made_up();
  const Atlas all = atlas(a);
  EXPECT_NEAR(all.at(0, 0).entropy, std::log(3.0), 1e-5);
  EXPECT_NEAR(all.at(0, 0).cls, 1.0 / 3, 1e-6);
  EXPECT_NEAR(all.at(0, 0).distance, (0 + 1 + 2 + 1 + 0 + 1 + 2 + 1 + 0) / 9.0, 1e-6);
  EXPECT_NEAR(all.at(0, 0).previous, 2.0 / 9, 1e-6);
  EXPECT_EQ(all.at(1, 0).entropy, 0);
  EXPECT_EQ(all.at(1, 0).self, 1);
  EXPECT_EQ(all.at(1, 0).distance, 0);
  EXPECT_EQ(all.side, 3u);
  EXPECT_EQ(all.pictures[2 * 9], 255);
  EXPECT_EQ(all.pictures[2 * 9 + 1], 0);
  EXPECT_EQ(all.pictures[0], std::lround(255 * std::sqrt(1.0 / 3)));
  EXPECT_THROW((void)all.at(2, 0), Error);
}

TEST(Atlas, TakesTheLargestOfEachBlockAndNoMoreThanItMay) {
  std::vector<float> weights(100 * 100);
  weights[37 * 100 + 99] = 1;
  const std::vector<uint8_t> picture = weight_picture({weights.data(), 100, 100}, 10);
  ASSERT_EQ(picture.size(), 100u);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(picture[i], i == 39 ? 255 : 0) << i;
  EXPECT_EQ(atlas(made_up(), {.picture_bytes = 16}).side, 2u);
}

TEST(Drawings, OfAHeadHaveItsColors) {
  const Image image = read_png(attention_png(made_up(), {.layer = 1, .head = 0}));
  size_t dark = 0, light = 0;
  for (size_t y = 0; y < image.height; ++y)
    for (size_t x = 0; x < image.width; ++x) {
      dark += image.at(x, y) == color_of_byte(255);
      light += image.at(x, y) == color_of_byte(0);
    }
  EXPECT_EQ(dark, 3u * 25 * 25) << "a cell of 26 pixels has a gap of one";
  EXPECT_EQ(light, 6u * 25 * 25);
}

TEST(Drawings, OfAllHeadsAndOfALayerAreImages) {
  for (const DrawOptions& options : {DrawOptions{}, DrawOptions{.layer = 1}}) {
    const Image image = read_png(attention_png(made_up(), options));
    EXPECT_GT(image.width, 100u);
    const std::string svg = attention_svg(made_up(), options);
    EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  }
  EXPECT_THROW(attention_svg(made_up(), {.head = 1}), Error);
  EXPECT_THROW(attention_svg(made_up(), {.layer = 2}), Error);
  EXPECT_THROW(attention_png(made_up(), {.layer = 1, .head = 2}), Error);
}

TEST(Drawings, ShowHostileTokensAsTheyAre) {
  const std::string hostile = "<img src=x onerror=\"alert('1')\">&\x01";
  const std::string svg = attention_svg(made_up(hostile), {.layer = 0, .head = 0});
  EXPECT_EQ(svg.find("<img"), svg.npos);
  EXPECT_EQ(svg.find('\x01'), svg.npos);
  EXPECT_NE(svg.find("&#60;img src=x"), svg.npos);
  (void)read_png(attention_png(made_up("größe 你好 " + hostile), {.layer = 0, .head = 0}));
}

TEST(PageOfOneFile, HoldsItsWeightsAndAsksForNothing) {
  const std::string page = attention_html(made_up("</script><img src=x>"),
                                          {.model = "m", .text = "</script><script>alert(1)</script>"});
  EXPECT_EQ(page.find("src="), page.find("src=x")) << "nothing is loaded";
  EXPECT_EQ(page.find("<img"), page.npos);
  size_t scripts = 0;
  for (size_t at = 0; (at = page.find("</script>", at)) != page.npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 2u) << "the data and the modules";
  EXPECT_NE(page.find("script-src 'sha256-"), page.npos);
  EXPECT_EQ(page.find("unsafe"), page.npos);
  EXPECT_EQ(page.find("\nimport "), page.npos);
  EXPECT_EQ(page.find("\nexport "), page.npos);
  for (const PageFile& file : page_files())
    if (file.name.ends_with(".js")) {
      EXPECT_NE(page.find("modules[\"" + std::string(file.name) + "\"] = "), page.npos) << file.name;
    }
}

TEST(PageOfOneFile, ModulesComeAfterWhatTheyImport) {
  std::vector<std::string> before;
  for (const PageFile& file : page_files()) {
    for (size_t at = 0; (at = file.text.find(" from \"./", at)) != file.text.npos; ++at) {
      const std::string name(file.text.substr(at + 9, file.text.find('"', at + 9) - at - 9));
      EXPECT_NE(std::find(before.begin(), before.end(), name), before.end())
          << file.name << " imports " << name;
    }
    before.emplace_back(file.name);
  }
  EXPECT_GT(before.size(), 10u);
}

}  // namespace
}  // namespace bertie
