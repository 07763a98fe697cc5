#include "hub/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>

#include "bertie/error.h"
#include "io/json.h"
#include "io/shared_library.h"

namespace bertie::hub {
namespace {

// The functions of libcurl that we use. It brings some thirty libraries along, so programs that never
// download do not load it.
struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_url) url;
  decltype(&curl_url_set) url_set;
  decltype(&curl_url_get) url_get;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_free) free;
};

const Curl& curl() {
  static const Curl functions = [] {
    const io::SharedLibrary library("downloading", "libcurl4", {"libcurl.so.4", "libcurl-gnutls.so.4"});
    Curl c{};
    const auto get = [&](auto& function, const char* name) { library.get(function, name); };
    get(c.global_init, "curl_global_init");
    get(c.easy_init, "curl_easy_init");
    get(c.easy_setopt, "curl_easy_setopt");
    get(c.easy_perform, "curl_easy_perform");
    get(c.easy_getinfo, "curl_easy_getinfo");
    get(c.easy_reset, "curl_easy_reset");
    get(c.easy_strerror, "curl_easy_strerror");
    get(c.easy_cleanup, "curl_easy_cleanup");
    get(c.slist_append, "curl_slist_append");
    get(c.slist_free_all, "curl_slist_free_all");
    get(c.url, "curl_url");
    get(c.url_set, "curl_url_set");
    get(c.url_get, "curl_url_get");
    get(c.url_cleanup, "curl_url_cleanup");
    get(c.free, "curl_free");
    if (c.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw Error("libcurl does not start");
    return c;
  }();
  return functions;
}

using Url = std::unique_ptr<CURLU, void (*)(CURLU*)>;

Url parse_url(const std::string& text) {
  Url url(curl().url(), curl().url_cleanup);
  if (curl().url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK)
    throw Error(fmt::format("{} is not an address of the web", io::quote(without_password(text))),
                "it looks like https://host/path");
  return url;
}

std::string part_of(const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (curl().url_get(url.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
  std::string copy = text;
  curl().free(text);
  return copy;
}

// What libcurl's callbacks see of a request on its way.
struct Hop {
  const HttpRequest& request;
  HttpReply reply = {};
  size_t header_bytes = 0;
  std::exception_ptr thrown = {};  // by the body's receiver; it must not pass through C
  bool stopped = false, stalled = false;
  std::chrono::steady_clock::time_point window = std::chrono::steady_clock::now();
  curl_off_t before_window = 0;  // bytes that had come when the window began

  // Whether a whole timeout went by with next to nothing: a byte now and then is no sign of life either.
  bool is_stalled(curl_off_t received) {
    constexpr double kLeastRate = 64;  // bytes a second
    const auto now = std::chrono::steady_clock::now();
    if (std::chrono::duration<double>(now - window).count() < request.timeout) return false;
    stalled = double(received - before_window) < kLeastRate * request.timeout;
    window = now;
    before_window = received;
    return stalled;
  }
};

constexpr size_t kMaxHeaderBytes = size_t{1} << 18;

size_t on_header(char* data, size_t, size_t count, void* user) {
  Hop& hop = *static_cast<Hop*>(user);
  std::string_view line(data, count);
  hop.header_bytes += count;
  if (hop.header_bytes > kMaxHeaderBytes) return 0;
  if (line.starts_with("HTTP/")) {  // 100 Continue, a proxy's reply, then the one that counts
    hop.reply.headers.clear();
    line.remove_prefix(std::min(line.find(' ') + 1, line.size()));
    hop.reply.status = 0;
    std::from_chars(line.data(), line.data() + line.size(), hop.reply.status);
    return count;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return count;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  std::string_view value = line.substr(colon + 1);
  const char* spaces = " \t\r\n";
  value.remove_prefix(std::min(value.find_first_not_of(spaces), value.size()));
  value = value.substr(0, value.find_last_not_of(spaces) + 1);
  hop.reply.headers[std::move(name)] = value;
  return count;
}

struct Easy {
  CURL* handle = curl().easy_init();
  ~Easy() { curl().easy_cleanup(handle); }
};

// One a thread, so that connections are used again.
CURL* easy_handle() {
  thread_local Easy easy;
  if (!easy.handle) throw std::bad_alloc();
  curl().easy_reset(easy.handle);
  return easy.handle;
}

size_t on_body(char* data, size_t, size_t count, void* user) {
  Hop& hop = *static_cast<Hop*>(user);
  const bool wanted = hop.reply.status >= 200 && hop.reply.status < 300 && hop.request.body;
  if (!wanted) return count;  // the page that goes with an error or a redirect
  try {
    hop.request.body(hop.reply, std::as_bytes(std::span(data, count)));
    return count;
  } catch (...) {
    hop.thrown = std::current_exception();
    return 0;
  }
}

// Called about once a second where nothing comes.
int on_progress(void* user, curl_off_t, curl_off_t received, curl_off_t, curl_off_t) {
  Hop& hop = *static_cast<Hop*>(user);
  try {
    hop.stopped = hop.request.go_on && !hop.request.go_on();
  } catch (...) {
    hop.thrown = std::current_exception();
  }
  return hop.stopped || hop.thrown || hop.is_stalled(received);
}

// Certificates of one's own, under the names that other programs know.
const char* certificate_file() {
  for (const char* name : {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const char* file = std::getenv(name); file && *file) return file;
  return nullptr;
}

bool is_certificate_trouble(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR;
}

// HTTP alone, whatever HF_ENDPOINT says: libcurl would read files, too.
void limit_protocols(CURL* easy) {
  constexpr auto kOldOption = CURLoption(181);  // CURLOPT_PROTOCOLS: before 7.85 there is no other
  constexpr long kHttpAndHttps = 3;
  if (curl().easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK &&
      curl().easy_setopt(easy, kOldOption, kHttpAndHttps) != CURLE_OK)
    throw Error("this libcurl does not speak http and https", "sudo apt-get install libcurl4");
}

HttpReply send_one(const HttpRequest& request, const std::string& url, bool with_token) {
  Hop hop{.request = request};
  CURL* easy = easy_handle();
  const auto set = [&](CURLoption option, auto value) { curl().easy_setopt(easy, option, value); };
  char why[CURL_ERROR_SIZE] = "";
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_ERRORBUFFER, why);
  set(CURLOPT_NOSIGNAL, 1L);
  limit_protocols(easy);
  set(CURLOPT_USERAGENT, "bertie/" BERTIE_VERSION);
  set(CURLOPT_NOBODY, request.head_until.empty() ? 0L : 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, long(request.timeout * 1000));
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, &hop);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, &hop);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, &hop);
  if (const char* file = certificate_file()) set(CURLOPT_CAINFO, file);
  const std::string range = fmt::format("{}-", request.from);
  if (request.from > 0) set(CURLOPT_RANGE, range.c_str());

  // Sizes and sums are those of the file itself, so it must not be compressed on the way.
  curl_slist* headers = curl().slist_append(nullptr, "Accept-Encoding: identity");
  if (with_token)
    headers = curl().slist_append(headers, fmt::format("Authorization: Bearer {}", request.token).c_str());
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> owner(headers, curl().slist_free_all);
  set(CURLOPT_HTTPHEADER, headers);

  const CURLcode code = curl().easy_perform(easy);
  if (hop.thrown) std::rethrow_exception(hop.thrown);
  if (code != CURLE_OK) {
    hop.reply.problem = hop.stopped                                       ? "it was stopped"
                        : hop.header_bytes > kMaxHeaderBytes              ? "the reply's headers have no end"
                        : hop.stalled || code == CURLE_OPERATION_TIMEDOUT ? "nothing came for too long"
                        : *why                                            ? why
                                                                          : curl().easy_strerror(code);
    if (is_certificate_trouble(code))
      throw Error(fmt::format("{} cannot be trusted: {}", origin_of(url), hop.reply.problem),
                  "install ca-certificates, or name your own with SSL_CERT_FILE");
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT)
      throw Error(fmt::format("{}: {}", without_password(url), hop.reply.problem),
                  "check HF_ENDPOINT: it looks like https://huggingface.co");
    hop.reply.unresolved = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY;
  }
  curl_off_t wait = 0;
  curl().easy_getinfo(easy, CURLINFO_RETRY_AFTER, &wait);
  hop.reply.retry_after = double(wait);
  return std::move(hop.reply);
}

}  // namespace

std::string_view HttpReply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string without_password(const std::string& url) {
  const size_t scheme = url.find("://"), begin = scheme == url.npos ? 0 : scheme + 3;
  const size_t end = std::min(url.find_first_of("/?#", begin), url.size());
  const size_t at = url.substr(0, end).rfind('@');
  return at == url.npos || at < begin ? url : url.substr(0, begin) + url.substr(at + 1);
}

std::string origin_of(const std::string& url) {
  const Url parsed = parse_url(url);
  return fmt::format("{}://{}:{}", part_of(parsed, CURLUPART_SCHEME), part_of(parsed, CURLUPART_HOST),
                     part_of(parsed, CURLUPART_PORT));
}

std::string redirect_target(const std::string& from, const std::string& location) {
  const Url url = parse_url(from);
  const std::string scheme = part_of(url, CURLUPART_SCHEME);
  if (curl().url_set(url.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK)
    throw Error(fmt::format("{} sends us on to {}, which is no address", without_password(from),
                            io::quote(without_password(location))));
  const std::string next = part_of(url, CURLUPART_SCHEME);
  if (next != "https" && (next != "http" || scheme == "https"))
    throw Error(fmt::format("{} sends us on to {}: from {} to {} we do not go", without_password(from),
                            io::quote(without_password(location)), scheme, next),
                "check HF_ENDPOINT and the proxy");
  // Without the default port, which a signed address would not have either.
  char* text = nullptr;
  if (curl().url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) throw std::bad_alloc();
  const std::unique_ptr<char, void (*)(void*)> owner(text, curl().free);
  return text;
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes);
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", uint8_t(c));
  }
  return out;
}

HttpReply send(const HttpRequest& request) {
  constexpr int kMaxRedirects = 10;
  std::string url = request.url;
  bool with_token = !request.token.empty();
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    HttpReply reply = send_one(request, url, with_token);
    const bool redirect = reply.status >= 300 && reply.status < 400 && !reply.header("location").empty();
    if (!redirect || !reply.problem.empty()) return reply;
    if (!request.head_until.empty() && !reply.header(request.head_until).empty()) return reply;
    const std::string next = redirect_target(url, std::string(reply.header("location")));
    with_token = with_token && origin_of(next) == origin_of(url);
    url = next;
  }
  throw Error(fmt::format("{} sends us in circles: more than {} redirects", without_password(request.url),
                          kMaxRedirects),
              "check HF_ENDPOINT and the proxy");
}

}  // namespace bertie::hub
