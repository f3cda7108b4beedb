// Line editing by libedit. libedit gets its characters from a reader in this file, which handles
// signals, changes of the window and bytes that are no text; libedit would drop or re-send these.
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cwchar>
#include <initializer_list>
#include <optional>
#include <utility>

#include "app/files/signals.h"
#include "app/terminal/cursor_report.h"
#include "app/terminal/line_source.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr char32_t kReplacement = 0xfffd;

// Terminals put these around pasted text, if they are asked to.
constexpr std::string_view kBeginPastes = "\x1b[?2004h", kEndPastes = "\x1b[?2004l";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

// No terminal sends this. The reader inserts it to move the cursor below the line.
constexpr std::string_view kMoveToEnd = "\x1b[9997~";
constexpr std::string_view kClearBelow = "\r\x1b[J";

std::wstring wide(std::string_view utf8) {
  std::wstring out;
  while (!utf8.empty()) {
    const size_t length = std::max<size_t>(utf8_length(utf8), 1);
    out += static_cast<wchar_t>(utf8_code_point(utf8.substr(0, length)));
    utf8.remove_prefix(length);
  }
  return out;
}

std::string narrow(std::wstring_view text) {
  std::string out;
  for (const wchar_t c : text) utf8_append(static_cast<char32_t>(c), out);
  return out;
}

class LineEditor final : public LineSource {
 public:
  LineEditor(TerminalMode& terminal, const TerminalTraits& traits, const LineHistory& history)
      : terminal_(terminal), utf8_(traits.utf8), history_(history) {
    editor_ = el_init("skald", stdin, stdout, stderr);
    recalled_ = history_winit();
    if (!editor_ || !recalled_) fail(Exit::Memory, "the machine is out of memory");
    HistEventW event;
    history_w(recalled_, &event, H_SETSIZE, static_cast<int>(2 * LineHistory::kMostEntries));
    el_wset(editor_, EL_CLIENTDATA, this);
    el_wset(editor_, EL_PROMPT, &LineEditor::prompt_of);
    el_wset(editor_, EL_EDITOR, L"emacs");
    el_wset(editor_, EL_HIST, history_w, recalled_);
    el_wset(editor_, EL_GETCFN, &LineEditor::read_character);
    el_wset(editor_, EL_ADDFN, L"skald-paste", L"Insert pasted text", &LineEditor::paste);
    el_wset(editor_, EL_ADDFN, L"skald-to-end", L"Go below the line", &LineEditor::move_to_end);
    bind({{L"^R", L"em-inc-search-prev"},
          {L"\\e[3~", L"ed-delete-next-char"},
          {L"\\e[1;5C", L"em-next-word"},
          {L"\\e[1;5D", L"ed-prev-word"},
          {L"\\e[H", L"ed-move-to-beg"},
          {L"\\e[F", L"ed-move-to-end"},
          {L"\\e[1~", L"ed-move-to-beg"},
          {L"\\e[4~", L"ed-move-to-end"}});
    if (!utf8_) {  // libedit takes bytes outside of the locale for keys with Meta
      for (wchar_t c = 0xa0; c <= 0xff; ++c) {
        el_wset(editor_, EL_BIND, std::wstring(1, c).c_str(), L"ed-insert", nullptr);
      }
    }
    el_source(editor_, nullptr);
    bind({{L"\\e[200~", L"skald-paste"}, {L"\\e[9997~", L"skald-to-end"}});
    // libedit sets its mode after it has drawn the prompt. A Ctrl-D between the two must not get
    // lost.
    terminal_.hide_keys();
  }

  ~LineEditor() override {
    history_wend(recalled_);
    el_end(editor_);
  }

  Got read(const std::string& prompt, std::string& line) override {
    prompt_ = wide(prompt);
    columns_ = terminal_columns();
    repaired_ = false;
    for (; known_ < history_.entries().size(); ++known_) {
      HistEventW event;
      history_w(recalled_, &event, H_ENTER, wide(history_.entries()[known_]).c_str());
    }
    StandardOutput out;
    out.write(kBeginPastes);
    int length = 0;
    errno = 0;
    const wchar_t* text = el_wgets(editor_, &length);
    terminal_.hide_keys();  // libedit leaves another mode
    const bool interrupted = std::exchange(interrupted_, false) && !text;
    if (interrupted) out.write(interrupted_by() == SIGINT ? "^C\n" : "\n");
    out.write(kEndPastes);
    if (interrupted) return Got::Interrupted;
    if (!text || length <= 0) {
      out.write("\n");
      return Got::End;
    }
    std::wstring_view typed(text, static_cast<size_t>(length));
    if (typed.ends_with(L'\n')) typed.remove_suffix(1);
    line = narrow(typed);
    return Got::Line;
  }

 private:
  void bind(std::initializer_list<std::pair<const wchar_t*, const wchar_t*>> keys) {
    for (const auto& [key, action] : keys) el_wset(editor_, EL_BIND, key, action, nullptr);
  }

  static LineEditor& self(EditLine* editor) {
    void* data = nullptr;
    el_wget(editor, EL_CLIENTDATA, &data);
    return *static_cast<LineEditor*>(data);
  }

  static wchar_t* prompt_of(EditLine* editor) { return self(editor).prompt_.data(); }

  // Returns 1 for a character, 0 at the end, -1 after a signal that ends the line.
  static int read_character(EditLine* editor, wchar_t* out) {
    LineEditor& me = self(editor);
    while (true) {
      if (me.take_character(*out)) return 1;
      if (me.interrupted_) {
        errno = EINTR;
        return -1;
      }
      if (!wait_readable(STDIN_FILENO)) {
        me.handle_signals();
        continue;
      }
      char part[4096];
      const ssize_t count = ::read(STDIN_FILENO, part, sizeof part);
      if (count == 0) return 0;
      if (count < 0 && errno != EINTR && errno != EAGAIN) return -1;
      if (count > 0) me.bytes_.append(part, static_cast<size_t>(count));
      std::erase(me.bytes_, '\0');  // Ctrl-Space: libedit would take it for the end of the input
      if (me.late_answers_ > 0 && take_cursor_column(me.bytes_)) --me.late_answers_;
    }
  }

  // The next whole character of what was read, if there is one.
  bool take_character(wchar_t& out) {
    if (bytes_.empty()) return false;
    size_t length = utf8_length(bytes_);
    if (length > 0) {
      out = static_cast<wchar_t>(utf8_code_point(std::string_view(bytes_).substr(0, length)));
    } else if (utf8_ && utf8_incomplete(bytes_)) {
      return false;
    } else {
      length = 1;
      std::mbstate_t state = {};
      wchar_t character = 0;
      const bool known =
          !utf8_ && std::mbrtowc(&character, bytes_.data(), 1, &state) == 1 && character >= 0x80;
      out = known ? character : static_cast<wchar_t>(kReplacement);
      repaired_ |= !known;
    }
    bytes_.erase(0, length);
    return true;
  }

  void handle_signals() {
    if (interrupted_by()) {
      interrupted_ = true;
      bytes_ = kMoveToEnd;
    }
    if (take_resized()) redraw();
    if (take_suspended()) {
      StandardOutput().write(kEndPastes);
      terminal_.suspend();
      StandardOutput().write(kBeginPastes);
      el_wset(editor_, EL_REFRESH);
    }
  }

  // Writes the line again in a window of another width, from where it began.
  void redraw() {
    const std::optional<int> column = ask_for_column();
    const int columns = terminal_columns();
    const LineInfoW* line = el_wline(editor_);
    const std::wstring shown =
        prompt_ + std::wstring(line->buffer, static_cast<size_t>(line->cursor - line->buffer));
    const int rows = column ? rows_above(shown, columns_, columns, *column) : 0;
    columns_ = columns;
    std::string begin(kClearBelow);
    if (rows > 0) begin = "\x1b[" + std::to_string(rows) + "A" + begin;
    el_resize(editor_);
    StandardOutput().write(begin);
    el_wset(editor_, EL_REFRESH);
  }

  // The column of the cursor; nothing if the terminal does not answer soon. What is typed meanwhile
  // is kept.
  std::optional<int> ask_for_column() {
    constexpr int kMilliseconds = 250;
    StandardOutput().write(kAskForCursor);
    pollfd ready = {STDIN_FILENO, POLLIN, 0};
    while (::poll(&ready, 1, kMilliseconds) > 0) {
      char part[256];
      const ssize_t count = ::read(STDIN_FILENO, part, sizeof part);
      if (count <= 0) break;
      bytes_.append(part, static_cast<size_t>(count));
      if (const std::optional<int> column = take_cursor_column(bytes_)) return column;
    }
    ++late_answers_;
    return {};
  }

  static unsigned char move_to_end(EditLine* editor, wint_t) {
    el_cursor(editor, INT_MAX / 2);
    return CC_REFRESH;
  }

  static unsigned char paste(EditLine* editor, wint_t) {
    std::wstring text;
    wchar_t character;
    while (!text.ends_with(kPasteEnd)) {
      if (read_character(editor, &character) != 1) return CC_EOF;
      text += character;
    }
    text.resize(text.size() - kPasteEnd.size());
    std::replace(text.begin(), text.end(), L'\r', L'\n');  // as terminals send new lines
    return el_winsertstr(editor, text.c_str()) < 0 ? CC_ERROR : CC_REFRESH;
  }

  TerminalMode& terminal_;
  bool utf8_;
  const LineHistory& history_;
  EditLine* editor_ = nullptr;
  HistoryW* recalled_ = nullptr;
  size_t known_ = 0;  // number of the history's entries that libedit has
  std::wstring prompt_;
  std::string bytes_;         // bytes that are not yet a whole character
  bool interrupted_ = false;  // a signal came, and the line is to end
  int columns_ = 80;          // of the window when the line was drawn
  int late_answers_ = 0;      // of the terminal, about its cursor, that are still to come
};

}  // namespace

std::unique_ptr<LineSource> make_line_editor(TerminalMode& terminal, const TerminalTraits& traits,
                                             const LineHistory& history) {
  return std::make_unique<LineEditor>(terminal, traits, history);
}

}  // namespace skald
