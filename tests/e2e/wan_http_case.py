"""The HTTP port of a running WAN, for tests of either engine."""
import json
import pathlib
import re
import socket
import urllib.error
import urllib.request

from wan_test import WanCase

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "wan-sim.openapi.json"
JSON_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
READS, POSTS = "get", "post"


class HttpCase(WanCase):
    CAPTURES = False  # whether POST /capture can do something

    def start_http(self, *flags):
        """The WAN, and what it printed."""
        self.child, said = self.start_wan(*flags, "--http", "0")
        self.url = re.search(r"^(http://127\.0\.0\.1:\d+)  shows the links", said, flags=re.M).group(1)
        self.http_port = int(self.url.rpartition(":")[2])
        return said

    def open(self, path, body=None, headers=None):
        """Status, type and text of an answer, whatever the status is."""
        request = urllib.request.Request(self.url + path, body, headers or {})
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as refusal:
            answer = refusal
        with answer:
            return answer.status, answer.headers.get_content_type(), answer.read().decode()

    def ask(self, path, body=None):
        status, _, text = self.open(path, None if body is None else json.dumps(body).encode())
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def link(self, source, target):
        return next(link for link in self.ask("/links")["links"] if (link["from"], link["to"]) == (source, target))

    def raw(self, request):
        """What the server says to these bytes until it closes."""
        with socket.create_connection(("127.0.0.1", self.http_port), timeout=60) as connection:
            connection.sendall(request)
            answer = b""
            while more := connection.recv(65536):
                answer += more
            return answer.decode()

    # The document ------------------------------------------------------------------------------------------------

    def resolved(self, node):
        while "$ref" in node:
            found = self.document
            for step in node["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            node = found
        return node

    def check(self, value, schema, where):
        schema = self.resolved(schema)
        kind = JSON_TYPES[schema["type"]]
        self.assertIsInstance(value, kind, where)
        self.assertFalse(isinstance(value, bool) and schema["type"] != "boolean", where)
        self.assertIn(value, schema.get("enum", [value]), where)
        if schema["type"] == "object":
            self.assertLessEqual(set(schema.get("required", [])), set(value), where)
            if "properties" in schema and where.startswith("answer"):
                self.assertLessEqual(set(value), set(schema["properties"]), f"{where}: not in the document")
            for name, inner in schema.get("properties", {}).items():
                if name in value:
                    self.check(value[name], inner, f"{where}.{name}")
        if schema["type"] == "array":
            for one in value:
                self.check(one, schema["items"], f"{where}[]")

    def check_answer(self, operation, status, kind, text, where):
        documented = self.resolved(operation["responses"][str(status)])["content"]
        self.assertIn(kind, documented, where)
        value = json.loads(text) if kind == "application/json" else text
        if where.endswith("openapi.json"):
            self.assertEqual(value, self.document)
        else:
            self.check(value, documented[kind]["schema"], f"answer of {where}")

    def check_post(self, path, operation):
        contents = self.resolved(operation["requestBody"])["content"]
        done = 400 if path == "/capture" and not self.CAPTURES else 200
        for kind, content in contents.items():
            example = content["example"]
            body = (example if isinstance(example, str) else json.dumps(example)).encode()
            for headers, more, expected in (({}, b"", done), ({"Origin": "http://elsewhere"}, b"", 403), ({}, b" " * 5000, 413)):
                status, type_, text = self.open(path, body + more, {"Content-Type": kind, **headers})
                self.assertEqual(status, expected, text)
                self.check_answer(operation, status, type_, text, f"{path} {kind}")
        status, type_, text = self.open(path, b'{"pair": ["eu", "mars"]}')
        self.assertEqual(status, 400, text)
        self.check_answer(operation, status, type_, text, path)

    def check_get(self, path, operation):
        status, kind, text = self.open(path)
        self.assertEqual(status, 200, path)
        self.check_answer(operation, status, kind, text, path)

    def check_document(self):
        """Every path of the document answers as it says, and no other path does."""
        self.document = json.loads(DOCUMENT.read_text())
        self.assertTrue(self.document["openapi"].startswith("3."))
        for path, operations in self.document["paths"].items():
            if POSTS in operations:
                self.check_post(path, operations[POSTS])
            else:
                self.assertEqual(self.open(path, b"{}")[0], 405, path)
            if READS in operations:
                self.check_get(path, operations[READS])
            else:
                self.assertEqual(self.open(path)[0], 405, path)
        self.assertEqual(self.open("/none")[0], 404)

    def check_refusals(self, *more):
        """What cannot be done is answered with the reason, and changes nothing."""
        for body, why in (({"pair": ["eu", "mars"]}, "mars"), ({"rate": 3}, "rate"), ({"loss": {"x": 1}}, "must be"),
                          ({"rate_mbit_s": None}, "must be"), ({'a = 1 } x = { "': 1}, "a key is made of"),
                          ({"process": "kill", "region": "eu"}, "causeway simulate"), *more):
            status, _, text = self.open("/command", json.dumps(body).encode())
            self.assertEqual(status, 400, text)
            self.assertIn(why, json.loads(text)["error"])
        for body in (b"{", b"[" * 4000, b"{\"a\":" * 800, b"\xff\xfe = 1", b"loss = 0.1 } b = { loss = 0.2"):
            self.assertEqual(self.open("/command", body)[0], 400, body[:20])
        self.assertEqual(self.link("us", "eu")["loss"], 0)

    def check_command_line(self):
        """--tell drives it."""
        tell = ("wan-sim", "--tell", self.url, "--command")
        self.assertEqual(self.run_causeway(*tell, 'pair = ["eu", "us"], delay_ms = 7'), "ok\n")
        self.assertEqual(self.link("us", "eu")["delay_ms"], 7)
        self.assertEqual(json.loads(self.run_causeway(*tell, "stats"))["links"][0]["delay_ms"], 7)
        self.assertTrue(json.loads(self.run_causeway(*tell, "verdict"))["text"])
        self.assertIn("error: ", self.run_causeway(*tell, "delay = 7", code=2))
