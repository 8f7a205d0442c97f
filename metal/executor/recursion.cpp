#include "metal/executor/recursion.h"

#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace argon::metal {
namespace {

// The symbol that follows '@' at `at` (quotes dropped).
std::string symbol(const std::string& line, size_t at) {
  size_t i = at + 1;
  if (i < line.size() && line[i] == '"') return line.substr(i + 1, line.find('"', i + 1) - i - 1);
  const size_t begin = i;
  while (i < line.size() && (std::isalnum(static_cast<unsigned char>(line[i])) || line[i] == '_' ||
                             line[i] == '.' || line[i] == '$'))
    ++i;
  return line.substr(begin, i - begin);
}

// The value of `key: ` in a metadata line, up to a comma or bracket.
std::string field(const std::string& line, const std::string& key) {
  const size_t at = line.find(key + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size() + 2;
  std::string v = line.substr(begin, line.find_first_of(",)", begin) - begin);
  if (v.size() > 1 && v.front() == '"') v = v.substr(1, v.size() - 2);
  return v;
}

struct Graph {
  std::map<std::string, std::set<std::string>> calls;
  std::map<std::string, std::string> debug;     // function -> !N
  std::map<std::string, std::string> metadata;  // !N -> its line

  bool reaches(const std::string& from, const std::string& to, std::set<std::string>& seen) const {
    const auto it = calls.find(from);
    if (it == calls.end()) return false;
    for (const std::string& next : it->second) {
      if (next == to || (seen.insert(next).second && reaches(next, to, seen))) return true;
    }
    return false;
  }
};

}  // namespace

Status check_recursion(const std::string& ir) {
  Graph g;
  std::istringstream lines(ir);
  std::string line, current;
  while (std::getline(lines, line)) {
    if (line.rfind("define ", 0) == 0) {
      current = symbol(line, line.find('@'));
      if (const size_t dbg = line.find("!dbg "); dbg != std::string::npos) {
        g.debug[current] = line.substr(dbg + 5, line.find_first_of(" {", dbg + 5) - dbg - 5);
      }
    } else if (line == "}") {
      current.clear();
    } else if (line.rfind('!', 0) == 0) {
      g.metadata[line.substr(0, line.find(' '))] = line;
    } else if (!current.empty()) {
      const size_t call = line.find("call ");
      const size_t at = call == std::string::npos ? call : line.find('@', call);
      if (at != std::string::npos) g.calls[current].insert(symbol(line, at));
    }
  }
  for (const auto& [function, callees] : g.calls) {
    std::set<std::string> seen;
    if (!g.reaches(function, function, seen)) continue;
    const std::string& d = g.metadata[g.debug[function]];
    return bad_input(field(g.metadata[field(d, "file")], "filename") + ":" + field(d, "line") +
                     ": error: function '" + field(d, "name") + "' can call itself; Metal has no recursion");
  }
  return {};
}

}  // namespace argon::metal
