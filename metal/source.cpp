#include "metal/source.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace argon::metal {
namespace {

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return bad_input("cannot read '" + path + "'");
  return text.str();
}

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t");
  return first == std::string::npos ? "" : line.substr(first);
}

Status append(const std::string& root, const std::string& path, const std::string& from, Source& out) {
  if (std::find(out.files.begin(), out.files.end(), path) != out.files.end()) return {};
  Result<std::string> text = read_file(root + "/" + path);
  if (!text.ok()) return bad_input(from + "error: " + text.status().message());
  out.files.push_back(path);
  out.text += "#line 1 \"" + path + "\"\n";
  std::istringstream lines(*text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string t = trimmed(line);
    const std::string here = path + ":" + std::to_string(number) + ": ";
    if (t.rfind("#include \"", 0) == 0) {
      const size_t end = t.find('"', 10);
      if (end == std::string::npos) return bad_input(here + "error: an #include without its closing quote");
      ARGON_RETURN_IF_ERROR(append(root, t.substr(10, end - 10), here, out));
      out.text += "#line " + std::to_string(number + 1) + " \"" + path + "\"\n";
    } else if (t.rfind("#pragma once", 0) == 0) {
      out.text += "\n";
    } else {
      out.text += line + "\n";
    }
  }
  return {};
}

}  // namespace

Result<Source> read_source(const std::string& root, const std::string& path) {
  Result<std::string> text = read_file(root + "/" + path);
  ARGON_RETURN_IF_ERROR(text.status());
  if (text->find("\n#pragma METAL fp contract(off)") == std::string::npos) {
    return bad_input(
        path + ":1: error: no line '#pragma METAL fp contract(off)': a Mac would fuse products and sums");
  }
  Source out;
  ARGON_RETURN_IF_ERROR(append(root, path, "", out));
  return out;
}

}  // namespace argon::metal
