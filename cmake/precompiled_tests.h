#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "precompiled.h"
