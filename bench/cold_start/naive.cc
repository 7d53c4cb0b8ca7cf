// The naive arm of bench/cold_start: what one writes on llama.cpp's public API in an afternoon. It
// loads the model with default parameters, answers one request with the text that begins it, and
// waits to be ended. Its socket listens before the load, so that its client waits in the backlog
// and no time is lost to polling. No server: one model, one connection, "prompt" is found by its
// key and unescaped by nobody, errors end it.
//
//   naive MODEL.gguf PORT CONTEXT
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::strtol(argv[2], nullptr, 10)));
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 3;
  if (listen(listener, 16) != 0) return 3;

  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* const model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 4;
  llama_context_params context_params = llama_context_default_params();
  context_params.n_ctx = static_cast<uint32_t>(std::strtol(argv[3], nullptr, 10));
  llama_context* const context = llama_init_from_model(model, context_params);
  if (context == nullptr) return 4;

  const int client = accept(listener, nullptr, nullptr);
  std::string request;
  while (request.find("\"prompt\"") == std::string::npos || request.back() != '}') {
    char bytes[4096];
    const ssize_t count = read(client, bytes, sizeof bytes);
    if (count <= 0) return 5;
    request.append(bytes, static_cast<size_t>(count));
  }
  const size_t begin = request.find('"', request.find(':', request.find("\"prompt\""))) + 1;
  const std::string prompt = request.substr(begin, request.find('"', begin) - begin);

  const llama_vocab* const vocab = llama_model_get_vocab(model);
  std::vector<llama_token> tokens(prompt.size() + 2);
  int count = llama_tokenize(vocab, prompt.data(), static_cast<int>(prompt.size()), tokens.data(),
                             static_cast<int>(tokens.size()), true, true);
  if (count < 0) return 6;
  llama_sampler* const sampler = llama_sampler_init_greedy();
  std::string answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
  for (bool done = false; !done;) {
    if (llama_decode(context, llama_batch_get_one(tokens.data(), count)) != 0) return 6;
    tokens[0] = llama_sampler_sample(sampler, context, -1);
    count = 1;
    char piece[64];
    const int length = llama_token_to_piece(vocab, tokens[0], piece, sizeof piece, 0, false);
    std::string text;  // a letter for each letter: no escapes
    for (int i = 0; i < length; ++i) text += piece[i] >= ' ' && piece[i] <= '~' ? piece[i] : '?';
    for (char& letter : text) letter = letter == '"' || letter == '\\' ? '?' : letter;
    done = !text.empty();  // the first token that has text is all that is asked for
    if (!done) continue;
    answer += "data: {\"choices\":[{\"index\":0,\"text\":\"" + text + "\"}]}\n\ndata: [DONE]\n\n";
    if (write(client, answer.data(), answer.size()) < 0) return 5;
  }
  close(client);
  for (;;) pause();  // until it is ended, so that its process can be looked at
}
