/* The C functions of the static library. */
#include <causeway/causeway.h>
#include <stdio.h>

int main(void) {
  causeway_worker* worker = NULL;
  const int status = causeway_worker_open(NULL, NULL, 0, &worker);
  printf("%s, status %d: %s\n", causeway_version(), status, causeway_last_error());
  return status == CAUSEWAY_WRONG_CALL ? 0 : 1;
}
