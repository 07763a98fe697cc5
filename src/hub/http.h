#pragma once
// HTTP for `pull`: one request and its redirects, by libcurl, which is opened when it is first needed
// (docs/adr/0008). Trying again is the caller's business (pull.cc).
//
// A redirect from https to http is refused, and a token goes to the host that it was meant for alone.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace bertie::hub {

struct HttpReply {
  int status = 0;                              // 0: there was no reply, or it was cut off; see problem
  std::string problem;                         // why it failed on the way, for a person
  bool unresolved = false;                     // the host name could not be resolved
  std::map<std::string, std::string> headers;  // names in lower case; of the last hop
  double retry_after = 0;                      // seconds that the server asks for

  bool good() const { return status >= 200 && status < 300 && problem.empty(); }
  // Empty where it is not there.
  std::string_view header(const std::string& lower_case_name) const;
};

struct HttpRequest {
  std::string url;
  std::string token = {};  // empty: none
  // HEAD, and no further than the first reply that has this header: the hub describes a file in the very
  // redirect that leads to it.
  std::string head_until = {};
  uint64_t from = 0;  // first byte wanted
  // What a good reply brings, piece by piece. May throw.
  std::function<void(const HttpReply&, std::span<const std::byte>)> body = {};
  // Called a few times a second; false ends the request with a problem.
  std::function<bool()> go_on = {};
  double timeout = 10;  // seconds to connect, and without anything coming, that are too long
};

// Redirects included. Throws Error where trying again cannot help: no libcurl, redirects in a circle or to
// where we do not go, a certificate that is not good, an address that is none.
HttpReply send(const HttpRequest& request);

// Where a redirect leads, or an Error if it goes from https to http or to something that is neither.
std::string redirect_target(const std::string& from, const std::string& location);
// "https://host:443", for comparing.
std::string origin_of(const std::string& url);
// The address without user:password@, for errors and logs.
std::string without_password(const std::string& url);
// Bytes of a path or query that are not letters, digits or one of -._~ as %XX; / stays where it is wanted.
std::string percent_encode(std::string_view text, bool keep_slashes);

}  // namespace bertie::hub
