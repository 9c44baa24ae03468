#pragma once

namespace tilemesh::cli {

/// Makes the process fit for what its surroundings do to it; to be called first. Standard streams
/// that are closed are kept from becoming the numbers of files. A broken pipe and a file beyond the
/// limit are errors of the write, not signals. Signals that end the process remove what is being
/// written first. A mapped file that others make shorter ends in exit code 1, with a message.
void prepare_process();

}  // namespace tilemesh::cli
