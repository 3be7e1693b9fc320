"""The same protocol from the embedded server, the scripted one and a vLLM that is a fake."""

from pathlib import Path

import scripted
import vllm_runs
from serving_protocol import CONTEXT, ServingProtocol
from serving_protocol import speakers as speakers

from engine.params import ServingParams
from engine.serving import server
from engine.serving.base import Server


class TestEmbedded(ServingProtocol):
    def server(self, folder: Path) -> Server:
        return server(ServingParams(context=CONTEXT), folder)


class TestScripted(ServingProtocol):
    def server(self, folder: Path) -> Server:
        return scripted.ScriptedServer(ServingParams(context=CONTEXT), folder)


class TestFakeVllm(ServingProtocol):
    def server(self, folder: Path) -> Server:
        return server(vllm_runs.params(vllm_runs.fake(folder), context=CONTEXT), folder)
