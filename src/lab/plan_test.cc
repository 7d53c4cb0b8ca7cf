#include "lab/plan.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "lab/plan_adapt.h"

namespace rouse::lab {
namespace {

std::string ErrorOf(std::string_view toml) {
  const Result<Plan> plan = ParsePlan(toml, "plan.toml");
  if (plan.ok()) return "(accepted)";
  EXPECT_EQ(plan.error().code(), ErrorCode::kUsage);
  return plan.error().message();
}

Plan Parsed(std::string_view toml) {
  Result<Plan> plan = ParsePlan(toml, "plan.toml");
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message());
  CHECK(plan.ok());
  return *std::move(plan);
}

constexpr std::string_view kHead = "[experiment]\nname = \"x\"\n";  // two lines
constexpr std::string_view kWarm = "[[condition]]\nname = \"warm\"\n";

std::string Head(std::string_view rest) { return std::string(kHead) + std::string(rest); }
std::string Warm(std::string_view rest) {
  return std::string(kHead) + std::string(kWarm) + std::string(rest);
}

struct BadPlan {
  std::string toml;
  std::string message;
};

const std::vector<BadPlan> kBadPlans = {
    // The file as a whole.
    {"", "plan.toml:1: the plan needs a section [experiment]"},
    {"experiment = 3\n",
     "plan.toml:1: \"experiment\" in the plan must be a section [experiment], not a whole "
     "number"},
    {"[experiment]\nname = \"x\"\n", "plan.toml:1: the plan needs at least one [[condition]]"},
    {Head("[condition]\nname = \"a\"\n"),
     "plan.toml:3: \"condition\" in the plan must be written [[condition]], not a table"},
    {Warm("[conditoin]\n"),
     "plan.toml:5: unknown key \"conditoin\" in the plan (did you mean \"condition\"?); "
     "expected experiment, target, condition, hypothesis"},
    // [experiment]
    {"[experiment]\nrepeat = 3\n", "plan.toml:1: [experiment] needs \"name\": a name of its own"},
    {"[experiment]\nname = \"x\"\nrepeats = 3\n",
     "plan.toml:3: unknown key \"repeats\" in [experiment] (did you mean \"repeat\"?); expected "
     "name, repeat, seed, prompt, max_tokens, timeout, sentinel, salt, keep_answer, sample_every, "
     "verify, "
     "require_ttft, "
     "session"},
    {"[experiment]\nname = \"x\"\nrequire_ttft = \"0s\"\n",
     "plan.toml:3: \"require_ttft\" in [experiment] must be above 0"},
    {"[experiment]\nname = \"x\"\nverify = \"yes\"\n",
     "plan.toml:3: \"verify\" in [experiment] must be true or false, not a string"},
    {Head("[target]\nkind = \"command\"\ncommand = \"srv\"\n[[condition]]\nname = \"a\"\n"),
     "plan.toml:1: the command \"srv\" has no {port}: rouse chooses a free port, and the server "
     "has "
     "to be told it; expected for instance \"my-server --port {port}\""},
    {"[experiment]\nname = \"x\"\nrepeat = 0\n",
     "plan.toml:3: \"repeat\" in [experiment] must be a whole number from 1 to 100000, not 0"},
    {"[experiment]\nname = \"x\"\nrepeat = \"6\"\n",
     "plan.toml:3: \"repeat\" in [experiment] must be a whole number from 1 to 100000, not a "
     "string"},
    {"[experiment]\nname = \"x\"\nrepeat = 2.5\n",
     "plan.toml:3: \"repeat\" in [experiment] must be a whole number from 1 to 100000, not a "
     "number"},
    {"[experiment]\nname = \"x\"\nseed = -1\n",
     "plan.toml:3: \"seed\" in [experiment] must be a whole number from 0 to "
     "9223372036854775807, not -1"},
    {"[experiment]\nname = \"x\"\nprompt = \" \"\n",
     "plan.toml:3: \"prompt\" in [experiment] must not be empty"},
    {"[experiment]\nname = \"x\"\nprompt = 1979-05-27\n",
     "plan.toml:3: \"prompt\" in [experiment] must be a string, not a date or time"},
    {"[experiment]\nname = \"x\"\nmax_tokens = 0\n",
     "plan.toml:3: \"max_tokens\" in [experiment] must be a whole number from 1 to 1000000, not "
     "0"},
    {"[experiment]\nname = \"x\"\ntimeout = \"10\"\n",
     "plan.toml:3: \"timeout\" in [experiment]: \"10\" has no unit (write for example 500ms, "
     "10s, 1.5m or 8h)"},
    {"[experiment]\nname = \"x\"\ntimeout = 10\n",
     "plan.toml:3: \"timeout\" in [experiment] must be a duration such as \"10m\", not a whole "
     "number"},
    {"[experiment]\nname = \"x\"\ntimeout = \"0s\"\n",
     "plan.toml:3: \"timeout\" in [experiment] must be above 0"},
    {"[experiment]\nname = \"\"\n",
     "plan.toml:2: \"name\" in [experiment] must not be empty nor begin or end with a blank"},
    // [target]
    {Head("[target]\nkind = \"bultin\"\n"),
     "plan.toml:4: \"kind\" in [target] has no value \"bultin\" (did you mean \"builtin\"?); "
     "expected one of builtin, command, url, llama-server, ollama, llama-swap, vllm"},
    {Head("[target]\nmodle = \"m\"\n"),
     "plan.toml:4: unknown key \"modle\" in [target] (did you mean \"model\"?); expected kind, "
     "model, model_file, context, command, url, api, args, headers_env, compile_cache_env, paths"},
    {Head("[target]\nkind = \"command\"\n"),
     "plan.toml:3: [target] needs \"command\": \"my-server --port {port} --model {model}\""},
    {Head("[target]\nkind = \"url\"\n"),
     "plan.toml:3: [target] needs \"url\": \"http://127.0.0.1:8080\""},
    {Head("[target]\nkind = \"builtin\"\nurl = \"http://x\"\n"),
     "plan.toml:5: \"url\" in [target] has no meaning for kind \"builtin\""},
    {Head("[target]\nkind = \"url\"\nurl = \"htp://x\"\n"),
     "plan.toml:5: \"url\" in [target]: a URL begins with http://, https://, unix: or http+unix:// "
     "(for instance http://127.0.0.1:8080)"},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\nargs = [\"-v\"]\n"),
     "plan.toml:6: \"args\" in [target] has no meaning for kind \"url\""},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\napi = \"openai\"\n"),
     "plan.toml:6: \"api\" in [target] has no value \"openai\"; expected one of openai-chat, "
     "openai-completions, openai-responses, anthropic, ollama-generate, ollama-chat, "
     "llama-completion"},
    {Head("[target]\nargs = \"-v\"\n"),
     "plan.toml:4: \"args\" in [target] must be an array of strings, not a string"},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\nheaders_env = { A = 1 }\n"),
     "plan.toml:6: \"headers_env\" in [target] must be a table of header name to the name of an "
     "environment variable, not a whole number"},
    {Head("[target]\ncontext = 8\n"),
     "plan.toml:4: \"context\" in [target] must be a whole number from 16 to 16777216, not 8"},
    // [[condition]]
    {Head("[[condition]]\nstate = {}\n"),
     "plan.toml:3: [[condition]] needs \"name\": a name of its own"},
    {Warm("idel = \"1s\"\n"),
     "plan.toml:5: unknown key \"idel\" in condition \"warm\" (did you mean \"idle\"?); expected "
     "name, base, state, idle, prompt_tokens, concurrency, target_args, path, repeat, compound"},
    {Warm("concurrency = 0\n"),
     "plan.toml:5: \"concurrency\" in condition \"warm\" must be a whole number from 1 to 256, "
     "not 0"},
    {Warm("concurrency = \"4\"\n"),
     "plan.toml:5: \"concurrency\" in condition \"warm\" must be a whole number from 1 to 256, "
     "not a string"},
    {Warm("prompt_tokens = 0\n"),
     "plan.toml:5: \"prompt_tokens\" in condition \"warm\" must be a whole number from 1 to "
     "16777216, not 0"},
    {Warm("prompt_tokens = 2041\n"),
     "plan.toml:3: condition \"warm\": prompt_tokens = 2041 and max_tokens = 8 are more than "
     "context = 2048 in [target]"},
    {Warm("path = \"nvme\"\n"),
     "plan.toml:3: condition \"warm\": path \"nvme\" is not among paths in [target]; give it "
     "there or by --path nvme=DIR"},
    {Head("[target]\npaths = { nvme = \"/a\", hdd = \"/b\" }\n[[condition]]\nname = \"a\"\n"
          "path = \"nmve\"\n"),
     "plan.toml:5: condition \"a\": path \"nmve\" is not among paths in [target] (did you mean "
     "\"nvme\"?); give it there or by --path nmve=DIR"},
    {Head("[target]\npaths = { nvme = \"a\" }\n"),
     "plan.toml:4: \"paths\" in [target]: the directory of path \"nvme\" must be absolute, not "
     "\"a\""},
    {Head("[target]\npaths = { slow = \"simulated:200\" }\n"),
     "plan.toml:4: \"paths\" in [target]: path \"slow\" has no rate of at least 1MB/s in "
     "\"simulated:200\"; expected simulated:RATE, such as simulated:200MB/s"},
    {Head("[target]\npaths = { \"a b\" = \"/a\" }\n"),
     "plan.toml:4: \"paths\" in [target]: a path is written NAME=DIR, with a name of letters, "
     "digits, - and _, such as nvme=/mnt/nvme"},
    {Head("[target]\npaths = { nvme = 3 }\n"),
     "plan.toml:4: \"paths\" in [target] must be a table of names to directories, not a whole "
     "number"},
    {Head("[target]\nkind = \"command\"\ncommand = \"s {port}\"\npaths = { a = \"/a\" }\n"
          "[[condition]]\nname = \"a\"\npath = \"a\"\n"),
     "plan.toml:7: condition \"a\": path needs {model} in the command, where the file is named"},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\npaths = { a = \"/a\" }\n"),
     "plan.toml:6: \"paths\" in [target] has no meaning for kind \"url\""},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\n[[condition]]\nname = \"a\"\n"
          "path = \"a\"\n"),
     "plan.toml:6: condition \"a\": a server that rouse does not start cannot be told to load "
     "from another path"},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\n[[condition]]\nname = \"a\"\n"
          "target_args = [\"-t\"]\n"),
     "plan.toml:6: condition \"a\": target_args cannot be given to a server that rouse does not "
     "start"},
    {Head("salt = \"run\"\n"),
     "plan.toml:3: \"salt\" in [experiment] has no value \"run\"; expected one of attempt, "
     "block"},
    {Head("keep_answer = \"yes\"\n"),
     "plan.toml:3: \"keep_answer\" in [experiment] must be true or false, not a string"},
    {Warm("state = { page_cach = \"cold\" }\n"),
     "plan.toml:5: unknown key \"page_cach\" in state of condition \"warm\" (did you mean "
     "\"page_cache\"?); expected connection, prefix_cache, model, process, page_cache, "
     "compile_cache, memory_pressure, background"},
    {Warm("state = \"cold\"\n"),
     "plan.toml:5: \"state\" in condition \"warm\" must be a table such as { page_cache = "
     "\"cold\" }, not a string"},
    {Warm("state = { model = \"laoded\" }\n"),
     "plan.toml:5: layer \"model\" has no value \"laoded\"; expected \"loaded\" or "
     "\"asleep\" or \"unloaded\" (did you mean \"loaded\"?) in condition \"warm\""},
    {Warm("state = { page_cache = 1.5 }\n"),
     "plan.toml:5: layer \"page_cache\" has no value \"1.5\"; expected \"warm\" or \"cold\" or "
     "\"locked\", or the resident share of the leading part, such as 0.5 in condition \"warm\""},
    {Warm("state = { model = true }\n"),
     "plan.toml:5: \"model\" in state of condition \"warm\" must be a string or a number, not a "
     "boolean"},
    {Warm("state = { compile_cache = \"empty\" }\n"),
     "plan.toml:3: condition \"warm\": compile_cache = \"empty\" cannot be set on a target of "
     "kind \"builtin\": its engine computes on the CPU, which compiles nothing; expected "
     "\"kept\""},
    {Warm("state = { background = \"gpu\" }\n"),
     "plan.toml:5: layer \"background\" has no value \"gpu\"; expected \"none\" or \"cpu\" or "
     "\"disk\" or \"requests\" or \"model\" (did you mean \"cpu\"?) in condition \"warm\""},
    {Warm("state = { background = \"requests\", model = \"unloaded\" }\n"),
     "plan.toml:3: condition \"warm\": background = \"requests\" would load the model that is to "
     "be unloaded"},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\n[[condition]]\nname = \"a\"\n"
          "state = { background = \"disk\" }\n"),
     "plan.toml:6: condition \"a\": background = \"disk\" needs model_file in [target], the local "
     "file that is read"},
    {Head("[target]\nkind = \"command\"\ncommand = \"s {port}\"\n[[condition]]\nname = \"a\"\n"
          "state = { compile_cache = \"empty\", process = \"new\", model = \"unloaded\" }\n"),
     "plan.toml:6: condition \"a\": compile_cache = \"empty\" needs compile_cache_env in [target], "
     "the environment variable that tells this server where to keep compiled kernels, such as "
     "\"CUDA_CACHE_PATH\""},
    {Head("[target]\nkind = \"command\"\ncommand = \"s {port}\"\ncompile_cache_env = \"X\"\n"
          "[[condition]]\nname = \"a\"\nstate = { compile_cache = \"empty\" }\n"),
     "plan.toml:7: condition \"a\": a running server has its compiled kernels in memory: "
     "compile_cache = \"empty\" needs process = \"new\""},
    {Head("[target]\nkind = \"ollama\"\nurl = \"http://x\"\n[[condition]]\nname = \"a\"\n"
          "state = { model = \"asleep\" }\n"),
     "plan.toml:6: condition \"a\": model = \"asleep\" is a state of the built-in server, which "
     "keeps all but the weights' pages; the sleep of other servers frees the model: take model = "
     "\"unloaded\""},
    {Head("[target]\nkind = \"ollama\"\n"),
     "plan.toml:3: [target] needs \"url\": \"http://127.0.0.1:8080\""},
    {Head("sentinel = 1\n"),
     "plan.toml:3: \"sentinel\" in [experiment] must be true or false, not a whole number"},
    {Warm("idle = \"soon\"\n"),
     "plan.toml:5: \"idle\" in condition \"warm\": \"soon\" does not start with a number (write "
     "for example 500ms, 10s, 1.5m or 8h)"},
    {Warm("compound = \"yes\"\n"),
     "plan.toml:5: \"compound\" in condition \"warm\" must be true or false, not a string"},
    {Warm("compound = true\n"),
     "plan.toml:3: condition \"warm\" says compound = true but has no base"},
    {Warm(kWarm), "plan.toml:5: condition \"warm\" is declared twice, first in line 3"},
    {Warm("[[condition]]\nname = \"b\"\nbase = \"wram\"\nstate = { model = \"unloaded\" }\n"),
     "plan.toml:7: base \"wram\" of condition \"b\" is no condition above it (did you mean "
     "\"warm\"?)"},
    {Warm("[[condition]]\nname = \"b\"\nbase = \"warm\"\n"),
     "plan.toml:5: condition \"b\" is the same as its base \"warm\"; expected one changed layer, "
     "idle, prompt_tokens, concurrency, target_args or path"},
    {Warm("[[condition]]\nname = \"cold\"\nbase = \"warm\"\n"
          "state = { process = \"new\", model = \"unloaded\" }\n"),
     "plan.toml:5: condition \"cold\" differs from its base \"warm\" in two layers (model, "
     "process).\nPut a condition between them, or write compound = true to say that they are "
     "meant together."},
    {Warm("[[condition]]\nname = \"b\"\nbase = \"warm\"\nconcurrency = 4\nprompt_tokens = 99\n"
          "target_args = [\"-t\", \"1\"]\n"),
     "plan.toml:5: condition \"b\" differs from its base \"warm\" in three layers (prompt_tokens, "
     "concurrency, target_args).\nPut a condition between them, or write compound = true to say "
     "that they are meant together."},
    {Warm("[[condition]]\nname = \"b\"\nbase = \"warm\"\nidle = \"1m\"\n"
          "state = { prefix_cache = \"hit\" }\n"),
     "plan.toml:5: condition \"b\" differs from its base \"warm\" in two layers (prefix_cache, "
     "idle).\nPut a condition between them, or write compound = true to say that they are meant "
     "together."},
    {Warm("[[condition]]\nname = \"b\"\nbase = \"warm\"\ncompound = true\n"
          "state = { model = \"unloaded\" }\n"),
     "plan.toml:5: condition \"b\" says compound = true but differs from its base \"warm\" in one "
     "layer only (model); remove it"},
    // States that cannot exist.
    {Warm("state = { process = \"new\", model = \"asleep\" }\n"),
     "plan.toml:3: condition \"warm\": a new process has no model loaded: process = \"new\" needs "
     "model = \"unloaded\""},
    {Warm("state = { process = \"new\" }\n"),
     "plan.toml:3: condition \"warm\": a new process has no model loaded: process = \"new\" needs "
     "model = \"unloaded\""},
    {Warm("state = { model = \"unloaded\", prefix_cache = \"hit\" }\n"),
     "plan.toml:3: condition \"warm\": an unloaded model has lost its prefix cache: prefix_cache "
     "= \"hit\" needs model = \"loaded\""},
    {Warm("state = { process = \"new\", model = \"unloaded\", connection = \"reused\" }\n"),
     "plan.toml:3: condition \"warm\": a connection to a process that is only being started "
     "cannot be reused"},
    {Warm("state = { process = \"new\", model = \"unloaded\" }\nidle = \"1m\"\n"),
     "plan.toml:3: condition \"warm\": a process that is started by the request cannot idle "
     "before it"},
    {Warm("state = { page_cache = \"cold\" }\n"),
     "plan.toml:3: condition \"warm\": a loaded model keeps its file's pages mapped, so they "
     "cannot leave the page cache: page_cache = \"cold\" needs model = \"unloaded\""},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\n[[condition]]\nname = \"a\"\n"
          "state = { process = \"new\", model = \"unloaded\" }\n"),
     "plan.toml:6: condition \"a\": model = \"unloaded\" cannot be set on a target of kind "
     "\"url\": its load and unload calls are not known; name its kind, as in "
     "ollama:http://127.0.0.1:11434; expected \"loaded\""},
    {Head("[target]\nkind = \"url\"\nurl = \"http://x\"\n[[condition]]\nname = \"a\"\n"
          "state = { page_cache = \"cold\" }\n"),
     "plan.toml:6: condition \"a\": page_cache = \"cold\" needs model_file in [target], the local "
     "file whose pages are meant"},
    {Head("[target]\nkind = \"command\"\ncommand = \"s {port}\"\n[[condition]]\nname = \"a\"\n"
          "state = { model = \"unloaded\" }\n"),
     "plan.toml:6: condition \"a\": rouse does not know this server's unload call: on a command, "
     "model = \"unloaded\" needs process = \"new\""},
};

TEST(PlanParser, NamesFileLineKeyAndNearestNameOfEveryMistake) {
  ASSERT_GE(kBadPlans.size(), 40U);
  for (const BadPlan& bad : kBadPlans) EXPECT_EQ(ErrorOf(bad.toml), bad.message) << bad.toml;
}

TEST(PlanParser, NamesTheLineOfBrokenToml) {
  const std::string message = ErrorOf("[experiment]\nname = \"x\nrepeat = 3\n");
  EXPECT_TRUE(message.starts_with("plan.toml:2: not valid TOML: ")) << message;
  EXPECT_TRUE(ErrorOf("[experiment]\nname = \"x\"\nname = \"y\"\n").starts_with("plan.toml:3: "));
  EXPECT_TRUE(ErrorOf("\xff\xfe").starts_with("plan.toml:1: not valid TOML: "));
}

TEST(PlanParser, RefusesAPlanThatIsTooLong) {
  const std::string text = Warm("# " + std::string(1U << 20U, 'x') + "\n");
  EXPECT_EQ(ErrorOf(text), "plan.toml:1: a plan has at most 1 MiB, not 1.05 MB");
}

TEST(PlanParser, SaysThatAPlanFileIsMissing) {
  const Result<Plan> plan = LoadPlan("/nonexistent/plan.toml", {});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(plan.error().message().find("/nonexistent/plan.toml"), std::string::npos);
}

TEST(PlanParser, InheritsTheBasesStateAndNamesWhatChanged) {
  const Plan plan = Parsed(
      Warm("[[condition]]\nname = \"unloaded\"\nbase = \"warm\"\nstate = { model = \"unloaded\" }\n"
           "[[condition]]\nname = \"half\"\nbase = \"unloaded\"\nstate = { page_cache = 0.5 }\n"
           "[[condition]]\nname = \"later\"\nbase = \"half\"\nidle = \"10m\"\nrepeat = 3\n"));
  ASSERT_EQ(plan.conditions.size(), 4U);
  EXPECT_EQ(plan.conditions[0].changed, "");
  EXPECT_EQ(plan.conditions[2].changed, "page_cache");
  EXPECT_EQ(plan.conditions[2].Value(Layer::kPageCache), "0.5");
  EXPECT_EQ(plan.conditions[3].Value(Layer::kPageCache), "0.5");
  EXPECT_EQ(plan.conditions[3].Value(Layer::kModel), "unloaded");
  EXPECT_EQ(plan.conditions[3].changed, "idle");
  EXPECT_EQ(plan.conditions[3].idle_ns, 600'000'000'000);
  EXPECT_EQ(plan.conditions[3].repeat, 3);
  const std::vector<results::ConditionRow> rows = ConditionRows(plan);
  EXPECT_EQ(rows[3].state.at("model"), "unloaded");
  EXPECT_EQ(rows[3].base, "half");
}

TEST(PlanParser, AllowsSeveralChangesTogetherWhenTheyAreDeclaredCompound) {
  const Plan plan =
      Parsed(Warm("[[condition]]\nname = \"new\"\nbase = \"warm\"\ncompound = true\n"
                  "state = { process = \"new\", model = \"unloaded\" }\n"));
  EXPECT_TRUE(plan.conditions[1].compound);
  EXPECT_EQ(plan.conditions[1].changed, "model, process");
  EXPECT_TRUE(ConditionRows(plan)[1].compound);
}

TEST(PlanParser, CountsTargetArgumentsAsOneChange) {
  const Plan plan =
      Parsed(Warm("[[condition]]\nname = \"one thread\"\nbase = \"warm\"\n"
                  "target_args = [\"--threads\", \"1\"]\n"));
  EXPECT_EQ(plan.conditions[1].changed, "target_args");
  EXPECT_EQ(ConditionRows(plan)[1].state.at("target_args"), "[\"--threads\", \"1\"]");
}

TEST(PlanParser, ReadsTheContractsExample) {
  const Plan plan = Parsed(R"(
[experiment]
name = "idle ladder"
repeat = 10
seed = 42
prompt = "Reply with one word: what colour is the sky?"
max_tokens = 8
timeout = "10m"
[target]
kind = "builtin"
model = "smollm2-135m"
context = 2048
[[condition]]
name = "warm"
)"
                           "state = { process = \"running\", model = \"loaded\", "
                           "page_cache = \"warm\", prefix_cache = \"empty\", "
                           "connection = \"fresh\" }"
                           R"(
[[condition]]
name = "model unloaded"
base = "warm"
state = { model = "unloaded" }
[[condition]]
name = "process new"
base = "model unloaded"
state = { process = "new" }
[[condition]]
name = "page cache cold"
base = "process new"
state = { page_cache = "cold" }
[[condition]]
name = "idle 10 min"
base = "warm"
idle = "10m"
[[hypothesis]]
name = "page cache is what idle loses"
metric = "ttft"
statistic = "median"
treatment = "page cache cold"
control = "process new"
expect = "increase"
margin = "100ms"
confidence = 0.95
guard = ["failure_rate<=0.05", "cotenant_slowdown<=0.10"]
)");
  EXPECT_EQ(plan.seed, 42U);
  EXPECT_EQ(plan.conditions.size(), 5U);
  ASSERT_EQ(plan.hypotheses.size(), 1U);
  EXPECT_EQ(plan.hypotheses[0].guards.size(), 2U);
}

TEST(CanonicalPlan, ParsesToThePlanThatItCameFrom) {
  std::vector<std::string> texts;
  for (const Preset& preset : Presets()) {
    texts.emplace_back(PlanFromPreset(preset, {})->plan.toml);
  }
  texts.push_back(Warm(
      "[[condition]]\nname = \"say \\\"x\\\" \\\\\"\nbase = \"warm\"\nidle = \"1.5s\"\nrepeat = 2\n"
      "[[hypothesis]]\nname = \"h\"\ntreatment = \"warm\"\ncontrol = \"say \\\"x\\\" \\\\\"\n"
      "expect = \"equal\"\nmargin = \"3.5%\"\nconfidence = 0.9\nguard = "
      "[\"failure_rate<=0.1\"]\n"));
  texts.push_back(Head(
      "seed = 9\nprompt = \"a\\tb\\u0001\\u00e9\"\n[target]\nkind = \"command\"\nmodel = \"m\"\n"
      "command = \"s --port {port}\"\nargs = [\"-v\"]\nheaders_env = { Authorization = \"KEY\" }\n"
      "[[condition]]\nname = \"a\"\ntarget_args = [\"-x\"]\n"
      "[[condition]]\nname = \"b\"\nbase = \"a\"\ntarget_args = []\n"));
  for (const std::string& text : texts) {
    const Plan plan = Parsed(text);
    const std::string canonical = CanonicalPlan(plan);
    EXPECT_EQ(CanonicalPlan(Parsed(canonical)), canonical);
    EXPECT_EQ(PlanHash(Parsed(canonical)), PlanHash(plan));
  }
}

TEST(PlanParser, TakesAnApiForEveryKindOfTarget) {
  const Plan plan =
      Parsed(Head("[target]\napi = \"openai-completions\"\n[[condition]]\nname = \"a\"\n"));
  EXPECT_EQ(plan.target.api, "openai-completions");
  EXPECT_EQ(Parsed(CanonicalPlan(plan)).target.api, "openai-completions");
}

TEST(PlanHash, IgnoresCommentsAndOrderOfKeysAndSeesEveryMeaning) {
  const std::string base = PlanHash(Parsed(Warm("")));
  EXPECT_EQ(base.size(), 64U);
  EXPECT_EQ(PlanHash(Parsed("# hello\n[[condition]]\nname = \"warm\"\n[experiment]\nrepeat = 6\n"
                            "name=\"x\"\n")),
            base);
  EXPECT_NE(PlanHash(Parsed(Warm("idle = \"1s\"\n"))), base);
  EXPECT_NE(PlanHash(Parsed(Warm("repeat = 7\n"))), base);
  EXPECT_NE(PlanHash(Parsed(Warm("state = { model = \"unloaded\" }\n"))), base);
  EXPECT_NE(PlanHash(Parsed(Head("max_tokens = 9\n" + std::string(kWarm)))), base);
  EXPECT_NE(PlanHash(Parsed(Head("seed = 1\n" + std::string(kWarm)))), base);
}

TEST(PlanHash, IsTheSha256OfTheCanonicalForm) {
  // printf of the canonical form through coreutils' sha256sum.
  const Plan plan = Parsed(Warm(""));
  EXPECT_EQ(CanonicalPlan(plan),
            "[experiment]\nname = \"x\"\nrepeat = 6\n"
            "prompt = \"Reply with one word: what colour is the sky?\"\nmax_tokens = 8\n"
            "timeout = \"10min\"\n\n[target]\nkind = \"builtin\"\n"
            "model = \"smollm2-135m\"\ncontext = 2048\n\n[[condition]]\nname = \"warm\"\n"
            "state = { connection = \"fresh\", prefix_cache = \"empty\", model = \"loaded\", "
            "process = \"running\", page_cache = \"warm\", compile_cache = \"kept\", "
            "memory_pressure = \"none\", background = \"none\" }\n");
  EXPECT_EQ(PlanHash(plan), "d214f03458ba74dc8b65da26e6fc322505af19f812399830ef32fcac570acd05");
}

TEST(Overrides, ChangeThePlanAsItsKeysWould) {
  Plan plan = Parsed(Warm("repeat = 9\n"));
  PlanOverrides overrides;
  overrides.repeat = 2;
  overrides.seed = 77;
  overrides.model = "other.gguf";
  ASSERT_TRUE(ApplyOverrides(overrides, plan).ok());
  EXPECT_EQ(plan.repeat, 2);
  EXPECT_FALSE(plan.conditions[0].repeat.has_value());
  EXPECT_EQ(plan.target.model, "other.gguf");
  EXPECT_EQ(PlanHash(Parsed(plan.toml)), PlanHash(plan));
}

TEST(Overrides, KeepThePlansOwnTextWhenThereAreNone) {
  Plan plan = Parsed(Warm("# a remark\n"));
  ASSERT_TRUE(ApplyOverrides({}, plan).ok());
  EXPECT_NE(plan.toml.find("# a remark"), std::string::npos);
}

TEST(Overrides, MakeAConditionWhoseBaseIsLeftOutARootWithItsWholeState) {
  Plan plan = Parsed(FindPreset("quick")->toml);
  PlanOverrides overrides;
  overrides.only = {"page cache cold"};
  ASSERT_TRUE(ApplyOverrides(overrides, plan).ok());
  ASSERT_EQ(plan.conditions.size(), 1U);
  EXPECT_EQ(plan.conditions[0].base, "");
  EXPECT_EQ(plan.conditions[0].Value(Layer::kProcess), "new");
  EXPECT_EQ(CanonicalPlan(Parsed(plan.toml)), plan.toml);
}

TEST(Overrides, NameTheNearestConditionForOnly) {
  Plan plan = Parsed(FindPreset("quick")->toml);
  PlanOverrides overrides;
  overrides.only = {"page cache clod"};
  EXPECT_EQ(ApplyOverrides(overrides, plan).error().message(),
            "--only: the plan has no condition \"page cache clod\" (did you mean \"page cache "
            "cold\"?); it has warm, prefix hit, model unloaded, process new, page cache cold");
}

TEST(Overrides, ReplaceIdleConditionsByTheTimesOfTheFlag) {
  Plan plan =
      Parsed(Warm("[[condition]]\nname = \"idle 10 min\"\nbase = \"warm\"\nidle = \"10m\"\n"));
  PlanOverrides overrides;
  overrides.idle = "0s, 20s,1h";
  ASSERT_TRUE(ApplyOverrides(overrides, plan).ok());
  ASSERT_EQ(plan.conditions.size(), 3U);
  EXPECT_EQ(plan.conditions[1].name, "idle 20 s");
  EXPECT_EQ(plan.conditions[2].name, "idle 1 h");
  EXPECT_EQ(plan.conditions[2].idle_ns, 3'600'000'000'000);
  overrides.idle = "1 parsec";
  EXPECT_FALSE(ApplyOverrides(overrides, plan).ok());
}

TEST(Overrides, RefuseATargetThatCannotReachTheStates) {
  Plan plan = Parsed(FindPreset("quick")->toml);
  PlanOverrides overrides;
  overrides.target = "http://127.0.0.1:8080";
  const std::string why = ApplyOverrides(overrides, plan).error().message();
  EXPECT_TRUE(why.starts_with("condition \"model unloaded\": model = \"unloaded\" cannot be set"));
  plan = Parsed(FindPreset("quick")->toml);
  overrides.only = {"warm", "prefix hit"};
  EXPECT_TRUE(ApplyOverrides(overrides, plan).ok());
  overrides.target = "ftp";
  EXPECT_FALSE(ApplyOverrides(overrides, plan).ok());
}

TEST(Presets, AreAllValidPlansAndFoundByName) {
  ASSERT_FALSE(Presets().empty());
  for (const Preset& preset : Presets()) {
    const Result<AdaptedPlan> adapted = PlanFromPreset(preset, {});
    ASSERT_TRUE(adapted.ok()) << adapted.error().message();
    const Plan& plan = adapted->plan;
    EXPECT_EQ(plan.name, preset.name);
    EXPECT_FALSE(preset.summary.empty());
  }
  EXPECT_EQ(FindPreset("quik").error().message(),
            "unknown preset \"quik\" (did you mean \"quick\"?); there are: quick, layers, idle, "
            "storage, prompt, "
            "load, kv, verify");
}

TEST(Presets, QuickIsTheLadderOfOneLayerAStep) {
  const Plan plan = Parsed(FindPreset("quick")->toml);
  EXPECT_EQ(plan.repeat, 6);
  ASSERT_EQ(plan.conditions.size(), 5U);
  const std::vector<std::pair<std::string, std::string>> expected = {{"", ""},
                                                                     {"warm", "prefix_cache"},
                                                                     {"warm", "model"},
                                                                     {"model unloaded", "process"},
                                                                     {"process new", "page_cache"}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(plan.conditions[i].base, expected[i].first);
    EXPECT_EQ(plan.conditions[i].changed, expected[i].second);
  }
}

}  // namespace
}  // namespace rouse::lab
