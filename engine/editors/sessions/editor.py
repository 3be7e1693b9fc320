"""The editors of a round as coding agents side by side, each in a sandbox of its own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.brief import Brief, Evidence
from engine.checks import kept_entry_points
from engine.context import Context
from engine.editors import Edit, mechanisms
from engine.editors.sessions import agents, declaration, places, prompt, results, view
from engine.editors.sessions.endpoints import Doors, probe
from engine.editors.sessions.room import Room, refuse_wide, remove
from engine.editors.sessions.session import LOG, Ended, Launch, run
from engine.editors.sessions.watch import Limits, Table
from engine.editors.sessions.work import Known, judge
from engine.llm.gateway import Door
from engine.params import EditorParams, Params
from engine.records import Cost
from engine.view import ArchiveView, HarnessSummary
from engine.workspace import write_workspace

_REPAIR = "-repair"


@dataclass(frozen=True)
class SessionEditor:
    """See ``engine.editors.Sessions``. ``launch`` says how the agent is started; it ``needs`` an
    endpoint, with these paths, or may do without."""

    launch: Callable[[Params], Launch]
    needs: tuple[str, ...] = ()

    @contextlib.asynccontextmanager
    async def workshop(
        self, context: Context, evidence: Evidence, view_: ArchiveView
    ) -> AsyncIterator[Side]:
        """Raises ConfigError, SandboxError or ModelError where no session could do anything."""
        params = context.params
        launch = self.launch(params)
        mounts = (*launch.mounts, *(Path(each).expanduser() for each in params.editors.mounts))
        launch = replace(launch, mounts=mounts)
        refuse_wide(mounts, context.root)
        folder = _folder(context)
        _forget_others(folder)
        key = view.build(context, view_, evidence, folder / "view")
        entries = view_.index()
        known = Known(entries, {each.oid: dict(view_.files(each.oid)) for each in entries})
        await probe(params, self.needs)
        async with Doors(context, folder / "doors", bool(self.needs)) as doors:
            yield Side(context, evidence, launch, known, folder, key, doors)


class Side:
    """See ``engine.editors.Workshop``."""

    def __init__(
        self,
        context: Context,
        evidence: Evidence,
        launch: Launch,
        known: Known,
        folder: Path,
        key: str,
        doors: Doors,
    ) -> None:
        self._context, self._evidence, self._launch = context, evidence, launch
        self._known, self._folder, self._key, self._doors = known, folder, key, doors
        self.parallel = context.params.editors.parallel
        self._places = asyncio.Semaphore(self.parallel)
        self._keeping = asyncio.Lock()
        self._table = Table()

    async def edit(self, brief: Brief) -> Edit:
        start = view.start(self._known.entries, brief.base)
        files = self._known.files[start.oid]
        return await self._session(brief.slot, self._prompt(brief, start), start, files, brief)

    async def repair(self, edit: Edit, reasons: Sequence[str], brief: Brief) -> Edit:
        """Another session on the same files with the reasons; the same edit where a limit ended
        the first one."""
        if edit.final:
            return edit
        params = self._context.params
        [base] = [entry for entry in self._known.entries if entry.oid == edit.base]
        first = self._prompt(brief, view.start(self._known.entries, brief.base))
        text = prompt.repair_prompt(first, reasons, base, params.llm.context)
        other = await self._session(brief.slot + _REPAIR, text, base, edit.files, brief)
        idle = bool(other.refused) and dict(other.files) == dict(edit.files)
        if other.final or idle:
            other = replace(other, refused=tuple(dict.fromkeys((*other.refused, *reasons))))
        return replace(other, remarks=(*edit.remarks, *other.remarks), cost=edit.cost + other.cost)

    def _prompt(self, brief: Brief, start: HarnessSummary) -> str:
        params = self._context.params
        return prompt.prompt(
            self._context.domain.direction,
            brief,
            self._evidence,
            self._known.entries,
            start,
            params.editors.line_budget,
            params.llm.context,
        )

    async def _session(
        self,
        name: str,
        text: str,
        base: HarnessSummary,
        files: Mapping[str, bytes],
        brief: Brief,
    ) -> Edit:
        """One session, or what is kept of it. Raises ModelError or BudgetSpent where it could do
        nothing for want of a model; then nothing is kept of it."""
        folder, key = self._folder / name, self._session_key(text, files)
        done = results.kept(folder, key)
        if done is not None:
            return done
        async with self._places:
            room = self._room(folder, text, base, files)
            transcript = folder / "record" / "transcript.jsonl"
            async with self._doors.open(name, key[:16], transcript) as door:
                ended = await self._run(room, door)
            left = await asyncio.to_thread(judge, room, ended, base, self._known, brief)
            if left.refused and dict(left.files) == dict(files):
                self._doors.blame(door, name)
            edit = Edit(
                files=left.files,
                base=left.base,
                subject=left.subject,
                editor=self._launch.label,
                adopts=left.adopts,
                mechanisms=self._news(left.files, left.base),
                refused=left.refused,
                final=left.final,
                remarks=(*left.remarks, *_trouble(door)),
                transcript=await self._keep(room, ended, left.refused, door),
                cost=_cost(door),
            )
            results.keep(folder, key, edit)
            _clear(room)
        return edit

    def _room(
        self, folder: Path, text: str, base: HarnessSummary, files: Mapping[str, bytes]
    ) -> Room:
        """A fresh room, with the candidate in it as a git work tree of its own."""
        remove(folder)
        params, launch = self._context.params.editors, self._launch
        disk = params.disk_mb * 2**20
        room = Room(folder, self._folder / "view", launch.mounts, launch.programs, disk)
        room.furnish({"prompt.md": text, **self._checks(base)})
        write_workspace(files, room.candidate)
        earlier = self._earlier(folder)
        if earlier is not None and (earlier / declaration.FILE).is_file():
            shutil.copyfile(earlier / declaration.FILE, room.work / declaration.FILE)
        _work_tree(room.candidate / ".git", room.view / "archive.git", base.oid)
        (folder / "record").mkdir()
        return room

    def _earlier(self, folder: Path) -> Path | None:
        """For a repair, the record of the session before it."""
        slot, repair, _ = folder.name.partition(_REPAIR)
        return self._folder / slot / "record" if repair else None

    def _checks(self, base: HarnessSummary) -> Mapping[str, str]:
        """The script that runs the checks inside, and the tools that it knows."""
        domain, params = self._context.domain, self._context.params
        sample = self._context.tasks("train")[0]
        rules = domain.world(domain.practice(sample, sample.instruction)).rules
        points = kept_entry_points(domain, self._known.files[base.oid])
        entries = "".join(f" --entry '{name}({', '.join(a)})'" for name, a in points.items())
        budget = params.editors.line_budget
        limit = "" if budget is None else f" --budget {budget}"
        script = (
            f"cd /tmp && PYTHONPATH={places.LIBRARY}:{places.LIBRARY}/site exec python3 -B -m "
            f"kernel.smoke {places.CANDIDATE} --inside --tools {places.SESSION}/tools.json"
            f'{entries}{limit} "$@"\n'
        )
        return {"check": script, "tools.json": json.dumps(list(rules.tools))}

    async def _run(self, room: Room, door: Door | None) -> Ended:
        params = self._context.params
        model = params.editors.model or params.llm.model or ""
        given = {} if door is None else agents.environment(model, door.token)
        launch = replace(self._launch, environment={**given, **self._launch.environment})
        socket = None if door is None else door.socket
        return await run(room, launch, _limits(params.editors), self._table, socket)

    def _news(self, files: Mapping[str, bytes], base: str) -> tuple[str, ...]:
        had = mechanisms(self._known.files[base])
        return tuple(name for name in mechanisms(files) if name not in had)

    async def _keep(
        self, room: Room, ended: Ended, reasons: Sequence[str], door: Door | None
    ) -> str:
        """Put the session's record into DVC: prompt, output, conversation, how it ended."""
        record = room.folder / "record"
        log = (room.folder / LOG).read_bytes()
        if door is not None:
            log = log.replace(door.token.encode(), b"[token]")
        (record / LOG).write_bytes(log)
        (record / "prompt.md").write_bytes((room.shown / "prompt.md").read_bytes())
        earlier = self._earlier(room.folder)
        if earlier is not None:
            shutil.copytree(earlier, record / "first")
        declared = room.work / declaration.FILE
        if declaration.read(room.work).declared is not None:
            (record / declaration.FILE).write_bytes(declared.read_bytes())
        facts = {
            "agent": self._launch.label,
            "status": ended.status,
            "ended": ended.excess,
            "left": list(ended.left),
            "seconds": round(ended.seconds, 3),
            "early": ended.early,
            "reasons": list(reasons),
            "usage": {} if door is None else dict(door.usage.figures()),
            "killed": {} if door is None else dict(door.account.before.figures()),
        }
        (record / "session.json").write_text(json.dumps(facts, indent=1) + "\n")
        async with self._keeping:
            return await asyncio.to_thread(self._context.dvc.add, record)

    def _session_key(self, text: str, files: Mapping[str, bytes]) -> str:
        parts = [text, self._key, self._launch.label, *self._launch.command]
        whole = hashlib.sha256("\0".join(parts).encode())
        for name, content in sorted(files.items()):
            whole.update(f"\0{name}\0".encode() + hashlib.sha256(content).digest())
        return whole.hexdigest()


def _limits(params: EditorParams) -> Limits:
    return Limits(params.wall_s, params.disk_mb * 2**20, params.memory_mb * 2**20, params.processes)


def _cost(door: Door | None) -> Cost:
    if door is None:
        return Cost()
    used = door.usage
    return Cost(prompt_tokens=used.prompt_tokens, completion_tokens=used.completion_tokens)


def _trouble(door: Door | None) -> tuple[str, ...]:
    """What last went wrong with its model, where the agent ended without a good reply after it."""
    return (door.trouble,) if door is not None and door.trouble else ()


def _folder(context: Context) -> Path:
    number = context.opened().round
    return context.root / ".coevo" / "sessions" / context.params.run / f"r{number:03d}"


def _forget_others(folder: Path) -> None:
    """Earlier rounds' sessions: all that is kept of them is in the archive and in DVC."""
    for other in folder.parent.glob("r*"):
        if other != folder:
            remove(other)


def _work_tree(folder: Path, archive: Path, head: str) -> None:
    """A git folder that borrows the view's objects and has its branches, with ``head`` detached.
    Written by hand, so that no git has to run and no worktree has to be registered anywhere."""
    for name in ("objects/info", "refs/heads", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text(f"{head}\n")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    (folder / "info" / "exclude").write_text("__pycache__/\n")
    borrowed = f"{places.ARCHIVE}/{archive.name}/objects\n"
    (folder / "objects" / "info" / "alternates").write_text(borrowed)
    for name in ("packed-refs", "shallow"):
        if (archive / name).exists():
            (folder / name).write_bytes((archive / name).read_bytes())


def _clear(room: Room) -> None:
    """Only the result and the record stay."""
    for path in (room.work, room.shown):
        remove(path)


CODEX = SessionEditor(agents.codex, ("/responses",))
COMMAND = SessionEditor(agents.command)
CHAT = SessionEditor(agents.chat, ("/chat/completions",))
