"""The rules of the tree that no compiler holds. A rule yields "path:line: what stands there"."""

import re

from source import CPP, code_only, functions, line_of, without_comments

# Which room knows which: the table of rooms. What a room knows, it may know through another room.
KNOWS = {
    "base": (),
    "layout": ("base",),
    "experts": ("layout",),
    "report": ("base",),
    "faults": ("experts",),
    "moe": ("experts",),
    "checkpoint": ("experts",),
    "memory": ("layout",),
    "group": ("base", "memory"),
    "reshard": ("experts", "moe", "memory", "group"),
    "verify": ("experts", "report"),
    "engine": ("reshard", "checkpoint", "verify"),
    "cluster": ("group",),
}
KNOWS["app"] = tuple(KNOWS)

# Whose headers may stand where; what is not named here is free.
LIBRARIES = (
    (r"mpi\.h", ("src/group/mpi/",)),
    (r"nccl\.h", ("src/group/nccl/",)),
    (r"(cuda|cooperative_groups|cub/|thrust/)[^>\"]*", ("src/memory/cuda/", "src/group/nccl/")),
    (r"(gtest|gmock|rapidcheck|benchmark)[/.][^>\"]*", ("tests/", "properties/")),
    (r"CLI/[^>\"]*", ("src/app/",)),
)
PACKAGES = (
    ("MPI::", ("src/group/",)),
    ("CUDA::", ("src/memory/", "src/group/")),
    ("GTest::", ()),
)

CODE = ("src", "tests", "properties")
CMAKE = ("CMakeLists.txt", ".cmake")
SCRIPTS = (".py", ".ci/run", "ci/setup", "ci/test", "ci/demo", "ci/nightly", "ci/environment")


def room_of(path):
    return path.split("/")[1]


def reached(room, knows):
    """The room itself and every room that it knows, directly or not."""
    known, ahead = set(), [room]
    while ahead:
        each = ahead.pop()
        if each not in known:
            known.add(each)
            ahead.extend(knows.get(each, ()))
    return known


def matches(text, pattern):
    for match in re.finditer(pattern, text):
        yield line_of(text, match.start()), match


def includes(text):
    return matches(without_comments(text), r"(?m)^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]")


def rooms_include_what_they_know(tree):
    for path, text in tree.under(("src",), CPP):
        room = room_of(path)
        if room not in KNOWS:
            yield f"{path}:1: {room} is no room of the table"
            continue
        for line, match in includes(text):
            other = match[1].split("/")[0]
            if "/" in match[1] and other in KNOWS and other not in reached(room, KNOWS):
                yield f"{path}:{line}: {room} does not know {other}"
            if "../" in match[1]:
                yield f"{path}:{line}: an include leaves its folder"


def room_calls(text):
    """(line, room's target, its KNOWS) of every slicecheck_room(...)."""
    for line, match in matches(text, r"slicecheck_room\(\s*(\w+)([^)]*)\)"):
        knows = re.search(r"\bKNOWS\b((?:\s+(?!USES\b|SOURCES\b|HEADERS\b)[\w${}]+)*)", match[2])
        rooms = knows[1].split() if knows else []
        yield line, match[1], [room for room in rooms if "$" not in room]


def cmake_files(tree):
    for path, text in tree.under(("src",), CMAKE):
        yield path, re.sub(r"#[^\n]*", "", text)


def cmake_knows_what_the_table_says(tree):
    for path, code in cmake_files(tree):
        for line, target, knows in room_calls(code):
            room = target.split("_")[0]
            if room not in KNOWS or room != room_of(path):
                yield f"{path}:{line}: {target} is no target of this room"
                continue
            for other in (each.split("_")[0] for each in knows):
                if other not in reached(room, KNOWS):
                    yield f"{path}:{line}: {room} KNOWS {other}, which the table does not say"
        for line, match in matches(code, r"slicecheck::(\w+)"):
            if not path.startswith("src/app/"):
                yield f"{path}:{line}: slicecheck::{match[1]} is linked past KNOWS"
        for package, places in PACKAGES:
            for line, _ in matches(code, package):
                if not path.startswith(places):
                    yield f"{path}:{line}: {package} is not for this room"


def cmake_knows_what_is_included(tree):
    knows = {}
    for _, code in cmake_files(tree):
        for _, target, others in room_calls(code):
            rooms = knows.setdefault(target.split("_")[0], set())
            rooms.update(other.split("_")[0] for other in others)
    for path, text in tree.under(("src",), CPP):
        for line, match in includes(text):
            other = match[1].split("/")[0]
            if "/" in match[1] and other in KNOWS and other not in reached(room_of(path), knows):
                yield f"{path}:{line}: {room_of(path)} reaches {other} by no KNOWS"


def libraries_stay_in_their_place(tree):
    for path, text in tree.under(CODE, CPP):
        for line, match in includes(text):
            for header, places in LIBRARIES:
                if re.fullmatch(header, match[1]) and not path.startswith(places):
                    yield f"{path}:{line}: {match[1]} is not for this place"


def only_agree_throws(tree):
    for path, text in tree.under(("src",), CPP):
        if path != "src/group/agree.cpp":
            for line, _ in matches(code_only(text), r"\bthrow\b"):
                yield f"{path}:{line}: throw"


def nothing_is_left_over(tree):
    words = r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b"
    for path, text in tree.files.items():
        if not path.startswith("golden/"):
            for line, match in matches(text, words):
                yield f"{path}:{line}: {match[1]}"


def no_path_of_one_machine(tree):
    folders = "|".join(("work", "root", "home", "farm", "Users"))
    path_of = rf"(?<![\w.$}}{{/-])/(?:{folders})/\w"
    for path, text in tree.files.items():
        for line, _ in matches(text, path_of):
            yield f"{path}:{line}: a path of one machine"


def files_are_short(tree):
    for folders, longest in ((("src",), 400), (("tests", "properties"), 600)):
        for path, text in tree.under(folders, CPP + (".py",)):
            if text.count("\n") > longest:
                yield f"{path}:1: {text.count(chr(10))} lines, at most {longest}"


def lines_are_narrow(tree):
    for path, text in tree.files.items():
        if path.endswith(CPP + CMAKE + SCRIPTS):
            for line, each in enumerate(text.split("\n"), 1):
                if len(each) > 100:
                    yield f"{path}:{line}: {len(each)} columns, at most 100"


def functions_are_short(tree):
    for path, text in tree.under(CODE, CPP):
        for line, length in functions(text):
            if length > 60:
                yield f"{path}:{line}: a function of {length} lines, at most 60"


def laws_exist(tree):
    written = "".join(text for _, text in tree.under(("properties", "tests"), CPP))
    names = set(re.findall(r"\"(\w+\.\w+)\"", written))
    names |= {f"{suite}.{name}" for suite, name in re.findall(
        r"\b(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP)\(\s*(\w+),\s*(\w+)", written)}
    for path, text in tree.under(CODE, CPP):
        for line, match in matches(text, r"//[^\n]*\bLaw: (\S+)"):
            law = match[1].rstrip(".,;")
            if law not in names:
                yield f"{path}:{line}: no law is named {law}"


def golden_files_have_readers(tree):
    """A test names each file, or the folder of a checkpoint, or the start of a family of files."""
    strings = set()
    for path, text in tree.under(("tests", "properties", "ci"), CPP + (".py", "/demo")):
        if not path.startswith("tests/tidy/"):
            strings |= set(re.findall(r"[\w./-]{6,}", text))
    parts = {part for each in strings for part in each.split("/")}
    for path in tree.files:
        if not path.startswith("golden/") or path == "golden/README.md":
            continue
        name = path.split("/")[2] if path.startswith("golden/checkpoints/") else path.split("/")[1]
        families = (part for part in parts if len(part) > 8 and part.endswith("-"))
        is_read = name in parts or name.startswith(tuple(families))
        if not is_read:
            yield f"{path}:1: no test reads it"


def golden_names_have_files(tree):
    for path, text in tree.under(("tests", "properties"), CPP):
        for line, match in matches(text, r"\"/?golden/([\w./-]+\.\w+)\""):
            if f"golden/{match[1]}" not in tree.files:
                yield f"{path}:{line}: there is no golden/{match[1]}"


def names_say_something(tree):
    for path in tree.files:
        for part in re.split(r"[/.]", path):
            if re.fullmatch(r"(.*_)?(utils?|helpers?|common|misc|detail|impl)", part):
                yield f"{path}:1: a name that says nothing"


def no_conditional_code(tree):
    for path, text in tree.under(("src",), CPP):
        if not path.startswith(("src/engine/", "src/group/", "src/memory/cuda/")):
            for line, _ in matches(without_comments(text), r"(?m)^[ \t]*#[ \t]*if"):
                yield f"{path}:{line}: #if"


def macros_are_few(tree):
    define = r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)"
    found = [(f"{path}:{line}", match[1]) for path, text in tree.under(("src",), CPP)
             for line, match in matches(without_comments(text), define)]
    for place, name in found:
        if not name.startswith("SLICECHECK_"):
            yield f"{place}: macro {name} is not SLICECHECK_"
    if len(found) >= 5:
        yield f"{found[-1][0]}: {len(found)} macros, fewer than 5"


def cmake_does_nothing_globally(tree):
    words = r"(?i)\b(file\(\s*GLOB\w*|add_definitions|(?<!target_)include_directories|" \
            r"(?<!target_)link_libraries|add_compile_options|FetchContent\w*|ExternalProject\w*|" \
            r"set\(\s*CMAKE_CXX_FLAGS)\b"
    for path, text in tree.files.items():
        if path.endswith(CMAKE):
            for line, match in matches(re.sub(r"#[^\n]*", "", text), words):
                yield f"{path}:{line}: {match[1]}"


RULES = (
    rooms_include_what_they_know,
    cmake_knows_what_the_table_says,
    cmake_knows_what_is_included,
    libraries_stay_in_their_place,
    only_agree_throws,
    nothing_is_left_over,
    no_path_of_one_machine,
    files_are_short,
    lines_are_narrow,
    functions_are_short,
    laws_exist,
    golden_files_have_readers,
    golden_names_have_files,
    names_say_something,
    no_conditional_code,
    macros_are_few,
    cmake_does_nothing_globally,
)
