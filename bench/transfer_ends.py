"""The two ends of a timed transfer, as processes of their own: `serve PORT`, and `send HOST PORT BYTES CONNECTIONS STATE`.

send prints the seconds from connect() (cold) or the first write (warm: after 8 MB; idle: and 3 s of silence) until the receiver's
one-byte answer to the last byte. As root both run before whoever is not in a hurry, so that other programs do not slow TCP down.
"""
import os
import socket
import sys
import threading
import time

IDLE_S = 3
WARM_BYTES = 8_000_000
BLOCK_BYTES = 1 << 18


def hurry():
    if os.geteuid() == 0:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def answer(connection):
    buffer = bytearray(BLOCK_BYTES)
    while True:
        head = connection.recv(8, socket.MSG_WAITALL)
        if len(head) < 8:
            return
        left = int.from_bytes(head, "big")
        while left:
            got = connection.recv_into(buffer, min(left, len(buffer)))
            if not got:
                return
            left -= got
        connection.sendall(b"k")


def answer_until_closed(connection):
    try:
        answer(connection)
    except ConnectionError:  # the sender is through
        pass


def serve(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(64)
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer_until_closed, args=(connection,), daemon=True).start()


def at_once(work, arguments):
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def transfer(connections, total):
    share = total // len(connections)
    block = bytes(BLOCK_BYTES)

    def one(connection):
        connection.sendall(share.to_bytes(8, "big"))
        left = share
        while left:
            left -= connection.send(block[:min(left, len(block))])
        connection.recv(1)

    at_once(one, connections)


def connect(host, port, count):
    """All at once: one after the other would cost a round trip each."""
    connections = []
    at_once(lambda _: connections.append(socket.create_connection((host, port))), range(count))
    return connections


def send(host, port, total, count, state):
    begin = time.monotonic()
    connections = connect(host, port, count)
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if state != "cold":
        transfer(connections, WARM_BYTES)
        if state == "idle":
            time.sleep(IDLE_S)
        begin = time.monotonic()
    transfer(connections, total)
    print(time.monotonic() - begin, flush=True)


if __name__ == "__main__":
    hurry()
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
