// Regions without a link between them that talk by way of a third one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {

// "a" and "b", each linked to "c", where there is one, and to each other where a test says so.
class DetourTest : public MeshTest {
 protected:
  static constexpr std::uint16_t kNobody = 1;  // a port

  MeshOptions quick(const std::string& self) {
    MeshOptions made = options(self);
    made.detour_delay = std::chrono::milliseconds(20);
    made.credentials_interval = std::chrono::milliseconds(20);
    return made;
  }

  void start_c() {
    MeshOptions made = quick("c");
    point(made, "a", kNobody);
    point(made, "b", kNobody);
    c_ = &add(made);
    c_->mesh->start();
  }
  // Not started yet.
  Region& with_link_to_c(const std::string& self, const std::string& other,
                         std::uint16_t port_of_c) {
    MeshOptions made = quick(self);
    point(made, other, kNobody);
    point(made, "c", port_of_c);
    return add(made);
  }
  void start_a(std::uint16_t port_of_c) {
    a_ = &with_link_to_c("a", "b", port_of_c);
    a_->mesh->start();
  }
  void start_b(std::uint16_t port_of_c) {
    b_ = &with_link_to_c("b", "a", port_of_c);
    b_->mesh->start();
  }
  void start_all() {
    start_c();
    start_b(c_->mesh->listening_port());
    start_a(c_->mesh->listening_port());
  }
  bool meet(const std::string& via) {
    return run_until([&] {
      return a_->mesh->is_up("b") && b_->mesh->is_up("a") && a_->mesh->stats()["b"].via == via &&
             b_->mesh->stats()["a"].via == via;
    });
  }
  void expect_messages(const std::string& text) {
    a_->messages.clear();
    b_->messages.clear();
    a_->mesh->send("b", text);
    b_->mesh->send("a", text);
    ASSERT_TRUE(run_until([&] { return !a_->messages.empty() && !b_->messages.empty(); }));
    EXPECT_TRUE(a_->messages.front() == "b:" + text);
    EXPECT_TRUE(b_->messages.front() == "a:" + text);
  }

  Region* a_ = nullptr;
  Region* b_ = nullptr;
  Region* c_ = nullptr;
};

}  // namespace causeway::inter
