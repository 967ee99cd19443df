// How OpenMP's threads wait, however this program was started.
#pragma once

namespace causeway::run {

// Begins this program anew, with the same `arguments` (argv) and OMP_WAIT_POLICY=passive, unless
// OMP_WAIT_POLICY or GOMP_SPINCOUNT is set. Threads that spin while they wait take the cores from
// whatever else runs there, and a step then takes many times as long. OpenMP reads these variables
// before main() begins, so nothing less helps. Returns where there is nothing to do, or it fails.
void wait_passively(char** arguments);

}  // namespace causeway::run
