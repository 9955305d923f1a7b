"""The command line: each mistake is one sentence that names the fix, and nothing heavy is imported for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from poslab import cli
from poslab import list as listing
from poslab.build import instantiate
from poslab.cli.check import check, missing
from poslab.cli.compositions import composed_words, write_compositions
from poslab.cli.configs import CONFIGS, Configs, comments, documented_words, package, written_keys
from poslab.cli.flags import parse_flags
from poslab.cli.kinds import KINDS, REQUIRED
from poslab.cli.pages import help_page
from poslab.cli.pairs import axes, check_pairs
from poslab.errors import UsageError
from poslab.positions import Spec, Sum, build_layers
from poslab.positions.none import NoPosition

ROOT = CONFIGS.parent
FILES = sorted(CONFIGS.rglob("*.yaml"))
HEAVY = ("torch", "lightning", "numpy", "wandb", "matplotlib")


@pytest.fixture(scope="module")
def train() -> Configs:
    return Configs("train")


@pytest.fixture(scope="module")
def evaluate() -> Configs:
    return Configs("eval")


def verdict(configs: Configs, line: str) -> str:
    """The sentence about a command line, "" where nothing is wrong; a space separates arguments."""
    try:
        flags = parse_flags(line.split())
        checked = check(configs, flags.overrides, flags.multirun)
        if flags.runs:
            missing(configs, checked, flags.overrides)
    except UsageError as error:
        return str(error)
    return ""


# the mistake stands last; what its sentence must contain
WRONG = {
    "poss=rope": "no key 'poss'; did you mean pos=rope?",
    "POS=rope": "did you mean pos=rope?",
    "pso=rope": "did you mean pos=rope?",
    "zebra=1": "there is no key 'zebra'; there are seed, epochs",
    "=3": "there are seed",
    "pos=ropee": "nearest is pos=rope, and all are alibi, ",
    "pos=rope2": "nearest is pos=rope2d,",
    "pos=zzz": "choose one of alibi, alibi2d, ",
    "pos=null": "choose one of alibi",
    "pos=3": "choose one of alibi",
    "pos=[rope,sine]": "pos takes one word, not [rope,sine]",
    "pos@x=rope": "write pos=rope.",
    "pos=rope pos=sine": "pos is chosen twice; pos=a,b with -m",
    "pos=": "a value is missing; choose one of alibi",
    "model=": "a value is missing; choose one of gpt",
    "experiment=zzzz": "no 'zzzz' in configs/experiment",
    "seed=": "a value is missing: an integer, such as seed=0",
    "logger=wandb logger.wandb.group=": "a value is missing",
    "rope": "not key=value; did you mean pos=rope?",
    "pos": "not key=value; choose pos=alibi|alibi2d",
    "zebra": "not key=value",
    "model:gpt": "not key=value",
    "pos=[": "cannot be read; close its brackets",
    "seed==3": "cannot be read",
    "model.dim=abc": "'abc' is not an integer (default 64).",
    "model=vit_b model.dim=abc": "(default 768)",
    "model.dim=1.5": "1.5 is not an integer",
    "model.dim=true": "true is not an integer",
    "model.dim=null": "null is not an integer",
    "model.dim=[1]": "[1] is not an integer",
    "model.dimm=3": "did you mean model.dim=3?",
    "model.patch_size=abc": "not an integer or a list of 2 integers",
    "model.patch_size=[4]": "not an integer or a list of 2 integers",
    "model.pool=avg": "'avg' is not one of mean, class.",
    "model.activation=tanh": "not one of gelu, gelu_tanh, relu, swiglu.",
    "model=gpt model.patch_size=4": "model=gpt has no key 'model.patch_size'; it belongs to model=vit |",
    "pos=alibi pos.theta=3": "pos=alibi has no key 'pos.theta'; it belongs to pos=learned_sine | ",
    "pos=rope pos.pairs=foo": "not one of half, adj.",
    "pos=learned pos.past=clamp": "not one of error, interpolate.",
    "seed=-1": "seed is 0 or more.",
    "seed=abc": "is not an integer (default 0).",
    "epochs=1.5": "not an integer or null",
    "epochs=0": "epochs is 1 or more.",
    "model=gpt steps=x": "not an integer or null (default 1000)",
    "global_batch_size=0": "1 or more",
    "compile=1": "1 is not true or false (default false)",
    "optim.lr=fast": "not a number (default 0.006)",
    "optim.lr=nan": "not a number",
    "optim.lr=${optim.nothing}": "optim.nothing",
    "optim.betas=0.9": "not a list of 2 numbers",
    "optim.betas=[0.9,x]": "[0.9,x] is not a list of 2 numbers",
    "optim={lr:1}": "choose one of adamw",
    "data.size=abc": "not an integer, a list of 2 integers or null",
    "data.size=0": "1 or more",
    "data=cifar10 data.limit=0": "1 or more",
    "data=imagenet data.mean=[0.5]": "not a list of 3 numbers",
    "data=imagenet data.area=0.5": "not a list of 2 numbers or null",
    "data=imagenet data.interpolation=nearest": "not one of bicubic, bilinear.",
    "hardware.devices=two": "not an integer, auto or a list of integers",
    "hardware.devices=0": "one device or more",
    "hardware.precision=[1]": "not a word, an integer or null",
    "hardware.device=2": "did you mean hardware.devices=2 or +hardware.device=2",
    "hardware.profiler=simple": "did you mean +hardware.profiler=simple",
    "+hardware.devices=2": "write hardware.devices=2, without the plus",
    "+seed=3": "write seed=3, without the plus",
    "+experiment=x": "write experiment=x, without the plus",
    "+x=1": "no key 'x'",
    "+model.theta=3": "did you mean pos.theta=3?",
    "++seed=3": "write seed=3",
    "~experiment": "nothing can be deleted",
    "theta=4": "did you mean pos.theta=4?",
    "lr=0.1": "did you mean optim.lr=0.1?",
    "batch_size=3": "global_batch_size=3",
    "task=foo": "such as task.label_smoothing=VALUE",
    "runs=2024": "quoted twice: runs=\"'2024'\"",
    "resume=5": "not a word or null",
    "logger.wandb=x": "logger=wandb",
    "logger.wandb.project=x": "logger=csv has no key 'logger.wandb.project'; it belongs to logger=wandb.",
    "logger=wandb logger.wandb.tags=a": "not a list of words",
    "evaluate.resolution.sizes=28": "not a list of sizes (N or HxW) or null",
    "evaluate.resolution.sizes=[20,a]": "not a list of sizes",
    "evaluate.resolution.sizes=20,28": "brackets: evaluate.resolution.sizes=[20,28]",
    "evaluate.resolution.ratios=[1,x]": "not a list of numbers",
    "evaluate.resolution={a:1}": "such as evaluate.resolution.sizes=VALUE",
    "evaluate.length.history=x": "not an integer or null",
    "evaluate.checkpoint=first": "not one of last, best.",
    "pos.scaling=yarn": "pos.scaling is chosen from configs/pos/scaling; write pos/scaling=yarn.",
    "pos/scaling=yern": "the nearest is pos/scaling=yarn,",
    "pos=alibi pos/scaling=ntk": "pos=alibi has no scaling there; it belongs to pos=pope | rope |",
    "pos.scaling.factor=2": "it belongs to pos/scaling=dynamic_ntk | linear",
    "pos/scaling=ntk pos.scaling.factor=x": "not a number or null",
    "seed=0,1": "add -m",
    "pos=rope,sine": "add -m",
    "hardware.devices=0,1": "one device or more",
    "hardware.devices=1,2": "add -m to run one job for each, or write hardware.devices=[1,2] for one list",
    "hydra.verbos=true": "verbos",
    "hydra/launcher=nope": "nope",
    "-m pos=rope,ropee": "no 'ropee'",
    "-m pos=glob(*3d*)": "nothing matches; choose from alibi",
    "-m seed=glob(*)": "glob(...) picks files of a group",
    "-m seed=range(0,3,0)": "cannot be read",
    "-m seed=0,choice(1,2)": "cannot be read",
    "-m seed=0,x": "'x' is not an integer",
    "-m seed=range(-1,3)": "seed is 0 or more",
    "-m seed=interval(0,1)": "add -m hydra/sweeper=search",
    "-m pos=rope,alibi pos.theta=3": "pos=alibi has no key 'pos.theta'",
    "-m model=vit,gpt model.patch_size=4": "model=gpt has no key",
    "--seed=3": "write seed=3.",
    "-pos=rope": "write pos=rope.",
    "-model=gpt": "write model=gpt.",
    "--seed": "as seed=VALUE",
}


def test_a_rule_without_a_default_asks_for_it(train: Configs) -> None:
    found = verdict(train, "pos/scaling=longrope")
    assert found == "pos.scaling.long is missing: python train.py pos/scaling=longrope pos.scaling.long=[0.5,0.5]"


@pytest.mark.parametrize("line", WRONG)
def test_a_mistake_is_one_sentence_that_begins_with_it(train: Configs, line: str) -> None:
    sentence = verdict(train, line)
    assert sentence.startswith(f"{line.split()[-1]}: "), sentence
    assert WRONG[line] in sentence
    assert "\n" not in sentence and sentence[-1] in ".?" and sentence[-2] not in ".?"


RIGHT = [
    "",
    "model=gpt pos=rope",
    "pos=rope -m seed=0,1",
    "-m model=gpt pos=none,learned seed=0,1,2",
    "-m model=vit pos=glob(*2d*)",
    "-m seed=range(0,3) optim.lr=choice(2e-3,5e-3)",
    "-m evaluate.resolution.sizes=[20],[28,28x56]",
    "hydra.mode=MULTIRUN seed=0,1",
    "-m hydra/sweeper=search seed=interval(0,1)",
    "model=vit_b model.pool=mean model.patch_size=[4,2]",
    "data.size=28",
    "data.size=[28,32]",
    "data.size=null",
    "data=fashion_mnist data.root=a/b data.limit=1000 data.validate=null",
    "data=hub data.name=uoft-cs/cifar10 data.image=img data.area=null data.revision=abc data.size=32",
    "data=imagefolder data.root=photos data.mean=[0,0,0.5] data.interpolation=bilinear data.crop=0.875",
    "epochs=null steps=7",
    "optim.clip=null optim.ema=0.99 optim.lr=1 optim.betas=[0,0.9]",
    "optim.lr=${optim.eps}",
    "hardware.devices=auto",
    "hardware.devices=2",
    "hardware.devices=[0,1]",
    "hardware.precision=16",
    "hardware.precision=bf16-mixed",
    "hardware.deterministic=warn",
    "+hardware.profiler=simple +hardware.plugins=[a]",
    "logger=wandb logger.wandb.group=abc logger.wandb.tags=[a,b]",
    "runs='2024' seed=1 seed=2",
    "hydra.verbose=true hydra.run.dir='.' hydra.output_subdir=null hydra.job.name=train_ddp_process_1",
    "--cfg job pos=sine",
    "--info defaults",
]


@pytest.mark.parametrize("line", RIGHT)
def test_a_right_line_passes(train: Configs, line: str) -> None:
    assert verdict(train, line) == ""


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("", "runs is missing: python eval.py runs='runs/*'"),
        ("hardware=cpu", "runs is missing"),
        ("runs=", "a value is missing: a run directory, a quoted glob"),
        ("runs=5", "5 is not a run directory"),
        ("runs=a,b", "or write runs=[a,b] for one list"),
        ("runs=a hardware=tpu", "hardware=cpu"),
        ("runs=a evaluate=[length,blocks]", ""),
        ("runs=a evaluate=[length,lenth]", "the nearest is evaluate=length"),
        (
            "runs=a pos=rope",
            "there are runs, report, reports, baseline, published, trust, variants, hardware, logger, evaluate.",
        ),
        ("runs=a model.dim=4", "there are runs"),
        ("runs=a evaluate=non", "evaluate=none"),
        ("runs=a report=5", "not a word or null"),
        ("--cfg job", ""),
        ("runs=runs/*", ""),
        ("runs=[a,b] report=null evaluate.length.ratios=[1,2]", ""),
    ],
)
def test_eval_has_keys_of_its_own(evaluate: Configs, line: str, fragment: str) -> None:
    sentence = verdict(evaluate, line)
    assert fragment in sentence and bool(fragment) == bool(sentence)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "model=gpt pos=rope2d",
            "pos=rope2d describes 2-D grids, model=gpt has 1-D text. Use pos=rope, or one of: alibi,",
        ),
        (
            "model=gpt2_124m pos=alibi2d",
            "pos=alibi2d describes 2-D grids, model=gpt2_124m has 1-D text. Use pos=alibi,",
        ),
        ("-m model=gpt pos=none,rope,sine2d", "pos=sine2d describes 2-D grids"),
        ("-m model=vit,gpt pos=glob(*2d*)", "model=gpt has 1-D text"),
        (
            "model=vit data=stdlib",
            "data=stdlib has texts, model=vit reads images. Use data=cifar10, or one of: cifar100, digits,",
        ),
        ("model=gpt data=mnist5k", "data=mnist5k has images, model=gpt reads texts. Use data="),
        ("-m model=vit data=digits,copy", "data=copy has texts"),
        ("model=vit pos=rope", ""),
        ("-m model=vit pos=glob(*)", ""),
        ("-m model=vit,gpt", ""),
    ],
)
def test_parts_that_do_not_go_together(train: Configs, line: str, sentence: str) -> None:
    flags = parse_flags(line.split())
    checked = check(train, flags.overrides, flags.multirun)
    if sentence:
        with pytest.raises(UsageError) as caught:
            check_pairs(train, checked)
        assert sentence in str(caught.value)
    else:
        check_pairs(train, checked)


def test_a_folder_that_was_empty_gets_words(tmp_path: Path) -> None:
    shutil.copytree(CONFIGS, tmp_path / "configs")
    (tmp_path / "configs/experiment").mkdir(exist_ok=True)
    (tmp_path / "configs/experiment/short.yaml").write_text("# @package _global_\n# Short.\nsteps: 3\n")
    configs = Configs("train", tmp_path / "configs")
    assert verdict(configs, "experiment=short model.dim=8") == ""
    assert "-m" not in verdict(configs, "-m experiment=short,shorter") and verdict(configs, "experiment=sort")


def test_another_folder_can_bring_words(tmp_path: Path) -> None:
    (tmp_path / "pos").mkdir()
    (tmp_path / "pos/mine.yaml").write_text(
        "# Mine.\n_target_: poslab.positions.rope.RoPE\n_partial_: true\nturns: 3\n"
    )
    configs = Configs("train", more=[f"file://{tmp_path}"])
    assert verdict(configs, "pos=mine pos.turns=4") == ""
    assert configs.summary("pos", "mine") == "Mine."
    assert "'x' is not an integer" in verdict(configs, "pos=mine pos.turns=x")


# --- encodings composed on the command line


@pytest.fixture
def composing(tmp_path: Path) -> Any:
    """composing(line): Configs that know the words which the line composes."""

    def make(line: str) -> Configs:
        write_compositions(composed_words(line.split()), Configs("train").options("pos"), tmp_path)
        return Configs("train", more=[f"file://{tmp_path}"])

    return make


def test_a_sum_and_layers_by_turns_compose(composing: Any) -> None:
    summed = composing("pos=rope2d+learned").compose(["pos=rope2d+learned"]).values["pos"]
    assert summed["_target_"].endswith("Sum") and list(summed["parts"]) == ["rope2d", "learned"]
    by_turns = "pos=learned+rope-none-learned+rope"
    turns = composing(by_turns).compose([by_turns]).values["pos"]
    assert turns["order"] == ["learned_rope", "none", "learned_rope"] and len(turns["parts"]) == 2
    assert turns["parts"]["learned_rope"]["parts"]["rope"]["theta"] == 10000.0
    assert isinstance(instantiate(summed)(Spec(16, 2, (4, 4), False)), Sum)
    layers = list(build_layers(instantiate(turns), Spec(16, 2, (8,), True, 0, 4)))
    assert [type(layer) for layer in layers] == [Sum, NoPosition, Sum, Sum] and layers[0] is layers[2]


COMPOSED = {
    "pos=rope+foo": "there is no 'foo' in configs/pos; choose from alibi,",
    "pos=rope2d+rope": "one part describes text, another 2-D grids",
    "model=gpt pos=none-rope2d": "describes 2-D grids, model=gpt has 1-D text",
    "pos=rope2d+learned pos.parts.learned.resample=cubic": "'cubic' is not one of bicubic, bilinear, none.",
    "pos=rope2d+learned pos.parts.rope2d.theta=x": "not a number (default 100.0)",
    "pos=rope2d+learned pos.resample=none": "pos.parts.learned.resample=none",
    "pos=rope2d-none pos/scaling=ntk": "write pos/scaling@pos.parts.rope2d.scaling=ntk.",
    "pos=rope2d-none pos/scaling@pos.parts.rope2d.scaling=ntk pos.parts.rope2d.scaling.factor=x": "not a number or",
    "pos=rope2d-none pos/scaling@pos.parts.rope2d.scaling=ntk pos.parts.rope2d.scaling.factor=2": "",
    "-m pos=rope2d,rope2d+learned,rope2d-none seed=0,1": "",
}


@pytest.mark.parametrize("line", COMPOSED)
def test_mistakes_in_a_composition(composing: Any, line: str) -> None:
    try:
        configs = composing(line)
        found = verdict(configs, line)
        flags = parse_flags(line.split())
        if not found:
            check_pairs(configs, check(configs, flags.overrides, flags.multirun))
    except UsageError as error:
        found = str(error)
    assert COMPOSED[line] in found and bool(COMPOSED[line]) == bool(found)


# --- the tables cannot rot


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(CONFIGS).as_posix())
def test_the_type_of_every_key_is_known(path: Path) -> None:
    text = path.read_text()
    group = path.parent.relative_to(CONFIGS).as_posix()
    for key, value in written_keys(text, "" if group == "." else package(text, group)).items():
        if value == "???":
            assert key in REQUIRED
        if value is None:
            assert key in KINDS and KINDS[key].accepts(None), f"{key} is null in {path.name}: add it to KINDS"
        if value == []:
            assert key in KINDS, f"{key} is empty in {path.name}: add it to KINDS"
        if key in KINDS:
            assert KINDS[key].accepts(value) or isinstance(value, dict)
    assert (
        next(line for line in text.splitlines() if not line.startswith("# @package")).startswith("# ")
        or group == "experiment"
    ), "a file begins with a line that --help shows"


def test_a_comment_with_bars_is_the_list_of_words() -> None:
    text = (
        "a:\n  b: x   # x (why) | y: because | z\nc: no  # one of: no | yes\nd: 5  # 1 | 5\ne: q  # r | s\nf:\n  g: h\n"
    )
    found = {key: documented_words(*pair) for key, pair in comments(text, "p").items()}
    assert found["p.a.b"] == ["x", "y", "z"] and found["p.c"] == ["no", "yes"]
    assert found["p.e"] == found["p.a"] == found["p.f.g"] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(CONFIGS).as_posix())
def test_bars_are_understood_wherever_they_stand_behind_a_word(path: Path) -> None:
    for key, (value, comment) in comments(path.read_text(), "").items():
        if " | " in comment and value and not value[0].isdigit() and value not in ("true", "false", "null"):
            assert value in documented_words(value, comment), f"{path.name}: {key}"


def test_help_shows_all_there_is(train: Configs) -> None:
    page = help_page(train, train.compose(["model=gpt"]))
    for group in train.groups:
        for option in train.options(group):
            assert f"  {option} " in page and train.summary(group, option) in page
    assert "gpt * " in page and "rope * " in page and "steps=1000" in page and "--cfg job" in page
    assert max(map(len, page.splitlines())) <= 130


def test_list_prints_the_same_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.main(["pos"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("pos=\n") and "  rope " in out and "Su et al. 2021" in out and "gpt" not in out.split()
    assert listing.main(["poss"]) == 2 and "there are data, pos" in capsys.readouterr().err


# --- what runs, in this process


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """launch(line, fails) -> (exit code, configurations), in an empty directory that must stay empty.

    `fails` maps a seed to what its job raises.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def run(line: str, fails: dict[int, BaseException] | None = None, name: str = "train") -> tuple[int, list[Any]]:
        jobs: list[Any] = []

        def work(config: dict[str, Any]) -> None:
            jobs.append(config)
            if error := (fails or {}).get(config.get("seed", 0)):
                raise error

        monkeypatch.setattr(sys, "argv", [f"{name}.py", *line.split()])
        code = 0
        try:
            cli.main(work, name)
        except SystemExit as stop:
            code = int(stop.code or 0)
        assert list(tmp_path.iterdir()) == []
        return code, jobs

    return run


def test_a_job_gets_a_plain_configuration_and_its_choices(launch: Any) -> None:
    code, [config] = launch("model=gpt steps=7 optim.eps=${optim.lr}")
    assert code == 0 and type(config) is dict and type(config["model"]) is dict
    assert config["steps"] == 7 and config["optim"]["eps"] == config["optim"]["lr"] == 2.0e-3
    groups = {"model", "pos", "pos/scaling", "data", "optim", "hardware", "logger", "evaluate", "experiment"}
    assert config["choices"].keys() == groups and "hydra" not in config
    assert (config["choices"]["model"], config["choices"]["pos"], config["choices"]["experiment"]) == (
        "gpt",
        "rope",
        None,
    )


def test_a_sweep_runs_every_combination_and_leaves_nothing_behind(launch: Any) -> None:
    code, jobs = launch("pos=glob(*ne,exclude=learned*) -m model=gpt seed=0,1 hydra/launcher=basic")
    assert code == 0
    words = [(job["choices"]["pos"], job["seed"]) for job in jobs]
    assert words == [("none", 0), ("none", 1), ("sine", 0), ("sine", 1)]


def test_what_a_run_can_say_is_a_sentence(launch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, jobs = launch("-m seed=1,0 hydra/launcher=basic", {1: UsageError("Too big. Halve it.")})
    assert (code, len(jobs)) == (2, 1)
    assert capsys.readouterr().err == "poslab: Too big. Halve it.\n"


def test_a_fault_shows_where_it_happened(launch: Any) -> None:
    with pytest.raises(ZeroDivisionError, match="here") as caught:
        launch("seed=3", {3: ZeroDivisionError("here")})
    assert any(entry.name == "work" for entry in caught.traceback)


def test_an_interrupt_is_130(launch: Any) -> None:
    code, jobs = launch("-m seed=0,1 hydra/launcher=basic", {0: KeyboardInterrupt()})
    assert (code, len(jobs)) == (130, 1)


def test_a_mistake_runs_nothing(launch: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    assert launch("poss=rope") == (2, [])
    assert capsys.readouterr().err == "poss=rope: there is no key 'poss'; did you mean pos=rope?\n"
    assert launch("-m model=gpt pos=rope,rope2d") == (2, [])
    monkeypatch.setenv("RANK", "1")
    capsys.readouterr()
    assert launch("poss=rope") == (2, []) and capsys.readouterr().err == ""  # rank 0 has said it


def test_eval_runs(launch: Any) -> None:
    code, [config] = launch("runs=[a,b]", name="eval")
    words = {"evaluate": "auto", "hardware": "auto", "logger": "csv"}
    assert (code, config["runs"], config["choices"]) == (0, ["a", "b"], words)


def test_flags_of_hydra_still_work(launch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert launch("model=gpt --cfg job") == (0, [])
    assert yaml.safe_load(capsys.readouterr().out)["steps"] == 1000
    assert launch("--help") == (0, []) and "model=\n" in capsys.readouterr().out
    assert launch("--hydra-help") == (0, []) and "--multirun" in capsys.readouterr().out
    assert launch("pos=sine --info defaults") == (0, []) and "pos/sine" in capsys.readouterr().out


# --- light


def python(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    return done.stdout.strip()


def test_checking_imports_nothing_heavy_and_pairs_no_lightning() -> None:
    lines = [
        "import sys",
        "from poslab.cli import Configs, check, check_pairs, help_page",
        f"heavy = lambda: [name for name in {HEAVY} if name in sys.modules]",
        "configs = Configs('train')",
        "checked = check(configs, ['model=gpt', 'model.dim=8'])",
        "page = help_page(configs, checked.composed[0])",
        "print(heavy())",
        "check_pairs(configs, checked)",
        "print(heavy())",
    ]
    before, after = python("-c", "\n".join(lines)).splitlines()
    assert before == "[]"
    assert "torch" in after and "lightning" not in after  # so the line above can fail


def seconds(*arguments: str) -> float:
    start = time.perf_counter()
    python(*arguments)
    return time.perf_counter() - start


def test_a_mistake_and_help_take_an_eighth_of_importing_lightning() -> None:
    allowed = seconds("-c", "import lightning") / 8
    train = str(ROOT / "train.py")
    for argument in ("--help", "poss=rope", "model.dim=abc"):
        assert seconds(train, argument) < allowed or seconds(train, argument) < allowed, argument


def test_the_real_script_from_another_directory(tmp_path: Path) -> None:
    for script in ("train.py", "eval.py"):
        done = subprocess.run(
            [sys.executable, str(ROOT / script), "evaluate=non"], capture_output=True, text=True, cwd=tmp_path
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("evaluate=non: ") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("experiment", "kind"), [("text_extrapolation", 1), ("image_extrapolation", 2)])
def test_a_study_is_of_every_encoding(train: Configs, experiment: str, kind: int) -> None:
    """A new file in configs/pos belongs into the study of its kind."""
    listed = yaml.safe_load(train.text(f"experiment/{experiment}"))["hydra"]["sweeper"]["params"]["pos"]
    words = [word.strip() for word in listed.split(",")]
    assert sorted(words) == sorted(word for word in train.options("pos") if axes(train, word) in (None, kind))
