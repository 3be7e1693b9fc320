"""Pairs pushed to a Hub and pulled from it, by the real huggingface_hub against a local server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hub_runs
import pytest
import yaml
from hub_runs import REPO, HubRun
from runs import RunRepository, wait_for

from engine.checkpoints import digest


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> HubRun:
    """Before any push; not to be changed."""
    return hub_runs.two_pairs(tmp_path_factory.mktemp("hub") / "base")


@pytest.fixture
def run(base: HubRun, tmp_path: Path) -> Iterator[HubRun]:
    with hub_runs.serving(tmp_path / "hub") as hub:
        yield hub_runs.with_hub(base, tmp_path / "run", hub)


def tags(run: HubRun) -> dict[str, str]:
    known = run.hub.hub.repo(REPO)
    return dict(known["tags"]) if known else {}


def test_a_run_goes_to_the_hub_and_comes_back(run: HubRun, tmp_path: Path) -> None:
    sent = run.json("coevo", "push", "--hub", REPO)["hub"]
    assert [each["label"] for each in sent] == ["r000-seed", "r001-adapted"]
    assert {each["tag"]: each["revision"] for each in sent} == tags(run)
    assert len(run.hub.hub.repo(REPO)["commits"]) == 3, "the empty one and one a pair"  # type: ignore[index]
    before = run.refs()
    again = run.json("coevo", "push", "--hub", REPO)["hub"]
    assert again == [{**each, "new": False} for each in sent] and run.refs() == before
    notes = run.ok("git", "notes", "--ref=coevo-hub/evo", "show", sent[1]["pair"])
    assert json.loads(notes)["revision"] == sent[1]["revision"]
    _pulled_agent(run, tmp_path / "agent", sent[1]["pair"])
    _third_clone(run, sent[0])


def _pulled_agent(run: HubRun, folder: Path, pair: str) -> None:
    """In an empty folder, without the archive."""
    run.ok("coevo", "pull", "--hub", REPO, "--to", str(folder), cwd=folder.parent)
    manifest = json.loads((folder / "coevo.json").read_text())
    assert manifest["pair"] == pair
    assert digest(folder / "checkpoint") == manifest["weights"]
    trailer = "--format=%(trailers:key=Coevo-Weights,valueonly)"
    assert run.ok("git", "log", "-1", trailer, f"{pair}^2").strip() == manifest["weights"]
    tree = run.ok("git", "ls-tree", "-r", "--name-only", f"{pair}:harness").split()
    assert sorted(path.name for path in (folder / "harness").iterdir()) == sorted(tree)
    for name in tree:
        assert (folder / "harness" / name).read_text() == run.ok(
            "git", "show", f"{pair}:harness/{name}"
        )
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert AutoModelForCausalLM.from_pretrained(folder / "checkpoint").num_parameters() > 1000
    assert AutoTokenizer.from_pretrained(folder / "checkpoint")("light")["input_ids"]
    _card((folder / "README.md").read_text(), pair)
    settings = json.loads((folder / "agent.json").read_text())
    assert settings["params"]["serving"]["backend"] == "embedded", "this machine's, not the Hub's"
    settings["params"]["serving"] = {"backend": "scripted:ScriptedServer"}
    (folder / "agent.json").write_text(json.dumps(settings))
    said = run.ok(str(folder / "run.sh"), "Turn on the light in the kitchen.", cwd=folder.parent)
    assert said.strip() == "{kitchen.light.turn_on()}"


def _card(text: str, pair: str) -> None:
    _, front, body = text.split("---\n", 2)
    said = yaml.safe_load(front)
    assert (said["license"], said["base_model"]) == ("apache-2.0", "tiny/llama")
    assert "```mermaid" in body and "-- SFT -->" in body and pair in body
    assert "| score | 1.000 | 1.000 to 1.000 |" in body
    assert "training data md5 `" in body and "coevo pull --hub org/agent" in body


def _third_clone(run: HubRun, sent: dict[str, str]) -> None:
    """The DVC remote has everything but weights; those come from the Hub."""
    remote = run.base / "remote"
    run.ok("git", "init", "-q", "--bare", "bare", cwd=run.base)
    run.ok("git", "remote", "add", "origin", str(run.base / "bare"))
    run.ok("git", "push", "-q", "origin", "main")
    run.ok("dvc", "remote", "add", "--default", "shared", str(remote))
    run.ok("coevo", "push", "origin", "--hub", REPO)
    lists = run.ok("git", "show", f"{sent['pair']}:checkpoint.dvc")
    md5 = yaml.safe_load(lists)["outs"][0]["md5"]
    (remote / "files" / "md5" / md5[:2] / md5[2:]).unlink()
    third = run.base / "third"
    run.ok("git", "clone", "-q", "--branch", "main", str(run.base / "bare"), "third", cwd=run.base)
    for path in ("params.yaml", ".dvc/config"):
        (third / path).write_bytes((run.folder / path).read_bytes())
    said = run.fails("coevo", "pull", "origin", "--pair", "pair/r000-seed", code=3, cwd=third)
    assert "not on the DVC remote" in said
    run.ok("coevo", "pull", "--hub", REPO, "--revision", sent["tag"], cwd=third)
    run.ok("coevo", "pull", "origin", "--pair", "pair/r000-seed", cwd=third)
    assert json.loads(run.ok("coevo", "replay", "pair/r000-seed", "--json", cwd=third))["equal"]
    noted = run.ok("git", "notes", "--ref=coevo-hub/evo", "show", sent["pair"], cwd=third)
    assert json.loads(noted)["tag"] == sent["tag"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"match": "auth-check", "status": 403, "error": "no rights"}, "write access to org"),
        ({"match": "refs", "status": 404}, "no such repository"),
        ({"match": "POST .*/commit/", "status": 409}, "run the same command again"),
        ({"match": "GET .*/commits/", "status": 429, "headers": {"Retry-After": "1"}}, "wait 1 s"),
    ],
)
def test_what_the_hub_refuses_is_one_line(run: HubRun, fault: dict[str, object], said: str) -> None:
    run.fault(**fault)
    assert said in run.fails("coevo", "push", "--hub", REPO, code=11)
    assert not tags(run)
    assert not run.run("git", "show-ref", "notes").stdout
    run.mend()
    run.ok("coevo", "push", "--hub", REPO)
    assert len(tags(run)) == 2


@pytest.mark.parametrize(
    ("token", "said"),
    [("hf_read", "can only read"), ("hf_elsewhere", "403"), ("hf_unknown", "hf auth login")],
)
def test_a_token_that_may_not_write_stops_before_anything_is_sent(
    run: HubRun, token: str, said: str
) -> None:
    run.token = token
    assert said in run.fails("coevo", "push", "--hub", REPO, code=11)
    assert not run.requests("preupload") and not run.requests("/lfs/")


def test_a_cut_connection_is_one_line_and_the_next_push_goes_on(run: HubRun) -> None:
    run.fault(match="PUT /lfs/", cut=10, after=1)
    assert "goes on where it stopped" in run.fails("coevo", "push", "--hub", REPO, code=11)
    assert len(tags(run)) <= 1
    run.mend()
    run.ok("coevo", "push", "--hub", REPO)
    assert len(tags(run)) == 2


@pytest.mark.parametrize("at", ["PUT /lfs/", "POST .*/commit/", "POST .*/tag/"])
def test_a_push_killed_anywhere_leaves_nothing_half_and_goes_on(run: HubRun, at: str) -> None:
    run.fault(match=at, delay=600, times=1)
    part = at.removeprefix("POST .*").removeprefix("PUT ")
    killed = run.started("coevo", "push", "--hub", REPO)
    wait_for(lambda: json.loads(_fault(run)).get("times") == 0, seconds=120)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not tags(run), f"a tag promises a whole pair ({part})"
    run.mend()
    run.ok("coevo", "push", "--hub", REPO)
    commits = run.hub.hub.repo(REPO)["commits"]  # type: ignore[index]
    assert len(tags(run)) == 2 and len(commits) == 3, "no pair was committed twice"
    run.sound()


def _fault(run: HubRun) -> str:
    try:
        return (run.hub.hub.folder / "faults" / "one").read_text() or "{}"
    except FileNotFoundError:
        return "{}"


def test_a_pull_killed_or_cheated_leaves_no_agent(run: HubRun, tmp_path: Path) -> None:
    run.ok("coevo", "push", "--hub", REPO)
    agent = tmp_path / "agent"
    command = ("coevo", "pull", "--hub", REPO, "--to", str(agent))
    run.fault(match="GET .*/resolve/.*model.safetensors", delay=600, times=1)
    killed = run.started(*command)
    wait_for(lambda: json.loads(_fault(run)).get("times") == 0, seconds=120)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not agent.exists()
    run.mend()
    run.ok(*command)
    assert (agent / "run.sh").exists() and not list(tmp_path.glob(".agent*"))
    known = run.hub.hub.repo(REPO)
    assert known
    known["commits"][-1]["files"]["harness/harness.py"] = run.hub.hub.put(b"import os\n")
    known["commits"][-1]["oid"] = "e" * 40
    run.hub.hub.save(REPO, known)
    other = tmp_path / "other"
    said = run.fails("coevo", "pull", "--hub", REPO, "--to", str(other), code=11)
    assert "harness/harness.py is missing or not what coevo.json says" in said
    assert not other.exists()


def test_a_model_too_big_for_the_disk_is_refused_before_it_is_fetched(
    run: HubRun, tmp_path: Path
) -> None:
    run.ok("coevo", "push", "--hub", REPO)
    known = run.hub.hub.repo(REPO)
    assert known
    known["commits"][-1]["sizes"] = {"model.safetensors": 10**16}
    run.hub.hub.save(REPO, known)
    said = run.fails("coevo", "pull", "--hub", REPO, "--to", str(tmp_path / "agent"), code=3)
    assert "needs 10.0 PB" in said and "free: free" in said
    assert not run.requests("resolve/.*model.safetensors")


def test_a_seed_from_the_hub_is_fetched_where_there_is_room(
    run: HubRun, fresh: RunRepository, tmp_path: Path
) -> None:
    run.ok("coevo", "push", "--hub", REPO)
    new = hub_runs.with_hub(fresh, tmp_path / "new", run.hub)
    new.set_params(model={"seed": REPO})
    known = run.hub.hub.repo(REPO)
    assert known
    known["commits"][-1]["sizes"] = {"model.safetensors": 10**16}
    run.hub.hub.save(REPO, known)
    said = new.fails("coevo", "stage", "open", code=3)
    assert "model.seed: org/agent needs 10.0 PB" in said and "nothing was transferred" in said
    assert not run.requests("GET /org/agent/resolve")
    del known["commits"][-1]["sizes"]
    run.hub.hub.save(REPO, known)
    new.ok("coevo", "stage", "open")
    assert '"source": "hub:org/agent"' in new.ok(
        "git", "show", "evo/checkpoint/r000-seed:provenance.json"
    )


def test_the_local_hub_runs_alone(tmp_path: Path) -> None:
    """For trying things by hand."""
    server = Path(__file__).with_name("hub_server.py")
    alone = subprocess.Popen([sys.executable, str(server), str(tmp_path), "0"])
    wait_for(lambda: (tmp_path / "faults").is_dir())
    alone.terminate()
    alone.wait()
