//! Chapters that every run has, whatever its workload.

pub(crate) mod cpu;
pub(crate) mod generators;
mod glossary;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod provenance;
pub(crate) mod scalability;
mod series;
pub(crate) mod time;
pub(crate) mod trial;
pub(crate) mod trials;
pub(crate) mod verdicts;
mod why;
