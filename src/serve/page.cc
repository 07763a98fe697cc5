// The page at /, from the files of web/ that are part of the program.
#include "explain/page.h"

#include <fmt/format.h>
#include <zlib.h>

#include <map>

#include "io/sha.h"
#include "serve/service.h"

namespace bertie::serve {
namespace {

// Scripts, styles and replies come from this server and nowhere else; no script stands in the page itself.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "application/json";
}

std::string gzipped(std::string_view text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16, kMemory = 8;
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(deflateBound(&stream, uLong(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Ready {
  std::string_view text;
  std::string packed, tag;
};

const std::map<std::string_view, Ready>& ready_files() {
  static const std::map<std::string_view, Ready> files = [] {
    std::map<std::string_view, Ready> all;
    for (const PageFile& file : page_files()) {
      io::Sha256 hash;
      hash.add(std::as_bytes(std::span(file.text)));
      all[file.name] = {file.text, gzipped(file.text), fmt::format("\"{}\"", hash.hex().substr(0, 24))};
    }
    return all;
  }();
  return files;
}

HttpReply file_reply(const HttpRequest& request, std::string_view name) {
  const auto found = ready_files().find(name);
  if (found == ready_files().end()) throw RequestError(404, "the page has no such file");
  const Ready& file = found->second;
  HttpReply reply{.body = {}, .type = std::string(type_of(name))};
  reply.headers = {{"ETag", file.tag},
                   {"Cache-Control", "no-cache"},
                   {"Content-Security-Policy", kPolicy},
                   {"Referrer-Policy", "no-referrer"},
                   {"Vary", "Accept-Encoding"}};
  if (request.header("if-none-match") == file.tag) {
    reply.status = 304;
  } else if (request.header("accept-encoding").find("gzip") != std::string_view::npos) {
    reply.headers.emplace_back("Content-Encoding", "gzip");
    reply.body = file.packed;
  } else {
    reply.body = file.text;
  }
  return reply;
}

Async<HttpReply> index(Call& call) { co_return file_reply(call.request(), "index.html"); }
Async<HttpReply> file(Call& call) { co_return file_reply(call.request(), call.below); }

// No key is asked for: nothing here is anybody's. What the page asks for with them needs one.
constexpr Route kRoutes[] = {
    {.method = "GET", .path = "/", .run = index, .open = true},
    {.method = "GET", .path = "/web/", .run = file, .open = true},
};

}  // namespace

std::span<const Route> page_routes() { return kRoutes; }

}  // namespace bertie::serve
