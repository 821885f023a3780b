//! Named cases, one after the other: for test programs that fork, which cargo's harness with its threads doesn't let them do.
//! What they print has its form.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The cases that a command line picks, and what came of those that ran.
#[derive(Debug)]
pub struct Cases {
    picked: Picked,
    failed: Vec<String>,
}

#[derive(Debug)]
enum Picked {
    All,
    With(Vec<String>),
    Without(Vec<String>),
    Only(Vec<String>),
}

impl Cases {
    /// Those that these words pick, as with cargo's harness: words those whose names contain one of them, words that come each after
    /// a `--skip` all others, and whole names come after `--exact`.
    #[must_use]
    pub fn picked_by(arguments: &[String]) -> Self {
        let picked = match arguments {
            [exact, names @ ..] if exact == "--exact" => Picked::Only(names.to_vec()),
            [skip, _, ..] if skip == "--skip" => Picked::Without(words(arguments)),
            [word, ..] if !word.starts_with('-') => Picked::With(words(arguments)),
            _ => Picked::All,
        };
        Self { picked, failed: Vec::new() }
    }

    /// Whether the case of that name is to run.
    #[must_use]
    pub fn want(&self, name: &str) -> bool {
        match &self.picked {
            Picked::All => true,
            Picked::With(words) => words.iter().any(|word| name.contains(word.as_str())),
            Picked::Without(words) => !words.iter().any(|word| name.contains(word.as_str())),
            Picked::Only(names) => names.iter().any(|only| only == name),
        }
    }

    /// Runs a case, which panics where it fails, if it is picked. The others run all the same.
    #[allow(clippy::print_stdout, reason = "a test's report")]
    pub fn run(&mut self, name: &str, case: impl FnOnce()) {
        if !self.want(name) {
            return;
        }
        let started = Instant::now();
        let passed = catch_unwind(AssertUnwindSafe(case)).is_ok();
        let word = if passed { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.1} s)", started.elapsed().as_secs_f64());
        if !passed {
            self.failed.push(name.to_owned());
        }
    }

    /// Ends the program's work.
    ///
    /// # Panics
    ///
    /// Where a case failed.
    pub fn conclude(self) {
        assert!(self.failed.is_empty(), "{:#?}", self.failed);
    }
}

/// Those of a command line that are no options.
fn words(arguments: &[String]) -> Vec<String> {
    arguments.iter().filter(|word| !word.starts_with('-')).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(arguments: &[&str]) -> Vec<&'static str> {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let cases = Cases::picked_by(&arguments);
        ["nat", "nat, two systems", "ovs"].into_iter().filter(|name| cases.want(name)).collect()
    }

    #[test]
    fn words_pick_cases_as_with_cargos_harness() {
        assert_eq!(wanted(&["nat"]), ["nat", "nat, two systems"]);
        assert_eq!(wanted(&["--exact", "nat"]), ["nat"]);
        assert_eq!(wanted(&["--exact", "ovs", "nat"]), ["nat", "ovs"]);
        assert_eq!(wanted(&["two", "ovs"]), ["nat, two systems", "ovs"]);
        assert_eq!(wanted(&["--skip", "nat"]), ["ovs"]);
        assert_eq!(wanted(&["--skip", "two", "--skip", "ovs"]), ["nat"]);
        for all in [&[][..], &["--nocapture"]] {
            assert_eq!(wanted(all).len(), 3, "{all:?}");
        }
    }

    #[test]
    fn all_run_whatever_fails_and_what_failed_is_told() {
        let mut cases = Cases::picked_by(&[]);
        let mut ran = 0;
        cases.run("a", || panic!("no"));
        cases.run("b", || ran += 1);
        assert_eq!((ran, cases.failed.as_slice()), (1, &["a".to_owned()][..]));
        assert!(catch_unwind(|| cases.conclude()).is_err());
        Cases::picked_by(&[]).conclude();
    }
}
