//! Memory of a service's processes, which share some of it.

/// Memory of processes at one moment, in bytes: what is each one's own, and what the largest of them shares.
///
/// What a family of processes has in common shows as resident with each of them. Which of it is the same only the
/// page tables tell, and reading those would disturb the service.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Footprint {
    own: f64,
    shared: f64,
}

impl Footprint {
    /// Adds a figure of one process, where it is about memory: `resident`, and how much of that is `shared`.
    pub(crate) fn add(&mut self, metric: &str, value: f64) {
        match metric {
            "resident" => self.own += value,
            "shared" => {
                self.own -= value;
                self.shared = self.shared.max(value);
            }
            _ => {}
        }
    }

    /// All of it.
    pub(crate) fn total(self) -> f64 {
        self.own + self.shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_share_counts_once() {
        let mut memory = Footprint::default();
        // Ten workers of one service, each with 5 of its own and nearly the same 100 in common.
        for worker in 0..10 {
            let shared = 100.0 - f64::from(worker);
            memory.add("resident", shared + 5.0);
            memory.add("shared", shared);
            memory.add("user", 1e9);
        }
        assert_eq!(memory.total(), 150.0);
    }
}
