#include "lab/llama_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::lab {
namespace {

TEST(LlamaSlots, AreSavedWhereTheCommandLineSays) {
  EXPECT_EQ(SlotFolder({"/opt/llama-server", "-m", "m.gguf", "--slot-save-path", "/var/slots"}),
            "/var/slots");
  EXPECT_EQ(SlotFolder({"/opt/llama-server", "-m", "m.gguf"}), std::nullopt);
  EXPECT_EQ(SlotFolder({"/opt/llama-server", "--slot-save-path"}), std::nullopt);
  EXPECT_EQ(SlotFolder({"other", "--slot-save-path", "/var/slots"}), std::nullopt);
  EXPECT_EQ(SlotFolder({}), std::nullopt);
}

TEST(LlamaSlots, AServerThatIsNotThereIsAnError) {
  EXPECT_FALSE(LargestSlotPrefix("http://127.0.0.1:1", "/tmp", {}, MonoNow() + kNsPerSecond).ok());
}

}  // namespace
}  // namespace rouse::lab
