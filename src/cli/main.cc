// The program: arguments in, exit code out. Errors of every kind end here.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <new>
#include <system_error>

#include "bertie/error.h"
#include "cli/fields.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

namespace {

int run(const std::vector<std::string>& arguments) {
  const Invocation invocation = parse(arguments);
  if (invocation.settings.version) return print("bertie " BERTIE_VERSION "\n"), 0;
  if (invocation.settings.help)
    return print(invocation.command ? command_help(*invocation.command) : program_help()), 0;
  if (!invocation.command) return print(greeting()), 0;
  return invocation.command->run(invocation.settings);
}

int complain(int code, std::string_view what, std::string_view hint = {}) {
  end_progress_line();
  std::fflush(stdout);  // what came before the error comes before it on a terminal too
  const Style style = Style::for_errors();
  fmt::print(stderr, "{} {}\n", style.error("bertie:"), printable(with_flags(what)));
  if (!hint.empty()) fmt::print(stderr, "  {} {}\n", style.bold("try:"), printable(with_flags(hint)));
  return code;
}

int guarded(const std::vector<std::string>& arguments) {
  try {
    const int code = run(arguments);
    finish_output();
    return code;
  } catch (const ClosedPipe&) {
    return 0;
  } catch (const Stopped& stopped) {
    end_progress_line();
    return 128 + stopped.signal;
  } catch (const UsageError& error) {
    return complain(2, error.what(), error.hint());
  } catch (const Error& error) {
    return complain(1, error.what(), error.hint());
  } catch (const std::bad_alloc&) {
    return complain(1, "out of memory", "a smaller model, fewer threads or shorter texts");
  } catch (const std::system_error& error) {  // fmt::print says so when standard output breaks
    return error.code().value() == EPIPE ? 0 : complain(1, error.what());
  } catch (const std::exception& error) {
    return complain(1, error.what());
  }
}

// A descriptor that was closed by whoever started us would be given to the next file we open, and output
// would go there. Taken, the wrong way round, it gives an error instead.
void take_standard_descriptors() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0)
      (void)!open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace
}  // namespace bertie::cli

int main(int argc, char** argv) {
  using namespace bertie::cli;
  take_standard_descriptors();
  handle_signals();
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for wcwidth; Bertie speaks UTF-8 everywhere
  const int code = guarded(std::vector<std::string>(argv + (argc > 0), argv + argc));
  // Past the destructors of stdio, which would try to write again what could not be written.
  std::fflush(stderr);
  std::_Exit(code);
}
