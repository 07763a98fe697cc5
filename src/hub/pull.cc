// `pull`: from a model's name to its snapshot in the cache.
//
// Nothing that a reader of the cache can see is unfinished: bytes come into ETAG.incomplete, become a blob
// when their sum is right, get their links when all blobs are there, and the branch moves last. So whatever
// ends a pull (Ctrl-C, a full disk, the power), the next one goes on from what has come.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "bertie/error.h"
#include "bertie/hub.h"
#include "core/checked.h"
#include "hub/cache.h"
#include "hub/http.h"
#include "io/file.h"
#include "io/json.h"
#include "io/model_contents.h"
#include "io/model_file_names.h"
#include "io/model_files.h"
#include "io/sha.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using hub::HttpReply;
using hub::HttpRequest;
using io::quote;

constexpr size_t kMaxListing = size_t{16} << 20;
constexpr size_t kMaxFiles = 100'000;

std::string text_of(uint64_t bytes) { return fmt::format("{:.1f} MB", double(bytes) / 1e6); }

struct Descriptor {
  int number = -1;
  explicit Descriptor(int n) : number(n) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(Descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

uint64_t free_bytes(const fs::path& folder) {
  struct statvfs status {};
  return statvfs(folder.c_str(), &status) == 0 ? uint64_t{status.f_bavail} * status.f_frsize : UINT64_MAX;
}

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  const bool forbidden = error == EACCES || error == EPERM || error == EROFS;
  throw Error(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(error)),
              forbidden ? "a cache of your own: export HF_HUB_CACHE=FOLDER" : "");
}

// A file of our own to write: a link would lead our bytes elsewhere.
Descriptor open_own(const fs::path& path, mode_t mode) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode));
  struct stat status {};
  const bool opened = file.number >= 0 && fstat(file.number, &status) == 0;
  if (!opened && errno != ELOOP) cannot_write(path, errno);
  if (!opened || !S_ISREG(status.st_mode))
    throw Error(fmt::format("cannot write {}: it is not a regular file", path.string()),
                "remove it, if you know who put it there");
  return file;
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) cannot_write(folder, error.value());
}

// A file as the server describes it.
struct RemoteFile {
  std::string name, etag;
  uint64_t size = 0;
};

// Thrown where what came is not the file that was described; it is thrown away, and asked for once more.
struct WrongContent {
  std::string why;
};

// A repository's files, of which reading one gets it.
class Remote : public ModelFiles::Source {
 public:
  using Read = std::function<std::shared_ptr<const io::MappedFile>(const std::string&)>;
  Remote(std::string name, const std::set<std::string>& files, Read read)
      : name_(std::move(name)), files_(files), read_(std::move(read)) {}
  std::string name_of(std::string_view file) const override {
    return file.empty() ? name_ : fmt::format("{}/{}", name_, file);
  }
  bool exists() const override { return true; }
  bool has(std::string_view file) const override { return files_.contains(std::string(file)); }
  FileBytes read(std::string_view file) const override {
    const auto mapped = read_(std::string(file));
    return {mapped->bytes(), mapped};
  }
  std::vector<std::string> list() const override { return {files_.begin(), files_.end()}; }

 private:
  std::string name_;
  const std::set<std::string>& files_;
  Read read_;
};

class Pull {
 public:
  Pull(const hub::ModelName& name, const PullOptions& options, const Hub& hub)
      : name_(name),
        options_(options),
        hub_(hub),
        folder_(hub::repository_folder(hub, name.repository)),
        shown_(hub::without_password(hub.endpoint)),
        url_(hub.endpoint + "/" + hub::percent_encode(name.repository, true)) {}

  PullResult run();

 private:
  struct Listing {
    std::string commit;
    std::set<std::string> files;
    std::map<std::string, uint64_t> sizes;
  };
  Listing list();
  RemoteFile describe(const std::string& file);
  void check_room(const std::vector<RemoteFile>& files) const;
  void fetch(const RemoteFile& file);
  void download(const RemoteFile& file, const fs::path& incomplete);
  void check_sum(const RemoteFile& file, const fs::path& incomplete) const;
  void link(const RemoteFile& file);
  void write_ref();

  HttpRequest request(std::string url);
  HttpReply persist(const std::string& what, const HttpRequest& request,
                    const std::function<void()>& start_again = {});
  void try_again_or_throw(const std::string& what, const HttpReply& reply, int failures);
  [[noreturn]] void explain(const std::string& what, const HttpReply& reply) const;
  void wait(double seconds, const std::string& why);
  bool report(std::string_view waiting = {});
  void stop_if_asked() const;
  [[noreturn]] void write_failed(const RemoteFile& file, uint64_t have, int error) const;

  bool has_blob(const RemoteFile& file) const;
  fs::path blob(const RemoteFile& file) const { return folder_ / "blobs" / file.etag; }
  fs::path snapshot() const { return folder_ / "snapshots" / listing_.commit; }

  const hub::ModelName& name_;
  const PullOptions& options_;
  const Hub& hub_;
  fs::path folder_;
  std::string shown_;  // the endpoint, as errors may name it
  std::string url_;
  Listing listing_;
  std::string file_;  // that progress is about
  uint64_t done_ = 0, total_ = 0, downloaded_ = 0;
  bool stopped_ = false;
};

// --- patience

bool Pull::report(std::string_view waiting) {
  if (!stopped_ && options_.progress)
    stopped_ = !options_.progress({.file = file_, .done = done_, .total = total_, .waiting = waiting});
  return !stopped_;
}

void Pull::stop_if_asked() const {
  if (stopped_)
    throw Error(fmt::format("the download of {} was stopped", name_.repository),
                fmt::format("the next pull of {} goes on from here", name_.repository));
}

void Pull::wait(double seconds, const std::string& why) {
  report(why);
  stop_if_asked();
  if (options_.wait) return options_.wait(seconds);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    std::this_thread::sleep_for(
        std::min(std::chrono::duration<double>(0.1), std::chrono::duration<double>(end - Clock::now())));
    report(why);
    stop_if_asked();
  }
}

// Seconds that the server wants to be left alone: Retry-After, or the hub's own `ratelimit: "api";r=0;t=55`.
double asked_for(const HttpReply& reply) {
  const std::string_view limit = reply.header("ratelimit");
  unsigned seconds = 0;
  if (const size_t t = limit.find(";t="); reply.status == 429 && t != limit.npos)
    std::from_chars(limit.data() + t + 3, limit.data() + limit.size(), seconds);
  return std::max(reply.retry_after, double(seconds));
}

void Pull::try_again_or_throw(const std::string& what, const HttpReply& reply, int failures) {
  constexpr int kMaxTries = 5;
  constexpr double kLongestWait = 300;
  stop_if_asked();
  const bool passing = !reply.problem.empty() || reply.status == 408 || reply.status == 429 ||
                       reply.status == 416 || (reply.status >= 500 && reply.status <= 504);
  const double asked = asked_for(reply);
  const int tries = reply.unresolved ? 2 : kMaxTries;  // a name that is not there rarely comes to be
  if (!passing || failures >= tries || asked > kLongestWait) explain(what, reply);
  const double seconds = asked > 0 ? asked : double(1 << (failures - 1));
  wait(seconds,
       fmt::format("{}: {}; trying again in {:.0f} s", what,
                   reply.problem.empty() ? fmt::format("the server says {}", reply.status) : reply.problem,
                   seconds));
}

void Pull::explain(const std::string& what, const HttpReply& reply) const {
  const std::string& model = name_.repository;
  const std::string code(reply.header("x-error-code"));
  const std::string token = hub_.token.empty() ? "set HF_TOKEN to a token that may read it"
                                               : "a token in HF_TOKEN that may read it";
  if (!reply.problem.empty())
    throw Error(fmt::format("{}: {} ({})", what, reply.problem, shown_),
                "check the network, HF_ENDPOINT and the proxy, then the same again: it goes on from here");
  if (code == "GatedRepo" || reply.status == 403)
    throw Error(fmt::format("{} is gated: {} says {}", model, shown_, reply.status),
                fmt::format("accept its terms at {}, then {}", hub::without_password(url_), token));
  if (code == "RevisionNotFound")
    throw Error(fmt::format("{} has no revision {}", model, quote(name_.revision)),
                fmt::format("{} alone, or a revision from {}/tree/main", model, hub::without_password(url_)));
  if (code == "EntryNotFound") throw Error(fmt::format("{} is not there, though it is in the list", what));
  // Without a token the hub says 401 for models that do not exist, too.
  if (reply.status == 404 || code == "RepoNotFound" || (reply.status == 401 && hub_.token.empty())) {
    const std::string near = hub::nearest_cached(hub_, model);
    throw Error(fmt::format("{} has no model {}, or it is private", shown_, quote(model)),
                near.empty()
                    ? fmt::format("check the spelling, organization/model; if it is private, {}", token)
                    : fmt::format("{}, which is here; or check the spelling; or {}", near, token));
  }
  if (reply.status == 401)
    throw Error(fmt::format("{} does not accept the token for {}", shown_, model), token);
  if (reply.status == 429)
    throw Error(fmt::format("{}: {} has had too many requests from here", what, shown_),
                asked_for(reply) > 0 ? fmt::format("the same again in {:.0f} s", asked_for(reply))
                                     : "the same again in some minutes");
  throw Error(fmt::format("{}: the server says {}", what, reply.status),
              reply.status >= 500 ? "the same again later: it goes on from here" : "");
}

HttpRequest Pull::request(std::string url) {
  return {.url = std::move(url),
          .token = hub_.token,
          .go_on = [this] { return report(); },
          .timeout = hub_.timeout};
}

HttpReply Pull::persist(const std::string& what, const HttpRequest& request,
                        const std::function<void()>& start_again) {
  for (int failures = 1;; ++failures) {
    HttpReply reply = hub::send(request);
    const bool described = !request.head_until.empty() && !reply.header(request.head_until).empty();
    if (reply.good() || (described && reply.problem.empty() && reply.status < 400)) return reply;
    try_again_or_throw(what, reply, failures);
    if (start_again) start_again();
  }
}

// --- what there is

Pull::Listing Pull::list() {
  const std::string what = fmt::format("the list of files of {}", name_.repository);
  std::string body;
  HttpRequest get = request(fmt::format("{}/api/models/{}/revision/{}?blobs=true", hub_.endpoint,
                                        hub::percent_encode(name_.repository, true),
                                        hub::percent_encode(name_.revision, false)));
  get.body = [&](const HttpReply&, std::span<const std::byte> bytes) {
    if (body.size() + bytes.size() > kMaxListing)
      throw Error(fmt::format("{} is longer than {}", what, text_of(kMaxListing)));
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  persist(what, get, [&] { body.clear(); });
  const nlohmann::json json = io::parse_json(body, what);
  Listing listing;
  listing.commit = io::get_string(json, "sha", what);
  if (!hub::is_commit(listing.commit))
    throw Error(fmt::format("{}: sha is {}, not a commit", what, quote(listing.commit)));
  const auto siblings = json.find("siblings");
  if (siblings == json.end() || !siblings->is_array() || siblings->size() > kMaxFiles)
    throw Error(fmt::format("{}: expected at most {} files under siblings", what, kMaxFiles));
  for (const nlohmann::json& sibling : *siblings) {
    const std::string file = io::get_string(sibling, "rfilename", what);
    if (!io::is_safe_path(file))
      throw Error(
          fmt::format("{} has a file {}, which would be written elsewhere", name_.repository, quote(file)),
          "do not trust this model");
    listing.files.insert(file);
    if (sibling.contains("size"))
      listing.sizes[file] = io::get_size(sibling, "size", what, 0, size_t{1} << 50);
  }
  return listing;
}

RemoteFile Pull::describe(const std::string& file) {
  file_ = file;
  HttpRequest head =
      request(fmt::format("{}/resolve/{}/{}", url_, listing_.commit, hub::percent_encode(file, true)));
  head.head_until = "x-linked-etag";
  const std::string what = fmt::format("{} of {}", file, name_.repository);
  const HttpReply reply = persist(what, head);
  if (reply.header("x-repo-commit") != listing_.commit)
    throw Error(fmt::format("{}: the server names commit {}, not {}", what,
                            quote(reply.header("x-repo-commit")), listing_.commit),
                "check that HF_ENDPOINT is a Hugging Face hub");
  RemoteFile remote{.name = file, .etag = {}};
  std::string_view etag = reply.header("x-linked-etag");
  if (etag.empty()) etag = reply.header("etag");
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  remote.etag = etag;
  const bool sum =
      (etag.size() == 40 || etag.size() == 64) && etag.find_first_not_of("0123456789abcdef") == etag.npos;
  if (!sum)
    throw Error(fmt::format("{}: the server gives no SHA sum for it, but the etag {}", what, quote(etag)),
                "check that HF_ENDPOINT is a Hugging Face hub");
  std::string_view size = reply.header("x-linked-size");
  if (size.empty() && reply.good()) size = reply.header("content-length");
  if (size.empty() && listing_.sizes.contains(file))
    remote.size = listing_.sizes.at(file);
  else if (!parse_number(size, remote.size) || remote.size > uint64_t{1} << 50)
    throw Error(fmt::format("{}: the server does not say how large it is", what));
  return remote;
}

// --- bytes

void Pull::write_failed(const RemoteFile& file, uint64_t have, int error) const {
  if (error != ENOSPC && error != EDQUOT) cannot_write(blob(file), error);
  throw Error(fmt::format("there is no room for {}: it needs {} more, and {} has {}", file.name,
                          text_of(file.size - have), hub_.cache.string(), text_of(free_bytes(folder_))),
              "make room, then the same again: it goes on from here; or another disk: HF_HUB_CACHE=FOLDER");
}

uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const uint64_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

// A blob of another size was cut off by something else than a pull; it is downloaded again.
bool Pull::has_blob(const RemoteFile& file) const {
  std::error_code error;
  return fs::is_regular_file(blob(file), error) && size_of(blob(file)) == file.size;
}

void Pull::check_room(const std::vector<RemoteFile>& files) const {
  uint64_t needed = 0;
  for (const RemoteFile& file : files) {
    if (has_blob(file)) continue;
    needed = (Checked(needed) + file.size - std::min(file.size, size_of(blob(file).string() + ".incomplete")))
                 .value();
  }
  const uint64_t room = free_bytes(folder_);
  if (needed > room)
    throw Error(fmt::format("there is no room for {}: it needs {}, and {} has {}", name_.repository,
                            text_of(needed), hub_.cache.string(), text_of(room)),
                "make room, or take another disk: HF_HUB_CACHE=FOLDER");
}

// Makes the blob of a file, unless it is there: one program at a time.
void Pull::fetch(const RemoteFile& file) {
  file_ = file.name;
  const fs::path lock = hub_.cache / ".locks" / folder_.filename() / (file.etag + ".lock");
  std::error_code error;
  if (has_blob(file)) return;
  make_folders(lock.parent_path());
  make_folders(blob(file).parent_path());
  const Descriptor lock_file = open_own(lock, 0664);
  // A file system that has no locks is gone on with: the sum is checked in any case.
  while (flock(lock_file.number, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR))
    wait(0.2, fmt::format("{}: another program is downloading it", file.name));
  if (has_blob(file)) {
    done_ += file.size;
    return;
  }

  const fs::path incomplete = blob(file).string() + ".incomplete";
  const uint64_t before = done_;
  for (int tries = 1;; ++tries) {
    try {
      download(file, incomplete);
      check_sum(file, incomplete);
      break;
    } catch (const WrongContent& wrong) {
      fs::remove(incomplete, error);
      done_ = before;
      if (tries == 2)
        throw Error(fmt::format("{} of {} came damaged, twice: {}", file.name, name_.repository, wrong.why),
                    "the same again later, or another network: something on the way changes the file");
    }
  }
  if (rename(incomplete.c_str(), blob(file).c_str()) != 0) cannot_write(blob(file), errno);
}

void Pull::download(const RemoteFile& file, const fs::path& incomplete) {
  const Descriptor out = open_own(incomplete, 0666);
  const uint64_t before = done_;
  uint64_t have = 0;
  const auto start_at = [&](uint64_t place) {
    if (ftruncate(out.number, off_t(place)) != 0) write_failed(file, have, errno);
    have = place;
    done_ = before + have;
  };
  if (const uint64_t left = size_of(incomplete); left <= file.size) have = left;
  start_at(have);

  HttpRequest get =
      request(fmt::format("{}/resolve/{}/{}", url_, listing_.commit, hub::percent_encode(file.name, true)));
  bool first = true;
  get.body = [&](const HttpReply& reply, std::span<const std::byte> bytes) {
    // A server may answer with the whole file, or another part of it.
    if (std::exchange(first, false) && have > 0 &&
        !(reply.status == 206 && reply.header("content-range").starts_with(fmt::format("bytes {}-", have)))) {
      if (reply.status == 206) throw WrongContent{"the server sent another part than it was asked for"};
      start_at(0);
    }
    if (bytes.size() > file.size - have)
      throw WrongContent{fmt::format("it has more than the {} bytes that the server named", file.size)};
    while (!bytes.empty()) {
      const ssize_t count = pwrite(out.number, bytes.data(), bytes.size(), off_t(have));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) write_failed(file, have, errno);
      have += uint64_t(count);
      done_ = before + have;
      downloaded_ += uint64_t(count);
      bytes = bytes.subspan(size_t(count));
    }
  };
  constexpr uint64_t kHeadway = 1 << 20;  // a try that brought so much does not count as a failure
  uint64_t last = have;
  for (int failures = 0; have < file.size;) {
    get.from = have;
    first = true;
    const HttpReply reply = hub::send(get);
    if (reply.good() && have < file.size)
      throw WrongContent{fmt::format("it has {} bytes, and the server named {}", have, file.size)};
    if (reply.good()) break;
    if (reply.status == 416) start_at(0);
    failures = have >= last + kHeadway ? 1 : failures + 1;
    last = have;
    try_again_or_throw(fmt::format("{} of {}", file.name, name_.repository), reply, failures);
  }
  if (fsync(out.number) != 0) write_failed(file, have, errno);
}

void Pull::check_sum(const RemoteFile& file, const fs::path& incomplete) const {
  const io::MappedFile bytes(incomplete);
  std::string sum;
  if (file.etag.size() == 64) {
    io::Sha256 sha;
    sha.add(bytes.bytes());
    sum = sha.hex();
  } else {
    io::Sha1 sha = io::git_blob_sha1(bytes.bytes().size());
    sha.add(bytes.bytes());
    sum = sha.hex();
  }
  if (sum != file.etag) throw WrongContent{fmt::format("its SHA sum is {}, not {}", sum, file.etag)};
}

// --- names

// Puts something under its name in one step: made beside it, then renamed.
template <class Make>  // make(path): 0, or sets errno
void replace(const fs::path& path, const Make& make) {
  make_folders(path.parent_path());
  static std::atomic<unsigned> count{0};
  const fs::path temporary = fmt::format("{}.{}-{}.tmp", path.string(), getpid(), ++count);
  std::error_code error;
  fs::remove(temporary, error);
  if (make(temporary) != 0 || rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    fs::remove(temporary, error);
    cannot_write(path, reason);
  }
}

void Pull::link(const RemoteFile& file) {
  const fs::path path = snapshot() / file.name;
  const fs::path target = blob(file).lexically_relative(path.parent_path());
  replace(path, [&](const fs::path& temporary) { return symlink(target.c_str(), temporary.c_str()); });
}

void Pull::write_ref() {
  if (name_.revision == listing_.commit) return;
  const fs::path ref = folder_ / "refs" / name_.revision;
  std::error_code error;
  if (fs::exists(ref, error) && io::MappedFile(ref).text() == listing_.commit) return;
  replace(ref, [&](const fs::path& temporary) {
    const Descriptor out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const auto size = ssize_t(listing_.commit.size());
    return out.number >= 0 && write(out.number, listing_.commit.data(), size_t(size)) == size &&
                   fsync(out.number) == 0
               ? 0
               : -1;
  });
}

PullResult Pull::run() {
  listing_ = list();
  std::map<std::string, RemoteFile> described;
  const auto is_here = [&](const std::string& file) {
    std::error_code error;
    if (!fs::is_regular_file(snapshot() / file, error)) return false;
    const auto size = listing_.sizes.find(file);
    const uint64_t here = size_of(snapshot() / file);
    return size == listing_.sizes.end() ? here > 0 : here == size->second;
  };
  const auto describe_once = [&](const std::string& file) -> const RemoteFile& {
    auto place = described.find(file);
    if (place == described.end()) {
      place = described.emplace(file, describe(file)).first;
      if (!has_blob(place->second)) total_ += place->second.size;
    }
    return place->second;
  };
  // modules.json and the index of shards say which files there are to get.
  const auto read = [&](const std::string& file) {
    if (is_here(file)) return std::make_shared<const io::MappedFile>(snapshot() / file);
    const RemoteFile& remote = describe_once(file);
    if (remote.size > kMaxListing)
      throw Error(fmt::format("{} is longer than {}", file, text_of(kMaxListing)));
    fetch(remote);
    return std::make_shared<const io::MappedFile>(blob(remote));
  };
  std::vector<std::string> wanted =
      io::wanted_files(ModelFiles(std::make_shared<const Remote>(name_.repository, listing_.files, read)));
  // The file that makes a folder a model is linked last.
  std::stable_partition(wanted.begin(), wanted.end(), [](const std::string& file) {
    return file != io::kConfigFile && file != io::kModulesFile;
  });
  std::vector<RemoteFile> missing;
  for (const std::string& file : wanted)
    if (!is_here(file)) missing.push_back(describe_once(file));
  if (!missing.empty()) {
    make_folders(folder_);
    check_room(missing);
  }
  std::vector<RemoteFile> by_size = missing;  // what goes wrong at once should do so before the large files
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const RemoteFile& a, const RemoteFile& b) { return a.size < b.size; });
  for (const RemoteFile& file : by_size) fetch(file);
  for (const RemoteFile& file : missing) link(file);
  write_ref();
  PullResult result{.path = snapshot(),
                    .commit = listing_.commit,
                    .files = wanted.size(),
                    .bytes = 0,
                    .downloaded = downloaded_};
  for (const std::string& file : wanted) result.bytes += size_of(snapshot() / file);
  return result;
}

}  // namespace

PullResult pull(const std::string& text, const PullOptions& options, const Hub& hub) {
  const std::optional<hub::ModelName> name = hub::parse_model_name(text);
  if (!name)
    throw Error(
        fmt::format("{} is not a model's name", quote(text)),
        "organization/model, as in sentence-transformers/all-MiniLM-L6-v2; a revision goes after an @");
  if (hub.offline) {
    const auto here = hub::find_snapshot(hub::repository_folder(hub, name->repository), name->revision);
    std::string why = "it is not here";
    if (here) try {
        const std::vector<std::string> files = hub::whole_files(*here);
        PullResult result{.path = *here, .commit = here->filename().string(), .files = files.size()};
        for (const std::string& file : files) result.bytes += size_of(*here / file);
        return result;
      } catch (const Error& error) {
        why = error.what();
      }
    throw Error(fmt::format("cannot download {}: HF_HUB_OFFLINE is set, and {}", name->repository, why),
                "unset HF_HUB_OFFLINE, or take a model that is in the cache");
  }
  return Pull(*name, options, hub).run();
}

}  // namespace bertie
