# bertie_section(out symbol path): assembly in C++ that puts a file into read-only memory, as symbol and symbol_end.
function(bertie_section out symbol path)
  set(${out} "asm(\".section .rodata\\n.balign 64\\n.hidden ${symbol}\\n.global ${symbol}\\n${symbol}:\\n\"
    \".incbin \\\"${path}\\\"\\n.hidden ${symbol}_end\\n.global ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n.previous\");
" PARENT_SCOPE)
endfunction()

# bertie_embed(target model...): the files of these folders of models/ become part of the target, as
# bertie::hub::embedded_files() (src/hub/embedded.h). The assembler takes them as they are, into read-only memory.
function(bertie_embed target)
  set(root ${PROJECT_SOURCE_DIR}/models)
  set(patterns "")
  foreach(model ${ARGN})
    list(APPEND patterns ${root}/${model}/*.json ${root}/${model}/*.jsonl ${root}/${model}/*.safetensors ${root}/${model}/*.txt)
  endforeach()
  file(GLOB_RECURSE files RELATIVE ${root} CONFIGURE_DEPENDS ${patterns})
  list(FILTER files EXCLUDE REGEX "/recipe/")
  set(table "")
  set(sections "")
  set(symbols "")
  set(number 0)
  set(paths "")
  foreach(file ${files})
    set(symbol bertie_embedded_${number})
    bertie_section(section ${symbol} ${root}/${file})
    string(APPEND sections "${section}")
    string(APPEND symbols "extern const std::byte ${symbol}[], ${symbol}_end[];\n")
    string(APPEND table "      {\"${file}\", {${symbol}, ${symbol}_end}},\n")
    list(APPEND paths ${root}/${file})
    math(EXPR number "${number} + 1")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/embedded_files.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
#include "hub/embedded.h"

@sections@
extern "C" {
@symbols@}

namespace bertie::hub {

std::span<const EmbeddedFile> embedded_files() {
  static const std::vector<EmbeddedFile> files{
@table@  };
  return files;
}

}  // namespace bertie::hub
]])
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${paths}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
endfunction()

# bertie_embed_file(target file symbol): a file as symbol and symbol_end, for `extern "C" const char symbol[]`.
function(bertie_embed_file target file symbol)
  set(path ${PROJECT_SOURCE_DIR}/${file})
  set(source ${PROJECT_BINARY_DIR}/${symbol}.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
asm(".section .rodata\n.balign 64\n.hidden @symbol@\n.global @symbol@\n@symbol@:\n"
    ".incbin \"@path@\"\n.hidden @symbol@_end\n.global @symbol@_end\n@symbol@_end:\n.byte 0\n.previous");
]])
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${path} SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
endfunction()

# bertie_embed_page(target file...): files of web/ become part of the target, as bertie::page_files()
# (src/explain/page.h), in this order.
function(bertie_embed_page target)
  set(table "")
  set(sections "")
  set(symbols "")
  set(paths "")
  set(number 0)
  foreach(file ${ARGN})
    set(symbol bertie_page_${number})
    set(path ${PROJECT_SOURCE_DIR}/web/${file})
    bertie_section(section ${symbol} ${path})
    string(APPEND sections "${section}")
    string(APPEND symbols "extern const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND table "      {\"${file}\", {${symbol}, ${symbol}_end}},\n")
    list(APPEND paths ${path})
    math(EXPR number "${number} + 1")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/page_files.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
#include "explain/page.h"

@sections@
extern "C" {
@symbols@}

namespace bertie {

std::span<const PageFile> page_files() {
  static const PageFile files[] = {
@table@  };
  return files;
}

}  // namespace bertie
]])
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${paths}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
