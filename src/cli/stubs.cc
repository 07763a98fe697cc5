#include "cli/options.h"
namespace bertie::cli {
int tokenize_command(const Settings&) { throw Error("not yet"); }
int embed_command(const Settings&) { throw Error("not yet"); }
int attend_command(const Settings&) { throw Error("not yet"); }
int info_command(const Settings&) { throw Error("not yet"); }
int demo_command(const Settings&) { throw Error("not yet"); }
}  // namespace bertie::cli
