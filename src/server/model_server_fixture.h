// For tests only: a model server with a fake engine, over real sockets, and a client that asks it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "http/test_client.h"
#include "server/fake_engine.h"
#include "server/model_server.h"

namespace rouse::server::test {

using http::test::Client;
using http::test::Signal;
using Json = nlohmann::json;

inline std::string PostText(const std::string& path, const std::string& body,
                            const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline std::string GetText(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n";
}

struct Answer {
  int status = 0;
  std::string head;
  std::string body;  // chunks joined
  Json Parsed() const { return Json::parse(body, nullptr, false); }
  Json ErrorObject() const { return Parsed().value("error", Json::object()); }
};

// Asks on a connection of its own and waits for the whole answer.
inline Answer Ask(int port, std::string request) {
  request.insert(request.find("\r\n") + 2, "Connection: close\r\n");
  Client client(port);
  client.Say(request);
  const std::string heard = client.HearAll();
  Answer answer;
  const size_t blank = heard.find("\r\n\r\n");
  if (blank == std::string::npos || heard.size() < 12) return answer;
  answer.status = std::stoi(heard.substr(9, 3));
  answer.head = heard.substr(0, blank + 2);
  std::string_view rest = std::string_view(heard).substr(blank + 4);
  if (answer.head.find("chunked") == std::string::npos) {
    answer.body = rest;
    return answer;
  }
  while (!rest.empty()) {
    const size_t line = rest.find("\r\n");
    const size_t size = std::stoul(std::string(rest.substr(0, line)), nullptr, 16);
    if (size == 0) break;
    answer.body += rest.substr(line + 2, size);
    rest.remove_prefix(line + 2 + size + 2);
  }
  return answer;
}

// The JSON of every "data: " event; "[DONE]" as a string.
inline std::vector<Json> Events(const std::string& body) {
  std::vector<Json> events;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    const std::string event = body.substr(at, end - at);
    EXPECT_EQ(event.substr(0, 6), "data: ");
    const std::string data = event.substr(6);
    events.push_back(data == "[DONE]" ? Json(data) : Json::parse(data, nullptr, false));
    if (end == std::string::npos) break;
    at = end + 2;
  }
  return events;
}

inline const std::string kChat = R"({"messages":[{"role":"user","content":"Hi"}]})";
inline const std::string kStream = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})";

class ModelServerTest : public ::testing::Test {
 protected:
  void Start(ModelServerOptions options = {}, bool load_now = true, IdlePolicy idle = {}) {
    Listen(std::move(options));
    Run(load_now, idle);
  }

  void Listen(ModelServerOptions options = {}) {
    options.log = [this](LogLevel, const std::string& line) {
      const std::lock_guard lock(log_mutex_);
      log_ += line + "\n";
    };
    auto server = ModelServer::Start(std::move(options));
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
  }

  void Run(bool load_now = true, IdlePolicy idle = {}) {
    file_ = ::testing::TempDir() + "model_server_test_" + std::to_string(::getpid());
    std::ofstream(file_) << std::string(10'000, 'x');
    ModelServer::RunOptions run;
    run.model = {"fake", file_, {file_}, 10'000, {}};
    run.engine = std::make_unique<FakeEngine>(control_);
    run.load_now = load_now;
    run.idle = idle;
    run.make_engine = [this]() -> Result<std::unique_ptr<engine::Engine>> {
      control_->Record("renew");
      return std::unique_ptr<engine::Engine>(std::make_unique<FakeEngine>(control_));
    };
    run.on_first_load_failed = [this](const Error& error) {
      failure_ = error.message();
      failed_.Set();
    };
    server_->Run(std::move(run));
  }

  void TearDown() override {
    control_->load.Open();
    control_->token.Open();
    server_.reset();
    if (!file_.empty()) ::unlink(file_.c_str());
  }

  Answer Get(const std::string& path) { return Ask(server_->port(), GetText(path)); }
  Answer Post(const std::string& path, const std::string& body) {
    return Ask(server_->port(), PostText(path, body));
  }
  Answer Chat(const std::string& body) { return Post("/v1/chat/completions", body); }

  bool AwaitHealth(int status) {
    for (int tries = 0; tries < 5000; ++tries) {
      if (Get("/health").status == status) return true;
      ::usleep(2000);
    }
    return false;
  }
  bool AwaitWaiting(int64_t waiting) {
    for (int tries = 0; tries < 5000; ++tries) {
      if (Get("/state").Parsed()["queue"]["waiting"] == waiting) return true;
      ::usleep(2000);
    }
    return false;
  }
  // Until so many requests wait or are being answered.
  bool AwaitHere(int64_t count) {
    for (int tries = 0; tries < 5000; ++tries) {
      const Json queue = Get("/state").Parsed()["queue"];
      if (queue["waiting"].get<int64_t>() + queue["running"].get<int64_t>() == count) return true;
      ::usleep(2000);
    }
    return false;
  }
  // Until the engine has recorded `call` so many times.
  bool AwaitCalls(const std::string& call, int count) {
    for (int tries = 0; tries < 5000; ++tries) {
      const auto calls = control_->Calls();
      if (std::count(calls.begin(), calls.end(), call) >= count) return true;
      ::usleep(2000);
    }
    return false;
  }
  std::string Metric(const std::string& name) {
    const std::string text = "\n" + Get("/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    if (at == std::string::npos) return "";
    const size_t value = at + name.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }

  std::shared_ptr<FakeControl> control_ = std::make_shared<FakeControl>();
  std::string file_;
  std::mutex log_mutex_;
  std::string log_;
  std::string failure_;
  Signal failed_;
  std::unique_ptr<ModelServer> server_;
};

}  // namespace rouse::server::test
