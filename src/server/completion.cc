#include "server/completion.h"

#include <algorithm>
#include <utility>

#include "server/api_error.h"
#include "server/completion_response.h"

namespace rouse::server {
namespace {

std::string PromptField(const CompletionRequest& request) {
  return request.kind == CompletionKind::kChat ? "messages" : "prompt";
}

class CompletionRun {
 public:
  CompletionRun(Job& job, const CompletionContext& context,
                const std::function<void(const CompletionResult&)>& account)
      : job_(job),
        context_(context),
        account_(account),
        format_(MakeIdentity(job.request.kind, context.model_id), job.request.include_usage) {
    marks_.start = job.times.Start();
    marks_.taken = context.taken;
  }

  void Run() {
    // Where the prompt was prepared beside a load, that is in the load's steps.
    marks_.tokenize_start = std::max(context_.taken, context_.prompt.start);
    marks_.tokenize_end = std::max(context_.taken, context_.prompt.end);
    if (const auto refusal = TooLong(std::ssize(context_.prompt.tokens))) return Fail(*refusal);
    engine::GenerateRequest generate;
    generate.prompt = context_.prompt.tokens;
    generate.sampling = job_.request.sampling;
    generate.max_tokens = job_.request.max_tokens;
    generate.stop = job_.request.stop;
    generate.ignore_end = job_.request.ignore_end;
    generate.cache_prompt = job_.request.cache_prompt;
    const auto report = context_.engine->Generate(
        generate, [this](const engine::Piece& piece) { return Give(piece); },
        job_.stop.get_token());
    if (const std::optional<Error> broken = Broken()) return Fail(FromEngineError(*broken));
    if (!report.ok()) return Fail(FromEngineError(report.error()));
    return Finish(*report);
  }

  void Fail(const ApiError& error) {
    CompletionResult result;
    result.outcome = error.status < 500 ? RequestOutcome::kRefused : RequestOutcome::kFailed;
    result.problem = error.message;
    result.first_written = marks_.first_written;
    if (job_.writer->ClientGone()) result.outcome = RequestOutcome::kCancelled;
    account_(result);
    if (begun_) {
      job_.writer->Write("data: " + ErrorJson(error) + "\n\n");
      job_.writer->End();
    } else {
      job_.writer->Send(ErrorResponse(error));
    }
  }

 private:
  std::optional<Error> Broken() const { return context_.broken ? context_.broken() : std::nullopt; }

  // The answer needs room for at least one token.
  std::optional<ApiError> TooLong(int64_t prompt_tokens) const {
    const auto context_tokens = context_.engine->Facts()->context_tokens;
    if (!context_tokens || prompt_tokens < *context_tokens) return std::nullopt;
    return ApiError{.status = 400,
                    .message = "the prompt has " + std::to_string(prompt_tokens) +
                               " tokens, but the context holds " + std::to_string(*context_tokens) +
                               " for prompt and answer together (see --context)",
                    .param = PromptField(job_.request),
                    .code = "context_length_exceeded"};
  }

  // The engine's sink.
  bool Give(const engine::Piece& piece) {
    // Never a token that was computed from zeros.
    if (Broken()) return false;
    if (!job_.request.stream) {
      text_ += piece.text;
      if (!marks_.first_written) marks_.first_written = MonoNow();
      return !job_.writer->ClientGone();
    }
    if (begun_) return job_.writer->Write(format_.Text(piece.text));
    Begin();
    const bool taken = job_.writer->Write(format_.Opening() + format_.Text(piece.text));
    // The kernel took it before Write() returned, unless the client reads too slowly even for one
    // event.
    const MonoTime now = MonoNow();
    marks_.first_written = job_.writer->Times().first_write.value_or(now);
    return taken;
  }

  void Begin() {
    begun_ = true;
    http::Response head;
    head.content_type = "text/event-stream";
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    job_.writer->Begin(std::move(head));
  }

  void Finish(const engine::GenerateReport& report) {
    marks_.prefill_end = report.prefill_end;
    CompletionResult result;
    result.report = report;
    result.first_written = marks_.first_written;
    result.segments = TileRequest(marks_, context_.loads);
    if (report.stop_reason == engine::StopReason::kCancelled) {
      result.outcome = RequestOutcome::kCancelled;
      account_(result);
      if (begun_) job_.writer->Abort();
      return;
    }
    AnswerEnd end{report, ""};
    if (job_.request.rouse_timeline) {
      const MonoTime until = result.segments.empty() ? marks_.start : result.segments.back().end;
      end.timeline_json = TimelineJson(result.segments, Lanes(report, until), report.cached_tokens,
                                       *context_.process);
    }
    account_(result);
    if (!job_.request.stream) {
      http::Response response;
      response.body = format_.Whole(text_, end);
      job_.writer->Send(std::move(response));
      return;
    }
    if (!begun_) {
      Begin();
      job_.writer->Write(format_.Opening());
    }
    job_.writer->Write(format_.Closing(end));
    job_.writer->End();
  }

  // All that ran between the request's arrival and its first token.
  std::vector<engine::Step> Lanes(const engine::GenerateReport& report, MonoTime until) const {
    std::vector<engine::Step> lanes = LanesBetween(context_.loads, marks_.start, until);
    if (context_.reader_lane) {
      const std::optional<engine::Step> reader = context_.reader_lane();
      if (reader && reader->end > marks_.start) lanes.push_back(*reader);
    }
    if (!context_.loads.empty()) {
      lanes.insert(lanes.end(), report.steps.begin(), report.steps.end());
    }
    std::stable_sort(lanes.begin(), lanes.end(), [](const engine::Step& a, const engine::Step& b) {
      return a.start < b.start;
    });
    return lanes;
  }

  Job& job_;
  const CompletionContext& context_;
  const std::function<void(const CompletionResult&)>& account_;
  AnswerFormat format_;
  RequestMarks marks_;
  bool begun_ = false;
  std::string text_;
};

}  // namespace

std::expected<PreparedPrompt, ApiError> PreparePrompt(const CompletionRequest& request,
                                                      engine::Engine& engine) {
  PreparedPrompt prompt;
  prompt.start = MonoNow();
  const auto tokens = [&]() -> Result<std::vector<engine::Token>> {
    if (request.kind == CompletionKind::kChat) {
      engine::TemplateOptions options;
      options.kwargs_json = request.template_kwargs_json;
      ASSIGN_OR_RETURN(const std::string text,
                       engine.ApplyTemplate(request.messages_json, options));
      return engine.Tokenize(text, {});
    }
    if (!request.prompt_tokens.empty()) return request.prompt_tokens;
    return engine.Tokenize(request.prompt, {});
  }();
  prompt.end = MonoNow();
  if (!tokens.ok()) {
    ApiError shown = FromEngineError(tokens.error());
    if (shown.status == 400) shown.param = PromptField(request);
    return std::unexpected(shown);
  }
  prompt.tokens = *tokens;
  return prompt;
}

void RefuseCompletion(Job& job, const ApiError& error,
                      const std::function<void(const CompletionResult&)>& account) {
  const CompletionContext context;
  CompletionRun(job, context, account).Fail(error);
}

void RunCompletion(Job& job, const CompletionContext& context,
                   const std::function<void(const CompletionResult&)>& account) {
  CompletionRun(job, context, account).Run();
}

}  // namespace rouse::server
