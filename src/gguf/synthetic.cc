#include "gguf/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "gguf/random.h"
#include "gguf/synthetic_shape.h"
#include "gguf/synthetic_vocabulary.h"
#include "gguf/synthetic_weights.h"
#include "gguf/tensor_table.h"
#include "gguf/writer.h"

namespace rouse::gguf {
namespace {

// Tensor data is made and written in pieces of about this size.
constexpr int64_t kPieceBytes = int64_t{8} << 20;
constexpr int64_t kAlignment = 32;  // the writer's

struct Quant {
  std::string_view name;
  uint32_t type;
  uint32_t file_type;  // the engine's number for "mostly this type"
};
constexpr auto kQuants = std::to_array<Quant>({
    {"q4_0", kTypeQ4_0, 2},
    {"q8_0", kTypeQ8_0, 7},
    {"f16", kTypeF16, 1},
});

struct VocabularySize {
  std::string_view name;
  int64_t tokens;
};
// As large as Llama 3's and Llama 2's.
constexpr auto kVocabularySizes = std::to_array<VocabularySize>({
    {"128k", 128'256},
    {"32k", 32'000},
});

template <typename Table>
Result<typename Table::value_type> Lookup(const Table& table, const std::string& name,
                                          std::string_view what) {
  std::vector<std::string_view> names;
  std::string all;
  for (const auto& row : table) {
    if (row.name == name) return row;
    names.push_back(row.name);
    all += all.empty() ? "" : ", ";
    all += row.name;
  }
  std::string text = "there is no " + std::string(what) + " \"" + name + "\"";
  const std::string nearest = NearestName(name, names);
  text += nearest.empty() ? "" : " (did you mean " + nearest + "?)";
  return Error(ErrorCode::kUsage, text + "; there are " + all);
}

struct Piece {
  const SyntheticTensor* tensor = nullptr;
  size_t tensor_index = 0;
  int64_t first_block = 0;
  int64_t blocks = 0;
  int64_t padding_bytes = 0;  // after the tensor's last piece
};

std::vector<Piece> CutIntoPieces(const std::vector<SyntheticTensor>& tensors) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorType& type = *FindTensorType(tensors[i].type);
    const int64_t bytes = *TensorBytes(tensors[i].dims, type);
    const int64_t blocks = bytes / type.block_bytes;
    // A multiple of 8 blocks, for fillers that make several elements at once.
    const int64_t step = kPieceBytes / type.block_bytes / 8 * 8;
    for (int64_t at = 0; at < blocks; at += step) {
      pieces.push_back({&tensors[i], i, at, std::min(step, blocks - at), 0});
    }
    pieces.back().padding_bytes = AlignUp(bytes, kAlignment) - bytes;
  }
  return pieces;
}

std::vector<std::byte> MakePiece(const Piece& piece, uint64_t seed) {
  const TensorType& type = *FindTensorType(piece.tensor->type);
  const int64_t payload = piece.blocks * type.block_bytes;
  std::vector<std::byte> bytes(static_cast<size_t>(payload + piece.padding_bytes));
  const std::span<std::byte> span = std::span(bytes).first(static_cast<size_t>(payload));
  if (piece.tensor->kind == WeightKind::kOnes) {
    const float one = 1.0F;
    for (size_t at = 0; at < span.size(); at += sizeof one) {
      std::memcpy(span.data() + at, &one, sizeof one);
    }
    return bytes;
  }
  // 1 / sqrt(input length): outputs keep the inputs' size through all layers.
  const double deviation = 1.0 / std::sqrt(static_cast<double>(piece.tensor->dims[0]));
  FillRandom(type.id, deviation, RandomAt(seed, piece.tensor_index), piece.first_block, span);
  return bytes;
}

// Makes the next piece on a second thread while this one waits for the disk.
Status WritePieces(const std::vector<Piece>& pieces, uint64_t seed, Writer& writer,
                   const SyntheticProgressFn& progress, const std::atomic<bool>* cancel) {
  const auto start = [&](size_t index) {
    return std::async(std::launch::async, MakePiece, std::cref(pieces[index]), seed);
  };
  int64_t done_bytes = 0;
  std::future<std::vector<std::byte>> next = start(0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::vector<std::byte> bytes = next.get();
    if (i + 1 < pieces.size()) next = start(i + 1);
    if (cancel != nullptr && cancel->load()) {
      return Error(ErrorCode::kInterrupted, "interrupted; nothing was written");
    }
    RETURN_IF_ERROR(writer.WriteData(bytes));
    done_bytes += static_cast<int64_t>(bytes.size());
    if (progress) progress(done_bytes, writer.DataBytes());
  }
  return {};
}

void AddGeneralMetadata(const SyntheticShape& shape, const SyntheticSpec& spec, const Quant& quant,
                        Writer& writer) {
  writer.AddString("general.architecture", shape.architecture);
  writer.AddString("general.type", "model");
  writer.AddString("general.name", "synthetic " + std::string(shape.name));
  writer.AddString("general.description",
                   "Random weights in the shape of " + std::string(shape.description) +
                       ", written by rouse synth with seed " + std::to_string(spec.seed));
  writer.AddUint32("general.quantization_version", 2);
  writer.AddUint32("general.file_type", quant.file_type);
}

}  // namespace

Result<SyntheticReport> WriteSynthetic(const std::string& path, const SyntheticSpec& spec,
                                       const SyntheticProgressFn& progress,
                                       const std::atomic<bool>* cancel) {
  const std::vector<SyntheticShape> shapes(SyntheticShapes().begin(), SyntheticShapes().end());
  ASSIGN_OR_RETURN(const SyntheticShape shape, Lookup(shapes, spec.like, "shape"));
  ASSIGN_OR_RETURN(const Quant quant, Lookup(kQuants, spec.quant, "quantization"));
  ASSIGN_OR_RETURN(const VocabularySize size,
                   Lookup(kVocabularySizes, spec.vocabulary, "vocabulary"));

  Writer writer(path);
  AddGeneralMetadata(shape, spec, quant, writer);
  AddShapeMetadata(shape, size.tokens, writer);
  AddVocabularyMetadata(MakeVocabulary(size.tokens, spec.seed), shape.pre_tokenizer, writer);
  const std::vector<SyntheticTensor> tensors = SyntheticTensors(shape, quant.type, size.tokens);
  SyntheticReport report;
  report.vocabulary_size = size.tokens;
  for (const SyntheticTensor& tensor : tensors) {
    writer.AddTensor(tensor.name, tensor.dims, tensor.type);
    int64_t weights = 1;
    for (const int64_t dim : tensor.dims) weights *= dim;
    report.parameters += weights;
  }
  report.file_bytes = writer.TotalBytes();

  const MonoTime start = MonoNow();
  RETURN_IF_ERROR(writer.BeginData());
  RETURN_IF_ERROR(WritePieces(CutIntoPieces(tensors), spec.seed, writer, progress, cancel));
  RETURN_IF_ERROR(writer.Finish());
  report.duration_ns = MonoNow() - start;
  return report;
}

}  // namespace rouse::gguf
