//! Which packets a capture at a hop is given: some of those of IPv4, with labels before them or without.
//!
//! A program for the kernel's filter of packets (classic BPF), so that all others cost no copy and no wake-up. Of those
//! that it lets through, [`packet_id`](vtax_wire::packet_id) tells which is which.

use vtax_sys::packets::Instruction;

/// Bytes kept of each packet: labels, headers, and the first of what is carried.
pub(crate) const KEPT: u32 = 128;
/// One packet in so many, a power of two, by the low bits of IPv4's identification, which is the same at every hop. What
/// has none, as datagrams that may not be fragmented, is taken whole.
const ONE_IN: u32 = 4;

// Codes of linux/bpf_common.h: class, size and mode, or operation and source.
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_BEHIND_INDEX: u16 = 0x48;
const LOAD_INDEX: u16 = 0x01;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// The program: finds IPv4's header behind up to three labels, and looks at the packet's identification.
pub(crate) const PROGRAM: [Instruction; 20] = {
    const fn plain(code: u16, operand: u32) -> Instruction {
        Instruction { code, then: 0, otherwise: 0, operand }
    }
    const fn branch(code: u16, operand: u32, then: u8, otherwise: u8) -> Instruction {
        Instruction { code, then, otherwise, operand }
    }
    [
        /* 0: the frame's kind */ plain(LOAD_HALF, 12),
        /* 1: IPv4 to 9 */ branch(JUMP_IF_EQUAL, 0x0800, 7, 0),
        /* 2: but MPLS to 18 */ branch(JUMP_IF_EQUAL, 0x8847, 0, 15),
        /* 3: whether the first label is the last */ plain(LOAD_BYTE, 16),
        /* 4: to 11 */ branch(JUMP_IF_ANY_BIT, 1, 6, 0),
        /* 5: the second */ plain(LOAD_BYTE, 20),
        /* 6: to 13 */ branch(JUMP_IF_ANY_BIT, 1, 6, 0),
        /* 7: the third */ plain(LOAD_BYTE, 24),
        /* 8: to 15, or 18 */ branch(JUMP_IF_ANY_BIT, 1, 6, 9),
        /* 9: where IPv4's header begins */ plain(LOAD_INDEX, 14),
        /* 10: to 16 */ plain(JUMP, 5),
        /* 11 */ plain(LOAD_INDEX, 18),
        /* 12: to 16 */ plain(JUMP, 3),
        /* 13 */ plain(LOAD_INDEX, 22),
        /* 14: to 16 */ plain(JUMP, 1),
        /* 15 */ plain(LOAD_INDEX, 26),
        /* 16: its identification */ plain(LOAD_HALF_BEHIND_INDEX, 4),
        /* 17: to 18, or 19 */ branch(JUMP_IF_ANY_BIT, ONE_IN - 1, 0, 1),
        /* 18: nothing of it */ plain(RETURN, 0),
        /* 19: so much of it */ plain(RETURN, KEPT),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program lets through of a frame, as the kernel would run it: reading beyond its end lets nothing through.
    fn run(frame: &[u8]) -> u32 {
        let byte = |at: u32| frame.get(at as usize).copied().map(u32::from);
        let half = |at: u32| Some((byte(at)? << 8) | byte(at + 1)?);
        let (mut at, mut accumulator, mut index) = (0, 0, 0);
        loop {
            let Instruction { code, then, otherwise, operand } = PROGRAM[at];
            at += 1;
            let loaded = match code {
                LOAD_HALF => half(operand),
                LOAD_BYTE => byte(operand),
                LOAD_HALF_BEHIND_INDEX => half(index + operand),
                _ => Some(accumulator),
            };
            let Some(loaded) = loaded else { return 0 };
            accumulator = loaded;
            let holds = match code {
                LOAD_INDEX => {
                    index = operand;
                    continue;
                }
                JUMP => {
                    at += operand as usize;
                    continue;
                }
                JUMP_IF_EQUAL => accumulator == operand,
                JUMP_IF_ANY_BIT => accumulator & operand != 0,
                RETURN => return operand,
                _ => continue,
            };
            at += usize::from(if holds { then } else { otherwise });
        }
    }

    fn frame(labels: usize, identification: u16) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend(if labels == 0 { [8, 0] } else { [0x88, 0x47] });
        for number in 1..=labels {
            bytes.extend([0, 1, u8::from(number == labels), 64]);
        }
        bytes.extend([0x45, 0, 0, 40]);
        bytes.extend(identification.to_be_bytes());
        bytes.extend([0; 34]);
        bytes
    }

    #[test]
    fn the_same_packets_are_let_through_at_every_hop() {
        for labels in 0..4 {
            for identification in 0..64_u16 {
                let taken = u32::from(identification) % ONE_IN == 0;
                let kept = if taken { KEPT } else { 0 };
                assert_eq!(run(&frame(labels, identification)), kept, "{labels} labels, {identification}");
            }
        }
        assert_eq!(run(&frame(4, 0)), 0, "deeper than any that is expected");
    }

    #[test]
    fn nothing_else_is_let_through() {
        let mut arp = frame(0, 0);
        arp[13] = 6;
        assert_eq!(run(&arp), 0);
        assert_eq!(run(&frame(2, 0)[..24]), 0, "cut short");
        assert_eq!(run(&[]), 0);
    }
}
