"""mistral.rs behind the OpenAI chat API, for tests/e2e/peers_test.py: Rust and candle, nothing of
llama.cpp; its wheel has no server, so this is one. The chunks are those of the engine, passed on as
they come; the bytes around them are sse-starlette's and uvicorn's.

    mistralrs_server.py MODEL.gguf PORT
"""
import json
import sys
import threading
from pathlib import Path

import mistralrs
import uvicorn
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


def load(model: Path) -> mistralrs.Runner:
    return mistralrs.Runner(which=mistralrs.Which.GGUF(
        quantized_model_id=str(model.parent), quantized_filename=model.name))


def chunk_object(chunk) -> dict:
    """A chunk of the engine as the API's JSON."""
    choices = [{"index": choice.index,
                "delta": {"role": choice.delta.role, "content": choice.delta.content},
                "finish_reason": choice.finish_reason} for choice in chunk.choices]
    value = {"id": chunk.id, "object": "chat.completion.chunk", "created": chunk.created,
             "model": chunk.model, "choices": choices}
    usage = getattr(chunk, "usage", None)
    if usage is not None:
        value["usage"] = {"prompt_tokens": usage.prompt_tokens,
                          "completion_tokens": usage.completion_tokens,
                          "total_tokens": usage.total_tokens}
    return value


def make_app(runner: mistralrs.Runner) -> Starlette:
    one_at_a_time = threading.Lock()

    def events(body: dict):
        request = mistralrs.ChatCompletionRequest(
            model=body.get("model") or "default", messages=body["messages"],
            max_tokens=body.get("max_tokens"), temperature=body.get("temperature"), stream=True)
        with one_at_a_time:
            for chunk in runner.send_chat_completion_request(request):
                yield {"data": json.dumps(chunk_object(chunk))}
        yield {"data": "[DONE]"}

    async def chat(request):
        body = await request.json()
        if not body.get("messages"):
            return JSONResponse({"error": {"message": "messages are missing"}}, status_code=400)
        return EventSourceResponse(events(body))

    async def health(_request):
        return JSONResponse({"status": "ok"})

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"]),
                             Route("/health", health)])


if __name__ == "__main__":
    uvicorn.run(make_app(load(Path(sys.argv[1]))), host="127.0.0.1", port=int(sys.argv[2]),
                log_level="warning")
