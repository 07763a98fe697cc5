// The program: arguments in, exit code out. Errors of every kind end here.
#include <fcntl.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <new>

#include "bertie/error.h"
#include "cli/fields.h"
#include "cli/help.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

namespace {

int run(Invocation& invocation) {
  Settings& settings = invocation.settings;
  if (settings.version) return print("bertie " BERTIE_VERSION "\n"), 0;
  if (settings.help) return print(invocation.command ? command_help(*invocation.command) : program_help()), 0;
  if (!invocation.command) return print(greeting()), 0;
  for (const auto& [text, name] : {std::pair(&settings.pair, "--pair"), {&settings.query, "--query"}})
    if (*text) *text = valid_text(settings, **text, name);
  return invocation.command->run(settings);
}

int complain(int code, std::string_view what, std::string_view hint = {}) {
  end_progress_line();
  std::fflush(stdout);  // what came before the error comes before it on a terminal too
  const Style style = Style::for_errors();
  say("{} {}\n", style.error("bertie:"), printable(with_flags(what)));
  if (!hint.empty()) say("  {} {}\n", style.bold("try:"), printable(with_flags(hint)));
  return code;
}

// A value that the library refuses is as wrong as one that the parser refuses. But what is in the file or the
// folder that an option names is another matter.
bool is_usage_error(const Error& error, const Invocation& invocation) {
  if (dynamic_cast<const UsageError*>(&error)) return true;
  const Option* option = invocation.command ? option_of(error.field(), *invocation.command) : nullptr;
  return option && (!names_file(*option) || !is_given(*option, invocation.settings));
}

int guarded(const std::vector<std::string>& arguments) {
  Invocation invocation;
  try {
    invocation = parse(arguments);
    const int code = run(invocation);
    finish_output();
    return code;
  } catch (const ClosedPipe&) {
    return 0;
  } catch (const Stopped& stopped) {
    end_progress_line();
    return 128 + stopped.signal;
  } catch (const Error& error) {
    return complain(is_usage_error(error, invocation) ? 2 : 1, error.what(), error.hint());
  } catch (const std::bad_alloc&) {
    return complain(1, "out of memory", "a smaller model, fewer threads or shorter texts");
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
