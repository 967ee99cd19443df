"""`causeway wan-sim --http` of the relay: figures, commands, the document that describes them, and who knocks."""
import re
import socket
import unittest

from harness import wait_until
from wan_http_case import HttpCase
from wan_test import Echo


class WanHttp(HttpCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(Echo())
        self.start_http("--map", f"us:eu=127.0.0.1:{self.server.port}")
        self.port = int(self.ask("/maps")["maps"][0]["listen"].rpartition(":")[2])

    def test_each_path_answers_as_the_document_says(self):
        self.check_document()

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
        with self.assertRaises(OSError):  # a reset, which the shutdown before may meet as well
            self.echoed("127.0.0.1", self.port)
        self.ask("/heal", {})
        self.assertEqual(self.echoed("127.0.0.1", self.port), b"hello")
        self.ask("/pause", {"link": ["us", "eu"], "for_s": 0.01})
        self.assertEqual(self.echoed("127.0.0.1", self.port), b"hello")

    def test_what_cannot_be_done_is_answered_with_the_reason(self):
        self.check_refusals(({"reorder": 0.1}, "the relay engine cannot honour reorder"))
        self.assertIn("start wan-sim with --engine packet and --pcap", self.open("/capture", b'{"on": true}')[2])

    def test_the_command_line_drives_it(self):
        self.check_command_line()
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
        self.assertIn("Anybody who reaches this port can change the WAN", said)
        self.assertNotIn("Anybody who reaches", self.child.log.read_text())


if __name__ == "__main__":
    unittest.main()
