// The C API in terms of the C++ one. What is thrown ends here, as a status and a text.
#include "intra/c_api/causeway.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "diloco/files/error.h"
#include "inter/base/error.h"
#include "inter/base/text.h"
#include "intra/base/error.h"
#include "intra/worker/worker.h"

struct causeway_worker {
  causeway::Worker worker;
};

namespace {

using causeway::ParameterView;

constexpr std::size_t kStepsBefore = offsetof(causeway_steps, run_steps);

// Nothing is allocated when memory is what is missing.
thread_local char last_error[2048] = "";

int fail(int status, const char* why) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", why);
  return status;
}

int status_of(const std::error_code& code) noexcept {
  using causeway::diloco::Errc;
  if (code == std::errc::operation_canceled) return CAUSEWAY_STOPPED;
  if (code == Errc::divergence) return CAUSEWAY_DIVERGED;
  if (code == Errc::lineage || code == Errc::config_mismatch || causeway::inter::is_refusal(code))
    return CAUSEWAY_REFUSED;
  if (code == causeway::intra::Errc::bad_checkpoint) return CAUSEWAY_BAD_STATE;
  const bool of_the_system =
      code.category() == std::generic_category() || code.category() == std::system_category();
  return of_the_system ? CAUSEWAY_SYSTEM_ERROR : CAUSEWAY_FAILED;
}

template <typename Call>
int guarded(const Call& call) noexcept {
  try {
    return call();
  } catch (const std::system_error& error) {
    try {
      const std::string text = causeway::inter::printable(causeway::intra::message_of(error));
      return fail(status_of(error.code()), text.c_str());
    } catch (...) {
      return fail(status_of(error.code()), error.what());
    }
  } catch (const std::logic_error& error) {
    return fail(CAUSEWAY_WRONG_CALL, error.what());
  } catch (const std::bad_alloc&) {
    return fail(CAUSEWAY_SYSTEM_ERROR, "out of memory");
  } catch (const std::exception& error) {
    return fail(CAUSEWAY_FAILED, error.what());
  } catch (...) {
    return fail(CAUSEWAY_FAILED, "keep_waiting threw something");
  }
}

// ---- What callers give ----

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument(why);
}

template <typename Pointer>
Pointer checked(Pointer pointer, const char* name) {
  if (pointer == nullptr) refuse(std::string(name) + " is a null pointer");
  return pointer;
}

// `older`: the size that the struct had before it grew. The caller's has no more members then.
template <typename Struct>
const Struct& checked_struct(const Struct* given, const std::string& name,
                             std::size_t older = sizeof(Struct)) {
  const std::size_t size = checked(given, name.c_str())->struct_size;
  if (size == sizeof(Struct) || size == older) return *given;
  const std::string said = fmt::format("{}.struct_size is {}", name, size);
  if (size > sizeof(Struct)) {
    refuse(fmt::format("{}{}{}: build the program with the header of the library that it runs with",
                       said, ", which is more than this library (" CAUSEWAY_VERSION ") knows, ",
                       sizeof(Struct)));
  }
  refuse(fmt::format("{}: set it to sizeof the struct, which is {}", said, sizeof(Struct)));
}

std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

std::vector<std::int64_t> numbers(const std::int64_t* first, std::size_t count) {
  return {first, first + count};
}

std::vector<ParameterView> views_of(const causeway_tensor* tensors, std::size_t count) {
  if (count > 0) checked(tensors, "tensors");
  std::vector<ParameterView> views;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("tensors[{}]", i);
    const causeway_tensor& tensor = checked_struct(&tensors[i], name);
    ParameterView view{.data = tensor.data, .shape = {}, .strides = {}};
    if (tensor.dimensions > 0) {
      checked(tensor.shape, (name + ".shape").c_str());
      view.shape = numbers(tensor.shape, tensor.dimensions);
      if (tensor.strides != nullptr) view.strides = numbers(tensor.strides, tensor.dimensions);
    }
    views.push_back(std::move(view));
  }
  return views;
}

causeway::WorkerSettings settings_of(const causeway_settings* given, const causeway_tensor* tensors,
                                     std::span<const ParameterView> views) {
  const causeway_settings& from = checked_struct(given, "settings");
  causeway::WorkerSettings settings;
  settings.region = text_or_empty(from.region);
  settings.directory = text_or_empty(from.directory);
  settings.coordinator = text_or_empty(from.coordinator);
  settings.certificates = text_or_empty(from.certificates);
  settings.validates = from.validates != 0;
  if (from.samples_per_step > 0) settings.samples_per_step = from.samples_per_step;
  settings.tokens_per_step = from.tokens_per_step;
  if (from.save_rounds > 0) settings.save_rounds = from.save_rounds;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::string name = fmt::format("tensors[{}].name", i);
    settings.tensors.push_back({checked(tensors[i].name, name.c_str()), views[i].shape});
  }
  if (from.keep_waiting != nullptr) {
    settings.keep_waiting = [call = from.keep_waiting,
                             context = from.context](const std::string& what) {
      return call(context, what.c_str()) != 0;
    };
  }
  return settings;
}

void put(const causeway::Steps& steps, causeway_steps* out) {
  const causeway_steps told{.struct_size = out->struct_size,
                            .round = steps.round,
                            .first_sample = steps.first_sample,
                            .schedule_step = steps.schedule_step,
                            .pass = steps.pass,
                            .pass_begin = steps.pass_begin,
                            .part = steps.part,
                            .parts = steps.parts,
                            .validation_samples = steps.validation_samples,
                            .count = steps.count,
                            .reserved = 0,
                            .run_steps = steps.run_steps};
  std::memcpy(out, &told, told.struct_size);
}

}  // namespace

const char* causeway_last_error() {
  return last_error;
}

const char* causeway_version() {
  return CAUSEWAY_VERSION;
}

int causeway_worker_open(const causeway_settings* settings, const causeway_tensor* tensors,
                         size_t count, causeway_worker** worker) {
  return guarded([&] {
    *checked(worker, "worker") = nullptr;
    const std::vector<ParameterView> views = views_of(tensors, count);
    // Not moved: a worker stays where it is made.
    *worker = new causeway_worker{causeway::Worker(settings_of(settings, tensors, views), views)};
    return CAUSEWAY_OK;
  });
}

void causeway_worker_close(causeway_worker* worker) {
  guarded([worker] {
    delete worker;
    return CAUSEWAY_OK;
  });
}

int causeway_worker_next(causeway_worker* worker, const causeway_tensor* tensors, size_t count,
                         causeway_steps* steps) {
  return guarded([&] {
    checked(worker, "worker");
    checked_struct(steps, "steps", kStepsBefore);
    const auto told = worker->worker.next(views_of(tensors, count));
    put(told.value_or(causeway::Steps{}), steps);
    return told ? CAUSEWAY_OK : CAUSEWAY_RUN_OVER;
  });
}

int causeway_worker_called_back(causeway_worker* worker, int* called_back) {
  return guarded([&] {
    checked(worker, "worker");
    checked(called_back, "called_back");
    *called_back = worker->worker.called_back() ? 1 : 0;
    return CAUSEWAY_OK;
  });
}

int causeway_worker_done(causeway_worker* worker, const causeway_tensor* tensors, size_t count,
                         uint32_t taken, double loss) {
  return guarded([&] {
    checked(worker, "worker")->worker.done(views_of(tensors, count), taken, loss);
    return CAUSEWAY_OK;
  });
}

int causeway_worker_validated(causeway_worker* worker, double loss) {
  return guarded([&] {
    checked(worker, "worker")->worker.validated(loss);
    return CAUSEWAY_OK;
  });
}
