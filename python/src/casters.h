#pragma once
// How small types of the library look in Python: a place in a text is a pair of ints, an enum a word.
#include <nanobind/nanobind.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "bertie/attention.h"
#include "bertie/dataset.h"
#include "bertie/model.h"
#include "bertie/results.h"
#include "bertie/tokenizer.h"
#include "bertie/train.h"
#include "bertie/weight_format.h"

// In place of <nanobind/stl/string.h>: a token of a byte-level vocabulary may be a part of a character, and
// what is not UTF-8 becomes U+FFFD instead of an exception.
template <>
struct nanobind::detail::type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_Check(src.ptr()) ? PyUnicode_AsUTF8AndSize(src.ptr(), &size) : nullptr;
    if (!text) return PyErr_Clear(), false;
    value.assign(text, size_t(size));
    return true;
  }
  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace");
  }
};

namespace bertie::python {

// The words of an enum, one for each value, in any order.
template <class Enum>
struct Words;

}  // namespace bertie::python

// BERTIE_WORDS(Enum, "'a', 'b'", {Enum::kA, "a"}, {Enum::kB, "b"}): the enum is a str in Python, and its type
// is Literal['a', 'b'], so that an error lists what there is.
#define BERTIE_WORDS(Enum, literal, ...)                                                                   \
  template <>                                                                                              \
  struct bertie::python::Words<Enum> {                                                                     \
    static constexpr std::pair<Enum, std::string_view> all[] = {__VA_ARGS__};                              \
  };                                                                                                       \
  template <>                                                                                              \
  struct nanobind::detail::type_caster<Enum> {                                                             \
    NB_TYPE_CASTER(Enum, const_name("typing.Literal[" literal "]"))                                        \
    bool from_python(handle src, uint8_t, cleanup_list*) noexcept {                                        \
      Py_ssize_t size = 0;                                                                                 \
      const char* word = PyUnicode_Check(src.ptr()) ? PyUnicode_AsUTF8AndSize(src.ptr(), &size) : nullptr; \
      if (!word) return PyErr_Clear(), false;                                                              \
      for (const auto& [known, name] : bertie::python::Words<Enum>::all)                                   \
        if (name == std::string_view(word, size_t(size))) return value = known, true;                      \
      return false;                                                                                        \
    }                                                                                                      \
    static handle from_cpp(const Enum& wanted, rv_policy, cleanup_list*) noexcept {                        \
      for (const auto& [known, name] : bertie::python::Words<Enum>::all)                                   \
        if (known == wanted) return PyUnicode_FromStringAndSize(name.data(), Py_ssize_t(name.size()));     \
      return none().release();                                                                             \
    }                                                                                                      \
  };

BERTIE_WORDS(bertie::Apply, "'by_problem', 'softmax', 'sigmoid', 'nothing'",
             {bertie::Apply::kByProblem, "by_problem"}, {bertie::Apply::kSoftmax, "softmax"},
             {bertie::Apply::kSigmoid, "sigmoid"}, {bertie::Apply::kNothing, "nothing"})
BERTIE_WORDS(bertie::Aggregation, "'none', 'simple', 'first', 'average', 'max'",
             {bertie::Aggregation::kNone, "none"}, {bertie::Aggregation::kSimple, "simple"},
             {bertie::Aggregation::kFirst, "first"}, {bertie::Aggregation::kAverage, "average"},
             {bertie::Aggregation::kMax, "max"})
BERTIE_WORDS(bertie::FinishReason, "'max_new_tokens', 'end_of_text', 'by_caller', 'model_length'",
             {bertie::FinishReason::kMaxNewTokens, "max_new_tokens"},
             {bertie::FinishReason::kEndOfText, "end_of_text"},
             {bertie::FinishReason::kByCaller, "by_caller"},
             {bertie::FinishReason::kModelLength, "model_length"})
BERTIE_WORDS(bertie::Head, "'masked_lm', 'next_sentence', 'classify', 'tag', 'answer', 'causal_lm'",
             {bertie::Head::kMaskedLm, "masked_lm"}, {bertie::Head::kNextSentence, "next_sentence"},
             {bertie::Head::kClassify, "classify"}, {bertie::Head::kTag, "tag"},
             {bertie::Head::kAnswer, "answer"}, {bertie::Head::kCausalLm, "causal_lm"})
BERTIE_WORDS(bertie::Truncate, "'longest_first', 'only_first', 'only_second'",
             {bertie::Truncate::kLongestFirst, "longest_first"}, {bertie::Truncate::kOnlyFirst, "only_first"},
             {bertie::Truncate::kOnlySecond, "only_second"})
BERTIE_WORDS(bertie::WeightFormat, "'fp32', 'bf16', 'int8'", {bertie::WeightFormat::kFloat32, "fp32"},
             {bertie::WeightFormat::kBFloat16, "bf16"}, {bertie::WeightFormat::kInt8, "int8"})
BERTIE_WORDS(bertie::Precision, "'fp32', 'fp16', 'bf16'", {bertie::Precision::kFloat32, "fp32"},
             {bertie::Precision::kFloat16, "fp16"}, {bertie::Precision::kBFloat16, "bf16"})
BERTIE_WORDS(bertie::TaskKind, "'classify', 'pair', 'tag', 'answer'",
             {bertie::TaskKind::kClassify, "classify"}, {bertie::TaskKind::kPair, "pair"},
             {bertie::TaskKind::kTag, "tag"}, {bertie::TaskKind::kAnswer, "answer"})
BERTIE_WORDS(bertie::Problem, "'unset', 'single_label', 'multi_label', 'regression'",
             {bertie::Problem::kUnset, "unset"}, {bertie::Problem::kSingleLabel, "single_label"},
             {bertie::Problem::kMultiLabel, "multi_label"}, {bertie::Problem::kRegression, "regression"})
BERTIE_WORDS(bertie::Schedule, "'linear', 'bert-linear', 'cosine', 'constant', 'stable'",
             {bertie::Schedule::kLinear, "linear"}, {bertie::Schedule::kBertLinear, "bert-linear"},
             {bertie::Schedule::kCosine, "cosine"}, {bertie::Schedule::kConstant, "constant"},
             {bertie::Schedule::kStable, "stable"})
BERTIE_WORDS(bertie::OptimizerMethod, "'adamw', 'bert-adam', 'lamb', 'muon'",
             {bertie::OptimizerMethod::kAdamW, "adamw"}, {bertie::OptimizerMethod::kBertAdam, "bert-adam"},
             {bertie::OptimizerMethod::kLamb, "lamb"}, {bertie::OptimizerMethod::kMuon, "muon"})
BERTIE_WORDS(bertie::TrainEnd, "'limit', 'stopped', 'patience'", {bertie::TrainEnd::kLimit, "limit"},
             {bertie::TrainEnd::kStopped, "stopped"}, {bertie::TrainEnd::kPatience, "patience"})
BERTIE_WORDS(bertie::Score::Kind, "'scaled_dot', 'dot', 'general', 'additive'",
             {bertie::Score::Kind::kScaledDot, "scaled_dot"}, {bertie::Score::Kind::kDot, "dot"},
             {bertie::Score::Kind::kGeneral, "general"}, {bertie::Score::Kind::kAdditive, "additive"})

// A place in a text: (begin, end) in characters, which for Python are code points too.
template <>
struct nanobind::detail::type_caster<bertie::Offset> {
  NB_TYPE_CASTER(bertie::Offset, const_name("tuple[int, int]"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (!PyTuple_Check(src.ptr()) || PyTuple_Size(src.ptr()) != 2) return false;
    const unsigned long begin = PyLong_AsUnsignedLong(PyTuple_GetItem(src.ptr(), 0));
    const unsigned long end = PyLong_AsUnsignedLong(PyTuple_GetItem(src.ptr(), 1));
    if (PyErr_Occurred()) return PyErr_Clear(), false;
    value = {uint32_t(begin), uint32_t(end)};
    return true;
  }
  static handle from_cpp(const bertie::Offset& offset, rv_policy, cleanup_list*) noexcept {
    PyObject* pair = PyTuple_New(2);
    if (!pair) return {};
    PyTuple_SetItem(pair, 0, PyLong_FromUnsignedLong(offset.begin));
    PyTuple_SetItem(pair, 1, PyLong_FromUnsignedLong(offset.end));
    return pair;
  }
};

// A head of attention: (layer, head), from 0.
template <>
struct nanobind::detail::type_caster<bertie::WhichHead> {
  NB_TYPE_CASTER(bertie::WhichHead, const_name("tuple[int, int]"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (!PyTuple_Check(src.ptr()) || PyTuple_Size(src.ptr()) != 2) return false;
    const size_t layer = PyLong_AsSize_t(PyTuple_GetItem(src.ptr(), 0));
    const size_t head = PyLong_AsSize_t(PyTuple_GetItem(src.ptr(), 1));
    if (PyErr_Occurred()) return PyErr_Clear(), false;
    value = {layer, head};
    return true;
  }
  static handle from_cpp(const bertie::WhichHead& which, rv_policy, cleanup_list*) noexcept {
    PyObject* pair = PyTuple_New(2);
    if (!pair) return {};
    PyTuple_SetItem(pair, 0, PyLong_FromSize_t(which.layer));
    PyTuple_SetItem(pair, 1, PyLong_FromSize_t(which.head));
    return pair;
  }
};
