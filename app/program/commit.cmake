# Writes FILE, a header with the commit that is checked out in SOURCE_DIR. The build runs this script
# after each commit or checkout; the file changes only when the commit does, so that nothing is
# compiled in vain. SOURCE_DIR may lie outside a git checkout (a release's archive): "unknown".
set(commit unknown)
find_program(git git)
if(git AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${output})
  endif()
endif()
file(CONFIGURE OUTPUT ${FILE} CONTENT [[#pragma once

inline constexpr const char* kGitCommit = "@commit@";
]] @ONLY)
