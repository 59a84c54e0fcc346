"""A standalone cluster on loopback: a master and a worker as processes, from the Spark that pip installed."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from muntin.spark.java import find_java
from muntin.spark.session import STATE_SETTINGS

HOME = Path(pyspark.__file__).parent
_PATIENCE = 120.0  # seconds for a process to come: a machine may be busy


class StandaloneCluster:
    """Started at once, in a folder that has the work of executors and the logs. One worker of two cores."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{_free_port()}"
        try:
            self._start("master", "--port", self.master.rpartition(":")[2], "--webui-port", "0")
            self._wait_for("master", "I have been elected leader")
            size = ["--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work")]
            self._start("worker", *size, "--webui-port", "0", self.master)
            self._wait_for("worker", "Successfully registered")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> StandaloneCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(
        self, driver: Sequence[str], settings: Mapping[str, str], environment: Mapping[str, str], at: Path
    ) -> subprocess.CompletedProcess[str]:
        """spark-submit a driver, from the folder `at`."""
        confs = [f"--conf={name}={value}" for name, value in {**STATE_SETTINGS, **settings}.items()]
        command = [str(HOME / "bin" / "spark-submit"), "--master", self.master, *confs, *driver]
        return subprocess.run(
            command, cwd=at, env=_environment(environment), capture_output=True, text=True, timeout=600
        )

    def close(self) -> None:
        """End both, and the executors with them."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait()
        self._processes.clear()

    def _start(self, kind: str, *arguments: str) -> None:
        name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        command = [str(HOME / "bin" / "spark-class"), name, "--host", "127.0.0.1", *arguments]
        with open(self.folder / f"{kind}.log", "wb") as log:
            # no PYTHONPATH: executors must find muntin where a deployment puts it
            process = subprocess.Popen(command, env=_environment({}), stdout=log, stderr=log)
        self._processes.append(process)

    def _wait_for(self, kind: str, words: str) -> None:
        log, until = self.folder / f"{kind}.log", time.monotonic() + _PATIENCE
        while words not in log.read_text():
            if time.monotonic() > until or self._processes[-1].poll() is not None:
                raise RuntimeError(f"no {kind}: {log.read_text()[-2_000:]}")
            time.sleep(0.1)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return kept | {
        "SPARK_HOME": str(HOME), "JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1", **more
    }  # fmt: skip


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
