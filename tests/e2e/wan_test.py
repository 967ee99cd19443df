"""`causeway wan-sim` as a tool of its own: between programs that know nothing of it."""
import contextlib
import json
import re
import resource
import socket
import threading
import unittest

from harness import CAUSEWAY, EndToEnd, free_port, namespaces_allowed, wait_until

SCENARIO = 'regions = ["eu", "us"]\n[defaults]\nrtt_ms = 4\nrate_mbit_s = 200\n'


class Echo(contextlib.AbstractContextManager):
    """A server that sends back what it gets."""

    def __init__(self, host="127.0.0.1"):
        self.listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection:
                    while data := connection.recv(65536):
                        connection.sendall(data)

    def __exit__(self, *failure):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


def ipv6_works():
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


class WanCase(EndToEnd):
    """A scenario of two regions, and what programs do over it."""
    def setUp(self):
        super().setUp()
        (self.directory / "wan.toml").write_text(SCENARIO)

    def start_wan(self, *flags):
        """Started, and what it printed before its first figures."""
        child = self.start("wan-sim", self.directory / "wan.toml", *flags)
        wait_until(lambda: "Ctrl-C ends it" in child.log.read_text(), "wan-sim to listen", child)
        return child, child.log.read_text()

    def echoed(self, host, port, data=b"hello"):
        with socket.create_connection((host, port), timeout=60) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while more := connection.recv(65536):
                answer += more
            return answer


class Wan(WanCase):
    def test_it_listens_where_it_is_told(self):
        port = free_port()
        with Echo() as server:
            _, said = self.start_wan("--map", f"us:eu=127.0.0.1:{server.port},listen=0.0.0.0:{port}")
            self.assertIn(f"us:eu  dial 0.0.0.0:{port}  (to 127.0.0.1:{server.port};", said)
            self.assertEqual(self.echoed("127.0.0.2", port), b"hello", "every address of this host")

    @unittest.skipUnless(ipv6_works(), "needs IPv6 on loopback")
    def test_ipv6_on_both_sides(self):
        with Echo("::1") as server:
            _, said = self.start_wan("--map", f"us:eu=[::1]:{server.port},listen=[::1]:0")
            port = int(re.search(r"dial \[::1\]:(\d+)  \(to \[::1\]:", said).group(1))
            self.assertEqual(self.echoed("::1", port), b"hello")

    @unittest.skipUnless(namespaces_allowed() and ipv6_works(), "no user namespaces or no IPv6 here")
    def test_a_name_with_two_addresses_is_dialled_where_somebody_listens(self):
        (self.directory / "hosts").write_text("::1 localhost\n127.0.0.1 localhost\n")  # as Debian has it

        def with_both(*command):
            return self.start_program("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount --bind hosts /etc/hosts && exec "$0" "$@"', *command)

        with Echo() as target:
            port, http = free_port(), free_port()
            wan = with_both(CAUSEWAY, "wan-sim", "wan.toml", "--map", f"us:eu=localhost:{target.port},listen=127.0.0.1:{port}", "--http", http)
            wait_until(lambda: "Ctrl-C ends it" in wan.log.read_text(), "wan-sim to listen", wan)
            self.assertEqual(self.echoed("127.0.0.1", port), b"hello")
            told = with_both(CAUSEWAY, "wan-sim", "--tell", f"http://localhost:{http}", "--command", "fault = 'heal'")
            self.assertEqual(self.finish(told), "ok\n")

    def test_it_holds_more_connections_than_a_shell_lets_a_program_have_files(self):
        listener = self.enterContext(socket.create_server(("127.0.0.1", 0), backlog=200))
        listener.settimeout(60)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        try:
            _, said = self.start_wan("--map", f"us:eu=127.0.0.1:{listener.getsockname()[1]}")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        port = int(re.search(r"dial 127\.0\.0\.1:(\d+)", said).group(1))
        clients = [self.enterContext(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(100)]
        servers = [self.enterContext(listener.accept()[0]) for _ in clients]
        for server in servers:
            server.sendall(b"x")
        self.assertEqual([client.recv(1) for client in clients], [b"x"] * 100)

    def test_udp_answers_come_back_and_are_counted(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            server.bind(("127.0.0.1", 0))
            server.settimeout(60)
            client.settimeout(60)
            child, said = self.start_wan("--map", f"us:eu=127.0.0.1:{server.getsockname()[1]},udp", "--http", "0")
            port = int(re.search(r"us:eu  send UDP to 127\.0\.0\.1:(\d+)  \(to ", said).group(1))
            client.sendto(b"question", ("127.0.0.1", port))
            question, asker = server.recvfrom(100)
            server.sendto(question + b" answered", asker)
            self.assertEqual(client.recvfrom(100), (b"question answered", ("127.0.0.1", port)))
            url = re.search(r"(http://\S+)", said).group(1)
            links = json.loads(self.run_causeway("wan-sim", "--tell", url, "--command", "links"))["links"]
            self.assertEqual([link["datagrams"] for link in links], [1, 1])
            maps = json.loads(self.run_causeway("wan-sim", "--tell", url, "--command", "maps"))["maps"]
            self.assertEqual([one["protocol"] for one in maps], ["udp"])

    def test_settings_of_packets_need_udp_alone(self):
        """A stream cannot be reordered or lose bytes; datagrams can."""
        (self.directory / "wan.toml").write_text(SCENARIO + "reorder = 0.1\n")
        tcp = ("--map", "us:eu=127.0.0.1:1")
        udp = ("--map", "eu:us=127.0.0.1:1,udp")
        for maps in (tcp, tcp + udp):
            said = self.run_causeway("wan-sim", self.directory / "wan.toml", *maps, code=2)
            self.assertIn("the relay engine cannot honour reorder", said)
        self.run_causeway("wan-sim", self.directory / "wan.toml", *udp, "--seconds", "0.01", code=1)  # carried nothing

    def test_a_port_in_use_is_named(self):
        with Echo() as server:
            taken = f"127.0.0.1:{server.port}"
            said = self.run_causeway("wan-sim", self.directory / "wan.toml", "--map", f"us:eu={taken},listen={taken}", code=75)
        self.assertIn(f"cannot listen on {taken} (Address already in use): end what uses it, or give another address", said)

    def test_a_way_that_is_given_twice_is_named_and_two_ways_of_one_link_are_not(self):
        wan, one = self.directory / "wan.toml", "us:eu=127.0.0.1:1"
        said = self.run_causeway("wan-sim", wan, "--map", one, "--map", one, code=2)
        self.assertIn(f"'{one}' and '{one}' are the same way twice", said)
        here = ",listen=127.0.0.1:2"
        said = self.run_causeway("wan-sim", wan, "--map", one + here, "--map", "eu:us=127.0.0.1:1" + here, code=2)
        self.assertIn("listen at the same place", said)
        said = self.run_causeway("wan-sim", wan, "--map", one, "--map", "us:eu=127.0.0.1:2", "--map", one + ",udp",
                                 "--seconds", "0.01", code=1)  # carried nothing
        self.assertEqual(said.count("us:eu  dial 127.0.0.1:"), 2)

    def test_a_command_is_not_ignored_because_nobody_is_told(self):
        one = ("wan-sim", self.directory / "wan.toml", "--map", "us:eu=127.0.0.1:1", "--seconds", "0.01")
        self.assertIn("--command requires --tell", self.run_causeway(*one, "--command", "links", code=2))
        self.assertIn("--tell requires --command", self.run_causeway("wan-sim", "--tell", self.directory / "socket", code=2))

    def test_a_map_that_cannot_be_read_says_what_is_allowed(self):
        for wrong, why in (("us:eu", "is not FROM:TO=HOST:PORT"), ("us:eu=host", "no port"),
                           ("us:eu=127.0.0.1:1,port=2", "'port=2' is not known"),
                           ("us:eu=127.0.0.1:1,listen=[1]:2", "no IPv6 address between the brackets")):
            self.assertIn(why, self.run_causeway("wan-sim", self.directory / "wan.toml", "--map", wrong, code=2))


if __name__ == "__main__":
    unittest.main()
