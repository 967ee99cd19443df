// The end of the program while a thread that is not the main one is in a call of a worker. Python
// ends such a thread where it takes the interpreter again, which is in the middle of C++, and that
// aborts the process. So its wait ends before, with the state saved.
#pragma once

namespace causeway::python {

// While one lives, the end of the program waits for it, up to a minute. Made and destroyed with the
// GIL. Throws Stopped if the program ends already.
class InCall {
 public:
  InCall();
  ~InCall();
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;
};

// Whoever waits is to stop. Asked without the GIL.
bool program_ends();

// Called once, when the module is loaded.
void watch_program_end();

}  // namespace causeway::python
