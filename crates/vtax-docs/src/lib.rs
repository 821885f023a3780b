//! What a word means, answered from the documentation.
//!
//! The pages are taken in as they are when vtax is built, so that no text is kept twice. [`explain`] looks a word up in what
//! pages define: rows of tables by their first cell, paragraphs and items that begin with a word in bold, and headings.

mod find;
mod read;

pub use find::{Answer, Explained, explain, terms};

/// Takes in a page of `docs/`.
macro_rules! taken {
    ($($name:literal),* $(,)?) => {
        &[$((concat!("docs/", $name), include_str!(concat!("../docs/", $name)))),*]
    };
}

/// Every page by its place in the repository, the one that is asked first at the front.
pub(crate) const PAGES: &[(&str, &str)] = taken![
    "words.md",
    "methodology.md",
    "plan.md",
    "failover-report.md",
    "compare.md",
    "many-machines.md",
    "links.md",
    "voice.md",
    "labs.md",
    "storage.md",
    "storage-protocols.md",
    "ftp.md",
    "desktop.md",
    "redis.md",
    "ims.md",
    "http.md",
    "sipp.md",
    "consolidation.md",
    "fault-tolerance.md",
    "load.md",
    "probes.md",
    "services.md",
    "studies.md",
    "serve.md",
    "vm.md",
    "privileges.md",
    "formats.md",
    "install.md",
    "extending.md",
];
