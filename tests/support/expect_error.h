#pragma once
#include <gtest/gtest.h>

#include <string>

#include "bertie/error.h"

namespace bertie::test {

// `action` throws Error, and what it says contains `part`.
template <class Action>
void expect_error(const std::string& part, const Action& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected an Error with: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "what: " << error.what() << "\nexpected in it: " << part;
  }
}

}  // namespace bertie::test
