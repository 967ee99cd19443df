"""`causeway wan-sim --http`: figures, commands, the document that describes them, and who knocks."""
import json
import pathlib
import re
import socket
import unittest
import urllib.error
import urllib.request

from harness import wait_until
from wan_test import Echo, WanCase

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "wan-sim.openapi.json"
JSON_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


class WanHttp(WanCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(Echo())
        self.child, said = self.start_wan("--map", f"us:eu=127.0.0.1:{self.server.port}", "--http", "0")
        self.url = re.search(r"^(http://127\.0\.0\.1:\d+)  shows the links", said, flags=re.M).group(1)
        self.http_port = int(self.url.rpartition(":")[2])
        self.port = int(self.ask("/maps")["maps"][0]["listen"].rpartition(":")[2])

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
        for kind, content in contents.items():
            example = content["example"]
            body = (example if isinstance(example, str) else json.dumps(example)).encode()
            for headers, more, expected in (({}, b"", 200), ({"Origin": "http://elsewhere"}, b"", 403), ({}, b" " * 5000, 413)):
                status, type_, text = self.open(path, body + more, {"Content-Type": kind, **headers})
                self.assertEqual(status, expected, text)
                self.check_answer(operation, status, type_, text, f"{path} {kind}")
        status, type_, text = self.open(path, b'{"pair": ["eu", "mars"]}')
        self.assertEqual(status, 400, text)
        self.check_answer(operation, status, type_, text, path)

    def test_each_path_answers_as_the_document_says(self):
        self.document = json.loads(DOCUMENT.read_text())
        self.assertTrue(self.document["openapi"].startswith("3."))
        for path, operations in self.document["paths"].items():
            for method, operation in operations.items():
                if method == "post":
                    self.check_post(path, operation)
                    self.assertEqual(self.open(path)[0], 405, path)
                else:
                    status, kind, text = self.open(path)
                    self.assertEqual(status, 200, path)
                    self.check_answer(operation, status, kind, text, path)
                    self.assertEqual(self.open(path, b"{}")[0], 405, path)
        self.assertEqual(self.open("/none")[0], 404)

    # What it does ------------------------------------------------------------------------------------------------

    def test_commands_change_the_links(self):
        self.assertEqual(self.echoed("127.0.0.1", self.port), b"hello")
        self.assertEqual(self.link("us", "eu")["connections"], 1)
        wait_until(lambda: self.link("us", "eu")["bytes"] == 5, "the figures")
        self.ask("/command", {"pair": ["eu", "us"], "rate_mbit_s": 3, "delay_ms": 3})
        changed = self.link("eu", "us")
        self.assertEqual((changed["rate_mbit_s"], changed["delay_ms"]), (3, 3))
        self.ask("/cut", {"pair": ["eu", "us"]})
        self.assertTrue(self.link("us", "eu")["refused"])
        with self.assertRaises(ConnectionResetError):
            self.echoed("127.0.0.1", self.port)
        self.ask("/heal", {})
        self.assertEqual(self.echoed("127.0.0.1", self.port), b"hello")
        self.ask("/pause", {"link": ["us", "eu"], "for_s": 0.01})
        self.assertEqual(self.echoed("127.0.0.1", self.port), b"hello")

    def test_what_cannot_be_done_is_answered_with_the_reason(self):
        for body, why in (({"pair": ["eu", "mars"]}, "mars"), ({"rate": 3}, "rate"), ({"loss": {"x": 1}}, "must be"),
                          ({"rate_mbit_s": None}, "must be"), ({'a = 1 } x = { "': 1}, "a key is made of"),
                          ({"process": "kill", "region": "eu"}, "causeway simulate")):
            status, _, text = self.open("/command", json.dumps(body).encode())
            self.assertEqual(status, 400, text)
            self.assertIn(why, json.loads(text)["error"])
        for body in (b"{", b"[" * 4000, b"{\"a\":" * 800, b"\xff\xfe = 1", b"loss = 0.1 } b = { loss = 0.2"):
            self.assertEqual(self.open("/command", body)[0], 400, body[:20])
        self.assertEqual(self.link("us", "eu")["loss"], 0)

    def test_the_command_line_drives_it(self):
        tell = ("wan-sim", "--tell", self.url, "--command")
        self.assertEqual(self.run_causeway(*tell, 'pair = ["eu", "us"], delay_ms = 7'), "ok\n")
        self.assertEqual(self.link("us", "eu")["delay_ms"], 7)
        self.assertEqual(json.loads(self.run_causeway(*tell, "stats"))["links"][0]["delay_ms"], 7)
        self.assertTrue(json.loads(self.run_causeway(*tell, "verdict"))["text"])
        self.assertIn("error: ", self.run_causeway(*tell, "delay = 7", code=2))
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = "http://127.0.0.1:%d" % closed.getsockname()[1]
        self.assertIn(f"{nobody}: nobody answers; start wan-sim with --http there",
                      self.run_causeway("wan-sim", "--tell", nobody, "--command", "stats", code=1))

    def test_figures_for_prometheus(self):
        self.assertEqual(self.echoed("127.0.0.1", self.port), b"hello")
        line = 'causeway_wan_connections_total{from="us",to="eu"} 1'
        self.assertIn(line, self.open("/metrics")[2])
        self.assertIn('causeway_wan_rate_bytes_per_second{from="eu",to="us"} 25000000', self.open("/metrics")[2])

    def test_the_page_needs_nothing_from_elsewhere(self):
        page = self.open("/")[2]
        self.assertIn("<title>wan-sim</title>", page)
        self.assertIsNone(re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page))

    # Who knocks --------------------------------------------------------------------------------------------------

    def test_strangers_cost_nothing(self):
        silent = [self.enterContext(socket.create_connection(("127.0.0.1", self.http_port))) for _ in range(200)]
        for i, connection in enumerate(silent):
            connection.sendall((b"", b"POST /command HTT", b"POST /cut HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")[i % 3])
        self.assertEqual(self.open("/healthz"), (200, "text/plain", "ok\n"))
        self.assertEqual(self.echoed("127.0.0.1", self.port), b"hello")
        self.assertFalse(self.link("us", "eu")["refused"], "half a request does nothing")

    def test_requests_that_are_too_large_or_odd_are_refused(self):
        post = "POST /command HTTP/1.1\r\n"
        for request, status in ((post + "Content-Length: 99999999999999999999999\r\n\r\n", 413),
                                (post + "content-LENGTH:  5000\r\n\r\n", 413),
                                (post + "Content-Length: -1\r\n\r\n", 400),
                                (post + "Content-Length: 3x\r\n\r\nabc", 400),
                                (post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
                                (post + "\r\n", 400),
                                ("GET /" + "x" * 10_000 + " HTTP/1.1\r\n\r\n", 400),
                                ("nonsense\r\n\r\n", 400)):
            self.assertTrue(self.raw(request.encode()).startswith(f"HTTP/1.1 {status} "), request[:60])

    def test_it_says_so_when_others_may_reach_it(self):
        _, said = self.start_wan("--map", f"us:eu=127.0.0.1:{self.server.port}", "--http", "0.0.0.0:0")
        self.assertIn("Whoever reaches this port may change the WAN", said)
        self.assertNotIn("Whoever reaches", self.child.log.read_text())


if __name__ == "__main__":
    unittest.main()
