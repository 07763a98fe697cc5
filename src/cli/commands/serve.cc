// bertie serve
#include "bertie/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "cli/model.h"
#include "cli/output.h"
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

// MODEL, or NAME=MODEL. A folder is called by its last part: clients need not know where it lies.
ServeOptions::NamedModel named_model(const Settings& settings, const std::string& word) {
  const size_t equals = word.find('=');
  Settings one = settings;
  one.model = equals == word.npos ? word : word.substr(equals + 1);
  ModelFiles files = model_files(one);
  std::string name = word.substr(0, equals);
  std::error_code ignored;
  if (equals == word.npos && std::filesystem::is_directory(word, ignored)) {
    const std::filesystem::path folder = std::filesystem::absolute(word).lexically_normal();
    name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  }
  if (name.empty()) throw UsageError(fmt::format("{} has no name", in_quotes(word)), "NAME=MODEL");
  return {.name = std::move(name), .files = std::move(files)};
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

}  // namespace

int serve_command(const Settings& settings) {
  // Signals are waited for below; the server's threads, which begin with this mask, never see them.
  sigset_t stop;
  sigemptyset(&stop);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stop, signal);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);

  raise_descriptor_limit();
  const ServeOptions options = options_of(settings);
  const auto start = std::chrono::steady_clock::now();
  Server server(options);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Style style = Style::for_errors();
  if (!settings.quiet) {
    say("bertie serves {} at {}  ({:.0f} ms)\n", fmt::join(server.models(), ", "),
        style.accent(link_to(options, server.port())), 1000 * took);
    if (options.address == "127.0.0.1" && options.socket < 0)
      say("{}\n",
          style.dim("Only this machine reaches it; --address 0.0.0.0 opens it, --keys FILE asks for a key. "
                    "Ctrl-C ends it."));
  }
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

}  // namespace bertie::cli
