//! A worker's subscribers: who is registered, who is free.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

/// No user, or no attempt.
pub(crate) const NONE: u32 = u32::MAX;

/// Where a user is while in no scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pool {
    Unregistered,
    Registered,
}

/// The pools. One array holds the unregistered users, then the registered, then the busy ones, so
/// that drawing, reserving and giving back are a few exchanges, however many users there are.
#[derive(Debug)]
pub(crate) struct Users {
    order: Vec<u32>,
    /// By user; both are looked at together, and of a million users seldom any is in the cache.
    users: Vec<User>,
    /// Where the registered users begin, and the busy ones.
    registered: u32,
    busy: u32,
}

/// What is known of one user.
#[derive(Debug, Clone, Copy)]
struct User {
    /// Where it is in `order`.
    place: u32,
    /// What it is busy with, or [`NONE`].
    attempt: u32,
}

impl Users {
    /// So many users, all unregistered.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            order: (0..count).collect(),
            users: (0..count).map(|place| User { place, attempt: NONE }).collect(),
            registered: count,
            busy: count,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.order.len() as u32
    }

    pub(crate) fn unregistered(&self) -> u32 {
        self.registered
    }

    pub(crate) fn registered(&self) -> u32 {
        self.busy - self.registered
    }

    pub(crate) fn busy(&self) -> u32 {
        self.len() - self.busy
    }

    /// The attempt a busy user is in.
    pub(crate) fn attempt_of(&self, user: u32) -> Option<u32> {
        self.users.get(user as usize).map(|user| user.attempt).filter(|attempt| *attempt != NONE)
    }

    /// Takes a user out of a pool, any with the same chance, for the attempt.
    pub(crate) fn draw(&mut self, pool: Pool, attempt: u32, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let range = match pool {
            Pool::Unregistered => 0..self.registered,
            Pool::Registered => self.registered..self.busy,
        };
        if range.is_empty() {
            return None;
        }
        let user = self.order[rng.random_range(range) as usize];
        if pool == Pool::Unregistered {
            self.registered -= 1;
            self.swap(user, self.registered);
        }
        self.busy -= 1;
        self.swap(user, self.busy);
        self.users[user as usize].attempt = attempt;
        Some(user)
    }

    /// Gives a busy user back.
    pub(crate) fn release(&mut self, user: u32, pool: Pool) {
        self.swap(user, self.busy);
        self.busy += 1;
        if pool == Pool::Unregistered {
            self.swap(user, self.registered);
            self.registered += 1;
        }
        self.users[user as usize].attempt = NONE;
    }

    /// Puts a user at a place, and the user who is there at this one's.
    fn swap(&mut self, user: u32, to: u32) {
        let (from, other) = (self.users[user as usize].place, self.order[to as usize]);
        (self.order[from as usize], self.users[other as usize].place) = (other, from);
        (self.order[to as usize], self.users[user as usize].place) = (user, to);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    proptest! {
        #[test]
        fn a_user_is_in_one_pool(steps in proptest::collection::vec((any::<bool>(), any::<bool>(), 0_u32..20), 0..300)) {
            let mut users = Users::new(12);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
            let mut pools = BTreeMap::from_iter((0..12).map(|user| (user, Some(Pool::Unregistered))));
            for (draw, registered, number) in steps {
                let pool = if registered { Pool::Registered } else { Pool::Unregistered };
                let free = pools.values().filter(|p| **p == Some(pool)).count();
                if draw {
                    let drawn = users.draw(pool, number, &mut rng);
                    prop_assert_eq!(drawn.is_some(), free > 0);
                    if let Some(user) = drawn {
                        prop_assert_eq!(pools.insert(user, None), Some(Some(pool)));
                        prop_assert_eq!(users.attempt_of(user), Some(number));
                    }
                } else if let Some(user) = pools.iter().find(|(_, p)| p.is_none()).map(|(user, _)| *user) {
                    users.release(user, pool);
                    pools.insert(user, Some(pool));
                    prop_assert_eq!(users.attempt_of(user), None);
                }
                let count = |p| pools.values().filter(|v| **v == p).count() as u32;
                prop_assert_eq!(users.unregistered(), count(Some(Pool::Unregistered)));
                prop_assert_eq!(users.registered(), count(Some(Pool::Registered)));
                prop_assert_eq!(users.busy(), count(None));
            }
        }
    }

    #[test]
    fn every_user_has_the_same_chance() {
        let mut users = Users::new(10);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut drawn = [0_u32; 10];
        for _ in 0..100_000 {
            let user = users.draw(Pool::Unregistered, 0, &mut rng).unwrap();
            drawn[user as usize] += 1;
            users.release(user, Pool::Unregistered);
        }
        // 10,000 each; five standard deviations are 474.
        assert!(drawn.iter().all(|n| n.abs_diff(10_000) < 474), "{drawn:?}");
    }
}
