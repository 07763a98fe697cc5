// bertie serve, and bertie view, which is the same with a page that opens
#include "bertie/serve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "cli/model.h"
#include "cli/output.h"
#include "cli/task.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

constexpr double kDrainSeconds = 30;

// A socket that systemd opened for us (sd_listen_fds), or -1.
int handed_over_socket() {
  const char* process = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  long id = 0;
  if (!process || !count || !read_number(std::string_view(process), id) || id != long(getpid())) return -1;
  if (std::string_view(count) != "1")
    throw Error(fmt::format("{} sockets were handed over", count), "one ListenStream= in the .socket unit");
  return 3;
}

std::string last_part(const std::filesystem::path& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

// MODEL, or NAME=MODEL. A folder is called by its last part: clients need not know where it lies.
ServeOptions::NamedModel named_model(const Settings& settings, const std::string& word) {
  const size_t equals = word.find('=');
  Settings one = settings;
  one.model = equals == word.npos ? word : word.substr(equals + 1);
  ModelFiles files = model_files(one);
  std::string name = word.substr(0, equals);
  std::error_code ignored;
  if (equals == word.npos && std::filesystem::is_directory(word, ignored)) name = last_part(word);
  if (name.empty()) throw UsageError(fmt::format("{} has no name", in_quotes(word)), "NAME=MODEL");
  return {.name = std::move(name), .files = std::move(files)};
}

// RUN, or NAME=RUN: a folder in which something is trained.
void add_runs(const Settings& settings, ServeOptions& options) {
  for (const std::string& word : settings.runs) {
    std::error_code ignored;
    const bool folder_alone = std::filesystem::is_directory(word, ignored);  // runs/rate=1e-3
    const size_t equals = folder_alone ? word.npos : word.find('=');
    const std::filesystem::path folder(equals == word.npos ? word : word.substr(equals + 1));
    const std::string name = equals == word.npos ? last_part(folder) : word.substr(0, equals);
    if (name.empty()) throw UsageError(fmt::format("{} has no name", in_quotes(word)), "--run NAME=DIR");
    options.runs.emplace_back(name, folder);
  }
}

// Many clients need many descriptors; we may have as many as the system lets us.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

ServeOptions options_of(const Settings& settings) {
  ServeOptions options;
  if (names_model(settings)) options.models.push_back(named_model(settings, model_name(settings)));
  for (const std::string& word : settings.words) options.models.push_back(named_model(settings, word));
  for (size_t i = 0; i < options.models.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (options.models[i].name == options.models[j].name)
        throw UsageError(fmt::format("two models are called {}", in_quotes(options.models[i].name)),
                         "NAME=MODEL gives one another name");
  add_runs(settings, options);
  const auto set = [](auto& to, const auto& from) {
    if (from) to = std::decay_t<decltype(to)>(*from);
  };
  set(options.address, settings.address);
  set(options.port, settings.port);
  set(options.threads, settings.threads);
  set(options.max_length, settings.max_length);
  set(options.keys_file, settings.keys);
  set(options.cors_origin, settings.cors);
  options.format = weight_format(settings);
  options.socket = handed_over_socket();
  ServeLimits& limits = options.limits;
  set(limits.body_bytes, settings.max_body);
  set(limits.connections, settings.max_connections);
  set(limits.connections_per_address, settings.max_connections_per_address);
  set(limits.request_seconds, settings.request_timeout);
  set(limits.idle_seconds, settings.idle_timeout);
  set(limits.write_seconds, settings.write_timeout);
  set(limits.queue, settings.queue);
  set(limits.queue_seconds, settings.queue_timeout);
  set(limits.pass_tokens, settings.batch_tokens);
  set(limits.inputs, settings.max_inputs);
  set(limits.tokens, settings.max_tokens);
  set(limits.top_k, settings.max_top_k);
  if (settings.log)
    options.log = [](std::string_view line) {
      static std::mutex mutex;
      std::lock_guard lock(mutex);
      say("{}\n", line);
    };
  return options;
}

std::string link_to(const ServeOptions& options, uint16_t port) {
  const bool anywhere = options.address == "0.0.0.0" || options.address == "::" || options.socket >= 0;
  const std::string host = anywhere ? "127.0.0.1" : options.address;
  const bool v6 = host.find(':') != host.npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

// A text as an address has it.
std::string percent_encoded(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '.' || c == '-' || c == '_';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", uint8_t(c));
  }
  return out;
}

// In the desktop's browser, where there is a desktop. Whether it opens is not ours to wait for: the link is
// printed.
void open_in_browser(const std::string& link) {
  if (!std::getenv("DISPLAY") && !std::getenv("WAYLAND_DISPLAY")) return;
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&quiet, stream, "/dev/null", stream ? O_WRONLY : O_RDONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string name = "xdg-open", address = link;
  char* arguments[] = {name.data(), address.data(), nullptr};
  pid_t process = 0;
  posix_spawnp(&process, name.c_str(), &quiet, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&quiet);
}

// Signals are waited for in serve_until_stopped; the server's threads, which begin with this mask, never see
// them.
sigset_t block_signals() {
  sigset_t stop;
  sigemptyset(&stop);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stop, signal);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  return stop;
}

int serve_until_stopped(const Settings& settings, Server& server, const sigset_t& stop) {
  for (;;) {
    int signal = 0;
    sigwait(&stop, &signal);
    if (signal == SIGHUP) {
      try {
        server.reload();
        if (!settings.quiet) say("loaded again: {}\n", fmt::join(server.models(), ", "));
      } catch (const Error& error) {
        warn(fmt::format("not loaded again: {}", error.what()), error.hint());
      } catch (const std::exception& error) {  // no memory for both
        warn(fmt::format("not loaded again: {}", error.what()));
      }
      continue;
    }
    if (!settings.quiet) say("stopping: what has come is answered; once more ends it at once\n");
    pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
    const bool whole = server.drain(settings.drain_timeout.value_or(kDrainSeconds));
    if (!whole) warn("some requests were cut");
    return whole ? 0 : 1;
  }
}

}  // namespace

int serve_command(const Settings& settings) {
  const sigset_t stop = block_signals();
  raise_descriptor_limit();
  const ServeOptions options = options_of(settings);
  const auto start = std::chrono::steady_clock::now();
  Server server(options);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Style style = Style::for_errors();
  if (!settings.quiet) {
    say("bertie serves {} at {}  ({:.0f} ms)\n", fmt::join(server.models(), ", "),
        style.accent(link_to(options, server.port())), 1000 * took);
    say("{}\n", style.dim("Open it in a browser to watch attention work."));
    if (options.address == "127.0.0.1" && options.socket < 0)
      say("{}\n",
          style.dim("Only this machine reaches it; --address 0.0.0.0 opens it, --keys FILE asks for a key. "
                    "Ctrl-C ends it."));
  }
  return serve_until_stopped(settings, server, stop);
}

int view_command(const Settings& settings) {
  const sigset_t stop = block_signals();
  ServeOptions options;
  if (names_model(settings)) options.models.push_back(named_model(settings, model_name(settings)));
  add_runs(settings, options);
  options.port = uint16_t(settings.port.value_or(0));
  if (settings.threads) options.threads = int(*settings.threads);
  options.format = weight_format(settings);
  Server server(options);
  std::string link = link_to(options, server.port()) + "/";
  const auto add = [&](const char* name, std::string_view value) {
    link += fmt::format("{}{}={}", link.find('#') == link.npos ? "#" : "&", name, percent_encoded(value));
  };
  if (!settings.words.empty()) add("text", valid_text(settings, settings.words[0], "the text"));
  if (settings.pair) add("pair", valid_text(settings, *settings.pair, "the second text"));
  if (!options.runs.empty() && settings.words.empty())
    add("view", "training"), add("run", options.runs[0].first);
  if (settings.layer) add("layer", std::to_string(*settings.layer));
  if (settings.head) add("head", std::to_string(*settings.head));
  print("{}\n", link);
  flush_output();
  if (!settings.no_open) open_in_browser(link);
  if (!settings.quiet) say("{}\n", Style::for_errors().dim("Ctrl-C ends it."));
  return serve_until_stopped(settings, server, stop);
}

}  // namespace bertie::cli
