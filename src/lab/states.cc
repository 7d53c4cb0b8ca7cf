#include "lab/states.h"

#include <algorithm>

#include "base/units.h"
#include "lab/compile_cache_proof.h"
#include "lab/factor_proofs.h"
#include "lab/mapped_memory.h"
#include "lab/targets.h"
#include "os/proc_root.h"

namespace rouse::lab {
namespace {

using results::LayerReading;
using results::LayerReadings;

constexpr int64_t kLayerLimitNs = 30 * kNsPerSecond;
constexpr int64_t kStopLimitNs = 20 * kNsPerSecond;
constexpr int64_t kEvictLimitNs = 5 * kNsPerSecond;
constexpr int64_t kRetryNs = 50 * kNsPerMs;

std::string Name(Layer layer) { return std::string(LayerName(layer)); }

bool IsNew(const Condition& condition) { return condition.Value(Layer::kProcess) == "new"; }
bool IsLoaded(const Condition& condition) { return condition.Value(Layer::kModel) == "loaded"; }
const TargetRow& KindOf(const StateContext& context) { return RowOf(context.target.kind()); }
bool HasProcess(const StateContext& context) { return KindOf(context).owns_process; }

// Whether the server itself can be asked to load and unload, and tells its state.
bool HasModelCalls(const StateContext& context) {
  return KindOf(context).Sets(Layer::kModel) && context.target.kind() != TargetKind::kCommand;
}

// What went wrong on the way to a state, or nothing.
using Why = std::optional<std::string>;

class Builder {
 public:
  Builder(StateContext& context, const Condition& condition)
      : context_(context), condition_(condition) {}

  Result<Preparation> Run() {
    preparation_.setup.salt_text =
        SaltText(context_.block_salt ? *context_.block_salt : context_.next_salt());
    preparation_.setup.forbid_prefix =
        KindOf(context_).takes_cache_prompt && condition_.Value(Layer::kPrefixCache) == "empty";
    preparation_.setup.reuse_connection = condition_.Value(Layer::kConnection) == "reused";
    preparation_.setup.spawn_at_send = IsNew(condition_);
    using Step = Why (Builder::*)();
    for (const Step step : {&Builder::Path, &Builder::PromptLength, &Builder::Process,
                            &Builder::Model, &Builder::PageCacheLayer, &Builder::CompileCacheLayer,
                            &Builder::Primers, &Builder::Prove}) {
      if (context_.interrupted && context_.interrupted()) {
        return Error(ErrorCode::kInterrupted, "interrupted");
      }
      if (const Why why = (this->*step)()) {
        if (context_.interrupted && context_.interrupted()) {
          return Error(ErrorCode::kInterrupted, *why);  // a state that was cut is no finding
        }
        preparation_.why = *why;
        preparation_.target_died = HasProcess(context_) && started_ && !context_.target.Alive();
        return std::move(preparation_);
      }
    }
    preparation_.reached = true;
    return std::move(preparation_);
  }

 private:
  MonoTime In(int64_t limit_ns) const { return context_.clock.Now() + limit_ns; }
  void Say(std::string what, std::optional<Layer> layer = {}) const {
    if (layer) what += " (" + Name(*layer) + " = " + condition_.Value(*layer) + ")";
    if (context_.on_step) context_.on_step(what);
  }
  // Where the model's file lies is decided before anything looks at it.
  Why Path() {
    Status used = context_.target.UseModelFile("");
    context_.read_limit.reset();
    if (!condition_.path.empty()) {
      const std::string& place = context_.plan.target.paths.at(condition_.path);
      Say("putting the model's file into " + place);
      const Result<TierPlaces::Placed> placed =
          context_.places.Place(place, context_.target.model_file(), context_.interrupted);
      if (!placed.ok()) return "path " + condition_.path + ": " + placed.error().message();
      used = context_.target.UseModelFile(placed->file);
      context_.read_limit = placed->limit;
    }
    if (used.ok()) used = context_.target.LimitReads(context_.read_limit);
    return used.ok() ? Why() : Why(used.error().message());
  }

  // The server counts; a length that was found before costs nothing.
  Why PromptLength() {
    if (!condition_.prompt_tokens) return std::nullopt;
    Say("finding a prompt of " + std::to_string(*condition_.prompt_tokens) + " tokens");
    const Result<PromptLengths::Found> found = context_.prompts.Find(
        *condition_.prompt_tokens, [this](int64_t words) { return CountPrompt(words); });
    if (!found.ok()) {
      return "prompt_tokens = " + std::to_string(*condition_.prompt_tokens) + ": " +
             found.error().message();
    }
    preparation_.setup.prompt = LongPrompt(found->words, context_.plan.prompt);
    return std::nullopt;
  }

  Result<std::optional<int64_t>> CountPrompt(int64_t words) {
    if (HasProcess(context_) && !context_.target.Alive()) {
      if (const Why why = StartServer()) return Error(ErrorCode::kState, *why);
    }
    SendSetup setup;
    setup.salt_text = SaltText(context_.next_salt());
    setup.forbid_prefix = preparation_.setup.forbid_prefix;
    setup.prompt = LongPrompt(words, context_.plan.prompt);
    setup.max_tokens = 1;
    ASSIGN_OR_RETURN(const PrimerReport report, context_.send_primer(setup));
    return report.prompt_tokens;
  }

  Why Process() {
    if (!HasProcess(context_)) return std::nullopt;
    preparation_.previous_process = context_.target.Identity();
    const bool wrong_launch =
        context_.running_args != condition_.target_args || context_.running_path != condition_.path;
    if (IsNew(condition_) || (wrong_launch && context_.target.Alive())) {
      Say("ending the server", Layer::kProcess);
      const Status stopped = context_.target.Stop(In(kStopLimitNs));
      if (!stopped.ok()) return "the old server did not end: " + stopped.error().message();
    }
    if (IsNew(condition_)) {
      const Status picked = context_.target.PickPort();
      return picked.ok() ? Why() : Why(picked.error().message());
    }
    if (context_.target.Alive()) {
      started_ = true;
      return std::nullopt;
    }
    return StartServer();
  }

  // A port that another process took meanwhile is a reason to take another one, not to fail.
  Why StartServer() {
    Say("starting the server");
    Why why;
    for (int i = 0; i < 3; ++i) {
      const Status picked = context_.target.PickPort();
      if (!picked.ok()) return picked.error().message();
      const Result<MonoTime> spawned = context_.target.Spawn(condition_.target_args);
      if (!spawned.ok()) return "the server cannot be started: " + spawned.error().message();
      started_ = true;
      context_.running_args = condition_.target_args;
      context_.running_path = condition_.path;
      const Status ready = context_.target.WaitReady(In(context_.plan.timeout_ns));
      if (ready.ok()) {
        listened_after_ns_ = context_.clock.Now() - *spawned;
        return std::nullopt;
      }
      why = ready.error().message();
      if (!context_.target.PortTaken()) break;
    }
    return why;
  }

  Why Model() {
    if (!HasModelCalls(context_) || IsNew(condition_)) return std::nullopt;
    const Result<ServerState> state = context_.target.ReadState();
    if (!state.ok()) return "the server does not tell its state: " + state.error().message();
    const std::string& wanted = condition_.Value(Layer::kModel);
    if (state->model_loaded && state->ModelWord() == wanted) return std::nullopt;
    if (wanted == "asleep") return PutToSleep(*state);
    Say(IsLoaded(condition_) ? "loading the model" : "unloading the model", Layer::kModel);
    Target& target = context_.target;
    const Status done = IsLoaded(condition_) ? target.LoadModel(In(context_.plan.timeout_ns))
                                             : target.UnloadModel(In(kLayerLimitNs));
    return done.ok() ? Why() : Why(done.error().message());
  }

  // What sleeps is a model that has answered: its threads run, its buffers are there.
  Why PutToSleep(const ServerState& state) {
    if (state.model_loaded != true) {
      Say("loading the model");
      const Status loaded = context_.target.LoadModel(In(context_.plan.timeout_ns));
      if (!loaded.ok()) return loaded.error().message();
    }
    if (const Why why = PrimeOther(nullptr)) return why;
    Say("putting the model to sleep", Layer::kModel);
    const Status asleep = context_.target.SleepModel(In(kLayerLimitNs));
    return asleep.ok() ? Why() : Why(asleep.error().message());
  }

  Why PageCacheLayer() {
    const std::string file = context_.target.model_file();
    if (file.empty()) return std::nullopt;
    const std::string& wanted = condition_.Value(Layer::kPageCache);
    const double share = WantedPageCacheShare(wanted);
    if (wanted == kLockedPages) return LockPages(file);
    context_.page_lock.reset();
    if (share < 1) {
      Say("dropping the file from the page cache", Layer::kPageCache);
      if (const Why why = EvictWithin(file)) return why;
    }
    if (share == 0) return std::nullopt;
    const Result<PageCache::Share> now = context_.page_cache.Read(file, share);
    if (!now.ok()) return std::nullopt;  // the proof says what is missing
    if (now->leading_ratio >= 1) return std::nullopt;
    Say("bringing the file into the page cache", Layer::kPageCache);
    const Status warmed = context_.page_cache.Warm(file, share);
    return warmed.ok() ? Why() : Why("cannot warm the page cache: " + warmed.error().message());
  }

  // Kept from one attempt to the next: locking takes as long as reading the file.
  Why LockPages(const std::string& file) {
    if (context_.page_lock != nullptr && context_.locked_file == file) return std::nullopt;
    context_.page_lock.reset();
    Say("locking the file's pages", Layer::kPageCache);
    Result<std::unique_ptr<PageLock>> locked = context_.page_cache.Lock(file);
    if (!locked.ok()) return "cannot lock the file's pages: " + locked.error().message();
    context_.page_lock = *std::move(locked);
    context_.locked_file = file;
    return std::nullopt;
  }

  // Only before a new process: a running one has its kernels in memory (the plan is checked).
  Why CompileCacheLayer() {
    const CompileCache* const cache = context_.target.compile_cache();
    if (cache == nullptr || condition_.Value(Layer::kCompileCache) != "empty") return std::nullopt;
    Say("emptying the compile cache", Layer::kCompileCache);
    const Status emptied = cache->Empty();
    return emptied.ok() ? Why() : Why(emptied.error().message());
  }

  // Pages of a process that has just ended or unmapped the file can be in use for some time yet.
  Why EvictWithin(const std::string& file) {
    const MonoTime deadline = In(kEvictLimitNs);
    for (;;) {
      const Result<std::string> why = context_.page_cache.Evict(file);
      if (!why.ok()) return "cannot evict " + file + ": " + why.error().message();
      if (why->empty()) return std::nullopt;
      if (context_.clock.Now() >= deadline) return "cannot evict " + file + ": " + *why;
      context_.clock.SleepFor(kRetryNs);
    }
  }

  // A loaded model is warm only once it has answered: the first answer after a load touches pages
  // and starts threads. With a salt of its own the primer tells what the template puts before it.
  Why Primers() {
    if (IsNew(condition_) || !IsLoaded(condition_)) return std::nullopt;
    Say("sending the primer", Layer::kPrefixCache);
    if (condition_.Value(Layer::kPrefixCache) == "hit") return PrimeHit();
    if (const Why why = PrimeEmpty()) return why;
    const Status forgotten = context_.target.ForgetPrefixes(In(kLayerLimitNs));
    return forgotten.ok() ? Why() : Why(forgotten.error().message());
  }

  // The first one's time is kept: of a server that was just started it is the rest of its start.
  Result<PrimerReport> SendPrimer(const SendSetup& setup) {
    const MonoTime begin = context_.clock.Now();
    Result<PrimerReport> sent = context_.send_primer(setup);
    if (sent.ok() && !primer_ns_) primer_ns_ = context_.clock.Now() - begin;
    return sent;
  }

  // "listened 312 ms after its start, answered the primer in 141 ms"
  std::string ReadinessText() const {
    std::string text;
    if (listened_after_ns_) {
      text = "listened " + FormatDuration(*listened_after_ns_) + " after its start";
    }
    if (!primer_ns_) return text;
    return text + (text.empty() ? "" : ", ") + "answered the primer in " +
           FormatDuration(*primer_ns_);
  }

  Why PrimeEmpty() {
    if (preparation_.setup.forbid_prefix) return PrimeOther(nullptr);
    // What the template puts before the salt is told by the second of two prompts whose salts
    // differ: a server that has just started has nothing cached for the first.
    if (!context_.forced_prefix_tokens) {
      std::optional<int64_t> told;
      const Why why = PrimeOther(&told);
      if (why || !told) return why;
    }
    return PrimeOther(&context_.forced_prefix_tokens);
  }

  // A primer with a salt of its own; the most tokens that one found cached go to `most_cached`.
  Why PrimeOther(std::optional<int64_t>* most_cached) {
    SendSetup other = preparation_.setup;
    other.salt_text = SaltText(context_.next_salt());
    const Result<PrimerReport> sent = SendPrimer(other);
    if (!sent.ok()) return "the primer failed: " + sent.error().message();
    if (most_cached != nullptr && sent->cached_tokens) {
      *most_cached = std::max(most_cached->value_or(0), *sent->cached_tokens);
    }
    return std::nullopt;
  }

  // The second of two equal primers proves what the request will find.
  Why PrimeHit() {
    const Result<PrimerReport> first = SendPrimer(preparation_.setup);
    if (!first.ok()) return "the primer failed: " + first.error().message();
    const Result<PrimerReport> second = context_.send_primer(preparation_.setup);
    if (!second.ok()) return "the second primer failed: " + second.error().message();
    hit_ = *second;
    return std::nullopt;
  }

  Why Prove() {
    preparation_.forced_prefix_tokens = context_.forced_prefix_tokens;
    preparation_.readings = ReadWithoutContact(context_, condition_, preparation_);
    ProveModel();
    ProvePrefix();
    LayerReading connection;
    connection.wanted = condition_.Value(Layer::kConnection);
    connection.proof = "told by the request's own socket, afterwards";
    preparation_.readings[Name(Layer::kConnection)] = connection;
    const std::string why = WhyNotReached(preparation_.readings);
    return why.empty() ? Why() : Why(why);
  }

  void ProveModel() {
    LayerReading reading;
    reading.wanted = condition_.Value(Layer::kModel);
    if (IsNew(condition_)) {
      reading.value = std::string("unloaded");
      reading.proof = "no process";
      reading.reached = true;
    } else if (HasModelCalls(context_)) {
      const Result<ServerState> state = context_.target.ReadState();
      reading.proof = "the server's state";
      if (state.ok() && state->model_loaded) {
        reading.value = state->ModelWord();
        reading.reached = state->ModelWord() == reading.wanted;
        if (state->asleep) {
          ProveDropped(reading);
        } else if (!*state->model_loaded) {
          ProveUnmapped(reading);
        }
      } else {
        reading.reached = false;
        reading.detail = state.ok() ? "the server does not tell" : state.error().message();
      }
    } else {
      reading.value = std::string("loaded");
      reading.proof = "it answered the primer";
      reading.reached = IsLoaded(condition_);
    }
    if (reading.reached == true && reading.detail.empty()) reading.detail = ReadinessText();
    preparation_.readings[Name(Layer::kModel)] = reading;
  }

  // What the server says is not enough: its processes must not map the file any more either.
  // Where that can't be seen, the proof does not say so.
  void ProveUnmapped(LayerReading& reading) {
    const std::string file = context_.target.model_file();
    const std::vector<int> tree = context_.target.Tree();
    const std::string alone = "only its own word is known: ";
    if (file.empty()) {
      reading.detail = alone + "which file it maps is not (--model-file names it)";
      return;
    }
    if (tree.empty()) {
      reading.detail = alone + "its processes are another user's or on another machine";
      return;
    }
    for (const int pid : tree) {
      if (context_.page_cache.MayKnowOf(pid)) continue;
      reading.detail = alone + "what its process " + std::to_string(pid) + " maps may not be read";
      return;
    }
    reading.proof += " and no mapping of the file";
    for (const int pid : context_.page_cache.Mappers(file)) {
      if (std::find(tree.begin(), tree.end(), pid) == tree.end()) continue;
      reading.reached = false;
      reading.detail = "process " + std::to_string(pid) + " of the server still maps the file";
    }
  }

  // Asleep it maps the file still, and has none of it in its memory.
  void ProveDropped(LayerReading& reading) {
    const std::optional<int64_t> bytes = MappedResidentBytes(
        os::ProcRoot::Real(), context_.target.Tree(), context_.target.model_file());
    if (!bytes) return;
    reading.proof += " and no page of the file in its memory (smaps)";
    if (*bytes == 0) return;
    reading.reached = false;
    reading.detail = FormatBytes(*bytes) + " of the file are still in the server's memory";
  }

  void ProvePrefix() {
    LayerReading reading;
    reading.wanted = condition_.Value(Layer::kPrefixCache);
    reading.proof = "cached tokens of the answer, afterwards";
    if (hit_) {
      reading.proof = "cached tokens of the same prompt, sent just before";
      if (hit_->cached_tokens && hit_->prompt_tokens) {
        const int64_t block = KindOf(context_).block_tokens;
        const bool hit = *hit_->cached_tokens >= *hit_->prompt_tokens - block;
        reading.value = std::string(hit ? "hit" : "empty");
        reading.reached = hit;
        reading.detail = std::to_string(*hit_->cached_tokens) + " of " +
                         std::to_string(*hit_->prompt_tokens) + " tokens were cached";
      } else {
        reading.detail = "the server does not report cached tokens";
      }
    }
    preparation_.readings[Name(Layer::kPrefixCache)] = reading;
  }

  StateContext& context_;
  const Condition& condition_;
  Preparation preparation_;
  std::optional<PrimerReport> hit_;
  bool started_ = false;
  std::optional<int64_t> listened_after_ns_;  // of a server that was started for this attempt
  std::optional<int64_t> primer_ns_;
};

}  // namespace

Result<Preparation> BringAbout(StateContext& context, const Condition& condition) {
  return Builder(context, condition).Run();
}

}  // namespace rouse::lab
