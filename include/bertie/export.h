#pragma once
// BERTIE_API marks what libbertie.so exports; everything else stays inside.
#define BERTIE_API __attribute__((visibility("default")))
