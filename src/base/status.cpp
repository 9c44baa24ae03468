#include "tilemesh/base/status.hpp"

#include <string>

namespace tilemesh {

Status Status::from_exception(const std::exception_ptr& exception, ErrorCode fallback) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::out_of_memory, "the host's memory is exhausted");
  } catch (const std::exception& error) {
    return Error(fallback, error.what());
  } catch (...) {
    return Error(fallback, "an exception that is no std::exception");
  }
}

}  // namespace tilemesh
