"""Two hosts and a switch of Mininet's, for vtax to start its agents in.

usage: network.py linux-bridge|ovs-user MTU

Descriptor 3 is a socket: over it go a line of JSON, and with that the network namespaces of the two
hosts. It runs until it is killed; it lives in namespaces of its own, which end with it.
"""
import json
import os
import socket
import subprocess
import sys
import time

import mininet.net
from mininet.net import Mininet
from mininet.node import OVSSwitch
from mininet.nodelib import LinuxBridge

# Mininet would raise limits of the whole machine (fs.file-max and the like), which nobody would lower again.
mininet.net.fixLimits = lambda: None

OVS = "/run/openvswitch"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"

def start_open_vswitch():
    """Where Mininet's OVSSwitch looks for one; /run is this namespace's own."""
    os.makedirs(OVS)
    quiet = ["-vconsole:warn", "-vsyslog:off", "-vfile:off", "--no-chdir"]
    subprocess.run(["ovsdb-tool", "create", OVS + "/conf.db", SCHEMA], check=True)
    subprocess.Popen(["ovsdb-server", OVS + "/conf.db", "--remote=punix:" + OVS + "/db.sock", *quiet])
    configure = ["ovs-vsctl", "--retry", "--timeout=20", "--no-wait"]
    # Else TCP stalls: hosts leave checksums to a card that isn't there.
    tso = "other_config:userspace-tso-enable=true"
    subprocess.run([*configure, "init", "--", "set", "Open_vSwitch", ".", tso], check=True)
    subprocess.Popen(["ovs-vswitchd", "unix:" + OVS + "/db.sock", "--pidfile", *quiet])

def main():
    kind, mtu = sys.argv[1], int(sys.argv[2])
    began = time.monotonic()
    if kind == "ovs-user":
        start_open_vswitch()
        net = Mininet(controller=None, build=False)
        switch = net.addSwitch("s1", cls=OVSSwitch, datapath="user", failMode="standalone")
    else:
        net = Mininet(controller=None, build=False)
        switch = net.addSwitch("s1", cls=LinuxBridge)
    # The agent gives them their addresses.
    hosts = [net.addHost(name, ip=None) for name in ("h1", "h2")]
    for host in hosts:
        net.addLink(host, switch)
    net.build()
    net.start()
    ports = [link.intf2.name for link in net.links]
    if mtu != 1500:
        for port in ports:
            switch.cmd("ip link set dev", port, "mtu", mtu)
    told = {
        "version": mininet.net.VERSION,
        "hosts": [host.defaultIntf().name for host in hosts],
        "ports": ports,
        "seconds": time.monotonic() - began,
    }
    namespaces = [os.open("/proc/%d/ns/net" % host.pid, os.O_RDONLY) for host in hosts]
    channel = socket.socket(fileno=3)
    socket.send_fds(channel, [json.dumps(told).encode() + b"\n"], namespaces)
    # Until the other end closes, or kills.
    while channel.recv(1):
        pass

if __name__ == "__main__":
    main()
