"""A member of a run with a valid key that lies: it greets as docs/wire-format.md says, and then says whatever could
stop the others, again and again. All from the documents; nothing of the program is used."""
import os
import random
import select
import socket
import ssl
import struct
import threading
import time

HEADER = struct.Struct("<HBBI I")
MAGIC, VERSION, HELLO, ACCEPT, MESSAGE = 0x5743, 4, 1, 2, 4
CONTROL = 1
FAR = (2 ** 62, 2 ** 62 - 1, 2 ** 64 - 1, 2 ** 64 - 2, 1 << 20, 1, 0)


# ---- Protobuf, as far as it is needed ----

def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def message(**fields):
    """Of fields named f1, f2, ...: numbers, texts, bytes, or messages made by this."""
    out = b""
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def fields_of(data):
    """{number: value} of a message that has each field once and neither floats nor doubles."""
    fields, place = {}, 0

    def number():
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = number()
        if key & 7 == 0:
            fields[key >> 3] = number()
        else:
            size = number()
            fields[key >> 3] = data[place:place + size]
            place += size
    return fields


# ---- The lies ----

def lies(liar, peers):
    """All that one message can say which would stop a run, as (name, bytes)."""
    def raft(**body):
        return message(f3=message(f1=liar.incarnation, **body))

    version = liar.version
    term = random.choice((*FAR, liar.term, liar.term + 1))
    made_up = f"made-up-{random.randrange(10 ** 6)}"
    payload = message(f1=random.randbytes(32), f2=4000)
    zeros = bytes(32)
    yield "a head that nobody has", message(f1=message(f1=version, f4=zeros, f8=random.randbytes(32)))
    yield "a version that cannot be", message(f1=message(f1=random.choice(FAR), f4=zeros, f8=zeros))
    yield "a state that nobody has", message(f1=message(f1=0, f2=1, f3=version, f4=random.randbytes(32), f8=zeros))
    yield "a far term", raft(f5=message(f1=term, f2=1, f3=random.choice(FAR)))
    yield "that it leads", raft(f4=message(f1=term, f2=random.choice(FAR), f3=random.choice(FAR)))
    yield "that it stands for election", raft(f2=message(f1=term, f3=random.choice(FAR), f4=term))
    yield "a vote", raft(f3=message(f1=term, f3=1))
    yield "a member that is not", message(f5=message(f1=message(f1=made_up, f2="192.0.2.1:9")))
    yield "that it moved, again and again", message(f5=message(f1=message(f1=liar.region, f2=f"192.0.2.1:{made_up[-1]}")))
    yield "tensors that have one name", message(f7=5 * message(f1=message(f1="weight", f2=b"\3")))
    yield "a payload of a terabyte", message(f2=message(
        f1=message(f1=liar.run_id, f2=liar.region, f3=version, f5=1, f7=zeros, f10=message(f1=zeros, f2=1 << 40)), f2=0))
    yield "that a member is to go", message(f5=message(f1=message(f1=random.choice(peers)), f2=1))
    yield "that all is lost", message(f4=message(f1=version, f2=payload, f3=1))
    yield "that all is over", message(f6=b"")
    yield "what another contributed", message(f2=message(
        f1=message(f1=liar.run_id, f2=random.choice(peers), f3=version, f5=1, f7=random.randbytes(32), f10=payload),
        f2=4000))


def large_lies(liar):
    """What no other message would have room for, if it were taken over."""
    large = "h" * (4 * 1024 * 1024 - 100)
    yield message(f5=message(f1=message(f1=liar.region, f2=large)))
    yield message(f3=message(f1=large, f3=message(f1=1)))


class Liar(threading.Thread):
    """Says all of them to the coordinator at `address` until it is stopped, and counts what was said."""

    def __init__(self, region, peers, directory, certificates, address):
        super().__init__(daemon=True)
        self.region, self.peers = region, peers
        self.run_id, self.incarnation = ((directory / "ledger" / name).read_text().split()[0]
                                         for name in ("run", "incarnation"))
        self.address = address.rsplit(":", 1)
        self.version, self.term = 0, 1
        self.said, self.sessions, self.stopped = {}, 0, threading.Event()
        self.context = ssl.create_default_context(cafile=certificates / "ca.crt")
        self.context.check_hostname = False
        self.context.load_cert_chain(certificates / f"{region}.crt", certificates / f"{region}.key")

    def run(self):
        greeting = b""
        while not self.stopped.is_set():
            try:
                with self.connect() as link:
                    theirs = self.greet(link, greeting)
                    if theirs and not greeting:  # to greet as they do, but under this name
                        fields = {f"f{number}": value for number, value in fields_of(theirs).items()}
                        greeting = message(**{**fields, "f2": self.run_id, "f3": self.region, "f4": self.incarnation})
                    elif theirs:
                        self.sessions += 1
                        self.lie(link)
            except OSError:
                time.sleep(0.1)

    def connect(self):
        plain = socket.create_connection((self.address[0], int(self.address[1])), timeout=10)
        return self.context.wrap_socket(plain)

    def greet(self, link, greeting):
        """The peer's greeting."""
        name = self.region.encode()
        send(link, HELLO, bytes([CONTROL]) + os.urandom(16) + bytes([len(name)]) + name + greeting)
        kind, body = receive(link)
        if kind != HELLO:
            return b""
        theirs = body[18 + body[17]:]
        if receive(link)[0] == ACCEPT:
            send(link, ACCEPT, b"")
        elif greeting:
            return b""
        return theirs

    def lie(self, link):
        """Until the coordinator listens no more, or for a second: then it listens again."""
        for body in large_lies(self):
            send(link, MESSAGE, body)
        end = time.monotonic() + 1
        while time.monotonic() < end and not self.stopped.is_set():
            for name, body in lies(self, self.peers):
                send(link, MESSAGE, body)
                self.said[name] = self.said.get(name, 0) + 1
            while link.pending() or select.select([link], [], [], 0.005)[0]:
                self.hear(*receive(link))

    def hear(self, kind, body):
        """Its lies are near what is true."""
        if kind != MESSAGE:
            return
        fields = fields_of(body)
        if 1 in fields:
            self.version = max(self.version, fields_of(fields[1]).get(1, 0))
        if 3 in fields and body[0] >> 3 == 3:
            told = [value for number, value in fields_of(fields[3]).items() if number > 1]
            self.term = fields_of(told[0]).get(1, self.term) if told else self.term


def send(link, kind, body):
    link.sendall(HEADER.pack(MAGIC, VERSION, kind, 0, len(body)) + body)


def receive(link):
    _, _, kind, _, size = HEADER.unpack(exactly(link, HEADER.size))
    return kind, exactly(link, size)


def exactly(link, size):
    data = b""
    while len(data) < size:
        piece = link.recv(size - len(data))
        if not piece:
            raise ConnectionError("the peer closed")
        data += piece
    return data
