#include "cache/signature.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cache/io.h"
#include "cache/trusted_file.h"
#include "core/fail.h"

namespace hipflash::cache {
namespace {

constexpr std::string_view kSecretTitle = "hipflash pack secret key 1\n";
constexpr std::string_view kPublicTitle = "hipflash pack public key 1\n";
constexpr std::size_t kMaxKeyFile = 4096;

template <std::size_t N>
std::string hex_of(const std::array<std::uint8_t, N>& bytes) {
  std::string text(2 * N + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes.data(), N);
  text.pop_back();  // the terminating zero
  return text;
}

template <std::size_t N>
bool from_hex(std::string_view text, std::array<std::uint8_t, N>* bytes) {
  std::size_t size = 0;
  return text.size() == 2 * N &&
         sodium_hex2bin(bytes->data(), N, text.data(), text.size(), nullptr, &size, nullptr) == 0 &&
         size == N;
}

void write_new_file(const std::filesystem::path& path, std::string_view text, mode_t mode) {
  io::File file = io::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!file) {
    fail(ErrorCode::CacheUnusable, "the key file {} cannot be made: {}", path.string(),
         io::error_text(errno));
  }
  int error = io::write_all(
      file.fd(), ByteView(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  if (error == 0) error = io::sync_file(file.fd());
  const int close_error = file.close();
  if (error == 0) error = close_error;
  if (error != 0) {
    io::calls().unlink(path.c_str());
    fail(ErrorCode::CacheUnusable, "the key file {} cannot be written: {}", path.string(),
         io::error_text(error));
  }
}

// The text after `title` in a file, without its end of line.
std::string read_titled(const std::filesystem::path& path, std::string_view title,
                        std::string_view what) {
  const OpenedFile opened = open_regular(path, Links::Follow);
  std::string reason = opened.reason;
  Bytes bytes;
  if (opened.fault == Fault::None) {
    const int error = io::read_up_to(opened.file.fd(), kMaxKeyFile, bytes);
    if (error != 0) reason = io::error_text(error);
  }
  std::string text(bytes.begin(), bytes.end());
  if (reason.empty() && !text.starts_with(title)) reason = "it holds no such key";
  if (!reason.empty()) {
    fail(ErrorCode::InvalidArgument, "{} \"{}\" cannot be used: {}", what, path.string(), reason);
  }
  text.erase(0, title.size());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace

KeyPair make_key_pair() {
  require_sodium();
  KeyPair keys;
  crypto_sign_keypair(keys.public_key.data(), keys.secret_key.data());
  return keys;
}

PublicKey public_key_of(const SecretKey& secret) {
  PublicKey key{};
  crypto_sign_ed25519_sk_to_pk(key.data(), secret.data());
  return key;
}

Signature sign(ByteView message, const SecretKey& secret) {
  require_sodium();
  Signature signature{};
  crypto_sign_detached(signature.data(), nullptr, message.data(), message.size(), secret.data());
  return signature;
}

bool verify(ByteView message, const Signature& signature, const PublicKey& key) {
  require_sodium();
  return crypto_sign_verify_detached(signature.data(), message.data(), message.size(),
                                     key.data()) == 0;
}

void write_key_files(const std::filesystem::path& path, const KeyPair& keys) {
  const std::filesystem::path public_path = path.string() + ".pub";
  write_new_file(path, std::string(kSecretTitle) + hex_of(keys.secret_key) + "\n", 0600);
  try {
    write_new_file(public_path, std::string(kPublicTitle) + hex_of(keys.public_key) + "\n", 0644);
  } catch (const Error&) {
    io::calls().unlink(path.c_str());  // a secret without its public half serves nobody
    throw;
  }
}

SecretKey read_secret_key(const std::filesystem::path& path) {
  SecretKey key{};
  KeyPair again;
  if (from_hex(read_titled(path, kSecretTitle, "the secret key"), &key)) {
    // The second half of a secret key is the public one, which signing would take on trust.
    crypto_sign_seed_keypair(again.public_key.data(), again.secret_key.data(), key.data());
    if (again.secret_key == key) return key;
  }
  fail(ErrorCode::InvalidArgument, "the secret key \"{}\" cannot be used: it is damaged",
       path.string());
}

PublicKey parse_public_key(const std::string& text, std::string_view what) {
  PublicKey key{};
  if (from_hex(text, &key)) return key;
  if (!from_hex(read_titled(text, kPublicTitle, what), &key)) {
    fail(ErrorCode::InvalidArgument,
         "{} \"{}\" must be 64 hexadecimal digits or a file of a public key", what, text);
  }
  return key;
}

}  // namespace hipflash::cache
