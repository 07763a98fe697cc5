#pragma once
#include <string>

#include "cli/options.h"

namespace bertie::cli {

std::string greeting();
std::string program_help();
std::string command_help(const Command& command);
std::string manual_as_man_page();
std::string manual_as_markdown();

}  // namespace bertie::cli
