"""How public graders do on the project's tables of cases, as a Markdown table.

    pip install --no-deps --target DIR verl==0.9.1 trl==1.16.0 pylatexenc==2.10
    python -m benchmarks.graders --packages DIR [--only NAME]

A grader is asked, case by case, whether it pays a completion; each runs in a process of its own, is
killed after ten seconds a case, and starts again behind it. Cases whose verdict is a stated policy
are left out. Graders of packages that DIR does not hold are named as missing. Models' text reaches
some of these graders as code: use a machine where that does no harm.
"""

import argparse
import importlib
import json
import multiprocessing
import multiprocessing.connection
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

TABLES = Path(__file__).parents[1] / "data" / "rewards"
SECONDS = 10.0
MARKERS = (Path("/tmp/marker"), Path("/tmp/marker_open"))
"""Files that a case's completion makes when it is run as code."""
Pays = Callable[[str, str, str | None], bool | None]
"""(completion, gold, answer type) → whether it is paid; None when undecided."""


def this_verifier(_: Path) -> Pays:
    from grpo_core.rewards import grade

    def pays(completion: str, gold: str, kind: str | None) -> bool | None:
        reward = grade(completion, gold, answer_type=kind).reward_raw
        return None if reward is None else reward == 1.0

    return pays


def math_verify(_: Path) -> Pays:
    from math_verify import parse, verify

    return lambda completion, gold, _: verify(parse(gold), parse(completion))


def math_verify_boxed(_: Path) -> Pays:
    from math_verify import parse, verify

    return lambda completion, gold, _: verify(parse(rf"\boxed{{{gold}}}"), parse(completion))


def trl_accuracy(packages: Path) -> Pays:
    sys.path.append(str(packages))
    reward = importlib.import_module("trl.rewards.accuracy_rewards").accuracy_reward

    def pays(completion: str, gold: str, _: str | None) -> bool | None:
        (given,) = reward([[{"role": "assistant", "content": completion}]], [rf"\boxed{{{gold}}}"])
        return None if given is None else given == 1.0

    return pays


def verl(name: str, **options: object) -> Callable[[Path], Pays]:
    def load(packages: Path) -> Pays:
        module = without_package_code(packages, f"verl.utils.reward_score.{name}")

        def pays(completion: str, gold: str, _: str | None) -> bool:
            given = module.compute_score(completion, gold, **options)
            if isinstance(given, dict):
                given = given["acc"]
            return bool(given[0] if isinstance(given, tuple) else given)

        return pays

    return load


GRADERS: dict[str, tuple[str, Callable[[Path], Pays]]] = {
    "this verifier": ("", this_verifier),
    "math-verify, gold as it is": ("math-verify", math_verify),
    "math-verify, gold boxed": ("math-verify", math_verify_boxed),
    "TRL accuracy_reward": ("trl", trl_accuracy),
    "verl gsm8k, strict": ("verl", verl("gsm8k", method="strict")),
    "verl gsm8k, flexible": ("verl", verl("gsm8k", method="flexible")),
    "verl math_reward": ("verl", verl("math_reward")),
    "verl math_dapo": ("verl", verl("math_dapo")),
    "verl prime_math": ("verl", verl("prime_math")),
}


def without_package_code(packages: Path, module: str) -> ModuleType:
    """Import a module without the code of its packages, which may want a whole training stack."""
    sys.path.append(str(packages))
    parts = module.split(".")
    for depth in range(1, len(parts)):
        package = ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(packages.joinpath(*parts[:depth]))]
        sys.modules[package.__name__] = package
    return importlib.import_module(module)


def serve(name: str, packages: Path, channel: multiprocessing.connection.Connection) -> None:
    """Answer cases until the channel closes; what a grader prints goes nowhere."""
    with Path("/dev/null").open("w") as nowhere, redirect_stdout(nowhere):
        try:
            pays = GRADERS[name][1](packages)
        except Exception as error:  # noqa: BLE001 - a package that is not there is shown
            channel.send(f"{type(error).__name__}: {error}")
            return
        channel.send(None)
        while True:
            case = channel.recv()
            try:
                paid = pays(case["completion"], case["gold"], case.get("answer_type"))
                channel.send("none" if paid is None else "paid" if paid else "refused")
            except Exception:  # noqa: BLE001 - graders raise anything; it is counted
                channel.send("raised")


class Asked:
    """One grader in a process, started again after it hangs or dies."""

    def __init__(self, name: str, packages: Path) -> None:
        self.name, self.packages = name, packages
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(self.name, self.packages, theirs))
        self.process.start()
        theirs.close()
        self.missing = self.channel.recv() if self.channel.poll(120) else "does not start"

    def ask(self, case: dict) -> str:
        try:
            self.channel.send(case)
            if self.channel.poll(SECONDS):
                return self.channel.recv()
            outcome = "hung"
        except (EOFError, OSError):
            outcome = "died"
        self.stop()
        self.start()
        return outcome

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def decidable(name: str) -> list[dict]:
    rows = [json.loads(line) for line in (TABLES / name).read_text("utf-8").splitlines()]
    return [row for row in rows if "policy" not in row and row["label"] != "gold_unparseable"]


def count(asked: Asked, cases: list[dict]) -> Counter:
    counts: Counter[str] = Counter()
    for case in cases:
        is_right = case["label"] == "correct"
        outcome = asked.ask(case)
        counts["right" if is_right else "wrong"] += 1
        counts["wrong paid"] += not is_right and outcome == "paid"
        counts["right refused"] += is_right and outcome != "paid"
        counts[outcome] += 1
        for marker in MARKERS:
            counts["code run"] += marker.exists()
            marker.unlink(missing_ok=True)
    return counts


def versions(packages: Path) -> dict[str, str]:
    found = {d.metadata["Name"]: d.version for d in distributions()}
    return found | {d.metadata["Name"]: d.version for d in distributions(path=[str(packages)])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, default=Path("none"))
    parser.add_argument("--only", default="", help="graders whose name holds this")
    options = parser.parse_args()
    packages = options.packages
    known = {name.lower().replace("_", "-"): v for name, v in versions(packages).items()}
    tables = {name: decidable(name) for name in ("public_cases.jsonl", "cases.jsonl")}
    print(
        "| grader | public: wrong paid | right refused | own: wrong paid | right refused", end=" "
    )
    print("| raised | hung | ran code |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (package, _) in GRADERS.items():
        if options.only not in name:
            continue
        asked = Asked(name, packages)
        shown = f"{name} ({known.get(package, 'missing')})" if package else f"**{name}**"
        if asked.missing:
            print(f"| {shown} | cannot be loaded: {asked.missing} |" + " |" * 6)
            continue
        counts = [count(asked, cases) for cases in tables.values()]
        asked.stop()
        cells = [
            f"{found[what]} of {found[of]}"
            for found in counts
            for what, of in (("wrong paid", "wrong"), ("right refused", "right"))
        ]
        total = counts[0] + counts[1]
        cells += [str(total[what]) for what in ("raised", "hung", "code run")]
        print(f"| {shown} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
