#pragma once
// Everything Bertie offers, in one include.
#include "bertie/attention.h"
#include "bertie/attention_reference.h"
#include "bertie/attention_reference_nystrom.h"
#include "bertie/config.h"
#include "bertie/encoder.h"
#include "bertie/error.h"
#include "bertie/explain.h"
#include "bertie/hub.h"
#include "bertie/model.h"
#include "bertie/tokenizer.h"
#include "bertie/transformer.h"
#include "bertie/view.h"
