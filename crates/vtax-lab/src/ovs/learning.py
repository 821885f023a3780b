"""A learning switch for os-ken, OpenFlow 1.3: learns who is where, and tells the switch what to do.

usage: learning.py reactive|every-packet PORT READY_FILE

reactive: installs a flow for a pair of hosts once both are known, so that the next packets pass by
themselves. every-packet: decides about each one anew. READY_FILE is made when the port is open.
"""
import logging
import os
import sys

from os_ken.lib import hub

hub.patch(thread=False)

from os_ken import cfg
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import controller, ofp_event  # `controller` registers the port's options
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3

MODE, PORT, READY = sys.argv[1], int(sys.argv[2]), sys.argv[3]
# As ovs-testcontroller: a flow that nothing used for a minute is forgotten.
IDLE_SECONDS = 60


class LearningSwitch(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ports = {}

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, event):
        """Whatever no flow matches comes here, whole."""
        path = event.msg.datapath
        ofp, parser = path.ofproto, path.ofproto_parser
        send_here = parser.OFPActionOutput(ofp.OFPP_CONTROLLER, ofp.OFPCML_NO_BUFFER)
        self.install(path, 0, parser.OFPMatch(), [send_here], idle=0)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def asked(self, event):
        message = event.msg
        path = message.datapath
        ofp, parser = path.ofproto, path.ofproto_parser
        came_in = message.match["in_port"]
        frame = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        if frame is None:
            return
        known = self.ports.setdefault(path.id, {})
        known[frame.src] = came_in
        goes_out = known.get(frame.dst, ofp.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(goes_out)]
        if MODE == "reactive" and goes_out != ofp.OFPP_FLOOD:
            match = parser.OFPMatch(in_port=came_in, eth_src=frame.src, eth_dst=frame.dst)
            self.install(path, 1, match, actions, idle=IDLE_SECONDS)
        data = message.data if message.buffer_id == ofp.OFP_NO_BUFFER else None
        path.send_msg(
            parser.OFPPacketOut(
                datapath=path, buffer_id=message.buffer_id, in_port=came_in, actions=actions, data=data
            )
        )

    @staticmethod
    def install(path, priority, match, actions, idle):
        ofp, parser = path.ofproto, path.ofproto_parser
        todo = [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)]
        path.send_msg(
            parser.OFPFlowMod(
                datapath=path, priority=priority, match=match, instructions=todo, idle_timeout=idle
            )
        )


def announce():
    """Says that switches may connect, once one could."""
    while True:
        try:
            hub.socket.create_connection(("127.0.0.1", PORT), 1).close()
            break
        except OSError:
            hub.sleep(0.01)
    with open(READY, "w", encoding="utf-8") as ready:
        ready.write("ready\n")


def main():
    logging.basicConfig(level=logging.WARNING)
    cfg.CONF([], project="os_ken")
    cfg.CONF.set_override("ofp_listen_host", "127.0.0.1")
    cfg.CONF.set_override("ofp_tcp_listen_port", PORT)
    # os-ken finds applications as modules, by name: this one as `learning`, beside `__main__`.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    manager = AppManager.get_instance()
    manager.load_apps(["learning"])
    services = manager.instantiate_apps(**manager.create_contexts())
    services.append(hub.spawn(announce))
    hub.joinall(services)


if __name__ == "__main__":
    main()
