"""Many small files become one style sheet and one script, so that a page asks for two things. What
one page alone needs is sent beside them: css/pages/<page>.css, js/pages/<page>.js and what that
imports. What works beside a page is a script of its own: js/workers/<name>.js.

Pure, and strict on purpose: it knows the few forms in which our modules import and export, and
refuses every other, so that what it makes means what the files mean. Decision 42 says why it is
our own.
"""

import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath

# The order of the layers is the order of strength, whatever a selector's weight.
_LAYERS = (
    ("tokens", re.compile(r"css/tokens\.css")),
    ("base", re.compile(r"css/base\.css")),
    ("layout", re.compile(r"css/layout\.css")),
    ("components", re.compile(r"css/components/[\w-]+\.css")),
    ("utilities", re.compile(r"css/utilities\.css")),
)
_ENTRY = re.compile(r"js/main\.js|js/elements/[\w-]+\.js")
_PAGE_SHEET = re.compile(r"css/pages/([\w-]+)(?:/[\w-]+)?\.css")  # a folder if it is long
_PAGE_SCRIPT = re.compile(r"js/pages/([\w-]+)\.js")
_WORKER = re.compile(r"js/workers/([\w-]+)\.js")
_IMPORT = re.compile(r'^import\s+(?:\{([^}]*)\}\s+from\s+)?"(\.[^"]+)";[ \t]*\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*? ?|class |const )(\w+))", re.MULTILINE)
_OTHER = re.compile(r"^[ \t]*(?:import\b(?!\()|export\b).*|\bimport\(.*", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?:\s+as\s+(\w+))?")
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_JS_COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+|[ \t]+$", re.MULTILINE)
_BLANK = re.compile(r"\n{2,}")


class CannotBundle(ValueError):
    """A file says something in a form that the bundle does not know."""


def bundles(files: Mapping[str, str]) -> dict[str, str]:
    """By the names under which they are served."""
    return {"app.css": style_sheet(files)} | page_sheets(files) | scripts(files) | workers(files)


def style_sheet(files: Mapping[str, str]) -> str:
    parts = [f"@layer {', '.join(layer for layer, _ in _LAYERS)};"]
    for layer, belongs in _LAYERS:
        parts += [_layer(layer, files[path]) for path in sorted(filter(belongs.fullmatch, files))]
    return "\n".join(parts) + "\n"


def page_sheets(files: Mapping[str, str]) -> dict[str, str]:
    sheets: dict[str, str] = {}
    for path in sorted(files):
        if found := _PAGE_SHEET.fullmatch(path):
            name = f"{found[1]}.css"
            sheets[name] = sheets.get(name, "") + _layer("components", files[path]) + "\n"
    return sheets


def _layer(name: str, rules: str) -> str:
    return f"@layer {name} {{\n{_tidy(_CSS_COMMENT.sub('', rules))}}}"


def scripts(files: Mapping[str, str]) -> dict[str, str]:
    """Each module is a function that runs once, after those it imports. An element that a page's
    script imports is sent with that page only; what all pages have, it takes from theirs."""
    own = {
        found[1]: _reached([path], files)
        for path in sorted(files)
        if (found := _PAGE_SCRIPT.fullmatch(path))
    }
    of_pages = {path for modules in own.values() for path in modules}
    entries = sorted(path for path in files if _ENTRY.fullmatch(path) and path not in of_pages)
    everywhere = _reached(entries, files)
    made, lent = {}, set()
    for name, modules in own.items():
        mine = {path: text for path, text in modules.items() if path not in everywhere}
        taken = {target for path in mine for target in _targets(path, files[path])} - set(mine)
        made[f"{name}.js"] = _taking(taken) + "".join(mine.values())
        lent |= taken
    return {"app.js": "".join(everywhere.values()) + _lending(lent)} | made


def workers(files: Mapping[str, str]) -> dict[str, str]:
    """Whole by themselves: what a page has, a worker cannot take."""
    return {
        f"{found[1]}.worker.js": "".join(_reached([path], files).values())
        for path in sorted(files)
        if (found := _WORKER.fullmatch(path))
    }


def _taking(paths: set[str]) -> str:
    return f'import {{ {_variables(paths)} }} from "./app.js";\n' if paths else ""


def _lending(paths: set[str]) -> str:
    return f"export {{ {_variables(paths)} }};\n" if paths else ""


def _variables(paths: set[str]) -> str:
    return ", ".join(sorted(map(_variable, paths)))


def _reached(entries: list[str], files: Mapping[str, str]) -> dict[str, str]:
    done: dict[str, str] = {}
    for path in entries:
        _add(path, files, done, ())
    return done


def _add(path: str, files: Mapping[str, str], done: dict[str, str], via: tuple[str, ...]) -> None:
    if path in done:
        return
    if path in via:
        raise CannotBundle(f"{' → '.join((*via, path))}: modules import each other")
    if path not in files:
        raise CannotBundle(f"{via[-1]} imports {path}, which is not there")
    for target in _targets(path, files[path]):
        _add(target, files, done, (*via, path))
    done[path] = _module(path, files[path])


def _targets(path: str, source: str) -> Iterator[str]:
    for found in _IMPORT.finditer(source):
        yield _resolve(path, found[2])


def _module(path: str, source: str) -> str:
    exported: list[str] = _EXPORT.findall(source)

    def imported(found: re.Match[str]) -> str:
        if found[1] is None:
            return ""
        names = ", ".join(_names(path, found[1]))
        return f"const {{ {names} }} = {_variable(_resolve(path, found[2]))};\n"

    body = _EXPORT.sub("", _IMPORT.sub(imported, source))
    if left := _OTHER.search(body):
        raise CannotBundle(f"{path}: {left[0].strip()!r} is no form that the bundle knows")
    body = _tidy(_JS_COMMENT.sub("", body))
    answer = f"return {{ {', '.join(exported)} }};\n" if exported else ""
    return f"const {_variable(path)} = (() => {{\n{body}{answer}}})();\n"


def _names(path: str, listed: str) -> Iterator[str]:
    for part in filter(None, (part.strip() for part in listed.split(","))):
        found = _NAME.fullmatch(part)
        if found is None:
            raise CannotBundle(f"{path}: imports {part!r}")
        yield f"{found[1]}: {found[2]}" if found[2] else found[1]


def _resolve(path: str, target: str) -> str:
    return normpath(join(dirname(path), target))


def _variable(path: str) -> str:
    return "$" + re.sub(r"\W", "_", path.removeprefix("js/").removesuffix(".js"))


def _tidy(text: str) -> str:
    """Without what only readers of the files need. No line's text is changed."""
    return _BLANK.sub("\n", _INDENT.sub("", text)).strip("\n") + "\n"
