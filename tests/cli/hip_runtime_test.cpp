// The hip platform over runtimes of several versions: stand-ins that a test compiles, whose device
// properties have the layout of their version, and the real one of this machine if there is one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace hipflash::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Only what is called before anything is launched does something.
constexpr const char* kRuntime = R"(
#include <cstring>
extern "C" {
int hipInit(unsigned) { return DEVICES ? 0 : 100; }
int hipRuntimeGetVersion(int* v) { *v = MAJOR * 10000000 + 200000; return 0; }
const char* hipGetErrorString(int e) { return e == 100 ? "no ROCm-capable device is detected" : "?"; }
int hipGetDeviceCount(int* n) { *n = DEVICES; return DEVICES ? 0 : 100; }
int hipDeviceGetName(char* s, int, int) { std::strcpy(s, "A card"); return 0; }
int hipDeviceTotalMem(unsigned long* n, int) { *n = 1ul << 33; return 0; }
int hipDeviceGetAttribute(int* v, int a, int) { *v = a == 63 ? 110 : a == 87 ? 64 : 0; return 0; }
#if MAJOR >= 6
int hipGetDevicePropertiesR0600(char* p, int) { std::strcpy(p + 1160, "gfx942:sramecc+:xnack-"); return 0; }
#endif
int hipGetDeviceProperties(char* p, int) { std::strcpy(p + 396, "gfx90a:sramecc+:xnack-"); return 0; }
#define NOT_CALLED(name) int name() { return 1; }
NOT_CALLED(hipGetDevice) NOT_CALLED(hipSetDevice) NOT_CALLED(hipModuleLoadData)
NOT_CALLED(hipModuleUnload) NOT_CALLED(hipModuleGetFunction) NOT_CALLED(hipModuleLaunchKernel)
NOT_CALLED(hipStreamIsCapturing) NOT_CALLED(hipPointerGetAttributes) NOT_CALLED(hipMalloc)
NOT_CALLED(hipFree) NOT_CALLED(hipMallocAsync) NOT_CALLED(hipFreeAsync) NOT_CALLED(hipMemset)
NOT_CALLED(hipMemcpy) NOT_CALLED(hipDeviceSynchronize) NOT_CALLED(hipEventCreate)
NOT_CALLED(hipEventRecord) NOT_CALLED(hipEventSynchronize) NOT_CALLED(hipEventElapsedTime)
NOT_CALLED(hipEventDestroy)
}
)";

class HipRuntime : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "hipflash hip XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void install(int major, int devices) const {
    std::ofstream(folder_ / "hip.cpp") << kRuntime;
    const std::string command =
        "cd '" + folder_.string() +
        "' && rm -f *.so.* && c++ -shared -fPIC -w -DMAJOR=" + std::to_string(major) +
        " -DDEVICES=" + std::to_string(devices) + " hip.cpp -o libamdhip64.so.7";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }

  // What the command prints, on both streams.
  std::string run(const std::string& line) const {
    const std::string command = "cd '" + folder_.string() +
                                "' && LD_LIBRARY_PATH=. HIPFLASH_DEVICE= " +
                                "HIPFLASH_CACHE_DIR=cache '" HIPFLASH_BINARY_DIR "/bin/hipflash' " +
                                line + " >out.txt 2>&1";
    EXPECT_NE(std::system(command.c_str()), -1);
    std::ifstream file(folder_ / "out.txt");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

TEST_F(HipRuntime, EveryKnownVersionNamesItsArchitecture) {
  for (const int major : {5, 6, 7}) {
    install(major, 2);
    const json info = json::parse(run("info --json"));
    const json& first = info["devices"][0];
    EXPECT_EQ(first["id"], "hip:0") << info;
    EXPECT_EQ(first["arch"], major == 5 ? "gfx90a:sramecc+:xnack-" : "gfx942:sramecc+:xnack-");
    EXPECT_EQ(first["name"], "A card");
    EXPECT_EQ(first["compute_units"], 110);
    EXPECT_EQ(info["devices"][1]["id"], "hip:1");
  }
}

TEST_F(HipRuntime, AnUnknownVersionIsRefused) {
  install(8, 1);
  const std::string line = "bench --device hip:0";
  EXPECT_NE(run(line).find("NoDevice: hip: the HIP runtime is version 8"), std::string::npos)
      << run(line);
}

TEST_F(HipRuntime, WithoutADeviceSaysSo) {
  install(6, 0);
  const std::string words = run("bench --device hip:0");
  EXPECT_NE(words.find("NoDevice: hip"), std::string::npos) << words;
  EXPECT_NE(words.find("no ROCm-capable device"), std::string::npos) << words;
}

TEST_F(HipRuntime, OfThisMachineGivesADeviceOrAReason) {
  const std::string words = run("explain --device hip:0 --heads 4 --seq 64 --head-dim 64");
  if (words.find("NoDevice: hip") == std::string::npos) {
    EXPECT_NE(words.find("gfx"), std::string::npos) << words;
  } else {
    EXPECT_GT(words.size(), std::string("NoDevice: hip: ").size() + 20) << words;
  }
}

}  // namespace
}  // namespace hipflash::cli
