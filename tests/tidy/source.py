"""The tree as text, and C++ as far as a rule reads it: without comments, without strings."""

import os
import re

ROOTS = (".ci", "src", "tests", "properties", "golden", "ci")
CPP = (".h", ".cpp", ".cu", ".cuh")


class Tree:
    """Every file of the tree by its path from the root; a file that is not text is held as ""."""

    def __init__(self, files):
        self.files = files

    @classmethod
    def read(cls, root):
        files = {}
        for name in sorted(os.listdir(root)):
            if name != ".git" and os.path.isfile(os.path.join(root, name)):
                files[name] = text_of(os.path.join(root, name))
        for folder in ROOTS:
            for where, folders, names in os.walk(os.path.join(root, folder)):
                folders[:] = [each for each in folders if each != "__pycache__"]
                for name in names:
                    path = os.path.join(where, name)
                    files[os.path.relpath(path, root)] = text_of(path)
        return cls(files)

    def planted(self, path, text):
        """The same tree with `text` at `path`."""
        return Tree({**self.files, path: text})

    def without(self, path):
        return Tree({name: text for name, text in self.files.items() if name != path})

    def under(self, folders, endings):
        """(path, text) of the files in these folders that end so, in order of path."""
        starts = tuple(folder + "/" for folder in folders)
        return [(path, text) for path, text in sorted(self.files.items())
                if path.startswith(starts) and path.endswith(endings)]


def text_of(path):
    with open(path, "rb") as file:
        try:
            return file.read().decode()
        except UnicodeDecodeError:
            return ""


# Comments and literals in the order in which C++ reads them; a digit separator is no quote.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|"""
    r"""(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""", re.DOTALL)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def without_comments(text):
    return TOKEN.sub(lambda m: blank(m) if m.group().startswith(("//", "/*")) else m.group(), text)


def code_only(text):
    """`text` with its comments and literals turned to spaces: every line and column stays."""
    return TOKEN.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def functions(text):
    """(first line, lines) of each function; one inside another belongs to that."""
    code = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, code_only(text))
    found = []
    open_scopes = []  # where a function began, or None for anything else
    header = 0
    for brace in re.finditer(r"[{};]", code):
        if brace.group() == "{":
            before = code[header:brace.start()]
            inside = any(scope is not None for scope in open_scopes)
            opens = None if inside or not is_function(before) else header + leading(before)
            open_scopes.append(opens)
        elif brace.group() == "}" and open_scopes:
            began = open_scopes.pop()
            if began is not None:
                first = line_of(code, began)
                found.append((first, line_of(code, brace.start()) - first + 1))
        header = brace.end()
    return found


def is_function(header):
    named = re.search(r"\b(namespace|class|struct|union|enum)\b[^()]*$", header)
    return ")" in header and not named


def leading(header):
    return len(header) - len(header.lstrip())
