//! Which of a series of numbers have come, and in which order.

/// Which numbers were seen, as far back as a window reaches.
#[derive(Debug)]
pub(in super::super) struct Numbers {
    seen: Box<[u64]>,
    /// One more than the highest.
    next: u64,
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Seen {
    InOrder,
    Late,
    Again,
}

const WINDOW: u64 = 1 << 16;

impl Numbers {
    pub(in super::super) fn new() -> Self {
        Self { seen: vec![0; (WINDOW / 64) as usize].into_boxed_slice(), next: 0 }
    }

    pub(in super::super) fn see(&mut self, number: u64) -> Seen {
        if number >= self.next {
            if number - self.next >= WINDOW {
                self.seen.fill(0);
            } else {
                (self.next..=number).for_each(|n| self.clear(n));
            }
            self.next = number + 1;
            self.set(number);
            return Seen::InOrder;
        }
        // Beyond the window it can't be told from a duplicate; a late one is likelier.
        if self.next - number > WINDOW {
            return Seen::Late;
        }
        if self.get(number) {
            return Seen::Again;
        }
        self.set(number);
        Seen::Late
    }

    fn place(number: u64) -> (usize, u64) {
        let bit = number % WINDOW;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn get(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] |= bit;
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_told_apart_like_a_set_does(numbers in proptest::collection::vec(0_u64..5_000, 0..400)) {
            let mut seen = Numbers::new();
            let mut model = std::collections::BTreeSet::new();
            for number in numbers {
                let expected = if model.contains(&number) {
                    Seen::Again
                } else if model.last().is_some_and(|last| number < *last) {
                    Seen::Late
                } else {
                    Seen::InOrder
                };
                prop_assert_eq!(seen.see(number), expected);
                model.insert(number);
            }
        }

        #[test]
        fn any_numbers_do(numbers in proptest::collection::vec(0..u64::MAX, 0..50)) {
            let mut seen = Numbers::new();
            numbers.into_iter().for_each(|number| _ = seen.see(number));
        }
    }
}
