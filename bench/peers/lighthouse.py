"""torchft's lighthouse, which tells the regions who trains: python3 lighthouse.py ADDRESS:PORT REGIONS"""
import signal
import sys

from torchft.coordination import LighthouseServer

server = LighthouseServer(bind=sys.argv[1], min_replicas=int(sys.argv[2]), join_timeout_ms=10_000)
signal.sigwait({signal.SIGINT, signal.SIGTERM})
server.shutdown()
