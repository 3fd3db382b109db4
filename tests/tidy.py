"""The house rules that no linter knows, as functions from a tree to its findings.

`root` is a directory laid out like this repository: `src/lentic`, perhaps `tests`, `Makefile` and
`pyproject.toml`. Each check reads the tree anew and changes nothing, so it can be pointed at a copy
with a planted fault (`test_checks_can_fail.py`). A finding names a place and its fix.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SKIPPED_DIRECTORIES = {"__pycache__", "node_modules"}

# "Base" is allowed where it is the format's own word: a base file.
_BANNED_CLASS = re.compile(
    r"^_*(Base(?!File)|Abstract|Hoodie)[A-Z]|(Manager|Helper|Utils?|Factory|Impl)s?$"
)
_BANNED_SNAKE = re.compile(r"^_*(abstract|hoodie)_|(^|_)(manager|helper|utils?|factory|impl)s?$")
_UNSAFE_MODULES = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
_UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
# The Spark room is loaded by name, so that the package works without PySpark.
_MAY_IMPORT_BY_NAME = ("__init__.py", "api.py")
_MAY_OPEN_FILES = ("world.py", "storage/", "testing/", "spark/session.py")
# Catching what another library does not implement is finished work; raising it is not.
_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|raise NotImplementedError)\b")

# Written in pieces, so that this file passes its own check.
_MACHINE_PATH = re.compile(r"(?<![\w.])/(wor" + r"k/|tm" + r"p/p\b|roo" + r"t/)")
_REGISTRY = re.compile(
    r"pypi" + r"\.org|python" + r"hosted\.org|repo1?\.maven" + r"(\.apache)?\.org"
    r"|^\s*--(index-url|extra-index-url|find-links|trusted-host)\b",
    re.MULTILINE,
)
_PUBLIC_DIRECTORIES = ("src", "tests", "docs", "benchmarks", "examples", ".ci")
_PUBLIC_SUFFIXES = {".py", ".md", ".toml", ".txt", ".lock", ".avsc", ".properties", ".sh", ".yml"}
_PUBLIC_NAMES = {"Makefile", "LICENSE", "NOTICE", "run", ".gitignore"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule, where it is broken, and how to mend it."""

    path: Path
    line: int
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what} Fix: {self.fix}"


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed Python file; `path` is relative to the tree's root."""

    path: Path
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, _FUNCTIONS))


def load_sources(root: Path, *directories: str) -> list[Source]:
    """Every Python file under these directories of `root`, in path order."""
    found = []
    for directory in directories:
        for path in sorted((root / directory).rglob("*.py")):
            if not _SKIPPED_DIRECTORIES.intersection(path.parts):
                text = path.read_text("utf-8")
                found.append(Source(path.relative_to(root), text, _parse(text)))
    return found


@functools.cache
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


def find_long_files(root: Path) -> list[Finding]:
    """Files longer than a reader takes in at one sitting."""
    fix = "move one idea, with all that it needs, into a module of its own."
    return [
        Finding(source.path, lines, f"The file has {lines} lines (at most {FILE_LINES_MAX}).", fix)
        for source in load_sources(root, "src", "tests")
        if (lines := len(source.text.splitlines())) > FILE_LINES_MAX
    ]


def find_long_functions(root: Path) -> list[Finding]:
    """Functions longer than a screen."""
    found = []
    for source in load_sources(root, "src", "tests"):
        for function in source.functions():
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append(
                    Finding(
                        source.path,
                        function.lineno,
                        f"{function.name} has {lines} lines (at most {FUNCTION_LINES_MAX}).",
                        "keep the decisions here and move the steps into functions of their own.",
                    )
                )
    return found


def find_hidden_imports(root: Path) -> list[Finding]:
    """Imports inside a function, which hide a knot between modules."""
    found = []
    for source in load_sources(root, "src"):
        hidden = {
            node.lineno: function.name
            for function in source.functions()
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        found += [
            Finding(
                source.path,
                line,
                f"{name} imports inside its body.",
                "import at the top; if that makes a cycle, the shared part belongs one room lower.",
            )
            for line, name in sorted(hidden.items())
        ]
    return found


def find_banned_names(root: Path) -> list[Finding]:
    """Names that say what a thing is made as, not what it is for."""
    fix = "name it for what it is or does, in a word of docs/glossary.md."
    found = []
    for source in load_sources(root, "src"):
        module = source.path.parent.name if source.path.stem == "__init__" else source.path.stem
        if _BANNED_SNAKE.search(module):
            found.append(Finding(source.path, 1, f"Module name {module} is banned.", fix))
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and _BANNED_CLASS.search(node.name):
                found.append(
                    Finding(source.path, node.lineno, f"Class {node.name} is banned.", fix)
                )
            if isinstance(node, _FUNCTIONS) and _BANNED_SNAKE.search(node.name):
                what = f"Function {node.name} is banned."
                found.append(Finding(source.path, node.lineno, what, fix))
    return found


def find_undocumented_modules(root: Path) -> list[Finding]:
    """Modules that do not open with what they are for."""
    return [
        Finding(
            source.path,
            1,
            "The module has no docstring.",
            "open it with what it is for and its invariants.",
        )
        for source in load_sources(root, "src")
        if not ast.get_docstring(source.tree)
    ]


def find_unsafe_code(root: Path) -> list[Finding]:
    """What could run bytes or import names read from storage, and files opened past its room."""
    found = []
    for source in load_sources(root, "src"):
        inside = source.path.as_posix().removeprefix("src/lentic/")
        for node in ast.walk(source.tree):
            unsafe = set() if inside.startswith("testing/") else _imported_names(node)
            called = _called_name(node)
            if (bad := unsafe & _UNSAFE_MODULES) or called in _UNSAFE_CALLS:
                what = f"{', '.join(sorted(bad)) or called} can run what was read."
                fix = "encode values as JSON or Avro in lentic.format."
                found.append(Finding(source.path, _line(node), what, fix))
            if called == "import_module" and inside not in _MAY_IMPORT_BY_NAME:
                what = "import_module can import a name that was read."
                fix = "look names up in a table of built-ins."
                found.append(Finding(source.path, _line(node), what, fix))
            if called == "open" and not inside.startswith(_MAY_OPEN_FILES):
                what = "open() goes past the storage room."
                found.append(Finding(source.path, _line(node), what, "take a Storage."))
    return found


def find_unfinished_work(root: Path) -> list[Finding]:
    """Marks of work left for later."""
    return [
        Finding(
            source.path,
            number,
            f"{match.group()} marks unfinished work.",
            "finish it, or refuse with an error that says what is missing.",
        )
        for source in load_sources(root, "src")
        for number, line in enumerate(source.text.splitlines(), start=1)
        if (match := _UNFINISHED.search(line))
    ]


def find_machine_text(root: Path) -> list[Finding]:
    """Public text that speaks of one machine or of where packages come from."""
    found = []
    for path in _public_files(root):
        text = path.read_text("utf-8")
        for pattern, what, fix in (
            (_MACHINE_PATH, "a path of one machine", "use a path relative to the repository."),
            (_REGISTRY, "a package registry", "leave it to the user's own pip configuration."),
        ):
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                name = path.relative_to(root)
                found.append(Finding(name, line, f"{match.group()!r} names {what}.", fix))
    return found


def find_dead_files(root: Path) -> list[Finding]:
    """Modules that nothing imports: no other module, test, console script or make target."""
    sources = load_sources(root, "src")
    modules = {_module_name(source.path): source for source in sources}
    used: set[str] = set()
    for source in [*sources, *load_sources(root, "tests")]:
        used |= _references(source, set(modules)) - {_module_name(source.path)}
    used |= _entry_points(root)
    return [
        Finding(
            source.path,
            1,
            f"Nothing imports {module}.",
            "delete it, or import it where it is needed.",
        )
        for module, source in modules.items()
        if module not in used and source.path.stem not in ("__init__", "__main__")
    ]


CHECKS: tuple[Callable[[Path], list[Finding]], ...] = (
    find_long_files,
    find_long_functions,
    find_hidden_imports,
    find_banned_names,
    find_undocumented_modules,
    find_unsafe_code,
    find_unfinished_work,
    find_machine_text,
    find_dead_files,
)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def _imported_names(node: ast.AST) -> set[str]:
    """The top-level packages that this statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module.partition(".")[0]}
    return set()


def _called_name(node: ast.AST) -> str | None:
    """The plain name that is called, or `import_module` however it is reached."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id
        if isinstance(node.func, ast.Attribute) and node.func.attr == "import_module":
            return node.func.attr
    return None


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _references(source: Source, modules: set[str]) -> set[str]:
    """The modules of ours that a file imports, or names in full in a string."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found & modules


def _entry_points(root: Path) -> set[str]:
    """The modules that console scripts and `python -m` in the Makefile start."""
    found: set[str] = set()
    if (root / "pyproject.toml").exists():
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
        found |= {target.partition(":")[0] for target in project.get("scripts", {}).values()}
    if (root / "Makefile").exists():
        found |= set(re.findall(r"-m (lentic[\w.]*)", (root / "Makefile").read_text("utf-8")))
    return found


def _public_files(root: Path) -> Iterator[Path]:
    candidates = [path for path in sorted(root.iterdir()) if path.is_file()]
    for directory in _PUBLIC_DIRECTORIES:
        candidates += sorted((root / directory).rglob("*"))
    for path in candidates:
        named = path.suffix in _PUBLIC_SUFFIXES or path.name in _PUBLIC_NAMES
        if named and path.is_file() and not _SKIPPED_DIRECTORIES.intersection(path.parts):
            yield path
