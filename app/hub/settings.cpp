#include "app/hub/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "app/hub/text.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/read_stream.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first variable that is set and not empty.
std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

// Services and containers may start a program without HOME.
std::string home_folder() {
  std::string home = environment("HOME");
  if (!home.empty()) return home;
  struct passwd entry = {}, *found = nullptr;
  std::array<char, 4096> text;
  if (::getpwuid_r(::getuid(), &entry, text.data(), text.size(), &found) == 0 && found) {
    home = entry.pw_dir;
  }
  return home;
}

// A path of a variable. As in Hugging Face's own tools, "~" is the home folder: no shell replaces
// it where the variable is set in a file.
fs::path path_of(const char* variable) {
  const std::string path = environment(variable);
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::string home = home_folder();
  return home.empty() ? path : home + path.substr(1);
}

fs::path hub_home() {
  if (const fs::path home = path_of("HF_HOME"); !home.empty()) return home;
  return user_cache_folder() / "huggingface";
}

bool is_true(std::string_view text) {
  const std::string value = upper(text);
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string find_token() {
  std::string token = first_of({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}), from = "HF_TOKEN";
  if (token.empty()) {
    const fs::path named = path_of("HF_TOKEN_PATH");
    const fs::path file = named.empty() ? hub_home() / "token" : named;
    std::ifstream in(file, std::ios::binary);
    token = rest_of(in);
    from = file.string();
  }
  token = trimmed(token);
  // A line break would begin another header.
  const bool plain =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!plain) {
    fail(Exit::Failed, printable(from),
         ": the token has spaces or characters that are not ASCII; expected one word such as hf_…");
  }
  return token;
}

// libcurl has the place of the certificates compiled in. A program that was moved to another
// system may find them elsewhere.
std::string find_certificates() {
  std::string file = first_of({"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"});
  for (const char* usual :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    std::error_code error;
    if (file.empty() && fs::exists(usual, error)) file = usual;
  }
  return file;
}

}  // namespace

fs::path user_cache_folder() {
  const std::string xdg = environment("XDG_CACHE_HOME"), home = home_folder();
  if (!xdg.empty()) return xdg;
  return home.empty() ? fs::path() : fs::path(home) / ".cache";
}

fs::path hub_cache_folder() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const fs::path named = path_of(variable); !named.empty()) return named;
  }
  return hub_home() / "hub";
}

std::string checked_endpoint(std::string text) {
  while (text.ends_with("/")) text.pop_back();
  const bool http = text.starts_with("http://") || text.starts_with("https://");
  const bool plain =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!http || !plain || text.ends_with(":")) {
    fail(Exit::Failed, "HF_ENDPOINT=", printable(text),
         ": expected an address such as https://huggingface.co");
  }
  return text;
}

HubSettings hub_settings() {
  HubSettings settings;
  if (const std::string named = environment("HF_ENDPOINT"); !named.empty()) {
    settings.endpoint = checked_endpoint(named);
  }
  settings.token = find_token();
  settings.cache = hub_cache_folder();
  settings.offline = is_true(first_of({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  settings.certificates = find_certificates();
  return settings;
}

}  // namespace skald
