"""Rows in chunks and on workers: memory, rows a second, Dask against one process (docs/big_data.md).

    python -m benchmarks.stream            2 and 4 million rows: five minutes on two cores
    python -m benchmarks.stream --quick    a twentieth of the rows
    python -m benchmarks.stream --memory 20000000 100000    the peak alone, of so many rows in chunks of that size
    python -m benchmarks.stream --dense 4000 8000           products with the kernel matrix of so many rows alone

d = 10, n = 500, kernel and C given. Memory is the peak of a fresh process, rows made on the fly in chunks of 100,000.
Rows a second are by CPU time on one thread; those of Dask by the clock, with the rows persisted, in two rounds.
Products are those of conjugate gradients for one vector: CPU seconds in this process, where the scheduler runs, and in
two workers. The first product, which fills the matrix or sends the rows, is not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lssvm import LSSVR, kernels, sparsify

from .jobs import peak

PRODUCTS = 3


def rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).standard_normal((count, 10))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def model() -> LSSVR:
    return LSSVR(kernels.RBF(5.0), C=1.0, steps=[sparsify.Random(500, random_state=0)])


def chunks(total: int, size: int) -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]:
    return lambda: (rows(size, number) for number in range(total // size))


def memory(total: int, size: int) -> float:
    """Peak MiB of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.stream", "--memory", str(total), str(size)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def rate(count: int, run: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return count / (clock() - start)


def on_workers(count: int) -> None:
    """Rows a second of two threads and of two workers; Dask's workers have one BLAS thread each."""
    import dask.array as da
    from dask.distributed import Client, LocalCluster, wait

    def report(name: str, run: Callable[[], Any]) -> None:
        rounds = [f"{rate(count, run, time.perf_counter):.0f}" for _ in range(2)]
        print(f"{name:<30} {' and '.join(rounds)} rows a second")

    X, y = rows(count, 0)
    report("fit, two threads", lambda: model().fit(X, y))  # before Dask limits the threads of this process, too
    report("fit_chunks, two threads", lambda: model().fit_chunks([(X, y)]))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        parts = [da.from_array(values, chunks=(count // 10, *values.shape[1:])).persist() for values in (X, y)]
        wait(parts)
        report("Dask, two workers", lambda: model().fit(*parts))


def dense(sizes: list[int]) -> None:
    """CPU seconds per product with the kernel matrix: stored and computed, here and on two workers."""
    from unittest import mock

    from dask.distributed import Client, LocalCluster

    from lssvm import arrays, cluster

    def seconds(client: Client, product: Callable[[np.ndarray], np.ndarray], V: np.ndarray) -> tuple[float, float]:
        """CPU seconds per product of this process and of the workers."""
        product(V)
        start, before = time.process_time(), sum(client.run(time.process_time).values())
        for _ in range(PRODUCTS):
            product(V)
        own, workers = time.process_time() - start, sum(client.run(time.process_time).values()) - before
        return own / PRODUCTS, workers / PRODUCTS

    print(f"{'rows':>8} {'tiles':>5} {'stored':>9} {'on workers':>15} {'computed':>9} {'on workers':>15}")
    with (
        threadpool_limits(1),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as processes,
        Client(processes) as client,
    ):
        kernel = kernels.Matern(sigma=np.full(10, 5.0), nu=0.5, ard=True)
        for size in sizes:
            X, V = rows(size, 0)[0], np.random.default_rng(1).standard_normal((1, size))
            line = []
            K = kernel.fill(np.empty((size, size)), X, X, symmetric=True)
            here = lambda V, K=K: arrays.symmetric_product(V, K)  # noqa: E731
            for memory_of_workers, product in ((np.inf, here), (0.0, lambda V, X=X: kernel.dot(X, X, V.T).T)):
                line.append(f"{seconds(client, product, V)[0]:9.3f}")
                with mock.patch.object(cluster, "_worker_memory", lambda found=memory_of_workers: found):
                    own, workers = seconds(client, cluster._tiled_product(kernel, X, X), V)
                line.append(f"{own:6.3f} + {workers:6.3f}")
            print(f"{size:>8,} {-(-size // cluster.TILE):>5}", *line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--memory", nargs=2, type=int, metavar=("ROWS", "CHUNK"), help="MiB at the peak of one fit")
    parser.add_argument("--dense", nargs="+", type=int, metavar="ROWS", help="CPU seconds of products")
    arguments = parser.parse_args()
    if arguments.dense:
        dense(arguments.dense)
        return
    if arguments.memory:
        model().fit_chunks(chunks(*arguments.memory))
        print(peak() / 2**20)
        return
    scale = 20 if arguments.quick else 1
    for total in (2_000_000 // scale, 4_000_000 // scale):
        print(f"{total:>9,} rows in chunks: peak {memory(total, 100_000 // scale):.0f} MiB")
    count = 60_000 // (4 if arguments.quick else 1)
    X, y = rows(count, 0)
    with threadpool_limits(1):
        ways = {
            "fit": lambda: model().fit(X, y),
            "fit_chunks": lambda: model().fit_chunks(chunks(count, count // 6)),
            "fit_chunks, no leave-one-out": lambda: model().fit_chunks(chunks(count, count // 6), leave_one_out="none"),
        }
        for name, run in ways.items():
            print(f"{name:<30} {rate(count, run, time.process_time):8.0f} rows a CPU second")
    on_workers(200_000 // scale)


if __name__ == "__main__":
    main()
