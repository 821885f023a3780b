//! SIPp's scenario files: read, checked and compiled, without I/O.
//!
//! [`Scenario::compile`] takes the XML of a scenario as SIPp has it and makes of it what an engine carries out: commands in order,
//! messages as templates, jumps as numbers, regular expressions as programs. Whatever it doesn't know, and whatever SIPp knows that vtax
//! doesn't do, is a [`Problem`] with its line; a scenario with one is refused as a whole, before anything is sent.
//!
//! Compiling allocates, once and within bounds; what is compiled is carried out without.

mod actions;
mod compile;
mod ere;
mod injection;
mod model;
mod template;
mod xml;

pub use ere::{Ere, EreError, Found, GROUPS_MAX, Matcher};
pub use injection::{Held, Injection, InjectionError, Order};
pub use model::*;
pub use template::{Keyword, Names, Part, Template};

/// Longest scenario file.
pub const SCENARIO_BYTES_MAX: usize = 1 << 20;
/// Most problems that are told of one file.
pub const PROBLEMS_MAX: usize = 50;

/// What is wrong with a scenario, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, from 1.
    pub line: u32,
    /// What is wrong, in words.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Collects problems.
#[derive(Debug, Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, line: u32, what: impl Into<String>) {
        if self.0.len() < PROBLEMS_MAX {
            self.0.push(Problem { line, what: what.into() });
        }
    }
}
