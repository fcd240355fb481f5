# Texts of pages that go into programs.

# msitd_page_text(OUT PATH) reads a file of a page. Modules lose their comments, a
# fifth of their size: those that begin a line, and those of types. A change of the
# file configures the build again.
function(msitd_page_text out path)
  cmake_path(ABSOLUTE_PATH path OUTPUT_VARIABLE file)
  file(READ "${file}" text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  if(file MATCHES "\\.js$")
    string(REGEX REPLACE "/[*][*][^*]*([*][^/][^*]*)*[*]/ ?" "" text "${text}")
    string(REGEX REPLACE "\n *//[^\n]*" "" text "\n${text}")
    string(REGEX REPLACE "\n( *\n)+" "\n" text "${text}")
    string(REGEX REPLACE "^\n" "" text "${text}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# msitd_page_script(OUT PATHS...) joins modules into one script, for a page that is a
# single file. Each follows those that it imports. All share one scope, so that
# a name may be defined at the top of only one of them.
function(msitd_page_script out)
  set(script "")
  foreach(path IN LISTS ARGN)
    msitd_page_text(text "${path}")
    string(REGEX REPLACE "(^|\n)import [^;]*;" "" text "${text}")
    string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
    string(APPEND script "${text}")
  endforeach()
  set(${out} "${script}" PARENT_SCOPE)
endfunction()
