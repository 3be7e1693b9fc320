"""A Hub on this machine: the HTTP API that huggingface_hub speaks for model repositories, kept in a
folder so that it survives its own death. ``python hub_server.py FOLDER PORT`` runs it alone.

Faults are files in FOLDER/faults, so that a test can set them in another process: ``NAME`` holds
JSON {"match": "METHOD /path part", "status": 429, "headers": {...}, "times": 2}, or "cut": N (close
the connection after N bytes of the body), or "delay": seconds.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

TOKENS = {
    "hf_write": {"role": "write", "orgs": ["org"]},
    "hf_read": {"role": "read", "orgs": ["org"]},
    "hf_elsewhere": {"role": "write", "orgs": ["other"]},
}
SMALL = 1000  # bytes that still go into the commit itself


class LocalHub:
    """Repositories below ``folder``: blobs by sha256, commits and refs as JSON."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, threading.RLock()
        for name in ("blobs", "repos", "faults"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def blob(self, sha: str) -> Path:
        return self.folder / "blobs" / sha

    def put(self, data: bytes) -> str:
        sha = hashlib.sha256(data).hexdigest()
        partial = self.blob(sha).with_suffix(".partial")
        partial.write_bytes(data)
        partial.replace(self.blob(sha))
        return sha

    def repo(self, name: str) -> dict[str, Any] | None:
        path = self._path(name)
        return json.loads(path.read_text()) if path.exists() else None

    def save(self, name: str, repo: dict[str, Any]) -> None:
        partial = self._path(name).with_suffix(".partial")
        partial.write_text(json.dumps(repo))
        partial.replace(self._path(name))

    def _path(self, name: str) -> Path:
        return self.folder / "repos" / (name.replace("/", "--") + ".json")

    def fault(self, line: str) -> dict[str, Any] | None:
        """The fault that meets this request, counted down."""
        for path in sorted((self.folder / "faults").glob("*")):
            fault = json.loads(path.read_text())
            if re.search(fault["match"], line) and fault.setdefault("times", 10**6) > 0:
                if fault.get("after", 0) > 0:
                    fault["after"] -= 1
                    path.write_text(json.dumps(fault))
                    continue
                fault["times"] -= 1
                path.write_text(json.dumps(fault))
                return dict(fault)
        return None


class Handler(BaseHTTPRequestHandler):
    """One request. ``server.hub`` is the LocalHub."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._meet(b"")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._meet(None)

    do_PUT = do_DELETE = do_POST

    def log_message(self, *args: object) -> None:
        with (self.hub.folder / "requests.log").open("a") as log:
            log.write(f"{self.command} {self.path}\n")

    @property
    def hub(self) -> LocalHub:
        return self.server.hub  # type: ignore[attr-defined, no-any-return]

    def _meet(self, body: bytes | None) -> None:
        path = unquote(urlparse(self.path).path)
        self._cut: int | None = None
        fault = self.hub.fault(f"{self.command} {path}")
        length = int(self.headers.get("Content-Length") or 0)
        if fault and "cut" in fault and self.command in ("PUT", "POST"):
            self.rfile.read(min(fault["cut"], length))
            self.close_connection = True
            return
        body = self.rfile.read(length) if body is None else body
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._chunks()
        if fault:
            time.sleep(fault.get("delay", 0))
            if "status" in fault:
                self._json(
                    {"error": fault.get("error", "as told")}, fault["status"], fault.get("headers")
                )
                return
            self._cut = fault.get("cut")
        query = {k: v[0] for k, v in parse_qs(urlparse(self.path).query).items()}
        with self.hub.lock:
            self._route(path, query, body)

    def _chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _route(self, path: str, query: dict[str, str], body: bytes) -> None:
        for method, pattern, action in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and self.command in method.split("|"):
                action(self, *found.groups(), query=query, body=body)
                return
        self._json({"error": "no such route"}, 404)

    # --- who ------------------------------------------------------------------------------------

    def _who(self) -> dict[str, Any] | None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        return TOKENS.get(token)

    def _may_write(self, repo: str) -> bool:
        who = self._who()
        if who is None:
            self._json({"error": "Invalid username or password."}, 401)
            return False
        if who["role"] != "write" or repo.split("/")[0] not in who["orgs"]:
            self._json({"error": f"You don't have the rights to write to {repo}"}, 403)
            return False
        return True

    def whoami(self, **_: Any) -> None:
        who = self._who()
        if who is None:
            self._json({"error": "Invalid username or password."}, 401)
            return
        token = {"role": who["role"], "displayName": f"a {who['role']} token"}
        self._json({"name": "tester", "type": "user", "auth": {"accessToken": token}})

    # --- repositories ---------------------------------------------------------------------------

    def create(self, *, body: bytes, **_: Any) -> None:
        asked = json.loads(body)
        name = f"{asked.get('organization') or 'tester'}/{asked['name']}"
        if not self._may_write(name):
            return
        url = f"http://{self.headers['Host']}/{name}"
        if self.hub.repo(name):
            self._json({"error": "You already created this model repo", "url": url}, 409)
            return
        attributes = self.hub.put(b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n")
        first = _commit(None, {".gitattributes": attributes}, "initial commit")
        self.hub.save(name, {"commits": [first], "tags": {}})
        self._json({"url": url, "name": name, "id": name})

    def may_write(self, repo: str, **_: Any) -> None:
        if self._may_write(repo):
            self._json({})

    def refs(self, repo: str, **_: Any) -> None:
        if known := self._known(repo):
            rows = [
                {"name": name, "ref": f"refs/tags/{name}", "targetCommit": oid}
                for name, oid in known["tags"].items()
            ]
            head = {"name": "main", "ref": "refs/heads/main"}
            head["targetCommit"] = known["commits"][-1]["oid"]
            self._json({"branches": [head], "converts": [], "tags": rows})

    def commits(self, repo: str, revision: str, **_: Any) -> None:
        if (known := self._known(repo)) and (at := self._at(known, revision)):
            index = known["commits"].index(at)
            rows = [
                {
                    "id": each["oid"],
                    "title": each["title"],
                    "message": "",
                    "date": "2026-01-01T00:00:00.000Z",
                    "authors": [{"user": "tester"}],
                }
                for each in reversed(known["commits"][: index + 1])
            ]
            self._json(rows)

    def info(self, repo: str, revision: str | None = None, **_: Any) -> None:
        if (known := self._known(repo)) and (at := self._at(known, revision or "main")):
            files = [{"rfilename": path} for path in at["files"]]
            self._json({"_id": "1", "id": repo, "modelId": repo, "sha": at["oid"],
                        "private": False, "tags": [], "downloads": 0, "likes": 0,
                        "siblings": files})  # fmt: skip

    def tree(self, repo: str, revision: str, **_: Any) -> None:
        if (known := self._known(repo)) and (at := self._at(known, revision)):
            self._json([self._entry(path, sha, at) for path, sha in at["files"].items()])

    def _entry(self, path: str, sha: str, at: dict[str, Any]) -> dict[str, Any]:
        size = at.get("sizes", {}).get(path, self.hub.blob(sha).stat().st_size)
        entry: dict[str, Any] = {"type": "file", "oid": sha[:40], "size": size, "path": path}
        if size > SMALL:
            entry["lfs"] = {"oid": sha, "size": size, "pointerSize": 130}
        return entry

    def tag(self, repo: str, revision: str, *, body: bytes, **_: Any) -> None:
        if not self._may_write(repo) or not (known := self._known(repo)):
            return
        name = json.loads(body)["tag"]
        if name in known["tags"]:
            self._json({"error": f"Tag {name} exists"}, 409)
        elif at := self._at(known, revision):
            known["tags"][name] = at["oid"]
            self.hub.save(repo, known)
            self._json({})

    # --- uploads --------------------------------------------------------------------------------

    def validate(self, **_: Any) -> None:
        self._json({"errors": [], "warnings": []})

    def preupload(self, repo: str, revision: str, *, body: bytes, **_: Any) -> None:
        if self._may_write(repo):
            rows = [
                {
                    "path": each["path"],
                    "uploadMode": "lfs" if each["size"] > SMALL else "regular",
                    "shouldIgnore": False,
                }
                for each in json.loads(body)["files"]
            ]
            self._json({"files": rows})

    def batch(self, repo: str, *, body: bytes, **_: Any) -> None:
        if not self._may_write(repo):
            return
        rows = []
        for each in json.loads(body)["objects"]:
            row: dict[str, Any] = {"oid": each["oid"], "size": each["size"]}
            if not self.hub.blob(each["oid"]).exists():
                href = f"http://{self.headers['Host']}/lfs/{each['oid']}"
                row["actions"] = {"upload": {"href": href, "header": {}}}
            rows.append(row)
        self._json({"transfer": "basic", "objects": rows})

    def upload(self, oid: str, *, body: bytes, **_: Any) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            self._json({"error": "the bytes are not those promised"}, 400)
            return
        self.hub.put(body)
        self._json({})

    def commit(self, repo: str, revision: str, *, body: bytes, **_: Any) -> None:
        if not self._may_write(repo) or not (known := self._known(repo)):
            return
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        head = known["commits"][-1]
        files, title = dict(head["files"]), "?"
        for key, value in ((line["key"], line["value"]) for line in lines):
            if key == "header":
                title = value["summary"]
                if value.get("parentCommit", head["oid"]) != head["oid"]:
                    self._json({"error": "A commit has happened since."}, 412)
                    return
            elif key == "file":
                files[value["path"]] = self.hub.put(base64.b64decode(value["content"]))
            elif key == "lfsFile":
                if not self.hub.blob(value["oid"]).exists():
                    self._json({"error": f"LFS pointer to a missing file {value['path']}"}, 400)
                    return
                files[value["path"]] = value["oid"]
            elif key == "deletedFile":
                files.pop(value["path"], None)
        made = _commit(head["oid"], files, title)
        known["commits"].append(made)
        self.hub.save(repo, known)
        url = f"http://{self.headers['Host']}/{repo}/commit/{made['oid']}"
        self._json({"commitOid": made["oid"], "commitUrl": url, "success": True})

    # --- downloads ------------------------------------------------------------------------------

    def resolve(self, repo: str, revision: str, path: str, **_: Any) -> None:
        if not (known := self._known(repo)) or not (at := self._at(known, revision)):
            return
        if path not in at["files"]:
            self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        sha = at["files"][path]
        data = self.hub.blob(sha).read_bytes()
        headers = {"X-Repo-Commit": at["oid"], "ETag": f'"{sha}"', "Accept-Ranges": "bytes"}
        if len(data) > SMALL:
            size = at.get("sizes", {}).get(path, len(data))
            headers |= {"X-Linked-ETag": f'"{sha}"', "X-Linked-Size": str(size)}
        status = 200
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(asked[1]), int(asked[2] or len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            data, status = data[start : end + 1], 206
        self._send(data, status, headers)

    # --- answers --------------------------------------------------------------------------------

    def _known(self, repo: str) -> dict[str, Any] | None:
        known = self.hub.repo(repo)
        if known is None:
            self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        return known

    def _at(self, known: dict[str, Any], revision: str) -> dict[str, Any] | None:
        wanted = known["tags"].get(revision, revision)
        for each in known["commits"][::-1]:
            if revision == "main" or each["oid"].startswith(wanted):
                return dict(each)
        self._json({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
        return None

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        said = {"Content-Type": "application/json", **(headers or {})}
        if status >= 400 and isinstance(value, dict):
            said["X-Error-Message"] = str(value.get("error"))
        self._send(json.dumps(value).encode(), status, said)

    def _send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            if self._cut is not None:
                data, self.close_connection = data[: self._cut], True
            self.wfile.write(data)


def _commit(parent: str | None, files: dict[str, str], title: str) -> dict[str, Any]:
    oid = hashlib.sha1(json.dumps([parent, files, title]).encode()).hexdigest()
    return {"oid": oid, "files": files, "title": title}


REPO = r"([^/]+/[^/]+)"
ROUTES = [
    ("GET", "/api/whoami-v2", Handler.whoami),
    ("POST", "/api/repos/create", Handler.create),
    ("POST", "/api/validate-yaml", Handler.validate),
    ("GET", f"/api/models/{REPO}/auth-check/write", Handler.may_write),
    ("GET", f"/api/models/{REPO}/refs", Handler.refs),
    ("GET", f"/api/models/{REPO}/commits/([^/]+)", Handler.commits),
    ("GET", f"/api/models/{REPO}/revision/([^/]+)", Handler.info),
    ("GET", f"/api/models/{REPO}/tree/([^/]+)", Handler.tree),
    ("POST", f"/api/models/{REPO}/tag/([^/]+)", Handler.tag),
    ("POST", f"/api/models/{REPO}/preupload/([^/]+)", Handler.preupload),
    ("POST", f"/api/models/{REPO}/commit/([^/]+)", Handler.commit),
    ("GET", f"/api/models/{REPO}", Handler.info),
    ("POST", f"/{REPO}\\.git/info/lfs/objects/batch", Handler.batch),
    ("PUT", "/lfs/([0-9a-f]{64})", Handler.upload),
    ("GET|HEAD", f"/{REPO}/resolve/([^/]+)/(.+)", Handler.resolve),
]


class HubServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.hub = LocalHub(folder)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is no news."""


if __name__ == "__main__":
    HubServer(Path(sys.argv[1]), int(sys.argv[2])).serve_forever()
