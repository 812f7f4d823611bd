"""The proof itself, with commands that take no time: which rows are run, how they end, and what is kept of them."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import psutil
import pytest

from cases import each_case
from proof.program import Setting, main
from proof.registry import all_rows, pytest_rows
from proof.results import Result, keep
from proof.row import Row, Seed, Size, UnknownWord, select
from proof.tree import changed_files, state_of
from waiting import wait_for

ROOT = Path(__file__).parents[2]
NO_GIT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
WRITES_JSON = """
import json, sys
place = sys.argv[sys.argv.index("--json") + 1]
json.dump({"fine": {"asked": "at most 5", "measured": "3", "reached": True}}, open(place, "w"))
"""


def row(name, code="print('done')", **fields):
    given: dict[str, Any] = {
        "asked": "a question",
        "sources": ("src/a",),
        "minutes": 1,
        "command": ("-c", textwrap.dedent(code)),
    }
    return Row(name=name, **given | fields)


def git(root, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", root, *identity, *arguments], check=True, capture_output=True, env=NO_GIT)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A git repository with two commits, the last of which changes src/a/one.py."""
    for name in set(os.environ) - set(NO_GIT):
        monkeypatch.delenv(name)
    root = tmp_path / "tree"
    for path in ("src/a/one.py", "src/ab/two.py", "benchmarks/results/old.json"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("{}\n")
    (root / ".gitignore").write_text("/out/\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "Add two files")
    (root / "src/a/one.py").write_text("1\n")
    git(root, "commit", "-q", "-a", "-m", "Change one")
    return root


@pytest.fixture
def prove(root, capsys):
    """Return a function that runs a proof: exit code and what it prints."""

    def run(*arguments, rows, needs=None):
        code = main(arguments, Setting(root=root, rows=rows, needs=needs or {}, grace_s=0.5))
        return code, capsys.readouterr().out

    return run


def kept(root):
    return json.loads((root / "benchmarks/results/proof.json").read_text())["rows"]


ROWS = [row("crash/model", rooms=("store",)), row("crash/model-long", rooms=("store",)), row("bench/bars")]


@each_case(
    ([], ["crash/model", "crash/model-long", "bench/bars"]),
    (["store"], ["crash/model", "crash/model-long"]),
    (["crash/model"], ["crash/model"]),
    (["long", "bench"], ["crash/model-long", "bench/bars"]),
)
def test_a_word_selects_by_whole_name_else_by_part_of_name_or_room(words, names):
    assert [found.name for found in select(ROWS, words)] == names


def test_a_word_that_selects_nothing_is_named():
    with pytest.raises(UnknownWord, match="'kafka'"):
        select(ROWS, ["store", "kafka"])


@each_case(("src/a/one.py", True), ("src/a", True), ("src/ab/two.py", False), ("src", False))
def test_a_row_is_about_the_files_in_its_sources(path, expected):
    assert row("x/a").is_about(path) is expected


def test_changes_select_the_rows_about_them(root, prove):
    rows = [row("x/a"), row("x/ab", sources=("src/ab",)), row("x/none", sources=("docs",))]

    assert "x/ab" not in prove("--changed", "--list", rows=rows)[1]
    (root / "src/ab/added.py").write_text("")
    listed = prove("--changed", "--list", rows=rows)[1]
    assert [line.split()[0] for line in listed.splitlines()] == ["x/a", "x/ab", "2"]


def test_changed_files_are_those_of_commits_and_those_not_committed(root):
    (root / "src/ab/two.py").rename(root / "src/ab/three.py")

    assert changed_files(root) == ["src/a/one.py", "src/ab/three.py", "src/ab/two.py"]
    assert changed_files(root, "HEAD") == ["src/ab/three.py", "src/ab/two.py"]


def test_changes_are_counted_from_origin_main_where_it_exists(root):
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")

    assert changed_files(root) == []


def test_an_unknown_reference_ends_with_what_git_says(prove):
    with pytest.raises(SystemExit, match="2"):
        prove("--changed", "no-such-commit", rows=ROWS)


def test_results_of_a_proof_make_no_tree_dirty(root):
    clean = state_of(root)
    (root / "benchmarks/results/old.json").write_text("1\n")
    (root / "benchmarks/results/new.json").write_text("1\n")
    assert state_of(root) == clean

    (root / "src/a/new.py").write_text("1\n")
    changed = state_of(root)
    assert (clean.is_dirty, changed.is_dirty) == (False, True)
    assert changed.digest != clean.digest


def test_the_state_of_a_tree_has_links_that_lead_nowhere_and_repositories_within(root):
    states = [state_of(root)]
    (root / "link").symlink_to("nowhere")
    states.append(state_of(root))
    git(root, "init", "-q", "within")
    states.append(state_of(root))

    assert len({state.digest for state in states}) == 3


def test_the_last_line_of_a_command_is_what_was_measured(root, prove):
    code, printed = prove(rows=[row("x/a", "print('3 of 3\\n\\n'); import sys; print('took 1 s', file=sys.stderr)")])

    assert code == 0
    assert "[1/1] x/a (about 1 min) ...\n    reached: yes" in printed
    assert "| x/a | a question | 3 of 3 | yes" in printed
    assert (root / "out/proof/x/a.log").read_text().splitlines().count("took 1 s") == 1


def test_json_of_a_command_says_more_than_its_last_line(root, prove):
    prove("--seed", "7", rows=[row("x/a", WRITES_JSON, writes_json=True, seed=Seed("--seed"))])

    found = kept(root)["x/a"]
    assert (found["asked"], found["measured"], found["reached"], found["seed"]) == ("at most 5", "3", True, 7)
    assert (found["commit"], found["is_dirty"], found["cores"]) == (state_of(root).commit, False, os.cpu_count())


def test_a_failing_command_is_not_reached_and_the_next_one_runs(root, prove):
    code, printed = prove(rows=[row("x/a", "print('2 lost'); raise ValueError('no')"), row("x/b")])

    assert code == 1
    assert "| exit code 1; 2 lost; ValueError: no | NO" in printed
    assert "| done | yes" in printed
    assert "see out/proof/x/a.log" in printed
    assert [found["reached"] for found in kept(root).values()] == [False, True]


def test_json_that_says_reached_does_not_outweigh_the_exit_code(prove):
    assert prove(rows=[row("x/a", WRITES_JSON + "sys.exit(1)", writes_json=True)])[0] == 1


@pytest.mark.parametrize(
    ("code", "measured"),
    [
        ("print('fine')", "wrote no result"),
        ("import sys; open(sys.argv[-1], 'w')", "wrote a result that cannot be read"),
        ("import sys; open(sys.argv[-1], 'w').write('{}')", "wrote a result that cannot be read"),
        (
            'import sys; open(sys.argv[-1], \'w\').write(\'{"a": {"asked": "5"}}\')',
            "wrote a result that cannot be read",
        ),
    ],
)
def test_a_result_that_is_missing_or_damaged_is_not_reached_and_the_next_row_runs(prove, code, measured):
    code, printed = prove(rows=[row("x/a", code, writes_json=True), row("x/b")])

    assert code == 1
    assert measured in printed
    assert "| x/b | a question | done | yes" in printed


def test_kept_results_that_cannot_be_read_are_named_before_anything_runs(root, prove, capsys):
    (root / "benchmarks/results/proof.json").write_text("{")

    with pytest.raises(SystemExit, match="2"):
        prove(rows=[row("x/a", "open('ran', 'w')")])
    assert "proof.json cannot be read" in capsys.readouterr().err
    assert not (root / "ran").exists()


def test_missing_needs_are_not_run_and_exit_code_2(root, prove):
    rows = [row("x/a", needs=("java",)), row("x/b")]

    code, printed = prove(rows=rows, needs={"java": lambda: "no Java 17"})
    assert code == 2
    assert "| x/a | a question | not run: no Java 17 |" in printed
    assert list(kept(root)) == ["x/b"]
    assert prove(rows=[*rows, row("x/c", "raise SystemExit(3)")], needs={"java": lambda: "no Java"})[0] == 1


def test_a_pytest_that_skips_everything_is_not_reached(prove):
    code, printed = prove(rows=[row("x/a", "print('== 3 skipped in 0.1s ==')", is_pytest=True)])

    assert code == 2
    assert "not run: 3 skipped in 0.1s" in printed


def test_resume_skips_what_is_finished_in_the_same_tree(root, prove):
    rows = [row("x/a", "open('runs', 'a').write('a'); print(1)"), row("x/b", "open('runs', 'a').write('b')")]
    (root / ".git/info/exclude").write_text("runs\n")
    prove("--only", "x/a", "--no-keep", rows=rows)

    code, printed = prove("--resume", rows=rows)
    assert code == 0
    assert "[1/2] x/a finished earlier: yes" in printed
    assert (root / "runs").read_text() == "ab"
    assert list(kept(root)) == ["x/a", "x/b"]

    (root / "src/a/one.py").write_text("2\n")
    prove("--resume", rows=rows)
    prove(rows=rows)
    prove("--resume", "--share", "0.5", rows=rows)
    assert (root / "runs").read_text() == "ab" * 4


def test_resume_with_another_seed_runs_rows_that_take_one_again(root, prove):
    rows = [row("x/a", "import sys; print(sys.argv[1:])", seed=Seed("--seed")), row("x/b")]
    prove("--seed", "5", "--no-keep", rows=rows)

    printed = prove("--resume", "--seed", "6", "--no-keep", rows=rows)[1]
    assert "['--seed', '6']" in printed
    assert "x/b finished earlier" in printed


def test_small_shares_are_not_kept(root, prove):
    asked = row("x/a", "import sys; print(sys.argv[1:])", sizes=(Size("--seeds", 200),), when_small=("--quick",))

    assert "['--seeds', '2', '--quick']" in prove("--share", "0.01", rows=[asked])[1]
    assert "['--seeds', '200']" in prove("--no-keep", rows=[asked])[1]
    assert not (root / "benchmarks/results/proof.json").exists()


def test_kept_results_are_merged_by_row(tmp_path):
    path = tmp_path / "proof.json"
    result = Result(
        asked="", measured="1", reached=True, at="", took_s=1, seed=None, commit="", is_dirty=False, processor="",
        cores=2, others_cpu=0,
    )  # fmt: skip
    keep(path, {"b": result, "a": result}, ["a", "b", "c"])
    keep(path, {"c": result}, ["c", "b"])

    assert list(json.loads(path.read_text())["rows"]) == ["c", "b", "a"]


def test_arguments_after_two_dashes_need_one_row(prove, capsys):
    with pytest.raises(SystemExit, match="2"):
        prove("--only", "crash", "--", "--seed", "7", rows=ROWS)

    assert "one row's command; selected: crash/model, crash/model-long" in capsys.readouterr().err


PROGRAM = """
import json, sys
from pathlib import Path
from proof.program import Setting, main
from proof.row import Row, Seed
commands = json.loads(sys.argv[2])
rows = [
    Row(name=f"x/{n}", asked="", sources=(), minutes=1, command=("-c", code), seed=Seed("--seed", 1), has_keep=True)
    for n, code in enumerate(commands)
]
sys.exit(main(sys.argv[3:], Setting(root=Path(sys.argv[1]), rows=rows, needs={}, grace_s=0.5)))
"""


def start(root, commands, *arguments):
    """Start a proof in a process of its own."""
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests", ROOT)))
    command = [sys.executable, "-c", PROGRAM, str(root), json.dumps([*map(textwrap.dedent, commands)]), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**NO_GIT, "PYTHONPATH": path})


def test_arguments_after_two_dashes_go_to_the_only_row(root):
    options = ("--only", "x/0", "--seed", "5", "--", "--trace")
    with start(root, ["import sys; print(sys.argv[1:]); sys.exit(7)"], *options) as process:
        assert process.communicate()[0] == "['--seed', '5', '--no-keep', '--trace']\n"

    assert process.returncode == 7
    assert not (root / "out").exists()


IGNORES_SIGINT = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
ignores = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", ignores], stdout=subprocess.PIPE)
away = subprocess.Popen([sys.executable, "-c", ignores], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline(), away.stdout.readline()
open("pids.new", "w").write(f"{os.getpid()} {child.pid} {away.pid}")
os.rename("pids.new", "pids")
time.sleep(60)
"""


def text_of(path):
    """Wait for a file that a child writes, and renames when it is whole."""
    return wait_for(path.read_text, f"the file {path.name}", errors=FileNotFoundError)


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_end(*pids):
    """Return when the processes have ended: one that was killed takes a moment."""
    wait_for(lambda: not [pid for pid in pids if is_running(pid)], "the end of the processes")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_whole_group_even_where_sigint_is_ignored(root, number):
    with start(root, ["print('first')", IGNORES_SIGINT, "print('third')"]) as process:
        pids = [int(pid) for pid in text_of(root / "pids").split()]
        process.send_signal(number)
        printed = process.communicate()[0]

    assert process.returncode == 130
    wait_for_end(*pids)
    assert "| x/0 |  | first | yes" in printed
    assert "third" not in printed
    assert "interrupted after 1 of 3 rows" in printed
    assert not (root / "benchmarks/results/proof.json").exists()


def test_what_a_command_leaves_running_in_its_group_is_ended(root, prove):
    leaves = """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print(child.pid)
    """
    printed = prove(rows=[row("x/a", leaves)])[1]

    assert "| yes" in printed
    wait_for_end(int((root / "out/proof/x/a.log").read_text().splitlines()[0]))


def test_folders_with_the_mark_have_a_row(root):
    for folder, content in (
        ("unit", "@pytest.mark.proof\n"),
        ("e2e", "@pytest.mark.slow\n"),
        ("proof", "pytest.mark.proof"),
    ):
        (root / "tests" / folder).mkdir(parents=True)
        (root / "tests" / folder / "test_x.py").write_text(content)

    (found,) = pytest_rows(root)
    assert found.name == "pytest/unit"
    assert found.command == ("-m", "pytest", "-q", "-m", "proof", "tests/unit")


def test_the_registry_has_unique_names_and_existing_sources():
    rows = all_rows(ROOT)

    assert len({found.name for found in rows}) == len(rows)
    assert [source for found in rows for source in found.sources if not (ROOT / source).exists()] == []
    assert {need for found in rows for need in found.needs} <= {"java", "peers", "root", "compiler", "go"}
