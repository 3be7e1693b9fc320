"""Endpoints that somebody else runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import chat_server
import pytest
from chat_server import ChatServer, reply, serving

from engine.errors import ConfigError, ModelError
from engine.params import ServingParams
from engine.serving.external import ExternalServer
from kernel.contract import ModelUnavailable, Sampling

HELLO = [{"role": "user", "content": "hello"}]
ONE, TWO = "1" * 64, "2" * 64


def external(server: ChatServer, folder: Path, model: str) -> ExternalServer:
    params = ServingParams(backend="external", base_url=server.url, model=model)
    return ExternalServer(params, folder)


def said(server: ExternalServer, folder: Path, *digests: str) -> list[str]:
    """One reply of each checkpoint, asked for as each rollout does."""

    async def ask() -> list[str]:
        got = []
        for digest in digests:
            model = server.model(folder, digest)
            got.append((await model.complete(HELLO, (), Sampling(), 0)).content)
        await server.stop()
        return got

    return asyncio.run(ask())


def test_the_rollouts_of_a_checkpoint_share_their_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_server._Handler, "protocol_version", "HTTP/1.1")
    ports = set()

    def step(handler: chat_server._Handler) -> None:
        ports.add(handler.client_address[1])
        reply("x")(handler)

    with serving(step) as server:
        assert said(external(server, tmp_path, "m"), tmp_path, ONE, ONE, ONE) == ["x"] * 3
    assert len(ports) == 1


def test_checkpoints_are_asked_for_by_name_and_must_answer_by_it(tmp_path: Path) -> None:
    with serving(reply("x")) as server:
        made = external(server, tmp_path, "own-{digest12}")
        assert said(made, tmp_path, ONE, TWO) == ["x", "x"]
        assert [each["model"] for each in server.requests] == [
            "own-111111111111",
            "own-222222222222",
        ]
    with serving(reply("x", model="own-111111111111")) as server:
        made = external(server, tmp_path, "own-{digest12}")
        with pytest.raises(ModelUnavailable, match="nothing was scored"):
            said(made, tmp_path, TWO)


def test_an_endpoint_of_one_model_serves_one_checkpoint(tmp_path: Path) -> None:
    with serving(reply("x")) as server:
        made = external(server, tmp_path, "m")
        assert said(made, tmp_path, ONE) == ["x"]
        with pytest.raises(ModelError, match=r"serves 'm' alone.*\{digest12\}"):
            made.model(tmp_path, TWO)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"serving\.base_url: needed"):
        ExternalServer(ServingParams(backend="external", model="m"), tmp_path)
    with pytest.raises(ConfigError, match=r"serving\.model: needed"):
        ExternalServer(ServingParams(backend="external", base_url="http://x/v1"), tmp_path)
    given = {"base_url": "http://x/v1", "model": "m", "api_key_env": "NOT_SET_HERE"}
    with pytest.raises(ConfigError, match="NOT_SET_HERE isn't set"):
        ExternalServer(ServingParams(backend="external", **given), tmp_path)
