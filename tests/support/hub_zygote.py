"""Downloads in child processes that may be killed: a server that has imported the engine once and forks per job.

Importing the client library takes a good part of a second; forking takes milliseconds, so a hundred kills are cheap.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from engine.hub.journal import Source


class Zygote:
    """Starts downloads in processes of their own. Use as a context manager."""

    def __enter__(self) -> Zygote:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.hub_zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def start(self, endpoint: str, source: Source, target: Path) -> int:
        """The process that downloads; it has begun to run."""
        return int(self._ask({"endpoint": endpoint, "source": asdict(source), "target": str(target)}))

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.wait(pid)

    def wait(self, pid: int) -> str:
        """ "done", the name of the error, or "-9" after a kill."""
        return self._ask({"wait": pid})

    def _ask(self, job: dict[str, object]) -> str:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def _download(job: dict[str, object]) -> int:
    from engine.hub.connection import Connection, HubSettings
    from engine.hub.file_download import FileDownload

    connection = Connection(HubSettings(str(job["endpoint"]), proxy="none"))
    source = Source(**job["source"])  # type: ignore[arg-type]
    FileDownload(connection, source, Path(str(job["target"])), patience=0.01).run()
    return 0


def main() -> None:
    import engine.hub.file_download  # noqa: F401  (before the forks)

    for line in sys.stdin:
        job = json.loads(line)
        if "wait" in job:
            _, status = os.waitpid(job["wait"], 0)
            code = os.waitstatus_to_exitcode(status)
            print("done" if code == 0 else code, flush=True)
        elif (pid := os.fork()) == 0:
            try:
                os._exit(_download(job))
            except BaseException as error:
                print(f"download failed: {error}", file=sys.stderr)
                os._exit(1)
        else:
            print(pid, flush=True)


if __name__ == "__main__":
    main()
