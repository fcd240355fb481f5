"""No function is too long, and the functions of every shape are found."""

import check_functions
import pytest
from check_functions import FUNCTION_LINES_MAX, UnbalancedBraces
from tree import cpp_files, python_files, read


def test_functions_are_short() -> None:
    findings = []
    for file in (*cpp_files(), *python_files()):
        findings += check_functions.check(file, read(file))
    assert not findings, "\n".join(findings)


def test_allowances_are_for_files_that_exist() -> None:
    files = {file for file, _ in check_functions.ALLOWED}
    assert files <= {*cpp_files(), *python_files()}


# Samples of C++ with one function, whose body is the line BODY.
SHAPES = {
    "one line": "void F() {\nBODY\n}\n",
    "wrapped signature": "void F(int first,\n       int second) {\nBODY\n}\n",
    "wrapped before the name": (
        "std::map<int, std::string>\nF(const std::vector<int>& a,\n  int b) {\nBODY\n}\n"
    ),
    "brace on its own line": "void F()\n{\nBODY\n}\n",
    "method": "class C {\n public:\n  void F() {\nBODY\n  }\n};\n",
    "wrapped method": (
        "class C final : public Base<int> {\n private:\n  void F(int a,\n"
        "         int b) const noexcept override {\nBODY\n  }\n};\n"
    ),
    "method of a nested class": (
        "struct A {\n  struct B {\n    void F() {\nBODY\n    }\n  };\n};\n"
    ),
    "method after an enum": (
        "class C {\n  enum class E : int { kA = 1, kB = (2) };\n"
        "  int x_{0};\n  void F() {\nBODY\n  }\n};\n"
    ),
    "constructor": "F::F(int a, int b) : a_(a), b_(b) {\nBODY\n}\n",
    "constructor with a wrapped list": (
        "F::F(std::vector<int> a)\n    : Base(a.size()),\n      a_(std::move(a)),\n"
        "      b_{1, 2},\n      c_(G({3})) {\nBODY\n}\n"
    ),
    "constructor that ends with a list in braces": (
        "F::F()\n    : a_(1),\n      b_{1, {2}} {\nBODY\n}\n"
    ),
    "constructor of packs": "F::F() : Ts(1)... {\nBODY\n}\n",
    "destructor": "F::~F() {\nBODY\n}\n",
    "template": "template <typename T, int N = 3>\nT F(T a) {\nBODY\n}\n",
    "template of templates": (
        "template <template <class> class T,\n          class U = std::vector<int>>\n"
        "auto F(T<U> a) -> decltype(a.b()) {\nBODY\n}\n"
    ),
    "constraint": (
        "template <typename T>\n  requires std::integral<T> && (sizeof(T) == 4)\n"
        "void F(T a) {\nBODY\n}\n"
    ),
    "constraint with braces": (
        "template <typename T>\n  requires requires(T a) { a.b(); }\n"
        "void F(T a) {\nBODY\n}\n"
    ),
    "method of a template": (
        "template <class T>\nstruct S<T*> : B {\n  void F() {\nBODY\n  }\n};\n"
    ),
    "operator ()": "bool F::operator()(int a) const {\nBODY\n}\n",
    "operator ==": "bool operator==(const F& a,\n                const F& b) {\nBODY\n}\n",
    "operator =": "F& F::operator=(F&& other) noexcept {\nBODY\n}\n",
    "operator []": "int F::operator[](int a) {\nBODY\n}\n",
    "operator <=>": "auto operator<=>(F a, F b) {\nBODY\n}\n",
    "conversion": "F::operator bool() const {\nBODY\n}\n",
    "default argument": "void F(int a = 1, std::vector<int> b = {1, 2}) {\nBODY\n}\n",
    "namespaces on one line": "namespace a::b { namespace {\nvoid F() {\nBODY\n}\n} }\n",
    "function beside its namespace": "namespace a { void F() {\nBODY\n} }\n",
    "inline namespace": "inline namespace v1 {\nvoid F() {\nBODY\n}\n}\n",
    "extern": 'extern "C" {\nint F(void) {\nBODY\n}\n}\n',
    "extern without a block": 'extern "C" int F(void) {\nBODY\n}\n',
    "struct as result": "struct point* F(int a) {\nBODY\n}\n",
    "attributes": "[[nodiscard]] int F() ABSL_LOCKS_EXCLUDED(mu_) {\nBODY\n}\n",
    "attribute of a class": "class ABSL_LOCKABLE alignas(8) C {\n  void F() {\nBODY\n  }\n};\n",
    "test": "TEST_F(SuiteTest, Name) {\nBODY\n}\n",
    "lambda": "const auto f = [](int a) -> int {\nBODY\n};\n",
    "after an array": "int a[] = {1, 2};\nvoid F() {\nBODY\n}\n",
    "after a function pointer": "int (*a)(int){nullptr};\nvoid F() {\nBODY\n}\n",
    "after directives": "#if A  // {\n#define B {\n#endif\nvoid F() {\nBODY\n}\n",
    "after literals": (
        "const char kA[] = \"}\", kB = '{', kC = '\\'';\n"
        'const char* d = R"(}\n")";\nint e = 1\'000;  // }\nvoid F() {\nBODY\n}\n'
    ),
}
CONTENTS = {
    "calls": "  G();\n",
    "lambdas": "  G([](int a) {\n    return a;\n  });\n",
    "blocks": "  if (a) {\n    G({1});\n  } else {\n    G('}');\n  }\n",
    "comments": "  // } {\n",
}


@pytest.mark.parametrize("contents", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_function_is_found(shape: str, contents: str) -> None:
    repeats = FUNCTION_LINES_MAX // contents.count("\n") + 1
    text = shape.replace("BODY\n", contents * repeats)
    found = [f for f in check_functions.cpp_functions(text) if f.length > 1]
    assert [f.length for f in found] == [repeats * contents.count("\n")]
    assert len(check_functions.check("a/b.cc", text)) == 1
    assert check_functions.check("a/b.cc", shape) == []


def test_line_and_name_are_those_of_the_declaration() -> None:
    text = "int a;\n\n// Comment.\nvoid C::F(int b,\n          int c) {\n  G();\n}\n"
    (function,) = check_functions.cpp_functions(text)
    assert (function.line, function.length, function.name) == (4, 1, "C::F")
    (function,) = check_functions.cpp_functions("TEST(A, B) {\n}\n")
    assert function.name == "A.B"


@pytest.mark.parametrize(
    "text",
    [
        "enum E {\nBODY};\n",
        "struct S {\nBODY};\n",
        "const int kA[] = {\nBODY};\n",
        "const std::map<int, int> kA{\nBODY};\n",
        "namespace a {\nBODY}\n",
    ],
)
def test_other_braces_are_no_functions(text: str) -> None:
    text = text.replace("BODY", "  kA,\n" * (FUNCTION_LINES_MAX + 1))
    assert check_functions.check("a/b.cc", text) == []


@pytest.mark.parametrize("text", ["void F() {\n", "}\n", "namespace a {\n", "F(\n"])
def test_braces_that_do_not_match_are_found(text: str) -> None:
    with pytest.raises(UnbalancedBraces):
        check_functions.cpp_functions(text)
    assert check_functions.check("a/b.cc", text)


@pytest.mark.parametrize(
    "declaration",
    [
        "def f():\n",
        "async def f(\n    a=1,\n):\n",
        "@property\ndef f(self):\n",
        'def f():\n    """Text.\n\n    More text.\n    """\n',
        "class A:\n  class B:\n    def f(self):\n",
        "if a:\n    def f():\n",
    ],
)
def test_python_function_is_found(declaration: str) -> None:
    def text(lines: int) -> str:
        return declaration + "        g()\n" * lines

    # Statements have the indentation of the docstring.
    indented = text if '"""' not in declaration else lambda n: _dedented(text(n))
    longest = check_functions.PYTHON_FUNCTION_LINES_MAX
    assert check_functions.check("a/b.py", indented(longest)) == []
    assert len(check_functions.check("a/b.py", indented(longest + 1))) == 1


def _dedented(text: str) -> str:
    return text.replace("        g()", "    g()")


def test_inner_functions_count_as_lines_of_the_outer_one() -> None:
    text = "def f():\n    def g():\n" + "        h()\n" * 80 + "    return g\n"
    (function,) = check_functions.python_functions(text)
    assert (function.name, function.length) == ("f", 82)


def test_an_allowance_permits_no_more_lines_and_only_while_they_are_needed() -> None:
    def text(lines: int) -> str:
        return "void F() {\n" + "  G();\n" * lines + "}\n"

    allowed = {("a/b.cc", "F"): 80}
    assert check_functions.check("a/b.cc", text(80), allowed) == []
    assert len(check_functions.check("a/b.cc", text(81), allowed)) == 1
    assert len(check_functions.check("a/b.cc", text(79), allowed)) == 1
    assert len(check_functions.check("a/b.cc", "", allowed)) == 1
    assert len(check_functions.check("a/c.cc", text(80), allowed)) == 1
