"""A gRPC service in another region: which deadlines its calls meet.

    python3 deadlines.py [PATH/TO/causeway]     # needs grpc (Debian: python3-grpcio) and causeway on the PATH

The server is in eu, the client in us, 80 ms and 10 Mbit/s away. A call is over after one round trip, and a megabyte takes 0.8 s, whatever the two do.
"""
import concurrent.futures
import pathlib
import sys
import time

import grpc

from causeway.wan import Wan

SCENARIO = pathlib.Path(__file__).with_name("wan.toml")
GENEROUS_S = 60
MEGABYTE = 1_000_000
LIMITS = [("grpc.max_send_message_length", 2 * MEGABYTE), ("grpc.max_receive_message_length", 2 * MEGABYTE)]


def read(request, _):
    """As many bytes as are asked for. Without stubs that protoc makes, messages are bytes."""
    return bytes(int(request))


def serve(stack_of_threads):
    server = grpc.server(stack_of_threads, options=LIMITS)
    methods = {"Read": grpc.unary_unary_rpc_method_handler(read)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("example.Store", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def call(channel, size, deadline_s, **how):
    """What came of it, and after how long."""
    begin = time.monotonic()
    try:
        answer = channel.unary_unary("/example.Store/Read")(b"%d" % size, timeout=deadline_s, **how)
        said = "OK" if len(answer) == size else "SHORT"
    except grpc.RpcError as error:
        said = error.code().name
    return f"{said:<18}{time.monotonic() - begin:6.2f} s"


def main():
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        server, port = serve(threads)
        with Wan(SCENARIO, {("us", "eu"): f"127.0.0.1:{port}"}, program=(sys.argv[1:] or [None])[0]) as wan:
            with grpc.insecure_channel("%s:%d" % wan.address("us", "eu"), options=LIMITS) as channel:
                print("first call, connects     ", call(channel, 1, GENEROUS_S))
                print("a call                   ", call(channel, 1, GENEROUS_S))
                print("a call, deadline 60 ms   ", call(channel, 1, 0.06))
                print("a megabyte               ", call(channel, MEGABYTE, GENEROUS_S))
                print("a megabyte, deadline .5 s", call(channel, MEGABYTE, 0.5))
                wan.cut("eu", "us")
                print("while cut                ", call(channel, 1, GENEROUS_S))
                wan.heal("eu", "us")
                print("healed, waits until ready", call(channel, 1, GENEROUS_S, wait_for_ready=True))
                print(wan.verdict()["text"])
        server.stop(None)


if __name__ == "__main__":
    main()
