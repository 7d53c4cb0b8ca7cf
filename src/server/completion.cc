#include "server/completion.h"

#include <utility>

#include "server/api_error.h"
#include "server/completion_response.h"

namespace rouse::server {
namespace {

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
    const Result<std::vector<engine::Token>> tokens = PromptTokens();
    if (!tokens.ok()) return Fail(PromptError(tokens.error()));
    if (const auto refusal = TooLong(static_cast<int64_t>(tokens->size()))) return Fail(*refusal);
    engine::GenerateRequest generate;
    generate.prompt = *tokens;
    generate.sampling = job_.request.sampling;
    generate.max_tokens = job_.request.max_tokens;
    generate.stop = job_.request.stop;
    generate.ignore_end = job_.request.ignore_end;
    generate.cache_prompt = job_.request.cache_prompt;
    const auto report = context_.engine->Generate(
        generate, [this](const engine::Piece& piece) { return Give(piece); },
        job_.stop.get_token());
    if (!report.ok()) return Fail(FromEngineError(report.error()));
    return Finish(*report);
  }

 private:
  Result<std::vector<engine::Token>> PromptTokens() {
    marks_.tokenize_start = MonoNow();
    const CompletionRequest& request = job_.request;
    Result<std::vector<engine::Token>> tokens = std::vector<engine::Token>();
    if (request.kind == CompletionKind::kChat) {
      engine::TemplateOptions options;
      options.kwargs_json = request.template_kwargs_json;
      const Result<std::string> text =
          context_.engine->ApplyTemplate(request.messages_json, options);
      tokens = text.ok() ? context_.engine->Tokenize(*text, {})
                         : Result<std::vector<engine::Token>>(text.error());
    } else if (request.prompt_tokens.empty()) {
      tokens = context_.engine->Tokenize(request.prompt, {});
    } else {
      tokens = request.prompt_tokens;
    }
    marks_.tokenize_end = MonoNow();
    return tokens;
  }

  ApiError PromptError(const Error& error) const {
    ApiError shown = FromEngineError(error);
    if (shown.status == 400) {
      shown.param = job_.request.kind == CompletionKind::kChat ? "messages" : "prompt";
    }
    return shown;
  }

  // The answer needs room for at least one token.
  std::optional<ApiError> TooLong(int64_t prompt_tokens) const {
    const auto context_tokens = context_.engine->Facts()->context_tokens;
    if (!context_tokens || prompt_tokens < *context_tokens) return std::nullopt;
    return ApiError{.status = 400,
                    .message = "the prompt has " + std::to_string(prompt_tokens) +
                               " tokens, but the context holds " + std::to_string(*context_tokens) +
                               " for prompt and answer together (see --context)",
                    .param = job_.request.kind == CompletionKind::kChat ? "messages" : "prompt",
                    .code = "context_length_exceeded"};
  }

  // The engine's sink.
  bool Give(const engine::Piece& piece) {
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
      end.timeline_json =
          TimelineJson(result.segments, LanesBetween(context_.loads, marks_.start, until),
                       report.cached_tokens, *context_.process);
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

  Job& job_;
  const CompletionContext& context_;
  const std::function<void(const CompletionResult&)>& account_;
  AnswerFormat format_;
  RequestMarks marks_;
  bool begun_ = false;
  std::string text_;
};

}  // namespace

void RunCompletion(Job& job, const CompletionContext& context,
                   const std::function<void(const CompletionResult&)>& account) {
  CompletionRun(job, context, account).Run();
}

}  // namespace rouse::server
