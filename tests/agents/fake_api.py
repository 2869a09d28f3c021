"""One loopback server that speaks enough of four model APIs for a coding agent to take a prompt and show a reply.

POST .../v1/messages, .../v1/responses, .../chat/completions and Gemini's :generateContent and :streamGenerateContent, streamed
as server-sent events where they were asked for so. Each prompt is one line of JSON in a file: `{"api": NAME, "text": TEXT,
"reply": TEXT}`. What agents ask for themselves (a title, a quota, a list of models, a count of tokens) is answered, and kept
with `"side": true`.

Run by hand: `python fake_api.py LOG [PORT]` prints its address and serves until it is ended.
"""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "fake-model"
# What agents wrap around a prompt: `<system-reminder>...</system-reminder>` and the like, each on lines of its own.
_WRAPPED = re.compile(
    r"\s*<(system-reminder|system_reminder|system_notification|reminder|current_datetime|session_context|environment_context"
    r"|user_instructions|sql_tables|ide_selection|command-name)>.*?</\1>\s*",
    re.DOTALL,
)


def bare(text):
    """Return a prompt without what the agent put around it."""
    return _WRAPPED.sub("", text).strip("\n")


def text_of(content):
    """Return the text of a message's content, a string or a list of parts."""
    if isinstance(content, str):
        return bare(content)
    texts = [bare(part.get("text") or "") for part in content or [] if isinstance(part, dict)]
    return "\n".join(text for text in texts if text)


def last_user_text(messages, key="content"):
    """Return the text of the last message, "" where it is not one of the user: the result of a tool."""
    for message in reversed(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role in ("system", "developer"):
            continue  # what the agent adds of its own
        if role != "user":
            return ""
        text = text_of(message.get(key))
        if text:
            return text
    return ""


class FakeApi:
    """The server, on a free port of 127.0.0.1 in a thread of its own."""

    def __init__(self, log_path, port=0):
        self.log_path = str(log_path)
        self._lock = threading.Lock()
        self._count = 0
        open(self.log_path, "a").close()
        api = self

        class Handler(_Handler):
            server_api = api

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self):
        """End the server."""
        self._server.shutdown()
        self._server.server_close()

    def note(self, api, text, side):
        """Write a request down and return the reply to it."""
        with self._lock:
            if not side:
                self._count += 1
            reply = "a side answer" if side else f"fake-reply-{self._count}."
            entry = {"api": api, "text": text, "reply": reply, **({"side": True} if side else {})}
            with open(self.log_path, "a") as stream:
                stream.write(json.dumps(entry) + "\n")
            return reply

    def entries(self):
        """Return all that was written down."""
        with open(self.log_path) as stream:
            return [json.loads(line) for line in stream.read().split("\n")[:-1]]

    def prompts(self):
        """Return the texts of the prompts, in the order in which they came."""
        return [entry["text"] for entry in self.entries() if not entry.get("side")]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_api = None

    def log_message(self, *_):
        pass

    def _json(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _events(self, events, done=b""):
        """Send server-sent events: (name or None, JSON value)."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, value in events:
            line = b"event: %s\n" % name.encode() if name else b""
            self.wfile.write(line + b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.write(done)
        self.wfile.flush()
        self.close_connection = True

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path.rstrip("/").endswith("/models"):
            # As Anthropic, OpenAI and Gemini name their lists.
            entry = {"id": MODEL, "object": "model", "name": f"models/{MODEL}", "display_name": MODEL}
            self._json({"object": "list", "data": [entry], "models": [], "has_more": False})
        else:
            self._json({"error": {"message": "no such thing here"}}, 404)

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        try:
            body = json.loads(data or b"{}")
        except ValueError:
            body = {}
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 10})
        elif path.endswith(":countTokens"):
            self._json({"totalTokens": 10})
        elif path.endswith("/messages"):
            self._messages(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        elif path.endswith((":generateContent", ":streamGenerateContent")):
            self._gemini(body, path.endswith(":streamGenerateContent"))
        else:
            self._json({})

    def _messages(self, body):
        # Only the conversation itself has tools; a title, a topic or a quota is asked without any.
        reply = self.server_api.note("messages", last_user_text(body.get("messages") or []), not body.get("tools"))
        usage = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model") or MODEL}
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        block = {"type": "text", "text": reply}
        if not body.get("stream"):
            self._json({**message, "content": [block], **end, "usage": usage})
            return
        start = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        self._events(
            (value["type"], value)
            for value in (
                {"type": "message_start", "message": start},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": reply}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}},
                {"type": "message_stop"},
            )
        )

    def _responses(self, body):
        given = body.get("input") or []
        given = [{"role": "user", "content": given}] if isinstance(given, str) else given
        reply = self.server_api.note("responses", last_user_text(given), not body.get("tools"))
        item = {"type": "message", "id": "item_1", "role": "assistant", "status": "completed"}
        item["content"] = [{"type": "output_text", "text": reply, "annotations": []}]
        counts = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        usage = {**counts, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": "resp_1", "object": "response", "model": MODEL, "output": [], "status": "in_progress"}
        delta = {"item_id": "item_1", "output_index": 0, "content_index": 0, "delta": reply}
        final = {**response, "status": "completed", "output": [item], "usage": usage}
        self._events(
            (value["type"], value)
            for value in (
                {"type": "response.created", "response": response},
                {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
                {"type": "response.output_text.delta", **delta},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": final},
            )
        )

    def _chat(self, body):
        reply = self.server_api.note("chat", last_user_text(body.get("messages") or []), not body.get("tools"))
        frame = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": body.get("model") or MODEL}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not body.get("stream"):
            message = {"role": "assistant", "content": reply}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._json({**frame, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        deltas = [({"role": "assistant", "content": ""}, None), ({"content": reply}, None), ({}, "stop")]
        chunks = [{**frame, "choices": [{"index": 0, "delta": d, "finish_reason": end}]} for d, end in deltas]
        self._events([(None, chunk) for chunk in (*chunks, {**frame, "choices": [], "usage": usage})], b"data: [DONE]\n\n")

    def _gemini(self, body, stream):
        text = last_user_text(body.get("contents") or [], "parts")
        # The choice of a model and the check of who speaks next want JSON; the conversation streams and has tools.
        reply = self.server_api.note("gemini", text, not (stream and body.get("tools")))
        config = body.get("generationConfig") or {}
        if config.get("responseMimeType") == "application/json":
            reply = json.dumps(dict.fromkeys(("reasoning", "next_speaker", "model_choice"), "user") | {"model_choice": "flash"})
        counts = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        content = {"role": "model", "parts": [{"text": reply}]}
        answer = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": counts}
        if stream:
            self._events([(None, answer)])
        else:
            self._json(answer)


if __name__ == "__main__":
    served = FakeApi(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(served.url, flush=True)
    threading.Event().wait()
