//! What a host was short of while several systems ran on it, by its counters.

use vtax_store::record::TrialRecord;
use vtax_units::fact;

use crate::format::quantity;

/// CPUs that are busier than this have nothing left to give.
const CPU_FULL: f64 = 0.9;
/// Time that tasks waited for memory or a disk, or that a hypervisor took, worth naming.
const WAITED: f64 = 0.05;
/// A worker of the generator that is busier than this may be what is measured.
const GENERATOR_FULL: f64 = 0.85;

/// Counters of one cell's trials: medians, and of pages swapped the most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Pressure {
    /// Share of the systems' CPUs that was busy with anything.
    pub(super) cpus_busy: Option<f64>,
    /// Share that a hypervisor above the host took.
    pub(super) steal: Option<f64>,
    /// Share of the time in which some task waited for memory.
    pub(super) memory_wait: Option<f64>,
    pub(super) swapped_pages: f64,
    /// Share of the time in which some task waited for a disk.
    pub(super) disk_wait: Option<f64>,
    /// How often the systems met the limit of the memory that they have together; `None` where there is no such limit.
    pub(super) at_limit: Option<f64>,
    /// The busiest worker's share of its CPU.
    pub(super) generator: Option<f64>,
}

impl Pressure {
    /// Of these trials, which are of one cell and measure.
    pub(super) fn of<'a>(trials: impl Iterator<Item = &'a TrialRecord> + Clone) -> Self {
        let values_of = |name: &str| {
            let values = trials.clone().filter_map(|trial| trial.facts.get(name)?.parse::<f64>().ok());
            values.filter(|value| value.is_finite()).collect::<Vec<f64>>()
        };
        let generator = trials.clone().filter_map(|trial| Some(trial.finding()?.load()?.generator.busiest));
        Self {
            cpus_busy: median(values_of(fact::HOST_SUT_CPUS_BUSY)),
            steal: median(values_of(fact::HOST_STEAL)),
            memory_wait: median(values_of(fact::HOST_MEMORY_WAIT)),
            disk_wait: median(values_of(fact::HOST_DISK_WAIT)),
            swapped_pages: values_of(fact::HOST_SWAPPED_PAGES).into_iter().fold(0.0, f64::max),
            at_limit: median(values_of(fact::SYSTEMS_MEMORY_AT_LIMIT)),
            generator: median(generator.collect()),
        }
    }

    /// What there was too little of, each with its counter; or what there was enough of.
    pub(super) fn words(&self) -> String {
        let share = |value: Option<f64>| value.map_or_else(|| "not known".to_owned(), |v| quantity(v, "1"));
        let beyond = |value: Option<f64>, limit: f64| value.is_some_and(|value| value >= limit);
        let mut short = Vec::new();
        if beyond(self.generator, GENERATOR_FULL) {
            short.push(format!(
                "the generator, whose busiest worker used {} of its CPU",
                share(self.generator)
            ));
        }
        if let Some(times) = self.at_limit.filter(|times| *times > 0.0) {
            short.push(format!(
                "memory: the systems met the limit of what they have together {times:.0} times"
            ));
        }
        if self.swapped_pages > 0.0 {
            short.push(format!("memory: the host swapped {:.0} pages", self.swapped_pages));
        }
        if beyond(self.memory_wait, WAITED) {
            short.push(format!("memory: tasks waited for it {} of the time", share(self.memory_wait)));
        }
        if beyond(self.disk_wait, WAITED) {
            short.push(format!("disk: tasks waited for it {} of the time", share(self.disk_wait)));
        }
        if beyond(self.cpus_busy, CPU_FULL) {
            short.push(format!("CPU: the systems' CPUs were {} busy", share(self.cpus_busy)));
        }
        if beyond(self.steal, WAITED) {
            short.push(format!("CPU: a hypervisor above the host took {} of it", share(self.steal)));
        }
        if short.is_empty() {
            return format!(
                "nothing that is counted: the systems' CPUs were {} busy, tasks waited for memory {} and for a disk \
                 {} of the time, the host swapped nothing, and the generator's busiest worker used {} of its CPU",
                share(self.cpus_busy),
                share(self.memory_wait),
                share(self.disk_wait),
                share(self.generator)
            );
        }
        short.join("; ")
    }
}

/// The middle value, of an even number the lower one; `None` of none.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_short_is_named_by_its_counter() {
        let quiet = Pressure {
            cpus_busy: Some(0.4),
            steal: Some(0.0),
            memory_wait: Some(0.0),
            swapped_pages: 0.0,
            disk_wait: Some(0.01),
            at_limit: Some(0.0),
            generator: Some(0.2),
        };
        assert!(quiet.words().starts_with("nothing that is counted: the systems' CPUs were 40.0 % busy"));
        let cpu = Pressure { cpus_busy: Some(0.97), ..quiet };
        assert_eq!(cpu.words(), "CPU: the systems' CPUs were 97.0 % busy");
        let memory = Pressure { swapped_pages: 12.0, memory_wait: Some(0.5), ..cpu };
        let words = memory.words();
        assert!(
            words.starts_with("memory: the host swapped 12 pages; memory: tasks waited for it 50.0 %"),
            "{words}"
        );
        let disk = Pressure { disk_wait: Some(0.4), ..quiet };
        assert_eq!(disk.words(), "disk: tasks waited for it 40.0 % of the time");
        let limited = Pressure { at_limit: Some(40.0), ..quiet };
        assert_eq!(limited.words(), "memory: the systems met the limit of what they have together 40 times");
        let generator = Pressure { generator: Some(0.99), ..quiet };
        assert!(generator.words().starts_with("the generator, whose busiest worker used 99.0 %"));
        assert!(Pressure::default().words().contains("CPUs were not known busy"));
    }

    #[test]
    fn the_middle_is_one_of_the_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(1.0));
        assert_eq!(median(Vec::new()), None);
    }
}
