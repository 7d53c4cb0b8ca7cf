#include "engine/llama_runtime.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/engine.h"
#include "llama.h"

namespace rouse::engine {
namespace {

TEST(LogCollector, QuotesTheFirstErrorWithoutTheFunctionsName) {
  LogCollector log;
  log.Add(GGML_LOG_LEVEL_WARN, "some_function: a warning\n");
  log.Add(GGML_LOG_LEVEL_ERROR, "llama_model_load: error loading model: no such thing\n");
  log.Add(GGML_LOG_LEVEL_ERROR, "llama_model_load_from_file_impl: failed to load model\n");
  EXPECT_EQ(log.Reason("?"), "no such thing");
}

TEST(LogCollector, JoinsALineThatCameInPieces) {
  LogCollector log;
  log.Add(GGML_LOG_LEVEL_WARN, "half ");
  EXPECT_EQ(log.Reason("?"), "?");
  log.Add(GGML_LOG_LEVEL_WARN, "a line\n");
  EXPECT_EQ(log.Reason("?"), "half a line");
}

TEST(LoadError, TellsNoMemoryFromAFileThatCannotBeUsed) {
  const Error memory = LoadError("cannot load x: ", "vocabulary: std::bad_alloc");
  EXPECT_EQ(memory.code(), ErrorCode::kExhausted);
  EXPECT_EQ(memory.message(), "cannot load x: out of memory");
  const Error file = LoadError("cannot load x: ", "no such thing");
  EXPECT_EQ(file.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(file.message(), "cannot load x: no such thing");
}

TEST(LogCollector, SumsBufferSizesByKindAndOwner) {
  LogCollector log;
  log.Add(GGML_LOG_LEVEL_INFO, "load_tensors:   CPU_Mapped model buffer size =    92.00 MiB\n");
  log.Add(GGML_LOG_LEVEL_INFO, "load_tensors:          CPU model buffer size =     1.50 MiB\n");
  log.Add(GGML_LOG_LEVEL_INFO, "llama_kv_cache:        CPU KV buffer size =    45.00 MiB\n");
  log.Add(GGML_LOG_LEVEL_INFO, "llama_kv_cache: broken KV buffer size =    x MiB\n");
  EXPECT_EQ(log.BufferBytes("model"), 93.5 * 1024 * 1024);
  EXPECT_EQ(log.BufferBytes("model", "Mapped"), 92 * 1024 * 1024);
  EXPECT_EQ(log.BufferBytes("KV"), 45 * 1024 * 1024);
  EXPECT_EQ(log.BufferBytes("compute"), std::nullopt);
}

TEST(LogCollector, KnowsWhatAContextWasMadeOf) {
  LogCollector log;
  EXPECT_EQ(log.FlashAttention(), std::nullopt);
  log.Add(GGML_LOG_LEVEL_INFO, "llama_context: flash_attn            = auto\n");
  EXPECT_EQ(log.FlashAttention(), std::nullopt) << "not yet decided";
  log.Add(GGML_LOG_LEVEL_INFO,
          "llama_kv_cache: size =   23.91 MiB (  1024 cells,  30 layers,  1/1 seqs), K (q8_0):   "
          "11.95 MiB, V (q4_0):   11.95 MiB\n");
  log.Add(GGML_LOG_LEVEL_INFO, "resolve_fused_ops: Flash Attention enabled\n");
  EXPECT_EQ(log.FlashAttention(), true);
  EXPECT_EQ(log.CacheType('K'), "q8_0");
  EXPECT_EQ(log.CacheType('V'), "q4_0");
  log.Add(GGML_LOG_LEVEL_WARN,
          "resolve_fused_ops: Flash Attention not supported, set to disabled\n");
  EXPECT_EQ(log.FlashAttention(), false);
}

TEST(LogCollector, HearsItsOwnThreadOnly) {
  EnsureRuntime();
  LogCollector log;
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  std::thread([&] { llama_model_load_from_file("/nonexistent/other.gguf", params); }).join();
  EXPECT_EQ(log.Reason("silent"), "silent");
  llama_model_load_from_file("/nonexistent/own.gguf", params);
  EXPECT_NE(log.Reason("silent").find("own.gguf"), std::string::npos) << log.Reason("silent");
}

TEST(AbortGuard, TurnsAFailedAssertionIntoAnException) {
  EnsureRuntime();
  const AbortGuard guard;
  try {
    ggml_abort("/some/folder/file.cpp", 12, "the number is %d", 23);
  } catch (const std::exception& e) {
    EXPECT_STREQ(e.what(), "file.cpp:12: the number is 23");
  }
}

TEST(AbortGuardDeathTest, LeavesOtherThreadsAlone) {
  EnsureRuntime();
  const AbortGuard guard;
  EXPECT_DEATH(std::thread([] { ggml_abort("file.cpp", 12, "boom"); }).join(), "boom");
}

TEST(EngineInfo, NamesTheLibraryAndItsBackends) {
  const EngineInfo info = GetEngineInfo();
  EXPECT_EQ(info.name, "llama.cpp");
  EXPECT_FALSE(info.version.empty());
  ASSERT_FALSE(info.backends.empty());
  EXPECT_EQ(info.gpu_offload, llama_supports_gpu_offload());
}

}  // namespace
}  // namespace rouse::engine
