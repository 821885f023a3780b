//! A queue ordered by time whose members can join and leave anywhere.

const NONE: u32 = u32::MAX;
/// The time of a number that isn't in the queue, as far as [`Queue::take`] knows.
const ABSENT: u64 = u64::MAX;

/// Numbers below a bound, each at most once, in the order of a time for each. They mostly come in that order.
/// All memory is taken at the beginning.
#[derive(Debug)]
pub(super) struct Queue {
    nodes: Vec<Node>,
    first: u32,
    last: u32,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    time: u64,
    previous: u32,
    next: u32,
}

impl Queue {
    /// For numbers below `bound`.
    pub(super) fn new(bound: usize) -> Self {
        Self {
            nodes: vec![Node { time: ABSENT, previous: NONE, next: NONE }; bound],
            first: NONE,
            last: NONE,
        }
    }

    /// The first, with its time.
    pub(super) fn first(&self) -> Option<(u32, u64)> {
        self.nodes.get(self.first as usize).map(|node| (self.first, node.time))
    }

    /// Adds a number that is not in the queue.
    pub(super) fn push(&mut self, number: u32, time: u64) {
        let (mut previous, mut next) = (self.last, NONE);
        while previous != NONE && self.nodes[previous as usize].time > time {
            next = previous;
            previous = self.nodes[previous as usize].previous;
        }
        self.nodes[number as usize] = Node { time, previous, next };
        match previous {
            NONE => self.first = number,
            previous => self.nodes[previous as usize].next = number,
        }
        match next {
            NONE => self.last = number,
            next => self.nodes[next as usize].previous = number,
        }
    }

    /// Takes a number out, where it is in the queue; its time. Of a queue that [`remove`](Self::remove) isn't used on, which would leave
    /// numbers behind that seem to be there.
    pub(super) fn take(&mut self, number: u32) -> Option<u64> {
        if self.nodes.get(number as usize)?.time == ABSENT {
            return None;
        }
        let time = self.remove(number);
        self.nodes[number as usize].time = ABSENT;
        Some(time)
    }

    /// Takes a number out that is in the queue; its time.
    pub(super) fn remove(&mut self, number: u32) -> u64 {
        let Node { time, previous, next } = self.nodes[number as usize];
        match previous {
            NONE => self.first = next,
            previous => self.nodes[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.nodes[next as usize].previous = previous,
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_queue_behaves_like_a_sorted_list(
            steps in proptest::collection::vec((0_u32..20, 0_u64..5), 0..200),
        ) {
            let mut queue = Queue::new(20);
            let mut model: Vec<(u32, u64)> = Vec::new();
            for (step, (number, earlier)) in (0_u64..).zip(steps) {
                let time = step.saturating_sub(earlier);
                match model.iter().position(|(other, _)| *other == number) {
                    Some(at) => prop_assert_eq!(queue.remove(number), model.remove(at).1),
                    None => {
                        queue.push(number, time);
                        // Behind all of the same time.
                        let at = model.partition_point(|(_, other)| *other <= time);
                        model.insert(at, (number, time));
                    }
                }
                prop_assert_eq!(queue.first(), model.first().copied());
            }
        }
    }
}
