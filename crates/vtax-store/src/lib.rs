//! The run directory: versioned formats, readers and writers (docs/formats.md).
//!
//! [`RunDir::create`] and [`RunDir::resume`] give the one [`RunWriter`] a run may have;
//! [`RunDir::open`] reads, also while the run goes on. What a finished trial wrote survives
//! `kill -9` and power failure: its files are synced and renamed into place before the line of
//! the journal that makes it count.

mod brief;
pub mod calibration;
mod capacity;
mod error;
pub mod failover;
mod files;
mod generators;
mod hlog;
pub mod ims;
mod journal;
mod journal2;
mod live;
pub mod network;
mod observation;
mod pages;
mod pairs;
mod parquet_file;
mod probes;
pub mod provenance;
pub mod record;
mod run;
mod samples;
pub mod storage;
pub mod summary;
mod tail;
mod trial;
mod unknown;
mod validity;

pub use brief::{RunBrief, RunStamp, TAGS_FACT, VerdictCounts};
pub use calibration::{CALIBRATION_VERSION, CalibratedEffect, Calibration};
pub use error::StoreError;
pub use files::refuse_links;
pub use journal::{JOURNAL_MINOR, JOURNAL_VERSION, Journal};
pub use live::{LiveComparison, LiveReader, LiveState, LiveTrial, LiveWriter};
pub use pairs::Pairs;
pub use probes::{PROBES_VERSION, ProbeRow};
pub use provenance::{PROVENANCE_VERSION, Provenance};
pub use run::{
    HOSTS_FILE, OwnDirectory, RunDir, RunWriter, SESSIONS_MAX, create_directory, lock_journal, open_file,
    write_file,
};
pub use samples::SAMPLES_VERSION;
pub use tail::{JournalLine, JournalTail, is_locked, is_written};
pub use trial::{TrialDir, TrialEvent, TrialWriter};
