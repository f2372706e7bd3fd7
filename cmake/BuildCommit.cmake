# Writes the commit that SOURCE is at into HEADER, at build time, if it is another than before:
#   cmake -D SOURCE=... -D HEADER=... -P BuildCommit.cmake
execute_process(
  COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
# Sources without git have none.
if(failed OR NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit "")
endif()
file(CONFIGURE OUTPUT "${HEADER}" CONTENT "#define HOLDFAST_BUILD_COMMIT \"${commit}\"\n" @ONLY)
