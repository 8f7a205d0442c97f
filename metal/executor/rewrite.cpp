#include "metal/executor/rewrite.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "metal/executor/lexer.h"

namespace argon::metal {
namespace {

using Set = std::set<std::string, std::less<>>;

// Words that Metal has no meaning for but that one of the two passes would let through.
const std::map<std::string, const char*, std::less<>> kRefused = {
    {"double", "Metal has no double; write float"},
    {"goto", "Metal has no goto"},
    {"try", "Metal has no exceptions"},
    {"throw", "Metal has no exceptions"},
    {"catch", "Metal has no exceptions"},
    {"new", "Metal has no new"},
    {"delete", "Metal has no delete"},
    {"virtual", "Metal has no virtual functions"},
    {"typeid", "Metal has no typeid"},
    {"dynamic_cast", "Metal has no dynamic_cast"},
    {"thread_local", "Metal has no thread_local"},
    {"asm", "Metal has no asm"},
    {"__attribute__", "compiler attributes are not Metal"},
};

const std::map<std::string, const char*, std::less<>> kBuiltins = {
    {"thread_position_in_threadgroup", "thread_position_in_threadgroup"},
    {"threadgroup_position_in_grid", "threadgroup_position_in_grid"},
    {"thread_position_in_grid", "thread_position_in_grid"},
    {"threads_per_threadgroup", "threads_per_threadgroup"},
    {"dispatch_threads_per_threadgroup", "threads_per_threadgroup"},
    {"threadgroups_per_grid", "threadgroups_per_grid"},
    {"threads_per_grid", "threads_per_grid"},
    {"thread_index_in_threadgroup", "thread_index_in_threadgroup"},
    {"thread_index_in_simdgroup", "thread_index_in_simdgroup"},
    {"simdgroup_index_in_threadgroup", "simdgroup_index_in_threadgroup"},
    {"simdgroups_per_threadgroup", "simdgroups_per_threadgroup"},
    {"threads_per_simdgroup", "threads_per_simdgroup"},
    {"thread_execution_width", "threads_per_simdgroup"},
};

bool address_space(const Token& t) {
  return t.word() &&
         (t.text == "device" || t.text == "constant" || t.text == "threadgroup" || t.text == "thread");
}

bool vector_type(const Token& t) {
  static const Set types = [] {
    Set s;
    for (const char* base :
         {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float"}) {
      for (const char* n : {"2", "3", "4"}) s.insert(std::string(base) + n);
    }
    return s;
  }();
  return t.word() && types.count(t.text) != 0;
}

struct Attribute {
  std::string name, argument;
};

struct Argument {
  std::string type, name;
  std::vector<Attribute> attributes;
  int line = 0;
};

struct Kernel {
  std::string name, file;
  int line = 0;
  std::string max_threads = "0";
  std::string template_head;  // "template <int N>" or empty
  std::string template_args;  // "<N>" or empty
  std::vector<Argument> arguments;
};

struct Instance {
  std::string entry, kernel, args;
  int file = 0, line = 0;
};

class Rewriter {
 public:
  Rewriter(const std::string& in, const std::string& name)
      : in_(in), name_(name), lexed_(lex(in, name)), t_(lexed_.tokens) {}

  Result<Rewritten> run() {
    for (i_ = 0; t_[i_].kind != TokenKind::kEnd;) {
      ARGON_RETURN_IF_ERROR(step());
    }
    Rewritten out;
    out.exec = applied(exec_);
    out.dialect = applied(dialect_);
    Result<std::string> table = entries();
    ARGON_RETURN_IF_ERROR(table.status());
    out.exec += *table;
    return out;
  }

 private:
  enum class Scope { kNamespace, kType, kFunction };
  struct Edit {
    size_t begin, end;
    std::string text;
  };

  std::string where(const Token& t) const {
    return lexed_.files[t.file] + ":" + std::to_string(t.line) + ": ";
  }
  Status error(const Token& t, const std::string& message) const {
    return bad_input(where(t) + "error: " + message);
  }
  Scope scope() const { return scopes_.empty() ? Scope::kNamespace : scopes_.back(); }
  bool double_bracket(size_t i) const {
    return t_[i].is("[") && t_[i + 1].is("[") && t_[i + 1].begin == t_[i].begin + 1;
  }

  // The index of the token that closes the bracket at `i`, or the end.
  size_t matching(size_t i) const {
    int depth = 0;
    for (size_t k = i; t_[k].kind != TokenKind::kEnd; ++k) {
      if (t_[k].is("(") || t_[k].is("[") || t_[k].is("{")) ++depth;
      if ((t_[k].is(")") || t_[k].is("]") || t_[k].is("}")) && --depth == 0) return k;
    }
    return t_.size() - 1;
  }
  // The index of the `>` that closes the `<` at i, or i when it is a comparison.
  size_t matching_angle(size_t i) const {
    int depth = 0;
    for (size_t k = i; t_[k].kind != TokenKind::kEnd && !t_[k].is(";") && !t_[k].is("{") && !t_[k].is(")");
         ++k) {
      if (t_[k].is("(") || t_[k].is("[")) k = matching(k);
      if (t_[k].is("<")) ++depth;
      if (t_[k].is(">") && --depth == 0) return k;
    }
    return i;
  }

  // An edit of bytes begin..end; the newlines that lay in between are kept, so lines stay where they were.
  void edit(std::vector<Edit>& edits, size_t begin, size_t end, std::string text) {
    for (size_t k = begin; k < end; ++k) {
      if (in_[k] == '\n') text += '\n';
    }
    edits.push_back({begin, end, std::move(text)});
  }
  void edit_both(size_t first, size_t last, const std::string& exec, const std::string& dialect) {
    const size_t begin = t_[first].begin, end = t_[last].begin + t_[last].text.size();
    edit(exec_, begin, end, exec);
    edit(dialect_, begin, end, dialect);
  }
  std::string applied(const std::vector<Edit>& edits) const {
    std::string out;
    size_t at = 0;
    for (const Edit& e : edits) {
      if (e.begin < at) continue;  // inside a region that was replaced as a whole
      out.append(in_, at, e.begin - at);
      out += e.text;
      at = e.end;
    }
    return out.append(in_, at, in_.size() - at);
  }

  // Tokens first..last-1 as text for the executor: address spaces dropped, attributes left out.
  std::string text_of(size_t first, size_t last) const {
    std::string out;
    for (size_t k = first; k < last; ++k) {
      if (double_bracket(k)) {
        k = matching(k);
        continue;
      }
      if (address_space(t_[k])) {
        if (t_[k].is("constant")) out += "const ";
        continue;
      }
      out += t_[k].text;
      out += ' ';
    }
    return out;
  }

  // Reads [[a, b(c)]] at `i` and leaves `i` behind it.
  std::vector<Attribute> attributes(size_t& i) const {
    std::vector<Attribute> out;
    const size_t end = matching(i);
    for (size_t k = i + 2; k + 1 < end;) {
      Attribute a{std::string(t_[k].text), ""};
      ++k;
      if (t_[k].is("(")) {
        const size_t close = matching(k);
        for (size_t m = k + 1; m < close; ++m) a.argument += t_[m].text;
        k = close + 1;
      }
      if (t_[k].is(",")) ++k;
      out.push_back(std::move(a));
    }
    i = end + 1;
    return out;
  }

  bool statement_start(size_t i) const {
    return i == 0 || t_[i - 1].is(";") || t_[i - 1].is("{") || t_[i - 1].is("}") || t_[i - 1].is(":");
  }

  Status step() {
    const Token& t = t_[i_];
    if (t.is("{")) {
      scopes_.push_back(next_scope_);
      next_scope_ = scope();
      ++i_;
      return {};
    }
    if (t.is("}")) {
      if (!scopes_.empty()) scopes_.pop_back();
      next_scope_ = scope();
      if (scope() != Scope::kFunction) in_kernel_ = false;
      ++i_;
      return {};
    }
    if (double_bracket(i_)) return attribute();
    if (t.word()) {
      if (auto bad = kRefused.find(t.text); bad != kRefused.end()) return error(t, bad->second);
      if (t.is("long") && t_[i_ + 1].is("long")) return error(t, "Metal has no long long");
      if (scope() == Scope::kFunction && t.is("static") && !t_[i_ + 1].is("constexpr")) {
        return error(t, "Metal has no static variables in functions");
      }
      if (t.is("namespace")) next_scope_ = Scope::kNamespace;
      if (t.is("struct") || t.is("class") || t.is("union") || t.is("enum")) next_scope_ = Scope::kType;
      if (statement_start(i_)) ARGON_RETURN_IF_ERROR(declaration());
      if (scope() == Scope::kNamespace) {
        if (t.is("template")) return template_head();
        if (t.is("kernel")) return kernel();
        if (t.is("constant") && function_constant()) return {};
        if (t.is("threadgroup") && threadgroup_variable_here())
          return error(t, "a threadgroup variable outside a kernel function");
      }
      if (t.is("threadgroup") && scope() == Scope::kFunction && threadgroup_variable_here())
        return threadgroup_variable();
      if (address_space(t)) {
        edit(exec_, t.begin, t.begin + t.text.size(), t.is("constant") ? "const" : "");
        ++i_;
        return {};
      }
      if (vector_type(t)) return vector();
    }
    if (t.is("(") && i_ > 0) return parenthesis();
    if (t.is("[") && i_ > 0 && scope() == Scope::kFunction && !operand_before(i_)) {
      return error(t, "Metal (C++14) kernels take no lambdas");
    }
    if (t.is(";")) {
      next_scope_ = scope();
      if (scope() != Scope::kFunction) pending_ = {};
    }
    ++i_;
    return {};
  }

  // Whether `[` at i subscripts or bounds something: after a name, a closing bracket or a reference
  // declarator.
  bool operand_before(size_t i) const {
    const Token& p = t_[i - 1];
    return (p.word() && !p.is("return")) || p.is(")") || p.is("]") || p.is(">") || p.kind == TokenKind::kText;
  }

  Status attribute() {
    const size_t first = i_;
    size_t after = i_;
    for (const Attribute& a : attributes(after)) {
      if (a.name == "kernel") {
        if (scope() != Scope::kNamespace) return error(t_[first], "a kernel must stand at global scope");
        edit_both(first, after - 1, "static __attribute__((noinline))", "");
        i_ = after;
        return kernel_signature();
      }
      if (a.name == "max_total_threads_per_threadgroup") {
        pending_.max_threads = a.argument;
      } else if (a.name != "maybe_unused" && a.name != "nodiscard") {
        return error(t_[first], "attribute [[" + a.name + "]] is not known to the executor here");
      }
    }
    edit_both(first, after - 1, "", "");
    i_ = after;
    return {};
  }

  // Pointers and references must name their address space (Metal insists; both passes would take a default).
  Status declaration() {
    static const Set skip = {"return", "else", "case",     "using",  "typedef",
                             "goto",   "do",   "template", "default"};
    if (skip.count(t_[i_].text) != 0 || scope() == Scope::kNamespace) return {};
    for (size_t k = i_; t_[k].kind != TokenKind::kEnd; ++k) {
      if (address_space(t_[k])) return {};
      if (t_[k].is("<") && t_[k - 1].word()) {
        const size_t close = matching_angle(k);
        if (close == k) return {};
        k = close;
        continue;
      }
      if (t_[k].word() || t_[k].is("::")) continue;
      if (k > i_ && (t_[k].is("*") || t_[k].is("&")) && t_[k + 1].word() &&
          (t_[k + 2].is("=") || t_[k + 2].is(";"))) {
        return error(
            t_[k],
            "a pointer or reference without an address space (device, constant, threadgroup or thread)");
      }
      return {};
    }
    return {};
  }

  Status template_head() {
    if (!t_[i_ + 1].is("<")) return instance();
    const size_t end = matching_angle(i_ + 1);
    pending_.template_head = text_of(i_, end + 1);
    pending_.template_args = "<";
    for (size_t k = i_ + 2; k <= end; ++k) {  // the last name of each parameter
      if (t_[k].is(",") || k == end) {
        size_t name = k - 1;
        for (size_t m = i_ + 2; m < k; ++m) {
          if (t_[m].is("=")) name = m - 1;
        }
        pending_.template_args +=
            std::string(pending_.template_args.size() > 1 ? ", " : "") + std::string(t_[name].text);
      }
    }
    pending_.template_args += ">";
    i_ = end + 1;
    return {};
  }

  // template [[host_name("x")]] [[kernel]] decltype(f<4, 0>) f<4, 0>;
  Status instance() {
    const size_t first = i_++;
    Instance instance;
    bool is_kernel = false;
    while (double_bracket(i_)) {
      for (const Attribute& a : attributes(i_)) {
        if (a.name == "host_name")
          instance.entry = a.argument.size() > 2 ? a.argument.substr(1, a.argument.size() - 2) : "";
        if (a.name == "kernel") is_kernel = true;
      }
    }
    if (!is_kernel || instance.entry.empty() || !t_[i_].is("decltype")) {
      return error(t_[first],
                   "an explicit instantiation must read: template [[host_name(\"entry\")]] [[kernel]] "
                   "decltype(f<...>) f<...>;");
    }
    const size_t of = i_;
    i_ = matching(i_ + 1) + 1;
    instance.kernel = t_[i_].text;
    size_t end = i_;
    while (!t_[end].is(";") && t_[end].kind != TokenKind::kEnd) ++end;
    instance.args = text_of(i_ + 1, end);
    instance.file = t_[first].file;
    instance.line = t_[first].line;
    edit_both(first, of - 1, "", "template ");
    edit(exec_, t_[of].begin, t_[end].begin + 1, "");
    instances_.push_back(instance);
    i_ = end + 1;
    return {};
  }

  Status kernel() {
    edit_both(i_, i_, "static __attribute__((noinline))", "");
    ++i_;
    return kernel_signature();
  }

  // At the return type of a kernel: void name(arguments) {
  Status kernel_signature() {
    if (!scopes_.empty()) return error(t_[i_], "a kernel must stand at global scope, outside namespaces");
    if (!t_[i_].is("void") || !t_[i_ + 1].word() || !t_[i_ + 2].is("(")) {
      return error(t_[i_], "a kernel must read: kernel void name(arguments)");
    }
    Kernel k = std::move(pending_);
    pending_ = {};
    k.name = t_[i_ + 1].text;
    k.file = lexed_.files[t_[i_ + 1].file];
    k.line = t_[i_ + 1].line;
    const size_t open = i_ + 2, close = matching(open);
    size_t from = open + 1;
    for (size_t e = from; e <= close; ++e) {
      if (t_[e].is("<")) e = matching_angle(e);
      if ((t_[e].is("(") || t_[e].is("[")) && e != close) {
        e = matching(e);
        continue;
      }
      if (!t_[e].is(",") && e != close) continue;
      if (e > from) {
        Argument a;
        a.line = t_[from].line;
        size_t end = e;
        for (size_t m = from; m < e; ++m) {
          if (!double_bracket(m)) continue;
          end = std::min(end, m);
          const size_t begin = m;
          for (Attribute& x : attributes(m)) a.attributes.push_back(std::move(x));
          --m;
          edit_both(begin, m, "", "");
        }
        for (size_t m = from; m < end; ++m) {
          if (address_space(t_[m]))
            edit(exec_, t_[m].begin, t_[m].begin + t_[m].text.size(), t_[m].is("constant") ? "const" : "");
        }
        ARGON_RETURN_IF_ERROR(needs_address_space(from, end));
        a.name = t_[end - 1].text;
        a.type = text_of(from, end - 1);
        if (a.attributes.empty()) {
          return error(t_[from], "argument '" + a.name + "' of kernel '" + k.name +
                                     "' needs an attribute such as [[buffer(0)]]");
        }
        k.arguments.push_back(std::move(a));
      }
      from = e + 1;
    }
    kernels_.push_back(std::move(k));
    if (t_[close + 1].is("{")) {
      next_scope_ = Scope::kFunction;
      in_kernel_ = true;
    }
    sort_edits();
    i_ = close + 1;
    return {};
  }

  void sort_edits() {
    for (std::vector<Edit>* e : {&exec_, &dialect_}) {
      std::stable_sort(e->begin(), e->end(), [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
    }
  }

  bool function_constant() {
    size_t k = i_;
    while (!t_[k].is(";") && !t_[k].is("{") && !t_[k].is("=") && t_[k].kind != TokenKind::kEnd &&
           !double_bracket(k))
      ++k;
    if (!double_bracket(k)) return false;
    size_t after = k;
    const std::vector<Attribute> list = attributes(after);
    if (list.size() != 1 || list[0].name != "function_constant" || !t_[after].is(";")) return false;
    const std::string name(t_[k - 1].text), type = text_of(i_ + 1, k - 1);
    edit_both(i_, after,
              "static " + type + " " + name + "; static argon_constant argon_constant_" + name + "(\"" +
                  name + "\", " + list[0].argument + ", &" + name + ");",
              "__constant " + type + " " + name + " = (" + type + ")1;");
    i_ = after + 1;
    return true;
  }

  // threadgroup T name[..]; as opposed to a pointer or reference to threadgroup memory.
  bool threadgroup_variable_here() const {
    if (!statement_start(i_)) return false;
    for (size_t k = i_; t_[k].kind != TokenKind::kEnd; ++k) {
      if (t_[k].is("[")) k = matching(k);
      if (t_[k].is(";")) return true;
      if (t_[k].is("*") || t_[k].is("&") || t_[k].is("=") || t_[k].is("(")) return false;
    }
    return false;
  }
  Status threadgroup_variable() {
    const Token& t = t_[i_];
    if (!in_kernel_)
      return error(
          t, "a threadgroup variable must be declared in a kernel function, not in a function it calls");
    size_t name = i_ + 1;
    while (!t_[name + 1].is("[") && !t_[name + 1].is(";") && t_[name + 1].kind != TokenKind::kEnd) {
      if (t_[name + 1].is(",")) return error(t, "one threadgroup variable per declaration, please");
      ++name;
    }
    size_t end = name + 1;
    while (!t_[end].is(";")) {
      if (t_[end].is(",")) return error(t, "one threadgroup variable per declaration, please");
      end = t_[end].is("[") ? matching(end) + 1 : end + 1;
    }
    const std::string type = text_of(i_ + 1, name) + text_of(name + 1, end),
                      id = std::to_string(variables_++);
    const std::string head = "argon_type<" + type + ">& " + std::string(t_[name].text) +
                             " = argon_threadgroup_variable<" + type + ">(";
    edit_both(i_, end, head + id + ", \"" + lexed_.files[t.file] + "\", " + std::to_string(t.line) + ");",
              "__local " + head + ");");
    i_ = end + 1;
    return {};
  }

  Status vector() {
    const Token& t = t_[i_];
    if (i_ > 0 && t_[i_ - 1].is("(") && t_[i_ + 1].is(")") && i_ > 1 && !t_[i_ - 2].word() &&
        (t_[i_ + 2].word() || t_[i_ + 2].is("(") || t_[i_ + 2].kind == TokenKind::kNumber)) {
      return error(
          t, "a C cast to a vector type: write " + std::string(t.text) + "(x), or as_type for the bits");
    }
    if (i_ > 1 && t_[i_ - 1].is("<") && t_[i_ - 2].is("static_cast")) {
      return error(t, "static_cast to a vector type: write " + std::string(t.text) + "(x)");
    }
    if (t_[i_ + 1].is("(")) {
      const size_t close = matching(i_ + 1);
      const bool declarator =
          (t_[i_ + 2].is("&") || t_[i_ + 2].is("*")) && (t_[close + 1].is("[") || t_[close + 1].is("("));
      if (!declarator)
        edit_both(i_, i_, "argon_make<" + std::string(t.text) + ">",
                  "argon_make<" + std::string(t.text) + ">");
    }
    ++i_;
    return {};
  }

  Status needs_address_space(size_t first, size_t last) {
    bool pointer = false;
    for (size_t k = first; k < last; ++k) {
      if (address_space(t_[k])) return {};
      if (t_[k].is("=")) break;
      pointer = pointer || t_[k].is("*") || t_[k].is("&");
    }
    if (!pointer) return {};
    return error(t_[first],
                 "a pointer or reference without an address space (device, constant, threadgroup or thread)");
  }

  // At an opening parenthesis outside functions: a function's parameters.
  Status parenthesis() {
    const size_t close = matching(i_);
    const Token& before = t_[i_ - 1];
    if (scope() != Scope::kFunction && before.word() && !before.is("decltype") &&
        !before.is("static_assert") && !before.is("alignas") && !before.is("sizeof")) {
      size_t from = i_ + 1;
      for (size_t e = from; e <= close; ++e) {
        if (t_[e].is("(") || t_[e].is("[")) e = matching(e);
        if (!t_[e].is(",") && e != close) continue;
        ARGON_RETURN_IF_ERROR(needs_address_space(from, e));
        from = e + 1;
      }
      size_t body = close + 1;
      while (t_[body].is("const") || t_[body].is("noexcept")) ++body;
      if (t_[body].is("{") || t_[body].is(":")) next_scope_ = Scope::kFunction, pending_ = {};
    }
    ++i_;
    return {};
  }

  // The table of entry points, appended for the executor.
  Result<std::string> entries() const {
    std::string out = "\n# 1 \"<entry points of " + name_ + ">\"\n";
    for (const Kernel& k : kernels_) {
      const std::string at = k.file + ":" + std::to_string(k.line) + ": error: ";
      std::string call, params;
      size_t count = 0;
      for (const Argument& a : k.arguments) {
        std::string condition = "nullptr", index, kind;
        std::string value;
        for (const Attribute& x : a.attributes) {
          if (x.name == "buffer" || x.name == "threadgroup") {
            index = x.argument;
            const bool reference = a.type.find('&') != std::string::npos;
            const std::string table = x.name == "buffer" ? "c.buffer[" : "c.threadgroup[";
            kind = x.name == "threadgroup" ? "kThreadgroupPointer" : reference ? "kReference" : "kPointer";
            value = reference ? "*(typename argon_pointee<" + a.type + ">::type*)" + table + index + "]"
                              : "(" + a.type + ")" + table + index + "]";
          } else if (x.name == "function_constant") {
            condition = "&" + x.argument;
          } else if (auto b = kBuiltins.find(x.name); b != kBuiltins.end()) {
            value = "argon_builtin<" + a.type + ">::of(c." + b->second + ")";
          } else {
            return bad_input(k.file + ":" + std::to_string(a.line) + ": error: attribute [[" + x.name +
                             "]] of argument '" + a.name + "' is not known to the executor");
          }
        }
        if (value.empty()) return bad_input(at + "argument '" + a.name + "' is bound to nothing");
        call += (call.empty() ? "" : ", ") + value;
        if (kind.empty()) continue;
        const std::string pointee = "argon_pointee<" + a.type + ">";
        params += "{\"" + a.name + "\", argon_exec::" + kind + ", " + index + ", argon_size<typename " +
                  pointee + "::type>::bytes, argon_size<typename " + pointee + "::type>::align, " + pointee +
                  "::writable != 0, " + condition + "}, ";
        ++count;
      }
      if (count == 0) params = "{}";
      const std::string thunk = "argon_thunk_" + k.name;
      out += k.template_head + " struct " + thunk + " {\n" +
             "__attribute__((disable_sanitizer_instrumentation, no_sanitize(\"undefined\"))) static void "
             "call(const argon_exec::Call& c) { (void)c; " +
             k.name + k.template_args + "(" + call + "); }\n" +
             "static const argon_exec::Param* params() { static const argon_exec::Param p[] = {" + params +
             "}; return p; }\n};\n";
      auto add = [&](const std::string& entry, const std::string& args, const std::string& file, int line) {
        const std::string type = thunk + args;
        out += "static argon_entry argon_entry_" + entry + "(\"" + entry + "\", \"" + file + "\", " +
               std::to_string(line) + ", " + k.max_threads + ", " + type + "::params(), " +
               std::to_string(count) + ", &" + type + "::call);\n";
      };
      if (k.template_head.empty()) add(k.name, "", k.file, k.line);
      for (const Instance& n : instances_) {
        if (n.kernel == k.name) add(n.entry, n.args, lexed_.files[n.file], n.line);
      }
    }
    for (const Instance& n : instances_) {
      bool known = false;
      for (const Kernel& k : kernels_) known = known || k.name == n.kernel;
      if (!known) {
        return bad_input(lexed_.files[n.file] + ":" + std::to_string(n.line) + ": error: '" + n.entry +
                         "' instantiates '" + n.kernel + "', which is no kernel template of this file");
      }
    }
    return out;
  }

  const std::string& in_;
  const std::string name_;
  const Lexed lexed_;
  const std::vector<Token>& t_;
  size_t i_ = 0;
  std::vector<Edit> exec_, dialect_;
  std::vector<Scope> scopes_;
  Scope next_scope_ = Scope::kNamespace;
  bool in_kernel_ = false;
  int variables_ = 0;
  Kernel pending_;
  std::vector<Kernel> kernels_;
  std::vector<Instance> instances_;
};

}  // namespace

Result<Rewritten> rewrite_kernels(const std::string& preprocessed, const std::string& name) {
  return Rewriter(preprocessed, name).run();
}

}  // namespace argon::metal
