#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/process.h"

TEST_CASE("skald selftest passes on the CPU, and reports as text and as JSON") {
  const auto text = skald::test::skald({"selftest", "--device", "cpu"});
  CHECK(text.code == 0);
  CHECK(text.err.empty());
  CHECK(text.out.find("right") != std::string::npos);
  CHECK(text.out.find("WRONG") == std::string::npos);
  const auto json = skald::test::skald({"selftest", "--device", "cpu", "--json", "--seed", "3"});
  CHECK(json.code == 0);
  const auto report = nlohmann::json::parse(json.out);
  CHECK(report["good"] == true);
  CHECK(report["seed"] == 3);
  CHECK(report["failed"] == 0);
  CHECK(report["cases"] > 900);
  CHECK(report["text"]["same_tokens"] == 64);
  CHECK(report["failures"].empty());
}

TEST_CASE("skald selftest refuses wrong values and names the right ones") {
  const auto limit = skald::test::skald({"selftest", "--device", "cpu", "--arch-limit", "sm_75"});
  CHECK(limit.code == 2);
  CHECK(limit.err.find("--arch-limit needs a GPU") != std::string::npos);
  const auto device = skald::test::skald({"selftest", "--device", "tpu"});
  CHECK(device.code == 2);
  CHECK(device.err.find("cpu, cuda or cuda:N") != std::string::npos);
}
