"""A Hub on this machine: the few addresses of huggingface.co that fetching a model asks for."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40


@contextmanager
def serving(
    files: Mapping[str, bytes], *, repository: str = "org/tiny", lie: str = ""
) -> Iterator[tuple[str, list[str]]]:
    """Serve one repository; yields its address and the list of paths asked for, which grows.

    Args:
        files: what the repository holds.
        repository: its name.
        lie: a file whose published hash is not that of its bytes.
    """
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            asked.append(path)
            resolved = f"/{repository}/resolve/"
            if path.startswith(f"/api/models/{repository}/tree/"):
                self.answer(json.dumps([described(name) for name in files]).encode(), "application/json")
            elif path.startswith(f"/api/models/{repository}"):
                siblings = [{"rfilename": name, **described(name)} for name in files]
                info = {"id": repository, "sha": COMMIT, "siblings": siblings}
                self.answer(json.dumps(info).encode(), "application/json")
            elif path.startswith(resolved) and path.removeprefix(resolved).partition("/")[2] in files:
                self.answer(files[path.removeprefix(resolved).partition("/")[2]], "application/octet-stream")
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()

        do_HEAD = do_GET

        def answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: stderr belongs to the command under test."""

    def described(name: str) -> dict[str, object]:
        body = files[name]
        digest = hashlib.sha256(b"something else" if name == lie else body).hexdigest()
        row: dict[str, object] = {"type": "file", "path": name, "size": len(body), "oid": "0" * 40, "blobId": "0" * 40}
        if name.endswith((".safetensors", ".bin")):
            row["lfs"] = {"size": len(body), "sha256": digest, "oid": digest, "pointerSize": 100}
        return row

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
