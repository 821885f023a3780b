//! Label stacks of MPLS in Ethernet frames (RFC 3032).

/// Deepest stack that is looked at; real ones have two or three.
const DEEPEST: usize = 16;
/// Ethernet's header.
const HEADER: usize = 14;
/// EtherTypes of MPLS: to one receiver, to many.
const KINDS: [u16; 2] = [0x8847, 0x8848];

/// One entry of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// 20 bits.
    pub label: u32,
    /// Time to live.
    pub ttl: u8,
    /// Whether it is the last.
    pub bottom: bool,
}

/// The entries of a frame's stack, the outermost first; none where it is no frame of MPLS. A stack that is cut short
/// ends where it is cut.
pub fn stack(frame: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    let kind = frame.get(12..).and_then(|rest| rest.first_chunk::<2>()).map(|kind| u16::from_be_bytes(*kind));
    let labelled = kind.is_some_and(|kind| KINDS.contains(&kind));
    let rest = if labelled { frame.get(HEADER..).unwrap_or_default() } else { &[] };
    let mut over = false;
    rest.as_chunks::<4>().0.iter().take(DEEPEST).map_while(move |entry| {
        if over {
            return None;
        }
        let bits = u32::from_be_bytes(*entry);
        let entry = Entry { label: bits >> 12, ttl: bits as u8, bottom: bits & 0x100 != 0 };
        over = entry.bottom;
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(entries: &[u32]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(0x8847_u16.to_be_bytes());
        frame.extend(entries.iter().flat_map(|entry| entry.to_be_bytes()));
        frame
    }

    #[test]
    fn a_vpns_two_labels_are_read() {
        let mut bytes = frame(&[(17 << 12) | 63, (80 << 12) | 0x100 | 63]);
        bytes.extend([0x45, 0, 0, 84, 0, 0, 0, 0]);
        let found: Vec<Entry> = stack(&bytes).collect();
        assert_eq!(
            found,
            [Entry { label: 17, ttl: 63, bottom: false }, Entry { label: 80, ttl: 63, bottom: true },]
        );
        bytes[12] = 8;
        bytes[13] = 0;
        assert_eq!(stack(&bytes).count(), 0, "IPv4 has none");
    }

    #[test]
    fn a_stack_without_an_end_is_not_followed_for_ever() {
        assert_eq!(stack(&frame(&[0; 100])).count(), DEEPEST);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(stack(&bytes).count() <= DEEPEST);
        }
    }
}
