// Where this library lies on disk, and what was installed with it. Everything is found relative to
// the library, so an installed tree can be moved.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hipflash::jit {

// The folder of the shared library, or of the program that the archive was linked into. Empty when
// the system does not tell.
std::filesystem::path library_folder();

// The folder of the running program. Empty when the system does not tell.
std::filesystem::path program_folder();

// The folders of prebuilt kernels that the build of hipflash made: those that are there.
std::vector<std::string> installed_prebuilt_folders();

// Where packs beside the library go: hipflash/prebuilt in the folder of the libraries, whether it
// is there or not. Empty when the system does not tell.
std::string library_pack_folder();

// Where the user's own packs go: $XDG_DATA_HOME/hipflash/packs, else ~/.local/share/hipflash/packs.
// Empty when the user has no home.
std::string user_pack_folder();

}  // namespace hipflash::jit
