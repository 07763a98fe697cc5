// Addresses; the rest of HTTP is tested through pull.
#include "hub/http.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace bertie::hub {
namespace {

TEST(Http, RedirectsAreResolved) {
  EXPECT_EQ(redirect_target("https://hub/a/b?c", "/d"), "https://hub/d");
  EXPECT_EQ(redirect_target("https://hub/a/b", "c"), "https://hub/a/c");
  EXPECT_EQ(redirect_target("https://hub/a", "https://cdn/x?sign=%2F"), "https://cdn/x?sign=%2F");
  EXPECT_EQ(redirect_target("http://hub/a", "https://hub/a"), "https://hub/a");
  EXPECT_EQ(redirect_target("http://hub/a", "//cdn/x"), "http://cdn/x");
}

TEST(Http, RedirectsToLessSafeOrStrangePlacesAreRefused) {
  test::expect_error("from https to http", [] { redirect_target("https://hub/a", "http://hub/a"); });
  test::expect_error("to file", [] { redirect_target("http://hub/a", "file:///etc/passwd"); });
  test::expect_error("to ftp", [] { redirect_target("https://hub/a", "ftp://hub/a"); });
  test::expect_error("no address", [] { redirect_target("https://hub/a", "https://"); });
}

TEST(Http, AnOriginIsSchemeHostAndPort) {
  EXPECT_EQ(origin_of("https://hub/x"), "https://hub:443");
  EXPECT_EQ(origin_of("https://hub:443/y?z"), origin_of("https://hub/x"));
  EXPECT_NE(origin_of("http://hub/x"), origin_of("https://hub/x"));
  EXPECT_NE(origin_of("https://hub.evil/x"), origin_of("https://hub/x"));
  EXPECT_NE(origin_of("https://hub@evil/x"), origin_of("https://hub/x"));
  test::expect_error("not an address", [] { origin_of("not an address"); });
}

TEST(Http, PasswordsAreLeftOut) {
  EXPECT_EQ(without_password("https://me:secret@hub/x@y"), "https://hub/x@y");
  EXPECT_EQ(without_password("https://a@b:c@hub?x"), "https://hub?x");
  EXPECT_EQ(without_password("me:secret@hub"), "hub");
  EXPECT_EQ(without_password("https://hub/x"), "https://hub/x");
}

TEST(Http, WhatIsNotPlainIsEncoded) {
  EXPECT_EQ(percent_encode("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(percent_encode("1_Pooling/config.json", true), "1_Pooling/config.json");
  EXPECT_EQ(percent_encode("a b?#%\xC3\xA9", true), "a%20b%3F%23%25%C3%A9");
}

}  // namespace
}  // namespace bertie::hub
