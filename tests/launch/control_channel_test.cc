// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/launch/control_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "launch/control_protocol.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;

/// A server that is polled by a thread of its own until it goes, and keeps what it heard.
class Polled {
 public:
  Polled() : server(std::move(ControlServer::listen()).value()) {
    thread_ = std::thread([this] { run(); });
  }
  ~Polled() { stop(); }
  void stop() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }
  /// Everything heard until `count` events were or 5 seconds have passed.
  std::vector<ControlEvent> wait_for(std::size_t count) {
    const Seconds deadline = monotonic_now() + Seconds(5);
    while (monotonic_now() < deadline) {
      {
        const std::lock_guard guard(mutex_);
        if (events_.size() >= count) return events_;
      }
      ::usleep(1'000);
    }
    const std::lock_guard guard(mutex_);
    return events_;
  }
  void with_server(const std::function<void(ControlServer&)>& use) {
    const std::lock_guard guard(mutex_);
    use(*server);
  }

  std::unique_ptr<ControlServer> server;

 private:
  void run() {
    while (!ended_) {
      pollfd waiting{server->descriptor(), POLLIN, 0};
      ::poll(&waiting, 1, 5);
      const std::lock_guard guard(mutex_);
      for (ControlEvent& event : server->poll()) events_.push_back(std::move(event));
    }
  }
  std::mutex mutex_;
  std::vector<ControlEvent> events_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

std::unique_ptr<ControlClient> connected(const ControlServer& server) {
  auto client = ControlClient::connect({.address = server.address(), .token = server.token()});
  EXPECT_TRUE(client.has_value()) << client.error().to_text();
  return std::move(client).value();
}

bool becomes_true(const std::function<bool()>& condition) {
  const Seconds deadline = monotonic_now() + Seconds(5);
  while (!condition() && monotonic_now() < deadline) ::usleep(1'000);
  return condition();
}

TEST(ControlChannel, CarriesGreetingsFailuresAndEndsOfTwoProcesses) {
  Polled polled;
  const auto first = connected(*polled.server);
  const auto second = connected(*polled.server);
  first->greet(Rank{0});
  ASSERT_EQ(polled.wait_for(1).size(), 1U);
  second->greet(Rank{1});
  ASSERT_EQ(polled.wait_for(2).size(), 2U);
  first->finish(Rank{0}, RankEnd::kStopped);
  ASSERT_EQ(polled.wait_for(3).size(), 3U);
  second->report({Rank{1}, Error{Code::kExhausted, "disk \"full\"\n", {}}, "step 3"});
  const auto events = polled.wait_for(4);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].kind, ControlEvent::Kind::kGreeting);
  EXPECT_EQ(events[0].rank, Rank{0});
  EXPECT_EQ(events[0].pid, ::getpid());
  EXPECT_EQ(events[1].rank, Rank{1});
  EXPECT_EQ(events[2].kind, ControlEvent::Kind::kFinished);
  EXPECT_EQ(events[2].end, RankEnd::kStopped);
  EXPECT_EQ(events[3].kind, ControlEvent::Kind::kFailure);
  EXPECT_EQ(events[3].error.code, Code::kExhausted);
  EXPECT_EQ(events[3].error.message, "disk \"full\"\n");
  EXPECT_EQ(events[3].place, "step 3");
}

TEST(ControlChannel, StopAndAbortReachEveryoneAlsoWhoComesLater) {
  Polled polled;
  const auto early = connected(*polled.server);
  EXPECT_FALSE(early->stop_requested());
  polled.with_server([](ControlServer& server) { server.request_stop(); });
  EXPECT_TRUE(becomes_true([&] { return early->stop_requested(); }));
  EXPECT_FALSE(early->abort_requested());
  const auto late = connected(*polled.server);
  EXPECT_TRUE(becomes_true([&] { return late->stop_requested(); }));
  polled.with_server([](ControlServer& server) { server.request_abort("rank 2 was lost"); });
  EXPECT_TRUE(becomes_true([&] { return early->abort_requested() && late->abort_requested(); }));
  EXPECT_EQ(early->abort_reason(), "rank 2 was lost");
}

TEST(ControlChannel, ARankIsLostOnlyIfItsConnectionBreaksBeforeItEnds) {
  Polled polled;
  auto client = connected(*polled.server);
  client->greet(Rank{0});
  client->greet(Rank{1});
  client->greet(Rank{2});
  client->finish(Rank{0}, RankEnd::kDone);
  client->report({Rank{1}, Error{Code::kInternal, "x", {}}, ""});
  ASSERT_EQ(polled.wait_for(5).size(), 5U);
  client.reset();
  const auto events = polled.wait_for(6);
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[5].kind, ControlEvent::Kind::kLost);
  EXPECT_EQ(events[5].rank, Rank{2});
}

TEST(ControlChannel, AWrongTokenIsNeverHeard) {
  Polled polled;
  std::string wrong = polled.server->token();
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  const auto client = ControlClient::connect({.address = polled.server->address(), .token = wrong});
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_EQ(polled.wait_for(0).size(), 0U);
  polled.with_server([](ControlServer& server) { EXPECT_EQ(server.connections(), 0U); });
}

TEST(ControlChannel, TwoServersHaveDifferentSecrets) {
  EXPECT_NE(ControlServer::listen().value()->token(), ControlServer::listen().value()->token());
}

/// Bytes that nobody agreed on, from strangers and from a peer that knows the token: the server
/// goes on serving others, and hears nothing from these.
TEST(ControlChannel, GarbageCutsOffItsSenderAndNobodyElse) {
  Polled polled;
  const auto honest = connected(*polled.server);
  honest->greet(Rank{0});
  const std::string hello =
      "{\"type\": \"hello\", \"token\": \"" + polled.server->token() + "\", \"pid\": 1}\n";
  std::mt19937 random(20261201);
  for (int round = 0; round < 60; ++round) {
    auto socket = internal::connect_to(polled.server->address());
    ASSERT_TRUE(socket.has_value());
    std::string bytes = round % 2 == 0 ? hello : "";
    const std::size_t length = random() % 300;
    for (std::size_t i = 0; i < length; ++i) bytes += static_cast<char>(random() % 256);
    bytes += round % 3 == 0 ? "\n" : "{\"type\": \"finish\", \"rank\": 0, \"end\": \"done\"}\n";
    ::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  const auto huge = internal::connect_to(polled.server->address());
  ASSERT_TRUE(huge.has_value());
  const std::string endless(4096, '[');
  bool cut_off = false;
  for (int i = 0; i < 20'000 && !cut_off; ++i) {
    cut_off =
        ::send(huge->get(), endless.data(), endless.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN;
    if (!cut_off && errno == EAGAIN) ::usleep(100);
  }
  EXPECT_TRUE(cut_off) << "an endless line must not fill the launcher's memory";
  honest->finish(Rank{0}, RankEnd::kDone);
  const auto events = polled.wait_for(2);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].kind, ControlEvent::Kind::kFinished);
  EXPECT_EQ(events[1].pid, ::getpid());
}

TEST(ControlChannel, ALauncherThatDiesAbortsAndThenEndsTheProcess) {
  std::atomic<bool> overdue{false};
  auto polled = std::make_unique<Polled>();
  auto client = ControlClient::connect({.address = polled->server->address(),
                                        .token = polled->server->token(),
                                        .on_overdue = [&overdue] { overdue = true; },
                                        .abort_grace = Seconds(0.05)});
  ASSERT_TRUE(client.has_value());
  polled.reset();
  EXPECT_TRUE(becomes_true([&] { return (*client)->abort_requested(); }));
  EXPECT_EQ((*client)->abort_reason(), "the launcher is gone");
  EXPECT_TRUE(becomes_true([&] { return overdue.load(); }));
  (*client)->greet(Rank{0});  // to nobody; must not kill us with SIGPIPE
}

TEST(ControlChannel, AClientThatEndsInTimeIsNotOverdue) {
  std::atomic<bool> overdue{false};
  Polled polled;
  {
    auto client = ControlClient::connect({.address = polled.server->address(),
                                          .token = polled.server->token(),
                                          .on_overdue = [&overdue] { overdue = true; },
                                          .abort_grace = Seconds(60)});
    ASSERT_TRUE(client.has_value());
    polled.with_server([](ControlServer& server) { server.request_abort("x"); });
    EXPECT_TRUE(becomes_true([&] { return (*client)->abort_requested(); }));
  }
  EXPECT_FALSE(overdue);
}

TEST(ControlChannel, AnAddressWithoutALauncherIsUnavailableAndABadOneInvalid) {
  std::string gone;
  { gone = ControlServer::listen().value()->address(); }
  const auto nobody = ControlClient::connect({.address = gone, .token = "x"});
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code, Code::kUnavailable);
  EXPECT_THAT(nobody.error().message, HasSubstr(gone));
  for (const char* bad : {"", "host", ":1", "host:"}) {
    const auto client = ControlClient::connect({.address = bad, .token = "x"});
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().code, Code::kInvalid) << bad;
  }
}

}  // namespace
}  // namespace quadrille
