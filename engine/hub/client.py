"""One model repository on the Hub, by huggingface_hub; what it refuses is one line with a mend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import HubError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Content = Path | bytes

_MENDS = {
    401: "it doesn't know this token: `hf auth login`, or set HF_TOKEN",
    403: "this token may not do that: make one with write access to {owner} in the Hub's settings, "
    "then `hf auth login`",
    404: "it has no such repository or revision, or this token may not see it; check the name, or "
    "`coevo push --hub {repo}` first",
    409: "someone else changes it at this moment: run the same command again",
    412: "someone else changes it at this moment: run the same command again",
    413: "a file is larger than it takes; save the checkpoint in smaller shards",
    429: "it has had too many requests{wait}: run the same command again then",
}


class File(NamedTuple):
    """A file of a revision; ``size`` in bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class Hub:
    """``repo`` is ORG/NAME. Every method raises HubError."""

    repo: str
    quiet: bool = False

    def require_writing(self) -> None:
        """Make the repository where there is none, and ask whether this token may write to it:
        before anything long is done."""
        with self._said("asking who we are") as api:
            who = api.whoami()
            token = dict(who.get("auth", {})).get("accessToken", {})
        if token.get("role") == "read":
            raise HubError(
                f"{self.repo}: the Hub's token {token.get('displayName', '')!r} of {who['name']} "
                "can only read; make one with write access in its settings, then `hf auth login`"
            )
        with self._said("making the repository") as api:
            api.create_repo(self.repo, exist_ok=True)
        with self._said("asking to write") as api:
            api.auth_check(self.repo, write=True)

    def tags(self) -> dict[str, str]:
        """Tag -> revision."""
        with self._said("listing tags") as api:
            return {tag.name: tag.target_commit for tag in api.list_repo_refs(self.repo).tags}

    def commits(self) -> list[tuple[str, str]]:
        """(revision, title) of the main branch, newest first."""
        with self._said("listing commits") as api:
            return [(c.commit_id, c.title) for c in api.list_repo_commits(self.repo)]

    def files(self, revision: str) -> list[File]:
        with self._said(f"listing {revision}") as api:
            tree = api.list_repo_tree(self.repo, revision=revision, recursive=True)
            return [File(each.path, each.size) for each in tree if hasattr(each, "size")]

    def resolve(self, revision: str) -> str:
        """The full id that a branch, tag or prefix stands for."""
        with self._said(f"looking for {revision}") as api:
            return str(api.repo_info(self.repo, revision=revision).sha)

    def send(self, files: Mapping[str, Content], title: str, parent: str | None) -> str:
        """Make one commit on main whose files are exactly ``files``; its id. Large files go first,
        those that are there already don't go again; the commit makes all of it visible at once.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        before = {file.path for file in self.files(parent)} if parent else set()
        with self._said("sending") as api:
            additions = [
                CommitOperationAdd(name, content if isinstance(content, bytes) else str(content))
                for name, content in files.items()
            ]
            gone = sorted(before - set(files) - {".gitattributes"})
            removals = [CommitOperationDelete(name) for name in gone]
            made = api.create_commit(
                self.repo, [*additions, *removals], commit_message=title, parent_commit=parent
            )
        return str(made.oid)

    def tag(self, name: str, revision: str) -> None:
        with self._said(f"tagging {name}") as api:
            api.create_tag(self.repo, tag=name, revision=revision)

    def read(self, path: str, revision: str) -> bytes | None:
        """One small file, None where the revision hasn't it."""
        from huggingface_hub.errors import EntryNotFoundError

        with self._said(f"reading {path}") as api:
            try:
                return Path(api.hf_hub_download(self.repo, path, revision=revision)).read_bytes()
            except EntryNotFoundError as error:
                if getattr(error, "response", None) is None:
                    raise  # not "no such file" but "the Hub can't be reached"
                return None

    def fetch(self, revision: str, folder: Path) -> None:
        """All files of a revision below ``folder``, and ``.cache`` beside them, by which an
        interrupted call goes on."""
        with self._said("fetching") as api:
            api.snapshot_download(self.repo, revision=revision, local_dir=folder)

    @contextmanager
    def _said(self, doing: str) -> Iterator[HfApi]:
        try:
            from huggingface_hub import HfApi, errors
        except ModuleNotFoundError:
            raise HubError("huggingface_hub is missing: pip install 'coevo[hub]'") from None
        from huggingface_hub.utils.tqdm import disable_progress_bars

        broken = errors.HTTPError  # type: ignore[attr-defined]  # its HTTP library's, by version
        if self.quiet:
            disable_progress_bars()
        try:
            yield HfApi()
        except errors.LocalTokenNotFoundError:
            raise HubError(f"{self.repo}: {doing}: {_MENDS[401]}") from None
        except errors.HfHubHTTPError as error:
            raise self._refused(doing, error) from None
        except errors.HFValidationError as error:
            raise HubError(f"--hub {self.repo}: not ORG/NAME ({error})") from None
        except RuntimeError as error:  # one file's upload: the reason is its cause
            if isinstance(error.__cause__, errors.HfHubHTTPError):
                raise self._refused(doing, error.__cause__) from None
            if isinstance(error.__cause__, (broken, ConnectionError)):
                raise self._broke(doing, error.__cause__) from None
            raise
        except (broken, errors.LocalEntryNotFoundError, ConnectionError) as error:
            raise self._broke(doing, error) from None

    def _broke(self, doing: str, error: BaseException) -> HubError:
        return HubError(
            f"{self.repo}: {doing}: the connection to the Hub broke ({_short(error)}); run the "
            "same command again: it goes on where it stopped"
        )

    def _refused(self, doing: str, error: Any) -> HubError:
        response = error.response
        code = response.status_code
        wait = response.headers.get("Retry-After")
        mend = _MENDS.get(code, "run the same command again later: it goes on where it stopped")
        mend = mend.format(
            owner=self.repo.split("/")[0], repo=self.repo, wait=f", wait {wait} s" if wait else ""
        )
        said = f" ({_short(error.server_message)})" if error.server_message else ""
        return HubError(f"{self.repo}: {doing}: the Hub answers {code}{said}; {mend}")


def _short(what: object) -> str:
    return " ".join(str(what).split())[:160]
